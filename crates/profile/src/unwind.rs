//! The user's part of a stack: by unwind tables, or by frame pointers, whichever reaches the root.

use crate::modules;
use crate::record::Sample;
use crate::trampoline::Code;
use framehop::{CacheNative, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder};
use std::collections::HashMap;
use std::ops::Range;

/// How many registers a sample has.
#[cfg(target_arch = "x86_64")]
pub const REGISTERS: usize = 3;
#[cfg(target_arch = "aarch64")]
pub const REGISTERS: usize = 4;

/// Frames that are followed at most.
const MAX_FRAMES: usize = 256;

/// A chain of addresses, the innermost first, each inside its instruction; and whether the root was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    pub addresses: Vec<u64>,
    pub rooted: bool,
}

/// Unwinds the samples of several processes.
#[derive(Default)]
pub struct Unwinding {
    cache: CacheNative<MayAllocateDuringUnwind>,
    processes: HashMap<u32, Process>,
}

/// What is known of one process.
struct Process {
    unwinder: modules::ModuleUnwinder,
    modules: Vec<Range<u64>>,
    code: Code,
}

impl Process {
    fn of(pid: u32) -> Self {
        let (unwinder, modules) = modules::unwinder_of(pid);
        Self { unwinder, modules, code: Code::of(pid) }
    }

    /// Whether an address is in a program or a library.
    fn is_in_module(&self, address: u64) -> bool {
        self.modules.iter().any(|module| module.contains(&address))
    }

    /// Whether a return address is in a trampoline; these are in no module.
    fn is_trampoline(&mut self, address: FrameAddress) -> bool {
        let at = address.address();
        address.is_return_address() && !self.is_in_module(at) && self.code.is_trampoline(at)
    }
}

impl Unwinding {
    /// The user's chain of a sample; empty if the thread has no user part.
    pub fn chain(&mut self, sample: &Sample) -> Chain {
        let pointers = by_frame_pointers(sample);
        let tables = self.by_tables(sample);
        if tables.rooted || tables.addresses.len() >= pointers.addresses.len() { tables } else { pointers }
    }

    fn by_tables(&mut self, sample: &Sample) -> Chain {
        let mut chain = Chain::default();
        let Some((pc, sp, registers)) = registers(sample) else { return chain };
        let process = self.processes.entry(sample.pid).or_insert_with(|| Process::of(sample.pid));
        let mut registers = registers;
        let mut read = |address: u64| {
            let at = address.checked_sub(sp).and_then(|at| usize::try_from(at).ok()).ok_or(())?;
            let bytes = sample.stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            bytes.try_into().map(u64::from_ne_bytes).map_err(|_| ())
        };
        let mut address = FrameAddress::from_instruction_pointer(pc);
        while chain.addresses.len() < MAX_FRAMES {
            chain.addresses.push(address.address_for_lookup());
            let caller = if process.is_trampoline(address) {
                leave_trampoline(&mut registers, &mut read)
            } else {
                let unwinder = &process.unwinder;
                unwinder.unwind_frame(address, &mut registers, &mut self.cache, &mut read).map_err(|_| ())
            };
            match caller.map(|caller| caller.map(FrameAddress::from_return_address)) {
                Ok(Some(Some(caller))) => address = caller,
                Ok(None) => {
                    // Compiled code may have a zero where the frame pointer of a stack's first frame has it.
                    chain.rooted = process.is_in_module(address.address_for_lookup());
                    break;
                }
                Ok(Some(None)) | Err(()) => break,
            }
        }
        chain
    }
}

/// Steps from a trampoline, which saved nothing but its caller's address, to that caller.
#[cfg(target_arch = "x86_64")]
fn leave_trampoline(
    registers: &mut UnwindRegsNative,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Result<Option<u64>, ()> {
    let caller = read(registers.sp() + 8)?;
    registers.set_sp(registers.sp() + 16);
    registers.set_ip(caller);
    Ok(Some(caller))
}

#[cfg(target_arch = "aarch64")]
fn leave_trampoline(_: &mut UnwindRegsNative, _: &mut impl FnMut(u64) -> Result<u64, ()>) -> Result<Option<u64>, ()> {
    Err(()) // its trampolines have frame pointers, so none is ever recognized
}

#[cfg(target_arch = "x86_64")]
fn registers(sample: &Sample) -> Option<(u64, u64, UnwindRegsNative)> {
    let &[bp, sp, ip] = sample.registers.as_slice() else { return None };
    Some((ip, sp, UnwindRegsNative::new(ip, sp, bp)))
}

#[cfg(target_arch = "aarch64")]
fn registers(sample: &Sample) -> Option<(u64, u64, UnwindRegsNative)> {
    let &[fp, lr, sp, pc] = sample.registers.as_slice() else { return None };
    Some((pc, sp, UnwindRegsNative::new(lr, sp, fp)))
}

/// The kernel's chain; whether it reached the root is known once its outermost function has a name.
fn by_frame_pointers(sample: &Sample) -> Chain {
    // All but the innermost are return addresses, behind the call that they belong to.
    let addresses = sample.user.iter().enumerate().map(|(at, &address)| address - u64::from(at > 0 && address > 0));
    Chain { addresses: addresses.collect(), rooted: false }
}
