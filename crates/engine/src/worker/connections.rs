//! How a share's connections come and go: opened, lost, given up, left for the server to close.

use super::{LINGER_NS, Share};
use crate::conn::{Conn, Linger, State, place};
use crate::error::EngineError;
use crate::io::{self, Event, Poller};
use crate::lap::Lap;
use crate::plan::SessionPlan;
use crate::response::{Known, Sample};
use crate::sys;
use crate::tally::Failure;
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// Between two attempts to connect after a failure.
const REST_NS: u64 = 1_000_000;
/// Successive failed attempts to connect after which a connection is given up for the block.
const MOST_FAILURES: u8 = 3;
/// Most connections left to the server's closing at a time; they cost descriptors.
pub const MOST_LINGERING: usize = 1024;

impl Share {
    /// Opens `count` connections, or none yet where each request has its own.
    ///
    /// # Errors
    /// [`EngineError::Connect`] for the first that can't be opened within the session's timeout.
    pub fn open(plan: Arc<SessionPlan>, count: usize) -> Result<Self, EngineError> {
        let poller = Poller::new().map_err(|source| EngineError::System { what: "epoll", source })?;
        let mut share = Self {
            poller,
            conns: (0..count).map(|_| Conn::new()).collect(),
            lingering: (0..count).map(|_| None).collect(),
            lingerers: 0,
            known: plan.exchanges.iter().map(|_| Known::default()).collect(),
            sample: Sample::default(),
            next_exchange: 0,
            cursor: 0,
            outstanding: 0,
            given_up: 0,
            resting: VecDeque::with_capacity(count),
            unread: VecDeque::with_capacity(count),
            plan,
        };
        if share.plan.keepalive {
            let limit = Duration::from_nanos(share.plan.timeout_ns);
            for index in 0..count {
                share.open_one(index, limit).map_err(|source| EngineError::Connect {
                    address: share.plan.address,
                    number: index + 1,
                    of: count,
                    source,
                })?;
            }
        }
        Ok(share)
    }

    fn open_one(&mut self, index: usize, limit: Duration) -> Result<(), Error> {
        let socket = io::connect_wait(self.plan.address, limit)?;
        let conn = &mut self.conns[index];
        conn.attach(socket, State::Idle);
        conn.fresh = false;
        let token = conn.token(index);
        conn.socket.as_ref().map_or(Ok(()), |socket| self.poller.add(socket, token, false))
    }

    /// Finds connections that the server closed while they were idle, without waiting: they are no errors.
    pub fn look_round(&mut self, lap: &mut Lap, buffer: &mut [u8]) {
        loop {
            let count = self.poller.wait(0);
            for index in 0..count {
                let event = self.poller.event(index);
                let (index, generation) = place(event.token);
                let conn = &self.conns[index];
                if conn.generation == generation && conn.state == State::Idle {
                    self.idle_event(index, lap, buffer);
                }
            }
            if count == 0 {
                return;
            }
        }
    }

    pub(super) fn connect(&mut self, index: usize, now_ns: u64, lap: &mut Lap) {
        let (socket, connected) = match io::connect(self.plan.address, self.plan.keepalive) {
            Ok(begun) => begun,
            Err(error) => return self.unconnected(index, error, now_ns, lap),
        };
        let conn = &mut self.conns[index];
        conn.attach(socket, if connected { State::Idle } else { State::Connecting });
        conn.since_ns = now_ns;
        let token = conn.token(index);
        let added = conn.socket.as_ref().map_or(Ok(()), |socket| self.poller.add(socket, token, !connected));
        match added {
            Err(error) => self.unconnected(index, error, now_ns, lap),
            Ok(()) if connected => self.connected(index, now_ns, lap),
            Ok(()) => {}
        }
    }

    pub(super) fn connected(&mut self, index: usize, now_ns: u64, lap: &mut Lap) {
        lap.counts.connects += 1;
        self.conns[index].failures = 0;
        self.conns[index].state = State::Idle;
        self.kick(index, now_ns, lap);
    }

    #[cold]
    pub(super) fn unconnected(&mut self, index: usize, error: Error, now_ns: u64, lap: &mut Lap) {
        let refused = error.kind() == ErrorKind::ConnectionRefused;
        lap.mishap(if refused { Failure::Refused } else { Failure::Connect });
        self.sample.note(format!("connect: {error}").as_bytes());
        let conn = &mut self.conns[index];
        drop(conn.detach());
        conn.failures += 1;
        if conn.failures < MOST_FAILURES {
            return self.rest(index, now_ns);
        }
        conn.state = State::GivenUp;
        self.given_up += 1;
        if lap.window.tickets.is_some() {
            self.cursor = 0; // others that found no ticket may send in its place
        }
    }

    pub(super) fn rest(&mut self, index: usize, now_ns: u64) {
        self.conns[index].state = State::Resting;
        self.resting.push_back((now_ns + REST_NS, index));
    }

    pub(super) fn handshake_event(&mut self, index: usize, event: Event, lap: &mut Lap, buffer: &mut [u8]) {
        let now_ns = sys::now_ns();
        let error = self.conns[index].socket.as_ref().and_then(|socket| socket.take_error().transpose());
        match error {
            Some(Ok(error) | Err(error)) => self.unconnected(index, error, now_ns, lap),
            None => {
                self.connected(index, now_ns, lap);
                // The edge that told of the handshake may have told of an end, too, and won't come again.
                if event.readable && self.conns[index].state == State::Waiting {
                    self.read(index, event.closing, lap, buffer);
                }
            }
        }
    }

    /// An event of a connection that was done with: the server closes it, as it should.
    pub(super) fn former_event(&mut self, index: usize, generation: u32, closing: bool) {
        let former = &mut self.lingering[index];
        if closing && former.as_ref().is_some_and(|former| former.generation == generation) {
            *former = None;
            self.lingerers -= 1;
        }
    }

    /// The server closed an idle connection (no error), or sent what nobody asked for.
    #[cold]
    pub(super) fn idle_event(&mut self, index: usize, lap: &mut Lap, buffer: &mut [u8]) {
        let conn = &mut self.conns[index];
        let Some(socket) = &conn.socket else { return };
        match io::receive(socket, buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Ok(got @ 1..) => {
                lap.counts.bytes_in += got as u64;
                lap.mishap(Failure::BadResponse);
                self.sample.note(&buffer[..got]);
            }
            Ok(0) | Err(_) => {}
        }
        drop(conn.detach());
    }

    /// Leaves the share as the next block should find it: idle connections, nothing pending.
    pub(super) fn tidy(&mut self, lap: &mut Lap, buffer: &mut [u8]) {
        self.look_round(lap, buffer);
        for (conn, former) in self.conns.iter_mut().zip(&mut self.lingering) {
            *former = None;
            match conn.state {
                State::Waiting => {
                    lap.counts.in_flight += 1;
                    drop(conn.detach());
                }
                State::Idle if self.plan.keepalive => conn.fresh = false,
                _ => drop(conn.detach()),
            }
            conn.failures = 0;
        }
        (self.outstanding, self.given_up, self.lingerers) = (0, 0, 0);
        self.resting.clear();
        self.unread.clear();
        if !self.sample.is_empty() {
            lap.counts.sample = self.sample.take();
        }
    }

    /// Leaves an answered connection to the server's closing, as long as there are not too many of them.
    pub(super) fn linger(&mut self, index: usize, socket: Option<Socket>, now_ns: u64) {
        if self.lingerers >= MOST_LINGERING {
            return;
        }
        let generation = self.conns[index].generation;
        let former = &mut self.lingering[index];
        self.lingerers += usize::from(former.is_none() && socket.is_some());
        *former = socket.map(|socket| Linger { _socket: socket, generation, since_ns: now_ns });
    }

    /// Closes what the server had its time to close.
    pub(super) fn close_former(&mut self, index: usize, now_ns: u64) {
        let former = &mut self.lingering[index];
        if former.as_ref().is_some_and(|former| now_ns >= former.since_ns + LINGER_NS) {
            *former = None;
            self.lingerers -= 1;
        }
    }
}
