//! wrk's scripts as Python uses them. Without the feature `scripts` no class creates one.

#[cfg(feature = "scripts")]
pub use with_lua::Script;
#[cfg(not(feature = "scripts"))]
pub use without::Script;

#[cfg(feature = "scripts")]
mod with_lua {
    use crate::types::{Bytes, typed};
    use dragstrip_engine::Target;
    use dragstrip_engine::script::SharedScript;
    use dragstrip_script::{Given, Scripts, Statistics, Summary, Trouble};
    use pyo3::exceptions::PyKeyboardInterrupt;
    use pyo3::prelude::*;
    use pyo3::types::PyBytes;
    use pyo3::{import_exception, type_hint_identifier};
    use std::net::IpAddr;
    use std::sync::{Arc, Mutex, PoisonError};

    import_exception!(dragstrip.errors, ScriptError);

    fn raised(trouble: Trouble) -> PyErr {
        match trouble {
            Trouble::Script(why) => ScriptError::new_err(why),
            Trouble::Interrupted => PyKeyboardInterrupt::new_err(()),
        }
    }

    /// Numbers by name, and sorted values with their counts.
    struct Numbers(Values);

    #[derive(FromPyObject)]
    struct Values {
        values: Vec<f64>,
        counts: Vec<u64>,
        min: f64,
        max: f64,
        mean: f64,
        stdev: f64,
    }

    typed!(Numbers(Values): type_hint_identifier!("dragstrip.extras.compat.wrk_script", "Numbers"));

    impl From<Numbers> for Statistics {
        fn from(Numbers(Values { values, counts, min, max, mean, stdev }): Numbers) -> Self {
            Self { values, counts, min, max, mean, stdev }
        }
    }

    /// A script of wrk's: loaded, with a Lua state for each worker and one for `setup` and `done`.
    ///
    /// Not there where the engine was built without Lua.
    #[pyclass(frozen, module = "dragstrip._engine")]
    pub struct Script(Mutex<Scripts>);

    impl Script {
        fn with<T>(&self, see: impl FnOnce(&Scripts) -> T) -> T {
            see(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }

        /// For a plan whose requests the script makes; empty if all requests are the same.
        pub fn for_engine(&self) -> Vec<SharedScript> {
            self.with(|scripts| if scripts.fixed().is_some() { Vec::new() } else { scripts.for_engine() })
        }

        /// Servers of the workers that `setup` has assigned to others.
        pub fn targets(&self) -> Vec<Option<Target>> {
            let target = |address: &Option<(IpAddr, u16)>| address.map(|address| Target::Tcp(address.into()));
            self.with(|scripts| scripts.addresses().iter().map(target).collect())
        }
    }

    #[pymethods]
    impl Script {
        /// Runs the file, `setup` and `init`; a function of the script may take 10 s here, and 1 s under load.
        ///
        /// Args:
        ///     name: as messages have it.
        ///     args: the URL, then what is the script's own.
        ///     address: where the URL leads, for `thread.addr`; None for a unix socket.
        ///     workers: 0 makes the state for `setup` and `done` alone.
        ///     done_elsewhere: another machine calls `done`: what is printed in its state here is dropped.
        ///     threads: of several machines: how many threads come before this machine's, and how many all have. `setup`
        ///         is then called for all of them.
        ///
        /// Raises:
        ///     ScriptError: it fails, or takes too long.
        #[new]
        #[pyo3(signature = (
            name, source, *, scheme, host, port, path, method, headers, body, args, address, workers,
            done_elsewhere = false, threads = None
        ))]
        #[allow(clippy::too_many_arguments)] // keywords in Python, one value from here on
        fn new(
            py: Python<'_>,
            name: String,
            source: Bytes,
            scheme: String,
            host: String,
            port: Option<String>,
            path: String,
            method: String,
            headers: Vec<(String, String)>,
            body: Option<Bytes>,
            args: Vec<String>,
            address: Option<(IpAddr, u16)>,
            workers: usize,
            done_elsewhere: bool,
            threads: Option<(usize, usize)>,
        ) -> PyResult<Self> {
            let given = Given {
                name,
                source: source.0,
                scheme,
                host,
                port,
                path,
                method,
                headers,
                body: body.map(|Bytes(body)| body),
                args,
                address,
                done_elsewhere,
                threads,
            };
            let interrupted = || Python::attach(|py| py.check_signals().is_err());
            let loaded = py.detach(|| Scripts::load(&given, workers, Arc::new(interrupted)));
            Ok(Self(Mutex::new(loaded.map_err(raised)?)))
        }

        /// What every call of `request` makes, request by request; None if the calls may differ.
        #[getter]
        fn fixed<'py>(&self, py: Python<'py>) -> Option<Vec<Bound<'py, PyBytes>>> {
            let all = |made: &[Vec<u8>]| made.iter().map(|one| PyBytes::new(py, one)).collect();
            self.with(|scripts| scripts.fixed().map(all))
        }

        /// By worker: the address and port that `setup` chose, None for the URL's.
        #[getter]
        fn addresses(&self) -> Vec<Option<(IpAddr, u16)>> {
            self.with(|scripts| scripts.addresses().to_vec())
        }

        /// Of `request`, `delay` and `response` those that it has.
        #[getter]
        fn hooks(&self) -> Vec<&'static str> {
            self.with(|scripts| scripts.hooks().to_vec())
        }

        /// It has `setup`, which is given every worker's thread.
        #[getter]
        fn sets_up(&self) -> bool {
            self.with(Scripts::sets_up)
        }

        /// Why the load was ended, if a function failed under load.
        #[getter]
        fn failure(&self) -> Option<String> {
            self.with(Scripts::failure)
        }

        /// Every worker was stopped by the script.
        #[getter]
        fn stopped(&self) -> bool {
            self.with(Scripts::stopped)
        }

        /// By worker: its global variables, for `take_globals` on another machine.
        ///
        /// Raises:
        ///     ScriptError: they take more than 4 MiB.
        fn globals<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
            let all = self.with(Scripts::globals).map_err(raised)?;
            Ok(all.iter().map(|one| PyBytes::new(py, one)).collect())
        }

        /// Gives the threads of other machines, in their order, the variables that they had there.
        ///
        /// Raises:
        ///     ScriptError: it is not what `globals` gives.
        fn take_globals(&self, all: Vec<Bytes>) -> PyResult<()> {
            let all: Vec<_> = all.into_iter().map(|Bytes(one)| one).collect();
            self.with(|scripts| scripts.take_globals(&all)).map_err(raised)
        }

        /// What was printed since the last call; at most the first 8 MiB.
        fn output<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
            PyBytes::new(py, &self.with(Scripts::output))
        }

        /// Calls `done`, if there is one.
        ///
        /// Raises:
        ///     ScriptError: it fails, or takes longer than 10 s.
        #[pyo3(signature = (*, duration_us, requests, bytes, errors, latency, rates))]
        #[allow(clippy::too_many_arguments)] // as above
        fn done(
            &self,
            py: Python<'_>,
            duration_us: u64,
            requests: u64,
            bytes: u64,
            errors: Vec<(String, u64)>,
            latency: Numbers,
            rates: Numbers,
        ) -> PyResult<()> {
            let summary = Summary { duration: duration_us, requests, bytes, errors };
            let (latency, rates) = (latency.into(), rates.into());
            py.detach(|| self.with(|scripts| scripts.done(&summary, &latency, &rates))).map_err(raised)
        }
    }
}

#[cfg(not(feature = "scripts"))]
mod without {
    use dragstrip_engine::Target;
    use dragstrip_engine::script::SharedScript;
    use pyo3::prelude::*;

    /// A script can't be created.
    #[pyclass(frozen, module = "dragstrip._engine")]
    pub struct Script;

    impl Script {
        /// As with Lua.
        pub fn for_engine(&self) -> Vec<SharedScript> {
            Vec::new()
        }

        /// As with Lua.
        pub fn targets(&self) -> Vec<Option<Target>> {
            Vec::new()
        }
    }
}
