//! HTTP/2: several concurrent requests on each connection, each in its own stream.
//!
//! Place number `link × streams + slot` holds one request at a time, in a stream of that link. A link is open once the
//! server's SETTINGS have come: then the server is known to speak HTTP/2, and how many streams it allows. Requests that
//! result from one read are queued, and sent together by one call when the read is done; all have the send time of that call.

mod closing;
mod opening;
mod requests;
mod responses;

use super::Worker;
use super::first_byte::Timed;
use super::link::{Link, Place, State};
use super::protocol::{Protocol, Wants};
use crate::block_run::{BlockRun, LoadModel};
use crate::coalescing::{CoalescingRule, MIN_OUTSTANDING, TogetherTrial};
use crate::error::EngineError;
use crate::http2::frame::code_name;
use crate::http2::{Broken, Connection, Request};
use crate::io::{Coalescing, Event, Transport, split_token};
use crate::patience::Patience;
use crate::plan::SessionPlan;
use crate::response::Reader;
use crate::sys;
use std::io::{Error, ErrorKind};
use std::time::Duration;

/// Separator in [`Http2Link::leaving`]: the slots before it were sent together. No slot has this number.
const FLUSHED: u32 = u32::MAX;
/// Longest expected read of several responses on one connection; a worker's buffer is twice as long.
const MAX_TOGETHER: usize = 30 * 1024;

/// What a link is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    /// There is no connection; the next request opens one.
    Closed,
    /// The handshakes of TCP and TLS are not complete.
    Connecting,
    /// The engine has sent its preface and SETTINGS, and waits for the server's SETTINGS.
    Greeting,
    /// It accepts requests.
    Open,
    /// It accepts no new requests, and is closed when those in flight have ended.
    Ending,
}

/// The state of a connection.
pub(super) struct Http2Link {
    state: LinkState,
    /// No response has come on this connection.
    fresh: bool,
    /// It has bytes to send, and is in [`Http2::dirty`].
    dirty: bool,
    /// When opening it began.
    since_ns: u64,
    /// When something was last received.
    heard_ns: u64,
    http2: Connection,
    /// Slots whose requests are sent by the next flush. If a transport sends later, slots stay here until the send time is
    /// known, with [`FLUSHED`] after each flush.
    leaving: Vec<u32>,
    /// Requests and bytes of the latest flush.
    flushed: (usize, u64),
    /// Requests since then.
    unflushed: usize,
    /// Error code of the server's GOAWAY, if it is an error.
    goaway_error: Option<u32>,
}

/// A place, and the reader of its response.
#[repr(align(64))]
struct Stream {
    place: Place,
    reader: Reader,
}

/// HTTP/2.
pub(super) struct Http2 {
    requests: Vec<Request>,
    /// Number of places of each link.
    streams: usize,
    places: Vec<Stream>,
    /// Links with bytes to send.
    dirty: Vec<usize>,
    /// Buffer for slots whose responses came with one read.
    over: Vec<u32>,
    /// Used with several streams per connection and few connections.
    together_trial: Option<TogetherTrial>,
}

impl Http2 {
    fn of(&self, index: usize) -> (usize, usize) {
        (index / self.streams, index % self.streams)
    }
}

impl Protocol for Http2 {
    type Link = Http2Link;
    type FirstByte = Timed;

    const ONE_AT_A_TIME: bool = false;

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

    fn streams_allowed<S>(&self, links: &[Link<S, Http2Link>]) -> Option<usize> {
        let settled = links.iter().filter(|link| link.proto.http2.settled());
        settled.map(|link| link.proto.http2.max_streams()).min()
    }

    /// No request is sent unchanged, and a read may bring as many responses as there are streams.
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

    /// Consecutive places belong to different links.
    fn free_places(&self, links: usize) -> impl Iterator<Item = usize> + use<> {
        let streams = self.streams;
        (0..streams).flat_map(move |slot| (0..links).map(move |link| link * streams + slot))
    }

    /// Prefetches a link, and its first place.
    #[inline]
    fn prefetch<S>(&self, links: &[Link<S, Http2Link>], token: u64) {
        let link = split_token(token).0;
        if let (Some(connection), Some(stream)) = (links.get(link), self.places.get(link * self.streams)) {
            sys::prefetch(connection);
            sys::prefetch(stream);
        }
    }

    /// One read may bring many responses, so the wait is for at most half of the connections.
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
        patience: &Patience,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        worker.look_at_link(event, patience, block_run, buffer);
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

/// The reason for the end of a link, for places and samples.
fn why_broken(broken: &Broken) -> String {
    format!("HTTP/2: {} ({})", broken.why, code_name(broken.code))
}

impl<T: Transport> Worker<T, Http2> {
    fn places(&self, link: usize) -> std::ops::Range<usize> {
        link * self.proto.streams..(link + 1) * self.proto.streams
    }

    /// Brings links and their places into the state in which a block begins.
    fn tidy_links(&mut self) {
        self.proto.dirty.clear();
        for link in 0..self.links.len() {
            let connection = &mut self.links[link].proto;
            connection.dirty = false;
            let sound =
                connection.state == LinkState::Open && connection.http2.active() == 0 && self.core.plan.keepalive;
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
