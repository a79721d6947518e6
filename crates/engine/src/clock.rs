//! Two clocks: the kernel's timestamps are from CLOCK_REALTIME, everything else uses CLOCK_MONOTONIC.
//!
//! The kernel derives both from one counter with the same slewing. They differ by a constant, until something sets the
//! wall clock: an administrator, NTP's first correction, a leap second. The constant is measured before, during and
//! after each block. Timestamps are shifted by it, and a block during which it changed reports by how much.

use crate::sys;

/// Attempts per reading; the one with the least interruption is used.
const LOOKS: u32 = 5;
/// An attempt that takes no longer was not interrupted.
const QUICK_NS: u64 = 100;

/// Both clocks at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// CLOCK_MONOTONIC before the reading of CLOCK_REALTIME.
    pub before_ns: u64,
    /// CLOCK_REALTIME.
    pub real_ns: u64,
    /// CLOCK_MONOTONIC after it.
    pub after_ns: u64,
}

impl Reading {
    /// The most precise of a few attempts; about 60 ns.
    pub fn now() -> Self {
        let look = || {
            let before_ns = sys::now_ns();
            Self { before_ns, real_ns: sys::real_ns(), after_ns: sys::now_ns() }
        };
        let mut best = look();
        for _ in 1..LOOKS {
            if best.width_ns() <= QUICK_NS {
                break;
            }
            let next = look();
            if next.width_ns() < best.width_ns() {
                best = next;
            }
        }
        best
    }

    fn width_ns(&self) -> u64 {
        self.after_ns.saturating_sub(self.before_ns)
    }

    /// By how much CLOCK_REALTIME is ahead; the error is at most half the width.
    fn ahead_ns(&self) -> i64 {
        self.real_ns as i64 - (self.before_ns + self.width_ns() / 2) as i64
    }
}

/// The relation of the two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    ahead_ns: i64,
    width_ns: u64,
    /// See [`Clocks::take_early_stamps`].
    early_stamps: u64,
}

impl Clocks {
    /// From a reading.
    pub fn new(reading: &Reading) -> Self {
        Self { ahead_ns: reading.ahead_ns(), width_ns: reading.width_ns(), early_stamps: 0 }
    }

    /// By how much CLOCK_REALTIME was set since the last call, in either direction; 0: not at all, or by less than can
    /// be seen (about 100 ns). From now on timestamps are shifted by the new difference.
    pub fn follow(&mut self, reading: &Reading) -> u64 {
        let step_ns = (reading.ahead_ns() - self.ahead_ns).unsigned_abs();
        if step_ns <= (self.width_ns + reading.width_ns()) / 2 + 1 {
            return 0;
        }
        (self.ahead_ns, self.width_ns) = (reading.ahead_ns(), reading.width_ns());
        step_ns
    }

    /// When a response arrived at this machine, on CLOCK_MONOTONIC: by the kernel's timestamp, if there is one (not 0).
    ///
    /// Recorded send times are never too late, so a timestamp before the send time means that a clock was set;
    /// [`Clocks::follow`] will report the step. Such a timestamp is counted and ignored: the time of reading is used,
    /// which makes no latency too short. The same is done with a timestamp in the future.
    #[inline]
    pub fn arrival_ns(&mut self, stamp_ns: u64, sent_ns: u64, now_ns: u64) -> u64 {
        if stamp_ns == 0 {
            return now_ns;
        }
        let arrived_ns = (stamp_ns as i64 - self.ahead_ns).max(0) as u64;
        if arrived_ns < sent_ns {
            self.early_stamps += 1;
            return now_ns;
        }
        arrived_ns.min(now_ns)
    }

    /// How many responses had timestamps before their requests' send times, since the last call.
    pub fn take_early_stamps(&mut self) -> u64 {
        std::mem::take(&mut self.early_stamps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AHEAD_NS: u64 = 1_800_000_000_000_000_000;

    fn at(mono_ns: u64, ahead_ns: u64) -> Reading {
        Reading { before_ns: mono_ns - 20, real_ns: mono_ns + ahead_ns, after_ns: mono_ns + 20 }
    }

    #[test]
    fn a_timestamp_is_converted_to_the_clock_of_send_times() {
        let mut clocks = Clocks::new(&at(5_000_000, AHEAD_NS));
        assert_eq!(clocks.arrival_ns(AHEAD_NS + 7_000_000, 6_000_000, 8_000_000), 7_000_000);
        assert_eq!(clocks.arrival_ns(0, 6_000_000, 8_000_000), 8_000_000, "no stamp: the time of reading");
    }

    #[test]
    fn a_clock_step_either_way_is_reported_once_with_its_size() {
        for stepped_ns in [AHEAD_NS - 3_000_000, AHEAD_NS + 3_000_000, 0] {
            let mut clocks = Clocks::new(&at(5_000_000, AHEAD_NS));
            assert_eq!(clocks.follow(&at(6_000_000, AHEAD_NS)), 0);
            assert_eq!(clocks.follow(&at(9_000_000, stepped_ns)), AHEAD_NS.abs_diff(stepped_ns));
            assert_eq!(clocks.follow(&at(9_500_000, stepped_ns)), 0);
            assert_eq!(clocks.arrival_ns(stepped_ns + 9_600_000, 9_000_000, 9_900_000), 9_600_000);
        }
    }

    #[test]
    fn a_timestamp_before_the_send_time_is_counted_and_shortens_no_latency() {
        let mut clocks = Clocks::new(&at(5_000_000, AHEAD_NS));
        for (stamp_ns, told_ns, early) in [
            (1, 8_000_000, 1),
            (AHEAD_NS, 8_000_000, 1),
            (AHEAD_NS + 5_999_999, 8_000_000, 1),
            (AHEAD_NS + 6_000_000, 6_000_000, 0),
            (AHEAD_NS + 9_000_000, 8_000_000, 0),
            (1 << 62, 8_000_000, 0),
        ] {
            assert_eq!(clocks.arrival_ns(stamp_ns, 6_000_000, 8_000_000), told_ns, "{stamp_ns}");
            clocks.follow(&at(6_000_000, AHEAD_NS));
            assert_eq!(clocks.take_early_stamps(), early, "{stamp_ns}");
        }
    }

    #[test]
    fn an_interrupted_clock_reading_is_not_a_step() {
        let mut clocks = Clocks::new(&at(5_000_000, AHEAD_NS));
        let late = Reading { before_ns: 6_000_000, real_ns: AHEAD_NS + 6_000_010, after_ns: 6_900_000 };
        assert_eq!(clocks.follow(&late), 0);
    }

    #[test]
    fn the_machines_own_clocks_do_not_drift_apart() {
        let mut clocks = Clocks::new(&Reading::now());
        for _ in 0..100 {
            // A clock step of some seconds in these microseconds would be reported as one; this test ignores that case.
            let step_ns = clocks.follow(&Reading::now());
            assert_eq!(step_ns, 0);
        }
    }
}
