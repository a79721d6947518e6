//! The worker's loop: its share of a session's connections, and the blocks that run on them.
//!
//! In a closed loop, a connection's next request is sent as soon as its response is complete. A response arrives at the
//! kernel's timestamp; without one (TLS, unix sockets), at the reading of the clock after the response was read. One such
//! reading per event is also the send time of the next request over epoll; io_uring notes send times itself. If a
//! connection has to be opened for a request, the request's latency begins there, because that is when it was due.

mod arrived;
mod closers;
mod core;
mod counting;
mod first_byte;
mod http1;
mod http2;
mod link;
mod open_loop;
mod protocol;
mod single;
mod websocket;

use self::core::Core;
use crate::block_run::{BlockRun, ClosedLoop, LoadModel};
use crate::clock::{Clocks, Reading};
use crate::coalescing::MAX_ANSWERS;
use crate::error::EngineError;
use crate::failure::Failure;
use crate::io::{self, Blocking, Buffered, Chosen, Coalescing, Epoll, Needs, Transport, Uring, UringLinked};
use crate::patience::Patience;
use crate::plan::{self, SessionPlan};
use crate::schedule::NEVER_NS;
use crate::sys;
use closers::Closers;
pub use closers::MAX_LINGERING;
use http1::{Http1, Kept, LengthOnly, Limited, Pipelined};
use http2::Http2;
use link::{Link, Place, State};
pub use open_loop::{OpenLoop, counted_end_ns};
use protocol::{Protocol, Wants};
use std::cell::Cell;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use websocket::WebSocket;

/// Interval at which timeouts and the stop flag are checked.
const SCAN_NS: u64 = 20_000_000;
/// How long to read between two blocks what servers send without being asked.
const LOOK_LIMIT: Duration = Duration::from_millis(20);
/// How long the server may take to close a connection after its last response.
const LINGER_NS: u64 = 10_000_000;
/// Pause between two attempts to connect, after a failure.
const REST_NS: u64 = 1_000_000;
/// How long a session that may begin with fewer connections waits for the next one.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Consecutive failed attempts to connect after which a connection is given up for the block.
const MAX_FAILURES: u8 = 3;
/// Places started between two waits.
const START_BATCH: usize = 64;
/// Reads from one connection before the others have their turn.
const MAX_READS: u32 = 16;
/// A polling worker that needs longer than this for one wait without an event was taken off its core.
const AWAY_NS: u64 = 20_000;
/// A polling worker that another program has taken off its core sleeps in its waits for this many times as long.
const SLEEP_AFTER: u64 = 4;

thread_local! {
    /// Until then this worker sleeps in its waits instead of polling, whatever the session.
    static SLEEPS_UNTIL_NS: Cell<u64> = const { Cell::new(0) };
    /// The thread's involuntary context switches, as last read.
    static SWITCHES: Cell<u64> = const { Cell::new(0) };
}

/// The worker was off its core for this long. If another program has taken the core, sleeping helps; if the hypervisor has,
/// it does not.
#[cold]
fn note_preemption(now_ns: u64, spent_ns: u64) {
    let switches = sys::thread_switches();
    if SWITCHES.replace(switches) < switches {
        SLEEPS_UNTIL_NS.set(now_ns + SLEEP_AFTER * spent_ns);
    }
}

/// What a worker's share of a session runs with.
#[derive(Clone, Copy, Debug)]
pub struct ShareUse {
    /// Why its transport differs from the engine's, if it does.
    pub instead: Option<&'static str>,
    /// The version of TLS, if connections are encrypted.
    pub tls: Option<&'static str>,
    /// How many connections were open when it began; None: each request opens its own.
    pub opened: Option<usize>,
    /// Over HTTP/2: how many concurrent streams the server allows on a connection, at most as many as were requested.
    pub streams: Option<usize>,
}

/// One worker's share of a session, whatever the transport and the protocol.
pub trait SessionWorker {
    /// The plan of its session.
    fn plan(&self) -> &SessionPlan;

    /// What the share runs with.
    fn used(&self) -> ShareUse;

    /// Closes connections that the server has closed while they were idle, without waiting. These are not errors.
    fn reap_closed(&mut self, block_run: &mut BlockRun<ClosedLoop>, buffer: &mut [u8]);

    /// Runs this worker's part of a block, to the end of its drain.
    fn run(&mut self, block_run: &mut BlockRun<ClosedLoop>, buffer: &mut [u8]);

    /// Runs its part of a block with an open loop.
    fn run_open_loop(&mut self, block_run: &mut BlockRun<OpenLoop>, buffer: &mut [u8]);
}

/// Opens one worker's share of a session over the transport that suits it best.
///
/// # Errors
/// As [`Worker::open`].
pub fn open(
    chosen: &Chosen,
    stamps: bool,
    plan: Arc<SessionPlan>,
    count: usize,
    stop: &Arc<AtomicBool>,
) -> Result<Box<dyn SessionWorker>, EngineError> {
    let uring = matches!(chosen, Chosen::Best(_) | Chosen::Uring(_));
    let best = matches!(chosen, Chosen::Best(_));
    match plan.protocol {
        plan::Protocol::Http2 { .. } if plan.tls.is_some() => {
            return boxed::<Buffered, Http2>(plan, count, stamps, stop);
        }
        plan::Protocol::Http2 { .. } if uring => return boxed::<Uring, Http2>(plan, count, stamps, stop),
        plan::Protocol::Http2 { .. } => return boxed::<Epoll, Http2>(plan, count, stamps, stop),
        plan::Protocol::Pipelined { .. } if plan.tls.is_some() => {
            return boxed::<Buffered, Http1<Pipelined>>(plan, count, stamps, stop);
        }
        // With one connection a wait brings one event: over epoll a request costs a tenth less.
        plan::Protocol::Pipelined { .. } if uring && !(best && count == 1) => {
            return boxed::<Uring, Http1<Pipelined>>(plan, count, stamps, stop);
        }
        plan::Protocol::Pipelined { .. } => return boxed::<Epoll, Http1<Pipelined>>(plan, count, stamps, stop),
        plan::Protocol::WebSocket if plan.tls.is_some() => {
            return boxed::<Buffered, WebSocket>(plan, count, stamps, stop);
        }
        plan::Protocol::WebSocket => return boxed::<Epoll, WebSocket>(plan, count, stamps, stop),
        plan::Protocol::Http1 => {}
    }
    if plan.limited() {
        return boxed::<Buffered, Http1<Limited>>(plan, count, stamps, stop);
    }
    if plan.length_only() {
        return boxed::<Epoll, Http1<LengthOnly>>(plan, count, stamps, stop);
    }
    if best && io::suits_blocking(&plan, count) {
        return boxed::<Blocking, Http1<Kept>>(plan, count, stamps, stop);
    }
    if uring && plan.keepalive {
        return boxed::<Uring, Http1<Kept>>(plan, count, stamps, stop);
    }
    if uring && io::suits_linked(&plan) {
        // This fails if its table of files is longer than the limit of descriptors.
        let linked = boxed::<UringLinked, Http1<Kept>>(Arc::clone(&plan), count, stamps, stop);
        return linked.or_else(|_| boxed::<Epoll, Http1<Kept>>(plan, count, stamps, stop));
    }
    // Without linked operations, io_uring gains nothing if every request has a new socket.
    boxed::<Epoll, Http1<Kept>>(plan, count, stamps, stop)
}

fn boxed<T: Transport + 'static, C: Protocol + 'static>(
    plan: Arc<SessionPlan>,
    count: usize,
    stamps: bool,
    stop: &Arc<AtomicBool>,
) -> Result<Box<dyn SessionWorker>, EngineError> {
    Ok(Box::new(Worker::<T, C>::open(plan, count, stamps, stop)?))
}

impl<T: Transport, C: Protocol> SessionWorker for Worker<T, C> {
    fn plan(&self) -> &SessionPlan {
        &self.core.plan
    }

    fn used(&self) -> ShareUse {
        let tls = self.io.tls_version();
        let instead = self.core.plan.tls.as_ref().map(|_| tls.unwrap_or("TLS")).or(C::NEEDS_EPOLL);
        ShareUse { instead, tls, opened: self.core.opened, streams: self.proto.streams_allowed(&self.links) }
    }

    fn reap_closed(&mut self, block_run: &mut BlockRun<ClosedLoop>, buffer: &mut [u8]) {
        self.look(block_run, buffer);
    }

    fn run(&mut self, block_run: &mut BlockRun<ClosedLoop>, buffer: &mut [u8]) {
        self.core.ledger.cursor = 0;
        self.io.steady(true);
        self.block(block_run, buffer);
    }

    fn run_open_loop(&mut self, block_run: &mut BlockRun<OpenLoop>, buffer: &mut [u8]) {
        let ledger = &mut self.core.ledger;
        ledger.cursor = ledger.places; // nothing starts before it is due
        ledger.free.clear();
        ledger.free.extend(self.proto.free_places(self.links.len()));
        self.io.steady(false);
        self.block(block_run, buffer);
    }
}

/// One worker's share of a session.
struct Worker<T: Transport, C: Protocol> {
    core: Core,
    io: T,
    links: Vec<Link<T::Socket, C::Link>>,
    closers: Closers<T::Socket>,
    proto: C,
}

impl<T: Transport, C: Protocol> Worker<T, C> {
    /// Why the transport can't carry the protocol, if it can't.
    const MISFIT: Option<&'static str> = if T::CHAINS && !C::MAY_CHAIN {
        Some("sockets are not its own")
    } else if C::DISCARDS && !T::DISCARDS {
        Some("can't count unread")
    } else if T::AWAITS_ONE && !C::ONE_AT_A_TIME {
        Some("one response at a time")
    } else {
        None
    };
    /// Refuses such pairs when they are compiled.
    const FITS: () = assert!(Self::MISFIT.is_none(), "this transport can't carry this protocol");

    /// Opens this many connections, or none yet if each request has its own.
    ///
    /// # Errors
    /// [`EngineError::Connect`]: a connection could not be opened within the session's timeout.
    fn open(plan: Arc<SessionPlan>, count: usize, stamps: bool, stop: &Arc<AtomicBool>) -> Result<Self, EngineError> {
        let () = Self::FITS;
        let proto = C::prepare(&plan, count)?;
        let Wants { requests, body_bytes, tls } = C::wants(&plan);
        let (target, tls) = (Some(&plan.target), tls.as_ref());
        let needs = Needs { connections: count, body_bytes, requests: &requests, stamps, target, tls };
        let io = T::open(&needs).map_err(|source| EngineError::System { what: "io", source })?;
        let late = plan.keepalive && plan.tls.is_none() && C::may_read_late(&plan);
        let stamped = stamps && late && plan.target.address().is_some();
        let places = count * proto.places_per_link();
        let mut worker = Self {
            core: Core::new(Arc::clone(&plan), places, stamped, Arc::clone(stop)),
            io,
            links: (0..count).map(|_| Link::new(proto.link())).collect(),
            closers: Closers::new(count),
            proto,
        };
        if plan.keepalive {
            let patience_ns = if plan.partial { plan.timeout_ns.min(PATIENCE_NS) } else { plan.timeout_ns };
            let opened = C::open(&mut worker, Duration::from_nanos(patience_ns));
            worker.core.opened = Some(worker.links.iter().filter(|link| link.socket.is_some()).count());
            opened.map_err(|(link, source)| EngineError::Connect {
                target: plan.target.clone(),
                number: link + 1,
                of: count,
                source,
            })?;
        }
        worker.io.settle();
        Ok(worker)
    }

    /// Waits until a new connection's handshakes are complete.
    fn shake_hands(&mut self, link: usize, limit: Duration) -> Result<(), Error> {
        let connection = &self.links[link];
        let (token, Some(socket)) = (connection.token(link), &connection.socket) else { return Ok(()) };
        self.io.watch(token, socket, false)?;
        if T::HANDSHAKES
            && let Some(plain) = io::Carrier::socket(socket)
        {
            let patience = self.core.patience(limit);
            while !self.io.handshake(token, socket)? {
                io::await_socket(plain, libc::POLLIN, &patience).map_err(|error| match error.kind() {
                    ErrorKind::TimedOut => Error::new(ErrorKind::TimedOut, "TLS: no handshake in time"),
                    _ => error,
                })?;
            }
        }
        Ok(())
    }

    /// Waits until the server's greeting has come on all connections: those that it is due on are `awaited`, and `listen` reads
    /// it.
    ///
    /// # Errors
    /// The number of the first connection on which it did not come, and the reason.
    fn await_all(
        &mut self,
        limit: Duration,
        buffer: &mut [u8],
        awaited: impl Fn(&C::Link) -> bool,
        missing: &str,
        listen: impl Fn(&mut Self, usize, &Patience, &mut [u8]) -> Result<(), Error>,
    ) -> Result<(), (usize, Error)> {
        let patience = self.core.patience(limit);
        while let Some(silent) = self.links.iter().position(|link| awaited(&link.proto)) {
            if !patience.lasts() {
                return Err((silent, Error::new(ErrorKind::TimedOut, missing)));
            }
            for index in 0..self.io.wait(sys::now_ns(), patience.next_wait_ns(), None) {
                let Some(event) = self.io.event(index) else { continue };
                let (link, generation) = io::split_token(event.token);
                if self.links[link].generation == generation {
                    listen(self, link, &self.core.patience(LOOK_LIMIT), buffer).map_err(|error| (link, error))?;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn place(&mut self, index: usize) -> &mut Place {
        self.proto.place(&mut self.links, index)
    }

    /// Closes connections that the server has closed while they were idle, without waiting. These are not errors.
    fn look(&mut self, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        let patience = self.core.patience(LOOK_LIMIT);
        loop {
            let count = self.io.wait(0, 0, None);
            for index in 0..count {
                if let Some(event) = self.io.event(index) {
                    C::handle_idle(self, event, &patience, block_run, buffer);
                }
            }
            if count == 0 || !patience.lasts() {
                return;
            }
        }
    }

    fn block(&mut self, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        self.core.clock.now_ns = block_run.window.started_ns;
        let mut next_scan_ns = self.core.clock.now_ns + SCAN_NS;
        self.core.timers.in_time_until_ns = 0;
        self.core.clock.clocks = Clocks::new(&Reading::now());
        for took_ns in self.core.opened_ns.drain(..) {
            block_run.counts.connecting.saturating_record(took_ns);
        }
        // Ends: `done`, and the stop flag; a request that takes too long fails.
        loop {
            if block_run.is_open_loop() {
                self.depart_due(block_run);
            } else {
                self.start_some(block_run);
            }
            let before_ns = self.core.clock.now_ns;
            self.wake_rested(before_ns, block_run);
            C::before_wait(self, before_ns, block_run);
            self.io.flush();
            let coalescing = self.coalescing(before_ns, block_run);
            let limit_ns = self.wait_ns(before_ns, next_scan_ns, block_run);
            let count = if self.core.plan.polls {
                self.poll(before_ns, limit_ns, coalescing, block_run)
            } else {
                self.io.wait(before_ns, limit_ns, coalescing)
            };
            if T::BRINGS_BYTES {
                self.core.clock.now_ns = sys::now_ns(); // everything that the wait has brought arrived before this
            }
            self.record_departures(block_run);
            self.io.latency(self.core.coalescing.least_ns());
            for index in 0..count {
                if let Some(token) = self.io.ahead(index) {
                    self.proto.prefetch(&self.links, token);
                }
                if let Some(event) = self.io.event(index) {
                    C::handle(self, event, block_run, buffer);
                }
            }
            self.read_on(block_run, buffer);
            if block_run.is_open_loop() || self.core.clock.now_ns == before_ns {
                self.core.clock.now_ns = sys::now_ns();
            }
            let now_ns = self.core.clock.now_ns;
            block_run.read_cpu_at_bound(now_ns);
            if block_run.stopped() {
                block_run.counts.stopped = true;
                break;
            }
            if now_ns >= next_scan_ns {
                self.scan(now_ns, block_run);
                block_run.send_snapshot(now_ns);
                next_scan_ns = now_ns + SCAN_NS;
            }
            if self.done(now_ns, block_run) {
                break;
            }
        }
        let gave_up = self.core.ledger.given_up == self.core.ledger.places;
        block_run.end(sys::now_ns(), gave_up, self.proto.halted());
        block_run.record_clock_step(self.core.clock.clocks.follow(&Reading::now()));
        block_run.counts.early_stamps += self.core.clock.clocks.take_early_stamps();
        self.tidy(block_run, buffer);
    }

    /// Waits without sleeping, so that no server pays for waking the worker in its own CPU time. Responses don't share
    /// wake-ups here, so none waits for others. If another program uses the core, polling would use up the time slices that
    /// the work needs: for some time after that program has run, waits sleep.
    fn poll(
        &mut self,
        before_ns: u64,
        limit_ns: u64,
        coalescing: Option<Coalescing>,
        block_run: &mut BlockRun<impl LoadModel>,
    ) -> usize {
        if before_ns < SLEEPS_UNTIL_NS.get() {
            return self.io.wait(before_ns, limit_ns, coalescing);
        }
        let mut count = self.io.wait(before_ns, 0, None);
        if count > 0 || limit_ns == 0 {
            return count;
        }
        let mut looked_ns = sys::now_ns();
        // Ends: `limit_ns`.
        loop {
            count = self.io.wait(looked_ns, 0, None);
            let now_ns = sys::now_ns();
            let spent_ns = now_ns - looked_ns;
            if spent_ns > AWAY_NS {
                note_preemption(now_ns, spent_ns);
            } else if count == 0 {
                block_run.add_poll_time(spent_ns);
            }
            if count > 0 || now_ns >= before_ns + limit_ns || now_ns < SLEEPS_UNTIL_NS.get() {
                return count;
            }
            looked_ns = now_ns;
            std::hint::spin_loop();
        }
    }

    fn done(&self, now_ns: u64, block_run: &BlockRun<impl LoadModel>) -> bool {
        let ending =
            !block_run.may_send(now_ns) || self.core.ledger.given_up == self.core.ledger.places || self.proto.halted();
        ending && self.core.ledger.outstanding == 0 && self.closers.count() == 0
    }

    /// Records the send times of queued requests: a wait in the queue is not the server's time.
    #[inline]
    fn record_departures(&mut self, block_run: &mut BlockRun<impl LoadModel>) {
        // Ends: one for each request that was queued.
        while let Some((token, sent_ns)) = self.io.departure() {
            C::departed(self, token, sent_ns, block_run);
        }
    }

    /// Continues to read from connections that filled the buffer too often in one turn.
    fn read_on(&mut self, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        for _ in 0..self.core.unread.len() {
            let Some((token, closing)) = self.core.unread.pop_front() else {
                return;
            };
            C::read_on(self, token, closing, block_run, buffer);
        }
    }

    /// Whether to wait for several responses: only while all places are in use and more requests may follow.
    fn coalescing(&mut self, now_ns: u64, block_run: &BlockRun<impl LoadModel>) -> Option<Coalescing> {
        let Core { clock, ledger, coalescing, .. } = &self.core;
        if block_run.is_open_loop() {
            // The schedule determines the wake-up, and the kernel's timestamps give the arrival of responses that wait until
            // then. But only an event reports that a connection is open.
            let settled = ledger.free.len() + ledger.outstanding == ledger.places && !ledger.free.is_empty();
            let batches = clock.stamped && settled && block_run.may_batch_reads();
            return batches.then_some(Coalescing { answers: MAX_ANSWERS, most_ns: NEVER_NS });
        }
        let coalescing = self.proto.wait_for(coalescing, ledger.outstanding, self.links.len());
        coalescing.filter(|_| ledger.cursor == ledger.places && block_run.may_send(now_ns))
    }

    /// How long to wait: until something is due.
    fn wait_ns(&self, now_ns: u64, next_scan_ns: u64, block_run: &BlockRun<impl LoadModel>) -> u64 {
        let Core { ledger, timers, unread, .. } = &self.core;
        if ledger.cursor < ledger.places || !unread.is_empty() || self.done(now_ns, block_run) {
            return 0;
        }
        let mut due_ns = next_scan_ns.min(block_run.due_ns(now_ns, !ledger.free.is_empty()));
        if let Some((rested_ns, _)) = timers.resting.front() {
            due_ns = due_ns.min(*rested_ns);
        }
        due_ns = due_ns.min(self.proto.due_ns());
        if ledger.outstanding == 0 && self.closers.count() > 0 {
            due_ns = due_ns.min(now_ns + LINGER_NS);
        }
        due_ns.saturating_sub(now_ns).min(SCAN_NS)
    }

    /// Starts some of the places that have not been started. Starting all at once would let the first responses wait.
    fn start_some(&mut self, block_run: &mut BlockRun<impl LoadModel>) {
        let until = self.core.ledger.places.min(self.core.ledger.cursor + START_BATCH);
        // Ends: the cursor moves on.
        while self.core.ledger.cursor < until {
            self.core.ledger.cursor += 1;
            self.send_next(self.core.ledger.cursor - 1, sys::now_ns(), block_run);
        }
    }

    /// Lets a place try again after a pause.
    fn rest(&mut self, index: usize, now_ns: u64) {
        self.place(index).state = State::Resting;
        self.core.timers.resting.push_back((now_ns + REST_NS, index));
    }

    fn wake_rested(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        // Ends: `now_ns` stays.
        while self.core.timers.resting.front().is_some_and(|(due_ns, _)| *due_ns <= now_ns) {
            let Some((_, index)) = self.core.timers.resting.pop_front() else {
                return;
            };
            let place = self.place(index);
            if place.state == State::Resting {
                place.state = State::Closed;
                self.send_next(index, now_ns, block_run);
            }
        }
    }

    /// A place's connection can't be opened: the place sends nothing more in this block.
    #[cold]
    fn give_up(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        self.core.ledger.given_up += 1;
        let place = self.place(index);
        place.state = State::GivenUp;
        if place.due_ns != 0 {
            block_run.release_permit(std::mem::take(&mut place.due_ns));
        }
        if block_run.window.requests_left.is_some() {
            self.core.ledger.cursor = 0; // other places that found no permit may use this one
        }
    }

    /// Sends a place's next request if the block allows another one; opens a connection for it if needed.
    #[inline]
    fn send_next(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if !C::may_use(self, index, block_run) {
            return;
        }
        let place = self.place(index);
        if !block_run.claim(&mut place.due_ns, now_ns) {
            if block_run.is_open_loop() {
                self.core.ledger.free.push_back(index);
            }
            return;
        }
        match place.state {
            State::Idle => C::send(self, index, now_ns, block_run),
            State::Closed if block_run.reserve_permit(&mut place.due_ns) => {
                C::connect(self, index, now_ns, block_run);
            }
            _ => {}
        }
    }

    /// Checks for timeouts and for steps of the wall clock.
    fn scan(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        block_run.record_clock_step(self.core.clock.clocks.follow(&Reading::now()));
        C::scan(self, now_ns, block_run);
    }

    /// Counts a connection that could not be opened.
    #[cold]
    fn note_unconnected(&mut self, error: &Error, block_run: &mut BlockRun<impl LoadModel>) {
        let kind = match error.kind() {
            ErrorKind::ConnectionRefused => Failure::Refused,
            ErrorKind::InvalidData => Failure::Tls,
            ErrorKind::Unsupported => Failure::BadResponse,
            _ => Failure::Connect,
        };
        block_run.count_error(kind);
        self.core.judge.sample.note(kind, format!("connect: {error}").as_bytes());
    }

    /// Brings the share into the state in which a block begins: idle connections, nothing pending.
    fn tidy(&mut self, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        self.look(block_run, buffer);
        for link in 0..self.links.len() {
            self.closers.close(&mut self.io, link);
            self.links[link].failures = 0;
        }
        for index in 0..self.core.ledger.places {
            let place = self.place(index);
            place.arrived_ns = 0;
            let due_ns = std::mem::take(&mut place.due_ns);
            if due_ns != 0 && place.state != State::Waiting {
                block_run.record_unsent(due_ns);
            }
        }
        C::tidy(self, block_run);
        self.io.settle();
        (self.core.ledger.outstanding, self.core.ledger.given_up) = (0, 0);
        self.core.timers.resting.clear();
        self.core.unread.clear();
        let sample = &mut self.core.judge.sample;
        if !sample.is_empty() {
            // The first sign of one failure may have ended as another one.
            let errors = &block_run.counts.errors;
            block_run.counts.samples = sample.take();
            block_run.counts.samples.retain(|(kind, _)| errors[*kind as usize] > 0);
        }
    }
}

/// The failure that an error of reading means.
fn broken_by(error: &Error) -> Failure {
    if error.kind() == ErrorKind::InvalidData { Failure::Tls } else { Failure::Reset }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE_PAGE: &str = include_str!("../../../docs/ENGINE.md");
    const DISPATCH: &str = include_str!("worker.rs");

    /// The table's cell for a pair; pairs that fit are compiled completely.
    macro_rules! cell {
        ($transport:ty, $protocol:ty, fits) => {{
            let _: fn(Arc<SessionPlan>, usize, bool, &Arc<AtomicBool>) -> _ = boxed::<$transport, $protocol>;
            assert_eq!(Worker::<$transport, $protocol>::MISFIT, None);
            let call = concat!("boxed::<", stringify!($transport), ", ", stringify!($protocol), ">(");
            if DISPATCH.contains(call) { "**used**" } else { "compiles" }
        }};
        ($transport:ty, $protocol:ty, misfits) => {
            Worker::<$transport, $protocol>::MISFIT.expect("it fits")
        };
    }

    macro_rules! row {
        ($protocol:ty: $uring:ident $linked:ident $blocking:ident $epoll:ident $buffered:ident) => {
            format!(
                "| `{}` | {} |\n",
                stringify!($protocol),
                [
                    cell!(Uring, $protocol, $uring),
                    cell!(UringLinked, $protocol, $linked),
                    cell!(Blocking, $protocol, $blocking),
                    cell!(Epoll, $protocol, $epoll),
                    cell!(Buffered, $protocol, $buffered),
                ]
                .join(" | ")
            )
        };
    }

    #[test]
    fn the_page_shows_which_protocols_run_over_which_transports() {
        let rows = [
            row!(Http1<Kept>: fits fits fits fits fits),
            row!(Http1<Limited>: fits misfits fits fits fits),
            row!(Http1<LengthOnly>: misfits misfits misfits fits misfits),
            row!(Http1<Pipelined>: fits misfits misfits fits fits),
            row!(Http2: fits misfits misfits fits fits),
            row!(WebSocket: fits misfits fits fits fits),
        ];
        let table =
            ["| | `Uring` | `UringLinked` | `Blocking` | `Epoll` | `Buffered` |\n|-|-|-|-|-|-|\n", &rows.concat()]
                .concat();
        assert!(ENGINE_PAGE.contains(&table), "docs/ENGINE.md should have this table:\n{table}");
    }
}
