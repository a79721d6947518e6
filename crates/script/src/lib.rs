//! wrk's Lua scripts in an embedded LuaJIT: wrk's documented hooks and its `wrk` table, with a Lua state per worker.
//!
//! As in wrk, a script is run once in a state for `setup` and `done`, and once for each worker. What it prints is kept
//! for the report. A function that runs for too long is ended. Compiled code can't be interrupted, so LuaJIT interprets
//! here. The script has its user's rights, and all of Lua's libraries.

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

/// Whether the user wants to stop (Ctrl-C); called at intervals before and after the load.
pub type Interrupted = Arc<dyn Fn() -> bool + Send + Sync>;

/// What the command line specifies, for the `wrk` table and `init`.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The script's name in messages.
    pub name: String,
    /// The text of the script.
    pub source: Vec<u8>,
    /// "http" or "https".
    pub scheme: String,
    /// Host of the URL, without brackets.
    pub host: String,
    /// Port of the URL, if it has one.
    pub port: Option<String>,
    /// Path of the URL, with its query.
    pub path: String,
    /// The method; "GET" by default.
    pub method: String,
    /// Headers of the command line.
    pub headers: Vec<(String, String)>,
    /// Body of the command line.
    pub body: Option<Vec<u8>>,
    /// The URL, and the arguments after `--`.
    pub args: Vec<String>,
    /// Address of the URL; None for a unix socket.
    pub address: Option<(IpAddr, u16)>,
    /// Another machine has the state that calls `done`: what this machine's state prints is dropped.
    pub done_elsewhere: bool,
    /// A script with `setup` sees the threads of all machines: how many come before this machine's, and how many there
    /// are in all. None: this machine has all of them.
    pub threads: Option<(usize, usize)>,
}

/// Why a script can't be used or did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A message that begins with file and line, if they are known.
    Script(String),
    /// The user wanted to stop.
    Interrupted,
}

/// Numbers of a run, for `done`: sorted values, and how often each occurred.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// In ascending order.
    pub values: Vec<f64>,
    /// As long as `values`.
    pub counts: Vec<u64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
}

/// The totals of a run, for `done`.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Duration, µs.
    pub duration: u64,
    /// Responses that could be read.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// By wrk's names (connect, read, write, status, timeout), and additional ones.
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
    /// For the threads of other machines, by number: a state in place of each, for `thread:get` and `thread:set`.
    absent: Vec<(usize, State)>,
}

/// A worker's state, and the requests that were made in advance.
pub struct Worker {
    state: State,
    request: Function,
    delay: Option<Function>,
    response: Option<Function>,
    /// Requests that were made to find out whether they differ: they are sent first.
    ahead: VecDeque<Vec<u8>>,
    number: usize,
}

/// Maximum size of one thread's global variables when they are sent to another machine.
const MAX_GLOBALS: usize = 4 << 20;

/// Maximum number of requests made in advance: a script may need a call or two before its requests stay the same.
const MAX_AHEAD: usize = 3;

impl Scripts {
    /// Loads a script for this many workers, and calls `setup` and `init` for each of them.
    ///
    /// # Errors
    /// The script can't be read, fails, or runs for too long.
    pub fn load(given: &Given, workers: usize, interrupted: Interrupted) -> Result<Self, Trouble> {
        let (before, total) = given.threads.unwrap_or((0, workers));
        let shared = Arc::new(Shared::new(total.max(workers), given.address, interrupted));
        let main = shared.muted(given.done_elsewhere, || State::open(given, 0, &shared))?;
        let sets_up: bool = main.call(Phase::Long, &main.prelude("has")?, "setup")?;
        // Without `setup`, a thread is not visible outside: then this machine's threads have numbers of their own.
        let (before, total) = if sets_up { (before, total) } else { (0, workers) };
        let mut loaded = Self {
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
                loaded.add(given, number)?;
            } else {
                loaded.add_absent(given, number)?;
            }
        }
        loaded.settle()?;
        Ok(loaded)
    }

    /// Another machine's thread: a state that makes no requests keeps what `setup` sets.
    fn add_absent(&mut self, given: &Given, number: usize) -> Result<(), Trouble> {
        let state = self.shared.muted(true, || State::open(given, number, &self.shared))?;
        lock(&self.shared.states).push(state.lua.clone());
        self.set_up(given, number)?;
        self.absent.push((number, state));
        Ok(())
    }

    fn set_up(&self, given: &Given, number: usize) -> Result<(), Trouble> {
        let setup = self.main.prelude("setup")?;
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
        let init = state.prelude("init")?;
        state.call::<()>(Phase::Long, &init, args)?;
        let chosen = *lock(&self.shared.addresses[number - 1]);
        self.addresses.push(chosen.filter(|chosen| given.address != Some(*chosen)));
        let has = state.prelude("has")?;
        let hook = |name: &'static str| -> Result<Option<Function>, Trouble> {
            let there: bool = state.call(Phase::Long, &has, name)?;
            if there { state.prelude(name).map(Some) } else { Ok(None) }
        };
        let (delay, response) = (hook("delay")?, hook("response")?);
        let asks: bool = state.call(Phase::Long, &has, "request")?;
        for (there, name) in [(asks, "request"), (delay.is_some(), "delay"), (response.is_some(), "response")] {
            if there && !self.hooks.contains(&name) {
                self.hooks.push(name);
            }
        }
        let request = state.prelude("request")?;
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
            self.fixed = Some(taken_apart(&bytes).map_err(|why| {
                Trouble::Script(format!("{}: a request that it made can't be sent: {why}", self.main.name))
            })?);
        }
        Ok(())
    }

    /// What every call of `request` returns, if that is known to be always the same: one request, or several that are
    /// sent together.
    pub fn fixed(&self) -> Option<&[Vec<u8>]> {
        self.fixed.as_deref()
    }

    /// By worker: its server, if `setup` or `init` assigned another address than the URL's.
    pub fn addresses(&self) -> &[Option<(IpAddr, u16)>] {
        &self.addresses
    }

    /// Which of `request`, `delay` and `response` the script has.
    pub fn hooks(&self) -> &[&'static str] {
        &self.hooks
    }

    /// Whether the script has `setup`, which is called with every worker's thread.
    pub fn sets_up(&self) -> bool {
        self.sets_up
    }

    /// By worker, the script for the engine.
    pub fn for_engine(&self) -> Vec<SharedScript> {
        self.workers.iter().map(|worker| SharedScript(Arc::clone(worker) as Arc<Mutex<dyn Script>>)).collect()
    }

    /// What was printed since the last call.
    pub fn output(&self) -> Vec<u8> {
        self.shared.take_output()
    }

    /// Why the load was ended, if a function of the script failed during the load.
    pub fn failure(&self) -> Option<String> {
        lock(&self.shared.failure).clone()
    }

    /// Whether the script has stopped every worker.
    pub fn stopped(&self) -> bool {
        self.shared.stopped.iter().all(|flag| flag.load(Ordering::Relaxed))
    }

    /// By worker: the script's global variables that can be copied, for `take_globals` on another machine.
    ///
    /// # Errors
    /// They have more than `MAX_GLOBALS` bytes.
    pub fn globals(&self) -> Result<Vec<Vec<u8>>, Trouble> {
        let mut made = Vec::with_capacity(self.workers.len());
        for worker in &self.workers {
            let worker = lock(worker);
            let all: Table = worker.state.call(Phase::Long, &worker.state.prelude("globals")?, ())?;
            let mut bytes = Vec::new();
            for pair in all.pairs::<Value, Value>() {
                let (name, value) = pair.map_err(|error| Trouble::Script(error.to_string()))?;
                // Values that belong to their state, such as functions, are skipped.
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

    /// Sets the variables of other machines' threads in the states that stand in for them, in order.
    ///
    /// # Errors
    /// The bytes do not come from `globals`.
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
    /// It fails or runs for too long.
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
        let done = self.main.prelude("done")?;
        self.main.call(Phase::Long, &done, arguments)
    }
}

/// Splits requests that were made together.
fn taken_apart(mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        let (request, rest) = bytes.split_at(first_request(bytes)?.length);
        requests.push(request.to_vec());
        bytes = rest;
    }
    Ok(requests)
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
    /// Makes requests in advance until one is known to be the only one that will ever come; returns it, or None.
    fn probe(&mut self) -> Result<Option<Vec<u8>>, Trouble> {
        let probe = self.state.prelude("probe")?;
        for _ in 0..MAX_AHEAD {
            let (request, settled, varied): (mlua::String, bool, bool) = self.state.call(Phase::Long, &probe, ())?;
            let bytes = request.as_bytes().to_vec();
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
        self.state.shared.fail(format!("{}: a request that it made can't be sent: {why}", self.state.name));
    }
}

/// A lock that a panic of another thread does not poison: its value is valid at any time.
fn lock<T: ?Sized>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
