//! One block as one worker sees it: when it counts, how many may still be sent, what was counted.

use crate::failure::Failure;
use crate::response::{Verdict, Wrong};
use crate::snapshots::{Snapshot, SnapshotSender};
use crate::sys;
use crate::tally::Counts;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What makes requests leave: an answer, in a closed loop, or the time, in an open one. The worker's loop is compiled
/// once for each, so that neither pays for the other.
pub trait LoadModel {
    /// Requests leave when they are due, and free places wait for them.
    const OPEN_LOOP: bool;

    /// Whether another request may leave, now or later in the block.
    fn may_send(&self, window: &Window, now_ns: u64) -> bool;

    /// Finds the next request for a free place; `due_ns` is the place's own note of it. False: there is none now.
    fn claim(&mut self, window: &Window, counts: &mut Counts, due_ns: &mut u64, now_ns: u64) -> bool;

    /// Whether any free place may send at once, without asking for itself.
    fn is_free(&self, window: &Window, now_ns: u64) -> bool;

    /// Takes the right to send one request, for a place that has to open a connection first, and notes it there: else
    /// more would be opened than there is to send. False: there is none.
    fn reserve_permit(&mut self, window: &Window, due_ns: &mut u64) -> bool;

    /// Takes the right to send one request, or uses the one that the place has.
    fn take_permit(&mut self, window: &Window, due_ns: &mut u64) -> bool;

    /// The connection turned out to be closed, and nothing was sent: the place keeps its right.
    fn keep_permit(&mut self, window: &Window, due_ns: &mut u64);

    /// Gives one of several back that were to leave together.
    fn return_permit(&mut self, window: &Window);

    /// The place that the request was found for is lost for good.
    fn release_permit(&mut self, window: &Window, due_ns: u64);

    /// The place never got to send it, and the block is over.
    fn record_unsent(&mut self, window: &Window, counts: &mut Counts, due_ns: u64);

    /// So many right answers to what was due, left, and arrived at these times, which are the same for all of them.
    fn record_correct(&mut self, window: &Window, counts: &mut Counts, answers: u64, times: Times);

    /// No right answer to what was due and left at these times.
    fn record_failed(&mut self, window: &Window, counts: &mut Counts, due_ns: u64, sent_ns: u64);

    /// When the next request is to leave, if a place is free; u64::MAX: that is not known now.
    fn wake_ns(&self, window: &Window, now_ns: u64, free: bool) -> u64;

    /// Whether answers may be left lying until the next request is to leave, so that both share a wake-up.
    fn may_batch_reads(&self, _: &Window) -> bool {
        false
    }

    /// End of the counted part, the worker's part of the block being over now; `early`: before its time.
    fn end(&mut self, window: &Window, counts: &mut Counts, now_ns: u64, early: bool) -> u64;
}

/// When a request was due, left, and had its answer, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// In an open loop, when it was meant to leave.
    pub due_ns: u64,
    /// When it left.
    pub sent_ns: u64,
    /// When its answer was complete.
    pub arrived_ns: u64,
}

/// Notes in a place of a closed loop that it has the right to send.
const RESERVED: u64 = 1;

/// The closed loop: as soon as a place is free its next request leaves.
#[derive(Default)]
pub struct ClosedLoop {
    /// Places that have the right to send and have not sent.
    reserved: u64,
}

impl ClosedLoop {
    fn spent(window: &Window) -> bool {
        window.requests_left.is_some_and(|requests_left| requests_left.load(Ordering::Relaxed) == 0)
    }
}

impl LoadModel for ClosedLoop {
    const OPEN_LOOP: bool = false;

    #[inline]
    fn may_send(&self, window: &Window, now_ns: u64) -> bool {
        now_ns < window.end_ns && (self.reserved > 0 || !Self::spent(window))
    }

    #[inline]
    fn claim(&mut self, window: &Window, _: &mut Counts, due_ns: &mut u64, now_ns: u64) -> bool {
        now_ns < window.end_ns && (*due_ns != 0 || !Self::spent(window))
    }

    #[inline]
    fn is_free(&self, window: &Window, now_ns: u64) -> bool {
        now_ns < window.end_ns && window.requests_left.is_none()
    }

    fn reserve_permit(&mut self, window: &Window, due_ns: &mut u64) -> bool {
        if window.requests_left.is_some() && *due_ns == 0 {
            if !self.take_permit(window, due_ns) {
                return false;
            }
            self.keep_permit(window, due_ns);
        }
        true
    }

    #[inline]
    fn take_permit(&mut self, window: &Window, due_ns: &mut u64) -> bool {
        let Some(requests_left) = window.requests_left else {
            return true;
        };
        if *due_ns != 0 {
            *due_ns = 0;
            self.reserved -= 1;
            return true;
        }
        requests_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn keep_permit(&mut self, window: &Window, due_ns: &mut u64) {
        if window.requests_left.is_some() {
            *due_ns = RESERVED;
            self.reserved += 1;
        }
    }

    fn return_permit(&mut self, window: &Window) {
        if let Some(requests_left) = window.requests_left {
            requests_left.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn release_permit(&mut self, window: &Window, _: u64) {
        self.reserved -= 1;
        self.return_permit(window);
    }

    fn record_unsent(&mut self, _: &Window, _: &mut Counts, _: u64) {}

    #[inline]
    fn record_correct(&mut self, window: &Window, counts: &mut Counts, answers: u64, times: Times) {
        if times.arrived_ns >= window.counted_from_ns && times.arrived_ns < window.end_ns {
            counts.record(times.arrived_ns.saturating_sub(times.sent_ns), answers);
        }
    }

    #[inline]
    fn record_failed(&mut self, _: &Window, _: &mut Counts, _: u64, _: u64) {}

    #[inline]
    fn wake_ns(&self, _: &Window, _: u64, _: bool) -> u64 {
        u64::MAX
    }

    fn end(&mut self, window: &Window, _: &mut Counts, now_ns: u64, early: bool) -> u64 {
        if early || window.requests_left.is_some() {
            now_ns.clamp(window.counted_from_ns, window.end_ns)
        } else {
            window.end_ns
        }
    }
}

/// When a block counts and what ends it; the same for all workers.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Begin of the lead-in.
    pub started_ns: u64,
    /// Begin of the counted part.
    pub counted_from_ns: u64,
    /// End of the counted part: nothing is sent from here on.
    pub end_ns: u64,
    /// How many requests may still be sent, over all workers; None: as many as the time allows.
    pub requests_left: Option<&'a AtomicU64>,
    /// Ends the block at once.
    pub stop: &'a AtomicBool,
    /// Whose part it is.
    pub worker: usize,
    /// Whom it is shown to as it goes.
    pub snapshot_sender: Option<&'a SnapshotSender>,
}

/// The state of one worker's part of a block.
pub struct BlockRun<'a, M> {
    /// When it counts.
    pub window: Window<'a>,
    /// What was counted.
    pub counts: &'a mut Counts,
    /// What makes its requests leave.
    pub load_model: M,
    /// Next bound of the counted part, at which the worker's CPU time is read.
    crossing_ns: u64,
    cpu_from_ns: u64,
    /// Spent on looking in vain for answers, where the worker does not sleep.
    polled_ns: u64,
    /// When it is shown next.
    snapshot_ns: u64,
}

impl<'a, M: LoadModel> BlockRun<'a, M> {
    /// Begins with the lead-in.
    pub fn new(window: Window<'a>, counts: &'a mut Counts, load_model: M) -> Self {
        let snapshot_ns =
            window.snapshot_sender.map_or(u64::MAX, |snapshot_sender| window.started_ns + snapshot_sender.every_ns);
        Self {
            crossing_ns: window.counted_from_ns,
            window,
            counts,
            load_model,
            cpu_from_ns: 0,
            polled_ns: 0,
            snapshot_ns,
        }
    }

    /// Reads the worker's CPU time where a bound of the counted part has been passed.
    #[inline]
    pub fn read_cpu_at_bound(&mut self, now_ns: u64) {
        if now_ns >= self.crossing_ns {
            self.crossed(now_ns);
        }
    }

    #[cold]
    fn crossed(&mut self, now_ns: u64) {
        let cpu_ns = self.worked_ns();
        if self.crossing_ns == self.window.counted_from_ns {
            self.cpu_from_ns = cpu_ns;
            self.crossing_ns = self.window.end_ns;
        }
        if now_ns >= self.crossing_ns {
            self.counts.engine_cpu_ns = cpu_ns.saturating_sub(self.cpu_from_ns);
            self.crossing_ns = u64::MAX;
        }
    }

    /// The worker's CPU time but for what it spent on looking in vain: what is left would be needed by one that sleeps.
    fn worked_ns(&self) -> u64 {
        sys::thread_cpu_ns().saturating_sub(self.polled_ns)
    }

    /// So long was looked for answers, and there were none.
    #[inline]
    pub fn add_poll_time(&mut self, spent_ns: u64) {
        self.polled_ns += spent_ns;
    }

    /// Shows what was counted so far, if it is time. Not for the hot path: it copies the histograms.
    pub fn send_snapshot(&mut self, now_ns: u64) {
        let Some(snapshot_sender) =
            self.window.snapshot_sender.filter(|_| now_ns >= self.snapshot_ns && now_ns < self.window.end_ns)
        else {
            return;
        };
        self.snapshot_ns += snapshot_sender.every_ns;
        let mut counts = self.counts.clone();
        counts.engine_cpu_ns = self.worked_ns().saturating_sub(self.cpu_from_ns);
        let snapshot =
            Snapshot { worker: self.window.worker, started_ns: self.window.started_ns, at_ns: now_ns, counts };
        let _ = snapshot_sender.to.send(snapshot); // nobody looks any more: so be it
    }

    /// Whether requests leave when they are due.
    #[inline]
    pub fn is_open_loop(&self) -> bool {
        M::OPEN_LOOP
    }

    /// When something is due next: a bound of the counted part, or a request; u64::MAX for nothing.
    #[inline]
    pub fn due_ns(&self, now_ns: u64, free: bool) -> u64 {
        self.crossing_ns.min(self.load_model.wake_ns(&self.window, now_ns, free))
    }

    /// Whether answers may lie until the next request is to leave; see [`LoadModel::may_batch_reads`].
    #[inline]
    pub fn may_batch_reads(&self) -> bool {
        self.load_model.may_batch_reads(&self.window)
    }

    /// Whether another request may leave, now or later in the block.
    #[inline]
    pub fn may_send(&self, now_ns: u64) -> bool {
        self.load_model.may_send(&self.window, now_ns)
    }

    /// Finds the next request for a free place; see [`LoadModel::claim`].
    #[inline]
    pub fn claim(&mut self, due_ns: &mut u64, now_ns: u64) -> bool {
        self.load_model.claim(&self.window, self.counts, due_ns, now_ns)
    }

    /// Whether any free place may send at once; see [`LoadModel::is_free`].
    #[inline]
    pub fn is_free(&self, now_ns: u64) -> bool {
        self.load_model.is_free(&self.window, now_ns)
    }

    /// Takes the right to send one request before its connection is opened; see [`LoadModel::reserve_permit`].
    pub fn reserve_permit(&mut self, due_ns: &mut u64) -> bool {
        self.load_model.reserve_permit(&self.window, due_ns)
    }

    /// Takes the right to send one request, or uses the one that the place has.
    #[inline]
    pub fn take_permit(&mut self, due_ns: &mut u64) -> bool {
        self.load_model.take_permit(&self.window, due_ns)
    }

    /// The connection turned out to be closed, and nothing was sent: the place keeps its right.
    pub fn keep_permit(&mut self, due_ns: &mut u64) {
        self.load_model.keep_permit(&self.window, due_ns);
    }

    /// Gives one of several back that were to leave together.
    pub fn return_permit(&mut self) {
        self.load_model.return_permit(&self.window);
    }

    /// The place that a request was found for is lost for good.
    pub fn release_permit(&mut self, due_ns: u64) {
        self.load_model.release_permit(&self.window, due_ns);
    }

    /// The block ended before a place could send what it had found.
    pub fn record_unsent(&mut self, due_ns: u64) {
        self.load_model.record_unsent(&self.window, self.counts, due_ns);
    }

    /// Whether the block was told to stop.
    pub fn stopped(&self) -> bool {
        self.window.stop.load(Ordering::Relaxed)
    }

    /// A right answer to what was due, left, and arrived at these times.
    #[inline]
    pub fn record_correct(&mut self, due_ns: u64, sent_ns: u64, arrived_ns: u64) {
        self.record_correct_batch(1, Times { due_ns, sent_ns, arrived_ns });
    }

    /// So many right answers, all to requests that were due and left at the same time, and all arrived together.
    #[inline]
    pub fn record_correct_batch(&mut self, answers: u64, times: Times) {
        self.counts.answered += answers;
        self.load_model.record_correct(&self.window, self.counts, answers, times);
    }

    /// A request left on a connection whose previous answer had arrived before; in an open loop that is the schedule's.
    #[inline]
    pub fn record_turnaround(&mut self, sent_ns: u64, arrived_ns: u64) {
        if !M::OPEN_LOOP && sent_ns >= self.window.counted_from_ns && sent_ns < self.window.end_ns {
            self.counts.turn_sum_ns += sent_ns.saturating_sub(arrived_ns);
        }
    }

    /// The clock that stamps arrivals was set, by so much; 0: it was not.
    pub fn record_clock_step(&mut self, step_ns: u64) {
        self.counts.clock_step_ns = self.counts.clock_step_ns.max(step_ns);
    }

    /// The first byte of right answers, so long after their requests had left; recorded where the answers themselves were.
    #[inline]
    pub fn record_first_byte(&mut self, recorded_before: u64, first_ns: u64) {
        if let Some(recorded) = &mut self.counts.first_byte
            && self.counts.requests > recorded_before
        {
            recorded.saturating_record_n(first_ns, (self.counts.requests - recorded_before) as u32);
        }
    }

    /// A right answer was counted: one of this kind, recorded where it itself was.
    ///
    /// `before`: right answers of the counted part before it, and the sum of their latencies.
    pub fn record_correct_of_kind(&mut self, kind: u32, before: (u64, u64)) {
        if let Some(counted) = self.counts.kinds.get_mut(kind as usize)
            && self.counts.requests > before.0
        {
            counted.record(self.counts.latency_sum_ns - before.1);
        }
    }

    /// A request without a right answer was counted: one of this kind.
    pub fn record_failed_of_kind(&mut self, kind: u32) {
        if let Some(counted) = self.counts.kinds.get_mut(kind as usize) {
            counted.failed += 1;
        }
    }

    /// A request that was due and left at these times and got no right answer.
    pub fn record_failed(&mut self, failure: Failure, due_ns: u64, sent_ns: u64) {
        self.counts.failed += 1;
        self.load_model.record_failed(&self.window, self.counts, due_ns, sent_ns);
        self.count_error(failure);
    }

    /// An answer is over: its status counts, where there was one to read.
    #[inline]
    pub fn count_status(&mut self, verdict: &Verdict, status: u16) {
        if verdict.wrong != Some(Wrong::Response) {
            self.counts.statuses.count(status);
        }
    }

    /// A connection was opened, in so long.
    #[inline]
    pub fn connected(&mut self, took_ns: u64) {
        self.counts.connects += 1;
        self.counts.connecting.saturating_record(took_ns);
    }

    /// Something wrong that is no request's end.
    pub fn count_error(&mut self, failure: Failure) {
        self.counts.errors[failure as usize] += 1;
    }

    /// The worker's part is over, its answers all in; `halted`: before its time, by a script's will.
    pub fn end(&mut self, now_ns: u64, gave_up: bool, halted: bool) {
        let early = gave_up || halted || self.counts.stopped;
        let counted_end_ns = self.load_model.end(&self.window, self.counts, now_ns, early);
        if self.crossing_ns == self.window.end_ns || counted_end_ns > self.window.end_ns {
            self.counts.engine_cpu_ns = self.worked_ns().saturating_sub(self.cpu_from_ns);
        }
        self.counts.counted_end_ns = counted_end_ns;
        self.counts.finished_ns = now_ns;
        self.counts.gave_up = gave_up;
    }
}
