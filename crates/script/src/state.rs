//! One Lua state: opened with all libraries, as wrk does, prepared by the prelude; then the script is run in it.

use crate::guard::{Guard, Phase};
use crate::value::Plain;
use crate::{Given, Interrupted, Trouble, lock};
use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, LuaOptions, StdLib, Table, Value};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PRELUDE: &str = include_str!("prelude.lua");

/// Maximum length of printed text that was not fetched yet.
const MAX_OUTPUT: usize = 8 << 20;

/// A call of `wrk.connect`.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// What the states of one script share.
pub struct Shared {
    output: Mutex<Vec<u8>>,
    /// The first failure during the load.
    pub failure: Mutex<Option<String>>,
    /// Stopped, by worker.
    pub stopped: Vec<AtomicBool>,
    /// Threads by worker, as far as they exist.
    pub states: Mutex<Vec<Lua>>,
    /// Server by worker; None for a unix socket.
    pub addresses: Vec<Mutex<Option<(IpAddr, u16)>>>,
    /// Printed text is dropped now.
    mute: AtomicBool,
    interrupted: Interrupted,
}

impl Shared {
    /// For this many workers, which connect to the same address until the script assigns another.
    pub fn new(workers: usize, address: Option<(IpAddr, u16)>, interrupted: Interrupted) -> Self {
        Self {
            output: Mutex::default(),
            failure: Mutex::default(),
            stopped: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            states: Mutex::default(),
            addresses: (0..workers).map(|_| Mutex::new(address)).collect(),
            mute: AtomicBool::new(false),
            interrupted,
        }
    }

    /// Records why the load ends.
    pub fn fail(&self, why: String) {
        lock(&self.failure).get_or_insert(why);
    }

    /// What was printed since the last call.
    pub fn take_output(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.output))
    }

    /// Runs a function, and drops what it prints if requested.
    pub fn muted<T>(&self, quiet: bool, what: impl FnOnce() -> T) -> T {
        self.mute.store(quiet, Ordering::Relaxed);
        let result = what();
        self.mute.store(false, Ordering::Relaxed);
        result
    }

    fn print(&self, text: &[u8]) {
        if self.mute.load(Ordering::Relaxed) {
            return;
        }
        let mut output = lock(&self.output);
        let room = MAX_OUTPUT.saturating_sub(output.len());
        output.extend_from_slice(&text[..text.len().min(room)]);
    }
}

/// One state, and the functions of the prelude in it.
pub struct State {
    /// The state.
    pub lua: Lua,
    /// The script's name in messages.
    pub name: String,
    /// Shared with the script's other states.
    pub shared: Arc<Shared>,
    guard: Arc<Guard>,
    prelude: Table,
}

impl State {
    /// Opens a state and runs the script in it; `number`: of its worker, 0 for the state of `setup` and `done`.
    ///
    /// # Errors
    /// The script is not valid Lua, fails, or runs for too long.
    pub fn open(given: &Given, number: usize, shared: &Arc<Shared>) -> Result<Self, Trouble> {
        let short = |error: mlua::Error| Trouble::Script(error.to_string());
        let lua = open_all();
        if let Ok(jit) = lua.globals().get::<Table>("jit") {
            let off: Function = jit.get("off").map_err(short)?;
            off.call::<()>(()).map_err(short)?;
        }
        let native = natives(&lua, shared).map_err(short)?;
        let table = described(&lua, given).map_err(short)?;
        let prelude: Table = lua.load(PRELUDE).set_name("=prelude").call((native, table)).map_err(short)?;
        let guard = Guard::over(&lua, Arc::clone(&shared.interrupted)).map_err(short)?;
        let state = Self { lua, name: given.name.clone(), shared: Arc::clone(shared), guard, prelude };
        if number > 0 {
            let begin = state.prelude("begin")?;
            state.call::<()>(Phase::Long, &begin, number)?;
        }
        let script = state.lua.load(&given.source[..]).set_name(format!("@{}", given.name)).into_function();
        let script = script.map_err(|error| state.trouble(&error))?;
        state.call::<()>(Phase::Long, &script, ())?;
        Ok(state)
    }

    /// A function of the prelude.
    ///
    /// # Errors
    /// None that a script could cause.
    pub fn prelude(&self, name: &str) -> Result<Function, Trouble> {
        self.prelude.raw_get(name).map_err(|error| Trouble::Script(error.to_string()))
    }

    /// Calls a function, for as long as it may take.
    ///
    /// # Errors
    /// It fails or takes longer.
    #[inline]
    pub fn call<R: FromLuaMulti>(&self, phase: Phase, f: &Function, with: impl IntoLuaMulti) -> Result<R, Trouble> {
        self.guard.begin(phase);
        f.call(with).map_err(|error| self.trouble(&error))
    }

    #[cold]
    fn trouble(&self, error: &mlua::Error) -> Trouble {
        let mut cause = error;
        while let mlua::Error::CallbackError { cause: inner, .. } = cause {
            cause = inner;
        }
        let text = match cause {
            mlua::Error::RuntimeError(text) => text.clone(),
            mlua::Error::SyntaxError { message, .. } => message.clone(),
            other => other.to_string(),
        };
        let text = text.split("\nstack traceback:").next().unwrap_or_default().trim();
        if text.ends_with(": interrupted") {
            return Trouble::Interrupted;
        }
        let placed = text.starts_with(&self.name) || text.starts_with("...");
        Trouble::Script(if placed { text.to_owned() } else { format!("{}: {text}", self.name) })
    }
}

/// A state with all of Lua's libraries, including `debug`, `ffi` and modules in C, as wrk's scripts expect.
fn open_all() -> Lua {
    // SAFETY: what a script does through `ffi` or a module in C is its user's responsibility, as in wrk; nothing else
    // here is unsound.
    unsafe { Lua::unsafe_new_with(StdLib::ALL, LuaOptions::default()) }
}

fn described(lua: &Lua, given: &Given) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, text) in [("scheme", &given.scheme), ("host", &given.host), ("path", &given.path)] {
        table.raw_set(name, text.as_str())?;
    }
    table.raw_set("method", given.method.as_str())?;
    table.raw_set("port", given.port.as_deref())?;
    table.raw_set("body", given.body.as_ref().map(|body| lua.create_string(body)).transpose()?)?;
    let headers = lua.create_table()?;
    for (name, text) in &given.headers {
        headers.push(lua.create_sequence_from([name.as_str(), text.as_str()])?)?;
    }
    table.raw_set("headers", headers)?;
    Ok(table)
}

/// The functions that the prelude calls.
fn natives(lua: &Lua, script_wide: &Arc<Shared>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let shared = Arc::clone(script_wide);
    let write = lua.create_function(move |_, text: mlua::String| {
        shared.print(&text.as_bytes());
        Ok(())
    })?;
    table.raw_set("write", write)?;
    let shared = Arc::clone(script_wide);
    let get = lua.create_function(move |lua, (number, name): (usize, String)| {
        let other = worker(&shared, number)?;
        let value: Value = other.globals().raw_get(name.as_str())?;
        Plain::of(&value)?.into_lua(lua)
    })?;
    table.raw_set("get", get)?;
    let shared = Arc::clone(script_wide);
    let set = lua.create_function(move |_, (number, name, value): (usize, String, Value)| {
        let other = worker(&shared, number)?;
        let value = Plain::of(&value)?.into_lua(&other)?;
        other.globals().raw_set(name.as_str(), value)
    })?;
    table.raw_set("set", set)?;
    let shared = Arc::clone(script_wide);
    let stop = lua.create_function(move |_, number: usize| {
        if let Some(flag) = number.checked_sub(1).and_then(|index| shared.stopped.get(index)) {
            flag.store(true, Ordering::Relaxed);
        }
        Ok(())
    })?;
    table.raw_set("stop", stop)?;
    let shared = Arc::clone(script_wide);
    let address = lua.create_function(move |_, number: usize| {
        let address = number.checked_sub(1).and_then(|index| shared.addresses.get(index)).and_then(|slot| *lock(slot));
        Ok((address.map(|(host, _)| host.to_string()), address.map(|(_, port)| port)))
    })?;
    table.raw_set("address", address)?;
    let shared = Arc::clone(script_wide);
    let set_address = lua.create_function(move |_, (number, host, port): (usize, String, u16)| {
        let host: IpAddr = host.parse().map_err(|_| mlua::Error::runtime(format!("{host:?} is not an IP address")))?;
        if let Some(slot) = number.checked_sub(1).and_then(|index| shared.addresses.get(index)) {
            *lock(slot) = Some((host, port));
        }
        Ok(())
    })?;
    table.raw_set("set_address", set_address)?;
    table.raw_set("lookup", lua.create_function(|lua, (host, port): (String, String)| lookup(lua, &host, &port))?)?;
    let connect = lua.create_function(|_, (host, port): (String, u16)| {
        let Ok(host) = host.parse::<IpAddr>() else { return Ok(false) };
        Ok(host.is_loopback() && TcpStream::connect_timeout(&(host, port).into(), CONNECT_LIMIT).is_ok())
    })?;
    table.raw_set("connect", connect)?;
    Ok(table)
}

fn worker(shared: &Shared, number: usize) -> mlua::Result<Lua> {
    let states = lock(&shared.states);
    let state = number.checked_sub(1).and_then(|index| states.get(index)).cloned();
    state.ok_or_else(|| mlua::Error::runtime("this thread has no state of its own yet"))
}

/// The loopback addresses that a name resolves to: no other machine is loaded.
fn lookup(lua: &Lua, host: &str, port: &str) -> mlua::Result<Table> {
    let refused = |why: String| mlua::Error::runtime(format!("wrk.lookup({host:?}, {port:?}): {why}"));
    let number = match port {
        "http" => 80,
        "https" => 443,
        digits => digits.parse().map_err(|_| refused("no port; give a number, \"http\" or \"https\"".to_owned()))?,
    };
    let resolved = (host, number).to_socket_addrs().map_err(|error| refused(error.to_string()))?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in resolved {
        if address.ip().is_loopback() && !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    if addresses.is_empty() {
        return Err(refused("not a loopback address; Dragstrip loads only the machine that it runs on".to_owned()));
    }
    let table = lua.create_table()?;
    for address in addresses {
        let pair = lua.create_table()?;
        pair.push(address.to_string())?;
        pair.push(number)?;
        table.push(pair)?;
    }
    Ok(table)
}
