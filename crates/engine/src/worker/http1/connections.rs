//! How connections are opened, lost and closed.

use super::super::link::State;
use super::super::{MAX_FAILURES, Worker};
use super::{Http1, Mode};
use crate::block_run::{BlockRun, LoadModel};
use crate::error_sample::SAMPLE_BYTES;
use crate::failure::Failure;
use crate::io::{self, Carrier, Event, Received, Transport};
use crate::sys;
use std::io::{Error, ErrorKind};
use std::num::NonZeroU32;
use std::time::Duration;

/// The sample of bytes that no request was waiting for.
#[cold]
pub(super) fn without_request(bytes: &[u8]) -> String {
    format!("bytes without a request: {}", String::from_utf8_lossy(&bytes[..bytes.len().min(SAMPLE_BYTES)]))
}

impl<T: Transport, M: Mode> Worker<T, Http1<M>> {
    pub(super) fn open_one(&mut self, index: usize, limit: Duration) -> Result<(), Error> {
        let socket =
            io::connect_wait(&self.core.plan.target, self.core.plan.source(index), &self.core.patience(limit))?;
        self.attach(index, socket.into(), State::Idle);
        self.place(index).fresh = false;
        self.renew(index);
        self.shake_hands(index, limit)
    }

    /// Resets the number of requests that the connection may carry.
    fn renew(&mut self, index: usize) {
        if let Some(left) = M::left(&mut self.links[index].proto.extra) {
            *left = self.core.plan.requests_per_connection.map_or(0, NonZeroU32::get);
        }
    }

    /// Begins to use a new socket.
    pub(super) fn attach(&mut self, index: usize, socket: T::Socket, state: State) {
        let link = &mut self.links[index];
        link.attach(socket);
        (link.proto.place.state, link.proto.place.fresh) = (state, true);
        link.proto.reader.reset();
        M::reset(&mut link.proto.extra);
    }

    /// Takes the socket out, to be closed now or later.
    fn detach(&mut self, index: usize) -> Option<T::Socket> {
        let link = &mut self.links[index];
        (link.proto.place.state, link.proto.place.fresh) = (State::Closed, false);
        link.proto.reader.reset();
        M::reset(&mut link.proto.extra);
        link.socket.take()
    }

    pub(super) fn connect(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if let Some(socket) = T::CHAIN {
            return self.chain(index, socket, now_ns, block_run);
        }
        let place = self.place(index);
        if !place.fresh {
            place.depart(now_ns, block_run); // otherwise it has waited for its turn since then
        }
        let plan = &self.core.plan;
        let (socket, connected) = match io::connect(&plan.target, plan.source(index), plan.keepalive) {
            Ok(begun) => begun,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return self.queue_full(index, &error, now_ns, block_run);
            }
            Err(error) => return self.unconnected(index, &error, now_ns, block_run),
        };
        self.attach(index, socket.into(), State::Connecting);
        let link = &self.links[index];
        let added = link.socket.as_ref().map_or(Ok(()), |socket| self.io.watch(link.token(index), socket, !connected));
        match added {
            Err(error) => self.unconnected(index, &error, now_ns, block_run),
            Ok(()) if connected => self.connected(index, block_run),
            Ok(()) => {}
        }
    }

    /// TCP's handshake is complete: another one follows, or the request is sent.
    fn connected(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        if T::HANDSHAKES {
            let link = &self.links[index];
            let Some(socket) = &link.socket else { return };
            match self.io.handshake(link.token(index), socket) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.unconnected(index, &error, sys::now_ns(), block_run),
            }
        }
        let now_ns = sys::now_ns();
        block_run.connected(now_ns - self.place(index).since_ns);
        self.links[index].failures = 0;
        if T::CHAINS {
            return self.chain_sent(index, block_run);
        }
        self.place(index).state = State::Idle;
        self.renew(index);
        self.send_next(index, now_ns, block_run);
    }

    #[cold]
    pub(super) fn unconnected(
        &mut self,
        index: usize,
        error: &Error,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        if T::CHAINS {
            self.unchain(index, block_run);
        }
        self.note_unconnected(error, block_run);
        self.discard(index);
        let link = &mut self.links[index];
        link.failures += 1;
        if link.failures < MAX_FAILURES {
            self.rest(index, now_ns);
        } else {
            self.give_up(index, block_run);
        }
    }

    /// A unix socket's queue of connections is full. TCP would try again by itself; here the worker does.
    #[cold]
    fn queue_full(&mut self, index: usize, error: &Error, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if now_ns - self.place(index).since_ns >= self.core.plan.timeout_ns {
            return self.unconnected(index, error, now_ns, block_run);
        }
        self.place(index).fresh = true;
        self.rest(index, now_ns);
    }

    pub(super) fn handshake_event(
        &mut self,
        index: usize,
        event: Event,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let now_ns = sys::now_ns();
        let socket = self.links[index].socket.as_ref().and_then(Carrier::socket);
        let error = match socket.and_then(|socket| socket.take_error().transpose()) {
            None if event.unsent != 0 => Some(Error::from_raw_os_error(event.unsent)),
            reported => reported.map(|reported| reported.unwrap_or_else(|error| error)),
        };
        match error {
            Some(error) => self.unconnected(index, &error, now_ns, block_run),
            None => {
                self.io.established(self.links[index].token(index));
                self.connected(index, block_run);
                // The same event may report data or the end of the connection; there won't be another one.
                if event.readable && self.place(index).state == State::Waiting {
                    M::read(self, index, event.closing, block_run, buffer);
                }
            }
        }
    }

    /// The server closed an idle connection (not an error), or sent bytes without a request.
    #[cold]
    pub(super) fn idle_event(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        let Some(socket) = &self.links[index].socket else { return };
        match self.io.receive(socket, buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Ok(Received { bytes: [], .. }) | Err(_) => {}
            Ok(Received { bytes, .. }) => {
                block_run.counts.bytes_in += bytes.len() as u64;
                block_run.count_error(Failure::BadResponse);
                self.core.judge.sample.note_with(Failure::BadResponse, || without_request(bytes));
            }
        }
        self.discard(index);
    }

    /// Closes the connection, if there is one.
    pub(super) fn discard(&mut self, index: usize) {
        let token = self.links[index].token(index);
        if let Some(socket) = self.detach(index) {
            self.io.release(token, socket);
        }
        self.proto.mode.closed(index);
    }

    /// Waits for the server to close a connection after its response, unless too many others wait.
    pub(super) fn linger(&mut self, index: usize, now_ns: u64) {
        if !self.closers.has_room() {
            return self.discard(index);
        }
        let token = self.links[index].token(index);
        if let Some(socket) = self.detach(index) {
            self.closers.add(&mut self.io, token, socket, now_ns);
        }
    }
}
