//! The result of a block as Python reads it: getters, nothing else.

use crate::types::Dict;
use dragstrip_engine::{self as engine, tally};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// One block's result, over all worker threads.
///
/// `sent = answered + failed + in_flight` always. `errors` holds the kinds that occurred; each failed request is in it
/// once, as are failed attempts to connect (`connect`, `refused`), which sent nothing, and unrequested bytes
/// (`bad_response`). A latency runs from the request's sending, or from the opening of a connection that it had to wait
/// for, to the arrival of its last byte: by the kernel's stamp, see `Engine.latency_stamps`.
///
/// In an open loop it runs from when the request was meant to leave; `latency_sent_hdr` has it from when it left,
/// `lag_hdr` the difference. `requests`, these histograms and `offered` are then of what was meant to leave within the
/// counted part, whenever it was answered; `unsent` of these never left; `departed` is how many left within the counted
/// part: fewer than offered, and the rate was not reached. All of these are None in a closed loop.
#[pyclass(frozen, module = "dragstrip._engine")]
#[derive(Clone)]
pub struct Tally(pub engine::Tally);

/// One block's result for one kind of request, over all worker threads.
#[pyclass(frozen, get_all, module = "dragstrip._engine")]
pub struct KindTally {
    /// Correct responses within the counted part.
    requests: u64,
    /// Requests without a correct response, whole block.
    failed: u64,
    /// Of `requests`, exact.
    latency_sum_ns: u64,
    /// Latencies of `requests`: HdrHistogram V2 compressed, ns; empty if nothing was recorded.
    latency_hdr: Vec<u8>,
}

impl From<&tally::KindTally> for KindTally {
    fn from(of: &tally::KindTally) -> Self {
        let tally::KindTally { requests, failed, latency_sum_ns, latency_hdr } = of.clone();
        Self { requests, failed, latency_sum_ns, latency_hdr }
    }
}

/// One getter per counter, with the text of its declaration; those that are not plain numbers are written by hand.
macro_rules! getters {
    (
        counted { $($(#[$counted_doc:meta])* $counted:ident: $rule:ident;)* }
        read { $($(#[$read_doc:meta])* $read:ident: $kind:ty;)* }
        open_loop { $($(#[$open_doc:meta])* $open:ident;)* }
    ) => {
        #[pymethods]
        impl Tally {
            $($(#[$read_doc])* #[getter] fn $read(&self) -> $kind { self.0.$read })*

            $($(#[$counted_doc])* #[getter] fn $counted(&self) -> u64 { self.0.$counted })*

            $($(#[$open_doc])* #[getter] fn $open(&self) -> Option<u64> {
                self.0.open_loop.as_ref().map(|open_loop| open_loop.$open)
            })*

            /// Median of the latencies of `requests`.
            #[getter]
            fn p50_ns(&self) -> u64 {
                self.0.quantiles_ns[0]
            }

            /// 90th percentile of the latencies of `requests`.
            #[getter]
            fn p90_ns(&self) -> u64 {
                self.0.quantiles_ns[1]
            }

            /// 99th percentile of the latencies of `requests`.
            #[getter]
            fn p99_ns(&self) -> u64 {
                self.0.quantiles_ns[2]
            }

            /// 99.9th percentile of the latencies of `requests`.
            #[getter]
            fn p999_ns(&self) -> u64 {
                self.0.quantiles_ns[3]
            }

            /// Maximum of the latencies of `requests`.
            #[getter]
            fn max_ns(&self) -> u64 {
                self.0.quantiles_ns[4]
            }

            /// Median of how much later than meant requests left; None in a closed loop.
            #[getter]
            fn lag_p50_ns(&self) -> Option<u64> {
                self.0.open_loop.as_ref().map(|open_loop| open_loop.lag_quantiles_ns[0])
            }

            /// 99th percentile of how much later than meant requests left; None in a closed loop.
            #[getter]
            fn lag_p99_ns(&self) -> Option<u64> {
                self.0.open_loop.as_ref().map(|open_loop| open_loop.lag_quantiles_ns[2])
            }

            /// Maximum of how much later than meant requests left; None in a closed loop.
            #[getter]
            fn lag_max_ns(&self) -> Option<u64> {
                self.0.open_loop.as_ref().map(|open_loop| open_loop.lag_quantiles_ns[4])
            }

            /// By kind of request, if there are several; otherwise empty.
            #[getter]
            fn kinds(&self) -> Vec<KindTally> {
                self.0.kinds.iter().map(KindTally::from).collect()
            }

            /// Every connection was refused or lost for good.
            #[getter]
            fn gave_up(&self) -> bool {
                self.0.gave_up
            }

            /// The first thing that went wrong, of whatever kind; "" for nothing.
            #[getter]
            fn sample(&self) -> &str {
                &self.0.sample
            }

            /// What went wrong, by kind.
            #[getter]
            fn errors(&self) -> Dict<&'static str, u64> {
                Dict(tally::NAMES.into_iter().zip(self.0.errors).filter(|(_, count)| *count > 0).collect())
            }

            /// Readable responses by status, in its order: correct, or with an incorrect status, length or body.
            #[getter]
            fn statuses(&self) -> Dict<u16, u64> {
                Dict(self.0.statuses.clone())
            }

            /// The first of each kind that went wrong, in the order in which they came.
            #[getter]
            fn samples(&self) -> Dict<&'static str, String> {
                Dict(self.0.samples.iter().map(|(kind, text)| (tally::NAMES[*kind as usize], text.clone())).collect())
            }

            /// Latencies of `requests`: HdrHistogram V2 compressed, ns.
            #[getter]
            fn latency_hdr<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
                PyBytes::new(py, &self.0.latency_hdr)
            }

            /// How much later than meant requests left, as `latency_hdr`; None in a closed loop.
            #[getter]
            fn lag_hdr<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
                self.0.open_loop.as_ref().map(|open_loop| PyBytes::new(py, &open_loop.lag_hdr))
            }

            /// Latencies of `requests` from when they left, as `latency_hdr`; None in a closed loop.
            #[getter]
            fn latency_sent_hdr<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
                self.0.open_loop.as_ref().map(|open_loop| PyBytes::new(py, &open_loop.latency_sent_hdr))
            }

            /// Times to open connections, including handshakes; as `latency_hdr`, empty if none was recorded.
            #[getter]
            fn connect_hdr<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
                PyBytes::new(py, &self.0.connect_hdr)
            }

            /// Times to the first byte of the counted responses; empty unless requested.
            #[getter]
            fn first_byte_hdr<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
                PyBytes::new(py, &self.0.first_byte_hdr)
            }

            fn __repr__(&self) -> String {
                let it = &self.0;
                format!("<Tally session={} requests={} sent={} answered={} failed={}>",
                    it.session, it.requests, it.sent, it.answered, it.failed)
            }
        }
    };
}

engine::each_counter!(getters);
