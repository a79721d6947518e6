//! How connections are opened and upgraded, lost and closed.

use super::super::link::State;
use super::super::{LOOK_LIMIT, MAX_FAILURES, Worker};
use super::{WebSocket, push};
use crate::block_run::{BlockRun, LoadModel};
use crate::failure::Failure;
use crate::io::{self, Carrier, Event, Transport, split_token};
use crate::patience::Patience;
use crate::sys;
use crate::websocket::Upgrade;
use std::io::{Error, ErrorKind};
use std::time::Duration;

/// Length of the buffer for reads before the first block.
const OPENING_BYTES: usize = 16 * 1024;

impl<T: Transport> Worker<T, WebSocket> {
    /// Opens all connections, and waits for the response to the upgrade of each.
    ///
    /// # Errors
    /// The number of the first connection that can't be opened, and the reason.
    pub(super) fn upgrade_all(&mut self, limit: Duration) -> Result<(), (usize, Error)> {
        let mut buffer = vec![0; OPENING_BYTES];
        for index in 0..self.links.len() {
            self.open_one(index, limit, &mut buffer).map_err(|error| (index, error))?;
        }
        let patience = self.core.patience(limit);
        while let Some(silent) = self.links.iter().position(|link| link.proto.upgrade.is_some()) {
            if !patience.lasts() {
                return Err((silent, Error::new(ErrorKind::TimedOut, "WebSocket: no response to the upgrade in time")));
            }
            for index in 0..self.io.wait(sys::now_ns(), patience.next_wait_ns(), None) {
                let Some(event) = self.io.event(index) else { continue };
                let (index, generation) = split_token(event.token);
                if self.links[index].generation == generation {
                    self.listen(index, &self.core.patience(LOOK_LIMIT), &mut buffer).map_err(|error| (index, error))?;
                }
            }
        }
        self.links.iter_mut().for_each(|link| link.proto.place.fresh = false);
        Ok(())
    }

    fn open_one(&mut self, index: usize, limit: Duration, buffer: &mut [u8]) -> Result<(), Error> {
        let began_ns = sys::now_ns();
        let socket =
            io::connect_wait(&self.core.plan.target, self.core.plan.source(index), &self.core.patience(limit))?;
        self.attach(index, socket.into());
        self.links[index].proto.place.since_ns = began_ns;
        self.shake_hands(index, limit)?;
        self.request_upgrade(index)?;
        // Bytes that came with the end of the handshake are not reported by an event.
        self.io.turn_to(self.links[index].token(index));
        self.listen(index, &self.core.patience(LOOK_LIMIT), buffer)
    }

    fn attach(&mut self, index: usize, socket: T::Socket) {
        let link = &mut self.links[index];
        link.attach(socket);
        (link.proto.place.state, link.proto.place.fresh) = (State::Connecting, true);
    }

    /// Returns how many bytes were sent.
    fn request_upgrade(&mut self, index: usize) -> Result<usize, Error> {
        let Self { core, io, links, .. } = self;
        let seed = sys::now_ns() ^ (index as u64) << 48;
        let (upgrade, request) = Upgrade::request(core.plan.exchanges[0].parts().0, seed);
        links[index].proto.upgrade = Some(Box::new(upgrade));
        push(io, index, &mut links[index], &request)
    }

    /// Opens the connection of a place that has a message to send.
    pub(super) fn begin_link(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let place = self.place(index);
        if !place.fresh {
            place.depart(now_ns, block_run); // otherwise it has waited for its turn since then
        }
        let (socket, connected) = match io::connect(&self.core.plan.target, self.core.plan.source(index), true) {
            Ok(begun) => begun,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return self.queue_full(index, &error, now_ns, block_run);
            }
            Err(error) => return self.unconnected(index, &error, now_ns, block_run),
        };
        self.attach(index, socket.into());
        let link = &self.links[index];
        let added = link.socket.as_ref().map_or(Ok(()), |socket| self.io.watch(link.token(index), socket, !connected));
        match added {
            Err(error) => self.unconnected(index, &error, now_ns, block_run),
            Ok(()) if connected => self.connected(index, block_run),
            Ok(()) => {}
        }
    }

    /// TCP's handshake is complete: TLS's follows, or the upgrade is requested.
    fn connected(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let link = &self.links[index];
        let Some(socket) = &link.socket else { return };
        let sent = match self.io.handshake(link.token(index), socket) {
            Ok(true) => self.request_upgrade(index),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        match sent {
            Ok(bytes) => block_run.counts.bytes_out += bytes as u64,
            Err(error) => self.unconnected(index, &error, sys::now_ns(), block_run),
        }
    }

    pub(super) fn handshake_event(
        &mut self,
        index: usize,
        event: Event,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let socket = self.links[index].socket.as_ref().and_then(Carrier::socket);
        if let Some(reported) = socket.and_then(|socket| socket.take_error().transpose()) {
            let error = reported.unwrap_or_else(|error| error);
            return self.unconnected(index, &error, sys::now_ns(), block_run);
        }
        self.io.established(event.token);
        self.connected(index, block_run);
        // The event that reported the end of the handshake may also report data; there won't be another one.
        if event.readable && self.links[index].proto.upgrade.is_some() {
            self.read_link(index, event.closing, block_run, buffer);
        }
    }

    /// The connection could not be opened or upgraded.
    #[cold]
    pub(super) fn unconnected(
        &mut self,
        index: usize,
        error: &Error,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
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

    /// Closes the connection, if there is one.
    pub(super) fn discard(&mut self, index: usize) {
        let link = &mut self.links[index];
        (link.proto.place.state, link.proto.place.fresh) = (State::Closed, false);
        (link.proto.reader, link.proto.upgrade) = (Default::default(), None);
        link.proto.out.clear();
        if let Some(socket) = link.socket.take() {
            self.io.release(link.token(index), socket);
        }
    }

    /// The connection has ended, and with it the message in flight or the upgrade. `freed`: its place has just become free.
    #[cold]
    pub(super) fn ended(
        &mut self,
        index: usize,
        failure: Failure,
        why: &str,
        freed: bool,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        match self.place(index).state {
            State::Connecting => {
                let error = Error::new(ErrorKind::Unsupported, format!("no response to the upgrade: {why}"));
                self.unconnected(index, &error, now_ns, block_run);
            }
            State::Waiting => {
                self.core.ledger.outstanding -= 1;
                self.count_failed(index, failure, block_run);
                self.core.judge.sample.note(failure, why.as_bytes());
                let fresh = self.place(index).fresh;
                self.discard(index);
                if fresh {
                    self.rest(index, now_ns); // don't hammer a server that accepts connections and drops them
                } else {
                    self.send_next(index, now_ns, block_run);
                }
            }
            _ => {
                if failure == Failure::BadResponse {
                    block_run.count_error(failure);
                    self.core.judge.sample.note(failure, why.as_bytes());
                }
                self.discard(index);
                if freed {
                    self.send_next(index, now_ns, block_run);
                }
            }
        }
    }

    /// Handles an event before or after a block: the server closes the connection, or sends a ping.
    pub(super) fn idle_event(
        &mut self,
        index: usize,
        patience: &Patience,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        self.go_on(index);
        if let Err(error) = self.listen(index, patience, buffer) {
            if error.kind() == ErrorKind::Unsupported {
                block_run.count_error(Failure::BadResponse);
                self.core.judge.sample.note(Failure::BadResponse, error.to_string().as_bytes());
            }
            self.discard(index);
        }
    }

    /// Fails messages that have taken too long.
    pub(super) fn scan_links(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if now_ns < self.core.timers.in_time_until_ns {
            return;
        }
        let timeout_ns = self.core.plan.timeout_ns;
        let limit_ms = timeout_ns / 1_000_000;
        let mut oldest_ns = now_ns;
        for index in 0..self.links.len() {
            let place = self.place(index);
            let late = now_ns.saturating_sub(place.since_ns) >= timeout_ns;
            match place.state {
                State::Waiting if late => {
                    let why = format!("no complete response within {limit_ms} ms");
                    self.ended(index, Failure::Timeout, &why, false, now_ns, block_run);
                }
                State::Connecting if late => {
                    let error = Error::new(ErrorKind::TimedOut, format!("not connected within {limit_ms} ms"));
                    self.unconnected(index, &error, now_ns, block_run);
                }
                _ => {}
            }
            // A message that is sent later than now can't time out before these. A resting place keeps its begin.
            let place = self.place(index);
            if place.fresh || matches!(place.state, State::Waiting | State::Connecting | State::Resting) {
                oldest_ns = oldest_ns.min(place.since_ns);
            }
        }
        self.core.timers.in_time_until_ns = oldest_ns + timeout_ns;
    }
}
