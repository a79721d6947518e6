//! A run of samples over some processes: started, stopped, unwound and named.

use crate::event::Event;
use crate::record::{self, Record, Sample};
use crate::ring::Ring;
use crate::symbols::Names;
use crate::unwind::{Chain, REGISTERS, Unwinding};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the rings are emptied: an ordinary user's smallest ring holds this many milliseconds of samples.
const PAUSE: Duration = Duration::from_millis(5);

/// Functions in which a thread begins.
const ROOTS: [&str; 12] = [
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "__libc_start_main_impl",
    "__clone",
    "__clone3",
    "clone",
    "clone3",
    "start_thread",
    // Of Go: a goroutine, a thread, and the scheduler's own stack, which the goroutine's does not continue.
    "runtime.goexit",
    "runtime.mstart",
    "runtime.mcall",
];

/// Where a frame's code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In the kernel.
    Kernel,
    /// In a program or a library.
    User,
    /// In memory that no file is behind: code that a runtime compiled.
    Compiled,
}

/// One frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Where its code is.
    pub place: Place,
    /// Path of its program or library; empty in the kernel and for compiled code.
    pub module: String,
    /// Its function; empty if no symbol covers the address.
    pub name: String,
}

/// A stack and how many samples had it; the innermost frame is first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The frames.
    pub frames: Vec<Frame>,
    /// How many samples had exactly these.
    pub samples: u64,
}

/// All stacks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// Different stacks.
    pub stacks: Vec<Stack>,
    /// Samples in all stacks.
    pub samples: u64,
    /// Samples with a user part, and how many of these have a chain that reached the root.
    pub user_samples: u64,
    /// See `user_samples`.
    pub rooted: u64,
    /// Records that the kernel could not write, because a ring was full.
    pub lost: u64,
    /// Whether the kernel's part was sampled, too.
    pub kernel: bool,
}

/// Why there are no samples, or no counts.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The kernel refuses the event.
    #[error("the kernel refuses to sample ({0}); see /proc/sys/kernel/perf_event_paranoid")]
    Refused(#[source] io::Error),
    /// The kernel does not show the numbers of its events.
    #[error("the kernel's events can't be read ({0}); they need root")]
    Unlisted(#[source] io::Error),
    /// The kernel refuses to count an event.
    #[error("the kernel refuses to count system calls ({0}); it needs root or CAP_PERFMON")]
    Uncounted(#[source] io::Error),
    /// The kernel refuses to trace a thread.
    #[error("the kernel refuses to trace it ({0}); see /proc/sys/kernel/yama/ptrace_scope")]
    Untraced(#[source] io::Error),
    /// No thread of the processes is left.
    #[error("none of its threads is left; it has ended")]
    Ended,
}

/// Samples in progress.
#[derive(Debug)]
pub struct Sampler {
    events: Vec<Event>,
    stop: Arc<AtomicBool>,
    reader: JoinHandle<(Vec<Sample>, u64)>,
    kernel: bool,
}

impl Sampler {
    /// Starts sampling every thread of these processes on these cores, and threads that they start later.
    ///
    /// # Errors
    /// [`ProfileError`]: the kernel refuses even the user's part, or all threads have ended.
    pub fn start(pids: &[u32], cores: &[u32]) -> Result<Self, ProfileError> {
        let threads: Vec<u32> = pids.iter().flat_map(|&pid| threads_of(pid)).collect();
        let (events, rings, kernel) =
            match open_all(&threads, cores, |thread, core| Event::sampling(thread, core, true)) {
                Ok((events, rings)) => (events, rings, true),
                Err(error) if is_forbidden(&error) => {
                    let user = |thread, core| Event::sampling(thread, core, false);
                    let (events, rings) = open_all(&threads, cores, user).map_err(ProfileError::Refused)?;
                    (events, rings, false)
                }
                Err(error) => return Err(ProfileError::Refused(error)),
            };
        if events.is_empty() {
            return Err(ProfileError::Ended);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = thread::spawn(move || read_until(rings, &stopped));
        for event in &events {
            event.enable().map_err(ProfileError::Refused)?;
        }
        Ok(Self { events, stop, reader, kernel })
    }

    /// Ends sampling, and unwinds and names all samples. The processes must still run.
    pub fn stop(self) -> Stacks {
        for event in &self.events {
            let _ = event.disable(); // closing it below ends it as well
        }
        self.stop.store(true, Ordering::Release);
        let (samples, lost) = self.reader.join().unwrap_or_default();
        drop(self.events);
        Stacks { lost, kernel: self.kernel, ..named(&samples) }
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

pub(crate) fn threads_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// Opens an event for each thread on each core; all of a core write into one ring. Threads that have ended are left out.
pub(crate) fn open_all(
    threads: &[u32],
    cores: &[u32],
    open: impl Fn(u32, u32) -> io::Result<Event>,
) -> io::Result<(Vec<Event>, Vec<Ring>)> {
    let (mut events, mut rings) = (Vec::<Event>::new(), Vec::new());
    for &core in cores {
        let mut first: Option<usize> = None;
        for &thread in threads {
            let event = match open(thread, core) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                opened => opened?,
            };
            match first {
                None => {
                    rings.push(Ring::map(event.file())?);
                    first = Some(events.len());
                }
                Some(at) => event.write_into(&events[at])?,
            }
            events.push(event);
        }
    }
    Ok((events, rings))
}

fn read_until(mut rings: Vec<Ring>, stop: &AtomicBool) -> (Vec<Sample>, u64) {
    let (mut samples, mut lost) = (Vec::new(), 0);
    loop {
        let last = stop.load(Ordering::Acquire);
        for ring in &mut rings {
            ring.drain(|bytes| match record::parse(bytes, REGISTERS) {
                Record::Sample(sample) => samples.push(sample),
                Record::Lost(count) => lost += count,
                Record::Other => {}
            });
        }
        if last {
            return (samples, lost);
        }
        thread::sleep(PAUSE);
    }
}

/// Whether a stack's outermost frame is where a program or a thread begins. Where the C library has no symbol for
/// that, it is the library's frame from which the program was called.
fn begins_at_root(frames: &[Frame]) -> bool {
    let of_library = |frame: &Frame| {
        let file = frame.module.rsplit('/').next().unwrap_or_default();
        ["libc.", "libc-", "libpthread", "ld-musl"].iter().any(|start| file.starts_with(start))
    };
    match frames {
        [.., inner, outer] if outer.name.is_empty() => of_library(outer) && !of_library(inner),
        [.., outer] => ROOTS.contains(&outer.name.trim_end_matches(".abi0")),
        [] => false,
    }
}

/// Unwinds, names and counts.
fn named(samples: &[Sample]) -> Stacks {
    let mut unwinding = Unwinding::default();
    let chains: Vec<Chain> = samples.iter().map(|sample| unwinding.chain(sample)).collect();
    let mut addresses: HashMap<Option<u32>, BTreeSet<u64>> = HashMap::new();
    for (sample, chain) in samples.iter().zip(&chains) {
        addresses.entry(None).or_default().extend(&sample.kernel);
        addresses.entry(Some(sample.pid)).or_default().extend(&chain.addresses);
    }
    let names = Names::of(&addresses);
    let mut counts: HashMap<Vec<Frame>, u64> = HashMap::new();
    let mut made = Stacks::default();
    for (sample, chain) in samples.iter().zip(&chains) {
        let kernel = sample.kernel.iter().map(|&address| names.frame(None, address));
        let user = chain.addresses.iter().map(|&address| names.frame(Some(sample.pid), address));
        let frames: Vec<Frame> = kernel.chain(user).collect();
        if !chain.addresses.is_empty() {
            made.user_samples += 1;
            made.rooted += u64::from(chain.rooted || begins_at_root(&frames));
        }
        made.samples += 1;
        *counts.entry(frames).or_default() += 1;
    }
    made.stacks = counts.into_iter().map(|(frames, samples)| Stack { frames, samples }).collect();
    made.stacks.sort_by(|one, other| other.samples.cmp(&one.samples).then_with(|| one.frames.cmp(&other.frames)));
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    fn frame(module: &str, name: &str) -> Frame {
        Frame { place: Place::User, module: module.into(), name: name.into() }
    }

    #[test]
    fn a_stack_begins_at_its_root_only_where_a_program_or_a_thread_does() {
        let inner = frame("/usr/bin/node", "node::Start");
        assert!(begins_at_root(&[inner.clone(), frame("/usr/bin/node", "_start")]));
        assert!(begins_at_root(&[inner.clone(), frame("/lib/libc.so.6", "")]));
        assert!(begins_at_root(&[inner.clone(), frame("/srv/app", "runtime.goexit.abi0")]));
        assert!(!begins_at_root(&[frame("/lib/libc.so.6", "recv"), frame("/lib/libc.so.6", "")]));
        assert!(!begins_at_root(&[frame("/lib/libc.so.6", "recv"), inner]));
        assert!(!begins_at_root(&[]));
    }

    #[inline(never)]
    fn planted(stop: &AtomicBool) -> u64 {
        let mut sum = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            sum = black_box(sum.wrapping_mul(3).wrapping_add(1));
        }
        sum
    }

    #[test]
    fn a_function_of_this_process_is_found_with_its_stack() {
        // In a container the kernel may refuse every event; then the reason has to say so.
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let worker = thread::spawn(move || planted(&stopped));
        let cores: Vec<u32> = (0..thread::available_parallelism().map_or(1, |count| count.get() as u32)).collect();
        match Sampler::start(&[std::process::id()], &cores) {
            Ok(sampler) => {
                thread::sleep(Duration::from_millis(300));
                let stacks = sampler.stop();
                stop.store(true, Ordering::Relaxed);
                let named = |stack: &&Stack| stack.frames.iter().any(|frame| frame.name.contains("planted"));
                let found: u64 = stacks.stacks.iter().filter(named).map(|stack| stack.samples).sum();
                assert!(found > 0, "{stacks:?}");
                assert!(stacks.rooted > 0, "{stacks:?}");
                assert_eq!(stacks.samples, stacks.stacks.iter().map(|stack| stack.samples).sum::<u64>());
            }
            Err(refused) => {
                stop.store(true, Ordering::Relaxed);
                assert!(refused.to_string().contains("perf_event_paranoid"), "{refused}");
            }
        }
        worker.join().unwrap();
    }
}
