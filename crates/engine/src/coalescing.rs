//! How long responses may wait for each other, so that several share one wake-up (15–20 µs each on a virtual machine).
//!
//! Wait for half of the outstanding responses, at most a quarter of the observed mean latency, at most 500 µs, and only
//! with 32 or more outstanding. A quarter of the mean is far too long for connections that are served much faster than
//! most, for example by a process of the server that has few of them, or from a cache. So the wait is also at most a
//! third of the lowest latency: no connection that could be busy is kept waiting. And it is never for more responses
//! than [`MAX_ANSWERS`], because the kernel's data about a connection should still be in the processor's caches when
//! its next request is sent. Waiting for 5,000 of 10,000 responses costs a third more CPU time than waiting for 64.
//!
//! Few connections with several streams each may wait for half of the mean, and half of the lowest latency: requests of
//! a connection that wait are sent together, and get their responses together. During the wait the server still has
//! half of its requests. On one core, this saves an eighth of the CPU time with ten connections of ten streams to
//! nginx.

use crate::io::Coalescing;

/// With fewer outstanding requests, a timed wait costs more than it saves.
pub const MIN_OUTSTANDING: usize = 32;
/// The same for large responses, which arrive in many pieces that would each wake the worker.
pub const MIN_LARGE: usize = 4;
/// Maximum number of responses to wait for.
pub const MAX_ANSWERS: usize = 64;
/// Longest wait.
const MAX_NS: u64 = 500_000;
/// Waits shorter than this save nothing.
const MIN_NS: u64 = 5_000;
/// Weight of a response in the mean: one in this many.
const MEMORY: u64 = 64;
/// With each response, the lowest latency grows by one in this many of itself.
const FORGET: u64 = 32;

/// Latencies of one session as one worker sees them, across blocks.
#[derive(Debug, Default)]
pub struct CoalescingRule {
    /// Moving mean; 0: no response yet.
    mean_ns: u64,
    /// Lowest latency of the last dozens of responses.
    least_ns: u64,
}

impl CoalescingRule {
    /// Takes a correct response's latency into account.
    #[inline]
    pub fn note(&mut self, latency_ns: u64) {
        if self.mean_ns == 0 {
            (self.mean_ns, self.least_ns) = (latency_ns, latency_ns);
        }
        self.mean_ns = self.mean_ns - self.mean_ns / MEMORY + latency_ns / MEMORY;
        self.least_ns = (self.least_ns + self.least_ns / FORGET).min(latency_ns);
    }

    /// The lowest latency of the last dozens of responses, ns; 0: no response yet.
    #[inline]
    pub fn least_ns(&self) -> u64 {
        self.least_ns
    }

    /// How to wait for the next responses with this many outstanding, unless they are fewer than `fewest`.
    ///
    /// `several_streams`: few connections have several streams each.
    #[inline]
    pub fn wait_for(&self, outstanding: usize, fewest: usize, several_streams: bool) -> Option<Coalescing> {
        let (mean, least) = if several_streams { (2, 2) } else { (4, 3) };
        let most_ns = (self.mean_ns / mean).min(self.least_ns / least).min(MAX_NS);
        let answers = (outstanding / 2).min(MAX_ANSWERS);
        (outstanding >= fewest && most_ns >= MIN_NS).then_some(Coalescing { answers, most_ns })
    }
}

/// Decides whether connections with several streams each share waits.
///
/// Some servers respond to all requests of one read with one write, so that one wake-up brings as many responses as a
/// connection has streams. Then waiting for several connections saves few wake-ups, and costs a timed wait each. Other
/// servers write responses one by one, and waiting saves many wake-ups. Which kind a server is can only be seen while
/// waits are not shared, so this is tried at intervals.
#[derive(Debug, Default)]
pub struct TogetherTrial {
    /// Waits since the trial began.
    waits: u32,
    /// Reads of the trial, and responses that they brought.
    reads: u32,
    answers: u64,
    together: bool,
}

/// Waits of a trial, and waits from one trial to the next.
const TRIAL_WAITS: u32 = 16;
const TRIAL_EVERY: u32 = 2_000;

impl TogetherTrial {
    /// Counts a wait for connections with this many streams each; returns whether the first responses are to end it.
    #[inline]
    pub fn ends_with_first(&mut self, streams: usize) -> bool {
        self.waits += 1;
        if self.waits == TRIAL_WAITS {
            self.together = 2 * self.answers >= u64::from(self.reads) * streams as u64;
        } else if self.waits >= TRIAL_EVERY {
            (self.waits, self.reads, self.answers) = (0, 0, 0);
        }
        self.waits < TRIAL_WAITS || self.together
    }

    /// Counts a read that brought this many responses.
    #[inline]
    pub fn note(&mut self, answers: u64) {
        self.reads += 1;
        self.answers += answers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(latencies_ns: &[u64], outstanding: usize) -> Option<Coalescing> {
        let mut coalescing = CoalescingRule::default();
        latencies_ns.iter().cycle().take(2000 * latencies_ns.len()).for_each(|latency_ns| coalescing.note(*latency_ns));
        coalescing.wait_for(outstanding, MIN_OUTSTANDING, false)
    }

    /// How many of 10,000 waits end with the first responses, if each read brings this many of a connection's ten.
    fn ending_with_first(answers: u64) -> usize {
        let mut trial = TogetherTrial::default();
        let mut ends = || {
            let ends = trial.ends_with_first(10);
            trial.note(answers);
            ends
        };
        (0..10_000).filter(|_| ends()).count()
    }

    #[test]
    fn responses_that_arrive_together_are_not_waited_for_jointly() {
        assert_eq!(ending_with_first(10), 10_000);
        assert_eq!(ending_with_first(5), 10_000);
        let tried = ending_with_first(4);
        assert!((5 * 15..=6 * 16).contains(&tried), "{tried}");
        assert_eq!(ending_with_first(1), tried);
    }

    #[test]
    fn the_wait_is_a_quarter_of_the_latency_and_bounded() {
        let Some(Coalescing { answers: 50, most_ns }) = settled(&[1_000_000], 100) else { panic!() };
        assert!((245_000..=250_000).contains(&most_ns), "{most_ns}");
        assert_eq!(settled(&[50_000_000], 100), Some(Coalescing { answers: 50, most_ns: 500_000 }));
        assert_eq!(settled(&[50_000_000], 10_000), Some(Coalescing { answers: 64, most_ns: 500_000 }));
    }

    #[test]
    fn few_outstanding_fast_servers_and_the_first_answers_are_not_waited_for() {
        assert_eq!(settled(&[1_000_000], 31), None);
        assert_eq!(settled(&[15_000], 100), None);
        assert_eq!(settled(&[], 100), None);
    }

    #[test]
    fn several_streams_of_few_connections_wait_twice_as_long() {
        let mut rule = CoalescingRule::default();
        (0..2000).for_each(|_| rule.note(400_000));
        let [one, several] = [false, true].map(|several| rule.wait_for(100, MIN_OUTSTANDING, several).unwrap().most_ns);
        assert!((98_000..=100_000).contains(&one) && (195_000..=200_000).contains(&several), "{one}, {several}");
    }

    #[test]
    fn the_fastest_connections_are_not_kept_waiting_for_the_slow_ones() {
        let coalescing = settled(&[5_000_000, 40_000, 5_000_000], 100).unwrap();
        assert!((13_000..15_000).contains(&coalescing.most_ns), "{coalescing:?}");
    }
}
