//! One worker's part of a block: when it counts, how many requests may still be sent, and what was counted.

use crate::failure::Failure;
use crate::response::{Verdict, Wrong};
use crate::snapshots::{Snapshot, SnapshotSender};
use crate::sys;
use crate::tally::Counts;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Decides when requests are sent: after a response in a closed loop, at a given time in an open loop. The worker's loop is
/// compiled for each, so that neither pays for the other.
///
/// A *permit* is the right to send one request of a block that has a limited number of them.
pub trait LoadModel {
    /// Requests are sent when they are due, and free places wait for them.
    const OPEN_LOOP: bool;

    /// Whether another request may be sent, now or later in the block.
    fn may_send(&self, window: &Window, now_ns: u64) -> bool;

    /// Finds the next request for a free place, and notes it in the place's `due_ns`. False: there is none now.
    fn claim(&mut self, window: &Window, counts: &mut Counts, due_ns: &mut u64, now_ns: u64) -> bool;

    /// Whether any free place may send at once, without [`LoadModel::claim`] and without a permit.
    fn is_free(&self, window: &Window, now_ns: u64) -> bool;

    /// Takes a permit for a place that has to open a connection first, and notes it there. Otherwise more connections would be
    /// opened than requests are left. False: there is none.
    fn reserve_permit(&mut self, window: &Window, due_ns: &mut u64) -> bool;

    /// Takes a permit, or uses the place's own. False: no permit is left.
    fn take_permit(&mut self, window: &Window, due_ns: &mut u64) -> bool;

    /// The connection turned out to be closed, and nothing was sent: the place keeps its permit.
    fn keep_permit(&mut self, window: &Window, due_ns: &mut u64);

    /// Returns a permit that was taken for one of several requests to be sent together.
    fn return_permit(&mut self, window: &Window);

    /// The place is given up: the permit that it holds goes to others.
    fn release_permit(&mut self, window: &Window, due_ns: u64);

    /// The block has ended before the place could send its request.
    fn record_unsent(&mut self, window: &Window, counts: &mut Counts, due_ns: u64);

    /// Records correct responses that share the same due, send and arrival times.
    fn record_correct(&mut self, window: &Window, counts: &mut Counts, responses: u64, times: Times);

    /// Records a request without a correct response, and when it was due and sent.
    fn record_failed(&mut self, window: &Window, counts: &mut Counts, due_ns: u64, sent_ns: u64);

    /// When the next request is to be sent if a place is free; u64::MAX: not known now.
    fn wake_ns(&self, window: &Window, now_ns: u64, free: bool) -> u64;

    /// Whether responses may wait to be read until the next request is to be sent, so that both share a wake-up.
    fn may_batch_reads(&self, _: &Window) -> bool {
        false
    }

    /// The end of the counted part, called when the worker's part of the block is over; `early`: before the planned end.
    fn end(&mut self, window: &Window, counts: &mut Counts, now_ns: u64, early: bool) -> u64;
}

/// When a request was due and sent, and when its response arrived, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// In an open loop, when the request was meant to be sent.
    pub due_ns: u64,
    /// When the request was sent.
    pub sent_ns: u64,
    /// When the response was complete.
    pub arrived_ns: u64,
}

/// In `due_ns` of a closed loop's place: the place holds a permit.
const RESERVED: u64 = 1;

/// The closed loop: a place's next request is sent as soon as the place is free.
#[derive(Default)]
pub struct ClosedLoop {
    /// Number of permits that places hold.
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
    fn record_correct(&mut self, window: &Window, counts: &mut Counts, responses: u64, times: Times) {
        if times.arrived_ns >= window.counted_from_ns && times.arrived_ns < window.end_ns {
            counts.record(times.arrived_ns.saturating_sub(times.sent_ns), responses);
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

/// When a block counts and what ends it; the same for all workers, except for `worker`.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Begin of the lead-in.
    pub started_ns: u64,
    /// Begin of the counted part.
    pub counted_from_ns: u64,
    /// End of the counted part: nothing is sent from here on.
    pub end_ns: u64,
    /// Permits that are left, over all workers; None: no limit.
    pub requests_left: Option<&'a AtomicU64>,
    /// Ends the block at once.
    pub stop: &'a AtomicBool,
    /// Number of the worker.
    pub worker: usize,
    /// Receives snapshots during the block.
    pub snapshot_sender: Option<&'a SnapshotSender>,
}

/// One worker's part of a block.
pub struct BlockRun<'a, M> {
    /// When the block counts.
    pub window: Window<'a>,
    /// What was counted.
    pub counts: &'a mut Counts,
    /// Decides when requests are sent.
    pub load_model: M,
    /// The next bound of the counted part, at which the worker's CPU time is read.
    crossing_ns: u64,
    cpu_from_ns: u64,
    /// Time spent polling without a response.
    polled_ns: u64,
    /// When the next snapshot is due.
    snapshot_ns: u64,
}

impl<'a, M: LoadModel> BlockRun<'a, M> {
    /// Begins the lead-in.
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

    /// Reads the worker's CPU time if a bound of the counted part has been passed.
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

    /// The worker's CPU time without polling: what a worker that sleeps would have used.
    fn worked_ns(&self) -> u64 {
        sys::thread_cpu_ns().saturating_sub(self.polled_ns)
    }

    /// Adds time spent polling without a response.
    #[inline]
    pub fn add_poll_time(&mut self, spent_ns: u64) {
        self.polled_ns += spent_ns;
    }

    /// Sends a snapshot of the counts, if one is due. Not for the hot path: it copies the histograms.
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
        let _ = snapshot_sender.to.send(snapshot); // the receiver may be gone
    }

    /// Whether this is an open loop.
    #[inline]
    pub fn is_open_loop(&self) -> bool {
        M::OPEN_LOOP
    }

    /// When something is due next: a bound of the counted part, or a request; u64::MAX: nothing.
    #[inline]
    pub fn due_ns(&self, now_ns: u64, free: bool) -> u64 {
        self.crossing_ns.min(self.load_model.wake_ns(&self.window, now_ns, free))
    }

    /// See [`LoadModel::may_batch_reads`].
    #[inline]
    pub fn may_batch_reads(&self) -> bool {
        self.load_model.may_batch_reads(&self.window)
    }

    /// See [`LoadModel::may_send`].
    #[inline]
    pub fn may_send(&self, now_ns: u64) -> bool {
        self.load_model.may_send(&self.window, now_ns)
    }

    /// See [`LoadModel::claim`].
    #[inline]
    pub fn claim(&mut self, due_ns: &mut u64, now_ns: u64) -> bool {
        self.load_model.claim(&self.window, self.counts, due_ns, now_ns)
    }

    /// See [`LoadModel::is_free`].
    #[inline]
    pub fn is_free(&self, now_ns: u64) -> bool {
        self.load_model.is_free(&self.window, now_ns)
    }

    /// See [`LoadModel::reserve_permit`].
    pub fn reserve_permit(&mut self, due_ns: &mut u64) -> bool {
        self.load_model.reserve_permit(&self.window, due_ns)
    }

    /// See [`LoadModel::take_permit`].
    #[inline]
    pub fn take_permit(&mut self, due_ns: &mut u64) -> bool {
        self.load_model.take_permit(&self.window, due_ns)
    }

    /// See [`LoadModel::keep_permit`].
    pub fn keep_permit(&mut self, due_ns: &mut u64) {
        self.load_model.keep_permit(&self.window, due_ns);
    }

    /// See [`LoadModel::return_permit`].
    pub fn return_permit(&mut self) {
        self.load_model.return_permit(&self.window);
    }

    /// See [`LoadModel::release_permit`].
    pub fn release_permit(&mut self, due_ns: u64) {
        self.load_model.release_permit(&self.window, due_ns);
    }

    /// See [`LoadModel::record_unsent`].
    pub fn record_unsent(&mut self, due_ns: u64) {
        self.load_model.record_unsent(&self.window, self.counts, due_ns);
    }

    /// Whether the stop flag is set.
    pub fn stopped(&self) -> bool {
        self.window.stop.load(Ordering::Relaxed)
    }

    /// Counts a correct response.
    #[inline]
    pub fn record_correct(&mut self, due_ns: u64, sent_ns: u64, arrived_ns: u64) {
        self.record_correct_batch(1, Times { due_ns, sent_ns, arrived_ns });
    }

    /// Counts correct responses that share the same due, send and arrival times.
    #[inline]
    pub fn record_correct_batch(&mut self, responses: u64, times: Times) {
        self.counts.answered += responses;
        self.load_model.record_correct(&self.window, self.counts, responses, times);
    }

    /// Records the time from a response's arrival until the connection's next request was sent. In an open loop the schedule
    /// determines this time, so it is not recorded.
    #[inline]
    pub fn record_turnaround(&mut self, sent_ns: u64, arrived_ns: u64) {
        if !M::OPEN_LOOP && sent_ns >= self.window.counted_from_ns && sent_ns < self.window.end_ns {
            self.counts.turn_sum_ns += sent_ns.saturating_sub(arrived_ns);
        }
    }

    /// Records that the wall clock, which timestamps arrivals, was set by this much; 0: it was not.
    pub fn record_clock_step(&mut self, step_ns: u64) {
        self.counts.clock_step_ns = self.counts.clock_step_ns.max(step_ns);
    }

    /// Records the time to the first byte of correct responses, if the responses themselves were recorded.
    ///
    /// `recorded_before`: responses of the counted part before them.
    #[inline]
    pub fn record_first_byte(&mut self, recorded_before: u64, first_ns: u64) {
        if let Some(recorded) = &mut self.counts.first_byte
            && self.counts.requests > recorded_before
        {
            recorded.saturating_record_n(first_ns, (self.counts.requests - recorded_before) as u32);
        }
    }

    /// Counts a correct response also by its kind of request, if the response itself was recorded.
    ///
    /// `before`: responses of the counted part before it, and the sum of their latencies.
    pub fn record_correct_of_kind(&mut self, kind: u32, before: (u64, u64)) {
        if let Some(counted) = self.counts.kinds.get_mut(kind as usize)
            && self.counts.requests > before.0
        {
            counted.record(self.counts.latency_sum_ns - before.1);
        }
    }

    /// Counts a failed request also by its kind.
    pub fn record_failed_of_kind(&mut self, kind: u32) {
        if let Some(counted) = self.counts.kinds.get_mut(kind as usize) {
            counted.failed += 1;
        }
    }

    /// Counts a request without a correct response.
    pub fn record_failed(&mut self, failure: Failure, due_ns: u64, sent_ns: u64) {
        self.counts.failed += 1;
        self.load_model.record_failed(&self.window, self.counts, due_ns, sent_ns);
        self.count_error(failure);
    }

    /// Counts the status of a response, if it could be read.
    #[inline]
    pub fn count_status(&mut self, verdict: &Verdict, status: u16) {
        if verdict.wrong != Some(Wrong::Response) {
            self.counts.statuses.count(status);
        }
    }

    /// Counts a connection that was opened, and how long that took.
    #[inline]
    pub fn connected(&mut self, took_ns: u64) {
        self.counts.connects += 1;
        self.counts.connecting.saturating_record(took_ns);
    }

    /// Counts an error that does not end a request.
    pub fn count_error(&mut self, failure: Failure) {
        self.counts.errors[failure as usize] += 1;
    }

    /// Ends the worker's part, when no request is in flight; `halted`: a script has ended it early.
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
