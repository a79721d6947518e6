//! Protocols with one place on each connection: how connections are opened for a request, lost, tried again and given up.

use super::link::{Link, State};
use super::protocol::Protocol;
use super::{MAX_FAILURES, Worker};
use crate::block_run::{BlockRun, LoadModel};
use crate::failure::Failure;
use crate::io::{self, Carrier, Event, Transport};
use crate::sys;
use std::io::{Error, ErrorKind};

/// A protocol with one place on each connection; place and connection have the same number.
pub(super) trait Single: Protocol {
    /// The connection is a new one, or is closed.
    fn reset(link: &mut Self::Link);

    /// The connection is open, its handshakes complete.
    fn opened<T: Transport>(worker: &mut Worker<T, Self>, index: usize, block_run: &mut BlockRun<impl LoadModel>);

    /// Whether bytes are due on a connection.
    fn expects_bytes<S>(link: &Link<S, Self::Link>) -> bool;

    /// Reads what has arrived.
    fn read<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    );

    /// A connection could not be opened: undoes what was counted for it.
    fn unopened<T: Transport>(_: &mut Worker<T, Self>, _: usize, _: &mut BlockRun<impl LoadModel>) {}

    /// The requests that were sent after a lost one have failed, too.
    fn fail_behind<T: Transport>(_: &mut Worker<T, Self>, _: usize, _: Failure, _: &mut BlockRun<impl LoadModel>) {}

    /// A connection was closed.
    fn closed(&mut self, _: usize) {}
}

impl<T: Transport, C: Single> Worker<T, C> {
    /// Begins to use a new socket.
    pub(super) fn attach(&mut self, index: usize, socket: T::Socket, state: State) {
        let link = &mut self.links[index];
        link.attach(socket);
        C::reset(&mut link.proto);
        let place = self.place(index);
        (place.state, place.fresh) = (state, true);
    }

    /// Takes the socket out, to be closed now or later.
    pub(super) fn detach(&mut self, index: usize) -> Option<T::Socket> {
        let place = self.place(index);
        (place.state, place.fresh) = (State::Closed, false);
        let link = &mut self.links[index];
        C::reset(&mut link.proto);
        link.socket.take()
    }

    /// Closes the connection, if there is one.
    pub(super) fn discard(&mut self, index: usize) {
        let token = self.links[index].token(index);
        if let Some(socket) = self.detach(index) {
            self.io.release(token, socket);
        }
        self.proto.closed(index);
    }

    /// Opens the connection of a place that has a request to send.
    pub(super) fn begin_connection(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
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

    /// TCP's handshake is complete: another one follows, or the connection is open.
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
        C::opened(self, index, block_run);
    }

    /// Handles an event of a connection whose handshakes are not complete.
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
        if let Some(error) = error {
            return self.unconnected(index, &error, now_ns, block_run);
        }
        self.io.established(event.token);
        self.connected(index, block_run);
        // The same event may report data or the end of the connection; there won't be another one.
        if event.readable && C::expects_bytes(&self.links[index]) {
            C::read(self, index, event.closing, block_run, buffer);
        }
    }

    /// The connection could not be opened.
    #[cold]
    pub(super) fn unconnected(
        &mut self,
        index: usize,
        error: &Error,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        C::unopened(self, index, block_run);
        self.note_unconnected(error, block_run);
        self.discard(index);
        self.links[index].failures += 1;
        if self.links[index].failures < MAX_FAILURES {
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

    /// Nothing of the request was sent. On a connection that had been idle this only means that the server had closed it;
    /// on a new one it is a failure.
    #[cold]
    pub(super) fn unsendable(
        &mut self,
        index: usize,
        error: &Error,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let fresh = self.place(index).fresh;
        self.discard(index);
        if fresh {
            block_run.counts.sent += 1;
            self.count_failed(index, Failure::Send, block_run);
            self.core.judge.sample.note(Failure::Send, format!("send: {error}").as_bytes());
            self.rest(index, now_ns);
        } else {
            block_run.keep_permit(&mut self.place(index).due_ns);
            C::connect(self, index, now_ns, block_run);
        }
    }

    /// The outstanding request failed with its connection.
    #[cold]
    pub(super) fn lost(
        &mut self,
        index: usize,
        failure: Failure,
        why: &str,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        self.core.ledger.outstanding -= 1;
        self.count_failed(index, failure, block_run);
        C::fail_behind(self, index, failure, block_run);
        self.core.judge.sample.note(failure, why.as_bytes());
        let fresh = self.place(index).fresh;
        self.discard(index);
        if fresh {
            self.rest(index, now_ns); // don't hammer a server that accepts connections and drops them
        } else {
            self.send_next(index, now_ns, block_run);
        }
    }

    /// Fails requests that have taken too long; closes connections that the server should have closed.
    pub(super) fn scan_places(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if now_ns < self.core.timers.in_time_until_ns && self.closers.count() == 0 {
            return;
        }
        let timeout_ns = self.core.plan.timeout_ns;
        let limit_ms = timeout_ns / 1_000_000;
        let mut oldest_ns = now_ns;
        for index in 0..self.links.len() {
            self.closers.close_late(&mut self.io, index, now_ns);
            let place = self.place(index);
            let late = now_ns.saturating_sub(place.since_ns) >= timeout_ns;
            match place.state {
                State::Waiting if late => {
                    let why = format!("no complete response within {limit_ms} ms");
                    self.lost(index, Failure::Timeout, &why, now_ns, block_run);
                }
                State::Connecting if late => {
                    let error = Error::new(ErrorKind::TimedOut, format!("not connected within {limit_ms} ms"));
                    self.unconnected(index, &error, now_ns, block_run);
                }
                _ => {}
            }
            // A request that begins later than now can't time out before these. A resting place keeps its begin.
            let place = self.place(index);
            if place.fresh || matches!(place.state, State::Waiting | State::Connecting | State::Resting) {
                oldest_ns = oldest_ns.min(place.since_ns);
            }
        }
        self.core.timers.in_time_until_ns = oldest_ns + timeout_ns;
    }
}
