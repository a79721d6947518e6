//! How long answers may wait for each other, so that several share one wake-up (15–20 µs each on a virtual machine).
//!
//! The rule of `engine.md`: wait for half of the outstanding answers, at most a tenth of the observed mean latency, at most
//! 500 µs, and only with 32 or more outstanding. A tenth of the mean is far too long for a connection that is
//! served much faster than most (a process of the server with few connections): so it is at most a quarter of
//! what the fastest ones see, too. A connection that could be busy is not kept waiting.

use crate::io::Hold;

/// With fewer outstanding, a timed wait costs more than it saves.
const FEWEST_OUTSTANDING: usize = 32;
/// Longest wait.
const MOST_NS: u64 = 500_000;
/// Waits shorter than this save nothing.
const LEAST_NS: u64 = 5_000;
/// An observation's weight is one in so many.
const MEMORY: u64 = 16;

/// Latencies as one worker sees them on one session, over blocks.
#[derive(Debug, Default)]
pub struct Patience {
    /// Moving means of a batch's mean and least latency; 0: none yet.
    mean_ns: u64,
    least_ns: u64,
    batch: Batch,
}

#[derive(Debug, Default)]
struct Batch {
    sum_ns: u64,
    count: u64,
    least_ns: u64,
}

fn blend(old_ns: u64, new_ns: u64) -> u64 {
    if old_ns == 0 { new_ns } else { (old_ns * (MEMORY - 1) + new_ns) / MEMORY }
}

impl Patience {
    /// One right answer.
    #[inline]
    pub fn note(&mut self, latency_ns: u64) {
        let batch = &mut self.batch;
        batch.least_ns = if batch.count == 0 { latency_ns } else { batch.least_ns.min(latency_ns) };
        batch.sum_ns += latency_ns;
        batch.count += 1;
    }

    /// A batch of answers has been seen; how to wait for the next one.
    pub fn hold(&mut self, outstanding: usize) -> Option<Hold> {
        if self.batch.count > 0 {
            self.mean_ns = blend(self.mean_ns, self.batch.sum_ns / self.batch.count);
            self.least_ns = blend(self.least_ns, self.batch.least_ns);
            self.batch = Batch::default();
        }
        let most_ns = (self.mean_ns / 10).min(self.least_ns / 4).min(MOST_NS);
        (outstanding >= FEWEST_OUTSTANDING && most_ns >= LEAST_NS).then_some(Hold { answers: outstanding / 2, most_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(latencies_ns: &[u64], outstanding: usize) -> Option<Hold> {
        let mut patience = Patience::default();
        for _ in 0..200 {
            latencies_ns.iter().for_each(|latency_ns| patience.note(*latency_ns));
            patience.hold(outstanding);
        }
        patience.hold(outstanding)
    }

    #[test]
    fn the_wait_is_a_tenth_of_the_latency_and_bounded() {
        assert_eq!(settled(&[1_000_000], 100), Some(Hold { answers: 50, most_ns: 100_000 }));
        assert_eq!(settled(&[50_000_000], 100), Some(Hold { answers: 50, most_ns: 500_000 }));
    }

    #[test]
    fn few_outstanding_fast_servers_and_the_first_answers_are_not_waited_for() {
        assert_eq!(settled(&[1_000_000], 31), None);
        assert_eq!(settled(&[20_000], 100), None);
        assert_eq!(settled(&[], 100), None);
    }

    #[test]
    fn the_fastest_connections_are_not_kept_waiting_for_the_slow_ones() {
        assert_eq!(settled(&[5_000_000, 5_000_000, 40_000], 100), Some(Hold { answers: 50, most_ns: 10_000 }));
    }
}
