//! The doorway: plans in, tallies out, errors mapped. What each does is said in `_engine.pyi`.

// PyO3's macros make their own undocumented items, and a Tally's getters repeat its fields.
#![allow(missing_docs)]

mod fixed;
mod pace;
mod run;
mod tally;

use dragstrip_engine::{
    self as engine, Backend, Block, BodyCheck, EngineError as Refusal, Exchange, SessionPlan, Target, TlsPlan, Trust,
};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tally::Tally;

create_exception!(dragstrip._engine, EngineError, PyException);

fn refused(refusal: Refusal) -> PyErr {
    EngineError::new_err(refusal.to_string())
}

#[pyclass(frozen, module = "dragstrip._engine")]
struct Engine {
    /// None after shutdown. Never waited for: a run holds it while it needs Python for its signals.
    inner: Mutex<Option<engine::Engine>>,
    stop: Arc<AtomicBool>,
    /// "sleep", or "poll": sessions are waited for without sleeping.
    #[pyo3(get)]
    wait: &'static str,
    #[pyo3(get)]
    backend: String,
    #[pyo3(get)]
    latency_stamps: &'static str,
    last: Mutex<Vec<engine::Tally>>,
}

impl Engine {
    fn inner(&self) -> PyResult<MutexGuard<'_, Option<engine::Engine>>> {
        self.inner.try_lock().map_err(|_| {
            EngineError::new_err("engine: busy with a run in another thread; wait for it, or stop() it first")
        })
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut engine::Engine) -> Result<T, Refusal> + Send,
    ) -> PyResult<T> {
        let mut inner = self.inner()?;
        let engine = inner.as_mut().ok_or_else(|| EngineError::new_err("engine: it has been shut down"))?;
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
        let backend: Backend =
            io.parse().map_err(|()| EngineError::new_err(format!("io: {io:?} given; give auto, uring or epoll")))?;
        let wait = match wait {
            "sleep" => "sleep",
            "poll" => "poll",
            _ => return Err(EngineError::new_err(format!("wait: {wait:?} given; give sleep or poll"))),
        };
        let inner = py.detach(|| engine::Engine::with_backend(&cores, backend)).map_err(refused)?;
        Ok(Self {
            stop: inner.stop_flag(),
            wait,
            backend: inner.backend(),
            latency_stamps: inner.latency_stamps(),
            inner: Mutex::new(Some(inner)),
            last: Mutex::new(Vec::new()),
        })
    }

    #[pyo3(signature = (host, port, exchanges, *, connections, keepalive, timeout_ns, unix = None, tls = None,
        cacert = None, insecure = false, requests_per_connection = 0, pipelining = 1, first_byte = false, sources = 1,
        by_length = false))]
    #[allow(clippy::too_many_arguments)] // keywords in Python, one plan from here on
    fn open(
        &self,
        py: Python<'_>,
        host: &str,
        port: u16,
        exchanges: Vec<(Vec<u8>, u16, Vec<u8>)>,
        connections: usize,
        keepalive: bool,
        timeout_ns: u64,
        unix: Option<PathBuf>,
        tls: Option<&str>,
        cacert: Option<PathBuf>,
        insecure: bool,
        requests_per_connection: u32,
        pipelining: u32,
        first_byte: bool,
        sources: u32,
        by_length: bool,
    ) -> PyResult<u32> {
        let exchange = |(request, status, body)| Exchange { request, status, body };
        let exchanges = exchanges.into_iter().map(exchange).collect();
        self.with(py, |engine| {
            let target =
                unix.map_or_else(|| engine::resolve(host, port).map(Target::Tcp), |path| Ok(Target::Unix(path)))?;
            let trust = match &cacert {
                _ if insecure => Trust::Anybody,
                Some(file) => Trust::File(file),
                None => Trust::Platform,
            };
            engine.open(SessionPlan {
                connections,
                keepalive,
                timeout_ns,
                tls: tls.map(|name| TlsPlan::new(name, trust)).transpose()?,
                requests_per_connection,
                pipelining,
                first_byte,
                sources,
                polls: self.wait == "poll",
                body_check: if by_length { BodyCheck::Length } else { BodyCheck::Full },
                ..SessionPlan::new(target, exchanges)
            })
        })
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

    #[pyo3(signature = (blocks, *, steal_cores = vec![], pace = None))]
    fn run(
        &self,
        py: Python<'_>,
        blocks: Vec<(u32, u64, u64, u64)>,
        steal_cores: Vec<usize>,
        pace: Option<pace::Words>,
    ) -> PyResult<Vec<Tally>> {
        self.keep(Vec::new());
        let pace = pace.map(pace::pace).transpose()?;
        let block = |(index, (session, lead_ns, counted_ns, max_requests))| {
            let pace = pace::nth(pace.as_ref(), index);
            Block { session, lead_ns, counted_ns, max_requests, pace }
        };
        let blocks: Vec<Block> = blocks.into_iter().enumerate().map(block).collect();
        let (tallies, signalled) = self.with(py, |engine| {
            let run = engine.start(&blocks, &steal_cores)?;
            let (tallies, _, signalled) = run::wait(run, &self.stop, None);
            Ok((tallies?, signalled))
        })?;
        self.keep(tallies.clone());
        signalled?;
        Ok(tallies.into_iter().map(Tally).collect())
    }

    #[pyo3(signature = (block, *, every_ns, see, pace = None))]
    fn run_seen(
        &self,
        py: Python<'_>,
        block: (u32, u64, u64, u64),
        every_ns: u64,
        see: Py<PyAny>,
        pace: Option<pace::Words>,
    ) -> PyResult<Option<Tally>> {
        self.keep(Vec::new());
        let pace = pace.map(pace::pace).transpose()?;
        let (session, lead_ns, counted_ns, max_requests) = block;
        let block = Block { session, lead_ns, counted_ns, max_requests, pace };
        let (tallies, rest, signalled) = self.with(py, |engine| {
            let run = engine.start_seen(&block, every_ns)?;
            let (tallies, rest, signalled) = run::wait(run, &self.stop, Some(&see));
            Ok((tallies?, rest, signalled))
        })?;
        self.keep(tallies.clone());
        if let Some(rest) = rest {
            see.call1(py, (Tally(rest),))?;
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

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Engine>()?;
    module.add_class::<Tally>()?;
    module.add_class::<fixed::FixedServer>()?;
    module.add("EngineError", module.py().get_type::<EngineError>())?;
    module.add_function(wrap_pyfunction!(merge, module)?)
}
