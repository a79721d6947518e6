//! System calls of running processes by name, counted by tracing them, for users who may not use kernel counters.
//!
//! Each call stops its thread twice, so the server is several times slower while it is traced: how often it waits is
//! then another number than without.

use crate::calls::Calls;
use crate::sampler::{ProfileError, threads_of};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use syscalls::Sysno;

/// The kernel's numbers (linux/ptrace.h), which not every C library has.
const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
const ENTRY: u8 = 1;
const EVENT_STOP: i32 = 128;

/// Where `struct ptrace_syscall_info` has the kind of stop and the call's number, and how much of it is read.
const KIND_AT: usize = 0;
const NUMBER_AT: usize = 24;
const INFO_BYTES: usize = 88;

/// New threads and processes are traced, too, and a call's stop differs from a signal's.
const OPTIONS: i32 =
    libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;

/// The pause when no thread has stopped, and the longest time to let all threads go.
const PAUSE: Duration = Duration::from_micros(50);
const LET_GO: Duration = Duration::from_secs(2);

/// Tracing in progress, in a thread of its own: only the thread that traces may do it.
#[derive(Debug)]
pub struct CallTracer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<u64, u64>>,
}

impl CallTracer {
    /// Traces all threads of these processes, and those that they start later.
    ///
    /// # Errors
    /// [`ProfileError`]: the kernel refuses, or all threads have ended.
    pub fn start(pids: &[u32]) -> Result<Self, ProfileError> {
        let (pids, stop) = (pids.to_vec(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let (ready, started) = channel();
        let thread = thread::spawn(move || trace(&pids, &stopped, &ready));
        match started.recv() {
            Ok(Ok(())) => Ok(Self { stop, thread }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ProfileError::Ended),
        }
    }

    /// Lets all threads go, and returns the calls that they made since.
    pub fn stop(self) -> Calls {
        self.stop.store(true, Ordering::Release);
        let counts = self.thread.join().unwrap_or_default();
        let name = |number: u64| usize::try_from(number).ok().and_then(Sysno::new).map(|call| call.name().to_owned());
        Calls {
            total: counts.values().sum(),
            named: counts.into_iter().filter_map(|(number, count)| Some((name(number)?, count))).collect(),
        }
    }
}

/// One `ptrace` request.
fn request(request: libc::c_uint, thread: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests used here read or write no memory of this process, except by `info`, which passes its own.
    let outcome = unsafe { libc::ptrace(request as _, thread, address, data) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn trace(pids: &[u32], stop: &AtomicBool, ready: &Sender<Result<(), ProfileError>>) -> BTreeMap<u64, u64> {
    let mut threads = BTreeSet::new();
    let outcome = match seize_all(pids, &mut threads) {
        Ok(()) if threads.is_empty() => Err(ProfileError::Ended),
        seized => seized.map_err(ProfileError::Untraced),
    };
    // Where one thread is refused, the kernel lets the others go when this thread ends.
    let failed = outcome.is_err();
    if ready.send(outcome).is_err() || failed {
        return BTreeMap::new();
    }
    let mut counts = BTreeMap::new();
    while !stop.load(Ordering::Acquire) {
        match next_stop() {
            Ok(Some(stopped)) => stopped.go_on(&mut threads, &mut counts),
            Ok(None) => thread::sleep(PAUSE),
            Err(_) => return counts, // no thread is left
        }
    }
    let until = Instant::now() + LET_GO;
    threads.retain(|&thread| request(libc::PTRACE_INTERRUPT as _, thread, 0, 0).is_ok());
    while !threads.is_empty() && Instant::now() < until {
        match next_stop() {
            Ok(Some(stopped)) => stopped.let_go(&mut threads),
            Ok(None) => thread::sleep(PAUSE),
            Err(_) => break,
        }
    }
    counts
}

/// Attaches to every thread, until no new thread appears.
fn seize_all(pids: &[u32], threads: &mut BTreeSet<i32>) -> io::Result<()> {
    loop {
        let listed: BTreeSet<i32> = pids.iter().flat_map(|&pid| threads_of(pid)).map(|thread| thread as i32).collect();
        let mut added = false;
        for &thread in listed.difference(&threads.clone()) {
            let seized = request(libc::PTRACE_SEIZE as _, thread, 0, OPTIONS as usize);
            // A new thread may have been attached already, as its creator was.
            match seized.and_then(|()| request(libc::PTRACE_INTERRUPT as _, thread, 0, 0)) {
                Ok(()) => added |= threads.insert(thread),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) if error.raw_os_error() == Some(libc::EPERM) && !threads.is_empty() => {
                    added |= threads.insert(thread);
                }
                Err(error) => return Err(error),
            }
        }
        if !added {
            return Ok(());
        }
    }
}

/// A traced thread that has stopped: the signal, and the event in the bits above it.
struct Stopped {
    thread: i32,
    signal: i32,
    event: i32,
}

/// A thread of this tracer that has stopped; None if all run, an error if none is left. Ends of processes are left to
/// their parents.
fn next_stop() -> io::Result<Option<Stopped>> {
    // SAFETY: all bits zero are a valid siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WSTOPPED | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: `info` is a whole structure that the kernel fills in.
    if unsafe { libc::waitid(libc::P_ALL, 0, &mut info, options) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled in the fields of a child's change, or left zeros.
    let (thread, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((thread != 0).then_some(Stopped { thread, signal: status & 0xff, event: status >> 8 }))
}

impl Stopped {
    /// Counts a call that begins, and lets the thread run to its next stop.
    fn go_on(&self, threads: &mut BTreeSet<i32>, counts: &mut BTreeMap<u64, u64>) {
        threads.insert(self.thread);
        if self.is_group_stop() {
            let _ = request(libc::PTRACE_LISTEN as _, self.thread, 0, 0);
            return;
        }
        if self.is_call()
            && let Some(number) = entered(self.thread)
        {
            *counts.entry(number).or_default() += 1;
        }
        // An error means that the thread has been killed.
        let _ = request(libc::PTRACE_SYSCALL as _, self.thread, 0, self.delivered());
    }

    /// Detaches from the thread.
    fn let_go(&self, threads: &mut BTreeSet<i32>) {
        threads.remove(&self.thread);
        let _ = request(libc::PTRACE_DETACH as _, self.thread, 0, self.delivered());
    }

    fn is_call(&self) -> bool {
        self.event == 0 && self.signal == libc::SIGTRAP | 0x80
    }

    /// A signal such as SIGSTOP has stopped the whole process, which stays so.
    fn is_group_stop(&self) -> bool {
        self.event == EVENT_STOP && self.signal != libc::SIGTRAP
    }

    /// The signal that was on its way to the thread.
    fn delivered(&self) -> usize {
        if self.event == 0 && !self.is_call() { self.signal as usize } else { 0 }
    }
}

/// The number of the call that a stopped thread is about to make; None if it returns from a call.
fn entered(thread: i32) -> Option<u64> {
    let mut info = [0_u8; INFO_BYTES];
    request(GET_SYSCALL_INFO, thread, INFO_BYTES, info.as_mut_ptr() as usize).ok()?;
    let number = info[NUMBER_AT..NUMBER_AT + 8].try_into().map(u64::from_ne_bytes).ok()?;
    (info[KIND_AT] == ENTRY).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn calls_of_a_process_are_counted_by_name() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        let mut echoed = |times| {
            for _ in 0..times {
                input.write_all(b"x").unwrap();
                output.read_exact(&mut [0]).unwrap();
            }
        };
        echoed(1);
        match CallTracer::start(&[cat.id()]) {
            Ok(tracer) => {
                echoed(50);
                let calls = tracer.stop();
                let count = |name| calls.named.iter().find(|(named, _)| named == name).map_or(0, |(_, count)| *count);
                assert_eq!(count("write"), 50, "{calls:?}");
                // It waits in the first call when tracing begins, and tracing may end before the last call.
                assert!((49..=52).contains(&count("read")), "{calls:?}");
            }
            Err(refused) => assert!(refused.to_string().contains("ptrace_scope"), "{refused}"),
        }
        echoed(3); // it runs on
        drop(input);
        assert!(cat.wait().unwrap().success());
    }
}
