//! Counts and histograms: one per thread and block, merged when all blocks are done.

use crate::error::EngineError;
pub use crate::failure::{Failure, KINDS, NAMES};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// Lowest latency that differs from zero, and the histogram's step for low ones (a power of two near 1 µs).
const LATENCY_STEP_NS: u64 = 512;
/// Longest latency; longer ones count as this one.
const LATENCY_MOST_NS: u64 = 60_000_000_000;
/// Significant decimal digits.
const DIGITS: u8 = 3;
/// For times to connect, and for each kind of request: these are shown, not judged, and every block has room for them
/// (11 kB).
const CONNECT_DIGITS: u8 = 2;

/// How many responses had each status, in the order in which they first came: a server has few.
#[derive(Clone, Debug, Default)]
pub struct Statuses(Vec<(u16, u64)>);

impl Statuses {
    /// Counts a response.
    #[inline]
    pub fn count(&mut self, status: u16) {
        self.add_some(status, 1);
    }

    /// Counts several responses of one status.
    #[inline]
    pub fn add_some(&mut self, status: u16, count: u64) {
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

/// Every number of a block, each declared only here: `each_counter!(then)` passes them to the macro `then`.
///
/// [`Counts`], [`BlockFacts`] and [`Tally`] below are made from it, and the getters of the Python class in
/// `crates/python`. `tests/unit/test_counters.py` compares the stub, the record and the store's columns with that
/// class.
///
/// The word after a counted number says how parts are added and how an earlier state is subtracted. `sum`: both
/// exactly; `revised`: a sum that may be corrected downwards; `most`: the largest, which can't be subtracted.
#[macro_export]
macro_rules! each_counter {
    ($then:ident) => {
        $then! {
            counted {
                /// Correct responses within the counted part.
                requests: sum;
                /// Requests whose first byte was passed to the kernel, whole block.
                sent: revised;
                /// Correct responses, whole block.
                answered: sum;
                /// Requests without a correct response, whole block.
                failed: sum;
                /// Requests in flight when the block was stopped; 0 in every finished block.
                in_flight: sum;
                /// Bytes received, whole block.
                bytes_in: sum;
                /// Bytes sent, whole block.
                bytes_out: revised;
                /// Connections opened during the block.
                connects: sum;
                /// Sum of the latencies of `requests`, exact.
                latency_sum_ns: sum;
                /// Time from a response's arrival until its connection's next request was sent, summed over the counted
                /// part: how long connections waited for the engine. Connections × time = latency + this.
                turn_sum_ns: sum;
                /// By how much the clock of the timestamps was set during the block; 0: not at all. Otherwise no
                /// latency can be trusted.
                clock_step_ns: most;
                /// Responses with timestamps before their requests' send times: a fault of the clocks. Their latencies
                /// end at the time of reading.
                early_stamps: sum;
                /// The workers' CPU time over the counted part, without polling; includes the kernel's packet threads
                /// on their cores.
                engine_cpu_ns: revised;
                /// The workers' run-queue wait, whole block, without that for the kernel's packet threads.
                engine_wait_ns: sum;
                /// The workers' involuntary context switches, whole block.
                engine_switches: sum;
            }
            read {
                /// The session of the block.
                session: u32;
                /// Begin of the lead-in, CLOCK_MONOTONIC.
                started_ns: u64;
                /// Begin of the counted part.
                counted_start_ns: u64;
                /// Duration of the lead-in, as planned.
                lead_ns: u64;
                /// Duration of the counted part, as measured: shorter than planned if the block ended early.
                counted_ns: u64;
                /// From the begin of the lead-in to the end of the drain.
                duration_ns: u64;
                /// The server's CPU time, whole block, if it is watched.
                server_cpu_ns: Option<u64>;
                /// The server's run-queue wait, whole block, if it is watched.
                server_wait_ns: Option<u64>;
                /// How often a thread of the server was put on a core, whole block, if it is watched.
                server_runs: Option<u64>;
                /// Number of workers.
                engine_threads: usize;
                /// Steal on the given cores, whole block.
                steal_ns: u64;
            }
            open_loop {
                /// Requests that were due within the counted part.
                offered;
                /// Those of them that were never sent: no connection was free until long after the end of the block.
                unsent;
                /// Requests that were sent within the counted part; if fewer than `offered`, the rate was not reached.
                departed;
            }
        }
    };
}

fn histogram(digits: u8) -> Histogram<u32> {
    Histogram::new_with_bounds(LATENCY_STEP_NS, LATENCY_MOST_NS, digits)
        .expect("constant bounds that the histogram takes")
}

/// How the parts of two workers are added.
macro_rules! add_up {
    (most, $mine:expr, $theirs:expr) => {
        $mine = $mine.max($theirs)
    };
    ($sum:ident, $mine:expr, $theirs:expr) => {
        $mine += $theirs
    };
}

/// How an earlier state is subtracted.
macro_rules! without {
    (sum, $now:expr, $earlier:expr) => {
        $now -= $earlier
    };
    (revised, $now:expr, $earlier:expr) => {
        $now = $now.saturating_sub($earlier)
    };
    (most, $now:expr, $earlier:expr) => {};
}

macro_rules! declare {
    (
        counted { $($(#[$counted_doc:meta])* $counted:ident: $rule:ident;)* }
        read { $($(#[$read_doc:meta])* $read:ident: $kind:ty;)* }
        open_loop { $($(#[$open_doc:meta])* $open:ident;)* }
    ) => {
        /// One worker's counts of one block. Memory: 75 kB, allocated before the first block.
        #[derive(Clone, Debug)]
        pub struct Counts {
            $($(#[$counted_doc])* pub $counted: u64,)*
            /// By [`Failure`].
            pub errors: [u64; KINDS],
            /// Latencies of `requests`, ns.
            pub latency: Histogram<u32>,
            /// Times to open connections, up to the end of the last handshake, ns; whole block.
            pub connecting: Histogram<u32>,
            /// Times of `requests` to the first byte of the response, ns; None: not requested.
            pub first_byte: Option<Histogram<u32>>,
            /// By kind of request, if there are several.
            pub kinds: Vec<KindCounts>,
            /// Responses that could be read, by status, whole block.
            pub statuses: Statuses,
            /// An example of each kind of failure, known at the end of the block.
            pub samples: Vec<(Failure, String)>,
            /// All of this worker's connections were permanently lost.
            pub gave_up: bool,
            /// The stop flag ended the block.
            pub stopped: bool,
            /// End of the counted part.
            pub counted_end_ns: u64,
            /// End of the drain.
            pub finished_ns: u64,
            /// For an open loop.
            pub open_loop: Option<Box<OpenCounts>>,
        }

        impl Counts {
            /// All zero.
            pub fn new() -> Self {
                Self {
                    $($counted: 0,)*
                    errors: [0; KINDS],
                    latency: histogram(DIGITS),
                    connecting: histogram(CONNECT_DIGITS),
                    first_byte: None,
                    kinds: Vec::new(),
                    statuses: Statuses::default(),
                    samples: Vec::new(),
                    gave_up: false,
                    stopped: false,
                    counted_end_ns: 0,
                    finished_ns: 0,
                    open_loop: None,
                }
            }

            fn add_counters(&mut self, other: &Self) {
                $(add_up!($rule, self.$counted, other.$counted);)*
            }

            fn take_off_counters(&mut self, earlier: &Self) {
                $(without!($rule, self.$counted, earlier.$counted);)*
            }
        }

        /// The additional counts of an open loop. Memory: 150 kB.
        #[derive(Clone, Debug)]
        pub struct OpenCounts {
            $($(#[$open_doc])* pub $open: u64,)*
            /// How much later than meant the sent requests of `offered` were sent, ns.
            pub lag: Histogram<u32>,
            /// Latencies of `requests` from when they were sent.
            pub latency_sent: Histogram<u32>,
        }

        impl OpenCounts {
            /// All zero.
            pub fn new() -> Self {
                Self { $($open: 0,)* lag: histogram(DIGITS), latency_sent: histogram(DIGITS) }
            }

            fn add(&mut self, other: &OpenCounts) {
                $(self.$open += other.$open;)*
                self.lag.add(&other.lag).expect("histograms of one shape");
                self.latency_sent.add(&other.latency_sent).expect("histograms of one shape");
            }

            fn take_off(&mut self, earlier: &OpenCounts) {
                $(self.$open -= earlier.$open;)*
                self.lag.subtract(&earlier.lag).expect("an earlier state of it");
                self.latency_sent.subtract(&earlier.latency_sent).expect("an earlier state of it");
            }
        }

        /// Facts about a block in addition to the workers' counts.
        #[derive(Clone, Copy, Debug)]
        pub struct BlockFacts {
            $($(#[$read_doc])* pub $read: $kind,)*
        }

        /// The result of one block, over all workers. The identity `sent = answered + failed + in_flight` holds.
        ///
        /// In addition to failed requests, `errors` counts failed attempts to connect and bytes without a request.
        #[derive(Clone, Debug)]
        pub struct Tally {
            $($(#[$read_doc])* pub $read: $kind,)*
            $($(#[$counted_doc])* pub $counted: u64,)*
            /// By [`Failure`]; names in [`NAMES`].
            pub errors: [u64; KINDS],
            /// Latencies of `requests`: HdrHistogram V2, compressed, ns.
            pub latency_hdr: Vec<u8>,
            /// Times to open connections, from the first step to the end of the last handshake, whole block (in a
            /// session's first block, also those opened before it); encoded as `latency_hdr`, empty if nothing was
            /// recorded.
            pub connect_hdr: Vec<u8>,
            /// Times of `requests` from sending to the first byte of the response; empty if not requested.
            pub first_byte_hdr: Vec<u8>,
            /// p50, p90, p99, p99.9 and maximum of the histogram; zero without one.
            pub quantiles_ns: [u64; 5],
            /// By kind of request, if there are several.
            pub kinds: Vec<KindTally>,
            /// For an open loop.
            pub open_loop: Option<OpenTally>,
            /// Every connection was permanently lost.
            pub gave_up: bool,
            /// Responses that could be read, ordered by status: correct ones, and those with an incorrect status,
            /// length or body. Whole block.
            pub statuses: Vec<(u16, u64)>,
            /// An example of each kind of failure, in the order in which they came.
            pub samples: Vec<(Failure, String)>,
            /// The first of these examples; empty without a failure.
            pub sample: String,
        }

        impl Tally {
            /// From the facts about the block, and the sum of the workers' counts.
            pub fn new(facts: BlockFacts, sum: &Counts) -> Self {
                Self {
                    $($read: facts.$read,)*
                    $($counted: sum.$counted,)*
                    errors: sum.errors,
                    latency_hdr: compress(&sum.latency),
                    connect_hdr: compress_some(Some(&sum.connecting)),
                    first_byte_hdr: compress_some(sum.first_byte.as_ref()),
                    quantiles_ns: quantiles_ns(&sum.latency),
                    kinds: sum.kinds.iter().map(KindTally::from).collect(),
                    open_loop: sum.open_loop.as_deref().map(OpenTally::from),
                    gave_up: sum.gave_up,
                    statuses: sum.statuses.sorted(),
                    samples: sum.samples.clone(),
                    sample: sum.samples.first().map(|(_, text)| text.clone()).unwrap_or_default(),
                }
            }
        }

        /// The additional results of an open loop. `requests`, their latencies and `offered` are of requests that were
        /// due within the counted part, whenever their responses came; latencies run from when a request was due.
        ///
        /// `offered` = correct and failed responses to such requests + `unsent`.
        #[derive(Clone, Debug)]
        pub struct OpenTally {
            $($(#[$open_doc])* pub $open: u64,)*
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
                    $($open: sum.$open,)*
                    lag_hdr: compress(&sum.lag),
                    lag_quantiles_ns: quantiles_ns(&sum.lag),
                    latency_sent_hdr: compress(&sum.latency_sent),
                }
            }
        }
    };
}

each_counter!(declare);

/// What one worker counted of one kind of request in one block. Memory: 11 kB.
#[derive(Clone, Debug)]
pub struct KindCounts {
    /// Correct responses within the counted part.
    pub requests: u64,
    /// Requests without a correct response, whole block.
    pub failed: u64,
    /// Latencies of `requests`, exact.
    pub latency_sum_ns: u64,
    /// Of `requests`, ns.
    pub latency: Histogram<u32>,
}

impl KindCounts {
    fn new() -> Self {
        Self { requests: 0, failed: 0, latency_sum_ns: 0, latency: histogram(CONNECT_DIGITS) }
    }

    /// One correct response within the counted part.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.requests += 1;
        self.latency_sum_ns += latency_ns;
        self.latency.saturating_record(latency_ns);
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.latency_sum_ns += other.latency_sum_ns;
        self.latency.add(&other.latency).expect("histograms of one shape");
    }

    fn take_off(&mut self, earlier: &Self) {
        self.requests -= earlier.requests;
        self.failed -= earlier.failed;
        self.latency_sum_ns -= earlier.latency_sum_ns;
        self.latency.subtract(&earlier.latency).expect("an earlier state of it");
    }
}

/// What one block left behind of one kind of request, over all workers.
#[derive(Clone, Debug)]
pub struct KindTally {
    /// Correct responses within the counted part.
    pub requests: u64,
    /// Requests without a correct response, whole block.
    pub failed: u64,
    /// Latencies of `requests`, exact.
    pub latency_sum_ns: u64,
    /// Of `requests`: HdrHistogram V2 compressed, ns; empty if nothing was recorded.
    pub latency_hdr: Vec<u8>,
}

impl From<&KindCounts> for KindTally {
    fn from(sum: &KindCounts) -> Self {
        let KindCounts { requests, failed, latency_sum_ns, latency } = sum;
        Self {
            requests: *requests,
            failed: *failed,
            latency_sum_ns: *latency_sum_ns,
            latency_hdr: compress_some(Some(latency)),
        }
    }
}

impl Default for OpenCounts {
    fn default() -> Self {
        Self::new()
    }
}

impl Counts {
    /// Makes room for times to the first byte.
    pub fn with_first_byte(mut self) -> Self {
        self.first_byte = Some(self.latency.clone());
        self
    }

    /// Makes room for kinds of requests, if there are several.
    pub fn with_kinds(mut self, count: usize) -> Self {
        self.kinds = (0..if count > 1 { count } else { 0 }).map(|_| KindCounts::new()).collect();
        self
    }

    /// Records this many correct responses within the counted part, each with this latency.
    #[inline]
    pub fn record(&mut self, latency_ns: u64, answers: u64) {
        self.requests += answers;
        self.latency_sum_ns += latency_ns * answers;
        self.latency.saturating_record_n(latency_ns, answers as u32);
    }

    /// Adds another worker's counts of the same block.
    pub fn add(&mut self, other: &Counts) {
        self.add_counters(other);
        for (mine, theirs) in self.errors.iter_mut().zip(other.errors) {
            *mine += theirs;
        }
        self.latency.add(&other.latency).expect("histograms of one shape");
        self.connecting.add(&other.connecting).expect("histograms of one shape");
        if let (Some(mine), Some(theirs)) = (&mut self.first_byte, &other.first_byte) {
            mine.add(theirs).expect("histograms of one shape");
        }
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.add(theirs);
        }
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
        if let (Some(mine), Some(theirs)) = (&mut self.open_loop, &other.open_loop) {
            mine.add(theirs);
        }
    }

    /// Takes off what had been counted before: what is left was counted since.
    pub fn take_off(&mut self, earlier: &Counts) {
        self.take_off_counters(earlier);
        for (mine, theirs) in self.errors.iter_mut().zip(earlier.errors) {
            *mine -= theirs;
        }
        for (mine, theirs) in self.kinds.iter_mut().zip(&earlier.kinds) {
            mine.take_off(theirs);
        }
        self.statuses.take_off(&earlier.statuses);
        self.latency.subtract(&earlier.latency).expect("an earlier state of it");
        self.connecting.subtract(&earlier.connecting).expect("an earlier state of it");
        if let (Some(mine), Some(theirs)) = (&mut self.first_byte, &earlier.first_byte) {
            mine.subtract(theirs).expect("an earlier state of it");
        }
        if let (Some(mine), Some(theirs)) = (&mut self.open_loop, &earlier.open_loop) {
            mine.take_off(theirs);
        }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

/// p50, p90, p99, p99.9, maximum; zero if nothing was recorded.
pub fn quantiles_ns<C: hdrhistogram::Counter>(latency: &Histogram<C>) -> [u64; 5] {
    if latency.is_empty() {
        return [0; 5];
    }
    [0.5, 0.9, 0.99, 0.999, 1.0].map(|quantile| latency.value_at_quantile(quantile))
}

/// p50, p90, p99, p99.9 and maximum of a histogram of any shape (V2 compressed); zero if there is none.
///
/// # Errors
/// [`EngineError::Histogram`] if it can't be read.
pub fn read_quantiles_ns(bytes: &[u8]) -> Result<[u64; 5], EngineError> {
    let refused = |problem: String| EngineError::Histogram { index: 0, problem };
    let read: Histogram<u64> =
        Deserializer::new().deserialize(&mut &*bytes).map_err(|error| refused(error.to_string()))?;
    Ok(quantiles_ns(&read))
}

/// HdrHistogram V2 compressed.
pub fn compress<C: hdrhistogram::Counter>(latency: &Histogram<C>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1024);
    V2DeflateSerializer::new().serialize(latency, &mut bytes).expect("writing to memory");
    bytes
}

/// The same; empty if nothing was recorded.
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
