//! What the engine refuses, as text for the user.

use crate::target::Target;
use std::io;

/// Why the engine can't do what was requested; each message says what was given and what would be valid.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No core to run on.
    #[error("cores: none given; name at least one core for the engine's worker threads")]
    NoCores,
    /// A worker can't be pinned to a core.
    #[error(
        "cores: core {core} can't be used ({source}); choose among those that this process may run on (nproc, taskset -p)"
    )]
    Core {
        /// The requested core.
        core: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// The system refused a thread, a ring or an epoll instance.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A network namespace can't be entered.
    #[error(
        "target: the network namespace {path} can't be entered ({source}); run as root, or in a user namespace above it"
    )]
    Namespace {
        /// Its path.
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// io_uring was requested and does not work.
    #[error(
        "io: io_uring was asked for and does not work here ({source}); take auto or epoll, or have it allowed \
         (kernel.io_uring_disabled, a container's seccomp profile)"
    )]
    Uring {
        /// The kernel's error.
        source: io::Error,
    },
    /// A name or an address can't be resolved.
    #[error("address: {host}:{port} can't be resolved ({source}); give an IP address or a name this machine knows")]
    Address {
        /// The host as given.
        host: String,
        /// The port as given.
        port: u16,
        /// The resolver's error.
        source: io::Error,
    },
    /// A field of a plan is out of bounds.
    #[error("{field}: {problem}; {remedy}")]
    Plan {
        /// The field.
        field: &'static str,
        /// What was given and why it is refused.
        problem: String,
        /// What would be valid.
        remedy: &'static str,
    },
    /// The limit of open files is too low for the requested connections.
    #[error(
        "connections: {connections} need {needed} descriptors beyond the {open} open ones, and the hard limit is \
         {limit}; use fewer connections or raise it (ulimit -Hn)"
    )]
    Descriptors {
        /// Requested connections.
        connections: usize,
        /// Descriptors they need.
        needed: u64,
        /// Descriptors that are open in this process.
        open: u64,
        /// RLIMIT_NOFILE, hard.
        limit: u64,
    },
    /// A connection of a new session could not be opened.
    #[error(
        "{target}: connection {number} of a worker's {of} could not be opened ({source}); {}",
        match source.kind() {
            io::ErrorKind::InvalidData => "a server that speaks TLS, with a certificate that is trusted here, would do",
            io::ErrorKind::Unsupported => "does it speak HTTP/2?",
            _ => "is the server listening?",
        }
    )]
    Connect {
        /// The server.
        target: Target,
        /// Number of the connection, from 1, within the worker.
        number: usize,
        /// How many connections that worker opens.
        of: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// No session has this number.
    #[error("session: {0} is not open; use what open() returned and close() has not ended")]
    NoSession(u32),
    /// A file of the server's CPU accounting can't be opened.
    #[error("watch: {path} can't be opened ({source})")]
    Watch {
        /// The file.
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A histogram can't be read, or two of them can't be added.
    #[error("histogram {index}: {problem}; give HdrHistogram V2 compressed bytes as a tally holds them")]
    Histogram {
        /// Number of the histogram, from 0.
        index: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A worker thread is gone: a bug in the engine.
    #[error("engine: a worker thread has died; this is a defect of the engine, please report it with what was run")]
    WorkerDied,
}

impl EngineError {
    /// The name by which programs recognise the error, whatever its message; all of them are in `_engine.pyi`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoCores | Self::Core { .. } => "cores",
            Self::System { source, .. } => of_system(source).unwrap_or("system"),
            Self::Uring { .. } => "uring",
            Self::Address { .. } => "address",
            Self::Namespace { .. } => "namespace",
            Self::Plan { .. } => "plan",
            Self::Descriptors { .. } => "descriptors",
            Self::Connect { source, .. } => of_system(source).unwrap_or("connect"),
            Self::NoSession(_) => "session",
            Self::Watch { source, .. } => of_system(source).unwrap_or("watch"),
            Self::Histogram { .. } => "histogram",
            Self::WorkerDied => "defect",
        }
    }
}

/// What the system lacks or the other side did, if that says more than what was attempted.
fn of_system(source: &io::Error) -> Option<&'static str> {
    if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
        return Some("descriptors");
    }
    match source.kind() {
        io::ErrorKind::ConnectionRefused => Some("refused"),
        io::ErrorKind::AddrInUse => Some("address_in_use"),
        io::ErrorKind::AddrNotAvailable => Some("ports"), // every port of the connection's own address is taken
        io::ErrorKind::TimedOut => Some("timeout"),
        io::ErrorKind::InvalidData => Some("tls"),
        io::ErrorKind::Unsupported => Some("protocol"),
        _ => None,
    }
}
