//! Samples the stacks of running processes, and unwinds and names them; and counts their system calls by name.
//!
//! A clock of the kernel (`cpu-clock` of perf_event_open(2)) interrupts each thread of the processes some 500 times per
//! second of its CPU time. It needs no hardware counter, so it also works on virtual machines. Each sample
//! has the kernel's own chain of return addresses, by frame pointers, and the user's registers and a piece of its
//! stack, from which `framehop` unwinds by the programs' unwind tables. Neither works for all runtimes: the chain that
//! reaches the root of the stack wins, otherwise the longer one.
//!
//! Names come from symbol tables, from the kernel's, and from the maps that just-in-time compilers write
//! (`/tmp/perf-PID.map`). An address without a symbol stays without a name.
//!
//! System calls are counted by the kernel's own tracepoints, which costs the server next to nothing and needs root; or,
//! for any user, by tracing (ptrace(2)), which slows the server down.

mod calls;
mod event;
mod modules;
mod record;
mod ring;
mod sampler;
mod symbols;
mod tracefs;
mod tracer;
mod trampoline;
mod unwind;

pub use calls::{CallCounter, Calls};
pub use sampler::{ProfileError, Sampler, Stack, Stacks};
pub use symbols::{Frame, Place};
pub use tracer::CallTracer;
