//! HTTP/2: several requests at a time on each connection, each in a stream of its own.
//!
//! Place number `link × streams + slot` is for one request at a time in a stream of that link's. A link is open once the
//! server's SETTINGS have come: then it is known to speak HTTP/2, and how many streams it allows. Requests that a link is
//! given while one read is looked at leave by one call, and all depart at its begin.

mod arriving;
mod ending;
mod leaving;
mod opening;

use super::Worker;
use super::link::{Link, Place, State};
use super::protocol::{Protocol, Wants};
use crate::block_run::{BlockRun, LoadModel};
use crate::coalescing::{CoalescingRule, MIN_OUTSTANDING, TogetherTrial};
use crate::error::EngineError;
use crate::http2::frame::code_name;
use crate::http2::{Broken, Connection, Request};
use crate::io::{Coalescing, Event, Transport, split_token};
use crate::plan::SessionPlan;
use crate::response::Reader;
use crate::sys;
use std::io::{Error, ErrorKind};
use std::time::Duration;

/// Among the slots whose requests leave: those before it left together. No slot has this number.
const FLUSHED: u32 = u32::MAX;
/// Bytes of several answers over one connection that a read is given room for; what a worker reads into is twice as long.
const MAX_TOGETHER: usize = 30 * 1024;

/// What a link is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    /// There is none; the next request that wants it opens it.
    Closed,
    /// Handshakes of TCP and TLS.
    Connecting,
    /// We have said what HTTP/2 begins with, and wait for the same.
    Greeting,
    /// It takes requests.
    Open,
    /// It takes no new ones, and closes when those under way are over.
    Ending,
}

/// What it knows of a connection.
pub(super) struct Http2Link {
    state: LinkState,
    /// No answer has come over it.
    fresh: bool,
    /// Flushing is due.
    dirty: bool,
    /// When it began to be opened.
    since_ns: u64,
    /// When something was last heard.
    heard_ns: u64,
    http2: Connection,
    /// Slots whose requests leave with the next flush; where a flush leaves later, until it is known when, with [`FLUSHED`]
    /// behind each.
    leaving: Vec<u32>,
    /// Requests and bytes of the latest flush, and requests for the next.
    flushed: (usize, u64),
    unflushed: usize,
    /// Why the server said that it goes away, if that is an error.
    goaway_error: Option<u32>,
}

/// A place and its answer so far.
#[repr(align(64))]
struct Stream {
    place: Place,
    reader: Reader,
}

/// The protocol.
pub(super) struct Http2 {
    requests: Vec<Request>,
    /// Places of each link.
    streams: usize,
    places: Vec<Stream>,
    /// Links that want to be flushed.
    dirty: Vec<usize>,
    /// Slots whose answers came with one read, while that is looked at.
    over: Vec<u32>,
    /// With several streams on each connection, and few connections.
    together_trial: Option<TogetherTrial>,
}

impl Http2 {
    fn of(&self, index: usize) -> (usize, usize) {
        (index / self.streams, index % self.streams)
    }
}

impl Protocol for Http2 {
    type Link = Http2Link;

    const ONE: bool = false;
    const TIMES_FIRST_BYTE: bool = true;

    fn prepare(plan: &SessionPlan, links: usize) -> Result<Self, EngineError> {
        let streams = plan.protocol.depth();
        let stream = |_| Stream { place: Place::new(), reader: Reader::default() };
        Ok(Self {
            requests: plan.http2_requests()?,
            streams,
            places: (0..links * streams).map(stream).collect(),
            dirty: Vec::with_capacity(links),
            over: Vec::with_capacity(streams),
            together_trial: (streams > 1 && links < MIN_OUTSTANDING).then(TogetherTrial::default),
        })
    }

    fn link(&self) -> Http2Link {
        Http2Link {
            state: LinkState::Closed,
            fresh: true,
            dirty: false,
            since_ns: 0,
            heard_ns: 0,
            http2: Connection::new(self.streams, 1),
            leaving: Vec::with_capacity(2 * self.streams),
            flushed: (0, 0),
            unflushed: 0,
            goaway_error: None,
        }
    }

    fn places_per_link(&self) -> usize {
        self.streams
    }

    /// No request leaves as the plan has it, and a read may bring as many answers as there are streams.
    fn wants(plan: &SessionPlan) -> Wants<'_> {
        let wants = Wants::of(plan);
        let body_bytes = MAX_TOGETHER.min(wants.body_bytes * plan.protocol.depth());
        Wants { requests: Vec::new(), body_bytes, tls: wants.tls.map(|tls| tls.http2()) }
    }

    fn may_read_late(plan: &SessionPlan) -> bool {
        plan.protocol.depth() == 1
    }

    #[inline]
    fn place<'a, S>(&'a mut self, _: &'a mut [Link<S, Http2Link>], index: usize) -> &'a mut Place {
        &mut self.places[index].place
    }

    /// Neighbours are of different links.
    fn free_places(&self, links: usize) -> impl Iterator<Item = usize> + use<> {
        let streams = self.streams;
        (0..streams).flat_map(move |slot| (0..links).map(move |link| link * streams + slot))
    }

    /// A link, and the place that a connection with one stream has.
    #[inline]
    fn prefetch<S>(&self, links: &[Link<S, Http2Link>], token: u64) {
        let link = split_token(token).0;
        if let (Some(here), Some(stream)) = (links.get(link), self.places.get(link * self.streams)) {
            sys::prefetch(here);
            sys::prefetch(stream);
        }
    }

    /// One read may bring many answers: more than half of the connections are not waited for.
    #[inline]
    fn wait_for(&mut self, rule: &CoalescingRule, outstanding: usize, links: usize) -> Option<Coalescing> {
        let several_streams = self.together_trial.is_some();
        let coalescing = rule.wait_for(outstanding, MIN_OUTSTANDING, several_streams);
        if let Some(trial) = &mut self.together_trial
            && trial.ends_with_first(self.streams)
        {
            return None;
        }
        coalescing.map(|it| Coalescing { answers: it.answers.min(links / 2).max(1), ..it })
    }

    fn open<T: Transport>(worker: &mut Worker<T, Self>, limit: Duration) -> Result<(), (usize, Error)> {
        worker.open_links(limit)?;
        worker.tidy_links();
        Ok(())
    }

    #[inline]
    fn may_use<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        block_run: &mut BlockRun<impl LoadModel>,
    ) -> bool {
        worker.allowed(index, block_run)
    }

    #[inline]
    fn send<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.send_stream(index, now_ns, block_run);
    }

    fn connect<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.want_link(index, now_ns, block_run);
    }

    #[inline]
    fn before_wait<T: Transport>(worker: &mut Worker<T, Self>, _: u64, block_run: &mut BlockRun<impl LoadModel>) {
        worker.flush_links(block_run);
    }

    #[inline]
    fn departed<T: Transport>(
        worker: &mut Worker<T, Self>,
        token: u64,
        sent_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.link_departed(token, sent_ns, block_run);
    }

    #[inline]
    fn handle<T: Transport>(
        worker: &mut Worker<T, Self>,
        event: Event,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        worker.link_event(event, block_run, buffer);
    }

    fn read_on<T: Transport>(
        worker: &mut Worker<T, Self>,
        token: u64,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        worker.io.turn_to(token);
        worker.read_link(token, closing, block_run, buffer);
    }

    fn handle_idle<T: Transport>(
        worker: &mut Worker<T, Self>,
        event: Event,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        worker.look_at_link(event, block_run, buffer);
    }

    fn scan<T: Transport>(worker: &mut Worker<T, Self>, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        worker.scan_streams(now_ns, block_run);
    }

    fn tidy<T: Transport>(worker: &mut Worker<T, Self>, block_run: &mut BlockRun<impl LoadModel>) {
        for stream in &mut worker.proto.places {
            block_run.counts.in_flight += u64::from(stream.place.state == State::Waiting);
            stream.reader.reset();
        }
        worker.tidy_links();
    }
}

/// What a link is told to have met, for places and samples.
fn why_broken(broken: &Broken) -> String {
    format!("HTTP/2: {} ({})", broken.why, code_name(broken.code))
}

impl<T: Transport> Worker<T, Http2> {
    fn places(&self, link: usize) -> std::ops::Range<usize> {
        link * self.proto.streams..(link + 1) * self.proto.streams
    }

    /// Leaves links and their places as the next block should find them.
    fn tidy_links(&mut self) {
        self.proto.dirty.clear();
        for link in 0..self.links.len() {
            let here = &mut self.links[link].proto;
            here.dirty = false;
            let sound = here.state == LinkState::Open && here.http2.active() == 0 && self.core.plan.keepalive;
            if !sound {
                self.drop_link(link);
            }
            let state = if sound { State::Idle } else { State::Closed };
            for index in self.places(link) {
                let place = &mut self.proto.places[index].place;
                (place.state, place.fresh) = (state, false);
            }
        }
    }
}

fn socket_of<S>(link: &Link<S, Http2Link>) -> Result<&S, Error> {
    link.socket.as_ref().ok_or_else(|| ErrorKind::NotConnected.into())
}
