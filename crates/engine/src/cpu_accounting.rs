//! What a block cost: the server's CPU time, the engine's, and the hypervisor's share. Files stay open.

use crate::error::EngineError;
use crate::sys;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The server's CPU accounting, read while the server is idle, before and after a block. Reading allocates nothing.
#[derive(Debug)]
pub struct ServerFiles {
    cgroup_cpu_stat: Option<File>,
    processes: Vec<i32>,
    /// One per thread of the server; None: the thread had ended before its file was opened.
    schedstats: Vec<Option<File>>,
}

/// CPU time and run-queue wait so far, ns, and how often it was put on a core; None: can't be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerUse {
    /// User and system time.
    pub cpu_ns: Option<u64>,
    /// Time in which it was runnable but not running.
    pub wait_ns: Option<u64>,
    /// How often one of its threads was put on a core.
    pub runs: Option<u64>,
}

impl ServerUse {
    /// The use from `earlier` to now; None if either is unknown.
    pub fn since(self, earlier: Self) -> Self {
        let minus = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            cpu_ns: minus(self.cpu_ns, earlier.cpu_ns),
            wait_ns: minus(self.wait_ns, earlier.wait_ns),
            runs: minus(self.runs, earlier.runs),
        }
    }
}

impl ServerFiles {
    /// Opens the files.
    ///
    /// # Errors
    /// [`EngineError::Watch`]: the cgroup's file can't be opened, so its path is wrong. A thread's file may be missing,
    /// because the thread may have ended since its path was listed.
    pub fn open(cgroup_cpu_stat: Option<&str>, processes: &[i32], schedstats: &[&str]) -> Result<Self, EngineError> {
        let open = |path: &str| File::open(path).map_err(|source| EngineError::Watch { path: path.into(), source });
        Ok(Self {
            cgroup_cpu_stat: cgroup_cpu_stat.map(open).transpose()?,
            processes: processes.to_vec(),
            schedstats: schedstats.iter().map(|path| File::open(path).ok()).collect(),
        })
    }

    /// The use so far. A cgroup gives the CPU time, otherwise the processes' own clocks do: both include threads that
    /// have ended, which the threads' files lack.
    pub fn read(&self) -> ServerUse {
        let mut threads = (!self.schedstats.is_empty()).then_some([0; 3]);
        for file in &self.schedstats {
            let read = file.as_ref().and_then(schedstat);
            threads = threads.zip(read).map(|(sum, more)| std::array::from_fn(|at| sum[at] + more[at]));
        }
        let cpu_ns = match &self.cgroup_cpu_stat {
            Some(file) => cgroup_usage_ns(file),
            None if self.processes.is_empty() => threads.map(|[cpu_ns, ..]| cpu_ns),
            None => self.processes.iter().map(|&pid| sys::process_cpu_ns(pid)).sum(),
        };
        ServerUse { cpu_ns, wait_ns: threads.map(|[_, wait_ns, _]| wait_ns), runs: threads.map(|[.., runs]| runs) }
    }
}

/// CPU time (ns), run-queue wait (ns) and number of turns on a core of one thread.
fn schedstat(file: &File) -> Option<[u64; 3]> {
    let mut buffer = [0; 128];
    let length = file.read_at(&mut buffer, 0).ok()?;
    let mut fields = std::str::from_utf8(&buffer[..length]).ok()?.split_ascii_whitespace();
    let mut next = || -> Option<u64> { fields.next()?.parse().ok() };
    Some([next()?, next()?, next()?])
}

fn cgroup_usage_ns(file: &File) -> Option<u64> {
    let mut buffer = [0; 1024];
    let length = file.read_at(&mut buffer, 0).ok()?;
    let text = std::str::from_utf8(&buffer[..length]).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(line.trim().parse::<u64>().ok()? * 1000)
}

/// Steal time on some cores, from `/proc/stat` (in steps of 10 ms on most kernels).
#[derive(Debug)]
pub struct Steal {
    cores: Vec<usize>,
    file: File,
    buffer: Vec<u8>,
    tick_ns: u64,
}

impl Steal {
    /// None for no cores: reading `/proc/stat` takes tens of µs.
    pub fn open(cores: &[usize]) -> Option<Self> {
        if cores.is_empty() {
            return None;
        }
        let file = File::open("/proc/stat").ok()?;
        // One line per core, at most 11 numbers; the rest of the file is not needed.
        let most = std::thread::available_parallelism().map_or(1, usize::from).max(cores.iter().max()? + 1);
        Some(Self { cores: cores.to_vec(), file, buffer: vec![0; (most + 2) * 256], tick_ns: sys::tick_ns() })
    }

    /// Steal so far, summed over the cores, ns.
    pub fn read_ns(&mut self) -> u64 {
        let length = self.file.read_at(&mut self.buffer, 0).unwrap_or(0);
        self.buffer[..length].split(|&byte| byte == b'\n').map(|line| self.steal_ticks(line)).sum::<u64>()
            * self.tick_ns
    }

    fn steal_ticks(&self, line: &[u8]) -> u64 {
        let read = || {
            let line = std::str::from_utf8(line).ok()?.strip_prefix("cpu")?;
            let mut fields = line.split(' ');
            let core: usize = fields.next()?.parse().ok()?;
            if !self.cores.contains(&core) {
                return None;
            }
            fields.nth(7)?.parse().ok() // user nice system idle iowait irq softirq steal
        };
        read().unwrap_or(0)
    }
}

/// CPU use of the calling worker thread and of the kernel's packet thread on its core. The kernel handles loopback
/// packets within the sender's time, until there are too many at once, for example if many connections are opened
/// together. Then it leaves them to the core's `ksoftirqd`, and the worker has to wait. The load itself causes that, no
/// other program: so this time is subtracted from the wait, and added to the engine's CPU time.
#[derive(Debug)]
pub struct Meter {
    schedstat: Option<File>,
    packets: Option<File>,
}

/// A worker's use so far, or during a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnUse {
    /// Time in which it was runnable but not running, ns.
    pub wait_ns: u64,
    /// CPU time of the kernel's packet thread, ns; 0 if it can't be read.
    pub packets_ns: u64,
    /// Involuntary context switches.
    pub switches: u64,
}

impl OwnUse {
    /// The use from `earlier` to now; the wait excludes the packet thread's time.
    pub fn since(self, earlier: Self) -> Self {
        let packets_ns = self.packets_ns.saturating_sub(earlier.packets_ns);
        Self {
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns).saturating_sub(packets_ns),
            packets_ns,
            switches: self.switches.saturating_sub(earlier.switches),
        }
    }
}

impl Meter {
    /// Call it, and `read`, in the thread that is measured, which stays on `core`.
    pub fn open(core: usize) -> Self {
        let packets = kernel_thread(&format!("ksoftirqd/{core}"));
        Self { schedstat: File::open("/proc/thread-self/schedstat").ok(), packets }
    }

    /// The use so far; a kernel without schedstat has no wait.
    pub fn read(&self) -> OwnUse {
        let wait_ns = self.schedstat.as_ref().and_then(schedstat).map_or(0, |[_, wait_ns, _]| wait_ns);
        let packets_ns = self.packets.as_ref().and_then(schedstat).map_or(0, |[cpu_ns, ..]| cpu_ns);
        OwnUse { wait_ns, packets_ns, switches: sys::thread_switches() }
    }
}

/// The schedstat file of a kernel thread with this name; None if it can't be seen, as in a container. Kernel threads
/// start before all programs, so only the first processes are searched.
fn kernel_thread(name: &str) -> Option<File> {
    let processes = std::fs::read_dir("/proc").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let named = |folder: &std::path::PathBuf| {
        std::fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    File::open(processes.into_iter().find(named)?.join("schedstat")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("dragstrip-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().into()
    }

    #[test]
    fn the_cgroup_gives_cpu_time_and_the_threads_give_the_wait() {
        let stat = file("cpu.stat", "usage_usec 12\nuser_usec 7\nsystem_usec 5\n");
        let threads = [file("a", "100 7 3\n"), file("b", "200 8 1\n")];
        let paths: Vec<&str> = threads.iter().map(String::as_str).collect();
        let both = ServerFiles::open(Some(&stat), &[1], &paths).unwrap().read();
        assert_eq!(both, ServerUse { cpu_ns: Some(12_000), wait_ns: Some(15), runs: Some(4) });
        let threads_alone = ServerFiles::open(None, &[], &paths).unwrap().read();
        assert_eq!(threads_alone, ServerUse { cpu_ns: Some(300), wait_ns: Some(15), runs: Some(4) });
        assert_eq!(ServerFiles::open(None, &[], &[]).unwrap().read(), ServerUse::default());
        let gone = ServerFiles::open(None, &[], &[paths[0], "/proc/0/none"]).unwrap().read();
        assert_eq!(gone, ServerUse::default());
        for path in threads.iter().chain([&stat]) {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_process_clock_has_its_ended_threads_and_ends_with_it() {
        let own = std::process::id() as i32;
        let before = ServerFiles::open(None, &[own], &[]).unwrap().read().cpu_ns.unwrap();
        let spent = || {
            let from = sys::thread_cpu_ns();
            while sys::thread_cpu_ns() - from < 20_000_000 {}
        };
        std::thread::spawn(spent).join().unwrap();
        let after = ServerFiles::open(None, &[own], &[]).unwrap().read().cpu_ns.unwrap();
        assert!(after - before >= 20_000_000, "{before} {after}");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id() as i32;
        child.wait().unwrap();
        assert_eq!(ServerFiles::open(None, &[own, ended], &[]).unwrap().read().cpu_ns, None);
    }

    #[test]
    fn packet_work_of_the_kernel_is_not_a_wait_for_other_programs() {
        let at = |wait_ns, packets_ns| OwnUse { wait_ns, packets_ns, switches: 1 };
        let both = at(900, 500).since(at(100, 200));
        assert_eq!((both.wait_ns, both.packets_ns), (500, 300));
        // The packet thread also runs while the worker sleeps, when nothing waits for it.
        assert_eq!(at(110, 500).since(at(100, 200)).wait_ns, 0);
        assert!(kernel_thread("no such thread").is_none());
    }

    #[test]
    fn steal_of_the_given_cores_is_the_eighth_number() {
        let steal = Steal::open(&[1]).unwrap();
        assert_eq!(steal.steal_ticks(b"cpu1 1 2 3 4 5 6 7 80 9 10"), 80);
        assert_eq!(steal.steal_ticks(b"cpu2 1 2 3 4 5 6 7 80 9 10"), 0);
        assert_eq!(steal.steal_ticks(b"cpu  1 2 3 4 5 6 7 80 9 10"), 0);
        assert_eq!(steal.steal_ticks(b"intr 1 2 3"), 0);
    }
}
