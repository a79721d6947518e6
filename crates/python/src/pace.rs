//! An open loop's pace as Python says it.

use crate::EngineError;
use dragstrip_engine::schedule::{Arrivals, Pace, Precision, Step};
use pyo3::prelude::*;

/// Arrivals, precision, steps of (rate at the begin, rate at the end, end in ns), seed.
pub type Words = (String, String, Vec<(f64, f64, u64)>, u64);

fn unknown(field: &str, given: &str, would_do: &str) -> PyErr {
    EngineError::new_err(format!("{field}: {given:?} given; give {would_do}"))
}

/// The pace that the words stand for.
pub fn pace((arrivals, precision, steps, seed): Words) -> PyResult<Pace> {
    let arrivals = match arrivals.as_str() {
        "constant" => Arrivals::Constant,
        "poisson" => Arrivals::Poisson,
        other => return Err(unknown("arrivals", other, "constant or poisson")),
    };
    let precision = match precision.as_str() {
        "precise" => Precision::Precise,
        "balanced" => Precision::Balanced,
        "thrifty" => Precision::Thrifty,
        other => return Err(unknown("pace", other, "precise, balanced or thrifty")),
    };
    let step = |(from_per_s, to_per_s, until_ns)| Step { from_per_s, to_per_s, until_ns };
    Ok(Pace { arrivals, precision, steps: steps.into_iter().map(step).collect(), seed })
}

/// The same for one of several blocks: each has draws of its own.
pub fn nth(pace: Option<&Pace>, index: usize) -> Option<Pace> {
    pace.map(|pace| Pace { seed: pace.seed.wrapping_add((index as u64) << 32), ..pace.clone() })
}
