//! The open loop: requests are sent when they are meant to be, whatever the server does.
//!
//! A request that is due and finds no free connection is sent as soon as there is one, before all that are due later,
//! and its wait is part of its latency. So a slow server neither reduces the load nor hides the wait of later requests
//! (the "coordinated omission" of closed loops). The requests that are due within the counted part are counted,
//! whenever their responses come. Those that found no connection by the end of the block are sent after it for a while,
//! and those that were never sent are counted as such. The offered rate is never lowered.

use super::protocol::Protocol;
use super::{START_BATCH, Worker};
use crate::block_run::{BlockRun, LoadModel, Times, Window};
use crate::io::Transport;
use crate::plan::BlockPlan;
use crate::schedule::{Departures, NEVER_NS, OpenLoopPlan};
use crate::sys;
use crate::tally::Counts;
use std::collections::VecDeque;

/// How long requests that were due before the end of the block may still be sent: a tenth of the counted part, within
/// these limits. An overloaded server's backlog grows with the block, and working it off could take forever.
const GRACE_NS: (u64, u64) = (10_000_000, 1_000_000_000);

/// One worker's part of an open loop.
pub struct OpenLoop {
    departures: Departures,
    /// Requests wait for the next multiple of this time, from the start of the block.
    tick_ns: u64,
    /// Time from the end of the counted part until no more requests are sent.
    grace_ns: u64,
    /// A number of requests ends the block.
    bounded: bool,
    /// When a request was last found due: requests that were due by then are sent with it.
    leaving_ns: u64,
    /// Requests that have a place and were not sent.
    claimed: u64,
    /// Due times of requests that lost their place; they are older than all that follow.
    returned: VecDeque<u64>,
}

/// Planned duration of a block's counted part. If a number of requests limits an open loop, it ends when one more
/// request would be sent.
pub fn counted_end_ns(block: &BlockPlan) -> u64 {
    match &block.open_loop {
        Some(open_loop) if block.max_requests > 0 => {
            let last_ns = open_loop.time_of(block.max_requests - 1);
            open_loop.time_of(block.max_requests).max(last_ns.saturating_add(1)).min(block.counted_ns)
        }
        _ => block.counted_ns,
    }
}

impl OpenLoop {
    /// The part of worker `worker` of `workers`.
    pub fn new(block: &BlockPlan, open_loop: &OpenLoopPlan, worker: usize, workers: usize) -> Self {
        let bounded = block.max_requests > 0;
        let end = if bounded { block.max_requests } else { u64::MAX };
        let left_ns = if bounded { block.counted_ns - counted_end_ns(block) } else { 0 }; // it is to send them all
        let grace_ns = left_ns.max((block.counted_ns / 10).clamp(GRACE_NS.0, GRACE_NS.1));
        let takes_part = worker < workers;
        let departures =
            Departures::new(open_loop, if takes_part { worker } else { 0 }, workers, if takes_part { end } else { 0 });
        let tick_ns = open_loop.precision.tick_ns();
        Self { departures, tick_ns, grace_ns, bounded, leaving_ns: 0, claimed: 0, returned: VecDeque::new() }
    }

    /// When the next request is due; [`NEVER_NS`]: none within the block.
    #[inline]
    fn next_ns(&self, window: &Window) -> u64 {
        if let Some(returned_ns) = self.returned.front() {
            return *returned_ns;
        }
        let due_ns = window.started_ns.saturating_add(self.departures.next_ns());
        if due_ns < window.end_ns { due_ns } else { NEVER_NS }
    }

    /// When the next request may be sent: with the others of its tick, even if a response wakes the worker before. A
    /// request that is sent alone gets its response alone, which is another wake-up. The wake-up for a tick comes some
    /// µs late: requests that are due by then are sent, too.
    #[inline]
    fn leave_ns(&self, window: &Window) -> u64 {
        match self.next_ns(window) {
            NEVER_NS => NEVER_NS,
            due_ns if due_ns <= self.leaving_ns => due_ns,
            due_ns => window.started_ns + (due_ns - window.started_ns).div_ceil(self.tick_ns) * self.tick_ns,
        }
    }

    fn counts(window: &Window, due_ns: u64) -> bool {
        due_ns >= window.counted_from_ns
    }

    /// A request that was sent is over, whatever the result.
    #[inline]
    fn left(window: &Window, counts: &mut Counts, due_ns: u64, sent_ns: u64) {
        let Some(open) = &mut counts.open_loop else { return };
        open.departed += u64::from(sent_ns >= window.counted_from_ns && sent_ns < window.end_ns);
        if Self::counts(window, due_ns) {
            open.lag.saturating_record(sent_ns.saturating_sub(due_ns));
        }
    }
}

impl LoadModel for OpenLoop {
    const OPEN_LOOP: bool = true;

    #[inline]
    fn may_send(&self, window: &Window, now_ns: u64) -> bool {
        let waiting = self.claimed > 0 || self.next_ns(window) != NEVER_NS;
        now_ns < window.end_ns || waiting && now_ns < window.end_ns + self.grace_ns
    }

    #[inline]
    fn claim(&mut self, window: &Window, counts: &mut Counts, due_ns: &mut u64, now_ns: u64) -> bool {
        if now_ns >= window.end_ns + self.grace_ns {
            return false;
        }
        if *due_ns != 0 {
            return true; // it could not leave at the first attempt
        }
        if self.leave_ns(window) > now_ns {
            return false;
        }
        let next_ns = self.next_ns(window);
        self.leaving_ns = now_ns;
        *due_ns = next_ns;
        self.claimed += 1;
        if self.returned.pop_front().is_none() {
            self.departures.advance();
            if let Some(open) = &mut counts.open_loop {
                open.offered += u64::from(Self::counts(window, next_ns));
            }
        }
        true
    }

    fn reserve_permit(&mut self, _: &Window, _: &mut u64) -> bool {
        true // a place that has found a request has it for itself
    }

    #[inline]
    fn take_permit(&mut self, _: &Window, _: &mut u64) -> bool {
        self.claimed -= 1;
        true
    }

    fn keep_permit(&mut self, _: &Window, _: &mut u64) {
        self.claimed += 1;
    }

    fn return_permit(&mut self, _: &Window) {} // requests of an open loop are not pipelined

    fn release_permit(&mut self, _: &Window, due_ns: u64) {
        self.claimed -= 1;
        self.returned.push_back(due_ns);
    }

    fn record_unsent(&mut self, window: &Window, counts: &mut Counts, due_ns: u64) {
        if let Some(open) = &mut counts.open_loop {
            open.unsent += u64::from(Self::counts(window, due_ns));
        }
    }

    fn is_free(&self, _: &Window, _: u64) -> bool {
        false
    }

    #[inline]
    fn record_correct(&mut self, window: &Window, counts: &mut Counts, answers: u64, times: Times) {
        let Times { due_ns, sent_ns, arrived_ns } = times;
        for _ in 0..answers {
            Self::left(window, counts, due_ns, sent_ns);
        }
        if Self::counts(window, due_ns) {
            counts.record(arrived_ns.saturating_sub(due_ns), answers);
            if let Some(open) = &mut counts.open_loop {
                open.latency_sent.saturating_record_n(arrived_ns.saturating_sub(sent_ns), answers as u32);
            }
        }
    }

    fn record_failed(&mut self, window: &Window, counts: &mut Counts, due_ns: u64, sent_ns: u64) {
        Self::left(window, counts, due_ns, sent_ns);
    }

    #[inline]
    fn wake_ns(&self, window: &Window, now_ns: u64, free: bool) -> u64 {
        // Without a free connection the next request waits for a response, not for its time.
        let leave_ns = if free { self.leave_ns(window) } else { NEVER_NS };
        if leave_ns != NEVER_NS {
            return leave_ns;
        }
        if now_ns >= window.end_ns { window.end_ns + self.grace_ns } else { NEVER_NS }
    }

    #[inline]
    fn may_batch_reads(&self, window: &Window) -> bool {
        self.tick_ns > 1 && self.next_ns(window) != NEVER_NS
    }

    fn end(&mut self, window: &Window, counts: &mut Counts, now_ns: u64, early: bool) -> u64 {
        let end_ns = if early {
            now_ns.clamp(window.counted_from_ns, window.end_ns)
        } else if self.bounded {
            now_ns.max(window.end_ns)
        } else {
            window.end_ns
        };
        let Some(open) = &mut counts.open_loop else { return end_ns };
        open.unsent += self.returned.iter().filter(|due_ns| Self::counts(window, **due_ns)).count() as u64;
        self.returned.clear();
        // Ends: the schedule advances.
        while self.next_ns(window) < end_ns {
            let counted = u64::from(Self::counts(window, self.next_ns(window)));
            (open.offered, open.unsent) = (open.offered + counted, open.unsent + counted);
            self.departures.advance();
        }
        end_ns
    }
}

impl<T: Transport, C: Protocol> Worker<T, C> {
    /// Sends requests that are due on free connections, oldest first, each with its own reading of the clock.
    pub(super) fn depart_due(&mut self, block_run: &mut BlockRun<impl LoadModel>) {
        for _ in 0..START_BATCH {
            let now_ns = sys::now_ns();
            if block_run.load_model.wake_ns(&block_run.window, now_ns, true) > now_ns {
                return;
            }
            let Some(index) = self.core.ledger.free.pop_front() else { return };
            self.send_next(index, now_ns, block_run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Precision;
    use std::sync::atomic::AtomicBool;

    const US: u64 = 1000;
    const STARTED_NS: u64 = 7_000_000;

    /// How many requests are sent at this many µs from the start, if they are due every 100 µs.
    fn leaving(open_loop: &mut OpenLoop, window: &Window, at_us: u64) -> usize {
        let mut counts = Counts::new();
        (0..100).take_while(|_| open_loop.claim(window, &mut counts, &mut 0, STARTED_NS + at_us * US)).count()
    }

    #[test]
    fn requests_due_by_the_time_of_a_tick_are_sent_with_it_and_later_ones_wait_for_the_next() {
        let open_loop = OpenLoopPlan::constant(10_000.0, Precision::Balanced);
        let block = BlockPlan { session: 0, lead_ns: 0, counted_ns: 1_000_000_000, max_requests: 0, open_loop: None };
        let mut open_loop = OpenLoop::new(&block, &open_loop, 0, 1);
        let stop = AtomicBool::new(false);
        let window = Window {
            started_ns: STARTED_NS,
            counted_from_ns: STARTED_NS,
            end_ns: STARTED_NS + block.counted_ns,
            requests_left: None,
            stop: &stop,
            worker: 0,
            snapshot_sender: None,
        };
        let tick_us = Precision::Balanced.tick_ns() / US;
        assert!((201..300).contains(&tick_us)); // so that those due after 100 and 200 µs are the first tick's
        assert_eq!(leaving(&mut open_loop, &window, 0), 1);
        assert_eq!(leaving(&mut open_loop, &window, tick_us - 1), 0);
        assert_eq!(leaving(&mut open_loop, &window, 305), 3); // late by enough for the one due after 300 µs
        assert_eq!(leaving(&mut open_loop, &window, 402), 0); // awake for another reason
        assert_eq!(leaving(&mut open_loop, &window, 2 * tick_us), 1);
    }
}
