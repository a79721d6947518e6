//! What to run, as Python describes it: sessions, blocks, and the open loops of blocks.

use crate::errors;
use crate::script::Script;
use crate::types::{Bytes, typed};
use dragstrip_engine::heads::{ExpectedHeads, ReferenceHead};
use dragstrip_engine::schedule::{Arrivals, OpenLoopPlan, Precision, Step};
use dragstrip_engine::{self as engine, BodyCheck, EngineError, Protocol, TlsPlan, Trust};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTypeInfo, type_hint_identifier, type_hint_union};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Where a server listens: host and port, which are resolved when a session is opened, or a socket file.
#[pyclass(frozen, eq, from_py_object, module = "dragstrip._engine")]
#[derive(Clone, PartialEq, Eq)]
pub struct Target(Place);

#[derive(Clone, PartialEq, Eq)]
enum Place {
    Tcp(String, u16, Option<PathBuf>),
    Unix(PathBuf),
}

#[pymethods]
impl Target {
    /// A host and its port.
    ///
    /// Args:
    ///     namespace: of the network that has this address, like `/proc/PID/ns/net`; None: this process's own.
    #[new]
    #[pyo3(signature = (host, port, *, namespace = None))]
    fn new(host: String, port: u16, namespace: Option<PathBuf>) -> Self {
        Self(Place::Tcp(host, port, namespace))
    }

    /// A unix socket.
    #[staticmethod]
    fn unix(path: PathBuf) -> Self {
        Self(Place::Unix(path))
    }

    fn __repr__(&self) -> String {
        match &self.0 {
            Place::Tcp(host, port, None) => format!("Target({host:?}, {port})"),
            Place::Tcp(host, port, Some(path)) => {
                format!("Target({host:?}, {port}, namespace={:?})", path.display())
            }
            Place::Unix(path) => format!("Target.unix({:?})", path.display()),
        }
    }
}

impl Target {
    fn resolved(&self) -> Result<engine::Target, EngineError> {
        match &self.0 {
            Place::Tcp(host, port, None) => engine::resolve(host, *port).map(engine::Target::Tcp),
            Place::Tcp(host, port, Some(path)) => engine::inside(host, *port, path),
            Place::Unix(path) => Ok(engine::Target::Unix(path.clone())),
        }
    }
}

/// Encryption; handshakes are full unless session resumption is requested.
#[pyclass(frozen, eq, get_all, from_py_object, module = "dragstrip._engine")]
#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    /// The name that the server's certificate must have.
    name: String,
    /// PEM file of the authorities that may have signed it; None for this machine's.
    cacert: Option<PathBuf>,
    /// Whether any certificate is accepted.
    insecure: bool,
    /// Whether connections resume sessions of those before them, where the server lets them.
    resume: bool,
}

#[pymethods]
impl Tls {
    /// What the server has to prove.
    #[new]
    #[pyo3(signature = (name, *, cacert = None, insecure = false, resume = false))]
    fn new(name: String, cacert: Option<PathBuf>, insecure: bool, resume: bool) -> Self {
        Self { name, cacert, insecure, resume }
    }
}

impl Tls {
    fn plan(&self) -> Result<TlsPlan, EngineError> {
        let trust = match &self.cacert {
            _ if self.insecure => Trust::Anybody,
            Some(file) => Trust::File(file),
            None => Trust::Platform,
        };
        let plan = TlsPlan::new(&self.name, trust)?;
        Ok(if self.resume { plan.resuming() } else { plan })
    }
}

/// A request and its expected response.
#[pyclass(frozen, eq, module = "dragstrip._engine")]
#[derive(PartialEq, Eq)]
pub struct Exchange {
    request: Vec<u8>,
    /// The expected status.
    #[pyo3(get)]
    status: u16,
    body: Vec<u8>,
    /// Any body as long as `body` is correct; if that is empty, any of up to a mebibyte.
    #[pyo3(get)]
    any_body: bool,
    /// Bytes of `body` from 0xfc on stand for what varies: digits, a number, what is in a string, a word.
    #[pyo3(get)]
    pattern: bool,
    /// A response that arrives sooner after its request was sent is incorrect (`too_early`).
    #[pyo3(get)]
    earliest_ns: u64,
    /// Number of its kind of request: from 0 without gaps, at most 64 kinds.
    #[pyo3(get)]
    kind: u32,
    /// Over WebSocket, the type of the message and of its response: "text" or "binary"; otherwise "".
    #[pyo3(get)]
    message: String,
}

#[pymethods]
impl Exchange {
    #[new]
    #[pyo3(signature = (request, status, body, *, any_body = false, pattern = false, earliest_ns = 0, kind = 0,
        message = ""))]
    #[allow(clippy::too_many_arguments)] // keywords in Python, one value from here on
    fn new(
        request: Bytes,
        status: u16,
        body: Bytes,
        any_body: bool,
        pattern: bool,
        earliest_ns: u64,
        kind: u32,
        message: &str,
    ) -> Self {
        let (Bytes(request), Bytes(body)) = (request, body);
        Self { request, status, body, any_body, pattern, earliest_ns, kind, message: message.to_owned() }
    }

    /// Head and body, as sent.
    #[getter]
    fn request<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.request)
    }

    /// The expected body without transfer coding; empty if any length is correct.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.body)
    }
}

/// What a session accepts as an exchange: any Python object with these attributes.
pub struct ExchangeLike(Attributes);

typed!(ExchangeLike(Attributes): type_hint_union!(
    type_hint_identifier!("dragstrip.workload.exchange", "Exchange"),
    Exchange::TYPE_HINT
));

#[derive(FromPyObject)]
struct Attributes {
    request: Vec<u8>,
    status: u16,
    body: Vec<u8>,
    any_body: bool,
    pattern: bool,
    earliest_ns: u64,
    kind: u32,
    message: String,
}

impl From<ExchangeLike> for engine::Exchange {
    fn from(given: ExchangeLike) -> Self {
        let Attributes { request, status, body, any_body, pattern, earliest_ns, kind, message } = given.0;
        let binary = message == BINARY;
        Self { request, status, body, any_body, pattern, earliest_ns, kind, binary }
    }
}

/// Types of messages.
const TEXT: &str = "text";
const BINARY: &str = "binary";

/// Whether exchanges are messages over WebSocket.
///
/// # Errors
/// Some are and some are not, or a type is unknown.
fn are_messages(exchanges: &[ExchangeLike]) -> PyResult<bool> {
    let messages = exchanges.iter().filter(|it| [TEXT, BINARY].contains(&it.0.message.as_str())).count();
    if messages == exchanges.len() || exchanges.iter().all(|it| it.0.message.is_empty()) {
        return Ok(messages > 0);
    }
    let problem = "exchanges: some are messages; give all the message \"text\" or \"binary\", or none";
    Err(errors::of_kind("plan", problem.to_owned()))
}

fn expected(heads: Vec<Head>) -> ExpectedHeads {
    let field = |(Bytes(name), Bytes(value), same)| (name, value, same);
    let head = |fields: Head| ReferenceHead::new(fields.into_iter().map(field).collect());
    ExpectedHeads::new(heads.into_iter().map(head).collect())
}

/// A reference response's head: names, values, and whether each value must be the same.
type Head = Vec<(Bytes, Bytes, bool)>;

/// Connections to one server, and what goes over them.
#[pyclass(frozen, module = "dragstrip._engine")]
pub struct SessionPlan {
    target: Target,
    tls: Option<Tls>,
    /// The plan without target, TLS and how workers wait; `open` fills these in.
    options: engine::SessionPlan,
}

#[pymethods]
impl SessionPlan {
    /// Plain values; `Engine.open` checks them.
    ///
    /// Args:
    ///     exchanges: cycled per worker; all are messages over WebSocket, or none.
    ///     connections: over all workers.
    ///     keepalive: False opens a new connection for each request; the request itself must then carry
    ///         `Connection: close`, and nothing is connected before the first block.
    ///     timeout_ns: per request and per attempt to connect.
    ///     tls: None for no encryption.
    ///     requests_per_connection: a kept connection ends with this many requests; the last one says so.
    ///     pipelining: how many requests may be in flight on one connection.
    ///     first_byte: records the time to each answer's first byte.
    ///     sources: connections come from this many addresses of 127.0.0.0/8, each with its own ports.
    ///     by_length: large bodies of a declared length are read whole at first and once in 64 later, else only counted
    ///         (over TCP, unencrypted, with none of the four before).
    ///     sequence: places of exchanges, which each worker sends in this order instead of one after the other.
    ///     heads: by kind of request, the heads of reference responses: of each field name and value, and whether the
    ///         value must be the same. A head like none of them fails (`wrong_head`); (): heads are not compared.
    ///     streams: speaks HTTP/2, with this many requests at a time on each connection: in the clear by prior
    ///         knowledge, over TLS by ALPN. Exchanges are written as HTTP/1.1. None: HTTP/1.1.
    ///     turns: where several generators share an open loop's schedule: the number of this engine's first worker
    ///         among all of them, and how many those are; (0, 0): they are its own.
    ///     script: makes the requests while the load goes on, unless they are identical; also says where workers
    ///         connect to. Then two exchanges give the expected responses, with and without a body (HEAD).
    ///     partial: over HTTP/1, if a server accepts no more connections, begins with those that it has accepted.
    #[new]
    #[pyo3(signature = (target, exchanges, *, connections, keepalive, timeout_ns, tls = None,
        requests_per_connection = None, pipelining = 1, first_byte = false, sources = 1, by_length = false,
        sequence = Vec::new(), heads = Vec::new(), streams = None, script = None, turns = (0, 0), partial = false))]
    #[allow(clippy::too_many_arguments)] // keywords in Python, one value from here on
    fn new(
        target: Target,
        exchanges: Vec<ExchangeLike>,
        connections: usize,
        keepalive: bool,
        timeout_ns: u64,
        tls: Option<Tls>,
        requests_per_connection: Option<NonZeroU32>,
        pipelining: u32,
        first_byte: bool,
        sources: u32,
        by_length: bool,
        sequence: Vec<u32>,
        heads: Vec<Vec<Head>>,
        streams: Option<u32>,
        script: Option<&Script>,
        turns: (usize, usize),
        partial: bool,
    ) -> PyResult<Self> {
        let scripts = script.map(Script::for_engine).unwrap_or_default();
        let protocol = match streams {
            _ if are_messages(&exchanges)? => {
                if streams.is_some() || pipelining > 1 || !scripts.is_empty() {
                    let problem = "exchanges: messages given with streams, pipelining or a script; leave those out";
                    return Err(errors::of_kind("plan", problem.to_owned()));
                }
                Protocol::WebSocket
            }
            Some(_) if pipelining > 1 => {
                let problem = format!("pipelining: {pipelining} given over HTTP/2; give streams instead");
                return Err(errors::of_kind("plan", problem));
            }
            Some(streams) => Protocol::Http2 { streams },
            None if pipelining == 1 && scripts.is_empty() => Protocol::Http1,
            None => Protocol::Pipelined { depth: pipelining },
        };
        let exchanges = exchanges.into_iter().map(engine::Exchange::from).collect();
        let options = engine::SessionPlan {
            connections,
            keepalive,
            timeout_ns,
            protocol,
            requests_per_connection,
            first_byte,
            sources,
            sequence,
            heads: heads.into_iter().map(expected).collect(),
            turns,
            partial,
            body_check: if by_length { BodyCheck::Length } else { BodyCheck::Full },
            scripts,
            targets: script.map(Script::targets).unwrap_or_default(),
            ..engine::SessionPlan::new(engine::Target::Unix(PathBuf::new()), exchanges)
        };
        Ok(Self { target, tls, options })
    }
}

impl SessionPlan {
    /// The plan for the engine: the host resolved, certificates read.
    ///
    /// # Errors
    /// A host can't be resolved, or certificates can't be read.
    pub fn resolved(&self, polls: bool) -> Result<engine::SessionPlan, EngineError> {
        let target = self.target.resolved()?;
        let tls = self.tls.as_ref().map(Tls::plan).transpose()?;
        Ok(engine::SessionPlan { target, tls, polls, ..self.options.clone() })
    }
}

/// A stretch of an open loop: the rate goes in a straight line from one value to the other; 0 sends nothing.
#[pyclass(frozen, eq, get_all, from_py_object, module = "dragstrip._engine")]
#[derive(Clone, Copy, PartialEq)]
pub struct RateStep {
    /// Requests per second at its begin, where the step before ends.
    from_per_s: f64,
    /// Requests per second at its end.
    to_per_s: f64,
    /// Its end, from the begin of the block's lead-in.
    until_ns: u64,
}

#[pymethods]
impl RateStep {
    #[new]
    #[pyo3(signature = (*, from_per_s, to_per_s, until_ns))]
    fn new(from_per_s: f64, to_per_s: f64, until_ns: u64) -> Self {
        Self { from_per_s, to_per_s, until_ns }
    }

    fn __repr__(&self) -> String {
        let Self { from_per_s, to_per_s, until_ns } = self;
        format!("RateStep(from_per_s={from_per_s}, to_per_s={to_per_s}, until_ns={until_ns})")
    }
}

impl From<RateStep> for Step {
    fn from(RateStep { from_per_s, to_per_s, until_ns }: RateStep) -> Self {
        Self { from_per_s, to_per_s, until_ns }
    }
}

const ARRIVALS: [(&str, Arrivals); 2] = [("constant", Arrivals::Constant), ("poisson", Arrivals::Poisson)];
const PRECISIONS: [(&str, Precision); 3] =
    [("precise", Precision::Precise), ("balanced", Precision::Balanced), ("thrifty", Precision::Thrifty)];

/// The value of a name.
///
/// # Errors
/// Says which field, what was given, and what would be valid.
pub fn named<T: Copy>(field: &str, given: &str, known: &[(&str, T)]) -> PyResult<T> {
    let value = known.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
    value.ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        let (last, others) = names.split_last().expect("a constant list that is not empty");
        errors::of_kind("plan", format!("{field}: {given:?} given; give {} or {last}", others.join(", ")))
    })
}

/// The name of a value.
pub fn name_of<T: Copy + PartialEq>(value: T, known: &[(&'static str, T)]) -> &'static str {
    known.iter().find(|(_, other)| *other == value).map_or("", |(name, _)| name)
}

/// Requests leave by the clock, whatever the server does.
#[pyclass(frozen, eq, from_py_object, module = "dragstrip._engine")]
#[derive(Clone, PartialEq)]
pub struct OpenLoop(OpenLoopPlan);

#[pymethods]
impl OpenLoop {
    /// A schedule of departures.
    ///
    /// Args:
    ///     steps: in order; the last one reaches to the block's end at least.
    ///     arrivals: `constant` gaps, or those of a `poisson` process.
    ///     precision: how sharply departures keep to it, paid for in wake-ups: `precise`, `balanced` (ticks of 210 µs)
    ///         or `thrifty` (of 1 ms).
    ///     seed: of Poisson arrivals; of several blocks in one run, each draws its own from it.
    ///
    /// Raises:
    ///     EngineError: arrivals or precision is not one of these.
    #[new]
    #[pyo3(signature = (steps, *, arrivals = "constant", precision = "precise", seed = 0))]
    fn new(steps: Vec<RateStep>, arrivals: &str, precision: &str, seed: u64) -> PyResult<Self> {
        let arrivals = named("arrivals", arrivals, &ARRIVALS)?;
        let precision = named("precision", precision, &PRECISIONS)?;
        Ok(Self(OpenLoopPlan { arrivals, precision, steps: steps.into_iter().map(Step::from).collect(), seed }))
    }

    /// In order.
    #[getter]
    fn steps(&self) -> Vec<RateStep> {
        let step = |step: &Step| RateStep::new(step.from_per_s, step.to_per_s, step.until_ns);
        self.0.steps.iter().map(step).collect()
    }

    /// `constant` or `poisson`.
    #[getter]
    fn arrivals(&self) -> &'static str {
        name_of(self.0.arrivals, &ARRIVALS)
    }

    /// `precise`, `balanced` or `thrifty`.
    #[getter]
    fn precision(&self) -> &'static str {
        name_of(self.0.precision, &PRECISIONS)
    }

    /// Of Poisson arrivals.
    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    fn __repr__(&self) -> String {
        let steps: Vec<_> = self.steps().iter().map(RateStep::__repr__).collect();
        let (arrivals, precision) = (self.arrivals(), self.precision());
        format!(
            "OpenLoop([{}], arrivals={arrivals:?}, precision={precision:?}, seed={})",
            steps.join(", "),
            self.0.seed
        )
    }
}

impl OpenLoop {
    /// For one of several blocks: each has its own arrivals.
    fn of_block(&self, index: usize) -> OpenLoopPlan {
        OpenLoopPlan { seed: self.0.seed.wrapping_add((index as u64) << 32), ..self.0.clone() }
    }
}

/// One stretch of load on a session.
#[pyclass(frozen, eq, get_all, from_py_object, module = "dragstrip._engine")]
#[derive(Clone, PartialEq)]
pub struct BlockPlan {
    /// The session, as `Engine.open` returned it.
    session: u32,
    /// Loaded before, and not counted.
    lead_ns: u64,
    /// Loaded and counted.
    counted_ns: u64,
    /// Above 0 ends the block after exactly this many requests; `counted_ns` is then the limit.
    max_requests: u64,
    /// None for a closed loop: a connection's next request leaves when its answer is there.
    open_loop: Option<OpenLoop>,
}

#[pymethods]
impl BlockPlan {
    /// Plain values; `Engine.run` checks them.
    #[new]
    #[pyo3(signature = (session, *, counted_ns, lead_ns = 0, max_requests = 0, open_loop = None))]
    fn new(session: u32, counted_ns: u64, lead_ns: u64, max_requests: u64, open_loop: Option<OpenLoop>) -> Self {
        Self { session, lead_ns, counted_ns, max_requests, open_loop }
    }

    fn __repr__(&self) -> String {
        let Self { session, lead_ns, counted_ns, max_requests, open_loop } = self;
        let open_loop = open_loop.as_ref().map_or("None".into(), OpenLoop::__repr__);
        format!(
            "BlockPlan({session}, counted_ns={counted_ns}, lead_ns={lead_ns}, max_requests={max_requests}, \
             open_loop={open_loop})"
        )
    }
}

impl BlockPlan {
    /// The plan for the engine; `index`: number of the block in the run.
    pub fn block(&self, index: usize) -> engine::BlockPlan {
        engine::BlockPlan {
            session: self.session,
            lead_ns: self.lead_ns,
            counted_ns: self.counted_ns,
            max_requests: self.max_requests,
            open_loop: self.open_loop.as_ref().map(|open_loop| open_loop.of_block(index)),
        }
    }
}
