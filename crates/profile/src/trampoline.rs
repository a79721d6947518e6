//! CPython's trampolines: small compiled functions, one for each Python function, which only call the interpreter.
//!
//! `PYTHONPERFSUPPORT=1` (Python 3.12 and later) writes their names into a perf map. They have neither unwind tables nor
//! frame pointers on x86-64, but each is the same few instructions. So they are recognized by what follows the call.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// What follows the call: `add rsp, 8; ret`.
const AFTER_CALL: [u8; 5] = [0x48, 0x83, 0xc4, 0x08, 0xc3];

/// A process's code, read from its memory.
pub struct Code {
    memory: Option<File>,
    known: HashMap<u64, bool>,
}

impl Code {
    /// The code of a process that still runs; without permission to read it nothing is a trampoline.
    pub fn of(pid: u32) -> Self {
        Self { memory: File::open(format!("/proc/{pid}/mem")).ok(), known: HashMap::new() }
    }

    /// Whether a return address is in a trampoline.
    pub fn is_trampoline(&mut self, address: u64) -> bool {
        let Some(memory) = self.memory.as_ref().filter(|_| cfg!(target_arch = "x86_64")) else { return false };
        *self.known.entry(address).or_insert_with(|| {
            let mut bytes = [0; AFTER_CALL.len()];
            memory.read_exact_at(&mut bytes, address).is_ok() && bytes == AFTER_CALL
        })
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_trampoline_is_recognized_by_what_follows_its_call() {
        let code: [u8; 16] = [0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90];
        let at = code.as_ptr() as u64;
        let mut process = Code::of(std::process::id());
        assert!(process.is_trampoline(at + 6));
        assert!(!process.is_trampoline(at));
        assert!(!process.is_trampoline(8));
    }
}
