//! Generates HTTP load in short blocks, and checks and counts the responses.
//!
//! An [`Engine`] has one pinned worker thread per core. A *session* is a set of connections to one server that are kept
//! open; there may be several sessions. A *block* is a short period of load on one session: a lead-in that is not
//! counted, a counted part, a drain. One call runs a list of blocks; each results in a [`Tally`]. The crate knows
//! nothing of Python, contenders or statistics.

mod barrier;
mod block_run;
mod clock;
mod coalescing;
mod cpu_accounting;
mod error;
pub mod error_sample;
mod exchange;
pub mod failure;
pub mod heads;
pub mod http2;
pub mod io;
mod observer;
mod patience;
pub mod plan;
mod reference_server;
mod request;
pub mod response;
pub mod schedule;
pub mod script;
mod snapshots;
mod sys;
pub mod tally;
mod target;
mod threads;
mod tls;
pub mod websocket;
mod worker;

use barrier::Barrier;
use cpu_accounting::ServerFiles;
pub use error::EngineError;
pub use io::Backend;
use io::{Chosen, TimestampSource};
pub use observer::{ClockOffset, Marker, Observer, Token};
pub use plan::{BlockPlan, BodyCheck, Exchange, Protocol, SessionPlan, Target};
pub use reference_server::ReferenceServer;
use snapshots::{Between, SnapshotSender, Snapshots};
use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tally::{BlockFacts, Counts};
pub use tally::{Tally, merge, read_quantiles_ns};
use threads::{Command, Run, Watched, Worker, WorkerResult};
pub use tls::{TlsPlan, Trust};

/// Descriptors kept free in addition to the connections' own: epoll instances, files of CPU accounting, the caller's
/// own.
const SPARE_DESCRIPTORS: u64 = 64;

/// The worker threads and their sessions.
pub struct Engine {
    workers: Vec<Worker>,
    sessions: HashMap<u32, Arc<SessionPlan>>,
    next_session: u32,
    stop: Arc<AtomicBool>,
    chosen: Chosen,
    /// None: the kernel gives no timestamps here.
    stamping: Option<TimestampSource>,
}

/// What a session runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUse {
    /// The transport, as text for a person, and why the requested transport is not used.
    pub io: String,
    /// The backend to request for the same transport.
    pub backend: Backend,
    /// "HTTP/1.1", "HTTP/2" or "WebSocket".
    pub protocol: &'static str,
    /// How workers wait for responses: "sleep" or "poll".
    pub wait: &'static str,
    /// "TLS 1.2" or "TLS 1.3", of the latest handshake; None: there was none.
    pub tls: Option<&'static str>,
    /// What gives the arrival of a response: "kernel", its timestamp, or "user", a clock that is read after the
    /// response.
    pub stamps: &'static str,
    /// How many connections were open when it began; None: each request opens its own.
    pub opened: Option<usize>,
    /// Over HTTP/2: how many concurrent streams the server allows on a connection, at most as many as were requested.
    pub streams: Option<usize>,
}

/// A run in progress.
pub struct Pending {
    run: Arc<Run>,
    results: Receiver<WorkerResult>,
    done: Vec<WorkerResult>,
    workers: usize,
    /// If snapshots of the block were requested.
    snapshots: Option<Snapshots>,
}

/// The first address that a host name resolves to.
///
/// # Errors
/// [`EngineError::Address`].
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, EngineError> {
    let refused = |source| EngineError::Address { host: host.into(), port, source };
    let mut addresses = (host, port).to_socket_addrs().map_err(refused)?;
    addresses.next().ok_or_else(|| refused(std::io::Error::from(std::io::ErrorKind::NotFound)))
}

/// The target at an address of another network namespace; its host is not looked up there, so it must be an IP address.
///
/// # Errors
/// [`EngineError::Address`], and [`EngineError::Namespace`]: the namespace can't be entered.
pub fn inside(host: &str, port: u16, namespace: &Path) -> Result<Target, EngineError> {
    let refused = |source| EngineError::Namespace { path: namespace.display().to_string(), source };
    let opened = sys::NetworkNamespace::open(namespace).map_err(refused)?;
    opened.within(|| Ok(())).map_err(refused)?;
    Ok(Target::Inside(resolve(host, port)?, Arc::new(opened)))
}

impl Engine {
    /// Starts one worker per core, pinned to it; a core named twice gets two.
    ///
    /// # Errors
    /// No core is given, or one can't be used.
    pub fn new(cores: &[usize]) -> Result<Self, EngineError> {
        Self::with_backend(cores, Backend::Auto)
    }

    /// The same, over the requested back end.
    ///
    /// # Errors
    /// As [`Engine::new`], and [`EngineError::Uring`]: io_uring was requested and does not work here.
    pub fn with_backend(cores: &[usize], backend: Backend) -> Result<Self, EngineError> {
        Self::with_probe(cores, backend, io::probe)
    }

    /// The same; `probe` says whether io_uring works here (for tests of a kernel that forbids it).
    ///
    /// # Errors
    /// As [`Engine::with_backend`].
    #[doc(hidden)]
    pub fn with_probe(
        cores: &[usize],
        backend: Backend,
        probe: impl FnOnce() -> std::io::Result<String>,
    ) -> Result<Self, EngineError> {
        if cores.is_empty() {
            return Err(EngineError::NoCores);
        }
        let chosen = io::choose(backend, probe).map_err(|source| EngineError::Uring { source })?;
        let stamping = TimestampSource::begin();
        let workers = cores
            .iter()
            .enumerate()
            .map(|(index, core)| Worker::start(index, *core, chosen.clone(), stamping.is_some()));
        Ok(Self {
            workers: workers.collect::<Result<_, _>>()?,
            sessions: HashMap::new(),
            next_session: 1,
            stop: Arc::new(AtomicBool::new(false)),
            chosen,
            stamping,
        })
    }

    /// The backend to request for an engine that works like this one.
    pub fn io(&self) -> Backend {
        self.chosen.backend()
    }

    /// The transport and its flags, and why it is not io_uring if the kernel does not support that.
    pub fn backend(&self) -> String {
        self.chosen.name()
    }

    /// What gives the arrival of a response: "kernel", its timestamp, or "user", a clock that is read after the
    /// response.
    pub fn latency_stamps(&self) -> &'static str {
        if self.stamping.is_some() { "kernel" } else { "user" }
    }

    /// What a session runs with.
    ///
    /// # Errors
    /// No such session.
    pub fn used(&self, session: u32) -> Result<SessionUse, EngineError> {
        self.known(session)?;
        let plan = &self.sessions[&session];
        let (reply, replies) = channel();
        for worker in &self.workers {
            worker.tell(Command::Use { id: session, reply: reply.clone() })?;
        }
        drop(reply);
        let shares: Vec<_> = replies.iter().collect();
        let instead = shares.iter().find_map(|share| share.instead);
        // The kernel's timestamps belong to received bytes, which over TLS are not yet a response; unix sockets have none.
        let stamped = self.stamping.is_some() && plan.tls.is_none() && plan.target.address().is_some();
        Ok(SessionUse {
            io: instead.map_or_else(|| self.chosen.name(), |why| format!("epoll ({why})")),
            backend: instead.map_or_else(|| self.chosen.backend(), |_| Backend::Epoll),
            protocol: plan.protocol.name(),
            wait: if plan.polls { "poll" } else { "sleep" },
            tls: shares.iter().find_map(|share| share.tls),
            opened: shares.iter().map(|share| share.opened).sum(),
            streams: shares.iter().filter_map(|share| share.streams).min(),
            stamps: if stamped { "kernel" } else { "user" },
        })
    }

    /// A flag that ends a run when another thread sets it; each run clears it when it begins.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Opens a session's connections (none yet without keep-alive) and returns its number. Clears the stop flag, which ends
    /// the wait for a server.
    ///
    /// # Errors
    /// The plan is invalid, there are too few descriptors, or the server can't be reached.
    pub fn open(&mut self, plan: SessionPlan) -> Result<u32, EngineError> {
        plan.check()?;
        let connections = plan.connections;
        let lingering = connections.min(worker::MAX_LINGERING * self.workers.len());
        let needed = (connections + lingering) as u64 + SPARE_DESCRIPTORS;
        sys::make_room(needed).map_err(|(open, limit)| EngineError::Descriptors {
            connections,
            needed,
            open,
            limit,
        })?;
        self.stop.store(false, Ordering::Relaxed);
        let (id, plan) = (self.next_session, Arc::new(plan.prepared()));
        self.next_session += 1;
        let (reply, replies) = channel();
        for (index, worker) in self.workers.iter().enumerate() {
            let count = plan.connections_of(index, self.workers.len());
            let worker_plan = plan.of_worker(index).map_or_else(|| Arc::clone(&plan), Arc::new);
            worker.tell(Command::Open {
                id,
                plan: worker_plan,
                count,
                stop: Arc::clone(&self.stop),
                reply: reply.clone(),
            })?;
        }
        drop(reply);
        let mut opened = Ok(());
        for _ in &self.workers {
            let reply = replies.recv().map_err(|_| EngineError::WorkerDied)?;
            opened = opened.and(reply);
        }
        self.sessions.insert(id, plan);
        if let Err(error) = opened {
            self.close(id)?; // what the other workers did open
            return Err(error);
        }
        Ok(id)
    }

    /// Reads the server's CPU time and run-queue wait around each of the session's blocks.
    ///
    /// Without a cgroup, `processes` give the CPU time by their clocks; without both, `schedstats` do.
    ///
    /// # Errors
    /// No such session, or the cgroup's file can't be opened.
    pub fn watch(
        &self,
        session: u32,
        cgroup_cpu_stat: Option<&str>,
        processes: &[i32],
        schedstats: &[&str],
    ) -> Result<(), EngineError> {
        self.known(session)?;
        let files = ServerFiles::open(cgroup_cpu_stat, processes, schedstats)?;
        self.workers[0].tell(Command::Watch { id: session, watched: Watched::Files(files) })
    }

    /// The same, read on the server's machine: `marker` asks the observer there for the server with this number.
    ///
    /// # Errors
    /// No such session.
    pub fn observe(&self, session: u32, marker: &Arc<Marker>, server: u32) -> Result<(), EngineError> {
        self.known(session)?;
        let watched = Watched::Observed(Arc::clone(marker), server);
        self.workers[0].tell(Command::Watch { id: session, watched })
    }

    /// Runs blocks in order and waits for their end.
    ///
    /// # Errors
    /// As [`Engine::start`] and [`Pending::finish`].
    pub fn run(&mut self, blocks: &[BlockPlan], steal_cores: &[usize]) -> Result<Vec<Tally>, EngineError> {
        self.start(blocks, steal_cores)?.finish()
    }

    /// Starts to run blocks in order. Clears the stop flag.
    ///
    /// # Errors
    /// A block is invalid, or its session is not open.
    pub fn start(&mut self, blocks: &[BlockPlan], steal_cores: &[usize]) -> Result<Pending, EngineError> {
        self.begin(blocks, steal_cores, None)
    }

    /// Starts to run a block of which snapshots are taken; see [`Pending::next_interval`].
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_observed(&mut self, block: &BlockPlan, every_ns: u64) -> Result<Pending, EngineError> {
        let connections = self.sessions.get(&block.session).map_or(0, |plan| plan.connections);
        let (to, inbox) = channel();
        let mut run =
            self.begin(std::slice::from_ref(block), &[], Some(SnapshotSender { every_ns: every_ns.max(1), to }))?;
        run.snapshots = Some(Snapshots::new(inbox, self.workers.len().min(connections)));
        Ok(run)
    }

    fn begin(
        &mut self,
        blocks: &[BlockPlan],
        steal_cores: &[usize],
        snapshot_sender: Option<SnapshotSender>,
    ) -> Result<Pending, EngineError> {
        for block in blocks {
            block.check()?;
            self.known(block.session)?;
            self.sessions[&block.session].check_open_loop(block)?;
        }
        self.stop.store(false, Ordering::Relaxed);
        let run = Arc::new(Run {
            blocks: blocks.to_vec(),
            requests_left: blocks.iter().map(|block| AtomicU64::new(block.max_requests)).collect(),
            barrier: Barrier::new(self.workers.len()),
            stop: Arc::clone(&self.stop),
            steal_cores: steal_cores.to_vec(),
            workers: self.workers.len(),
            snapshot_sender,
        });
        let (reply, results) = channel();
        for worker in &self.workers {
            worker.tell(Command::Run { run: Arc::clone(&run), reply: reply.clone() })?;
        }
        let (done, workers) = (Vec::with_capacity(self.workers.len()), self.workers.len());
        Ok(Pending { run, results, done, workers, snapshots: None })
    }

    /// Closes a session's connections; closing one twice does nothing.
    ///
    /// # Errors
    /// [`EngineError::WorkerDied`].
    pub fn close(&mut self, session: u32) -> Result<(), EngineError> {
        if self.sessions.remove(&session).is_none() {
            return Ok(());
        }
        let (reply, replies) = channel();
        for worker in &self.workers {
            worker.tell(Command::Close { id: session, reply: reply.clone() })?;
        }
        drop(reply);
        for _ in &self.workers {
            replies.recv().map_err(|_| EngineError::WorkerDied)?;
        }
        Ok(())
    }

    fn known(&self, session: u32) -> Result<(), EngineError> {
        self.sessions.contains_key(&session).then_some(()).ok_or(EngineError::NoSession(session))
    }
}

impl Pending {
    /// Waits up to `limit` for the end; whether it has come.
    ///
    /// # Errors
    /// [`EngineError::WorkerDied`].
    pub fn wait(&mut self, limit: Duration) -> Result<bool, EngineError> {
        while self.done.len() < self.workers {
            match self.results.recv_timeout(limit) {
                Ok(result) => self.done.push(result),
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => return Err(EngineError::WorkerDied),
            }
        }
        Ok(true)
    }

    /// Waits for the end and merges the workers' counts. Of a stopped run, returns the finished blocks.
    ///
    /// # Errors
    /// [`EngineError::WorkerDied`].
    pub fn finish(self) -> Result<Vec<Tally>, EngineError> {
        Ok(self.finish_observed()?.0)
    }

    /// The counts since the last call, if a snapshot is due.
    pub fn next_interval(&mut self) -> Option<Tally> {
        let between = self.snapshots.as_mut()?.next()?;
        Some(self.interval(&between))
    }

    fn interval(&self, between: &Between) -> Tally {
        let block = BlockPlan { lead_ns: 0, ..self.run.blocks[0].clone() };
        let cost = threads::BlockCost { started_ns: between.from_ns, ..threads::BlockCost::default() };
        tally(&block, &cost, &between.counts, self.workers)
    }

    /// Waits for the end. If snapshots were taken, also returns the counts since the last one, stopped or not.
    ///
    /// # Errors
    /// [`EngineError::WorkerDied`].
    pub fn finish_observed(mut self) -> Result<(Vec<Tally>, Option<Tally>), EngineError> {
        while !self.wait(Duration::from_secs(1))? {}
        let begun = self.done.iter().map(|result| result.counts.len()).min().unwrap_or(0);
        let costs = self.done.iter_mut().find(|result| !result.costs.is_empty());
        let costs = costs.map(|result| std::mem::take(&mut result.costs)).unwrap_or_default();
        let done = std::mem::take(&mut self.done);
        let mut parts: Vec<_> = done.into_iter().map(|result| result.counts.into_iter()).collect();
        let (mut tallies, mut rest) = (Vec::with_capacity(begun), None);
        for (block, cost) in self.run.blocks.iter().zip(&costs).take(begun) {
            let mut sum: Option<Counts> = None;
            for counts in parts.iter_mut().filter_map(Iterator::next) {
                match &mut sum {
                    Some(sum) => sum.add(&counts),
                    None => sum = Some(counts),
                }
            }
            if let (Some(snapshots), Some(sum)) = (&mut self.snapshots, &sum) {
                let between = snapshots.rest(cost.started_ns, sum);
                rest = Some(self.interval(&between));
            }
            match sum {
                Some(sum) if !sum.stopped => tallies.push(tally(block, cost, &sum, self.workers)),
                _ => break,
            }
        }
        Ok((tallies, rest))
    }
}

fn tally(block: &BlockPlan, cost: &threads::BlockCost, sum: &Counts, workers: usize) -> Tally {
    let counted_start_ns = cost.started_ns + block.lead_ns;
    let facts = BlockFacts {
        session: block.session,
        started_ns: cost.started_ns,
        counted_start_ns,
        lead_ns: block.lead_ns,
        counted_ns: sum.counted_end_ns.saturating_sub(counted_start_ns),
        duration_ns: sum.finished_ns.saturating_sub(cost.started_ns),
        server_cpu_ns: cost.server.cpu_ns,
        server_wait_ns: cost.server.wait_ns,
        server_runs: cost.server.runs,
        engine_threads: workers,
        steal_ns: cost.steal_ns,
    };
    Tally::new(facts, sum)
}
