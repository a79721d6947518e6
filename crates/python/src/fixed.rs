//! The built-in minimal server as Python sees it: started, and stopped.

use crate::refused;
use dragstrip_engine as engine;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

#[pyclass(frozen, module = "dragstrip._engine")]
pub struct FixedServer {
    inner: Mutex<Option<engine::FixedServer>>,
    #[pyo3(get)]
    port: u16,
}

#[pymethods]
impl FixedServer {
    #[new]
    fn new(py: Python<'_>, cores: Vec<usize>) -> PyResult<Self> {
        let inner = py.detach(|| engine::FixedServer::start(&cores)).map_err(refused)?;
        Ok(Self { port: inner.port(), inner: Mutex::new(Some(inner)) })
    }

    fn stop(&self, py: Python<'_>) {
        let gone = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(gone));
    }
}
