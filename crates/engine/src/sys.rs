//! System calls that std and socket2 lack and that are not I/O: clocks, affinity, usage, limits.
//!
//! Only this file and `io/` have unsafe code; each call passes pointers to local variables of the right type.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// CLOCK_MONOTONIC in ns; through the vDSO, about 20 ns per call.
#[inline]
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Whether this process is in a time namespace whose CLOCK_MONOTONIC differs from the host's, as in a restored
/// container.
///
/// io_uring interprets points in time by the host's clock (Linux 6.18), so an alarm would go off days late there.
pub fn clock_is_shifted() -> bool {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let monotonic = offsets.lines().find_map(|line| line.strip_prefix("monotonic"));
    monotonic.is_some_and(|offset| offset.split_whitespace().any(|part| part != "0"))
}

/// CLOCK_REALTIME in ns: the clock of the kernel's timestamps.
#[inline]
pub fn real_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of a process so far, ns, its ended threads included; None: it has ended. Any user's process can be read.
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both outlive the calls.
    let read = unsafe { libc::clock_getcpuclockid(pid, &mut clock) == 0 && libc::clock_gettime(clock, &mut time) == 0 };
    read.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call; both clocks exist on every Linux, so it can't fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Prefetches this memory into the processor's caches: a hint, without other effects.
#[inline]
pub fn prefetch<T: ?Sized>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of_val(what)).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: within what the reference is to; and nothing is read, or written.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast::<i8>().add(at)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}

/// Pins the calling thread to one core.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: an all-zero cpu_set_t is the empty set; `core` is within it; the set outlives the call.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Timers of the calling thread go off when due, not up to 50 µs later.
pub fn sharp_timers() {
    // SAFETY: no pointer is passed; failing (it can't, on Linux) would only make waits coarser.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

/// Involuntary context switches of the calling thread so far.
pub fn thread_switches() -> u64 {
    // SAFETY: an all-zero rusage is valid; it outlives the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    usage.ru_nivcsw as u64
}

/// Makes room for `needed` more descriptors; raises the soft limit only if it is too low.
///
/// # Errors
/// `(open, hard limit)`: even the hard limit is too low.
pub fn make_room(needed: u64) -> Result<(), (u64, u64)> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(64, |entries| entries.count() as u64);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 || open + needed <= limit.rlim_cur {
        return Ok(());
    }
    if open + needed > limit.rlim_max {
        return Err((open, limit.rlim_max));
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(()),
        _ => Err((open, limit.rlim_max)),
    }
}

/// Nanoseconds per step of `/proc/stat`.
pub fn tick_ns() -> u64 {
    // SAFETY: no pointer is passed.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / per_second.max(1) as u64
}

/// A network namespace, and the one that this process lives in.
///
/// A socket belongs to the namespace that its thread was in when it was made, for as long as it is open. So only making
/// it needs to be there: two system calls, about 2 µs for each connection, and none for each request.
#[derive(Debug)]
pub struct NetworkNamespace {
    path: PathBuf,
    there: File,
    here: File,
}

impl PartialEq for NetworkNamespace {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for NetworkNamespace {}

impl NetworkNamespace {
    /// Opens a namespace by a path like `/proc/PID/ns/net`. It lives as long as this value.
    ///
    /// # Errors
    /// The kernel's error: the process does not exist, or it is another user's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let here = File::open("/proc/thread-self/ns/net")?;
        enter(here.as_fd())?; // whoever may not enter its own could not return to it
        Ok(Self { path: path.to_owned(), there: File::open(path)?, here })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does something in the namespace, on the calling thread, and returns.
    ///
    /// # Errors
    /// The kernel's error; PermissionDenied: this process may not enter it.
    pub fn within<T>(&self, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        enter(self.there.as_fd())?;
        let made = make();
        // A thread that stayed would load another server's namespace: nothing that it counts could be trusted.
        enter(self.here.as_fd()).expect("a thread may return to the network namespace that it came from");
        made
    }
}

fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointer is passed; the descriptor is open. It changes the calling thread alone.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
