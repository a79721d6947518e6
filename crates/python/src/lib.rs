//! The Python bindings: plans in, tallies out, errors translated. `_engine.pyi` documents each function.

// PyO3's macros generate undocumented items, and a Tally's getters repeat its fields.
#![allow(missing_docs)]

mod errors;
mod observer;
mod plan;
mod profile;
mod reference_server;
mod run;
mod script;
mod tally;

use dragstrip_engine::{self as engine, Backend, EngineError as Refusal};
use errors::{EngineError, of_kind, refused};
use plan::{BlockPlan, Exchange, OpenLoop, RateStep, SessionPlan, Target, Tls};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tally::Tally;

/// Names of the back ends, for `io`.
const BACKENDS: [(&str, Backend); 3] = [("auto", Backend::Auto), ("uring", Backend::Uring), ("epoll", Backend::Epoll)];

/// What a session runs with.
#[pyclass(frozen, get_all, module = "dragstrip._engine")]
struct SessionUse {
    io: String,
    backend: &'static str,
    protocol: &'static str,
    wait: &'static str,
    tls: Option<&'static str>,
    stamps: &'static str,
    opened: Option<usize>,
    streams: Option<usize>,
}

#[pyclass(frozen, module = "dragstrip._engine")]
struct Engine {
    /// None after shutdown. Never waited for: a run holds it while Python handles signals.
    inner: Mutex<Option<engine::Engine>>,
    stop: Arc<AtomicBool>,
    /// "sleep" or "poll": how workers wait for responses.
    #[pyo3(get)]
    wait: &'static str,
    #[pyo3(get)]
    io: &'static str,
    #[pyo3(get)]
    backend: String,
    #[pyo3(get)]
    latency_stamps: &'static str,
    last: Mutex<Vec<engine::Tally>>,
}

impl Engine {
    fn inner(&self) -> PyResult<MutexGuard<'_, Option<engine::Engine>>> {
        let busy = "engine: busy with a run in another thread; wait for it, or stop() it first";
        self.inner.try_lock().map_err(|_| of_kind("busy", busy.into()))
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut engine::Engine) -> Result<T, Refusal> + Send,
    ) -> PyResult<T> {
        let mut inner = self.inner()?;
        let engine = inner.as_mut().ok_or_else(|| of_kind("shut_down", "engine: it has been shut down".into()))?;
        py.detach(|| work(engine)).map_err(refused)
    }

    fn keep(&self, tallies: Vec<engine::Tally>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = tallies;
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (cores, io = "auto", wait = "sleep"))]
    fn new(py: Python<'_>, cores: Vec<usize>, io: &str, wait: &str) -> PyResult<Self> {
        let backend = plan::named("io", io, &BACKENDS)?;
        let wait = plan::named("wait", wait, &[("sleep", "sleep"), ("poll", "poll")])?;
        let inner = py.detach(|| engine::Engine::with_backend(&cores, backend)).map_err(refused)?;
        Ok(Self {
            stop: inner.stop_flag(),
            wait,
            io: plan::name_of(inner.io(), &BACKENDS),
            backend: inner.backend(),
            latency_stamps: inner.latency_stamps(),
            inner: Mutex::new(Some(inner)),
            last: Mutex::new(Vec::new()),
        })
    }

    fn open(&self, py: Python<'_>, plan: &SessionPlan) -> PyResult<u32> {
        let (opened, signalled) =
            self.with(py, |engine| Ok(run::watched(&self.stop, || engine.open(plan.resolved(self.wait == "poll")?))))?;
        signalled?;
        opened.map_err(refused)
    }

    fn used(&self, py: Python<'_>, session: u32) -> PyResult<SessionUse> {
        let engine::SessionUse { io, backend, protocol, wait, tls, stamps, opened, streams } =
            self.with(py, |engine| engine.used(session))?;
        Ok(SessionUse { io, backend: plan::name_of(backend, &BACKENDS), protocol, wait, tls, stamps, opened, streams })
    }

    #[pyo3(signature = (session, *, cgroup_cpu_stat, schedstats))]
    fn watch(
        &self,
        py: Python<'_>,
        session: u32,
        cgroup_cpu_stat: Option<&str>,
        schedstats: Vec<String>,
    ) -> PyResult<()> {
        let schedstats: Vec<&str> = schedstats.iter().map(String::as_str).collect();
        self.with(py, |engine| engine.watch(session, cgroup_cpu_stat, &schedstats))
    }

    fn observe(&self, py: Python<'_>, session: u32, marker: &observer::Marker, server: u32) -> PyResult<()> {
        self.with(py, |engine| engine.observe(session, &marker.inner, server))
    }

    #[pyo3(signature = (blocks, *, steal_cores = vec![]))]
    fn run(&self, py: Python<'_>, blocks: Vec<BlockPlan>, steal_cores: Vec<usize>) -> PyResult<Vec<Tally>> {
        self.keep(Vec::new());
        let blocks: Vec<_> = blocks.iter().enumerate().map(|(index, plan)| plan.block(index)).collect();
        let (tallies, signalled) = self.with(py, |engine| {
            let run = engine.start(&blocks, &steal_cores)?;
            let (tallies, _, signalled) = run::wait(run, &self.stop, None);
            Ok((tallies?, signalled))
        })?;
        self.keep(tallies.clone());
        signalled?;
        Ok(tallies.into_iter().map(Tally).collect())
    }

    #[pyo3(signature = (block, *, every_ns, observe))]
    fn run_observed(
        &self,
        py: Python<'_>,
        block: BlockPlan,
        every_ns: u64,
        observe: Py<PyAny>,
    ) -> PyResult<Option<Tally>> {
        self.keep(Vec::new());
        let block = block.block(0);
        let (tallies, rest, signalled) = self.with(py, |engine| {
            let run = engine.start_observed(&block, every_ns)?;
            let (tallies, rest, signalled) = run::wait(run, &self.stop, Some(&observe));
            Ok((tallies?, rest, signalled))
        })?;
        self.keep(tallies.clone());
        if let Some(rest) = rest {
            observe.call1(py, (Tally(rest),))?;
        }
        signalled?;
        Ok(tallies.into_iter().map(Tally).next())
    }

    fn last_tallies(&self) -> Vec<Tally> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().map(Tally).collect()
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn close(&self, py: Python<'_>, session: u32) -> PyResult<()> {
        self.with(py, |engine| engine.close(session))
    }

    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        let gone = self.inner()?.take();
        py.detach(|| drop(gone));
        Ok(())
    }
}

#[pyfunction]
fn merge(histograms: Vec<Vec<u8>>) -> PyResult<Vec<u8>> {
    engine::merge(&histograms).map_err(refused)
}

#[pyfunction]
fn quantiles(histogram: Vec<u8>) -> PyResult<(u64, u64, u64, u64, u64)> {
    engine::read_quantiles_ns(&histogram).map(Into::into).map_err(refused)
}

/// What a server reads in a request: (length, whether it closes the connection, number of Host headers, HTTP/1.0).
#[pyfunction]
#[pyo3(signature = (request, /))]
fn read_request(request: &[u8]) -> PyResult<(usize, bool, usize, bool)> {
    let form = engine::script::first_request(request).map_err(PyValueError::new_err)?;
    Ok((form.length, form.closes, form.hosts, form.old))
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Engine>()?;
    module.add_class::<SessionUse>()?;
    module.add_class::<Tally>()?;
    module.add_class::<tally::KindTally>()?;
    module.add_class::<Target>()?;
    module.add_class::<Tls>()?;
    module.add_class::<Exchange>()?;
    module.add_class::<SessionPlan>()?;
    module.add_class::<RateStep>()?;
    module.add_class::<OpenLoop>()?;
    module.add_class::<BlockPlan>()?;
    module.add_class::<observer::Observer>()?;
    module.add_class::<observer::Marker>()?;
    module.add_class::<reference_server::ReferenceServer>()?;
    module.add_class::<profile::Sampler>()?;
    module.add_class::<profile::SampledStacks>()?;
    module.add_class::<profile::CallCounter>()?;
    module.add_class::<profile::CallTracer>()?;
    module.add_class::<profile::CallCounts>()?;
    script::add_to(module)?;
    module.add("EngineError", module.py().get_type::<EngineError>())?;
    module.add_function(wrap_pyfunction!(quantiles, module)?)?;
    module.add_function(wrap_pyfunction!(merge, module)?)?;
    module.add_function(wrap_pyfunction!(read_request, module)?)
}
