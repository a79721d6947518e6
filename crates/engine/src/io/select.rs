//! Which transport is used: the requested one, or the best one that works here.

use super::{Coalescing, Needs, Transport, Uring, uring_linked};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::str::FromStr;

/// What the caller requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// io_uring if it works, otherwise epoll.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll.
    Epoll,
}

impl FromStr for Backend {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "epoll" => Ok(Self::Epoll),
            _ => Err(()),
        }
    }
}

/// What is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// io_uring with these flags and features, because it is the best; a worker with one connection may use a better one.
    Best(String),
    /// io_uring, because it was requested.
    Uring(String),
    /// epoll, and the reason unless it was requested.
    Epoll(Option<String>),
}

impl Chosen {
    /// The request that leads to the same choice.
    pub fn backend(&self) -> Backend {
        match self {
            Self::Best(_) => Backend::Auto,
            Self::Uring(_) => Backend::Uring,
            Self::Epoll(_) => Backend::Epoll,
        }
    }

    /// The name for the report.
    pub fn name(&self) -> String {
        match self {
            Self::Best(flags) => format!("{}; a read that waits where a worker has one connection", ring(flags)),
            Self::Uring(flags) => ring(flags),
            Self::Epoll(None) => "epoll".into(),
            Self::Epoll(Some(why)) => format!("epoll (io_uring: {why})"),
        }
    }
}

fn ring(flags: &str) -> String {
    let single = if uring_linked::works() { "linked operations" } else { "epoll" };
    format!("io_uring ({flags}); {single} for a connection per request")
}

/// Chooses; `probe` returns io_uring's flags and features if it works.
///
/// # Errors
/// io_uring was requested and does not work: the probe's error.
pub fn choose(backend: Backend, probe: impl FnOnce() -> io::Result<String>) -> io::Result<Chosen> {
    match backend {
        Backend::Epoll => Ok(Chosen::Epoll(None)),
        Backend::Uring => probe().map(Chosen::Uring),
        Backend::Auto => Ok(match probe() {
            Ok(flags) => Chosen::Best(flags),
            Err(error) => Chosen::Epoll(Some(error.to_string())),
        }),
    }
}

/// Does with a ring what a session does: sends a few bytes both ways, to a local peer.
///
/// Some kernels and sandboxes create a ring but then can't carry out its operations.
///
/// # Errors
/// The kernel's error: EPERM if io_uring is forbidden, ENOSYS or EINVAL if the kernel lacks it or is too old.
pub fn probe() -> io::Result<String> {
    const QUESTION: &[u8] = b"question";
    let (ours, mut theirs) = Socket::pair(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    let needs = Needs { connections: 1, body_bytes: 0, requests: &[QUESTION], stamps: false, target: None, tls: None };
    let mut ring = Uring::open(&needs)?;
    ring.watch(0, &ours, false)?;
    ring.send(0, &ours, 0, QUESTION)?;
    ring.settle();
    let mut asked = [0; QUESTION.len()];
    theirs.read_exact(&mut asked)?;
    for _ in 0..2 {
        theirs.write_all(b"answer")?;
        let count = ring.wait(0, 1_000_000_000, Some(Coalescing { answers: 2, most_ns: 1_000 }));
        let event = (0..count).find_map(|index| ring.event(index));
        let arrived = ring.receive(&ours, &mut [])?;
        if asked != QUESTION || arrived.bytes != b"answer" || event.is_none_or(|event| event.closing) {
            return Err(io::Error::other("it accepts operations and does not carry them out"));
        }
    }
    let flags = ring.describe();
    ring.release(0, ours);
    Ok(flags)
}
