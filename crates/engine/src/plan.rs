//! What to send, where, and for how long. Plain values, checked once, before the loop.

use crate::error::EngineError;
pub use crate::exchange::Exchange;
use crate::heads::ExpectedHeads;
use crate::http2; // no I/O: how a request is written
use crate::schedule::OpenLoopPlan; // a plain value: how fast is part of what is planned
use crate::script::{SharedScript, kinds_of_response};
pub use crate::target::Target;
use crate::tls::TlsPlan;
use crate::websocket::{Message, handshake}; // no I/O: how a message is written
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;

/// Connections to one server, and what is sent on them.
///
/// Build it with [`SessionPlan::new`] and struct update, so that a new field changes nothing for other callers.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    /// The server.
    pub target: Target,
    /// At least one; each worker cycles through them.
    pub exchanges: Vec<Exchange>,
    /// Order of exchanges, by number; empty: one after the other. Each worker cycles through it.
    pub sequence: Vec<u32>,
    /// By kind of exchange: the heads of correct responses. Empty: heads are not compared.
    pub heads: Vec<ExpectedHeads>,
    /// Number of connections, over all workers.
    pub connections: usize,
    /// False: a new connection for each request.
    pub keepalive: bool,
    /// Time limit per request, and per attempt to connect.
    pub timeout_ns: u64,
    /// How connections are encrypted; None: they are not.
    pub tls: Option<TlsPlan>,
    /// The protocol, and how many requests may be in flight on one connection.
    pub protocol: Protocol,
    /// A kept connection ends after this many requests; over HTTP/1.1 the last one has `Connection: close`.
    pub requests_per_connection: Option<NonZeroU32>,
    /// Whether the time to a response's first byte is recorded.
    pub first_byte: bool,
    /// How much of each body is checked.
    pub body_check: BodyCheck,
    /// If above 1, connections come from this many addresses of 127.0.0.0/8, each with its own ports.
    pub sources: u32,
    /// Workers check for responses without sleeping, so that a server's CPU time does not depend on waking them. Each
    /// worker needs a core of its own.
    pub polls: bool,
    /// By worker: the script that makes its requests during the load, pipelined. Then there are two exchanges, for the
    /// expected responses: the second is for requests whose response has no body (HEAD). Empty: the exchanges are sent.
    pub scripts: Vec<SharedScript>,
    /// By worker: its server if that is not `target`; may be shorter than the number of workers.
    pub targets: Vec<Option<Target>>,
    /// If several generators share an open loop's schedule: the number of this one's first worker among all of them,
    /// and the number of all workers. The latter is 0 if this generator has a schedule of its own.
    pub turns: (usize, usize),
    /// If a server accepts no more connections, the session begins with those that it has accepted; over HTTP/1 only.
    pub partial: bool,
}

/// The protocol. Exchanges are in HTTP/1.1's form in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, or 1.0 if the requests say so, with one request at a time on each connection.
    #[default]
    Http1,
    /// The same with several requests in flight on each connection.
    Pipelined {
        /// How many requests.
        depth: u32,
    },
    /// HTTP/2: without TLS by prior knowledge (RFC 9113, 3.3), over TLS by ALPN (3.2).
    Http2 {
        /// Concurrent requests on each connection, each in its own stream.
        streams: u32,
    },
    /// WebSocket: bodies are messages, and the head of all exchanges opens each connection; one message at a time.
    WebSocket,
}

impl Protocol {
    /// How many requests may be in flight on one connection.
    pub(crate) fn depth(self) -> usize {
        match self {
            Self::Http1 | Self::WebSocket => 1,
            Self::Pipelined { depth } => depth as usize,
            Self::Http2 { streams } => streams as usize,
        }
    }

    /// The name for a person.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http1 | Self::Pipelined { .. } => "HTTP/1.1",
            Self::Http2 { .. } => "HTTP/2",
            Self::WebSocket => "WebSocket",
        }
    }
}

/// How much of each body is checked; statuses and heads always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyCheck {
    /// All bytes.
    #[default]
    Full,
    /// Only the length, if it is declared and the body is large: the first bodies and a few of the later ones are
    /// compared byte by byte, the bytes of the others are counted in the kernel's buffers. Only over TCP without TLS.
    Length,
}

/// Shortest body that counts as large.
const LARGE_BODY: usize = 16 * 1024;

/// A period of load on a session.
#[derive(Clone, Debug)]
pub struct BlockPlan {
    /// The session's number, as `open` returned it.
    pub session: u32,
    /// Duration of the lead-in, which is not counted.
    pub lead_ns: u64,
    /// Duration of the counted part; with `max_requests` its time limit.
    pub counted_ns: u64,
    /// If above 0, the block ends after exactly this many requests.
    pub max_requests: u64,
    /// None: a closed loop.
    pub open_loop: Option<OpenLoopPlan>,
}

/// The same request as a connection's last one: without a header that keeps it, and in HTTP/1.1 with one that closes
/// it.
fn closing(request: &[u8]) -> Vec<u8> {
    let head = memchr::memmem::find(request, b"\r\n\r\n").map_or(request.len(), |at| at + 2);
    let mut lines = request[..head].split_inclusive(|&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let mut made = first.to_vec();
    let mine = |line: &&[u8]| line.get(..11).is_some_and(|name| name.eq_ignore_ascii_case(b"connection:"));
    lines.filter(|line| !mine(line)).for_each(|line| made.extend_from_slice(line));
    if first.trim_ascii_end().ends_with(b" HTTP/1.1") {
        made.extend_from_slice(b"Connection: close\r\n");
    }
    made.extend_from_slice(&request[head..]);
    made
}

/// One hour: longer than any sensible block or timeout, and far from overflow.
const MAX_NS: u64 = 3_600_000_000_000;
/// Far more connections than the engine of one machine has ever needed.
const MAX_CONNECTIONS: usize = 1_000_000;
/// Maximum number of requests in flight on one connection.
const MAX_PIPELINED: u32 = 1024;
/// Maximum number of kinds of requests: each block has a histogram for each.
const MAX_KINDS: usize = 64;
/// Addresses 127.0.0.1 to 127.255.255.1.
const MAX_SOURCES: u32 = 1 << 16;
/// Longest path of a unix socket (`sun_path` of unix(7), without the closing zero).
const MAX_PATH: usize = 107;

fn refuse(field: &'static str, problem: String, remedy: &'static str) -> EngineError {
    EngineError::Plan { field, problem, remedy }
}

impl SessionPlan {
    /// One connection, kept alive, with a time limit of ten seconds.
    pub fn new(target: Target, exchanges: Vec<Exchange>) -> Self {
        Self {
            target,
            exchanges,
            sequence: Vec::new(),
            heads: Vec::new(),
            connections: 1,
            keepalive: true,
            timeout_ns: 10_000_000_000,
            tls: None,
            protocol: Protocol::Http1,
            requests_per_connection: None,
            first_byte: false,
            body_check: BodyCheck::Full,
            sources: 1,
            polls: false,
            scripts: Vec::new(),
            targets: Vec::new(),
            turns: (0, 0),
            partial: false,
        }
    }

    /// The requests in HTTP/2's form, in the order of the exchanges.
    ///
    /// # Errors
    /// [`EngineError::Plan`]: a request can't be read.
    pub fn http2_requests(&self) -> Result<Vec<http2::Request>, EngineError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let made = |(index, one): (usize, &Exchange)| {
            http2::Request::new(&one.request, scheme).map_err(|why| {
                refuse("exchanges", format!("request {index}: {why}"), "give a head as HTTP/1.1 has it, then the body")
            })
        };
        self.exchanges.iter().enumerate().map(made).collect()
    }

    /// The bodies in WebSocket's form, in the order of the exchanges.
    ///
    /// # Errors
    /// [`EngineError::Plan`]: heads differ, or more than one response is correct.
    pub fn websocket_messages(&self) -> Result<Vec<Message>, EngineError> {
        let made = |(index, one): (usize, &Exchange)| {
            let (head, payload) = one.parts();
            if head != self.exchanges[0].parts().0 || !head.ends_with(b"\r\n\r\n") {
                let problem = format!("request {index} has another head than the first one, or none");
                return Err(refuse(
                    "exchanges",
                    problem,
                    "give all the head that opens a connection, then the message",
                ));
            }
            if one.any_body || one.pattern {
                let problem = format!("request {index} has more than one correct response");
                return Err(refuse("exchanges", problem, "give one response: messages are compared byte by byte"));
            }
            let [mask @ .., _, _, _, _] = handshake::mixed(0, index as u64).to_be_bytes();
            Ok(Message::new(payload, &one.body, one.binary, mask))
        };
        self.exchanges.iter().enumerate().map(made).collect()
    }

    /// Whether bodies may be counted instead of read.
    pub fn length_only(&self) -> bool {
        let large = self.exchanges.iter().any(|exchange| exchange.body.len() >= LARGE_BODY);
        self.body_check == BodyCheck::Length && large && self.target.address().is_some()
    }

    /// Whether connections with one request at a time end after some requests, are encrypted, or have timed first
    /// bytes.
    pub(crate) fn limited(&self) -> bool {
        self.tls.is_some() || self.first_byte || self.connections_end()
    }

    /// The plan of worker `index`, if it differs.
    pub(crate) fn of_worker(&self, index: usize) -> Option<Self> {
        let target = self.targets.get(index).cloned().flatten();
        let script = self.scripts.get(index).cloned();
        if target.is_none() && script.is_none() {
            return None;
        }
        let (target, scripts) = (target.unwrap_or_else(|| self.target.clone()), script.into_iter().collect());
        Some(Self { target, scripts, targets: Vec::new(), ..self.clone() })
    }

    fn connections_end(&self) -> bool {
        let says_so = !matches!(self.protocol, Protocol::Http2 { .. });
        self.requests_per_connection.is_some() && self.keepalive && says_so
    }

    /// Requests that one connection carries over HTTP/2.
    pub(crate) fn requests_per_http2_connection(&self) -> u32 {
        match (self.keepalive, self.requests_per_connection) {
            (false, _) => 1,
            (true, None) => http2::MAX_REQUESTS,
            (true, Some(most)) => most.get(),
        }
    }

    /// Number of kinds of requests, at least one.
    pub fn kinds(&self) -> usize {
        self.exchanges.iter().map(|exchange| exchange.kind as usize + 1).max().unwrap_or(1)
    }

    /// The expected heads of an exchange's response.
    pub(crate) fn heads_of(&self, exchange: &Exchange) -> ExpectedHeads {
        self.heads.get(exchange.kind as usize).cloned().unwrap_or_default()
    }

    /// Whether responses are judged by more than their bytes, or kinds of requests are counted separately.
    pub(crate) fn judges_more(&self) -> bool {
        self.kinds() > 1 || self.exchanges.iter().any(|exchange| exchange.earliest_ns > 0)
    }

    /// How many exchanges are cycled in a prepared plan.
    pub(crate) fn cycle(&self) -> usize {
        self.exchanges.len() / if self.connections_end() { 2 } else { 1 }
    }

    /// The plan for the workers: if connections end, the exchanges follow again in the form for a connection's last
    /// request.
    pub(crate) fn prepared(mut self) -> Self {
        if self.connections_end() {
            let last = |one: &Exchange| Exchange { request: closing(&one.request), ..one.clone() };
            let last: Vec<_> = self.exchanges.iter().map(last).collect();
            self.exchanges.extend(last);
        }
        if !self.scripts.is_empty() {
            self.exchanges = kinds_of_response(&self.exchanges);
        }
        self
    }

    /// The source address of a worker's connection `index`; None: the kernel chooses it.
    pub fn source(&self, index: usize) -> Option<Ipv4Addr> {
        let number = index % self.sources.max(1) as usize;
        (self.sources > 1).then(|| Ipv4Addr::new(127, (number >> 8) as u8, number as u8, 1))
    }

    /// Refuses an invalid plan.
    ///
    /// # Errors
    /// [`EngineError::Plan`] has the field, what was given, and what would be valid.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.exchanges.is_empty() {
            return Err(refuse("exchanges", "none given".into(), "give at least one request with its response"));
        }
        if let Some(place) = self.sequence.iter().find(|place| **place as usize >= self.exchanges.len()) {
            let problem = format!("{place} given of {} exchanges", self.exchanges.len());
            return Err(refuse("sequence", problem, "give places of exchanges, from 0"));
        }
        let kinds = self.kinds();
        if !self.heads.is_empty() && self.heads.len() != kinds {
            let problem = format!("{} given for {kinds} kinds of requests", self.heads.len());
            return Err(refuse("heads", problem, "give those of each kind, or none"));
        }
        if kinds > MAX_KINDS || (0..kinds).any(|kind| self.exchanges.iter().all(|it| it.kind as usize != kind)) {
            return Err(refuse("exchanges", format!("kinds up to {} given", kinds - 1), "number up to 64 from 0 on"));
        }
        for (index, exchange) in self.exchanges.iter().enumerate() {
            if exchange.request.is_empty() {
                return Err(refuse("exchanges", format!("request {index} is empty"), "give the bytes to send"));
            }
            let switches = self.protocol == Protocol::WebSocket && exchange.status == 101;
            if exchange.status != 0 && !switches && !(200..=599).contains(&exchange.status) {
                let problem = format!("request {index} expects status {}", exchange.status);
                return Err(refuse("exchanges", problem, "a final status is 200 to 599; 0 stands for 200 to 399"));
            }
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            return Err(refuse("connections", format!("{} given", self.connections), "give 1 to 1000000"));
        }
        if !(1_000_000..=MAX_NS).contains(&self.timeout_ns) {
            return Err(refuse("timeout_ns", format!("{} given", self.timeout_ns), "give 1 ms to 1 h, in ns"));
        }
        if let Target::Unix(path) = &self.target
            && !(1..=MAX_PATH).contains(&path.as_os_str().len())
        {
            let problem = format!("{} has {} bytes", self.target, path.as_os_str().len());
            return Err(refuse("target", problem, "a socket's path has 1 to 107; give a shorter one"));
        }
        self.check_protocol()?;
        let in_order = matches!(self.protocol, Protocol::Pipelined { .. }) && self.keepalive && !self.connections_end();
        if !self.scripts.is_empty() && (!in_order || self.exchanges.len() != 2) {
            let problem =
                "requests are made under load, and connections end, or there are not two exchanges".to_owned();
            return Err(refuse(
                "scripts",
                problem,
                "keep connections alive without a bound; give the two kinds of response",
            ));
        }
        let (first, all) = self.turns;
        if all > 0 && first >= all {
            return Err(refuse("turns", format!("number {first} of {all} given"), "give numbers from 0 on"));
        }
        let spread = matches!(self.target.address(), Some(SocketAddr::V4(to)) if to.ip().is_loopback());
        if !(1..=MAX_SOURCES).contains(&self.sources) || self.sources > 1 && !spread {
            let problem = format!("{} given for {}", self.sources, self.target);
            return Err(refuse("sources", problem, "give 1 to 65536; more than 1 needs a server at 127.x.y.z"));
        }
        Ok(())
    }

    fn check_protocol(&self) -> Result<(), EngineError> {
        match self.protocol {
            Protocol::Http1 => Ok(()),
            Protocol::Pipelined { depth } => {
                if (1..=MAX_PIPELINED).contains(&depth) && (depth == 1 || self.keepalive) {
                    return Ok(());
                }
                let problem = format!("{depth} given{}", if self.keepalive { "" } else { " without keep-alive" });
                Err(refuse("pipelining", problem, "give 1 to 1024; more than 1 needs connections that are kept"))
            }
            Protocol::Http2 { streams } => {
                let bounded = (1..=http2::MAX_STREAMS).contains(&(streams as usize));
                let too_many = streams as usize * self.connections > MAX_CONNECTIONS;
                if !bounded || too_many || streams > 1 && !self.keepalive {
                    let problem = format!("{streams} given for {} connections", self.connections);
                    let remedy = "give 1 to 1024, a million in all; more than 1 needs connections that are kept";
                    return Err(refuse("streams", problem, remedy));
                }
                self.http2_requests().map(drop)
            }
            Protocol::WebSocket => {
                if !self.keepalive || self.requests_per_connection.is_some() || !self.heads.is_empty() {
                    let problem = "given over WebSocket with connections that end, or with heads".to_owned();
                    return Err(refuse(
                        "websocket",
                        problem,
                        "keep connections alive without a bound, and give no heads",
                    ));
                }
                self.websocket_messages().map(drop)
            }
        }
    }

    /// Refuses a block that is not valid for this session.
    ///
    /// # Errors
    /// As [`SessionPlan::check`].
    pub fn check_open_loop(&self, block: &BlockPlan) -> Result<(), EngineError> {
        let Protocol::Pipelined { depth } = self.protocol else { return Ok(()) };
        if block.open_loop.is_none() {
            return Ok(());
        }
        if !self.scripts.is_empty() {
            let problem = "requests are made under load, in an open loop".to_owned();
            return Err(refuse("scripts", problem, "an open loop's requests are made before it"));
        }
        let problem = format!("{depth} given in an open loop");
        Err(refuse("pipelining", problem, "give 1: in an open loop each request has a connection of its own"))
    }

    /// Which turn of the schedule worker `index` of `workers` takes, and how many turns there are. A worker without a
    /// connection takes none.
    pub fn turn_of(&self, index: usize, workers: usize) -> (usize, usize) {
        let active = workers.min(self.connections);
        let (first, all) = if self.turns.1 == 0 { (0, active) } else { self.turns };
        (if index < active { first + index } else { usize::MAX }, all)
    }

    /// How many connections worker `index` of `workers` opens: as equal as possible.
    pub fn connections_of(&self, index: usize, workers: usize) -> usize {
        self.connections / workers + usize::from(index < self.connections % workers)
    }
}

impl BlockPlan {
    /// Refuses an invalid block.
    ///
    /// # Errors
    /// [`EngineError::Plan`] has the field, what was given, and what would be valid.
    pub fn check(&self) -> Result<(), EngineError> {
        if !(1..=MAX_NS).contains(&self.counted_ns) {
            return Err(refuse("counted_ns", format!("{} given", self.counted_ns), "give 1 ns to 1 h, in ns"));
        }
        if self.lead_ns > MAX_NS {
            return Err(refuse("lead_ns", format!("{} given", self.lead_ns), "give 0 ns to 1 h, in ns"));
        }
        if self.max_requests > 0 && self.lead_ns > 0 {
            let problem = format!("{} given with max_requests {}", self.lead_ns, self.max_requests);
            return Err(refuse("lead_ns", problem, "give 0: a counted number of requests has no lead-in"));
        }
        self.open_loop.as_ref().map_or(Ok(()), |open_loop| self.check_open_loop(open_loop))
    }

    fn check_open_loop(&self, open_loop: &OpenLoopPlan) -> Result<(), EngineError> {
        if let Some((field, problem)) = open_loop.fault() {
            return Err(refuse(
                field,
                problem,
                "rates from 0 to 10,000,000/s, not all 0, each until later than the last",
            ));
        }
        let (last, end_ns) = (open_loop.steps.last().map_or(0, |step| step.until_ns), self.lead_ns + self.counted_ns);
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
    fn a_connections_last_request_says_so() {
        let kept = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n\r\n";
        let last = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\n\r\n";
        assert_eq!(closing(kept), last);
        let old = b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: a\r\n\r\n";
        assert_eq!(closing(old), b"GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    }

    #[test]
    fn every_connection_is_given_to_exactly_one_worker() {
        for connections in 1..50 {
            for workers in 1..9 {
                let target = Target::Tcp("127.0.0.1:1".parse().unwrap());
                let plan = SessionPlan { connections, ..SessionPlan::new(target, vec![]) };
                let shares: Vec<_> = (0..workers).map(|index| plan.connections_of(index, workers)).collect();
                assert_eq!(shares.iter().sum::<usize>(), connections);
                assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
            }
        }
    }
}
