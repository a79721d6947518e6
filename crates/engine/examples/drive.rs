//! The engine without Python: `drive HOST PORT PATH CONNECTIONS SECONDS CORE [MAX_REQUESTS [auto|uring|epoll]] [OPTIONS]`.
//!
//! Learns the expected response from a reference request, then loads with a closed loop over keep-alive and prints
//! requests/s, the whole process's CPU time per request, latencies and failures. `--close` opens a new connection per
//! request; `--rate R` is an open loop, `--precision precise|balanced|thrifty` its pace. `--post BYTES` sends a body of
//! that size, `--mix` four kinds of requests with weights, counted separately. `--pipeline N` keeps N requests in
//! flight on each connection. `--streams N` is HTTP/2 with N streams per connection, `--tls` TLS without checking the
//! certificate. These two send no reference request: `--answer BYTES` gives the expected body's length, filled with
//! repeated `hello world`. The programs in `benchmarks` compare this one with other generators.

use dragstrip_engine::schedule::{OpenLoopPlan, Precision};
use dragstrip_engine::{
    Backend, BlockPlan, BodyCheck, Engine, Exchange, Protocol, SessionPlan, Target, TlsPlan, Trust, resolve, tally,
};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

const USAGE: &str = "usage: drive HOST PORT PATH CONNECTIONS SECONDS CORE [MAX_REQUESTS [auto|uring|epoll]] [--close] \
                     [--rate R [--precision precise|balanced|thrifty]] [--check full|length] [--post BYTES | --mix] \
                     [--pipeline N] [--streams N [--tls] --answer BYTES]";
/// Weights of the four requests of `--mix`; the last one has a body.
const WEIGHTS: [usize; 4] = [8, 4, 2, 1];
/// Length of their drawn order, as in a race (`dragstrip.workload.definition.SEQUENCE`).
const SEQUENCE: usize = 4096;
/// From this size on, bodies are checked by their length, as in `dragstrip load`, unless `--check` is given.
const LARGE_BODY: usize = 64 * 1024;
/// The printed quantiles of a histogram.
const QUANTILES: [f64; 12] = [0.0, 0.001, 0.01, 0.5, 0.9, 0.98, 0.985, 0.99, 0.995, 0.999, 0.9999, 1.0];

struct Words {
    host: String,
    port: u16,
    path: String,
    connections: usize,
    seconds: f64,
    core: usize,
    max_requests: u64,
    backend: Backend,
    close: bool,
    open_loop: Option<OpenLoopPlan>,
}

fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|word| word != name).nth(1)
}

fn open_loop() -> Option<OpenLoopPlan> {
    let precision = match option("--precision").as_deref() {
        None | Some("precise") => Precision::Precise,
        Some("balanced") => Precision::Balanced,
        Some("thrifty") => Precision::Thrifty,
        Some(_) => return None,
    };
    Some(OpenLoopPlan::constant(option("--rate")?.parse().ok()?, precision))
}

fn body_check(body: &[u8]) -> BodyCheck {
    let by_length = option("--check").map_or(body.len() >= LARGE_BODY, |word| word == "length");
    if by_length { BodyCheck::Length } else { BodyCheck::Full }
}

fn words() -> Option<Words> {
    let close = std::env::args().any(|word| word == "--close");
    let mut words = std::env::args().skip(1).take_while(|word| !word.starts_with("--"));
    Some(Words {
        host: words.next()?,
        port: words.next()?.parse().ok()?,
        path: words.next()?,
        connections: words.next()?.parse().ok()?,
        seconds: words.next()?.parse().ok()?,
        core: words.next()?.parse().ok()?,
        max_requests: words.next().map_or(Some(0), |text| text.parse().ok())?,
        backend: words.next().map_or(Some(Backend::Auto), |text| text.parse().ok())?,
        close,
        open_loop: open_loop(),
    })
}

/// Status and body of one response, read until the connection ends.
fn fetch(address: SocketAddr, request: &str) -> std::io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let malformed = || std::io::Error::new(std::io::ErrorKind::InvalidData, "the first response is not HTTP");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(malformed)?;
    let status =
        bytes.get(9..12).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok()).ok_or_else(malformed)?;
    Ok((status, bytes.split_off(end + 4)))
}

/// A request with a body of `bytes`.
fn post(head: &str, bytes: usize) -> Vec<u8> {
    let head = head.replacen("GET ", "POST ", 1).replacen("\r\n\r\n", "", 1);
    let mut request = format!("{}\r\nContent-Length: {bytes}\r\n\r\n", head.trim_end()).into_bytes();
    request.extend(std::iter::repeat_n(b'x', bytes));
    request
}

/// Four kinds of requests with the same response, and the order in which they are sent.
fn mix(head: &str, status: u16, body: &[u8]) -> (Vec<Exchange>, Vec<u32>) {
    let requests = [head.into(), head.replacen("/ ", "/?a=1 ", 1).into(), head.replacen("/ ", "/?b=22 ", 1).into()];
    let requests = requests.into_iter().chain([post(head, 64)]);
    let kind = |(kind, request)| Exchange { kind, ..Exchange::new(request, status, body.to_vec()) };
    let exchanges = (0..).zip(requests).map(kind).collect();
    let weighted: Vec<u32> = (0..).zip(WEIGHTS).flat_map(|(kind, weight)| std::iter::repeat_n(kind, weight)).collect();
    // Multiplied by an odd number modulo a power of two, places are shuffled well enough for a benchmark.
    let place = |turn: usize| weighted[(turn * 2_654_435_761 % SEQUENCE) * weighted.len() / SEQUENCE];
    (exchanges, (0..SEQUENCE).map(place).collect())
}

/// User and system time of the whole process, µs.
fn cpu_us() -> f64 {
    // SAFETY: an all-zero rusage is valid and outlives the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

/// Quantiles, each the middle of its bucket: HdrHistogram's own is the highest value of it, which is on the average half a
/// bucket too high (2 of 4 us at 5 ms), and figures are to be held against the truth here.
fn print_quantiles(name: &str, hdr: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &hdr[..])?;
    let values = QUANTILES.map(|quantile| {
        let value = if quantile == 0.0 { histogram.min() } else { histogram.value_at_quantile(quantile) };
        format!("{quantile}:{:.1}", histogram.median_equivalent(value) as f64 / 1000.0)
    });
    println!("{name}: {}", values.join(" "));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words = words().ok_or(USAGE)?;
    let address = resolve(&words.host, words.port)?;
    let request = |extra: &str| format!("GET {} HTTP/1.1\r\nHost: {address}\r\n{extra}\r\n", words.path);
    let (status, body) = match option("--answer") {
        Some(bytes) => (200, b"hello world\n".iter().copied().cycle().take(bytes.parse()?).collect()),
        None => fetch(address, &request("Connection: close\r\n"))?,
    };
    let mut engine = Engine::with_backend(&[words.core], words.backend)?;
    let sent = request(if words.close { "Connection: close\r\n" } else { "" });
    let body_check = body_check(&body);
    let (exchanges, sequence) = match option("--post") {
        _ if std::env::args().any(|word| word == "--mix") => mix(&sent, status, &body),
        Some(bytes) => (vec![Exchange::new(post(&sent, bytes.parse()?), status, body)], Vec::new()),
        None => (vec![Exchange::new(sent.into_bytes(), status, body)], Vec::new()),
    };
    let plan = SessionPlan { sequence, ..SessionPlan::new(Target::Tcp(address), exchanges) };
    let keepalive = !words.close;
    let connections = words.connections;
    let protocol = match (option("--streams"), option("--pipeline")) {
        (Some(streams), _) => Protocol::Http2 { streams: streams.parse()? },
        (None, Some(depth)) => Protocol::Pipelined { depth: depth.parse()? },
        (None, None) => Protocol::Http1,
    };
    let encrypted = std::env::args().any(|word| word == "--tls");
    let tls = encrypted.then(|| TlsPlan::new("localhost", Trust::Anybody)).transpose()?;
    let plan = SessionPlan { connections, keepalive, body_check, protocol, tls, timeout_ns: 5_000_000_000, ..plan };
    let session = engine.open(plan)?;
    let counted_ns = (words.seconds * 1e9) as u64;
    let before_us = cpu_us();
    let block =
        BlockPlan { session, lead_ns: 0, counted_ns, max_requests: words.max_requests, open_loop: words.open_loop };
    let done = engine.run(&[block], &[])?.pop().ok_or("nothing was measured")?;
    let per_request_us = (cpu_us() - before_us) / done.answered.max(1) as f64;
    let rate_per_s = done.requests as f64 * 1e9 / done.counted_ns.max(1) as f64;
    println!(
        "back end {}, status {status}, {} bytes per response",
        engine.backend(),
        done.bytes_in / done.answered.max(1)
    );
    println!("requests/s {rate_per_s:.0}  CPU us/request {per_request_us:.3}  answered {}", done.answered);
    print_quantiles("latency us", &done.latency_hdr)?;
    if let Some(open) = &done.open_loop {
        print_quantiles("lateness us", &open.lag_hdr)?;
        println!("offered {} departed {} unsent {}", open.offered, open.departed, open.unsent);
    }
    let connections_ns = words.connections as f64 * done.counted_ns.max(1) as f64;
    let [waited, turned] = [done.latency_sum_ns, done.turn_sum_ns].map(|ns| ns as f64 * 100.0 / connections_ns);
    let stamps = engine.latency_stamps();
    println!("{stamps} stamps: connections waited {waited:.1} % for the server, {turned:.1} % for the engine");
    let errors: Vec<_> = tally::NAMES.iter().zip(done.errors).filter(|(_, count)| *count > 0).collect();
    for (number, kind) in done.kinds.iter().enumerate() {
        let share = 100.0 * kind.requests as f64 / done.requests.max(1) as f64;
        println!("kind {number}: {share:.1} % of the answers, {} failed", kind.failed);
    }
    println!("sent {} failed {} connects {} errors {errors:?} {}", done.sent, done.failed, done.connects, done.sample);
    Ok(())
}
