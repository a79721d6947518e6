//! HTTP/2: several requests at a time on each connection, each in a stream of its own.
//!
//! Only sessions over a back end with [`Poller::MULTIPLEXES`] come here. What is a connection elsewhere in the worker is a
//! *place* for one request at a time here: place number `link × streams + slot`. A *link* is the connection under such
//! places. A link is open once the server's SETTINGS have come: then it is known to speak HTTP/2, and how many streams it
//! allows. Requests that a link is given while one read is looked at leave by one call, and all depart at its begin.

use super::{MOST_FAILURES, MOST_READS, SCAN_NS, WorkerSession, broken_by};
use crate::block_run::{BlockRun, LoadModel};
use crate::conn::{Linger, State, place};
use crate::error::EngineError;
use crate::failure::Failure;
use crate::http2::frame::{code, code_name};
use crate::http2::{Broken, Connection, Event, Request};
use crate::io::{self, Carrier, Event as Ready, Poller, Received};
use crate::plan::SessionPlan;
use crate::response::{Expect, Verdict, Wrong};
use crate::sys;
use std::io::{Error, ErrorKind};
use std::time::Duration;

/// What is read into before the first block.
const GREETING_BYTES: usize = 16 * 1024;

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
        Ok(Self { all: (0..count).map(link).collect(), requests, streams, dirty: Vec::with_capacity(count) })
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
    /// Opens all links and waits until each has heard from its server.
    ///
    /// # Errors
    /// What the first that can't be opened met, and which it was.
    pub(super) fn open_links(&mut self, limit: Duration) -> Result<(), (usize, Error)> {
        let mut buffer = vec![0; GREETING_BYTES];
        for link in 0..self.links.all.len() {
            self.open_link_waiting(link, limit, &mut buffer).map_err(|error| (link, error))?;
        }
        let end_ns = sys::now_ns() + limit.as_nanos() as u64;
        while let Some(silent) = self.links.all.iter().position(|link| link.state == LinkState::Greeting) {
            let now_ns = sys::now_ns();
            if now_ns >= end_ns {
                let error = Error::new(ErrorKind::TimedOut, "HTTP/2: no SETTINGS from the server in time");
                return Err((silent, error));
            }
            for index in 0..self.poller.wait(now_ns, (end_ns - now_ns).min(SCAN_NS), None) {
                let Some(event) = self.poller.event(index) else { continue };
                let (link, generation) = place(event.token);
                if self.links.all[link].generation == generation {
                    self.listen(link, &mut buffer).map_err(|error| (link, error))?;
                }
            }
        }
        Ok(())
    }

    fn open_link_waiting(&mut self, link: usize, limit: Duration, buffer: &mut [u8]) -> Result<(), Error> {
        let began_ns = sys::now_ns();
        let socket = io::connect_wait(&self.plan.target, self.plan.source(link), limit)?;
        self.attach_link(link, socket.into(), began_ns);
        let token = self.links.token(link);
        let Some(socket) = &self.links.all[link].socket else { return Ok(()) };
        self.poller.watch(token, socket, false)?;
        if let Some(plain) = socket.socket() {
            plain.set_nonblocking(false)?;
            plain.set_read_timeout(Some(limit))?;
            if !self.poller.handshake(token, socket)? {
                return Err(Error::new(ErrorKind::TimedOut, "TLS: no handshake in time"));
            }
            plain.set_nonblocking(true)?;
        }
        let link_here = &mut self.links.all[link];
        link_here.state = LinkState::Greeting;
        let sent = self.poller.send_now(token, socket_of(link_here)?, link_here.http2.out())?;
        link_here.http2.wrote(sent); // a new socket has room for these hundred bytes
        // What came with the handshake's end tells of itself no more.
        self.poller.turn_to(token);
        self.listen(link, buffer)
    }

    fn attach_link(&mut self, link: usize, socket: P::Socket, now_ns: u64) {
        let streams = self.links.streams;
        let left = self.plan.requests_per_http2_connection();
        let link = &mut self.links.all[link];
        link.generation = link.generation.wrapping_add(1);
        (link.socket, link.state, link.fresh) = (Some(socket), LinkState::Connecting, true);
        (link.since_ns, link.heard_ns) = (now_ns, now_ns);
        link.http2 = Connection::new(streams, left);
        link.leaving.clear();
        (link.flushed, link.unflushed) = ((0, 0), 0);
        link.farewell = None;
    }

    /// Reads what arrived on a link that has no request under way.
    ///
    /// # Errors
    /// It has ended: UnexpectedEof; or what the server said is not HTTP/2: Unsupported.
    fn listen(&mut self, link: usize, buffer: &mut [u8]) -> Result<(), Error> {
        loop {
            let got = match self.receive_link(link, buffer) {
                Ok((0, _)) => {
                    return Err(Error::new(ErrorKind::UnexpectedEof, "HTTP/2: the server closed the connection"));
                }
                Ok((got, _)) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let mut rest = &buffer[..got];
            while !rest.is_empty() {
                let here = &mut self.links.all[link];
                let (used, event) = match here.http2.next(rest) {
                    Ok(next) => next,
                    Err(broken) => {
                        let _ = self.push_link(link);
                        return Err(Error::new(ErrorKind::Unsupported, why_broken(&broken)));
                    }
                };
                rest = &rest[used..];
                match event {
                    Event::Settings if here.state == LinkState::Greeting => {
                        here.state = LinkState::Open;
                        self.opened_ns.push(sys::now_ns() - here.since_ns);
                    }
                    Event::GoAway { .. } => {
                        return Err(Error::new(ErrorKind::UnexpectedEof, "HTTP/2: the server says GOAWAY"));
                    }
                    _ => {}
                }
            }
            if P::BRINGS_BYTES {
                break;
            }
        }
        self.push_link(link).map(drop)
    }

    /// One read, into the buffer in any case; how much, and its stamp.
    fn receive_link(&mut self, link: usize, buffer: &mut [u8]) -> Result<(usize, u64), Error> {
        let socket = socket_of(&self.links.all[link])?;
        if P::BRINGS_BYTES {
            let Received { bytes, stamp_ns } = self.poller.receive(socket, &mut [])?;
            buffer[..bytes.len()].copy_from_slice(bytes);
            return Ok((bytes.len(), stamp_ns));
        }
        self.poller.receive(socket, buffer).map(|received| (received.bytes.len(), received.stamp_ns))
    }

    /// Sends what a link has to say, as far as that goes; how many bytes.
    fn push_link(&mut self, link: usize) -> Result<usize, Error> {
        let token = self.links.token(link);
        let (here, mut pushed) = (&mut self.links.all[link], 0);
        while !here.http2.out().is_empty() {
            let Some(socket) = &here.socket else { return Ok(pushed) };
            match self.poller.send_now(token, socket, here.http2.out()) {
                Ok(sent) => {
                    pushed += sent;
                    here.http2.wrote(sent);
                    if P::STAGES {
                        here.leaving.push(FLUSHED);
                        here.flushed = (std::mem::take(&mut here.unflushed), sent as u64);
                    }
                    if here.http2.unfinished() {
                        here.http2.resume(&self.links.requests);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _ = self.poller.want_writable(token, socket); // if it fails, the timeout tells
                    return Ok(pushed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pushed)
    }

    /// What a link hears before a block: that it is to be closed, or what it has to acknowledge.
    pub(super) fn look_at_link(&mut self, event: Ready, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        let (link, generation) = place(event.token);
        let here = &self.links.all[link];
        if here.generation != generation || here.state != LinkState::Open || here.http2.active() > 0 {
            return;
        }
        if event.writable {
            self.poller.go_on(
                event.token,
                match &here.socket {
                    Some(socket) => socket,
                    None => return,
                },
            );
        }
        if let Err(error) = self.listen(link, buffer) {
            if error.kind() == ErrorKind::Unsupported {
                block_run.mishap(Failure::BadResponse);
                self.sample.note(Failure::BadResponse, error.to_string().as_bytes());
            }
            self.drop_link(link);
        }
    }

    /// A place wants to send and its link takes nothing now: it is opened, or will be.
    pub(super) fn want_link(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (link, _) = self.links.of(index);
        let state = self.links.all[link].state;
        if state == LinkState::Open {
            self.conns[index].state = State::Idle;
            return self.send_next(index, now_ns, block_run);
        }
        let conn = &mut self.conns[index];
        if !conn.fresh {
            conn.depart(now_ns, block_run); // its latency runs from here
            conn.fresh = true;
        }
        conn.state = State::Connecting;
        if state == LinkState::Closed {
            self.begin_link(link, now_ns, block_run);
        }
    }

    fn begin_link(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (socket, connected) = match io::connect(&self.plan.target, self.plan.source(link), true) {
            Ok(begun) => begun,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return self.rest_link(link, now_ns),
            Err(error) => return self.link_unconnected(link, &error, now_ns, block_run),
        };
        self.attach_link(link, socket.into(), now_ns);
        let token = self.links.token(link);
        let watched = match &self.links.all[link].socket {
            Some(socket) => self.poller.watch(token, socket, !connected),
            None => Ok(()),
        };
        match watched {
            Err(error) => self.link_unconnected(link, &error, now_ns, block_run),
            Ok(()) if connected => self.greet(link, block_run),
            Ok(()) => {}
        }
    }

    /// TCP's handshake is over: TLS's follows, or the greeting leaves.
    fn greet(&mut self, link: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let token = self.links.token(link);
        let Some(socket) = &self.links.all[link].socket else { return };
        match self.poller.handshake(token, socket) {
            Ok(true) => {
                self.links.all[link].state = LinkState::Greeting;
                self.make_dirty(link);
                self.flush_link(link, block_run);
            }
            Ok(false) => {}
            Err(error) => self.link_unconnected(link, &error, sys::now_ns(), block_run),
        }
    }

    /// Its places that wait for it rest for a while, then try again.
    fn rest_link(&mut self, link: usize, now_ns: u64) {
        self.links.all[link].state = LinkState::Closed;
        for index in self.places(link) {
            if self.conns[index].state == State::Connecting {
                self.rest(index, now_ns);
            }
        }
    }

    fn places(&self, link: usize) -> std::ops::Range<usize> {
        link * self.links.streams..(link + 1) * self.links.streams
    }

    #[cold]
    fn link_unconnected(&mut self, link: usize, error: &Error, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let kind = match error.kind() {
            ErrorKind::ConnectionRefused => Failure::Refused,
            ErrorKind::InvalidData => Failure::Tls,
            ErrorKind::Unsupported => Failure::BadResponse,
            _ => Failure::Connect,
        };
        block_run.mishap(kind);
        self.sample.note(kind, format!("connect: {error}").as_bytes());
        self.drop_link(link);
        self.links.all[link].failures += 1;
        if self.links.all[link].failures < MOST_FAILURES {
            return self.rest_link(link, now_ns);
        }
        let places = self.places(link);
        self.free.retain(|index| !places.contains(index));
        for index in places {
            let conn = &mut self.conns[index];
            conn.state = State::GivenUp;
            self.given_up += 1;
            if conn.due_ns != 0 {
                block_run.set_free(std::mem::take(&mut conn.due_ns));
            }
        }
        if block_run.window.requests_left.is_some() {
            self.cursor = 0; // others that found no ticket may send in its place
        }
    }

    /// The server has said what it allows: places that waited send.
    fn greeted(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let here = &mut self.links.all[link];
        (here.state, here.failures) = (LinkState::Open, 0);
        block_run.connected(now_ns - here.since_ns);
        self.wake_places(link, now_ns, block_run);
    }

    /// Places that wait for their link, or for the server to allow so many streams, send if they may.
    fn wake_places(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        for index in self.places(link) {
            let state = self.conns[index].state;
            let allowed = index - link * self.links.streams < self.links.all[link].http2.most();
            match state {
                State::Connecting if !allowed => self.shut(index, block_run),
                State::Connecting | State::Shut if allowed => {
                    self.conns[index].state = State::Idle;
                    self.send_next(index, now_ns, block_run);
                }
                _ => {}
            }
        }
    }

    /// The server does not allow the place's stream; the right to send that it may have goes to others.
    #[cold]
    fn shut(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let conn = &mut self.conns[index];
        (conn.state, conn.fresh) = (State::Shut, false);
        if conn.due_ns != 0 {
            block_run.set_free(std::mem::take(&mut conn.due_ns));
        }
    }

    /// Whether the server allows so many streams that the place may have one. If not, it is left until the server says so.
    #[inline]
    pub(super) fn allowed(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) -> bool {
        let (link, slot) = self.links.of(index);
        let here = &self.links.all[link];
        let allowed = here.state != LinkState::Open || slot < here.http2.most();
        if !allowed {
            self.shut(index, block_run);
        }
        allowed
    }

    /// Puts the place's next request into its link; it leaves with the next flush.
    #[inline]
    pub(super) fn send_stream(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (link, slot) = self.links.of(index);
        if self.links.all[link].state != LinkState::Open {
            self.conns[index].state = State::Closed;
            if block_run.reserve(&mut self.conns[index].due_ns) {
                self.want_link(index, now_ns, block_run);
            }
            return;
        }
        if !block_run.take(&mut self.conns[index].due_ns) {
            return;
        }
        let number = self.next_exchange as u32;
        let here = &mut self.links.all[link];
        here.http2.open(slot, number, &self.links.requests);
        here.leaving.push(slot as u32);
        here.unflushed += 1;
        if here.http2.left() == 0 {
            here.state = LinkState::Ending;
        }
        let conn = &mut self.conns[index];
        (conn.state, conn.exchange) = (State::Waiting, number);
        if !conn.fresh {
            conn.since_ns = now_ns; // for the time being
        }
        self.make_dirty(link);
        self.count_on(index);
        self.outstanding += 1;
        block_run.counts.sent += 1;
    }

    fn make_dirty(&mut self, link: usize) {
        if !std::mem::replace(&mut self.links.all[link].dirty, true) {
            self.links.dirty.push(link);
        }
    }

    /// Sends what links have to say.
    #[inline]
    pub(super) fn flush_links(&mut self, block_run: &mut BlockRun<impl LoadModel>) {
        while let Some(link) = self.links.dirty.pop() {
            self.flush_link(link, block_run);
        }
    }

    #[inline]
    fn flush_link(&mut self, link: usize, block_run: &mut BlockRun<impl LoadModel>) {
        self.links.all[link].dirty = false;
        if self.links.all[link].http2.out().is_empty() {
            return;
        }
        if P::STAGES {
            // Here it is only queued: what becomes of it is told later.
            match self.push_link(link) {
                Ok(bytes) => block_run.counts.bytes_out += bytes as u64,
                Err(_) => {
                    let here = &mut self.links.all[link];
                    here.flushed = (std::mem::take(&mut here.unflushed), 0);
                    self.link_unsent(link, block_run);
                }
            }
            return;
        }
        let sent_ns = sys::now_ns(); // never later than any of it leaves
        let pushed = self.push_link(link);
        let (first, here) = (link * self.links.streams, &mut self.links.all[link]);
        match pushed {
            Ok(bytes) => {
                block_run.counts.bytes_out += bytes as u64;
                for slot in here.leaving.drain(..) {
                    let conn = &mut self.conns[first + slot as usize];
                    if conn.state == State::Waiting && !conn.fresh {
                        conn.depart(sent_ns, block_run);
                    }
                }
            }
            // It had been closed while it was idle: nothing has left.
            Err(_) if here.http2.active() == here.leaving.len() && !here.fresh => {
                let leaving = std::mem::take(&mut here.leaving);
                self.drop_link(link);
                for slot in leaving {
                    self.unprocessed(first + slot as usize, block_run);
                    self.want_link(first + slot as usize, sent_ns, block_run);
                }
            }
            // They are told so by what is read next.
            Err(_) => here.leaving.clear(),
        }
    }

    /// What was queued of a link left: the latest flush of which that was not known.
    #[inline]
    pub(super) fn link_departed(&mut self, token: u64, sent_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (link, generation) = place(token);
        let (first, here) = (link * self.links.streams, &mut self.links.all[link]);
        if here.generation != generation {
            return;
        }
        let Some(end) = here.leaving.iter().rposition(|slot| *slot == FLUSHED) else { return };
        let begin = here.leaving[..end].iter().rposition(|slot| *slot == FLUSHED).map_or(0, |before| before + 1);
        for slot in here.leaving.drain(begin..=end).take(end - begin) {
            let conn = &mut self.conns[first + slot as usize];
            if conn.state == State::Waiting && !conn.fresh {
                conn.depart(sent_ns, block_run);
            }
        }
    }

    /// The kernel says only now that nothing of the latest flush left. Where all that is under way was in it, the link had
    /// been closed while it was idle: nothing is lost. Else what is read next tells.
    #[cold]
    fn link_unsent(&mut self, link: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let here = &self.links.all[link];
        let (requests, bytes) = here.flushed;
        if here.state != LinkState::Open || here.fresh || here.http2.active() != requests {
            return;
        }
        block_run.counts.bytes_out -= bytes;
        let now_ns = sys::now_ns();
        let unsent: Vec<usize> = self.places(link).filter(|index| self.conns[*index].state == State::Waiting).collect();
        self.drop_link(link);
        for index in unsent {
            self.unprocessed(index, block_run);
            self.want_link(index, now_ns, block_run);
        }
    }

    /// A request that left, and that the server has not looked at: as if it had not left, but its latency runs on.
    fn unprocessed(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        self.outstanding -= 1;
        block_run.counts.sent -= 1;
        let conn = &mut self.conns[index];
        block_run.keep(&mut conn.due_ns);
        (conn.state, conn.fresh) = (State::Closed, true);
        conn.reader.reset();
    }

    /// An event of a link.
    #[inline]
    pub(super) fn link_event(&mut self, event: Ready, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        let (link, generation) = place(event.token);
        let here = &self.links.all[link];
        if here.generation != generation || here.state == LinkState::Closed {
            return self.former_event(event.token, event.closing);
        }
        if here.state == LinkState::Connecting {
            return self.link_handshake(link, event, block_run, buffer);
        }
        if event.unsent != 0 {
            return self.link_unsent(link, block_run);
        }
        if event.writable {
            if let Some(socket) = &here.socket {
                self.poller.go_on(event.token, socket);
            }
            self.flush_link(link, block_run);
        }
        if event.readable {
            self.read_link(event.token, event.closing, block_run, buffer);
        }
    }

    fn link_handshake(
        &mut self,
        link: usize,
        event: Ready,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let socket = self.links.all[link].socket.as_ref().and_then(Carrier::socket);
        if let Some(told) = socket.and_then(|socket| socket.take_error().transpose()) {
            let error = told.unwrap_or_else(|error| error);
            return self.link_unconnected(link, &error, sys::now_ns(), block_run);
        }
        self.poller.established(event.token);
        self.greet(link, block_run);
        // The edge that told of the handshake's end may have told of what came with it, and won't come again.
        if event.readable && self.links.all[link].state == LinkState::Greeting {
            self.read_link(event.token, event.closing, block_run, buffer);
        }
    }

    /// Reads what has arrived: once, unless there is or must be more. Then what that led to leaves.
    #[inline]
    pub(super) fn read_link(
        &mut self,
        token: u64,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let (link, generation) = place(token);
        for _ in 0..MOST_READS {
            if self.links.all[link].generation != generation || self.links.all[link].socket.is_none() {
                return;
            }
            let received = self.receive_link(link, buffer);
            // What a wait brought with the kernel's stamp had arrived when the wait was over: no other time is asked for.
            if !P::BRINGS_BYTES || received.as_ref().map_or(0, |(_, stamp_ns)| *stamp_ns) == 0 {
                self.now_ns = sys::now_ns();
                block_run.cross(self.now_ns);
            }
            let now_ns = self.now_ns;
            let (got, stamp_ns) = match received {
                Ok((0, _)) => {
                    let why = "the server closed the connection before its answer was complete";
                    return self.link_lost(link, Failure::ClosedEarly, why, now_ns, block_run);
                }
                Ok(received) => received,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return self.flush_link(link, block_run),
                    ErrorKind::Interrupted => continue,
                    _ => return self.link_lost(link, broken_by(&error), &error.to_string(), now_ns, block_run),
                },
            };
            block_run.counts.bytes_in += got as u64;
            self.links.all[link].heard_ns = now_ns;
            self.take_frames(token, &buffer[..got], (stamp_ns, now_ns), block_run);
            if P::BRINGS_BYTES || got < buffer.len() && !closing {
                return self.flush_link(link, block_run);
            }
        }
        self.flush_link(link, block_run);
        self.unread.push_back((token, closing));
    }

    /// Matches bytes with what is due.
    #[inline]
    fn take_frames(
        &mut self,
        token: u64,
        mut bytes: &[u8],
        (stamp_ns, now_ns): (u64, u64),
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let (link, generation) = place(token);
        let first = link * self.links.streams;
        while !bytes.is_empty() && self.links.all[link].generation == generation {
            let here = &mut self.links.all[link];
            if here.socket.is_none() {
                return;
            }
            let (used, event) = match here.http2.next(bytes) {
                Ok(next) => next,
                Err(broken) => return self.link_broken(link, &broken, now_ns, block_run),
            };
            bytes = &bytes[used..];
            let (slot, end, verdict) = match event {
                Event::More => continue,
                Event::Head { slot, status, length, end } => {
                    let conn = &mut self.conns[first + slot];
                    if conn.first_ns == 0 {
                        conn.first_ns = self.clocks.arrival_ns(stamp_ns, conn.since_ns, now_ns);
                    }
                    let expect = Expect::from(&self.plan.exchanges[conn.exchange as usize]);
                    if status != expect.status {
                        self.sample.note(Failure::WrongStatus, format!("HTTP/2 {status}").as_bytes());
                    }
                    (slot, end, conn.reader.streamed_head(status, length, end, &expect))
                }
                Event::Data { slot, bytes, end } => {
                    let conn = &mut self.conns[first + slot];
                    let expect = Expect::from(&self.plan.exchanges[conn.exchange as usize]);
                    (slot, end, conn.reader.streamed_body(bytes, end, &expect))
                }
                Event::Malformed { slot, why } => {
                    self.sample.note(Failure::BadResponse, format!("HTTP/2: {why}").as_bytes());
                    (slot, true, Some(Verdict { wrong: Some(Wrong::Response), keep: false }))
                }
                _ => {
                    self.control_event(link, event, now_ns, block_run);
                    continue;
                }
            };
            if let Some(verdict) = verdict {
                if let Some(wrong) = verdict.wrong {
                    self.note_wrong(wrong, event);
                }
                if !end {
                    self.links.all[link].http2.cancel(slot, code::CANCEL);
                    self.make_dirty(link);
                }
                let conn = &mut self.conns[first + slot];
                conn.arrived_ns = self.clocks.arrival_ns(stamp_ns, conn.since_ns, now_ns);
                self.stream_over(first + slot, verdict, now_ns, block_run);
            }
        }
    }

    #[cold]
    fn note_wrong(&mut self, wrong: Wrong, event: Event) {
        match event {
            Event::Head { status, length, .. } => {
                let length = length.map_or(String::new(), |length| format!(", content-length {length}"));
                self.sample.note(wrong.into(), format!("HTTP/2 {status}{length}").as_bytes());
            }
            Event::Data { bytes: [], .. } => self.sample.note(wrong.into(), b"HTTP/2: the stream ended too early"),
            Event::Data { bytes, .. } => self.sample.note(wrong.into(), bytes),
            _ => {}
        }
    }

    /// What is not an answer's part.
    #[cold]
    fn control_event(&mut self, link: usize, event: Event, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        self.make_dirty(link);
        match event {
            Event::Settings if self.links.all[link].state == LinkState::Greeting => {
                self.greeted(link, now_ns, block_run)
            }
            Event::Settings => {
                self.links.all[link].http2.resume(&self.links.requests);
                if self.links.all[link].state == LinkState::Open {
                    self.wake_places(link, now_ns, block_run);
                }
            }
            Event::Room => self.links.all[link].http2.resume(&self.links.requests),
            Event::GoAway { last, code } => self.going_away(link, last, code, now_ns, block_run),
            Event::Reset { slot, code: code::REFUSED_STREAM } => {
                let index = link * self.links.streams + slot;
                block_run.mishap(Failure::RefusedStream);
                self.sample.note(Failure::RefusedStream, b"HTTP/2: the server reset a stream (REFUSED_STREAM)");
                self.unprocessed(index, block_run);
                self.rest(index, now_ns);
                self.link_may_end(link, now_ns, block_run);
            }
            Event::Reset { slot, code } => {
                let index = link * self.links.streams + slot;
                let why = format!("HTTP/2: the server reset the stream ({})", code_name(code));
                self.sample.note(Failure::Reset, why.as_bytes());
                self.outstanding -= 1;
                self.failed(index, Failure::Reset, block_run);
                self.free_place(index, now_ns, block_run);
            }
            _ => {}
        }
    }

    /// The place's request is over, right or wrong; its next one leaves.
    #[inline]
    fn stream_over(&mut self, index: usize, verdict: Verdict, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (link, _) = self.links.of(index);
        self.links.all[link].fresh = false;
        self.outstanding -= 1;
        let conn = &mut self.conns[index];
        match verdict.wrong {
            _ if self.judges_more => {
                let since_ns = conn.since_ns;
                self.judge_more(index, &verdict, block_run);
                self.coalescing.note(now_ns.saturating_sub(since_ns));
            }
            None => {
                let before = block_run.counts.requests;
                block_run.right(conn.due_ns, conn.since_ns, conn.arrived_ns);
                block_run.first_byte(before, conn.first_ns.saturating_sub(conn.since_ns));
                self.coalescing.note(now_ns.saturating_sub(conn.since_ns));
            }
            Some(wrong) => block_run.wrong(wrong.into(), conn.due_ns, conn.since_ns),
        }
        let conn = &mut self.conns[index];
        block_run.answer(&verdict, &conn.reader);
        conn.due_ns = 0;
        self.free_place(index, now_ns, block_run);
    }

    /// It has no request any more: the next one leaves, over this link or the next one.
    #[inline]
    fn free_place(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (link, _) = self.links.of(index);
        let conn = &mut self.conns[index];
        conn.fresh = false;
        conn.reader.reset();
        if self.links.all[link].state == LinkState::Open {
            conn.state = State::Idle;
            return self.send_next(index, now_ns, block_run);
        }
        conn.state = State::Closed;
        self.link_may_end(link, now_ns, block_run);
        if self.conns[index].state == State::Closed {
            self.send_next(index, now_ns, block_run);
        }
    }

    /// Closes a link that takes nothing new once nothing is under way; a new one is opened for whoever waits.
    fn link_may_end(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let here = &mut self.links.all[link];
        if here.state != LinkState::Ending || here.http2.active() > 0 {
            return;
        }
        here.http2.go_away(code::NO_ERROR);
        let _ = self.push_link(link).map(|bytes| block_run.counts.bytes_out += bytes as u64);
        self.linger_link(link, now_ns);
        if self.places(link).any(|index| self.conns[index].state == State::Connecting) {
            self.begin_link(link, now_ns, block_run);
        }
    }

    /// Leaves a link to the server's closing, as long as there are not too many of them.
    fn linger_link(&mut self, link: usize, now_ns: u64) {
        if self.lingerers >= super::MOST_LINGERING {
            return self.drop_link(link);
        }
        self.forget(link);
        let token = self.links.token(link);
        let here = &mut self.links.all[link];
        here.state = LinkState::Closed;
        if let Some(socket) = here.socket.take() {
            self.lingering[link] = Some(Linger { socket, token, since_ns: now_ns });
            self.lingerers += 1;
        }
    }

    fn drop_link(&mut self, link: usize) {
        let token = self.links.token(link);
        let here = &mut self.links.all[link];
        here.state = LinkState::Closed;
        here.leaving.clear();
        if let Some(socket) = here.socket.take() {
            self.poller.release(token, socket);
        }
    }

    /// The server takes no new streams here, and has not looked at those above `last`: these leave again elsewhere.
    fn going_away(&mut self, link: usize, last: u32, code: u32, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let here = &mut self.links.all[link];
        if here.state == LinkState::Greeting {
            let why = format!("HTTP/2: the server says GOAWAY ({})", code_name(code));
            return self.link_unconnected(link, &Error::other(why), now_ns, block_run);
        }
        here.state = LinkState::Ending;
        here.farewell = (code != code::NO_ERROR).then_some(code); // told where it costs a request
        for index in self.places(link) {
            let slot = index - link * self.links.streams;
            let here = &mut self.links.all[link];
            if here.http2.id(slot) > last {
                here.http2.forget(slot);
                self.unprocessed(index, block_run);
                self.conns[index].state = State::Connecting; // it waits for the next link
            }
        }
        self.link_may_end(link, now_ns, block_run);
    }

    /// The server broke the protocol: what is under way has no readable answer.
    #[cold]
    fn link_broken(&mut self, link: usize, broken: &Broken, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let why = why_broken(broken);
        let _ = self.push_link(link).map(|bytes| block_run.counts.bytes_out += bytes as u64);
        if self.links.all[link].state == LinkState::Greeting {
            return self.link_unconnected(link, &Error::new(ErrorKind::Unsupported, why), now_ns, block_run);
        }
        if self.links.all[link].http2.active() == 0 {
            block_run.mishap(Failure::BadResponse);
            self.sample.note(Failure::BadResponse, why.as_bytes());
        }
        self.link_lost(link, Failure::BadResponse, &why, now_ns, block_run);
    }

    /// A link has ended, and with it what was under way.
    #[cold]
    fn link_lost(
        &mut self,
        link: usize,
        failure: Failure,
        why: &str,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let Link { state, fresh, .. } = self.links.all[link];
        if state == LinkState::Greeting {
            let error = Error::new(ErrorKind::Unsupported, format!("HTTP/2: no SETTINGS from the server: {why}"));
            return self.link_unconnected(link, &error, now_ns, block_run);
        }
        self.drop_link(link);
        let was_in = |session: &Self, state| -> Vec<usize> {
            session.places(link).filter(|index| session.conns[*index].state == state).collect()
        };
        let (lost, idle, wanting) =
            (was_in(self, State::Waiting), was_in(self, State::Idle), was_in(self, State::Connecting));
        if !lost.is_empty() {
            let farewell = self.links.all[link].farewell;
            let farewell = farewell.map(|code| format!("HTTP/2: the server says GOAWAY ({})", code_name(code)));
            self.sample.note(failure, farewell.as_deref().unwrap_or(why).as_bytes());
        }
        for index in &lost {
            self.outstanding -= 1;
            self.failed(*index, failure, block_run);
            self.conns[*index].reader.reset();
            self.conns[*index].fresh = false;
        }
        for index in lost.iter().chain(&idle) {
            self.conns[*index].state = State::Closed;
        }
        for index in lost {
            if fresh {
                self.rest(index, now_ns); // a server that takes connections and drops them is not to be hammered
            } else {
                self.send_next(index, now_ns, block_run);
            }
        }
        for index in wanting {
            self.want_link(index, now_ns, block_run);
        }
    }

    /// Fails what has taken too long.
    pub(super) fn scan_links(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let limit_ms = self.plan.timeout_ns / 1_000_000;
        let timeout_ns = self.plan.timeout_ns;
        let late = |since_ns: u64| now_ns.saturating_sub(since_ns) >= timeout_ns;
        for link in 0..self.links.all.len() {
            self.close_former(link, now_ns);
        }
        let opening: Vec<usize> = (0..self.links.all.len())
            .filter(|link| {
                let link = &self.links.all[*link];
                matches!(link.state, LinkState::Connecting | LinkState::Greeting) && late(link.since_ns)
            })
            .collect();
        let waiting: Vec<usize> = (0..self.conns.len())
            .filter(|index| self.conns[*index].state == State::Waiting && late(self.conns[*index].since_ns))
            .collect();
        for link in opening {
            let error = Error::new(ErrorKind::TimedOut, format!("not connected within {limit_ms} ms"));
            self.link_unconnected(link, &error, now_ns, block_run);
        }
        for index in waiting {
            let (link, slot) = self.links.of(index);
            let here = &mut self.links.all[link];
            if self.conns[index].state != State::Waiting || here.http2.id(slot) == 0 {
                continue;
            }
            if here.heard_ns < self.conns[index].since_ns && here.state == LinkState::Open {
                here.state = LinkState::Ending; // nothing has been heard since: it takes nothing new
            }
            here.http2.cancel(slot, code::CANCEL);
            self.make_dirty(link);
            self.sample.note(Failure::Timeout, format!("no complete answer within {limit_ms} ms").as_bytes());
            self.outstanding -= 1;
            self.failed(index, Failure::Timeout, block_run);
            self.free_place(index, now_ns, block_run);
        }
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
