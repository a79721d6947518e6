//! No recorded latency is shorter than the time for which the server really held the request.
//!
//! A server notes how long it held each request: from the kernel's timestamp of its arrival (the request was sent
//! before) to the clock reading before the response is sent (the response arrives later). Each latency is at least that
//! long on any machine: noise only makes latencies longer. Checked for the shortest, and for all in order of length.

use crate::BACKEND;
use crate::faulty::{RIGHT, check, engine_over, errors, plan};
use dragstrip_engine::io::{Epoll, Needs, TimestampSource, Transport};
use dragstrip_engine::schedule::{OpenLoopPlan, Precision};
use dragstrip_engine::{Backend, BlockPlan, Engine, Protocol, SessionPlan, Tally};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use socket2::Socket;
use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The listener's token; no connection has it.
const LISTENER: u64 = 1 << 40;
/// Longest sleep of the server before it checks whether it must end.
const WAIT_NS: u64 = 20_000_000;
/// Time limit of every block; it ends by its number of requests.
const LIMIT_NS: u64 = 120_000_000_000;
const HEAD_END: &[u8] = b"\r\n\r\n";

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A held request: when its response may be sent (CLOCK_MONOTONIC), its connection, and when it arrived in the kernel
/// (CLOCK_REALTIME).
struct Held {
    due_ns: u64,
    token: usize,
    came_ns: u64,
}

/// One thread that responds to every request after holding it for a given time, and notes how long it held it.
struct Witness {
    address: SocketAddr,
    had_ns: Arc<Mutex<Vec<u64>>>,
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Witness {
    fn begin(hold_ns: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (had_ns, stop) = (Arc::default(), Arc::default());
        let (told, ending) = (Arc::clone(&had_ns), Arc::clone(&stop));
        let serving = std::thread::spawn(move || serve(Socket::from(listener), hold_ns, &told, &ending));
        Self { address, had_ns, stop, serving: Some(serving) }
    }

    /// Times for which it held requests since the last call, ascending.
    fn had_ns(&self) -> Vec<u64> {
        let mut had_ns = std::mem::take(&mut *self.had_ns.lock().unwrap());
        had_ns.sort_unstable();
        had_ns
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.serving.take().unwrap().join().unwrap();
    }
}

fn serve(listener: Socket, hold_ns: u64, told: &Mutex<Vec<u64>>, ending: &AtomicBool) {
    let needs = Needs { connections: 0, body_bytes: 0, requests: &[], stamps: true, target: None, tls: None };
    let mut poller = Epoll::open(&needs).unwrap();
    listener.set_nonblocking(true).unwrap();
    poller.watch(LISTENER, &listener, false).unwrap();
    let (mut peers, mut held, mut buffer): (Vec<Option<Socket>>, VecDeque<Held>, _) =
        (vec![], VecDeque::new(), [0; 4096]);
    while !ending.load(Ordering::Relaxed) {
        let now_ns = clock_ns(libc::CLOCK_MONOTONIC);
        let wait_ns = held.front().map_or(WAIT_NS, |first| first.due_ns.saturating_sub(now_ns));
        for index in 0..poller.wait(now_ns, wait_ns, None) {
            let Some(event) = poller.event(index) else { continue };
            if event.token == LISTENER {
                while let Ok((peer, _)) = listener.accept() {
                    peer.set_tcp_nodelay(true).unwrap();
                    poller.watch(peers.len() as u64, &peer, false).unwrap();
                    peers.push(Some(peer));
                }
                continue;
            }
            let token = event.token as usize;
            let Some(peer) = &peers[token] else { continue };
            while let Ok(read) = poller.receive(peer, &mut buffer) {
                if read.bytes.is_empty() {
                    peers[token] = None;
                    break;
                }
                let asked = read.bytes.windows(HEAD_END.len()).filter(|four| *four == HEAD_END).count();
                let due_ns = clock_ns(libc::CLOCK_MONOTONIC) + hold_ns;
                held.extend((0..asked).map(|_| Held { due_ns, token, came_ns: read.stamp_ns }));
            }
        }
        while held.front().is_some_and(|first| first.due_ns <= clock_ns(libc::CLOCK_MONOTONIC)) {
            let Some(Held { token, came_ns, .. }) = held.pop_front() else { break };
            let Some(peer) = &mut peers[token] else { continue };
            told.lock().unwrap().push(clock_ns(libc::CLOCK_REALTIME).saturating_sub(came_ns));
            peer.write_all(RIGHT).unwrap();
        }
    }
}

/// Keeps every core busy until it is dropped.
struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    fn begin() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |stop: Arc<AtomicBool>| {
            move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..cores).map(|_| std::thread::spawn(spin(Arc::clone(&stop)))).collect();
        Self { stop, threads }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn histogram(bytes: &[u8]) -> Histogram<u64> {
    Deserializer::new().deserialize(&mut &*bytes).unwrap()
}

/// The quantile of ascending values for a number of thousandths; as HdrHistogram counts.
fn of_rank(ascending: &[u64], thousandths: usize) -> u64 {
    ascending[(ascending.len() * thousandths).div_ceil(1000).max(1) - 1]
}

/// In order of length, no recorded latency is shorter than the time for which the server held a request. A latency is
/// known by its histogram bucket, whose upper bound is compared.
fn check_truth(what: &str, recorded: &Histogram<u64>, had_ns: &[u64]) {
    assert_eq!(recorded.len(), had_ns.len() as u64, "{what}");
    let mut seen = 0;
    for step in recorded.iter_recorded() {
        seen += step.count_since_last_iteration() as usize;
        let (said_ns, true_ns) = (recorded.highest_equivalent(step.value_iterated_to()), had_ns[seen - 1]);
        let low = |thousandths: usize| {
            (recorded.value_at_quantile(thousandths as f64 / 1000.0), of_rank(had_ns, thousandths))
        };
        assert!(
            said_ns >= true_ns,
            "{what}: the {seen} shortest latencies are {said_ns} ns at most, while the server had the request for \
             {true_ns} ns; minimum, p0.1 and p1, recorded and had: {:?} {:?} {:?}",
            (recorded.min(), had_ns[0]),
            low(1),
            low(10)
        );
    }
}

/// The binary's back end, and io_uring by name, because one connection alone does not use it by default.
fn backends() -> Vec<Backend> {
    let core = (0..1024).find(|core| Engine::with_backend(&[*core], Backend::Epoll).is_ok()).unwrap();
    let named = BACKEND == Backend::Auto && Engine::with_backend(&[core], Backend::Uring).is_ok();
    if named { vec![BACKEND, Backend::Uring] } else { vec![BACKEND] }
}

/// Runs a block of requests against a server that holds each for a given time, and compares both records. If the clock
/// was set during the block, the block is repeated.
fn compare(
    what: &str,
    plan: impl Fn(SocketAddr) -> SessionPlan,
    requests: u64,
    hold_ns: u64,
    open_loop: Option<&OpenLoopPlan>,
) {
    for backend in backends() {
        let (server, mut engine) = (Witness::begin(hold_ns), engine_over(1, backend));
        let session = engine.open(plan(server.address)).unwrap();
        let block = BlockPlan {
            session,
            lead_ns: 0,
            counted_ns: LIMIT_NS,
            max_requests: requests,
            open_loop: open_loop.cloned(),
        };
        let done = loop {
            server.had_ns();
            let done: Tally = engine.run(std::slice::from_ref(&block), &[]).unwrap().pop().unwrap();
            if done.clock_step_ns == 0 {
                break done;
            }
        };
        check(&done);
        let had_ns = server.had_ns();
        let what = format!("{what}, {backend:?}");
        assert_eq!((done.requests, done.early_stamps, errors(&done)), (requests, 0, vec![]), "{what}");
        assert!(had_ns[0] >= hold_ns, "{what}: the server itself is untrue");
        check_truth(&what, &histogram(&done.latency_hdr), &had_ns);
        if let Some(open) = &done.open_loop {
            check_truth(&format!("{what}, from the sending"), &histogram(&open.latency_sent_hdr), &had_ns);
            // The lateness is at most the latency without the server's part: a request was sent before it arrived.
            let [latency, lag] = [&done.latency_hdr, &open.lag_hdr].map(|hdr| histogram(hdr));
            let sum = |of: &Histogram<u64>, value: fn(&Histogram<u64>, u64) -> u64| -> u64 {
                of.iter_recorded().map(|step| value(of, step.value_iterated_to()) * step.count_at_value()).sum()
            };
            let (latest_ns, least_ns) =
                (sum(&latency, Histogram::highest_equivalent), sum(&lag, Histogram::lowest_equivalent));
            assert!(least_ns <= latest_ns - had_ns.iter().sum::<u64>(), "{what}: {least_ns} of {latest_ns}");
        }
    }
}

const HOLD_NS: u64 = 200_000;
/// (connections, requests)
const CASES: [(usize, u64); 3] = [(1, 500), (16, 6000), (100, 20_000)];

fn closed_loop(how: &str) {
    let Some(_stamping) = TimestampSource::begin() else { return };
    for (connections, requests) in CASES {
        for hold_ns in [0, HOLD_NS] {
            let what = format!("{connections} connections, {how}, held for {hold_ns} ns");
            compare(&what, |address| plan(address, connections), requests, hold_ns, None);
        }
    }
}

#[test]
fn no_latency_is_shorter_than_the_time_for_which_the_server_had_the_request() {
    closed_loop("idle cores");
}

#[test]
fn no_latency_is_too_short_on_busy_cores_either() {
    let _busy = Busy::begin();
    closed_loop("busy cores");
}

#[test]
fn in_an_open_loop_neither_latency_is_too_short_nor_lateness_too_long() {
    let Some(_stamping) = TimestampSource::begin() else { return };
    for busy in [false, true] {
        let _busy = busy.then(Busy::begin);
        for (connections, precision) in [(1, Precision::Precise), (16, Precision::Balanced), (100, Precision::Thrifty)]
        {
            let (what, open_loop) = (
                format!("{connections} connections, {precision:?}, busy {busy}"),
                OpenLoopPlan::constant(10_000.0, precision),
            );
            compare(&what, |address| plan(address, connections), 5000, 0, Some(&open_loop));
        }
    }
}

#[test]
fn no_latency_is_too_short_with_a_connection_per_request_pipelining_or_first_bytes() {
    let Some(_stamping) = TimestampSource::begin() else { return };
    let _busy = Busy::begin();
    compare("closing", |address| SessionPlan { keepalive: false, ..plan(address, 16) }, 3000, 0, None);
    compare(
        "pipelined",
        |address| SessionPlan { protocol: Protocol::Pipelined { depth: 4 }, ..plan(address, 16) },
        6000,
        0,
        None,
    );
    compare("first byte", |address| SessionPlan { first_byte: true, ..plan(address, 16) }, 3000, 0, None);
}
