//! How a link is opened: TCP, TLS where it is asked for, then what HTTP/2 begins with, from both sides.

use super::super::{MOST_FAILURES, SCAN_NS, WorkerSession};
use super::{LinkState, socket_of, why_broken};
use crate::block_run::{BlockRun, LoadModel};
use crate::conn::{State, place};
use crate::failure::Failure;
use crate::http2::{Connection, Event};
use crate::io::{self, Carrier, Event as Ready, Poller};
use crate::sys;
use std::io::{Error, ErrorKind};
use std::time::Duration;

/// What is read into before the first block.
const GREETING_BYTES: usize = 16 * 1024;

impl<P: Poller> WorkerSession<P> {
    /// Opens all links and waits until each has heard from its server.
    ///
    /// # Errors
    /// What the first that can't be opened met, and which it was.
    pub(in crate::worker) fn open_links(&mut self, limit: Duration) -> Result<(), (usize, Error)> {
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
        link.http2 = Connection::new(streams, left).expecting(&self.plan.heads);
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

    /// What a link hears before a block: that it is to be closed, or what it has to acknowledge.
    pub(in crate::worker) fn look_at_link(
        &mut self,
        event: Ready,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
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
    pub(in crate::worker) fn want_link(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
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

    pub(super) fn begin_link(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
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

    #[cold]
    pub(super) fn link_unconnected(
        &mut self,
        link: usize,
        error: &Error,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
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
    pub(super) fn greeted(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let here = &mut self.links.all[link];
        (here.state, here.failures) = (LinkState::Open, 0);
        block_run.connected(now_ns - here.since_ns);
        self.wake_places(link, now_ns, block_run);
    }

    pub(super) fn link_handshake(
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
}
