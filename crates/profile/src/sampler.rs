//! A run of samples over some processes: started, stopped, unwound and named.

use crate::event::{self, Event};
use crate::record::{self, Record, Sample};
use crate::ring::Ring;
use crate::symbols::{Frame, Names};
use crate::unwind::{Chain, REGISTERS, Unwinding};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Bytes of a sample beside its piece of the stack: most have fewer.
const MORE_BYTES: u32 = 1024;

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
    reader: JoinHandle<Written>,
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
        self.reader.thread().unpark();
        let mut written = self.reader.join().unwrap_or_default();
        drop(self.events);
        written.ended_as_parents();
        Stacks { lost: written.lost, kernel: self.kernel, ..named(&written.samples) }
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

/// What the kernel wrote.
#[derive(Debug, Default)]
struct Written {
    samples: Vec<Sample>,
    lost: u64,
    /// Processes that were started during the run, and their parents.
    parents: HashMap<u32, u32>,
    /// Processes that became another program.
    executed: HashSet<u32>,
}

impl Written {
    fn add(&mut self, record: Record) {
        match record {
            Record::Sample(sample) => self.samples.push(sample),
            Record::Lost(count) => self.lost += count,
            Record::Forked { child, parent } => _ = self.parents.insert(child, parent),
            Record::Executed(process) => _ = self.executed.insert(process),
            Record::Other => {}
        }
    }

    /// Gives samples of processes that have ended to the processes that they were copies of: a copy has the same
    /// programs and libraries at the same addresses.
    fn ended_as_parents(&mut self) {
        let mut origins = HashMap::new();
        for sample in &mut self.samples {
            let pid = sample.pid;
            sample.pid = *origins.entry(pid).or_insert_with(|| origin_of(pid, &self.parents, &self.executed));
        }
    }
}

/// The process itself if it still has its memory; otherwise the process that it was a copy of.
fn origin_of(mut pid: u32, parents: &HashMap<u32, u32>, executed: &HashSet<u32>) -> u32 {
    let has_memory = |pid: u32| std::fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| !maps.is_empty());
    while !has_memory(pid) {
        match parents.get(&pid) {
            Some(parent) if !executed.contains(&pid) && !executed.contains(parent) => pid = *parent,
            _ => break,
        }
    }
    pid
}

fn read_until(mut rings: Vec<Ring>, stop: &AtomicBool) -> Written {
    let mut written = Written::default();
    // Seldom, because the reader disturbs the load: the fullest ring is then about half full.
    let bytes_per_s = event::RATE_HZ * u64::from(event::STACK_BYTES + MORE_BYTES);
    let smallest = rings.iter().map(Ring::data_bytes).min().unwrap_or_default() as u64;
    let pause = Duration::from_micros(1_000_000 * smallest / 2 / bytes_per_s);
    loop {
        let last = stop.load(Ordering::Acquire);
        for ring in &mut rings {
            ring.drain(|bytes| written.add(record::parse(bytes, REGISTERS)));
        }
        if last {
            return written;
        }
        thread::park_timeout(pause);
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
    use crate::symbols::Place;
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

    #[test]
    fn a_process_that_has_ended_is_taken_for_its_parent_unless_a_program_was_started() {
        let (me, gone) = (std::process::id(), [5_000_001, 5_000_002]); // above the largest number that the kernel gives
        let parents = HashMap::from([(gone[1], gone[0]), (gone[0], me)]);
        assert_eq!(origin_of(gone[1], &parents, &HashSet::new()), me);
        assert_eq!(origin_of(me, &parents, &HashSet::new()), me);
        assert_eq!(origin_of(gone[1], &parents, &HashSet::from([gone[1]])), gone[1]);
        assert_eq!(origin_of(gone[1], &parents, &HashSet::from([me])), gone[0]);
    }

    #[inline(never)]
    fn planted(stop: &AtomicBool) -> u64 {
        let mut sum = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            sum = black_box(sum.wrapping_mul(3).wrapping_add(1));
        }
        sum
    }

    /// Starts a thread that calls `planted` by way of `call`, samples this process, and returns the stacks; None if the
    /// kernel refuses to sample, as it may in a container.
    fn sampled(call: impl Fn(&AtomicBool) + Send + 'static) -> Option<Stacks> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let worker = thread::spawn(move || call(&stopped));
        let cores: Vec<u32> = (0..thread::available_parallelism().map_or(1, |count| count.get() as u32)).collect();
        let sampled = Sampler::start(&[std::process::id()], &cores).map(|sampler| {
            thread::sleep(Duration::from_millis(300));
            sampler.stop()
        });
        stop.store(true, Ordering::Relaxed);
        worker.join().unwrap();
        sampled.inspect_err(|refused| assert!(refused.to_string().contains("perf_event_paranoid"), "{refused}")).ok()
    }

    fn with_planted(stacks: &Stacks) -> Vec<&Stack> {
        let named = |stack: &&Stack| stack.frames.iter().any(|frame| frame.name.contains("planted"));
        stacks.stacks.iter().filter(named).collect()
    }

    #[test]
    fn a_function_of_this_process_is_found_with_its_stack() {
        let Some(stacks) = sampled(|stop| _ = planted(stop)) else { return };
        assert!(!with_planted(&stacks).is_empty(), "{stacks:?}");
        assert!(stacks.rooted > 0, "{stacks:?}");
        assert_eq!(stacks.samples, stacks.stacks.iter().map(|stack| stack.samples).sum::<u64>());
    }
}
