//! The worker threads: pinned, asleep when idle, each with its own shares of the sessions.

use crate::barrier::Barrier;
use crate::block_run::{BlockRun, ClosedLoop, Window};
use crate::cpu_accounting::{Meter, ServerFiles, ServerUse, Steal};
use crate::error::EngineError;
use crate::io::Chosen;
use crate::observer::{self, Marker};
use crate::plan::{BlockPlan, SessionPlan};
use crate::snapshots::SnapshotSender;
use crate::sys;
use crate::tally::{Counts, OpenCounts};
use crate::worker::{self, OpenLoop, SessionWorker, ShareUse};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Length of the buffer for reads; a worker has one for all connections.
const BUFFER_BYTES: usize = 64 * 1024;

/// A command for a worker.
pub enum Command {
    /// Opens its share of a session.
    Open {
        id: u32,
        plan: Arc<SessionPlan>,
        count: usize,
        stop: Arc<AtomicBool>,
        reply: Sender<Result<(), EngineError>>,
    },
    /// Reports what its share runs with.
    Use { id: u32, reply: Sender<ShareUse> },
    /// Closes its share.
    Close { id: u32, reply: Sender<()> },
    /// Reads the server's use around each block of the session (the first worker only).
    Watch { id: u32, watched: Watched },
    /// Runs its part of a list of blocks.
    Run { run: Arc<Run>, reply: Sender<WorkerResult> },
}

/// Where a server's CPU use is read.
pub enum Watched {
    /// On this machine.
    Files(ServerFiles),
    /// On the server's machine, under this number.
    Observed(Arc<Marker>, u32),
}

impl Watched {
    /// Before a block: the use so far, the steal there, and when to begin; `Err`: the observer does not reply any more.
    fn before(&self, block: usize) -> Result<(ServerUse, u64, Option<u64>), ()> {
        match self {
            Self::Files(files) => Ok((files.read(), 0, None)),
            Self::Observed(marker, server) => {
                let (reading, begin_ns) = marker.ready(block, *server).ok_or(())?;
                Ok((reading.server, reading.steal_ns, marker.together().then_some(begin_ns)))
            }
        }
    }

    /// After a block; None: there was no reply.
    fn after(&self, block: usize) -> Option<(ServerUse, u64)> {
        match self {
            Self::Files(files) => Some((files.read(), 0)),
            Self::Observed(marker, server) => {
                marker.done(block, *server).map(|reading| (reading.server, reading.steal_ns))
            }
        }
    }
}

/// A list of blocks, shared by all workers.
pub struct Run {
    /// In order; every session is open.
    pub blocks: Vec<BlockPlan>,
    /// By block: requests that may still be sent.
    pub requests_left: Vec<AtomicU64>,
    /// Where the workers meet between blocks.
    pub barrier: Barrier,
    /// Ends the run.
    pub stop: Arc<AtomicBool>,
    /// Cores whose steal time is read.
    pub steal_cores: Vec<usize>,
    /// Number of workers.
    pub workers: usize,
    /// Receives snapshots during blocks.
    pub snapshot_sender: Option<SnapshotSender>,
}

/// What only the first worker reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockCost {
    /// Begin of the lead-in.
    pub started_ns: u64,
    /// The server's use, whole block.
    pub server: ServerUse,
    /// Steal, whole block.
    pub steal_ns: u64,
}

/// One worker's part of a run: one entry per block that has begun.
pub struct WorkerResult {
    /// The worker's counts.
    pub counts: Vec<Counts>,
    /// The first worker's CPU accounting, as long as `counts`; empty for the others.
    pub costs: Vec<BlockCost>,
}

/// A worker thread; it ends when this is dropped.
pub struct Worker {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread and waits until it is pinned.
    ///
    /// # Errors
    /// [`EngineError::Core`]: the kernel refuses the core.
    pub fn start(index: usize, core: usize, chosen: Chosen, stamps: bool) -> Result<Self, EngineError> {
        let (commands, inbox) = channel();
        let (ready, started) = channel();
        let main = move || {
            let pinned = sys::pin(core);
            let failed = pinned.is_err();
            let _ = ready.send(pinned);
            if !failed {
                sys::sharp_timers();
                WorkerThread::new(index, core, chosen, stamps).work(&inbox);
            }
        };
        let thread = std::thread::Builder::new().name(format!("dragstrip-{index}")).spawn(main);
        let thread = thread.map_err(|source| EngineError::System { what: "worker thread", source })?;
        started.recv().map_err(|_| EngineError::WorkerDied)?.map_err(|source| EngineError::Core { core, source })?;
        Ok(Self { commands: Some(commands), thread: Some(thread) })
    }

    /// Sends the worker a command.
    ///
    /// # Errors
    /// [`EngineError::WorkerDied`].
    pub fn tell(&self, command: Command) -> Result<(), EngineError> {
        let commands = self.commands.as_ref().ok_or(EngineError::WorkerDied)?;
        commands.send(command).map_err(|_| EngineError::WorkerDied)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct WorkerThread {
    index: usize,
    chosen: Chosen,
    stamps: bool,
    sessions: HashMap<u32, Box<dyn SessionWorker>>,
    watched: HashMap<u32, Watched>,
    meter: Meter,
    buffer: Vec<u8>,
}

impl WorkerThread {
    fn new(index: usize, core: usize, chosen: Chosen, stamps: bool) -> Self {
        Self {
            index,
            chosen,
            stamps,
            sessions: HashMap::new(),
            watched: HashMap::new(),
            meter: Meter::open(core),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// Carries out commands until the sender is gone.
    fn work(&mut self, inbox: &Receiver<Command>) {
        while let Ok(command) = inbox.recv() {
            match command {
                Command::Open { id, plan, count, stop, reply } => {
                    let opened = worker::open(&self.chosen, self.stamps, plan, count, &stop).map(|session| {
                        self.sessions.insert(id, session);
                    });
                    let _ = reply.send(opened);
                }
                Command::Use { id, reply } => {
                    let _ = self.sessions.get(&id).map(|session| reply.send(session.used()));
                }
                Command::Close { id, reply } => {
                    self.sessions.remove(&id);
                    self.watched.remove(&id);
                    let _ = reply.send(());
                }
                Command::Watch { id, watched } => {
                    self.watched.insert(id, watched);
                }
                Command::Run { run, reply } => match catch_unwind(AssertUnwindSafe(|| self.run_blocks(&run))) {
                    Ok(result) => {
                        let _ = reply.send(result);
                    }
                    Err(_) => {
                        // The others must not wait for us; our silence tells the engine.
                        run.barrier.shut();
                        return;
                    }
                },
            }
        }
    }

    fn run_blocks(&mut self, run: &Run) -> WorkerResult {
        let first = self.index == 0;
        let blank =
            |block: &BlockPlan| counts_for(block, self.sessions.get(&block.session).map(|session| session.plan()));
        let mut counts: Vec<Counts> = run.blocks.iter().map(blank).collect();
        let mut costs = Vec::with_capacity(if first { run.blocks.len() } else { 0 });
        let mut steal = if first { Steal::open(&run.steal_cores) } else { None };
        let mut begun = 0;
        for (index, counts) in counts.iter_mut().enumerate() {
            let (go_on, cost) = self.block(run, index, counts, &mut steal);
            if let Some(cost) = cost {
                begun += 1;
                if first {
                    costs.push(cost);
                }
            }
            if !go_on {
                break;
            }
        }
        counts.truncate(begun);
        WorkerResult { counts, costs }
    }

    /// Runs one block; returns whether to continue, and the block's cost if it began.
    fn block(
        &mut self,
        run: &Run,
        index: usize,
        counts: &mut Counts,
        steal: &mut Option<Steal>,
    ) -> (bool, Option<BlockCost>) {
        let block = &run.blocks[index];
        let Some(session) = self.sessions.get_mut(&block.session) else {
            return (false, None);
        };
        let watched = self.watched.get(&block.session);
        let mut read_steal = || steal.as_mut().map_or(0, Steal::read_ns);
        let window = Window {
            started_ns: 0,
            counted_from_ns: 0,
            end_ns: 0,
            requests_left: (block.max_requests > 0 && block.open_loop.is_none()).then(|| &run.requests_left[index]),
            stop: &run.stop,
            worker: self.index,
            snapshot_sender: run.snapshot_sender.as_ref(),
        };
        session.reap_closed(&mut BlockRun::new(window, counts, ClosedLoop::default()), &mut self.buffer);
        let length_ns = block.lead_ns + worker::counted_end_ns(block);
        let open_loop = block.open_loop.as_ref().map(|open_loop| {
            let (worker, workers) = session.plan().turn_of(self.index, run.workers);
            OpenLoop::new(block, open_loop, worker, workers)
        });
        let none = (ServerUse::default(), 0, None);
        let (server_before, stolen_there, begin_ns) =
            watched.map_or(Ok(none), |one| one.before(index)).unwrap_or_else(|()| {
                run.stop.store(true, std::sync::atomic::Ordering::Relaxed);
                none
            });
        let (stolen_before, own_before) = (read_steal(), self.meter.read());
        if let Some(begin_ns) = begin_ns {
            observer::wait_until(begin_ns); // the others wait for us
        }
        let Some(started_ns) = run.barrier.wait(&run.stop) else {
            return (false, None);
        };
        let counted_from_ns = started_ns + block.lead_ns;
        let window = Window { started_ns, counted_from_ns, end_ns: started_ns + length_ns, ..window };
        match open_loop {
            None => session.run(&mut BlockRun::new(window, counts, ClosedLoop::default()), &mut self.buffer),
            Some(open_loop) => session.run_open_loop(&mut BlockRun::new(window, counts, open_loop), &mut self.buffer),
        }
        let used = self.meter.read().since(own_before);
        (counts.engine_wait_ns, counts.engine_switches) = (used.wait_ns, used.switches);
        counts.engine_cpu_ns += prorated_ns(used.packets_ns, counts.counted_end_ns.saturating_sub(counted_from_ns), {
            counts.finished_ns.saturating_sub(started_ns)
        });
        let go_on = run.barrier.wait(&run.stop).is_some();
        // If the mark was lost, the block's cost is unknown, which voids it.
        let (server, stolen_since) = match watched.map(|marked| marked.after(index)) {
            Some(Some((server, stolen))) => (server.since(server_before), stolen.saturating_sub(stolen_there)),
            Some(None) | None => (ServerUse::default(), 0),
        };
        let cost =
            BlockCost { started_ns, server, steal_ns: read_steal().saturating_sub(stolen_before) + stolen_since };
        (go_on, Some(cost))
    }
}

/// The part of a whole block's time that a part of the block would have if the time were spread evenly.
fn prorated_ns(spent_ns: u64, part_ns: u64, whole_ns: u64) -> u64 {
    (u128::from(spent_ns) * u128::from(part_ns.min(whole_ns)) / u128::from(whole_ns.max(1))) as u64
}

/// Empty counts of the kind that these blocks need.
fn counts_for(block: &BlockPlan, plan: Option<&SessionPlan>) -> Counts {
    let counts = Counts { open_loop: block.open_loop.as_ref().map(|_| Box::new(OpenCounts::new())), ..Counts::new() };
    let counts = if plan.is_some_and(|plan| plan.first_byte) { counts.with_first_byte() } else { counts };
    counts.with_kinds(plan.map_or(1, SessionPlan::kinds))
}
