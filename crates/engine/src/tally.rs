//! Counts and histograms: one per thread and block, merged when all blocks are done.

use crate::error::EngineError;
pub use crate::failure::{Failure, KINDS, NAMES};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// Lowest latency told apart from zero, and the histogram's step for small ones (a power of two near 1 µs).
const LATENCY_STEP_NS: u64 = 512;
/// Longest latency told; longer ones count as this.
const LATENCY_MOST_NS: u64 = 60_000_000_000;
/// Significant decimal digits.
const DIGITS: u8 = 3;
/// Of times to connect: they are shown, not judged, and every block has room for them (11 kB).
const CONNECT_DIGITS: u8 = 2;

/// How many answers had which status, in the order in which these came first: a server has few.
#[derive(Clone, Debug, Default)]
pub struct Statuses(Vec<(u16, u64)>);

impl Statuses {
    /// One answer more.
    #[inline]
    pub fn count(&mut self, status: u16) {
        self.add_some(status, 1);
    }

    #[inline]
    fn add_some(&mut self, status: u16, count: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == status) {
            Some((_, counted)) => *counted += count,
            None => self.0.push((status, count)),
        }
    }

    fn add(&mut self, other: &Self) {
        for (status, count) in &other.0 {
            self.add_some(*status, *count);
        }
    }

    fn take_off(&mut self, earlier: &Self) {
        for (status, count) in &mut self.0 {
            *count -= earlier.0.iter().find(|(known, _)| known == status).map_or(0, |(_, before)| *before);
        }
        self.0.retain(|(_, count)| *count > 0);
    }

    /// By status.
    pub fn sorted(&self) -> Vec<(u16, u64)> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted
    }
}

/// What an open loop adds to it. Memory: 150 kB.
#[derive(Clone, Debug)]
pub struct OpenCounts {
    /// Requests meant to leave within the counted part.
    pub offered: u64,
    /// Of these, those that never left.
    pub unsent: u64,
    /// Requests that left within the counted part.
    pub departed: u64,
    /// How much later than meant those of `offered` left that left, ns.
    pub lag: Histogram<u32>,
    /// Of `requests`, from when they left.
    pub latency_sent: Histogram<u32>,
}

fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(LATENCY_STEP_NS, LATENCY_MOST_NS, DIGITS)
        .expect("constant bounds that the histogram takes")
}

impl OpenCounts {
    /// All zero.
    pub fn new() -> Self {
        Self { offered: 0, unsent: 0, departed: 0, lag: histogram(), latency_sent: histogram() }
    }

    fn add(&mut self, other: &OpenCounts) {
        self.offered += other.offered;
        self.unsent += other.unsent;
        self.departed += other.departed;
        self.lag.add(&other.lag).expect("histograms of one shape");
        self.latency_sent.add(&other.latency_sent).expect("histograms of one shape");
    }

    fn take_off(&mut self, earlier: &OpenCounts) {
        self.offered -= earlier.offered;
        self.unsent -= earlier.unsent;
        self.departed -= earlier.departed;
        self.lag.subtract(&earlier.lag).expect("an earlier state of it");
        self.latency_sent.subtract(&earlier.latency_sent).expect("an earlier state of it");
    }
}

impl Default for OpenCounts {
    fn default() -> Self {
        Self::new()
    }
}

/// What one worker counted in one block. Memory: 75 kB, allocated before the first block.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Right answers within the counted part.
    pub requests: u64,
    /// Requests whose first byte was handed to the kernel.
    pub sent: u64,
    /// Right answers, whole block.
    pub answered: u64,
    /// Requests without a right answer, whole block.
    pub failed: u64,
    /// Unanswered when the block was stopped.
    pub in_flight: u64,
    /// By [`Failure`].
    pub errors: [u64; KINDS],
    /// Whole block.
    pub bytes_in: u64,
    /// Whole block.
    pub bytes_out: u64,
    /// Connections opened.
    pub connects: u64,
    /// Of `requests`, ns.
    pub latency: Histogram<u32>,
    /// Of `requests`, exact, ns.
    pub latency_sum_ns: u64,
    /// From an answer's arrival to the departure of its connection's next request, summed over the counted part.
    pub turn_sum_ns: u64,
    /// The largest step of the clock that stamps arrivals.
    pub clock_step_ns: u64,
    /// Answers whose stamps lay before their requests' departures: a fault of the clocks; told by the time of reading.
    pub early_stamps: u64,
    /// Of connections opened, to their last handshake's end, ns; whole block.
    pub connecting: Histogram<u32>,
    /// Of `requests`, to the answer's first byte, ns; None: not asked for.
    pub first_byte: Option<Histogram<u32>>,
    /// The worker's CPU time over the counted part, that of the kernel's thread for packets on its core included.
    pub cpu_ns: u64,
    /// The worker's run-queue wait, whole block, without that for the kernel's thread.
    pub wait_ns: u64,
    /// The worker's involuntary context switches, whole block.
    pub switches: u64,
    /// Answers that could be read, by status, whole block.
    pub statuses: Statuses,
    /// The first of each kind that went wrong, known at the block's end.
    pub samples: Vec<(Failure, String)>,
    /// All of this worker's connections were lost for good.
    pub gave_up: bool,
    /// It was told to stop.
    pub stopped: bool,
    /// End of the counted part.
    pub counted_end_ns: u64,
    /// End of the drain.
    pub finished_ns: u64,
    /// In an open loop.
    pub open: Option<Box<OpenCounts>>,
}

impl Counts {
    /// All zero.
    pub fn new() -> Self {
        Self {
            requests: 0,
            sent: 0,
            answered: 0,
            failed: 0,
            in_flight: 0,
            errors: [0; KINDS],
            bytes_in: 0,
            bytes_out: 0,
            connects: 0,
            latency: histogram(),
            latency_sum_ns: 0,
            turn_sum_ns: 0,
            clock_step_ns: 0,
            early_stamps: 0,
            connecting: Histogram::new_with_bounds(LATENCY_STEP_NS, LATENCY_MOST_NS, CONNECT_DIGITS)
                .expect("constant bounds that the histogram takes"),
            first_byte: None,
            cpu_ns: 0,
            wait_ns: 0,
            switches: 0,
            statuses: Statuses::default(),
            samples: Vec::new(),
            gave_up: false,
            stopped: false,
            counted_end_ns: 0,
            finished_ns: 0,
            open: None,
        }
    }

    /// Makes room for times to the first byte.
    pub fn with_first_byte(mut self) -> Self {
        self.first_byte = Some(self.latency.clone());
        self
    }

    /// One right answer within the counted part.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.requests += 1;
        self.latency_sum_ns += latency_ns;
        self.latency.saturating_record(latency_ns);
    }

    /// Adds another worker's counts of the same block.
    pub fn add(&mut self, other: &Counts) {
        self.requests += other.requests;
        self.sent += other.sent;
        self.answered += other.answered;
        self.failed += other.failed;
        self.in_flight += other.in_flight;
        for (mine, theirs) in self.errors.iter_mut().zip(other.errors) {
            *mine += theirs;
        }
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.connects += other.connects;
        self.latency.add(&other.latency).expect("histograms of one shape");
        self.latency_sum_ns += other.latency_sum_ns;
        self.turn_sum_ns += other.turn_sum_ns;
        self.clock_step_ns = self.clock_step_ns.max(other.clock_step_ns);
        self.early_stamps += other.early_stamps;
        self.connecting.add(&other.connecting).expect("histograms of one shape");
        if let (Some(mine), Some(theirs)) = (&mut self.first_byte, &other.first_byte) {
            mine.add(theirs).expect("histograms of one shape");
        }
        self.cpu_ns += other.cpu_ns;
        self.wait_ns += other.wait_ns;
        self.switches += other.switches;
        self.statuses.add(&other.statuses);
        for (kind, text) in &other.samples {
            if self.samples.iter().all(|(known, _)| known != kind) {
                self.samples.push((*kind, text.clone()));
            }
        }
        self.gave_up &= other.gave_up;
        self.stopped |= other.stopped;
        self.counted_end_ns = self.counted_end_ns.max(other.counted_end_ns);
        self.finished_ns = self.finished_ns.max(other.finished_ns);
        if let (Some(mine), Some(theirs)) = (&mut self.open, &other.open) {
            mine.add(theirs);
        }
    }
}

impl Counts {
    /// Takes off what had been counted before: what is left was counted since.
    pub fn take_off(&mut self, earlier: &Counts) {
        self.requests -= earlier.requests;
        self.sent = self.sent.saturating_sub(earlier.sent); // a request that could not leave is taken back
        self.answered -= earlier.answered;
        self.failed -= earlier.failed;
        for (mine, theirs) in self.errors.iter_mut().zip(earlier.errors) {
            *mine -= theirs;
        }
        self.statuses.take_off(&earlier.statuses);
        self.bytes_in -= earlier.bytes_in;
        self.bytes_out = self.bytes_out.saturating_sub(earlier.bytes_out);
        self.connects -= earlier.connects;
        self.latency.subtract(&earlier.latency).expect("an earlier state of it");
        self.latency_sum_ns -= earlier.latency_sum_ns;
        self.turn_sum_ns -= earlier.turn_sum_ns;
        self.connecting.subtract(&earlier.connecting).expect("an earlier state of it");
        if let (Some(mine), Some(theirs)) = (&mut self.first_byte, &earlier.first_byte) {
            mine.subtract(theirs).expect("an earlier state of it");
        }
        self.cpu_ns = self.cpu_ns.saturating_sub(earlier.cpu_ns);
        if let (Some(mine), Some(theirs)) = (&mut self.open, &earlier.open) {
            mine.take_off(theirs);
        }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

/// What one block left behind, over all workers. The identity `sent = answered + failed + in_flight` holds.
///
/// Besides the failed requests, `errors` counts failed attempts to connect and bytes nobody asked for.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The session it ran on.
    pub session: u32,
    /// Begin of the lead-in, CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// Begin of the counted part.
    pub counted_start_ns: u64,
    /// As planned.
    pub lead_ns: u64,
    /// As measured: shorter than planned where the block ended early.
    pub counted_ns: u64,
    /// Begin of the lead-in to the end of the drain.
    pub duration_ns: u64,
    /// Right answers within the counted part.
    pub requests: u64,
    /// Whole block.
    pub sent: u64,
    /// Right answers, whole block.
    pub answered: u64,
    /// Requests without a right answer, whole block.
    pub failed: u64,
    /// Zero in every finished block.
    pub in_flight: u64,
    /// By [`Failure`]; names in [`NAMES`].
    pub errors: [u64; KINDS],
    /// Whole block.
    pub bytes_in: u64,
    /// Whole block.
    pub bytes_out: u64,
    /// Connections opened during the block.
    pub connects: u64,
    /// Of `requests`: HdrHistogram V2 compressed, ns.
    pub latency_hdr: Vec<u8>,
    /// Of `requests`, exact.
    pub latency_sum_ns: u64,
    /// From an answer's arrival to the departure of its connection's next request, summed over the counted part: the
    /// time that a connection waited for us. Connections × time = latency + this.
    pub turn_sum_ns: u64,
    /// By how much the clock that stamps arrivals was set during the block; 0: not at all. Above that no latency is to
    /// be trusted.
    pub clock_step_ns: u64,
    /// Answers whose stamps lay before their requests' departures: a fault of the clocks; told by the time of reading.
    pub early_stamps: u64,
    /// Connections opened, from the first step to the last handshake's end, whole block (in a session's first one,
    /// those before it, too); as `latency_hdr`, empty where nothing was recorded.
    pub connect_hdr: Vec<u8>,
    /// Of `requests`, from the request's leaving to its answer's first byte; empty where it was not asked for.
    pub first_byte_hdr: Vec<u8>,
    /// p50, p90, p99, p99.9 and maximum, off the histogram; zero if there is none.
    pub quantiles_ns: [u64; 5],
    /// The server's CPU time, whole block, where it is watched.
    pub server_cpu_ns: Option<u64>,
    /// The server's run-queue wait, whole block, where it is watched.
    pub server_wait_ns: Option<u64>,
    /// How often a thread of the server was put on a core, whole block, where it is watched.
    pub server_runs: Option<u64>,
    /// The workers' CPU time over the counted part, without what they polled in vain.
    pub engine_cpu_ns: u64,
    /// Their run-queue wait, whole block.
    pub engine_wait_ns: u64,
    /// Their involuntary context switches, whole block.
    pub engine_switches: u64,
    /// How many workers there are.
    pub engine_threads: usize,
    /// Steal on the cores asked for, whole block.
    pub steal_ns: u64,
    /// In an open loop.
    pub open: Option<OpenTally>,
    /// Every connection was lost for good.
    pub gave_up: bool,
    /// Answers that could be read, by status, in its order: the right ones and those whose status, length or body was
    /// wrong. Whole block.
    pub statuses: Vec<(u16, u64)>,
    /// The first of each kind that went wrong, in the order in which they came.
    pub samples: Vec<(Failure, String)>,
    /// The first of these; empty if nothing went wrong.
    pub sample: String,
}

/// What an open loop adds to it. `requests`, their latencies and `offered` are of requests that were meant to leave within
/// the counted part, whenever they were answered; latencies there run from when a request was meant to leave.
///
/// `offered` = right and failed answers to such requests + `unsent`.
#[derive(Clone, Debug)]
pub struct OpenTally {
    /// Requests meant to leave within the counted part.
    pub offered: u64,
    /// Of these, those that never left: no connection was free until long after the block's end.
    pub unsent: u64,
    /// Requests that left within the counted part; fewer than `offered`: the rate was not reached.
    pub departed: u64,
    /// How much later than meant requests left: HdrHistogram V2 compressed, ns.
    pub lag_hdr: Vec<u8>,
    /// p50, p90, p99, p99.9 and maximum of it.
    pub lag_quantiles_ns: [u64; 5],
    /// Of `requests`, from when they left: HdrHistogram V2 compressed, ns.
    pub latency_sent_hdr: Vec<u8>,
}

impl From<&OpenCounts> for OpenTally {
    fn from(sum: &OpenCounts) -> Self {
        Self {
            offered: sum.offered,
            unsent: sum.unsent,
            departed: sum.departed,
            lag_hdr: compress(&sum.lag),
            lag_quantiles_ns: quantiles_ns(&sum.lag),
            latency_sent_hdr: compress(&sum.latency_sent),
        }
    }
}

/// p50, p90, p99, p99.9, maximum; zero if nothing was recorded.
pub fn quantiles_ns(latency: &Histogram<u32>) -> [u64; 5] {
    if latency.is_empty() {
        return [0; 5];
    }
    [0.5, 0.9, 0.99, 0.999, 1.0].map(|quantile| latency.value_at_quantile(quantile))
}

/// HdrHistogram V2 compressed.
pub fn compress<C: hdrhistogram::Counter>(latency: &Histogram<C>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1024);
    V2DeflateSerializer::new().serialize(latency, &mut bytes).expect("writing to memory");
    bytes
}

/// The same; empty where nothing was recorded.
pub fn compress_some(recorded: Option<&Histogram<u32>>) -> Vec<u8> {
    recorded.filter(|recorded| !recorded.is_empty()).map_or(Vec::new(), compress)
}

/// Adds histograms of any shape (V2 compressed in and out); none gives an empty one.
///
/// # Errors
/// [`EngineError::Histogram`] says which can't be read or added.
pub fn merge<B: AsRef<[u8]>>(histograms: &[B]) -> Result<Vec<u8>, EngineError> {
    let mut sum = Histogram::<u64>::new_with_bounds(LATENCY_STEP_NS, LATENCY_MOST_NS, DIGITS)
        .expect("constant bounds that the histogram takes");
    for (index, bytes) in histograms.iter().enumerate() {
        let refused = |problem: String| EngineError::Histogram { index, problem };
        let read: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_ref()).map_err(|error| refused(error.to_string()))?;
        sum.add(&read).map_err(|error| refused(error.to_string()))?;
    }
    Ok(compress(&sum))
}
