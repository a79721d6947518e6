//! The result of a block as Python reads it: getters, nothing else.

use dragstrip_engine::{self as engine, tally};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict};

#[pyclass(frozen, module = "dragstrip._engine")]
#[derive(Clone)]
pub struct Tally(pub engine::Tally);

/// The result of a block for one kind of request.
#[pyclass(frozen, get_all, module = "dragstrip._engine")]
pub struct KindTally {
    requests: u64,
    failed: u64,
    latency_sum_ns: u64,
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

            #[getter]
            fn p50_ns(&self) -> u64 {
                self.0.quantiles_ns[0]
            }

            #[getter]
            fn p90_ns(&self) -> u64 {
                self.0.quantiles_ns[1]
            }

            #[getter]
            fn p99_ns(&self) -> u64 {
                self.0.quantiles_ns[2]
            }

            #[getter]
            fn p999_ns(&self) -> u64 {
                self.0.quantiles_ns[3]
            }

            #[getter]
            fn max_ns(&self) -> u64 {
                self.0.quantiles_ns[4]
            }

            #[getter]
            fn lag_p50_ns(&self) -> Option<u64> {
                self.0.open_loop.as_ref().map(|open_loop| open_loop.lag_quantiles_ns[0])
            }

            #[getter]
            fn lag_p99_ns(&self) -> Option<u64> {
                self.0.open_loop.as_ref().map(|open_loop| open_loop.lag_quantiles_ns[2])
            }

            #[getter]
            fn lag_max_ns(&self) -> Option<u64> {
                self.0.open_loop.as_ref().map(|open_loop| open_loop.lag_quantiles_ns[4])
            }

            #[getter]
            fn kinds(&self) -> Vec<KindTally> {
                self.0.kinds.iter().map(KindTally::from).collect()
            }

            #[getter]
            fn gave_up(&self) -> bool {
                self.0.gave_up
            }

            #[getter]
            fn sample(&self) -> &str {
                &self.0.sample
            }

            #[getter]
            fn errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                tally::NAMES.iter().zip(self.0.errors).filter(|(_, count)| *count > 0).into_py_dict(py)
            }

            #[getter]
            fn statuses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                self.0.statuses.iter().map(|(status, count)| (status, count)).into_py_dict(py)
            }

            #[getter]
            fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                self.0.samples.iter().map(|(kind, text)| (tally::NAMES[*kind as usize], text)).into_py_dict(py)
            }

            #[getter]
            fn latency_hdr<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
                PyBytes::new(py, &self.0.latency_hdr)
            }

            #[getter]
            fn lag_hdr<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
                self.0.open_loop.as_ref().map(|open_loop| PyBytes::new(py, &open_loop.lag_hdr))
            }

            #[getter]
            fn latency_sent_hdr<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
                self.0.open_loop.as_ref().map(|open_loop| PyBytes::new(py, &open_loop.latency_sent_hdr))
            }

            #[getter]
            fn connect_hdr<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
                PyBytes::new(py, &self.0.connect_hdr)
            }

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
