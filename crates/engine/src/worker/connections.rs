//! How a share's connections come and go: opened, lost, given up, left for the server to close.

use super::http2::Links;
use super::{LINGER_NS, Scripted, WorkerSession};
use crate::block_run::{BlockRun, LoadModel};
use crate::clock::{Clocks, Reading};
use crate::coalescing::{CoalescingRule, FEWEST_OUTSTANDING, TogetherTrial};
use crate::conn::{Conn, Linger, State, place};
use crate::error::EngineError;
use crate::error_sample::ErrorSample;
use crate::failure::Failure;
use crate::io::{self, Carrier, Event, Needs, Poller, Received};
use crate::plan::{SessionPlan, Target};
use crate::response::Known;
use crate::sys;

use std::collections::VecDeque;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// Between two attempts to connect after a failure.
const REST_NS: u64 = 1_000_000;
/// Successive failed attempts to connect after which a connection is given up for the block.
pub(super) const MOST_FAILURES: u8 = 3;
/// Bytes of several answers over one connection that a read is given room for; what a worker reads into is twice as long.
const MOST_TOGETHER: usize = 30 * 1024;
/// Most connections left to the server's closing at a time; they cost descriptors.
pub const MOST_LINGERING: usize = 1024;

impl<P: Poller> WorkerSession<P> {
    /// Opens `count` connections, or none yet where each request has its own.
    ///
    /// # Errors
    /// [`EngineError::Connect`] for the first that can't be opened within the session's timeout.
    pub fn open(plan: Arc<SessionPlan>, count: usize, stamps: bool) -> Result<Self, EngineError> {
        let requests: Vec<&[u8]> = plan.exchanges.iter().map(|exchange| exchange.request.as_slice()).collect();
        let body_bytes = plan.exchanges.iter().map(|exchange| exchange.body.len()).max().unwrap_or(0);
        let (target, tls) = (Some(&plan.target), plan.tls.as_ref());
        // Over HTTP/2 none leaves as it stands here, and a read may bring as many answers as there are streams.
        let requests = if P::MULTIPLEXES { &[] } else { requests.as_slice() };
        let body_bytes =
            if P::MULTIPLEXES { MOST_TOGETHER.min(body_bytes * plan.streams as usize) } else { body_bytes };
        let tls = tls.map(|tls| if P::MULTIPLEXES { tls.http2() } else { tls.clone() });
        let needs = Needs { connections: count, body_bytes, requests, stamps, target, tls: tls.as_ref() };
        let poller = P::open(&needs);
        let poller = poller.map_err(|source| EngineError::System { what: "io", source })?;
        // Large bodies would fill the socket while they lie, and stop the server.
        let alone = !P::EXTRAS || P::MULTIPLEXES && plan.streams == 1 && plan.tls.is_none();
        let lies = plan.keepalive && alone && !P::LENGTH_ONLY;
        let links = Links::new(&plan, count)?;
        let links_count = count;
        let count = count * plan.streams.max(1) as usize;
        let mut session = Self {
            poller,
            stamped: stamps && lies && matches!(plan.target, Target::Tcp(_)),
            clocks: Clocks::new(&Reading::now()),
            now_ns: 0,
            conns: (0..count).map(|_| Conn::new()).collect(),
            lingering: (0..count).map(|_| None).collect(),
            lingerers: 0,
            known: plan.exchanges.iter().map(|one| Known::of(&one.request).expecting(plan.heads_of(one))).collect(),
            sample: ErrorSample::default(),
            next_exchange: plan.sequence.first().map_or(0, |place| *place as usize),
            last_exchange: if plan.sequence.is_empty() { plan.cycle() - 1 } else { usize::MAX },
            at_in_sequence: 0,
            judges_more: plan.judges_more(),
            cursor: 0,
            outstanding: 0,
            coalescing: CoalescingRule::default(),
            together_trial: (plan.streams > 1 && links_count < FEWEST_OUTSTANDING).then(TogetherTrial::default),
            free: VecDeque::with_capacity(count),
            large: 0,
            given_up: 0,
            in_time_until_ns: 0,
            resting: VecDeque::with_capacity(count),
            unread: VecDeque::with_capacity(count),
            behind: (0..if plan.pipelined() { count } else { 0 }).map(|_| VecDeque::new()).collect(),
            freed: (0..if plan.pipelined() { count } else { 0 }).map(|_| VecDeque::new()).collect(),
            cycle: plan.cycle(),
            together: Vec::new(),
            links,
            scripted: Scripted::of(&plan, count),
            kinds: Vec::new(),
            opened_ns: Vec::with_capacity(if plan.keepalive { count } else { 0 }),
            plan,
        };
        if P::MULTIPLEXES && session.plan.keepalive {
            let limit = Duration::from_nanos(session.plan.timeout_ns);
            let refused = |(link, source): (usize, Error)| (link + 1, source);
            let opened = session.open_links(limit).map_err(refused);
            opened.map_err(|(number, source)| EngineError::Connect {
                target: session.plan.target.clone(),
                number,
                of: links_count,
                source,
            })?;
            session.tidy_links();
        } else if session.plan.keepalive {
            let limit = Duration::from_nanos(session.plan.timeout_ns);
            for index in 0..count {
                let began_ns = sys::now_ns();
                session.open_one(index, limit).map_err(|source| EngineError::Connect {
                    target: session.plan.target.clone(),
                    number: index + 1,
                    of: count,
                    source,
                })?;
                session.opened_ns.push(sys::now_ns() - began_ns);
            }
        }
        session.poller.settle();
        Ok(session)
    }

    fn open_one(&mut self, index: usize, limit: Duration) -> Result<(), Error> {
        let socket = io::connect_wait(&self.plan.target, self.plan.source(index), limit)?;
        let conn = &mut self.conns[index];
        conn.attach(socket.into(), State::Idle);
        (conn.fresh, conn.left) = (false, self.plan.requests_per_connection);
        let token = conn.token(index);
        let Some(socket) = &conn.socket else { return Ok(()) };
        self.poller.watch(token, socket, false)?;
        if P::EXTRAS
            && let Some(plain) = socket.socket()
        {
            plain.set_nonblocking(false)?;
            plain.set_read_timeout(Some(limit))?;
            if !self.poller.handshake(token, socket)? {
                return Err(Error::new(ErrorKind::TimedOut, "TLS: no handshake in time"));
            }
            plain.set_nonblocking(true)?;
        }
        Ok(())
    }

    /// Finds connections that the server closed while they were idle, without waiting: they are no errors.
    pub(super) fn look(&mut self, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        loop {
            let count = self.poller.wait(0, 0, None);
            for index in 0..count {
                let Some(event) = self.poller.event(index) else { continue };
                if P::MULTIPLEXES {
                    self.look_at_link(event, block_run, buffer);
                    continue;
                }
                let (index, generation) = place(event.token);
                let conn = &self.conns[index];
                if conn.generation == generation && conn.state == State::Idle {
                    self.idle_event(index, block_run, buffer);
                }
            }
            if count == 0 {
                return;
            }
        }
    }

    pub(super) fn connect(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if P::MULTIPLEXES {
            return self.want_link(index, now_ns, block_run);
        }
        if let Some(link) = P::LINK {
            return self.chain(index, link, now_ns, block_run);
        }
        if !self.conns[index].fresh {
            self.conns[index].depart(now_ns, block_run); // else it waits for its turn since then
        }
        let (socket, connected) = match io::connect(&self.plan.target, self.plan.source(index), self.plan.keepalive) {
            Ok(begun) => begun,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return self.queue_full(index, error, now_ns, block_run);
            }
            Err(error) => return self.unconnected(index, error, now_ns, block_run),
        };
        let conn = &mut self.conns[index];
        conn.attach(socket.into(), State::Connecting);
        let token = conn.token(index);
        let added = conn.socket.as_ref().map_or(Ok(()), |socket| self.poller.watch(token, socket, !connected));
        match added {
            Err(error) => self.unconnected(index, error, now_ns, block_run),
            Ok(()) if connected => self.connected(index, block_run),
            Ok(()) => {}
        }
    }

    /// TCP's handshake is over: another one follows, or the request leaves.
    fn connected(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let conn = &mut self.conns[index];
        if P::EXTRAS {
            let Some(socket) = &conn.socket else { return };
            match self.poller.handshake(conn.token(index), socket) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.unconnected(index, error, sys::now_ns(), block_run),
            }
        }
        let now_ns = sys::now_ns();
        block_run.connected(now_ns - conn.since_ns);
        if P::LINKS {
            return self.left(index, block_run);
        }
        (conn.failures, conn.state, conn.left) = (0, State::Idle, self.plan.requests_per_connection);
        self.send_next(index, now_ns, block_run);
    }

    #[cold]
    pub(super) fn unconnected(
        &mut self,
        index: usize,
        error: Error,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        if P::LINKS {
            self.unchain(index, block_run);
        }
        let refused = error.kind() == ErrorKind::ConnectionRefused;
        let encrypted = error.kind() == ErrorKind::InvalidData;
        let kind = if refused {
            Failure::Refused
        } else if encrypted {
            Failure::Tls
        } else {
            Failure::Connect
        };
        block_run.mishap(kind);
        self.sample.note(kind, format!("connect: {error}").as_bytes());
        self.discard(index);
        let conn = &mut self.conns[index];
        conn.failures += 1;
        if conn.failures < MOST_FAILURES {
            return self.rest(index, now_ns);
        }
        conn.state = State::GivenUp;
        self.given_up += 1;
        if conn.due_ns != 0 {
            block_run.set_free(std::mem::take(&mut conn.due_ns));
        }
        if block_run.window.requests_left.is_some() {
            self.cursor = 0; // others that found no ticket may send in its place
        }
    }

    /// A unix socket's queue of connections is full: TCP would try again by itself, here we do.
    #[cold]
    fn queue_full(&mut self, index: usize, error: Error, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if now_ns - self.conns[index].since_ns >= self.plan.timeout_ns {
            return self.unconnected(index, error, now_ns, block_run);
        }
        self.conns[index].fresh = true;
        self.rest(index, now_ns);
    }

    pub(super) fn rest(&mut self, index: usize, now_ns: u64) {
        self.conns[index].state = State::Resting;
        self.resting.push_back((now_ns + REST_NS, index));
    }

    pub(super) fn handshake_event(
        &mut self,
        index: usize,
        event: Event,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let now_ns = sys::now_ns();
        let socket = self.conns[index].socket.as_ref().and_then(Carrier::socket);
        let error = match socket.and_then(|socket| socket.take_error().transpose()) {
            None if event.unsent != 0 => Some(Error::from_raw_os_error(event.unsent)),
            told => told.map(|told| told.unwrap_or_else(|error| error)),
        };
        match error {
            Some(error) => self.unconnected(index, error, now_ns, block_run),
            None => {
                self.poller.established(self.conns[index].token(index));
                self.connected(index, block_run);
                // The edge that told of the handshake may have told of an end, too, and won't come again.
                if event.readable && self.conns[index].state == State::Waiting {
                    self.read_some(index, event.closing, block_run, buffer);
                }
            }
        }
    }

    /// An event of a connection that was done with: the server closes it, as it should.
    pub(super) fn former_event(&mut self, token: u64, closing: bool) {
        let (index, _) = place(token);
        let former = &self.lingering[index];
        if closing && former.as_ref().is_some_and(|former| former.token == token) {
            self.forget(index);
        }
    }

    /// The server closed an idle connection (no error), or sent what nobody asked for.
    #[cold]
    pub(super) fn idle_event(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        let conn = &mut self.conns[index];
        let Some(socket) = &conn.socket else { return };
        match self.poller.receive(socket, buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Ok(Received { bytes: [], .. }) | Err(_) => {}
            Ok(Received { bytes, .. }) => {
                block_run.counts.bytes_in += bytes.len() as u64;
                block_run.mishap(Failure::BadResponse);
                self.sample.note(Failure::BadResponse, bytes);
            }
        }
        self.discard(index);
    }

    /// Leaves the share as the next block should find it: idle connections, nothing pending.
    pub(super) fn tidy(&mut self, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        self.look(block_run, buffer);
        for index in 0..self.conns.len() {
            self.forget(index);
            let conn = &mut self.conns[index];
            (conn.failures, conn.arrived_ns) = (0, 0);
            let due_ns = std::mem::take(&mut conn.due_ns);
            if due_ns != 0 && conn.state != State::Waiting {
                block_run.never_left(due_ns);
            }
            match conn.state {
                State::Idle if self.plan.keepalive => conn.fresh = false,
                state => {
                    block_run.counts.in_flight += u64::from(state == State::Waiting) + self.forget_behind(index) as u64;
                    self.discard(index);
                }
            }
        }
        if P::MULTIPLEXES {
            self.tidy_links();
        }
        self.tidy_script();
        self.poller.settle();
        (self.outstanding, self.given_up, self.lingerers) = (0, 0, 0);
        self.freed.iter_mut().for_each(VecDeque::clear);
        self.resting.clear();
        self.unread.clear();
        if !self.sample.is_empty() {
            // An answer that was on a wrong way may have ended otherwise.
            let errors = &block_run.counts.errors;
            block_run.counts.samples = self.sample.take();
            block_run.counts.samples.retain(|(kind, _)| errors[*kind as usize] > 0);
        }
    }

    /// Closes a connection's socket, if it has one.
    pub(super) fn discard(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        let token = conn.token(index);
        if let Some(socket) = conn.detach() {
            self.poller.release(token, socket);
        }
        if P::EXTRAS {
            self.forget_for_script(index);
        }
    }

    /// Leaves an answered connection to the server's closing, as long as there are not too many of them.
    pub(super) fn linger(&mut self, index: usize, now_ns: u64) {
        if self.lingerers >= MOST_LINGERING {
            return self.discard(index);
        }
        self.forget(index);
        let conn = &mut self.conns[index];
        let token = conn.token(index);
        if let Some(socket) = conn.detach() {
            self.lingering[index] = Some(Linger { socket, token, since_ns: now_ns });
            self.lingerers += 1;
        }
    }

    /// Closes the socket that the place had before, if it is still there.
    pub(super) fn forget(&mut self, index: usize) {
        if let Some(former) = self.lingering[index].take() {
            self.poller.release(former.token, former.socket);
            self.lingerers -= 1;
        }
    }

    /// Closes what the server had its time to close.
    pub(super) fn close_former(&mut self, index: usize, now_ns: u64) {
        let former = &self.lingering[index];
        if former.as_ref().is_some_and(|former| now_ns >= former.since_ns + LINGER_NS) {
            self.forget(index);
        }
    }
}
