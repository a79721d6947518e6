//! wrk's Lua scripts over an embedded LuaJIT: wrk's documented hooks and its `wrk` table, a Lua state per worker.
//!
//! As in wrk a script is run once in a state of its own for `setup` and `done`, and once for each worker. What it prints
//! is kept for the report. Functions of a script are ended when they run for too long: compiled code looks at no clock, so
//! LuaJIT interprets here. The script runs with its user's rights, with all of Lua's libraries.

mod guard;
mod state;
mod value;

use dragstrip_engine::script::{Answer, Failed, Script, SharedScript, first_request};
use guard::Phase;
use mlua::{Function, Lua, Table, Value};
use state::{Shared, State};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use value::Plain;

/// Whether the user wants an end (Ctrl-C); asked now and then while no load goes on.
pub type Interrupted = Arc<dyn Fn() -> bool + Send + Sync>;

/// What the command line says, for the `wrk` table and `init`.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// As messages name it.
    pub name: String,
    /// The script itself.
    pub source: Vec<u8>,
    /// "http" or "https".
    pub scheme: String,
    /// Of the URL, without brackets.
    pub host: String,
    /// Of the URL; None where it has none.
    pub port: Option<String>,
    /// With its query.
    pub path: String,
    /// "GET" where nobody said.
    pub method: String,
    /// Of the command line.
    pub headers: Vec<(String, String)>,
    /// Of the command line.
    pub body: Option<Vec<u8>>,
    /// The URL, and what stands behind `--`.
    pub args: Vec<String>,
    /// Where the URL leads; None for a unix socket.
    pub address: Option<(IpAddr, u16)>,
    /// Another machine has the state that calls `done`: what this machine's prints is dropped.
    pub done_elsewhere: bool,
    /// A script with `setup` sees the threads of all machines: how many come before this machine's, and how many there
    /// are in all; None: this machine has all of them.
    pub threads: Option<(usize, usize)>,
}

/// Why a script can't be used, or did not get to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// In words that begin with file and line, where there are such.
    Script(String),
    /// The user wanted an end.
    Interrupted,
}

/// Numbers of a run, for `done`: sorted values and how often each came.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Ascending.
    pub values: Vec<f64>,
    /// As long as `values`.
    pub counts: Vec<u64>,
    /// The smallest, largest, mean, and standard deviation.
    pub min: f64,
    /// See `min`.
    pub max: f64,
    /// See `min`.
    pub mean: f64,
    /// See `min`.
    pub stdev: f64,
}

/// A run's sums, for `done`.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Microseconds.
    pub duration: u64,
    /// Answers that could be read.
    pub requests: u64,
    /// Read.
    pub bytes: u64,
    /// By wrk's names (connect, read, write, status, timeout), and more of our own.
    pub errors: Vec<(String, u64)>,
}

/// A loaded script: one state for `setup` and `done`, one for each worker.
pub struct Scripts {
    main: State,
    workers: Vec<Arc<Mutex<Worker>>>,
    shared: Arc<Shared>,
    fixed: Option<Vec<Vec<u8>>>,
    addresses: Vec<Option<(IpAddr, u16)>>,
    hooks: Vec<&'static str>,
    sets_up: bool,
    /// Of the threads of other machines, by number: a state in place of each one, for `thread:get` and `thread:set`.
    absent: Vec<(usize, State)>,
}

/// A worker's state, and what was made ahead in it.
pub struct Worker {
    state: State,
    request: Function,
    delay: Option<Function>,
    response: Option<Function>,
    /// Requests that were made to find out whether they differ: they are sent first.
    ahead: VecDeque<Vec<u8>>,
    number: usize,
}

/// What the global variables of one thread may take on their way to another machine.
const MAX_GLOBALS: usize = 4 << 20;

/// Requests made ahead at most: a script may need a call or two until it is settled.
const MAX_AHEAD: usize = 3;

impl Scripts {
    /// Loads a script for so many workers, and calls `setup` and `init` for each of them.
    ///
    /// # Errors
    /// The script can't be read, fails, or runs for too long.
    pub fn load(given: &Given, workers: usize, interrupted: Interrupted) -> Result<Self, Trouble> {
        let (before, total) = given.threads.unwrap_or((0, workers));
        let shared = Arc::new(Shared::new(total.max(workers), given.address, interrupted));
        let main = shared.muted(given.done_elsewhere, || State::open(given, 0, &shared))?;
        let sets_up: bool = main.call(Phase::Long, &main.own("has")?, "setup")?;
        // Without `setup` no thread is seen from outside itself: then this machine's are numbered by themselves.
        let (before, total) = if sets_up { (before, total) } else { (0, workers) };
        let mut found = Self {
            main,
            workers: Vec::with_capacity(workers),
            shared,
            fixed: None,
            addresses: Vec::with_capacity(workers),
            hooks: Vec::new(),
            sets_up,
            absent: Vec::new(),
        };
        for number in 1..=total {
            if number > before && number <= before + workers {
                found.add(given, number)?;
            } else {
                found.add_absent(given, number)?;
            }
        }
        found.settle()?;
        Ok(found)
    }

    /// Another machine's thread: what `setup` sets is kept in a state that makes no requests.
    fn add_absent(&mut self, given: &Given, number: usize) -> Result<(), Trouble> {
        let state = self.shared.muted(true, || State::open(given, number, &self.shared))?;
        lock(&self.shared.states).push(state.lua.clone());
        self.set_up(given, number)?;
        self.absent.push((number, state));
        Ok(())
    }

    fn set_up(&self, given: &Given, number: usize) -> Result<(), Trouble> {
        let setup = self.main.own("setup")?;
        self.shared.muted(given.done_elsewhere, || self.main.call::<()>(Phase::Long, &setup, number))
    }

    fn add(&mut self, given: &Given, number: usize) -> Result<(), Trouble> {
        let state = State::open(given, number, &self.shared)?;
        lock(&self.shared.states).push(state.lua.clone());
        self.set_up(given, number)?;
        let args = state.lua.create_table().map_err(|error| Trouble::Script(error.to_string()))?;
        for (index, word) in given.args.iter().enumerate() {
            args.raw_set(index, word.as_str()).map_err(|error| Trouble::Script(error.to_string()))?;
        }
        let init = state.own("init")?;
        state.call::<()>(Phase::Long, &init, args)?;
        let chosen = *lock(&self.shared.addresses[number - 1]);
        self.addresses.push(chosen.filter(|chosen| given.address != Some(*chosen)));
        let has = state.own("has")?;
        let hook = |name: &'static str| -> Result<Option<Function>, Trouble> {
            let there: bool = state.call(Phase::Long, &has, name)?;
            if there { state.own(name).map(Some) } else { Ok(None) }
        };
        let (delay, response) = (hook("delay")?, hook("response")?);
        let asks: bool = state.call(Phase::Long, &has, "request")?;
        for (there, name) in [(asks, "request"), (delay.is_some(), "delay"), (response.is_some(), "response")] {
            if there && !self.hooks.contains(&name) {
                self.hooks.push(name);
            }
        }
        let request = state.own("request")?;
        let worker = Worker { request, delay, response, ahead: VecDeque::new(), number, state };
        self.workers.push(Arc::new(Mutex::new(worker)));
        Ok(())
    }

    /// Finds out whether every request of every worker is the same.
    fn settle(&mut self) -> Result<(), Trouble> {
        let alone = !self.hooks.contains(&"delay") && !self.hooks.contains(&"response");
        let mut same: Vec<Option<Vec<u8>>> = Vec::new();
        for worker in &self.workers {
            let mut worker = lock(worker);
            same.push(if alone { worker.probe()? } else { None });
        }
        let first = same.first().cloned().flatten();
        if let Some(bytes) = first.filter(|first| same.iter().all(|other| other.as_ref() == Some(first))) {
            self.fixed =
                Some(taken_apart(&bytes).map_err(|why| Trouble::Script(format!("{}: {why}", self.main.name)))?);
        }
        Ok(())
    }

    /// What every call of `request` returns, where that is proved: one request, or several that leave together.
    pub fn fixed(&self) -> Option<&[Vec<u8>]> {
        self.fixed.as_deref()
    }

    /// By worker: where it connects to, if `setup` or `init` assigned another address than the URL's.
    pub fn addresses(&self) -> &[Option<(IpAddr, u16)>] {
        &self.addresses
    }

    /// Of `request`, `delay` and `response` those that the script has.
    pub fn hooks(&self) -> &[&'static str] {
        &self.hooks
    }

    /// Whether the script has `setup`, which is given every worker's thread.
    pub fn sets_up(&self) -> bool {
        self.sets_up
    }

    /// What the engine calls, by worker.
    pub fn for_engine(&self) -> Vec<SharedScript> {
        self.workers.iter().map(|worker| SharedScript(Arc::clone(worker) as Arc<Mutex<dyn Script>>)).collect()
    }

    /// What was printed since this was last asked.
    pub fn output(&self) -> Vec<u8> {
        self.shared.take_output()
    }

    /// Why the load was ended, where a function of the script failed under load.
    pub fn failure(&self) -> Option<String> {
        lock(&self.shared.failure).clone()
    }

    /// Whether every worker was stopped by the script.
    pub fn stopped(&self) -> bool {
        self.shared.stopped.iter().all(|flag| flag.load(Ordering::Relaxed))
    }

    /// By worker: the script's global variables that can be copied, for `take_globals` on another machine.
    ///
    /// # Errors
    /// They take more than `MAX_GLOBALS` bytes.
    pub fn globals(&self) -> Result<Vec<Vec<u8>>, Trouble> {
        let mut made = Vec::with_capacity(self.workers.len());
        for worker in &self.workers {
            let worker = lock(worker);
            let all: Table = worker.state.call(Phase::Long, &worker.state.own("globals")?, ())?;
            let mut bytes = Vec::new();
            for pair in all.pairs::<Value, Value>() {
                let (name, value) = pair.map_err(|error| Trouble::Script(error.to_string()))?;
                // What belongs to its state alone, as a function does, stays there.
                if let (Ok(name), Ok(value)) = (Plain::of(&name), Plain::of(&value)) {
                    Plain::Table(vec![(name, value)]).write(&mut bytes);
                }
            }
            if bytes.len() > MAX_GLOBALS {
                return Err(Trouble::Script(format!(
                    "{}: thread {}'s global variables take {} bytes, more than {MAX_GLOBALS}, and can't be sent to done()",
                    self.main.name,
                    worker.number,
                    bytes.len()
                )));
            }
            made.push(bytes);
        }
        Ok(made)
    }

    /// Gives the states that stand in for other machines' threads, in their order, the variables that these had.
    ///
    /// # Errors
    /// Other bytes than `globals` writes.
    pub fn take_globals(&self, all: &[Vec<u8>]) -> Result<(), Trouble> {
        for ((_, state), bytes) in self.absent.iter().zip(all) {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let Some(Plain::Table(pairs)) = Plain::read(&mut rest, 0) else {
                    return Err(Trouble::Script("a machine sent a thread's variables in another form".to_owned()));
                };
                for (name, value) in pairs {
                    let put = || state.lua.globals().raw_set(name.into_lua(&state.lua)?, value.into_lua(&state.lua)?);
                    put().map_err(|error| Trouble::Script(error.to_string()))?;
                }
            }
        }
        Ok(())
    }

    /// Calls `done`, if the script has it.
    ///
    /// # Errors
    /// It fails, or runs for too long.
    pub fn done(&self, summary: &Summary, latency: &Statistics, requests: &Statistics) -> Result<(), Trouble> {
        let arguments = || -> mlua::Result<(Table, Table, Table)> {
            let lua = &self.main.lua;
            let errors = lua.create_table()?;
            for (name, count) in &summary.errors {
                errors.raw_set(name.as_str(), *count)?;
            }
            let sums = lua.create_table()?;
            sums.raw_set("duration", summary.duration)?;
            sums.raw_set("requests", summary.requests)?;
            sums.raw_set("bytes", summary.bytes)?;
            sums.raw_set("errors", errors)?;
            Ok((sums, numbers(lua, latency)?, numbers(lua, requests)?))
        };
        let arguments = arguments().map_err(|error| Trouble::Script(error.to_string()))?;
        let done = self.main.own("done")?;
        self.main.call(Phase::Long, &done, arguments)
    }
}

/// Requests made at once, each for itself.
fn taken_apart(mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (one, rest) = bytes.split_at(first_request(bytes)?.0);
        found.push(one.to_vec());
        bytes = rest;
    }
    Ok(found)
}

fn numbers(lua: &Lua, from: &Statistics) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("values", lua.create_sequence_from(from.values.iter().copied())?)?;
    table.raw_set("counts", lua.create_sequence_from(from.counts.iter().copied())?)?;
    for (name, value) in [("min", from.min), ("max", from.max), ("mean", from.mean), ("stdev", from.stdev)] {
        table.raw_set(name, value)?;
    }
    Ok(table)
}

impl Worker {
    /// Makes requests ahead until one is proved to be all that will ever come; that one, or None.
    fn probe(&mut self) -> Result<Option<Vec<u8>>, Trouble> {
        let probe = self.state.own("probe")?;
        for _ in 0..MAX_AHEAD {
            let found: (mlua::String, bool, bool) = self.state.call(Phase::Long, &probe, ())?;
            let (bytes, settled, varied) = (found.0.as_bytes().to_vec(), found.1, found.2);
            self.ahead.push_back(bytes.clone());
            if settled {
                return Ok(self.ahead.iter().all(|earlier| *earlier == bytes).then_some(bytes));
            }
            if varied {
                break;
            }
        }
        Ok(None)
    }

    fn failed(&self, trouble: Trouble) -> Failed {
        if let Trouble::Script(why) = trouble {
            self.state.shared.fail(why);
        }
        Failed
    }
}

impl Script for Worker {
    fn request(&mut self, into: &mut Vec<u8>) -> Result<(), Failed> {
        if let Some(made) = self.ahead.pop_front() {
            into.extend_from_slice(&made);
            return Ok(());
        }
        let made: Result<mlua::String, Trouble> = self.state.call(Phase::Short, &self.request, ());
        let made = made.map_err(|trouble| self.failed(trouble))?;
        into.extend_from_slice(&made.as_bytes());
        Ok(())
    }

    fn delays(&self) -> bool {
        self.delay.is_some()
    }

    fn delay_ns(&mut self) -> Result<u64, Failed> {
        let Some(delay) = &self.delay else { return Ok(0) };
        let milliseconds: Result<f64, Trouble> = self.state.call(Phase::Short, delay, ());
        Ok((milliseconds.map_err(|trouble| self.failed(trouble))? * 1e6) as u64)
    }

    fn listens(&self) -> bool {
        self.response.is_some()
    }

    fn response(&mut self, answer: &Answer) -> Result<(), Failed> {
        let Some(response) = &self.response else { return Ok(()) };
        let lua = &self.state.lua;
        let arguments = || -> mlua::Result<(u16, Table, mlua::String)> {
            let headers = lua.create_table_with_capacity(0, answer.headers.len())?;
            for (name, value) in &answer.headers {
                headers.raw_set(lua.create_string(name)?, lua.create_string(value)?)?;
            }
            Ok((answer.status, headers, lua.create_string(&answer.body)?))
        };
        let called = arguments().map_err(|error| Trouble::Script(error.to_string()));
        let called = called.and_then(|arguments| self.state.call::<()>(Phase::Short, response, arguments));
        called.map_err(|trouble| self.failed(trouble))
    }

    fn stopped(&self) -> bool {
        self.state.shared.stopped[self.number - 1].load(Ordering::Relaxed)
    }

    fn refuse(&mut self, why: &str) {
        self.state.shared.fail(format!("{}: {why}", self.state.name));
    }
}

/// A lock that a panic elsewhere does not close: what it holds is whole at any time.
fn lock<T: ?Sized>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
