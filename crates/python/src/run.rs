//! Waits for a run, and meanwhile handles Python's signals and shows snapshots.

use crate::tally::Tally;
use dragstrip_engine::{self as engine, EngineError};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Interval at which signals are checked.
const EVERY: Duration = Duration::from_millis(50);

/// Tallies, the counts that no snapshot has shown, and Python's exception.
type Done = (Result<Vec<engine::Tally>, EngineError>, Option<engine::Tally>, PyResult<()>);

/// Waits for the end of a run. A Python signal handler that raises (Ctrl-C) stops the run; finished blocks are returned
/// anyway.
pub fn wait(mut run: engine::Pending, stop: &AtomicBool, see: Option<&Py<PyAny>>) -> Done {
    let mut raised = Ok(());
    loop {
        match run.wait(EVERY) {
            Ok(true) => break,
            Err(refusal) => return (Err(refusal), None, raised),
            Ok(false) if raised.is_ok() => {
                raised = look(&mut run, see);
                if raised.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            Ok(false) => {}
        }
    }
    if raised.is_ok() {
        raised = look(&mut run, see);
    }
    match run.finish_observed() {
        Ok((tallies, rest)) => (Ok(tallies), rest, raised),
        Err(refusal) => (Err(refusal), None, raised),
    }
}

/// Does some work that the stop flag ends, and meanwhile handles Python's signals; one that raises sets the flag.
pub fn watched<T: Send>(stop: &AtomicBool, work: impl FnOnce() -> T + Send) -> (T, PyResult<()>) {
    std::thread::scope(|scope| {
        let (done, finished) = channel();
        let worker = scope.spawn(move || {
            let result = work();
            let _ = done.send(());
            result
        });
        let mut raised = Ok(());
        while matches!(finished.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout)) {
            if raised.is_ok() {
                raised = Python::attach(|py| py.check_signals());
            }
            if raised.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        (worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), raised)
    })
}

fn look(run: &mut engine::Pending, see: Option<&Py<PyAny>>) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        let Some(see) = see else { return Ok(()) };
        while let Some(tally) = run.next_interval() {
            see.call1(py, (Tally(tally),))?;
        }
        Ok(())
    })
}
