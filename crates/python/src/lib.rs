//! The Python bindings: plans in, tallies out, errors translated. The build makes `_engine.pyi` of signatures and comments.

// PyO3's macros generate undocumented items.
#![allow(missing_docs)]

mod errors;
mod observer;
mod plan;
mod profile;
mod reference_server;
mod run;
mod script;
mod tally;
mod types;

use dragstrip_engine::{self as engine, Backend, EngineError as Refusal};
use errors::{of_kind, refused};
use plan::{BlockPlan, SessionPlan};
use pyo3::exceptions::PyValueError;
use pyo3::inspect::PyStaticExpr;
use pyo3::prelude::*;
use pyo3::{PyTypeInfo, type_hint_identifier, type_hint_subscript};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tally::Tally;
use types::{Bytes, typed};

/// Names of the back ends, for `io`.
const BACKENDS: [(&str, Backend); 3] = [("auto", Backend::Auto), ("uring", Backend::Uring), ("epoll", Backend::Epoll)];

/// What a session runs with.
#[pyclass(frozen, get_all, module = "dragstrip._engine")]
struct SessionUse {
    /// The back end, in words, and why it is not the requested one.
    io: String,
    /// The value of `io` that makes another engine do the same: `auto`, `uring` or `epoll`.
    backend: &'static str,
    /// `HTTP/1.1`, `HTTP/2` or `WebSocket`.
    protocol: &'static str,
    /// How workers wait for responses: `sleep` or `poll`.
    wait: &'static str,
    /// `TLS 1.2` or `TLS 1.3`, of the latest handshake; None: there was none.
    tls: Option<&'static str>,
    /// Source of arrival times: `kernel`, by timestamp, or `user`, by a clock read later.
    stamps: &'static str,
    /// How many connections were open when it began; None: each request opens its own.
    opened: Option<usize>,
    /// Over HTTP/2, how many concurrent streams the server allows, at most as many as were requested.
    streams: Option<usize>,
}

/// One pinned worker thread per core; sessions and blocks run on all of them.
#[pyclass(frozen, module = "dragstrip._engine")]
struct Engine {
    /// None after shutdown. Never waited for: a run holds it while Python handles signals.
    inner: Mutex<Option<engine::Engine>>,
    stop: Arc<AtomicBool>,
    /// How workers wait for responses: "sleep" or "poll".
    #[pyo3(get)]
    wait: &'static str,
    /// The value of `io` that makes another engine work as this one does: `auto`, `uring` or `epoll`.
    ///
    /// `auto`: io_uring, and another way to wait where a worker has one connection.
    #[pyo3(get)]
    io: &'static str,
    /// The running back end and its features, in words; why, if it is epoll although io_uring was requested.
    #[pyo3(get)]
    backend: String,
    /// Source of arrival times: "kernel", by timestamp, or "user", by a clock read when the response was read.
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

/// A function that is called with a tally.
struct Observe(Py<PyAny>);

typed!(Observe(Py<PyAny>): type_hint_subscript!(
    type_hint_identifier!("collections.abc", "Callable"),
    PyStaticExpr::List { elts: &[Tally::TYPE_HINT] },
    type_hint_identifier!("builtins", "object")
));

#[pymethods]
impl Engine {
    /// Starts and pins the workers.
    ///
    /// Args:
    ///     io: `auto` (io_uring if it works, otherwise epoll), `uring` (an error without it) or `epoll`.
    ///     wait: `sleep` (in the kernel) or `poll`: workers poll, so that no server has to wake them;
    ///         `Tally.engine_cpu_ns` then excludes polls without a response.
    ///
    /// Raises:
    ///     EngineError: no core given, a core that this process may not use, or io_uring requested but not working.
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

    /// Opens a session, kept until `close`, and returns its number.
    ///
    /// Raises:
    ///     EngineError: a field is out of bounds, too few descriptors, or the server can't be reached.
    fn open(&self, py: Python<'_>, plan: &SessionPlan) -> PyResult<u32> {
        let (opened, signalled) =
            self.with(py, |engine| Ok(run::watched(&self.stop, || engine.open(plan.resolved(self.wait == "poll")?))))?;
        signalled?;
        opened.map_err(refused)
    }

    /// What the session runs with; the version of TLS is known once a handshake is over.
    ///
    /// Raises:
    ///     EngineError: no such session.
    fn used(&self, py: Python<'_>, session: u32) -> PyResult<SessionUse> {
        let engine::SessionUse { io, backend, protocol, wait, tls, stamps, opened, streams } =
            self.with(py, |engine| engine.used(session))?;
        Ok(SessionUse { io, backend: plan::name_of(backend, &BACKENDS), protocol, wait, tls, stamps, opened, streams })
    }

    /// Names what tells the server's CPU time and run-queue wait; files are opened now and kept open.
    ///
    /// Without a cgroup, the clocks of `processes` (pids) give the CPU time; without both, `schedstats` do.
    ///
    /// Raises:
    ///     EngineError: no such session, or the cgroup's file can't be opened (a thread's that has vanished can't be read:
    ///         its blocks then have None).
    #[pyo3(signature = (session, *, cgroup_cpu_stat, schedstats, processes = vec![]))]
    fn watch(
        &self,
        py: Python<'_>,
        session: u32,
        cgroup_cpu_stat: Option<&str>,
        schedstats: Vec<String>,
        processes: Vec<i32>,
    ) -> PyResult<()> {
        let schedstats: Vec<&str> = schedstats.iter().map(String::as_str).collect();
        self.with(py, |engine| engine.watch(session, cgroup_cpu_stat, &processes, &schedstats))
    }

    /// Has them read on the server's machine: `marker` asks the observer there for the server of this number.
    ///
    /// Raises:
    ///     EngineError: no such session.
    fn observe(&self, py: Python<'_>, session: u32, marker: &observer::Marker, server: u32) -> PyResult<()> {
        self.with(py, |engine| engine.observe(session, &marker.inner, server))
    }

    /// Runs blocks in order.
    ///
    /// Args:
    ///     steal_cores: whose steal time is read around each block.
    ///
    /// Raises:
    ///     EngineError: a plan that makes no sense, or the engine is busy in another thread.
    ///     KeyboardInterrupt: as Python's handlers raise it; what was finished is in `last_tallies`.
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

    /// Runs one block without a pause and shows its progress; None if it was stopped.
    ///
    /// Args:
    ///     every_ns: about how often `observe` is called with a tally of what was done since the last time. The last call
    ///         has what is left, whether the block was finished, stopped, or interrupted; all add up to the block.
    ///
    /// Raises:
    ///     EngineError: as `run`.
    ///     KeyboardInterrupt: as Python's handlers or `observe` raise it, after the last call.
    #[pyo3(signature = (block, *, every_ns, observe))]
    fn run_observed(
        &self,
        py: Python<'_>,
        block: BlockPlan,
        every_ns: u64,
        observe: Observe,
    ) -> PyResult<Option<Tally>> {
        let Observe(observe) = observe;
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

    /// The finished tallies of the latest run, interrupted or not.
    fn last_tallies(&self) -> Vec<Tally> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().map(Tally).collect()
    }

    /// Ends the current run from another thread: drops the current block, and returns the finished ones.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Closes a session's connections; closing one twice does nothing.
    fn close(&self, py: Python<'_>, session: u32) -> PyResult<()> {
        self.with(py, |engine| engine.close(session))
    }

    /// Closes everything and ends the workers; later calls raise `EngineError`.
    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        let gone = self.inner()?.take();
        py.detach(|| drop(gone));
        Ok(())
    }
}

/// Adds histograms (V2 compressed in and out).
///
/// Raises:
///     EngineError: one of them can't be read; says which.
#[pyfunction]
fn merge(histograms: Vec<Bytes>) -> PyResult<Vec<u8>> {
    let histograms: Vec<_> = histograms.into_iter().map(|Bytes(histogram)| histogram).collect();
    engine::merge(&histograms).map_err(refused)
}

/// p50, p90, p99, p99.9 and maximum of a V2 compressed histogram, as a tally has them.
///
/// Raises:
///     EngineError: it can't be read.
#[pyfunction]
fn quantiles(histogram: &[u8]) -> PyResult<(u64, u64, u64, u64, u64)> {
    engine::read_quantiles_ns(histogram).map(Into::into).map_err(refused)
}

/// What a server reads in a request: its length, whether it closes the connection, its number of Host headers, and whether
/// it is in HTTP/1.0.
///
/// Raises:
///     ValueError: it is not a whole request of HTTP/1; says why.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn read_request(request: &[u8]) -> PyResult<(usize, bool, usize, bool)> {
    let form = engine::script::first_request(request).map_err(PyValueError::new_err)?;
    Ok((form.length, form.closes, form.hosts, form.old))
}

/// The compiled load engine: blocks of load in, tallies out. Times are CLOCK_MONOTONIC ns.
#[pymodule]
mod _engine {
    #[pymodule_export]
    use super::observer::{Marker, Observer};
    #[pymodule_export]
    use super::plan::{BlockPlan, Exchange, OpenLoop, RateStep, SessionPlan, Target, Tls};
    #[pymodule_export]
    use super::profile::{CallCounter, CallCounts, CallTracer, SampledStacks, Sampler};
    #[pymodule_export]
    use super::reference_server::ReferenceServer;
    #[cfg(feature = "scripts")]
    #[pymodule_export]
    use super::script::Script;
    #[pymodule_export]
    use super::tally::{KindTally, Tally};
    #[pymodule_export]
    use super::{Engine, SessionUse, merge, quantiles, read_request};
}
