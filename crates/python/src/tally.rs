//! A block's tally as Python sees it: getters, nothing else.

use dragstrip_engine::{self as engine, tally};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict};

#[pyclass(frozen, module = "dragstrip._engine")]
#[derive(Clone)]
pub struct Tally(pub engine::Tally);

macro_rules! getters {
    ($($name:ident: $kind:ty = $of:expr;)*) => {
        #[pymethods]
        impl Tally {
            $(#[getter] fn $name(&self) -> $kind { let of: fn(&engine::Tally) -> $kind = $of; of(&self.0) })*

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
                self.0.open.as_ref().map(|open| PyBytes::new(py, &open.lag_hdr))
            }

            #[getter]
            fn latency_sent_hdr<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
                self.0.open.as_ref().map(|open| PyBytes::new(py, &open.latency_sent_hdr))
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

getters! {
    session: u32 = |it| it.session;
    started_ns: u64 = |it| it.started_ns;
    counted_start_ns: u64 = |it| it.counted_start_ns;
    lead_ns: u64 = |it| it.lead_ns;
    counted_ns: u64 = |it| it.counted_ns;
    duration_ns: u64 = |it| it.duration_ns;
    requests: u64 = |it| it.requests;
    sent: u64 = |it| it.sent;
    answered: u64 = |it| it.answered;
    failed: u64 = |it| it.failed;
    in_flight: u64 = |it| it.in_flight;
    bytes_in: u64 = |it| it.bytes_in;
    bytes_out: u64 = |it| it.bytes_out;
    connects: u64 = |it| it.connects;
    latency_sum_ns: u64 = |it| it.latency_sum_ns;
    turn_sum_ns: u64 = |it| it.turn_sum_ns;
    clock_step_ns: u64 = |it| it.clock_step_ns;
    early_stamps: u64 = |it| it.early_stamps;
    p50_ns: u64 = |it| it.quantiles_ns[0];
    p90_ns: u64 = |it| it.quantiles_ns[1];
    p99_ns: u64 = |it| it.quantiles_ns[2];
    p999_ns: u64 = |it| it.quantiles_ns[3];
    max_ns: u64 = |it| it.quantiles_ns[4];
    server_cpu_ns: Option<u64> = |it| it.server_cpu_ns;
    server_wait_ns: Option<u64> = |it| it.server_wait_ns;
    server_runs: Option<u64> = |it| it.server_runs;
    engine_cpu_ns: u64 = |it| it.engine_cpu_ns;
    engine_wait_ns: u64 = |it| it.engine_wait_ns;
    engine_switches: u64 = |it| it.engine_switches;
    engine_threads: usize = |it| it.engine_threads;
    steal_ns: u64 = |it| it.steal_ns;
    offered: Option<u64> = |it| it.open.as_ref().map(|open| open.offered);
    unsent: Option<u64> = |it| it.open.as_ref().map(|open| open.unsent);
    departed: Option<u64> = |it| it.open.as_ref().map(|open| open.departed);
    lag_p50_ns: Option<u64> = |it| it.open.as_ref().map(|open| open.lag_quantiles_ns[0]);
    lag_p99_ns: Option<u64> = |it| it.open.as_ref().map(|open| open.lag_quantiles_ns[2]);
    lag_max_ns: Option<u64> = |it| it.open.as_ref().map(|open| open.lag_quantiles_ns[4]);
    gave_up: bool = |it| it.gave_up;
    sample: String = |it| it.sample.clone();
}
