//! What a worker's share of a session has whatever its protocol and its transport are.

use super::Judge;
use crate::block_run::{BlockRun, LoadModel};
use crate::clock::{Clocks, Reading};
use crate::coalescing::CoalescingRule;
use crate::error_sample::ErrorSample;
use crate::io::Transport;
use crate::plan::SessionPlan;
use crate::sys;
use std::collections::VecDeque;
use std::sync::Arc;

/// What no protocol changes.
pub(super) struct Core {
    pub plan: Arc<SessionPlan>,
    pub clock: Clock,
    pub cycle: Cycle,
    pub judge: Judge,
    pub ledger: Ledger,
    pub timers: Timers,
    pub coalescing: CoalescingRule,
    /// (token, closing) of connections that filled the buffer too often in one go.
    pub unread: VecDeque<(u64, bool)>,
    /// How long it took to open each of the first connections; the first block records these times.
    pub opened_ns: Vec<u64>,
}

impl Core {
    /// For a share with this many places; `stamped`: the kernel stamps answers, however long they wait to be read.
    pub(super) fn new(plan: Arc<SessionPlan>, places: usize, stamped: bool) -> Self {
        Self {
            clock: Clock { clocks: Clocks::new(&Reading::now()), now_ns: 0, stamped },
            cycle: Cycle::new(&plan),
            judge: Judge { sample: ErrorSample::default(), judges_more: plan.judges_more() },
            ledger: Ledger { places, cursor: 0, outstanding: 0, given_up: 0, free: VecDeque::with_capacity(places) },
            timers: Timers { resting: VecDeque::with_capacity(places), in_time_until_ns: 0 },
            coalescing: CoalescingRule::default(),
            unread: VecDeque::with_capacity(places),
            opened_ns: Vec::with_capacity(if plan.keepalive { places } else { 0 }),
            plan,
        }
    }
}

impl Core {
    /// Looks at the clock after a read. What a wait brought with the kernel's stamp had arrived when the wait was over: no
    /// other time is needed then.
    #[inline]
    pub(super) fn look_at_clock<T: Transport>(
        &mut self,
        stamped: bool,
        block_run: &mut BlockRun<impl LoadModel>,
    ) -> u64 {
        if !T::BRINGS_BYTES || !stamped {
            self.clock.now_ns = sys::now_ns();
            block_run.read_cpu_at_bound(self.clock.now_ns);
        }
        self.clock.now_ns
    }
}

/// The time, as the worker and as the kernel know it.
pub(super) struct Clock {
    pub clocks: Clocks,
    /// The latest look at the clock: after a wait, or later.
    pub now_ns: u64,
    /// The arrival of an answer is known however long it waits to be read.
    pub stamped: bool,
}

/// Which request leaves next.
pub(super) struct Cycle {
    /// The exchange.
    pub next: usize,
    /// How many are cycled; behind them the same ones follow again, as a connection's last request.
    pub length: usize,
    /// The first exchange follows this one; no exchange has this number if a sequence says which is next.
    last: usize,
    /// Position in that sequence.
    at: usize,
}

impl Cycle {
    fn new(plan: &SessionPlan) -> Self {
        let next = plan.sequence.first().map_or(0, |place| *place as usize);
        let last = if plan.sequence.is_empty() { plan.cycle() - 1 } else { usize::MAX };
        Self { next, length: plan.cycle(), last, at: 0 }
    }

    /// The next request has left.
    #[inline]
    pub(super) fn advance(&mut self, sequence: &[u32]) {
        self.next = if self.next == self.last {
            0
        } else if sequence.is_empty() {
            self.next + 1
        } else {
            self.at += 1;
            if self.at == sequence.len() {
                self.at = 0;
            }
            sequence[self.at] as usize
        };
    }
}

/// How many places there are, and what they are doing.
pub(super) struct Ledger {
    /// Places for one request at a time each.
    pub places: usize,
    /// Places from here on have not been started in this block.
    pub cursor: usize,
    /// Requests unanswered.
    pub outstanding: usize,
    /// Places given up in this block.
    pub given_up: usize,
    /// In an open loop, places that wait for a request to be due, longest first: so all stay in use.
    pub free: VecDeque<usize>,
}

/// What is due at a time of its own.
pub(super) struct Timers {
    /// (due, index) of places at rest, soonest first.
    pub resting: VecDeque<(u64, usize)>,
    /// Until then no request can have taken too long: with many connections, checking each of them costs time.
    pub in_time_until_ns: u64,
}
