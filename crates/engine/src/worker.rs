//! The loop itself: one worker's share of a session's connections, and the blocks run on it.
//!
//! Closed loop: as soon as a connection's answer is complete its next request leaves. One clock
//! reading an answer is the arrival of this and the departure of the next; it is taken per event and not
//! per batch, so that the time an answer waits for its turn here is in its latency, and connections =
//! rate × mean latency holds (a stamp per batch would hide that wait between two latencies). Where a
//! connection has to be opened for a request, its latency runs from there: that is when it was due.

mod connections;
mod http2;
mod kinds;
mod length_only;
mod linked;
mod open_loop;
mod pipelined;
mod responses;
mod scripted;

use crate::block_run::{BlockRun, ClosedLoop, LoadModel};
use crate::clock::{Clocks, Reading};
use crate::coalescing::{CoalescingRule, FEWEST_LARGE, FEWEST_OUTSTANDING, MOST_ANSWERS, TogetherTrial};
use crate::conn::{Conn, Linger, State, place};
use crate::error::EngineError;
use crate::error_sample::ErrorSample;
use crate::failure::Failure;
use crate::io::{
    self, Blocking, Buffered, Carrier, Chosen, Coalescing, Epoll, Event, LengthOnly, Multiplexed, Poller, Uring,
    UringLinked,
};
use crate::plan::SessionPlan;
use crate::response::Known;
use crate::schedule::NEVER_NS;
use crate::sys;
use connections::MOST_FAILURES;
pub use connections::MOST_LINGERING;
pub use open_loop::{OpenLoop, counted_end_ns};
use pipelined::broken_by;
use scripted::Scripted;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind};
use std::sync::Arc;

/// Timeouts, and the flag that stops a run, are looked at so often.
const SCAN_NS: u64 = 20_000_000;
/// How long the server may take to close a connection that it said it would.
const LINGER_NS: u64 = 10_000_000;
/// Connections started between two looks at what has arrived.
const START_BATCH: usize = 64;
/// Full buffers read from one connection before the others have their turn.
const MOST_READS: u32 = 16;
/// Between two looks in vain no more time goes by than this, unless the worker was put off its core.
const AWAY_NS: u64 = 20_000;
/// A worker that polls and is put off its core by another program sleeps in its waits so many times as long.
const SLEEP_AFTER: u64 = 4;
/// The first read of an answer whose body may be counted: room for its head.
const FIRST_READ: usize = 4096;

thread_local! {
    /// Where sessions are polled: until then this worker sleeps instead, whatever session it is at.
    static SLEEPS_UNTIL_NS: Cell<u64> = const { Cell::new(0) };
    /// Its involuntary switches, as last seen.
    static SWITCHES: Cell<u64> = const { Cell::new(0) };
}

/// The core was taken away for so long: by the host, which sleeping would not mend, or by another program.
#[cold]
fn away(now_ns: u64, spent_ns: u64) {
    let switches = sys::thread_switches();
    if SWITCHES.replace(switches) < switches {
        SLEEPS_UNTIL_NS.set(now_ns + SLEEP_AFTER * spent_ns);
    }
}

/// One worker's share of a session, whatever the back end.
pub trait Load {
    /// What it was opened with.
    fn plan(&self) -> &SessionPlan;

    /// Finds connections that the server closed while they were idle, without waiting: they are no errors.
    fn look_round(&mut self, block_run: &mut BlockRun<ClosedLoop>, buffer: &mut [u8]);

    /// Runs this worker's part of a block, to the end of its drain.
    fn run(&mut self, block_run: &mut BlockRun<ClosedLoop>, buffer: &mut [u8]);

    /// The same in an open loop.
    fn run_open_loop(&mut self, block_run: &mut BlockRun<OpenLoop>, buffer: &mut [u8]);
}

/// Opens one worker's share of a session over the back end chosen.
///
/// # Errors
/// As [`WorkerSession::open`].
pub fn open(chosen: &Chosen, stamps: bool, plan: Arc<SessionPlan>, count: usize) -> Result<Box<dyn Load>, EngineError> {
    match chosen {
        _ if plan.streams > 0 && plan.tls.is_some() => {
            Ok(Box::new(WorkerSession::<Multiplexed<Buffered>>::open(plan, count, stamps)?))
        }
        Chosen::Best(_) | Chosen::Uring(_) if plan.streams > 0 => {
            Ok(Box::new(WorkerSession::<Multiplexed<Uring>>::open(plan, count, stamps)?))
        }
        Chosen::Epoll(_) if plan.streams > 0 => {
            Ok(Box::new(WorkerSession::<Multiplexed<Epoll>>::open(plan, count, stamps)?))
        }
        _ if plan.needs_buffered() => Ok(Box::new(WorkerSession::<Buffered>::open(plan, count, stamps)?)),
        _ if plan.length_only() => Ok(Box::new(WorkerSession::<LengthOnly>::open(plan, count, stamps)?)),
        Chosen::Best(_) if io::suits_blocking(&plan, count) => {
            Ok(Box::new(WorkerSession::<Blocking>::open(plan, count, stamps)?))
        }
        Chosen::Best(_) | Chosen::Uring(_) if plan.keepalive => {
            Ok(Box::new(WorkerSession::<Uring>::open(plan, count, stamps)?))
        }
        Chosen::Best(_) | Chosen::Uring(_) if io::suits_linked(&plan) => {
            match WorkerSession::<UringLinked>::open(Arc::clone(&plan), count, stamps) {
                Ok(session) => Ok(Box::new(session)),
                // Its table of files may be longer than there may be descriptors.
                Err(_) => Ok(Box::new(WorkerSession::<Epoll>::open(plan, count, stamps)?)),
            }
        }
        // Without links, a ring and its table of files gain nothing where every request has a socket of its own.
        _ => Ok(Box::new(WorkerSession::<Epoll>::open(plan, count, stamps)?)),
    }
}

impl<P: Poller> Load for WorkerSession<P> {
    fn plan(&self) -> &SessionPlan {
        &self.plan
    }

    fn look_round(&mut self, block_run: &mut BlockRun<ClosedLoop>, buffer: &mut [u8]) {
        self.look(block_run, buffer);
    }

    fn run(&mut self, block_run: &mut BlockRun<ClosedLoop>, buffer: &mut [u8]) {
        self.cursor = 0;
        self.poller.steady(true);
        self.block(block_run, buffer);
    }

    fn run_open_loop(&mut self, block_run: &mut BlockRun<OpenLoop>, buffer: &mut [u8]) {
        self.cursor = self.conns.len(); // nothing starts before it is due
        self.free.clear();
        if P::MULTIPLEXES {
            self.free.extend(self.links.dealt());
        } else {
            self.free.extend(0..self.conns.len());
        }
        self.poller.steady(false);
        self.block(block_run, buffer);
    }
}

/// One worker's share of a session.
struct WorkerSession<P: Poller> {
    plan: Arc<SessionPlan>,
    poller: P,
    /// When an answer came is known however long it lies.
    stamped: bool,
    clocks: Clocks,
    /// The latest look at the clock: after a wait, or later.
    now_ns: u64,
    conns: Vec<Conn<P::Socket>>,
    /// By connection; see [`Linger`].
    lingering: Vec<Option<Linger<P::Socket>>>,
    lingerers: usize,
    /// By exchange: the previous answer's head.
    known: Vec<Known>,
    sample: ErrorSample,
    next_exchange: usize,
    /// How many are cycled; behind them they are again, as a connection's last.
    cycle: usize,
    /// Behind which one the first comes again; of no exchange where a sequence says which is next.
    last_exchange: usize,
    /// Where it is in that sequence.
    at_in_sequence: usize,
    /// More is asked of answers than their bytes, or they are told apart.
    judges_more: bool,
    /// Connections from here on have not been started in this block.
    cursor: usize,
    /// Requests unanswered.
    outstanding: usize,
    coalescing: CoalescingRule,
    /// Where there are several streams on each connection, and few connections.
    together_trial: Option<TogetherTrial>,
    /// In an open loop, places that wait for a request to be due, longest first: so all stay in use.
    free: VecDeque<usize>,
    /// Large bodies met so far: which of them are read whole.
    large: u64,
    /// Connections given up in this block.
    given_up: usize,
    /// Until then nothing can have taken too long: with many connections, to look at all of them costs.
    in_time_until_ns: u64,
    /// (due, index) of connections at rest, soonest first.
    resting: VecDeque<(u64, usize)>,
    /// (token, closing) of connections that filled the buffer too often in one go.
    unread: VecDeque<(u64, bool)>,
    /// By connection, where requests are pipelined: (exchange, since_ns) of those behind the one that is due.
    behind: Vec<VecDeque<(u32, u64)>>,
    /// Likewise, when the answers arrived in whose places no request has left yet.
    freed: Vec<VecDeque<u64>>,
    /// Requests that leave together.
    together: Vec<u8>,
    /// Over HTTP/2, the connections; what is one elsewhere is a place for a request then.
    links: http2::Links<P::Socket>,
    /// Where a script makes requests while the load goes on.
    scripted: Option<Box<Scripted>>,
    /// Of requests that a script made at once, how long each is, and its kind of answer.
    kinds: Vec<(usize, u32)>,
    /// How long it took to open each of the first connections; the first block takes them.
    opened_ns: Vec<u64>,
}

impl<P: Poller> WorkerSession<P> {
    fn block(&mut self, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        self.now_ns = block_run.window.started_ns;
        let mut next_scan_ns = self.now_ns + SCAN_NS;
        self.in_time_until_ns = 0;
        self.clocks = Clocks::new(&Reading::now());
        for took_ns in self.opened_ns.drain(..) {
            block_run.counts.connecting.saturating_record(took_ns);
        }
        loop {
            if block_run.is_open_loop() {
                self.depart_due(block_run);
            } else {
                self.start_some(block_run);
            }
            let before_ns = self.now_ns;
            self.wake_rested(before_ns, block_run);
            if P::MULTIPLEXES {
                self.flush_links(block_run);
            }
            if P::EXTRAS {
                self.wake_paused(before_ns, block_run);
            }
            self.poller.flush();
            let coalescing = self.coalescing(before_ns, block_run);
            let limit_ns = self.wait_ns(before_ns, next_scan_ns, block_run);
            let count = if self.plan.polls {
                self.poll(before_ns, limit_ns, coalescing, block_run)
            } else {
                self.poller.wait(before_ns, limit_ns, coalescing)
            };
            if P::BRINGS_BYTES {
                self.now_ns = sys::now_ns(); // all that the wait brought had arrived by now
            }
            self.depart(block_run);
            self.poller.latency(self.coalescing.least_ns());
            for index in 0..count {
                if let Some(token) = self.poller.ahead(index) {
                    self.fetch(token);
                }
                if let Some(event) = self.poller.event(index) {
                    self.handle(event, block_run, buffer);
                }
            }
            self.read_on(block_run, buffer);
            if block_run.is_open_loop() || self.now_ns == before_ns {
                self.now_ns = sys::now_ns();
            }
            let now_ns = self.now_ns;
            block_run.cross(now_ns);
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
        let gave_up = self.given_up == self.conns.len();
        block_run.end(sys::now_ns(), gave_up, self.halted());
        block_run.stepped(self.clocks.follow(&Reading::now()));
        block_run.counts.early_stamps += self.clocks.take_early_stamps();
        self.tidy(block_run, buffer);
    }

    /// Waits without sleeping: a server that has to wake somebody pays for that in its own time, one that need not does
    /// not. Answers share no wake-up here, so that none is held back for others. Where other programs want the core, who
    /// looks in vain uses up the turns that the work would need: for some time after one had its turn, waits sleep.
    fn poll(
        &mut self,
        before_ns: u64,
        limit_ns: u64,
        coalescing: Option<Coalescing>,
        block_run: &mut BlockRun<impl LoadModel>,
    ) -> usize {
        if before_ns < SLEEPS_UNTIL_NS.get() {
            return self.poller.wait(before_ns, limit_ns, coalescing);
        }
        let mut count = self.poller.wait(before_ns, 0, None);
        if count > 0 || limit_ns == 0 {
            return count;
        }
        let mut looked_ns = sys::now_ns();
        loop {
            count = self.poller.wait(looked_ns, 0, None);
            let now_ns = sys::now_ns();
            let spent_ns = now_ns - looked_ns;
            if spent_ns > AWAY_NS {
                away(now_ns, spent_ns);
            } else if count == 0 {
                block_run.polled(spent_ns);
            }
            if count > 0 || now_ns >= before_ns + limit_ns || now_ns < SLEEPS_UNTIL_NS.get() {
                return count;
            }
            looked_ns = now_ns;
            std::hint::spin_loop();
        }
    }

    fn done(&self, now_ns: u64, block_run: &BlockRun<impl LoadModel>) -> bool {
        let ending = !block_run.open(now_ns) || self.given_up == self.conns.len() || self.halted();
        ending && self.outstanding == 0 && self.lingerers == 0
    }

    /// Notes when what was queued left: a wait in the queue is not the server's.
    #[inline]
    fn depart(&mut self, block_run: &mut BlockRun<impl LoadModel>) {
        while let Some((token, sent_ns)) = self.poller.departure() {
            if P::MULTIPLEXES {
                self.link_departed(token, sent_ns, block_run);
                continue;
            }
            let (index, generation) = place(token);
            let conn = &mut self.conns[index];
            if conn.generation == generation && (P::LINKS || conn.state == State::Waiting && !conn.fresh) {
                conn.depart(sent_ns, block_run);
            }
        }
    }

    /// Has a connection fetched from memory that has its turn soon: with many of them each is far away.
    #[inline]
    fn fetch(&self, token: u64) {
        if P::MULTIPLEXES {
            return self.fetch_link(token);
        }
        if let Some(conn) = self.conns.get(place(token).0) {
            sys::prefetch(conn);
        }
    }

    /// Whether to wait for several answers: only while all connections are at work and another request may follow.
    fn coalescing(&mut self, now_ns: u64, block_run: &BlockRun<impl LoadModel>) -> Option<Coalescing> {
        if block_run.is_open_loop() {
            // The schedule says when to wake up; the kernel's stamps say when answers came that lay until then. A
            // connection that is being opened tells nothing but by being looked at.
            let settled = self.free.len() + self.outstanding == self.conns.len() && !self.free.is_empty();
            let gathers = self.stamped && settled && block_run.gathers();
            return gathers.then_some(Coalescing { answers: MOST_ANSWERS, most_ns: NEVER_NS });
        }
        let fewest = if P::LENGTH_ONLY { FEWEST_LARGE } else { FEWEST_OUTSTANDING };
        let several_streams = P::MULTIPLEXES && self.together_trial.is_some();
        let coalescing = self.coalescing.wait_for(self.outstanding, fewest, several_streams);
        let mut coalescing = coalescing.filter(|_| self.cursor == self.conns.len() && block_run.open(now_ns));
        if P::MULTIPLEXES
            && let Some(coalescing) = &mut coalescing
        {
            // One read may bring many answers: more than half of the connections are not waited for.
            coalescing.answers = coalescing.answers.min(self.links.count() / 2).max(1);
        }
        if P::MULTIPLEXES
            && let Some(trial) = &mut self.together_trial
            && trial.ends_with_first(self.plan.streams as usize)
        {
            return None;
        }
        coalescing
    }

    /// How long to wait: until something is due.
    fn wait_ns(&self, now_ns: u64, next_scan_ns: u64, block_run: &BlockRun<impl LoadModel>) -> u64 {
        if self.cursor < self.conns.len() || !self.unread.is_empty() || self.done(now_ns, block_run) {
            return 0;
        }
        let mut due_ns = next_scan_ns.min(block_run.due_ns(now_ns, !self.free.is_empty()));
        if let Some((rested_ns, _)) = self.resting.front() {
            due_ns = due_ns.min(*rested_ns);
        }
        if P::EXTRAS {
            due_ns = due_ns.min(self.pause_ends_ns());
        }
        if self.outstanding == 0 && self.lingerers > 0 {
            due_ns = due_ns.min(now_ns + LINGER_NS);
        }
        due_ns.saturating_sub(now_ns).min(SCAN_NS)
    }

    /// Starts some connections that have not had their turn: all at once would leave the first answers waiting.
    fn start_some(&mut self, block_run: &mut BlockRun<impl LoadModel>) {
        let until = self.conns.len().min(self.cursor + START_BATCH);
        while self.cursor < until {
            self.cursor += 1;
            self.send_next(self.cursor - 1, sys::now_ns(), block_run);
        }
    }

    fn wake_rested(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        while self.resting.front().is_some_and(|(due_ns, _)| *due_ns <= now_ns) {
            let Some((_, index)) = self.resting.pop_front() else {
                return;
            };
            if self.conns[index].state == State::Resting {
                self.conns[index].state = State::Closed;
                self.send_next(index, now_ns, block_run);
            }
        }
    }

    /// Sends the connection's next request if the block goes on, connecting first where needed.
    #[inline]
    fn send_next(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if P::MULTIPLEXES && !self.allowed(index, block_run) {
            return;
        }
        if !block_run.claim(&mut self.conns[index].due_ns, now_ns) {
            if block_run.is_open_loop() {
                self.free.push_back(index);
            }
            return;
        }
        let state = self.conns[index].state;
        match state {
            State::Idle if P::MULTIPLEXES => self.send_stream(index, now_ns, block_run),
            State::Idle if P::EXTRAS && self.plan.pipelined() => self.fill(index, now_ns, block_run),
            State::Idle => self.send(index, now_ns, block_run),
            State::Closed if block_run.reserve(&mut self.conns[index].due_ns) => self.connect(index, now_ns, block_run),
            _ => {}
        }
    }

    #[inline]
    fn send(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if !block_run.take(&mut self.conns[index].due_ns) {
            return;
        }
        let number = self.next_number(index);
        let request = &self.plan.exchanges[number].request;
        let conn = &mut self.conns[index];
        let Some(socket) = &conn.socket else { return };
        let sent = match self.poller.send(conn.token(index), socket, number, request) {
            Ok(sent) => sent,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(error) => return self.unsendable(index, error, now_ns, block_run),
        };
        conn.state = State::Waiting;
        conn.out_at = sent;
        conn.exchange = number as u32;
        if sent < request.len() {
            let _ = self.poller.want_writable(conn.token(index), socket); // if it fails, the timeout tells
        }
        if P::SENDS_LATER && !conn.fresh {
            conn.since_ns = now_ns; // for the time being
        } else if !conn.fresh {
            conn.depart(now_ns, block_run); // else it was due when its connection began to be opened
        }
        self.count_on(index);
        self.outstanding += 1;
        block_run.counts.sent += 1;
        block_run.counts.bytes_out += sent as u64;
    }

    /// Nothing of the request left. On a connection that had been idle this only says that the server had
    /// closed it; on a new one it is a failure.
    #[cold]
    fn unsendable(&mut self, index: usize, error: Error, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let fresh = self.conns[index].fresh;
        self.discard(index);
        if fresh {
            block_run.counts.sent += 1;
            self.failed(index, Failure::Send, block_run);
            self.sample.note(Failure::Send, format!("send: {error}").as_bytes());
            self.rest(index, now_ns);
        } else {
            block_run.keep(&mut self.conns[index].due_ns);
            self.connect(index, now_ns, block_run);
        }
    }

    /// The same, where the kernel said so only after it had taken the request.
    #[cold]
    fn unsent(&mut self, index: usize, errno: i32, block_run: &mut BlockRun<impl LoadModel>) {
        self.outstanding -= 1;
        block_run.counts.sent -= 1;
        block_run.counts.bytes_out -= self.conns[index].out_at as u64;
        self.unsendable(index, Error::from_raw_os_error(errno), sys::now_ns(), block_run);
    }

    fn send_rest(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let conn = &mut self.conns[index];
        if let Some(socket) = &conn.socket {
            self.poller.go_on(conn.token(index), socket);
        }
        let request = &self.plan.exchanges[conn.exchange as usize].request;
        let Some(held) = &conn.socket else { return };
        let Some(socket) = held.socket() else { return };
        while conn.out_at < request.len() {
            match io::send(socket, &request[conn.out_at..]) {
                Ok(sent) => {
                    conn.out_at += sent;
                    block_run.counts.bytes_out += sent as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && P::BRINGS_BYTES => {
                    let _ = self.poller.want_writable(conn.token(index), held); // which tells once
                    return;
                }
                // A server that answers early may have closed: what it said is still to be read.
                Err(_) => return,
            }
        }
    }

    #[inline]
    fn handle(&mut self, event: Event, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        if P::MULTIPLEXES {
            return self.link_event(event, block_run, buffer);
        }
        let (index, generation) = place(event.token);
        if self.conns[index].generation != generation {
            return self.former_event(event.token, event.closing);
        }
        match self.conns[index].state {
            State::Waiting => {
                if event.unsent != 0 {
                    return self.unsent(index, event.unsent, block_run);
                }
                if event.writable {
                    self.send_rest(index, block_run);
                }
                if event.readable {
                    self.read_some(index, event.closing, block_run, buffer);
                }
            }
            State::Connecting => self.handshake_event(index, event, block_run, buffer),
            State::Idle => self.idle_event(index, block_run, buffer),
            // Its socket may linger under the same number until a new one takes its place.
            State::Closed | State::Resting | State::GivenUp | State::Shut => {
                self.former_event(event.token, event.closing)
            }
        }
    }

    /// Fails what has taken too long; closes what the server has not closed.
    fn scan(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        block_run.stepped(self.clocks.follow(&Reading::now()));
        if P::MULTIPLEXES {
            return self.scan_links(now_ns, block_run);
        }
        if now_ns < self.in_time_until_ns && self.lingerers == 0 {
            return;
        }
        let mut oldest_ns = now_ns;
        for index in 0..self.conns.len() {
            self.close_former(index, now_ns);
            let conn = &self.conns[index];
            let late = now_ns.saturating_sub(conn.since_ns) >= self.plan.timeout_ns;
            let limit_ms = self.plan.timeout_ns / 1_000_000;
            match conn.state {
                State::Waiting if late => {
                    let why = format!("no complete answer within {limit_ms} ms");
                    self.lost(index, Failure::Timeout, &why, now_ns, block_run);
                }
                State::Connecting if late => {
                    let error = Error::new(ErrorKind::TimedOut, format!("not connected within {limit_ms} ms"));
                    self.unconnected(index, error, now_ns, block_run);
                }
                _ => {}
            }
            // What begins later than now is not late before the others. One at rest goes on with its time.
            let conn = &self.conns[index];
            if conn.fresh || matches!(conn.state, State::Waiting | State::Connecting | State::Resting) {
                oldest_ns = oldest_ns.min(conn.since_ns);
            }
        }
        self.in_time_until_ns = oldest_ns + self.plan.timeout_ns;
    }
}
