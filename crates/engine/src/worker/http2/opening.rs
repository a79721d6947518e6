//! How a link is opened: TCP, TLS if the session uses it, then preface and SETTINGS of both sides.

use super::super::link::State;
use super::super::{LOOK_LIMIT, MAX_FAILURES, Worker};
use super::{Http2, Http2Link, LinkState, socket_of, why_broken};
use crate::block_run::{BlockRun, LoadModel};
use crate::failure::Failure;
use crate::http2::{Connection, Event};
use crate::io::{self, Carrier, Event as Ready, Transport, split_token};
use crate::patience::Patience;
use crate::sys;
use std::io::{Error, ErrorKind};
use std::time::Duration;

/// Length of the buffer for reads before the first block.
const GREETING_BYTES: usize = 16 * 1024;

impl<T: Transport> Worker<T, Http2> {
    /// Opens all links and waits for the server's SETTINGS on each.
    ///
    /// # Errors
    /// The number of the first link that can't be opened, and the reason.
    pub(super) fn open_links(&mut self, limit: Duration) -> Result<(), (usize, Error)> {
        let mut buffer = vec![0; GREETING_BYTES];
        for link in 0..self.links.len() {
            self.open_link_waiting(link, limit, &mut buffer).map_err(|error| (link, error))?;
        }
        let greeting = |link: &Http2Link| link.state == LinkState::Greeting;
        self.await_all(limit, &mut buffer, greeting, "HTTP/2: no SETTINGS from the server in time", Self::listen)
    }

    fn open_link_waiting(&mut self, link: usize, limit: Duration, buffer: &mut [u8]) -> Result<(), Error> {
        let began_ns = sys::now_ns();
        let socket = io::connect_wait(&self.core.plan.target, self.core.plan.source(link), &self.core.patience(limit))?;
        self.attach_link(link, socket.into(), began_ns);
        self.shake_hands(link, limit)?;
        let connection = &mut self.links[link];
        connection.proto.state = LinkState::Greeting;
        let token = connection.token(link);
        let sent = self.io.send_now(token, socket_of(connection)?, connection.proto.http2.out())?;
        connection.proto.http2.wrote(sent); // a new socket accepts these 100 bytes
        // Bytes that came with the end of the handshake are not reported by an event.
        self.io.turn_to(token);
        self.listen(link, &self.core.patience(LOOK_LIMIT), buffer)
    }

    fn attach_link(&mut self, link: usize, socket: T::Socket, now_ns: u64) {
        let streams = self.proto.streams;
        let left = self.core.plan.requests_per_http2_connection();
        self.links[link].attach(socket);
        let link = &mut self.links[link].proto;
        (link.state, link.fresh) = (LinkState::Connecting, true);
        (link.since_ns, link.heard_ns) = (now_ns, now_ns);
        link.http2 = Connection::new(streams, left).expecting(&self.core.plan.heads);
        link.leaving.clear();
        (link.flushed, link.unflushed) = ((0, 0), 0);
        link.goaway_error = None;
    }

    /// Reads what arrived on a link without requests in flight.
    ///
    /// # Errors
    /// UnexpectedEof: the connection has ended. Unsupported: the server does not speak valid HTTP/2. TimedOut: it did not
    /// stop sending while the patience lasted.
    fn listen(&mut self, link: usize, patience: &Patience, buffer: &mut [u8]) -> Result<(), Error> {
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
            // Ends: each turn uses some of the bytes.
            while !rest.is_empty() {
                let connection = &mut self.links[link].proto;
                let (used, event) = match connection.http2.next(rest) {
                    Ok(next) => next,
                    Err(broken) => {
                        let _ = self.push_link(link);
                        return Err(Error::new(ErrorKind::Unsupported, why_broken(&broken)));
                    }
                };
                rest = &rest[used..];
                match event {
                    Event::Settings if connection.state == LinkState::Greeting => {
                        connection.state = LinkState::Open;
                        self.core.opened_ns.push(sys::now_ns() - connection.since_ns);
                    }
                    Event::GoAway { .. } => {
                        return Err(Error::new(ErrorKind::UnexpectedEof, "HTTP/2: the server sent GOAWAY"));
                    }
                    _ => {}
                }
            }
            if T::BRINGS_BYTES {
                break;
            }
            if !patience.lasts() {
                return Err(Error::new(
                    ErrorKind::TimedOut,
                    "HTTP/2: the server sends without end and without a request",
                ));
            }
        }
        self.push_link(link).map(drop)
    }

    /// Handles an event before a block: the server closes the link, or sends frames to be acknowledged.
    pub(super) fn look_at_link(
        &mut self,
        event: Ready,
        patience: &Patience,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let (link, generation) = split_token(event.token);
        let connection = &self.links[link];
        let idle = connection.proto.state == LinkState::Open && connection.proto.http2.active() == 0;
        if connection.generation != generation || !idle {
            return;
        }
        let Some(socket) = &connection.socket else { return };
        if event.writable {
            self.io.go_on(event.token, socket);
        }
        if let Err(error) = self.listen(link, patience, buffer) {
            if error.kind() == ErrorKind::Unsupported {
                block_run.count_error(Failure::BadResponse);
                self.core.judge.sample.note(Failure::BadResponse, error.to_string().as_bytes());
            }
            self.drop_link(link);
        }
    }

    /// A place wants to send and its link takes nothing now: it is opened, or will be.
    pub(super) fn want_link(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (link, _) = self.proto.of(index);
        let state = self.links[link].proto.state;
        if state == LinkState::Open {
            self.proto.places[index].place.state = State::Idle;
            return self.send_next(index, now_ns, block_run);
        }
        let stream = &mut self.proto.places[index];
        if !stream.place.fresh {
            stream.place.depart(now_ns, block_run); // its latency runs from here
            stream.place.fresh = true;
        }
        stream.place.state = State::Connecting;
        if state == LinkState::Closed {
            self.begin_link(link, now_ns, block_run);
        }
    }

    pub(super) fn begin_link(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (socket, connected) = match io::connect(&self.core.plan.target, self.core.plan.source(link), true) {
            Ok(begun) => begun,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return self.rest_link(link, now_ns),
            Err(error) => return self.link_unconnected(link, &error, now_ns, block_run),
        };
        self.attach_link(link, socket.into(), now_ns);
        let token = self.links[link].token(link);
        let watched = match &self.links[link].socket {
            Some(socket) => self.io.watch(token, socket, !connected),
            None => Ok(()),
        };
        match watched {
            Err(error) => self.link_unconnected(link, &error, now_ns, block_run),
            Ok(()) if connected => self.greet(link, block_run),
            Ok(()) => {}
        }
    }

    /// TCP's handshake is complete: TLS's follows, or preface and SETTINGS are sent.
    fn greet(&mut self, link: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let token = self.links[link].token(link);
        let Some(socket) = &self.links[link].socket else { return };
        match self.io.handshake(token, socket) {
            Ok(true) => {
                self.links[link].proto.state = LinkState::Greeting;
                self.make_dirty(link);
                self.flush_link(link, block_run);
            }
            Ok(false) => {}
            Err(error) => self.link_unconnected(link, &error, sys::now_ns(), block_run),
        }
    }

    /// Places that wait for the link rest for a while, then try again.
    fn rest_link(&mut self, link: usize, now_ns: u64) {
        self.links[link].proto.state = LinkState::Closed;
        for index in self.places(link) {
            if self.proto.places[index].place.state == State::Connecting {
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
        self.note_unconnected(error, block_run);
        self.drop_link(link);
        self.links[link].failures += 1;
        if self.links[link].failures < MAX_FAILURES {
            return self.rest_link(link, now_ns);
        }
        let places = self.places(link);
        self.core.ledger.free.retain(|index| !places.contains(index));
        for index in places {
            self.give_up(index, block_run);
        }
    }

    /// The server's SETTINGS have come: places that waited may send.
    pub(super) fn greeted(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let connection = &mut self.links[link].proto;
        connection.state = LinkState::Open;
        block_run.connected(now_ns - connection.since_ns);
        self.links[link].failures = 0;
        self.wake_places(link, now_ns, block_run);
    }

    pub(super) fn link_handshake(
        &mut self,
        link: usize,
        event: Ready,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let socket = self.links[link].socket.as_ref().and_then(Carrier::socket);
        if let Some(reported) = socket.and_then(|socket| socket.take_error().transpose()) {
            let error = reported.unwrap_or_else(|error| error);
            return self.link_unconnected(link, &error, sys::now_ns(), block_run);
        }
        self.io.established(event.token);
        self.greet(link, block_run);
        // The event that reported the end of the handshake may also report data; there won't be another one.
        if event.readable && self.links[link].proto.state == LinkState::Greeting {
            self.read_link(event.token, event.closing, block_run, buffer);
        }
    }
}
