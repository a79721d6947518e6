//! The user's part of a stack: by unwind tables, or by frame pointers, whichever reaches the root.

use crate::modules::{self, ModuleUnwinder};
use crate::record::Sample;
use framehop::{CacheNative, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder};
use std::collections::HashMap;

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
    processes: HashMap<u32, ModuleUnwinder>,
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
        let unwinder = self.processes.entry(sample.pid).or_insert_with(|| modules::unwinder_of(sample.pid));
        let mut read = |address: u64| {
            let at = address.checked_sub(sp).and_then(|at| usize::try_from(at).ok()).ok_or(())?;
            let bytes = sample.stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            bytes.try_into().map(u64::from_ne_bytes).map_err(|_| ())
        };
        let mut frames = unwinder.iter_frames(pc, registers, &mut self.cache, &mut read);
        while chain.addresses.len() < MAX_FRAMES {
            match frames.next() {
                Ok(Some(frame)) => chain.addresses.push(frame.address_for_lookup()),
                Ok(None) => {
                    chain.rooted = true;
                    break;
                }
                Err(_) => break,
            }
        }
        chain
    }
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
