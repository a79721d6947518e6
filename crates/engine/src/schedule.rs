//! When each request of an open loop is meant to be sent; arithmetic only.
//!
//! The rate is a sequence of straight lines. Request `k` is sent when the area under the rate reaches `k` (constant
//! arrivals), or the sum of `k + 1` draws from the unit exponential distribution (Poisson arrivals: a change of time
//! turns a process of rate 1 into one of any rate; Çinlar 1975). Both depend only on the plan and the number, so
//! workers share a schedule without communication: of `n` workers, number `w` sends the requests whose number modulo
//! `n` is `w`. Times are ns from the start of the block, exact to the nanosecond up to 2^52 ns.

/// There is no further request.
pub const NEVER_NS: u64 = u64::MAX;
/// Highest rate, far above what one machine can send.
pub const MAX_PER_S: f64 = 10_000_000.0;

const SECOND_NS: f64 = 1e9;

/// How the gaps between requests are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// All gaps are equal.
    Constant,
    /// Gaps are independent of each other, as with many users.
    Poisson,
}

/// How precisely requests keep to the schedule; more precision costs more wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// One wake-up per request.
    Precise,
    /// Requests of the same 210 µs are sent together.
    Balanced,
    /// Requests of the same 1 ms are sent together.
    Thrifty,
}

/// A part of the schedule: the rate changes linearly from one value to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Rate at the beginning, which is the end of the previous step; 0: nothing is sent.
    pub from_per_s: f64,
    /// Rate at the end.
    pub to_per_s: f64,
    /// End of the step, from the beginning of the block's lead-in.
    pub until_ns: u64,
}

/// An open loop: when requests are sent, whatever the server does.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoopPlan {
    /// The distribution of gaps.
    pub arrivals: Arrivals,
    /// The precision of send times.
    pub precision: Precision,
    /// In order; the last step reaches at least to the end of the block.
    pub steps: Vec<Step>,
    /// Seed of Poisson arrivals.
    pub seed: u64,
}

impl Precision {
    /// Requests wait for the next multiple of this time; 1: they don't wait.
    pub fn tick_ns(self) -> u64 {
        match self {
            Self::Precise => 1,
            Self::Balanced => 210_000,
            Self::Thrifty => 1_000_000,
        }
    }
}

impl OpenLoopPlan {
    /// A constant rate with equal gaps, without an end.
    pub fn constant(rate_per_s: f64, precision: Precision) -> Self {
        let step = Step { from_per_s: rate_per_s, to_per_s: rate_per_s, until_ns: NEVER_NS };
        Self { arrivals: Arrivals::Constant, precision, steps: vec![step], seed: 0 }
    }

    /// What is wrong with the plan: the field, and the value given.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        let mut begin_ns = 0;
        for step in &self.steps {
            for rate_per_s in [step.from_per_s, step.to_per_s] {
                if !(0.0..=MAX_PER_S).contains(&rate_per_s) {
                    return Some(("rate_per_s", format!("{rate_per_s} given")));
                }
            }
            if step.until_ns <= begin_ns {
                return Some(("until_ns", format!("{} given behind {begin_ns}", step.until_ns)));
            }
            if step.until_ns == NEVER_NS && step.from_per_s != step.to_per_s {
                return Some(("until_ns", "a ramp without an end given".into()));
            }
            begin_ns = step.until_ns;
        }
        self.steps
            .iter()
            .all(|step| step.from_per_s.max(step.to_per_s) == 0.0)
            .then(|| ("steps", "no rate given".into()))
    }

    /// When request number `index` is meant to be sent; [`NEVER_NS`]: the schedule ends before.
    pub fn time_of(&self, index: u64) -> u64 {
        let mut departures = Departures::new(self, 0, 1, u64::MAX);
        while self.arrivals == Arrivals::Poisson && departures.number < index {
            departures.advance();
        }
        departures.move_to(index);
        departures.next_ns
    }
}

/// The times of one worker's requests, in order.
#[derive(Clone, Debug)]
pub struct Departures {
    next_ns: u64,
    /// Number of the next request, over all workers.
    number: u64,
    /// How many workers share the schedule.
    workers: u64,
    /// Requests from this number on are not sent.
    end: u64,
    /// Area under the rate at which the next request is sent.
    area: f64,
    seed: Option<u64>,
    steps: Vec<Stretch>,
    /// The step of the next request.
    at: usize,
}

/// A step with precomputed values.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    begin_ns: f64,
    /// Area under the rate up to the beginning of the step, and up to its end.
    area_from: f64,
    area_to: f64,
    from_per_s: f64,
    /// Twice the change of the rate per second.
    slope_twice: f64,
}

impl Stretch {
    /// When the area is reached. This form has no difference of nearly equal numbers, and is exact for a constant rate.
    fn time_of(&self, area: f64) -> u64 {
        let inside = area - self.area_from;
        if inside <= 0.0 {
            return self.begin_ns as u64;
        }
        let under = (self.from_per_s * self.from_per_s + self.slope_twice * inside).max(0.0);
        (self.begin_ns + 2.0 * inside * SECOND_NS / (self.from_per_s + under.sqrt())).round() as u64
    }
}

fn stretches(steps: &[Step]) -> Vec<Stretch> {
    let (mut begin_ns, mut area_from) = (0.0, 0.0);
    let mut known = |step: &Step| {
        let span_s = (step.until_ns as f64 - begin_ns) / SECOND_NS;
        let area_to = area_from + (step.from_per_s + step.to_per_s) / 2.0 * span_s;
        let slope_twice = 2.0 * (step.to_per_s - step.from_per_s) / span_s;
        let stretch = Stretch { begin_ns, area_from, area_to, from_per_s: step.from_per_s, slope_twice };
        (begin_ns, area_from) = (step.until_ns as f64, area_to);
        stretch
    };
    steps.iter().map(&mut known).collect()
}

/// Draw `number` from the unit exponential distribution (splitmix64 of a counter; Steele, Lea & Flood 2014).
fn exponential(seed: u64, number: u64) -> f64 {
    let mut bits = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let uniform = (bits >> 11) as f64 / (1u64 << 53) as f64;
    -(-uniform).ln_1p()
}

impl Departures {
    /// The requests of worker `worker` of `workers`, among the first `end` of all.
    pub fn new(open_loop: &OpenLoopPlan, worker: usize, workers: usize, end: u64) -> Self {
        let mut made = Self {
            next_ns: 0,
            number: 0,
            workers: workers as u64,
            end,
            area: 0.0,
            seed: (open_loop.arrivals == Arrivals::Poisson).then_some(open_loop.seed),
            steps: stretches(&open_loop.steps),
            at: 0,
        };
        if let Some(seed) = made.seed {
            made.area = exponential(seed, 0);
        }
        made.move_to(worker as u64);
        made
    }

    /// When the next request is meant to be sent; [`NEVER_NS`]: there is none.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Moves to the next request. Hot path: no allocation, no system call.
    #[inline]
    pub fn advance(&mut self) {
        self.move_to(self.number + self.workers);
    }

    fn move_to(&mut self, number: u64) {
        if number >= self.end {
            self.next_ns = NEVER_NS;
            return;
        }
        match self.seed {
            None => self.area = number as f64,
            Some(seed) => (self.number..number).for_each(|passed| self.area += exponential(seed, passed + 1)),
        }
        self.number = number;
        while self.steps.get(self.at).is_some_and(|step| self.area >= step.area_to) {
            self.at += 1;
        }
        self.next_ns = self.steps.get(self.at).map_or(NEVER_NS, |step| step.time_of(self.area));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(open_loop: &OpenLoopPlan, worker: usize, workers: usize, until_ns: u64) -> Vec<u64> {
        let mut departures = Departures::new(open_loop, worker, workers, u64::MAX);
        let mut all = vec![];
        while departures.next_ns() < until_ns {
            all.push(departures.next_ns());
            departures.advance();
        }
        all
    }

    fn step(from_per_s: f64, to_per_s: f64, until_ns: u64) -> Step {
        Step { from_per_s, to_per_s, until_ns }
    }

    fn open_loop(arrivals: Arrivals, steps: Vec<Step>) -> OpenLoopPlan {
        OpenLoopPlan { arrivals, precision: Precision::Precise, steps, seed: 7 }
    }

    #[test]
    fn twenty_thousand_per_second_are_sent_every_fifty_microseconds_for_an_hour() {
        let open_loop = OpenLoopPlan::constant(20_000.0, Precision::Precise);
        assert_eq!(times(&open_loop, 0, 1, 1_000_000_000), (0..20_000).map(|k| k * 50_000).collect::<Vec<_>>());
        assert_eq!(open_loop.time_of(72_000_000), 3_600_000_000_000);
    }

    #[test]
    fn steps_begin_at_the_end_of_the_previous_one_and_a_rate_of_zero_is_a_pause() {
        let steps = vec![step(2.0, 2.0, 1_000_000_000), step(0.0, 0.0, 3_000_000_000), step(1.0, 1.0, 6_000_000_000)];
        let expected = [0, 500_000_000, 3_000_000_000, 4_000_000_000, 5_000_000_000];
        assert_eq!(times(&open_loop(Arrivals::Constant, steps), 0, 1, NEVER_NS), expected);
    }

    #[test]
    fn a_ramp_sends_the_area_under_it_and_little_at_low_rates() {
        let up = times(&open_loop(Arrivals::Constant, vec![step(0.0, 2000.0, 1_000_000_000)]), 0, 1, NEVER_NS);
        let down = times(&open_loop(Arrivals::Constant, vec![step(2000.0, 0.0, 1_000_000_000)]), 0, 1, NEVER_NS);
        assert_eq!((up.len(), down.len()), (1000, 1000));
        assert_eq!(up.iter().filter(|at| **at < 500_000_000).count(), 250);
        assert_eq!(down.iter().filter(|at| **at < 500_000_000).count(), 750);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_their_distribution() {
        let open_loop = open_loop(Arrivals::Poisson, vec![step(1000.0, 1000.0, 100_000_000_000)]);
        let all = times(&open_loop, 0, 1, NEVER_NS);
        let gaps: Vec<f64> = all.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // 100,000 draws: five standard errors are 1.6 % of the mean and 4.5 % of the variance.
        assert!((mean - 1.0).abs() < 0.016 && (variance - 1.0).abs() < 0.045, "{mean} {variance}");
        let other = times(&OpenLoopPlan { seed: 8, ..open_loop.clone() }, 0, 1, NEVER_NS);
        assert_ne!(all, other);
        assert_eq!(open_loop.time_of(5000), all[5000]);
    }

    #[test]
    fn an_invalid_plan_is_named() {
        let field = |steps| open_loop(Arrivals::Constant, steps).fault().map(|(field, _)| field);
        assert_eq!(field(vec![]), Some("steps"));
        assert_eq!(field(vec![step(0.0, 0.0, 5)]), Some("steps"));
        assert_eq!(field(vec![step(-1.0, 1.0, 5)]), Some("rate_per_s"));
        assert_eq!(field(vec![step(f64::NAN, 1.0, 5)]), Some("rate_per_s"));
        assert_eq!(field(vec![step(1.0, 1.0, 5), step(2.0, 2.0, 5)]), Some("until_ns"));
        assert_eq!(field(vec![step(1.0, 2.0, NEVER_NS)]), Some("until_ns"));
        assert_eq!(field(vec![step(1.0, 2.0, 5), step(3.0, 3.0, NEVER_NS)]), None);
    }

    proptest! {
        #[test]
        fn any_window_of_a_constant_rate_has_its_count(rate in 1.0..1e6f64, from in 0u64..20_000_000, span in 1u64..20_000_000) {
            let count = times(&OpenLoopPlan::constant(rate, Precision::Precise), 0, 1, from + span)
                .iter().filter(|at| **at >= from).count() as f64;
            prop_assert!((count - rate * span as f64 / 1e9).abs() < 1.001, "{count}");
        }

        #[test]
        fn workers_together_send_each_departure_once_and_evenly(
            rates in proptest::collection::vec((0.0..1e5f64, 0.0..1e5f64, 1u64..10_000_000), 1..5),
            workers in 1usize..6, poisson: bool, end in 0u64..3000,
        ) {
            let mut until_ns = 0;
            let steps = rates.into_iter().map(|(from, to, span)| { until_ns += span; step(from, to, until_ns) }).collect();
            let open_loop = open_loop(if poisson { Arrivals::Poisson } else { Arrivals::Constant }, steps);
            let one = |worker, of| {
                let mut departures = Departures::new(&open_loop, worker, of, end);
                let mut all = vec![];
                while departures.next_ns() != NEVER_NS {
                    all.push(departures.next_ns());
                    departures.advance();
                }
                all
            };
            let alone = one(0, 1);
            prop_assert!(alone.is_sorted() && alone.len() as u64 <= end);
            prop_assert!(alone.iter().all(|at| *at <= until_ns));
            let shares: Vec<_> = (0..workers).map(|worker| one(worker, workers)).collect();
            prop_assert!(shares.iter().map(Vec::len).max().unwrap() - shares.iter().map(Vec::len).min().unwrap() <= 1);
            let mut together = shares.concat();
            together.sort_unstable();
            prop_assert_eq!(together, alone);
        }
    }
}
