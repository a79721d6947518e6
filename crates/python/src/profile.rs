//! Stacks and system calls of running processes as Python uses them.

use crate::errors::of_kind;
use dragstrip_profile as profile;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// The frames of one stack as place, module and function, the innermost first; and how many samples had it.
type NamedStack = (Vec<(&'static str, String, String)>, u64);

/// Samples the stacks of running processes, some 500 times per second of their CPU time.
#[pyclass(frozen, module = "dragstrip._engine")]
pub struct Sampler {
    /// None after it was stopped.
    inner: Mutex<Option<profile::Sampler>>,
}

#[pymethods]
impl Sampler {
    /// Starts sampling every thread on these cores, and threads that they start later.
    ///
    /// Raises:
    ///     EngineError: the kernel refuses, or all threads have ended.
    #[new]
    #[pyo3(signature = (pids, *, cores))]
    fn new(pids: Vec<u32>, cores: Vec<u32>) -> PyResult<Self> {
        let inner = profile::Sampler::start(&pids, &cores).map_err(refused)?;
        Ok(Self { inner: Mutex::new(Some(inner)) })
    }

    /// Ends sampling, unwinds and names all stacks; the processes must still run.
    ///
    /// Raises:
    ///     EngineError: it was stopped before.
    fn stop(&self, py: Python<'_>) -> PyResult<SampledStacks> {
        let sampler = taken(&self.inner)?;
        Ok(SampledStacks(py.detach(|| sampler.stop())))
    }
}

/// Stacks of a run of samples.
#[pyclass(frozen, module = "dragstrip._engine")]
pub struct SampledStacks(profile::Stacks);

#[pymethods]
impl SampledStacks {
    /// How many samples there are.
    #[getter]
    fn samples(&self) -> u64 {
        self.0.samples
    }

    /// Samples that have a user part.
    #[getter]
    fn user_samples(&self) -> u64 {
        self.0.user_samples
    }

    /// Samples of `user_samples` whose chain reached the root of the stack.
    #[getter]
    fn rooted(&self) -> u64 {
        self.0.rooted
    }

    /// Records that the kernel had no room for.
    #[getter]
    fn lost(&self) -> u64 {
        self.0.lost
    }

    /// Whether the kernel's part was sampled, which needs a privilege.
    #[getter]
    fn kernel(&self) -> bool {
        self.0.kernel
    }

    /// Each stack as frames of place ("kernel", "user", "compiled"), module and function, the innermost first.
    ///
    /// And how many samples had it. A function without a symbol is "".
    #[getter]
    fn stacks(&self) -> Vec<NamedStack> {
        let named = |frame: &profile::Frame| (place(frame.place), frame.module.clone(), frame.name.clone());
        self.0.stacks.iter().map(|stack| (stack.frames.iter().map(named).collect(), stack.samples)).collect()
    }
}

/// Counts the system calls of running processes by name, by the kernel's events; needs root.
#[pyclass(frozen, module = "dragstrip._engine")]
pub struct CallCounter {
    /// None after it was stopped.
    inner: Mutex<Option<profile::CallCounter>>,
}

#[pymethods]
impl CallCounter {
    /// Begins to look which calls occur on these cores.
    ///
    /// Raises:
    ///     EngineError: the kernel refuses, or all threads have ended.
    #[new]
    #[pyo3(signature = (pids, *, cores))]
    fn new(pids: Vec<u32>, cores: Vec<u32>) -> PyResult<Self> {
        let inner = profile::CallCounter::start(&pids, &cores).map_err(refused)?;
        Ok(Self { inner: Mutex::new(Some(inner)) })
    }

    /// Ends looking, and counts the calls that have occurred, also in threads that are started later.
    ///
    /// Raises:
    ///     EngineError: the kernel refuses, or it was stopped.
    fn count(&self) -> PyResult<()> {
        let mut counter = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        counter.as_mut().ok_or_else(stopped)?.count().map_err(refused)
    }

    /// Ends counting.
    ///
    /// Raises:
    ///     EngineError: a count can't be read, or it was stopped before.
    fn stop(&self, py: Python<'_>) -> PyResult<CallCounts> {
        let counter = taken(&self.inner)?;
        py.detach(|| counter.stop()).map(CallCounts).map_err(refused)
    }
}

/// Counts the system calls of running processes by name, by tracing them, which slows them down.
#[pyclass(frozen, module = "dragstrip._engine")]
pub struct CallTracer {
    /// None after it was stopped.
    inner: Mutex<Option<profile::CallTracer>>,
}

#[pymethods]
impl CallTracer {
    /// Traces every thread, and threads and processes that they start later.
    ///
    /// Raises:
    ///     EngineError: the kernel refuses, or all threads have ended.
    #[new]
    fn new(py: Python<'_>, pids: Vec<u32>) -> PyResult<Self> {
        let inner = py.detach(|| profile::CallTracer::start(&pids)).map_err(refused)?;
        Ok(Self { inner: Mutex::new(Some(inner)) })
    }

    /// Lets all threads go.
    ///
    /// Raises:
    ///     EngineError: it was stopped before.
    fn stop(&self, py: Python<'_>) -> PyResult<CallCounts> {
        let tracer = taken(&self.inner)?;
        Ok(CallCounts(py.detach(|| tracer.stop())))
    }
}

/// How often system calls were made.
#[pyclass(frozen, module = "dragstrip._engine")]
pub struct CallCounts(profile::Calls);

#[pymethods]
impl CallCounts {
    /// All calls, also the calls that have no count of their own.
    #[getter]
    fn total(&self) -> u64 {
        self.0.total
    }

    /// Calls by name.
    #[getter]
    fn named(&self) -> Vec<(String, u64)> {
        self.0.named.clone()
    }
}

fn refused(refusal: profile::ProfileError) -> PyErr {
    of_kind("profile", refusal.to_string())
}

/// What is to be stopped, taken out; an error if it was stopped before.
fn taken<T>(inner: &Mutex<Option<T>>) -> PyResult<T> {
    inner.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(stopped)
}

fn stopped() -> PyErr {
    of_kind("profile", "it has been stopped already".into())
}

fn place(place: profile::Place) -> &'static str {
    match place {
        profile::Place::Kernel => "kernel",
        profile::Place::User => "user",
        profile::Place::Compiled => "compiled",
    }
}
