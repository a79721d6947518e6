//! HTTP/2: several requests at a time on each connection, each in a stream of its own.
//!
//! Only sessions over a back end with [`Poller::MULTIPLEXES`] come here. What is a connection elsewhere in the worker is a
//! *place* for one request at a time here: place number `link × streams + slot`. A *link* is the connection under such
//! places. A link is open once the server's SETTINGS have come: then it is known to speak HTTP/2, and how many streams it
//! allows. Requests that a link is given while one read is looked at leave by one call, and all depart at its begin.

mod arriving;
mod ending;
mod leaving;
mod opening;

use super::WorkerSession;
use crate::conn::{State, place};
use crate::error::EngineError;
use crate::http2::frame::code_name;
use crate::http2::{Broken, Connection, Request};
use crate::io::Poller;
use crate::plan::SessionPlan;
use crate::sys;
use std::io::{Error, ErrorKind};

/// Among the slots whose requests leave: those before it left together. No slot has this number.
const FLUSHED: u32 = u32::MAX;

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

/// A connection under places.
struct Link<S> {
    socket: Option<S>,
    state: LinkState,
    /// No answer has come over it.
    fresh: bool,
    /// Flushing is due.
    dirty: bool,
    failures: u8,
    generation: u32,
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
    /// Why the server said that it goes away, where that is an error.
    farewell: Option<u32>,
}

/// What a session over HTTP/2 has besides its places.
pub(super) struct Links<S> {
    all: Vec<Link<S>>,
    requests: Vec<Request>,
    /// Places of each.
    streams: usize,
    /// Those that want to be flushed.
    dirty: Vec<usize>,
    /// Slots whose answers came with one read, while that is looked at.
    over: Vec<u32>,
}

impl<S> Links<S> {
    /// For `count` connections; none where the session does not speak HTTP/2.
    ///
    /// # Errors
    /// As [`SessionPlan::http2_requests`].
    pub(super) fn new(plan: &SessionPlan, count: usize) -> Result<Self, EngineError> {
        let (streams, count) = (plan.streams as usize, if plan.streams > 0 { count } else { 0 });
        let link = |_| Link {
            socket: None,
            state: LinkState::Closed,
            fresh: true,
            dirty: false,
            failures: 0,
            generation: 0,
            since_ns: 0,
            heard_ns: 0,
            http2: Connection::new(streams, 1),
            leaving: Vec::with_capacity(2 * streams),
            flushed: (0, 0),
            unflushed: 0,
            farewell: None,
        };
        let requests = if streams > 0 { plan.http2_requests()? } else { Vec::new() };
        let (dirty, over) = (Vec::with_capacity(count), Vec::with_capacity(streams));
        Ok(Self { all: (0..count).map(link).collect(), requests, streams, dirty, over })
    }

    /// How many connections there are.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    fn token(&self, link: usize) -> u64 {
        u64::from(self.all[link].generation) << 32 | link as u64
    }

    /// Places in an order in which neighbours are of different links.
    pub(super) fn dealt(&self) -> impl Iterator<Item = usize> + use<S> {
        let (count, streams) = (self.all.len(), self.streams);
        (0..streams).flat_map(move |slot| (0..count).map(move |link| link * streams + slot))
    }

    fn of(&self, index: usize) -> (usize, usize) {
        (index / self.streams, index % self.streams)
    }
}

/// What a link is told to have met, for places and samples.
fn why_broken(broken: &Broken) -> String {
    format!("HTTP/2: {} ({})", broken.why, code_name(broken.code))
}

impl<P: Poller> WorkerSession<P> {
    /// As [`WorkerSession::fetch`]: a link that has its turn soon, and the place that a connection with one stream has.
    #[inline]
    pub(super) fn fetch_link(&self, token: u64) {
        let link = place(token).0;
        if let (Some(here), Some(conn)) = (self.links.all.get(link), self.conns.get(link * self.links.streams)) {
            sys::prefetch(here);
            sys::prefetch(conn);
        }
    }

    fn places(&self, link: usize) -> std::ops::Range<usize> {
        link * self.links.streams..(link + 1) * self.links.streams
    }

    /// Leaves links and their places as the next block should find them.
    pub(super) fn tidy_links(&mut self) {
        self.links.dirty.clear();
        for link in 0..self.links.all.len() {
            let here = &mut self.links.all[link];
            (here.failures, here.dirty) = (0, false);
            let sound = here.state == LinkState::Open && here.http2.active() == 0 && self.plan.keepalive;
            if !sound {
                self.drop_link(link);
            }
            let state = if sound { State::Idle } else { State::Closed };
            for index in self.places(link) {
                (self.conns[index].state, self.conns[index].fresh) = (state, false);
            }
        }
    }
}

fn socket_of<S>(link: &Link<S>) -> Result<&S, Error> {
    link.socket.as_ref().ok_or_else(|| ErrorKind::NotConnected.into())
}
