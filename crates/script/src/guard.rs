//! Limits how long a function of a script may run: a hook reads the clock at regular numbers of instructions.

use crate::Interrupted;
use mlua::{Debug, HookTriggers, Lua, VmState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Instructions between two readings: a millisecond's work at most.
const INSTRUCTIONS: u32 = 10_000;

/// What the script is doing, which determines how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before and after the load: the script itself, `setup`, `init`, `done`.
    Long,
    /// During the load: `request`, `delay`, `response`.
    Short,
}

impl Phase {
    fn limit(self) -> Duration {
        Duration::from_secs(if self == Self::Long { 10 } else { 1 })
    }
}

/// The limit of one state. A call costs two stores; only the hook reads the clock.
pub struct Guard {
    /// Counts calls: twice their number, plus one in [`Phase::Long`].
    call: AtomicU64,
    /// The call that the hook saw last, and when.
    met: Mutex<(u64, Instant)>,
    interrupted: Interrupted,
}

impl Guard {
    /// Begins to guard a state.
    ///
    /// # Errors
    /// The state has no memory left.
    pub fn over(lua: &Lua, interrupted: Interrupted) -> mlua::Result<Arc<Self>> {
        let guard = Arc::new(Self { call: AtomicU64::new(0), met: Mutex::new((0, Instant::now())), interrupted });
        let hooked = Arc::clone(&guard);
        let every = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
        lua.set_global_hook(every, move |lua, debug| hooked.look(lua, debug))?;
        // A hook that is set for future coroutines is set for the state itself, too.
        Ok(guard)
    }

    /// A function is called.
    pub fn begin(&self, phase: Phase) {
        let number = self.call.load(Ordering::Relaxed) / 2 + 1;
        self.call.store(2 * number + u64::from(phase == Phase::Long), Ordering::Relaxed);
    }

    fn look(&self, lua: &Lua, debug: &Debug) -> mlua::Result<VmState> {
        let call = self.call.load(Ordering::Relaxed);
        let phase = if call % 2 == 1 { Phase::Long } else { Phase::Short };
        let spent = {
            let mut met = crate::lock(&self.met);
            if met.0 != call {
                *met = (call, Instant::now());
            }
            met.1.elapsed()
        };
        let ended = if phase == Phase::Long && (self.interrupted)() {
            "interrupted".to_owned()
        } else if spent > phase.limit() {
            format!("ran for more than {} s and was ended; a function of a script must return", phase.limit().as_secs())
        } else {
            return Ok(VmState::Continue);
        };
        let place = debug.source().short_src.unwrap_or_default().into_owned();
        let why = format!("{place}:{}: {ended}", debug.current_line().unwrap_or(0));
        // A script that catches errors must not catch this one forever.
        let again = why.clone();
        let each = HookTriggers::new().every_nth_instruction(1);
        lua.set_global_hook(each, move |_, _| Err(mlua::Error::runtime(again.clone())))?;
        Err(mlua::Error::runtime(why))
    }
}
