//! wrk's scripts as Python uses them. Without the feature `scripts` no class creates one.

#[cfg(feature = "scripts")]
pub use with_lua::{Script, add_to};
#[cfg(not(feature = "scripts"))]
pub use without::{Script, add_to};

#[cfg(feature = "scripts")]
mod with_lua {
    use dragstrip_engine::Target;
    use dragstrip_engine::script::SharedScript;
    use dragstrip_script::{Given, Scripts, Statistics, Summary, Trouble};
    use pyo3::create_exception;
    use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
    use pyo3::prelude::*;
    use pyo3::types::PyBytes;
    use std::net::IpAddr;
    use std::sync::{Arc, Mutex, PoisonError};

    create_exception!(_engine, ScriptError, PyException, "A script can't be used; the message has file and line.");

    fn raised(trouble: Trouble) -> PyErr {
        match trouble {
            Trouble::Script(why) => ScriptError::new_err(why),
            Trouble::Interrupted => PyKeyboardInterrupt::new_err(()),
        }
    }

    /// Numbers by name, and sorted values with their counts.
    #[derive(FromPyObject)]
    struct Numbers {
        values: Vec<f64>,
        counts: Vec<u64>,
        min: f64,
        max: f64,
        mean: f64,
        stdev: f64,
    }

    impl From<Numbers> for Statistics {
        fn from(Numbers { values, counts, min, max, mean, stdev }: Numbers) -> Self {
            Self { values, counts, min, max, mean, stdev }
        }
    }

    /// A script, loaded for this many workers.
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
        #[new]
        #[pyo3(signature = (
            name, source, *, scheme, host, port, path, method, headers, body, args, address, workers,
            done_elsewhere = false, threads = None
        ))]
        #[allow(clippy::too_many_arguments)] // keywords in Python, one value from here on
        fn new(
            py: Python<'_>,
            name: String,
            source: Vec<u8>,
            scheme: String,
            host: String,
            port: Option<String>,
            path: String,
            method: String,
            headers: Vec<(String, String)>,
            body: Option<Vec<u8>>,
            args: Vec<String>,
            address: Option<(IpAddr, u16)>,
            workers: usize,
            done_elsewhere: bool,
            threads: Option<(usize, usize)>,
        ) -> PyResult<Self> {
            let given = Given {
                name,
                source,
                scheme,
                host,
                port,
                path,
                method,
                headers,
                body,
                args,
                address,
                done_elsewhere,
                threads,
            };
            let interrupted = || Python::attach(|py| py.check_signals().is_err());
            let loaded = py.detach(|| Scripts::load(&given, workers, Arc::new(interrupted)));
            Ok(Self(Mutex::new(loaded.map_err(raised)?)))
        }

        #[getter]
        fn fixed<'py>(&self, py: Python<'py>) -> Option<Vec<Bound<'py, PyBytes>>> {
            let all = |made: &[Vec<u8>]| made.iter().map(|one| PyBytes::new(py, one)).collect();
            self.with(|scripts| scripts.fixed().map(all))
        }

        #[getter]
        fn addresses(&self) -> Vec<Option<(IpAddr, u16)>> {
            self.with(|scripts| scripts.addresses().to_vec())
        }

        #[getter]
        fn hooks(&self) -> Vec<&'static str> {
            self.with(|scripts| scripts.hooks().to_vec())
        }

        #[getter]
        fn sets_up(&self) -> bool {
            self.with(Scripts::sets_up)
        }

        #[getter]
        fn failure(&self) -> Option<String> {
            self.with(Scripts::failure)
        }

        #[getter]
        fn stopped(&self) -> bool {
            self.with(Scripts::stopped)
        }

        fn globals<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
            let all = self.with(Scripts::globals).map_err(raised)?;
            Ok(all.iter().map(|one| PyBytes::new(py, one)).collect())
        }

        fn take_globals(&self, all: Vec<Vec<u8>>) -> PyResult<()> {
            self.with(|scripts| scripts.take_globals(&all)).map_err(raised)
        }

        fn output<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
            PyBytes::new(py, &self.with(Scripts::output))
        }

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

    /// Adds the classes to the module.
    pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add_class::<Script>()?;
        module.add("ScriptError", module.py().get_type::<ScriptError>())
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

    /// Adds nothing, so that Python can see that scripts are not supported.
    pub fn add_to(_: &Bound<'_, PyModule>) -> PyResult<()> {
        Ok(())
    }
}
