//! Which back end runs: asked for, or the best one that works here.

use super::{Coalescing, Needs, Transport, Uring, uring_linked};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::str::FromStr;

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// io_uring where it works, else epoll.
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

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// io_uring, with these flags and features, because it is the best; a connection that is alone on its worker may
    /// have a better one.
    Best(String),
    /// io_uring, because it was asked for.
    Uring(String),
    /// epoll, and why not io_uring where that is not by wish.
    Epoll(Option<String>),
}

impl Chosen {
    /// What has to be asked for so that the same is chosen here.
    pub fn backend(&self) -> Backend {
        match self {
            Self::Best(_) => Backend::Auto,
            Self::Uring(_) => Backend::Uring,
            Self::Epoll(_) => Backend::Epoll,
        }
    }

    /// For the report.
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

/// Chooses; `probe` says whether io_uring works, and with what.
///
/// # Errors
/// io_uring was asked for and doesn't work: what the probe said.
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

/// Does with a ring what a session will do: a few bytes both ways, to a peer of our own.
///
/// Some kernels (and what passes for one in a sandbox) make a ring and then can't do what is asked of it.
///
/// # Errors
/// What the kernel said: EPERM where it is forbidden, ENOSYS or EINVAL where it is missing or too old.
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
            return Err(io::Error::other("it takes orders and does not carry them out"));
        }
    }
    let flags = ring.describe();
    ring.release(0, ours);
    Ok(flags)
}
