//! The engine's errors as a Python exception: the message for a person, and `kind` for a program.

use dragstrip_engine::EngineError as Refusal;
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(dragstrip.errors, EngineError);

/// The exception for everything that the engine refuses.
pub fn refused(refusal: Refusal) -> PyErr {
    of_kind(refusal.kind(), refusal.to_string())
}

/// The exception with a message, and the kind by which programs recognise it.
pub fn of_kind(kind: &'static str, message: String) -> PyErr {
    Python::attach(|py| {
        let error = EngineError::new_err(message);
        match error.value(py).setattr("kind", kind) {
            Ok(()) => error,
            Err(failed) => failed, // no memory for an attribute
        }
    })
}
