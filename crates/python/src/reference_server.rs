//! The built-in minimal server as Python uses it.

use crate::errors::refused;
use dragstrip_engine as engine;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

#[pyclass(frozen, module = "dragstrip._engine")]
pub struct ReferenceServer {
    inner: Mutex<Option<engine::ReferenceServer>>,
    #[pyo3(get)]
    port: u16,
}

#[pymethods]
impl ReferenceServer {
    #[new]
    fn new(py: Python<'_>, cores: Vec<usize>) -> PyResult<Self> {
        let inner = py.detach(|| engine::ReferenceServer::start(&cores)).map_err(refused)?;
        Ok(Self { port: inner.port(), inner: Mutex::new(Some(inner)) })
    }

    fn stop(&self, py: Python<'_>) {
        let server = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(server));
    }
}
