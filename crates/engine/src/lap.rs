//! One block as one worker sees it: when it counts, how many may still be sent, what was counted.

use crate::sys;
use crate::tally::{Counts, Failure};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    pub tickets: Option<&'a AtomicU64>,
    /// Ends the block at once.
    pub stop: &'a AtomicBool,
}

/// The state of one worker's part of a block.
pub struct Lap<'a> {
    /// When it counts.
    pub window: Window<'a>,
    /// What was counted.
    pub counts: &'a mut Counts,
    /// Next bound of the counted part, at which the worker's CPU time is read.
    crossing_ns: u64,
    cpu_from_ns: u64,
}

impl<'a> Lap<'a> {
    /// Begins with the lead-in.
    pub fn new(window: Window<'a>, counts: &'a mut Counts) -> Self {
        Self { crossing_ns: window.counted_from_ns, window, counts, cpu_from_ns: 0 }
    }

    /// Reads the worker's CPU time where a bound of the counted part has been passed.
    #[inline]
    pub fn cross(&mut self, now_ns: u64) {
        if now_ns >= self.crossing_ns {
            self.crossed(now_ns);
        }
    }

    #[cold]
    fn crossed(&mut self, now_ns: u64) {
        let cpu_ns = sys::thread_cpu_ns();
        if self.crossing_ns == self.window.counted_from_ns {
            self.cpu_from_ns = cpu_ns;
            self.crossing_ns = self.window.end_ns;
        }
        if now_ns >= self.crossing_ns {
            self.counts.cpu_ns = cpu_ns - self.cpu_from_ns;
            self.crossing_ns = u64::MAX;
        }
    }

    /// When the next bound is due, u64::MAX for never.
    pub fn crossing_ns(&self) -> u64 {
        self.crossing_ns
    }

    /// Whether another request may be sent now.
    #[inline]
    pub fn open(&self, now_ns: u64) -> bool {
        now_ns < self.window.end_ns && !self.spent()
    }

    /// Whether as many as planned were sent.
    #[inline]
    pub fn spent(&self) -> bool {
        self.window.tickets.is_some_and(|tickets| tickets.load(Ordering::Relaxed) == 0)
    }

    /// Takes the right to send one request.
    #[inline]
    pub fn take(&self) -> bool {
        let Some(tickets) = self.window.tickets else {
            return true;
        };
        tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Gives it back: the connection turned out to be closed, and nothing was sent.
    pub fn give_back(&self) {
        if let Some(tickets) = self.window.tickets {
            tickets.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the block was told to stop.
    pub fn stopped(&self) -> bool {
        self.window.stop.load(Ordering::Relaxed)
    }

    /// A right answer.
    #[inline]
    pub fn right(&mut self, now_ns: u64, sent_ns: u64) {
        self.counts.answered += 1;
        if now_ns >= self.window.counted_from_ns && now_ns < self.window.end_ns {
            self.counts.record(now_ns - sent_ns);
        }
    }

    /// A request that was sent and got no right answer.
    pub fn wrong(&mut self, failure: Failure) {
        self.counts.failed += 1;
        self.mishap(failure);
    }

    /// Something wrong that is no request's end.
    pub fn mishap(&mut self, failure: Failure) {
        self.counts.errors[failure as usize] += 1;
    }

    /// The worker's part is over, its answers all in.
    pub fn end(&mut self, now_ns: u64, gave_up: bool) {
        let counted_end_ns = if gave_up || self.window.tickets.is_some() {
            now_ns.clamp(self.window.counted_from_ns, self.window.end_ns)
        } else {
            self.window.end_ns
        };
        if self.crossing_ns == self.window.end_ns {
            self.counts.cpu_ns = sys::thread_cpu_ns() - self.cpu_from_ns;
        }
        self.counts.counted_end_ns = counted_end_ns;
        self.counts.finished_ns = now_ns;
        self.counts.gave_up = gave_up;
    }
}
