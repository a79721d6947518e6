//! Types of arguments and results by the names that the stub shall have for them.

use pyo3::inspect::PyStaticExpr;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict};
use pyo3::{PyTypeInfo, type_hint_identifier, type_hint_subscript};

/// `typed!(Given(Read): TYPE)`: the argument `Given` is read as `Read`, and Python passes it as a `TYPE`.
macro_rules! typed {
    ($given:ident($read:ty): $type:expr) => {
        impl<'py> FromPyObject<'_, 'py> for $given {
            type Error = PyErr;
            const INPUT_TYPE: pyo3::inspect::PyStaticExpr = $type;

            fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                <$read as FromPyObject>::extract(given).map(Self).map_err(PyErr::from)
            }
        }
    };
}
pub(crate) use typed;

/// Bytes; a `Vec<u8>` would also accept other sequences of numbers.
pub struct Bytes(pub Vec<u8>);

typed!(Bytes(Vec<u8>): PyBytes::TYPE_HINT);

/// A dictionary in the order of its items.
pub struct Dict<K, V>(pub Vec<(K, V)>);

impl<'py, K: IntoPyObject<'py>, V: IntoPyObject<'py>> IntoPyObject<'py> for Dict<K, V> {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;
    const OUTPUT_TYPE: PyStaticExpr =
        type_hint_subscript!(type_hint_identifier!("builtins", "dict"), K::OUTPUT_TYPE, V::OUTPUT_TYPE);

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        self.0.into_py_dict(py)
    }
}
