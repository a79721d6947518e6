//! Opens events of the kernel: samples, one event for each thread and core; and counts, one for each thread.

use perf_event_open_sys as sys;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use sys::bindings as perf;

/// Samples per second of CPU time; a prime, so that it keeps no step with other clocks. Each costs the server some 50 µs
/// on a virtual machine, most of it the interrupt itself.
pub const RATE_HZ: u64 = 499;

/// Bytes of the user's stack in each sample.
pub const STACK_BYTES: u32 = 16 * 1024;

/// The registers that unwinding needs, as bits of the kernel's register numbers, in the order in which they are written.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8; // bp, sp, ip
#[cfg(target_arch = "aarch64")]
const REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32; // x29, lr, sp, pc

/// One open event; closing its file ends it.
#[derive(Debug)]
pub struct Event(File);

impl Event {
    /// Opens an event that samples stacks of a thread on a core, and of the threads that it starts; it waits for
    /// `enable`.
    ///
    /// # Errors
    /// The kernel's: without privilege `kernel` is refused, and any event may be.
    pub fn sampling(thread: u32, core: u32, kernel: bool) -> io::Result<Self> {
        let mut attr = perf::perf_event_attr {
            type_: perf::PERF_TYPE_SOFTWARE,
            config: u64::from(perf::PERF_COUNT_SW_CPU_CLOCK),
            sample_type: u64::from(
                perf::PERF_SAMPLE_TID
                    | perf::PERF_SAMPLE_CALLCHAIN
                    | perf::PERF_SAMPLE_REGS_USER
                    | perf::PERF_SAMPLE_STACK_USER,
            ),
            sample_regs_user: REGISTERS,
            sample_stack_user: STACK_BYTES,
            ..Default::default()
        };
        attr.__bindgen_anon_1.sample_freq = RATE_HZ;
        attr.set_freq(1);
        attr.set_exclude_kernel(u64::from(!kernel));
        attr.set_exclude_callchain_kernel(u64::from(!kernel));
        attr.set_task(1); // new processes
        attr.set_comm(1); // new programs
        attr.set_comm_exec(1);
        Self::open(attr, thread, Some(core))
    }

    /// Opens an event that hands over each occurrence of a tracepoint in a thread on a core, with its fields.
    ///
    /// # Errors
    /// The kernel's: it needs a privilege.
    pub fn each(tracepoint: u64, thread: u32, core: u32) -> io::Result<Self> {
        let mut attr = perf::perf_event_attr {
            type_: perf::PERF_TYPE_TRACEPOINT,
            config: tracepoint,
            sample_type: u64::from(perf::PERF_SAMPLE_RAW),
            ..Default::default()
        };
        attr.__bindgen_anon_1.sample_period = 1;
        Self::open(attr, thread, Some(core))
    }

    /// Opens an event that counts a tracepoint in a thread, and in the threads that it starts.
    ///
    /// # Errors
    /// The kernel's: it needs a privilege.
    pub fn counting(tracepoint: u64, thread: u32) -> io::Result<Self> {
        let attr =
            perf::perf_event_attr { type_: perf::PERF_TYPE_TRACEPOINT, config: tracepoint, ..Default::default() };
        Self::open(attr, thread, None)
    }

    fn open(mut attr: perf::perf_event_attr, thread: u32, core: Option<u32>) -> io::Result<Self> {
        attr.size = size_of::<perf::perf_event_attr>() as u32;
        attr.set_disabled(1);
        attr.set_inherit(1);
        attr.set_exclude_hv(1);
        let core = core.map_or(-1, |core| core as i32);
        // SAFETY: `attr` is a whole structure with its own size, which the kernel only reads.
        let number =
            unsafe { sys::perf_event_open(&mut attr, thread as i32, core, -1, u64::from(perf::PERF_FLAG_FD_CLOEXEC)) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        Ok(Self(unsafe { File::from_raw_fd(number) }))
    }

    /// How often it occurred so far, in all of its threads.
    ///
    /// # Errors
    /// The kernel's.
    pub fn count(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        (&self.0).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// The event's descriptor, for its ring.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Writes this event's samples into the ring of another event on the same core.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write_into(&self, other: &Self) -> io::Result<()> {
        // SAFETY: both descriptors are open events.
        self.checked(unsafe { sys::ioctls::SET_OUTPUT(self.0.as_raw_fd(), other.0.as_raw_fd()) })
    }

    /// Starts sampling or counting.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is an open event.
        self.checked(unsafe { sys::ioctls::ENABLE(self.0.as_raw_fd(), 0) })
    }

    /// Ends sampling or counting.
    ///
    /// # Errors
    /// The kernel's.
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is an open event.
        self.checked(unsafe { sys::ioctls::DISABLE(self.0.as_raw_fd(), 0) })
    }

    fn checked(&self, outcome: i32) -> io::Result<()> {
        if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
