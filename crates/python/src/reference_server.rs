//! The built-in minimal server as Python uses it.

use crate::errors::refused;
use dragstrip_engine as engine;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// A minimal server on 127.0.0.1 that always sends `hello world` and a newline: one thread per core.
#[pyclass(frozen, module = "dragstrip._engine")]
pub struct ReferenceServer {
    inner: Mutex<Option<engine::ReferenceServer>>,
    /// The port of its address.
    #[pyo3(get)]
    port: u16,
}

#[pymethods]
impl ReferenceServer {
    /// Starts and pins its threads; it listens when this returns.
    ///
    /// Raises:
    ///     EngineError: no core given, one that this process may not run on, no port to be had.
    #[new]
    fn new(py: Python<'_>, cores: Vec<usize>) -> PyResult<Self> {
        let inner = py.detach(|| engine::ReferenceServer::start(&cores)).map_err(refused)?;
        Ok(Self { port: inner.port(), inner: Mutex::new(Some(inner)) })
    }

    /// Closes everything and ends its threads; stopping twice does nothing.
    fn stop(&self, py: Python<'_>) {
        let server = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(server));
    }
}
