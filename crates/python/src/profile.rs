//! Stacks of running processes as Python uses them.

use crate::errors::of_kind;
use dragstrip_profile as profile;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// The frames of one stack as place, module and function, the innermost first; and how many samples had it.
type NamedStack = (Vec<(&'static str, String, String)>, u64);

#[pyclass(frozen, module = "dragstrip._engine")]
pub struct Sampler {
    /// None after it was stopped.
    inner: Mutex<Option<profile::Sampler>>,
}

#[pymethods]
impl Sampler {
    #[new]
    #[pyo3(signature = (pids, *, cores))]
    fn new(pids: Vec<u32>, cores: Vec<u32>) -> PyResult<Self> {
        let started = profile::Sampler::start(&pids, &cores);
        let inner = started.map_err(|refusal| of_kind("profile", refusal.to_string()))?;
        Ok(Self { inner: Mutex::new(Some(inner)) })
    }

    fn stop(&self, py: Python<'_>) -> PyResult<SampledStacks> {
        let sampler = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        let sampler = sampler.ok_or_else(|| of_kind("profile", "the sampler has been stopped already".into()))?;
        Ok(SampledStacks(py.detach(|| sampler.stop())))
    }
}

#[pyclass(frozen, module = "dragstrip._engine")]
pub struct SampledStacks(profile::Stacks);

#[pymethods]
impl SampledStacks {
    #[getter]
    fn samples(&self) -> u64 {
        self.0.samples
    }

    #[getter]
    fn user_samples(&self) -> u64 {
        self.0.user_samples
    }

    #[getter]
    fn rooted(&self) -> u64 {
        self.0.rooted
    }

    #[getter]
    fn lost(&self) -> u64 {
        self.0.lost
    }

    #[getter]
    fn kernel(&self) -> bool {
        self.0.kernel
    }

    #[getter]
    fn stacks(&self) -> Vec<NamedStack> {
        let named = |frame: &profile::Frame| (place(frame.place), frame.module.clone(), frame.name.clone());
        self.0.stacks.iter().map(|stack| (stack.frames.iter().map(named).collect(), stack.samples)).collect()
    }
}

fn place(place: profile::Place) -> &'static str {
    match place {
        profile::Place::Kernel => "kernel",
        profile::Place::User => "user",
        profile::Place::Compiled => "compiled",
    }
}
