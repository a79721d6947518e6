//! What to send, where, for how long. Plain values, checked once, before the loop.

use crate::error::EngineError;
use crate::schedule::Pace; // a plain value: how fast is part of what is planned
use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A request as it goes over the wire, and the one right answer to it.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Head and body, as sent.
    pub request: Vec<u8>,
    /// The status of a right answer.
    pub status: u16,
    /// The body of a right answer, transfer coding removed.
    pub body: Vec<u8>,
}

impl Exchange {
    /// Whether an answer has no body whatever its head says (RFC 9112, 6.3).
    pub fn bodiless(&self) -> bool {
        self.request.starts_with(b"HEAD ")
    }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket file.
    Unix(PathBuf),
}

impl Display for Target {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// Connections to one server, and what goes over them.
///
/// Made by [`SessionPlan::new`] and struct update, so that a field more changes nothing for those who don't care.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    /// The server.
    pub target: Target,
    /// Cycled per worker, at least one.
    pub exchanges: Vec<Exchange>,
    /// Over all workers.
    pub connections: usize,
    /// False: a new connection for each request.
    pub keepalive: bool,
    /// Per request, and per attempt to connect.
    pub timeout_ns: u64,
}

/// One stretch of load on a session.
#[derive(Clone, Debug)]
pub struct Block {
    /// As `open` returned it.
    pub session: u32,
    /// Loaded and not counted.
    pub lead_ns: u64,
    /// Counted; with `max_requests` the time limit.
    pub counted_ns: u64,
    /// Above 0: the block ends when exactly so many were sent.
    pub max_requests: u64,
    /// None: a closed loop.
    pub pace: Option<Pace>,
}

/// An hour: longer than any block or timeout can sensibly be, and far from overflow.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// More connections than ports of one client address.
const MOST_CONNECTIONS: usize = 60_000;
/// Longest path of a unix socket (`sun_path` of unix(7), its closing zero taken off).
const LONGEST_PATH: usize = 107;

fn refuse(field: &'static str, problem: String, remedy: &'static str) -> EngineError {
    EngineError::Plan { field, problem, remedy }
}

impl SessionPlan {
    /// One connection, kept alive, ten seconds for an answer.
    pub fn new(target: Target, exchanges: Vec<Exchange>) -> Self {
        Self { target, exchanges, connections: 1, keepalive: true, timeout_ns: 10_000_000_000 }
    }

    /// Refuses what can't be run.
    ///
    /// # Errors
    /// [`EngineError::Plan`] names the field, what was given and what would do.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.exchanges.is_empty() {
            return Err(refuse("exchanges", "none given".into(), "give at least one request with its answer"));
        }
        for (index, exchange) in self.exchanges.iter().enumerate() {
            if exchange.request.is_empty() {
                return Err(refuse("exchanges", format!("request {index} is empty"), "give the bytes to send"));
            }
            if !(200..=599).contains(&exchange.status) {
                let problem = format!("request {index} expects status {}", exchange.status);
                return Err(refuse("exchanges", problem, "a final status is 200 to 599"));
            }
        }
        if !(1..=MOST_CONNECTIONS).contains(&self.connections) {
            return Err(refuse("connections", format!("{} given", self.connections), "give 1 to 60000"));
        }
        if !(1_000_000..=LONGEST_NS).contains(&self.timeout_ns) {
            return Err(refuse("timeout_ns", format!("{} given", self.timeout_ns), "give 1 ms to 1 h, in ns"));
        }
        if let Target::Unix(path) = &self.target
            && !(1..=LONGEST_PATH).contains(&path.as_os_str().len())
        {
            let problem = format!("{} has {} bytes", self.target, path.as_os_str().len());
            return Err(refuse("target", problem, "a socket's path has 1 to 107; give a shorter one"));
        }
        Ok(())
    }

    /// How many of the connections worker `index` of `workers` opens: as even as can be, total exact.
    pub fn share(&self, index: usize, workers: usize) -> usize {
        self.connections / workers + usize::from(index < self.connections % workers)
    }
}

impl Block {
    /// Refuses what can't be run.
    ///
    /// # Errors
    /// [`EngineError::Plan`] names the field, what was given and what would do.
    pub fn check(&self) -> Result<(), EngineError> {
        if !(1..=LONGEST_NS).contains(&self.counted_ns) {
            return Err(refuse("counted_ns", format!("{} given", self.counted_ns), "give 1 ns to 1 h, in ns"));
        }
        if self.lead_ns > LONGEST_NS {
            return Err(refuse("lead_ns", format!("{} given", self.lead_ns), "give 0 ns to 1 h, in ns"));
        }
        if self.max_requests > 0 && self.lead_ns > 0 {
            let problem = format!("{} given with max_requests {}", self.lead_ns, self.max_requests);
            return Err(refuse("lead_ns", problem, "give 0: a counted number of requests has no lead-in"));
        }
        self.pace.as_ref().map_or(Ok(()), |pace| self.check_pace(pace))
    }

    fn check_pace(&self, pace: &Pace) -> Result<(), EngineError> {
        if let Some((field, problem)) = pace.fault() {
            return Err(refuse(
                field,
                problem,
                "rates from 0 to 10,000,000/s, not all 0, each until later than the last",
            ));
        }
        let (last, end_ns) = (pace.steps.last().map_or(0, |step| step.until_ns), self.lead_ns + self.counted_ns);
        if self.max_requests == 0 && last < end_ns {
            let problem = format!("{last} given for a block of {end_ns} ns");
            return Err(refuse("until_ns", problem, "the last step must reach to the block's end"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_is_given_to_exactly_one_worker() {
        for connections in 1..50 {
            for workers in 1..9 {
                let target = Target::Tcp("127.0.0.1:1".parse().unwrap());
                let plan = SessionPlan { connections, ..SessionPlan::new(target, vec![]) };
                let shares: Vec<_> = (0..workers).map(|index| plan.share(index, workers)).collect();
                assert_eq!(shares.iter().sum::<usize>(), connections);
                assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
            }
        }
    }
}
