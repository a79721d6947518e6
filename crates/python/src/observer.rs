//! Both ends of sync messages as Python uses them: the observer on a server's machine, and a generator's marker.

use crate::errors::{of_kind, refused};
use dragstrip_engine as engine;
use pyo3::prelude::*;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parses an address.
///
/// # Errors
/// Says what was given and what would be valid.
fn address(host: &str, port: u16) -> PyResult<SocketAddr> {
    let parsed = host.parse::<IpAddr>();
    let parsed = parsed.map_err(|_| of_kind("address", format!("address: {host:?} given; give an IP address")))?;
    Ok(SocketAddr::new(parsed, port))
}

/// A token of sixteen bytes.
///
/// # Errors
/// Says how many were given.
fn token(bytes: &[u8]) -> PyResult<engine::Token> {
    bytes.try_into().map_err(|_| of_kind("plan", format!("token: {} bytes given; give 16", bytes.len())))
}

/// Tells a server's CPU time to generators on other machines; a thread without Python, asleep between questions.
#[pyclass(frozen, module = "dragstrip._engine")]
pub struct Observer {
    /// None after it was stopped.
    inner: Mutex<Option<engine::Observer>>,
    /// The port on which it listens.
    #[pyo3(get)]
    port: u16,
}

impl Observer {
    fn inner(&self) -> MutexGuard<'_, Option<engine::Observer>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Observer {
    /// Listens from now on.
    ///
    /// Args:
    ///     host: an IP address of this machine. port: 0 for one of the kernel's choice.
    ///     token: 16 bytes; a question without them is not answered.
    ///     steal_cores: cores whose steal is reported.
    ///
    /// Raises:
    ///     EngineError: it can't listen there, or can't start a thread.
    #[new]
    #[pyo3(signature = (host, port, token, *, steal_cores))]
    fn new(host: &str, port: u16, token: &[u8], steal_cores: Vec<usize>) -> PyResult<Self> {
        let started = engine::Observer::start(address(host, port)?, self::token(token)?, &steal_cores);
        let inner = started.map_err(refused)?;
        Ok(Self { port: inner.address().port(), inner: Mutex::new(Some(inner)) })
    }

    /// Names a server's files from now on; as `Engine.watch`.
    ///
    /// Raises:
    ///     EngineError: the cgroup's file can't be opened.
    #[pyo3(signature = (server, *, cgroup_cpu_stat, schedstats, processes = vec![]))]
    fn watch(
        &self,
        server: u32,
        cgroup_cpu_stat: Option<&str>,
        schedstats: Vec<String>,
        processes: Vec<i32>,
    ) -> PyResult<()> {
        let schedstats: Vec<&str> = schedstats.iter().map(String::as_str).collect();
        let watch = |observer: &engine::Observer| observer.watch(server, cgroup_cpu_stat, &processes, &schedstats);
        let watched = self.inner().as_ref().map(watch);
        watched.unwrap_or(Ok(())).map_err(refused)
    }

    /// Closes a server's files.
    fn forget(&self, server: u32) {
        if let Some(observer) = self.inner().as_ref() {
            observer.forget(server);
        }
    }

    /// When a generator was last heard; 0: never.
    #[getter]
    fn heard_ns(&self) -> u64 {
        self.inner().as_ref().map_or(0, engine::Observer::heard_ns)
    }

    /// Listens no more.
    fn stop(&self, py: Python<'_>) {
        let observer = self.inner().take();
        py.detach(|| drop(observer));
    }
}

/// A generator's end: marks idle points with the observer, before and after each block.
#[pyclass(frozen, module = "dragstrip._engine")]
pub struct Marker {
    pub inner: Arc<engine::Marker>,
}

#[pymethods]
impl Marker {
    /// Nothing is sent yet.
    ///
    /// Args:
    ///     generator: its number, from 0. ahead_ns: how long after the last generator's sync message a block begins.
    ///
    /// Raises:
    ///     EngineError: a number out of bounds, or no socket.
    #[new]
    #[pyo3(signature = (host, port, token, *, generator = 0, generators = 1, ahead_ns = 0))]
    fn new(host: &str, port: u16, token: &[u8], generator: u8, generators: u8, ahead_ns: u64) -> PyResult<Self> {
        let (to, token) = (address(host, port)?, self::token(token)?);
        let opened = engine::Marker::open(to, token, (generator, generators), ahead_ns);
        Ok(Self { inner: Arc::new(opened.map_err(refused)?) })
    }

    /// The next blocks are those of this run; numbers rise, the same for all generators.
    fn begin(&self, run: u64) {
        self.inner.begin(run);
    }

    /// The observer's clock minus ours, and the round trip, of the fastest exchange; None: no reply.
    fn clock(&self, py: Python<'_>, exchanges: u32) -> Option<(i64, u64)> {
        let offset = py.detach(|| self.inner.clock(exchanges))?;
        Some((offset.offset_ns, offset.round_trip_ns))
    }
}
