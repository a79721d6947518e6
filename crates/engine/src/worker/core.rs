//! What a worker's share of a session has whatever its protocol and its transport are.

use super::counting::Judge;
use crate::block_run::{BlockRun, LoadModel};
use crate::clock::{Clocks, Reading};
use crate::coalescing::CoalescingRule;
use crate::error_sample::ErrorSample;
use crate::io::Transport;
use crate::patience::Patience;
use crate::plan::SessionPlan;
use crate::sys;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The part of a worker that is the same for all protocols.
pub(super) struct Core {
    pub plan: Arc<SessionPlan>,
    pub clock: Clock,
    pub cycle: Cycle,
    pub judge: Judge,
    pub ledger: Ledger,
    pub timers: Timers,
    pub coalescing: CoalescingRule,
    /// (token, closing) of connections that filled the buffer too often in one turn.
    pub unread: VecDeque<(u64, bool)>,
    /// How long opening each of the session's first connections took; the first block records these times.
    pub opened_ns: Vec<u64>,
    /// The engine's stop flag.
    stop: Arc<AtomicBool>,
    /// How many connections were open when the session began; None: each request opens its own.
    pub opened: Option<usize>,
}

impl Core {
    /// For a share with this many places; `stamped`: see [`Clock::stamped`].
    pub(super) fn new(plan: Arc<SessionPlan>, places: usize, stamped: bool, stop: Arc<AtomicBool>) -> Self {
        Self {
            clock: Clock { clocks: Clocks::new(&Reading::now()), now_ns: 0, stamped },
            cycle: Cycle::new(&plan),
            judge: Judge { sample: ErrorSample::default(), judges_more: plan.judges_more() },
            ledger: Ledger { places, cursor: 0, outstanding: 0, given_up: 0, free: VecDeque::with_capacity(places) },
            timers: Timers { resting: VecDeque::with_capacity(places), in_time_until_ns: 0 },
            coalescing: CoalescingRule::default(),
            unread: VecDeque::with_capacity(places),
            opened_ns: Vec::with_capacity(if plan.keepalive { places } else { 0 }),
            opened: None,
            plan,
            stop,
        }
    }

    /// Patience with servers for this long, unless the engine is stopped.
    pub(super) fn patience(&self, limit: Duration) -> Patience {
        Patience::new(limit, &self.stop)
    }

    /// Reads the clock after a read from a connection. It need not if the wait has brought the bytes with the kernel's
    /// timestamp: then the time at which the wait ended will do.
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

/// The time as the worker and the kernel see it.
pub(super) struct Clock {
    pub clocks: Clocks,
    /// The latest reading of the clock: after a wait, or later.
    pub now_ns: u64,
    /// The kernel's timestamps give the arrival of a response, however long it waits to be read.
    pub stamped: bool,
}

/// Chooses the next request.
pub(super) struct Cycle {
    /// Number of the next exchange.
    pub next: usize,
    /// How many exchanges are cycled. The same ones follow them again, in the form for a connection's last request.
    pub length: usize,
    /// After this exchange the first one follows; `usize::MAX` if a sequence gives the order.
    last: usize,
    /// Position in the sequence.
    at: usize,
}

impl Cycle {
    fn new(plan: &SessionPlan) -> Self {
        let next = plan.sequence.first().map_or(0, |place| *place as usize);
        let last = if plan.sequence.is_empty() { plan.cycle() - 1 } else { usize::MAX };
        Self { next, length: plan.cycle(), last, at: 0 }
    }

    /// Moves on, after the next request was sent.
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

/// The number of places, and what they are doing.
pub(super) struct Ledger {
    /// Number of places.
    pub places: usize,
    /// Places from this number on have not been started in this block.
    pub cursor: usize,
    /// Requests in flight.
    pub outstanding: usize,
    /// Number of places given up in this block.
    pub given_up: usize,
    /// In an open loop, free places that wait for a request, longest wait first, so that all stay in use.
    pub free: VecDeque<usize>,
}

/// Events that are due at a certain time.
pub(super) struct Timers {
    /// (due, number) of resting places, soonest first.
    pub resting: VecDeque<(u64, usize)>,
    /// Until then no request can time out. With many connections, checking each of them costs time.
    pub in_time_until_ns: u64,
}
