//! How long to go on with what a peer sends. A peer that never stops must not hold a worker: every loop over its bytes or
//! events asks this, or has another bound, which a comment `Ends: …` above it gives. `tests/unit/test_house.py` holds that.

use crate::sys;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest single wait for a peer, so that a stop is noticed.
const SLICE_NS: u64 = 20_000_000;

/// Turns that a loop may have also after the deadline: a worker that was off its core must not blame the peer.
const LEAST_TURNS: u32 = 16;

/// A deadline and the engine's stop flag.
#[derive(Debug)]
pub struct Patience {
    end_ns: u64,
    turns: Cell<u32>,
    stop: Arc<AtomicBool>,
}

impl Patience {
    /// From now on for this long.
    pub fn new(limit: Duration, stop: &Arc<AtomicBool>) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self { end_ns: sys::now_ns().saturating_add(limit_ns), turns: Cell::new(0), stop: Arc::clone(stop) }
    }

    /// Patience for this long, and for no longer than this one lasts.
    pub fn within(&self, limit: Duration) -> Self {
        let shorter = Self::new(limit, &self.stop);
        Self { end_ns: shorter.end_ns.min(self.end_ns), ..shorter }
    }

    /// Whether a loop may have another turn: the flag is not set, and the deadline has not passed.
    pub fn lasts(&self) -> bool {
        let turns = self.turns.replace(self.turns.get().saturating_add(1));
        !self.stop.load(Ordering::Relaxed) && (turns < LEAST_TURNS || self.next_wait_ns() > 0)
    }

    /// How long the next wait may be; 0: the deadline has passed, or the flag is set.
    pub fn next_wait_ns(&self) -> u64 {
        if self.stop.load(Ordering::Relaxed) { 0 } else { self.end_ns.saturating_sub(sys::now_ns()).min(SLICE_NS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_by_the_deadline_and_by_the_flag() {
        let stop = Arc::new(AtomicBool::new(false));
        let long = Patience::new(Duration::MAX, &stop);
        assert!(long.lasts());
        assert_eq!(long.next_wait_ns(), SLICE_NS);
        let over = Patience::new(Duration::ZERO, &stop);
        assert_eq!((0..100).filter(|_| over.lasts()).count(), LEAST_TURNS as usize);
        stop.store(true, Ordering::Relaxed);
        assert!(!long.lasts());
    }
}
