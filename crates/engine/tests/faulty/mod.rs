//! A small server that misbehaves as a test requires: one thread per connection, blocking, std only.

#![allow(dead_code)] // each test binary uses its part

use dragstrip_engine::tally::Failure;
use dragstrip_engine::{Backend, BlockPlan, Engine, Exchange, Protocol, SessionPlan, Tally, Target, tally};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";
pub const BODY: &[u8] = b"hello world";
pub const RIGHT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world";

/// What happens to the connection after a request.
pub enum Then {
    GoOn,
    Close,
    Reset,
    /// Sends nothing more; the connection stays open until the server is dropped.
    Stall,
    /// Stops listening and resets every connection.
    Die,
}

#[derive(Default)]
struct Shared {
    requests: AtomicU64,
    accepted: AtomicU64,
    dead: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

pub struct Server {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

/// Serves on a free port; `behave` gets the connection and the request's 0-based number over all of them.
pub fn serve(behave: impl Fn(&mut TcpStream, u64) -> Then + Send + Sync + 'static) -> Server {
    serve_heads(move |stream, _, number| behave(stream, number))
}

/// The same, with the request itself.
pub fn serve_heads(behave: impl Fn(&mut TcpStream, &[u8], u64) -> Then + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (shared, behave) = (Arc::new(Shared::default()), Arc::new(behave));
    let mine = Arc::clone(&shared);
    let listening = std::thread::spawn(move || {
        for stream in listener.incoming() {
            if mine.dead.load(Ordering::SeqCst) {
                return;
            }
            let stream = stream.unwrap();
            mine.accepted.fetch_add(1, Ordering::SeqCst);
            mine.open.lock().unwrap().push(stream.try_clone().unwrap());
            let (shared, behave) = (Arc::clone(&mine), Arc::clone(&behave));
            std::thread::spawn(move || attend(stream, &shared, behave.as_ref(), address));
        }
    });
    Server { address, shared, listening: Some(listening) }
}

fn attend(
    mut stream: TcpStream,
    shared: &Shared,
    behave: &(dyn Fn(&mut TcpStream, &[u8], u64) -> Then + Send + Sync),
    address: SocketAddr,
) {
    stream.set_nodelay(true).unwrap();
    while let Some(request) = read_request(&mut stream) {
        match behave(&mut stream, &request, shared.requests.fetch_add(1, Ordering::SeqCst)) {
            Then::GoOn => {}
            Then::Stall => while read_request(&mut stream).is_some() {},
            // A clone is kept for the server's end, when a shutdown ends the client's connection.
            Then::Close => {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            Then::Reset => return reset(&stream, shared),
            Then::Die => return die(shared, address),
        }
    }
    forget(&stream, shared);
}

/// A head, and the body of the length in its Content-Length; None at the connection's end.
fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    head.extend(body);
    Some(head)
}

fn forget(stream: &TcpStream, shared: &Shared) {
    let peer = stream.peer_addr().ok();
    shared.open.lock().unwrap().retain(|other| peer.is_some() && other.peer_addr().ok() != peer);
}

fn reset(stream: &TcpStream, shared: &Shared) {
    socket2::SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    forget(stream, shared); // the caller closes the last descriptor
}

fn die(shared: &Shared, address: SocketAddr) {
    shared.dead.store(true, Ordering::SeqCst);
    let _ = TcpStream::connect(address); // wakes the listener, which closes
    for stream in shared.open.lock().unwrap().drain(..) {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

impl Server {
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Closes every connection while nothing is outstanding on it.
    pub fn close_all(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).unwrap();
        }
    }

    /// Waits until the client has closed every connection.
    pub fn wait_until_all_have_gone(&self) {
        while !self.shared.open.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
    }

    /// Writes unrequested bytes to every connection.
    pub fn write_all(&self, bytes: &[u8]) {
        for stream in self.shared.open.lock().unwrap().iter_mut() {
            stream.write_all(bytes).unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        die(&self.shared, self.address);
        self.listening.take().unwrap().join().unwrap();
    }
}

/// A behaviour that sends one response to every request.
pub fn answer(bytes: &'static [u8], then: fn() -> Then) -> Server {
    serve(move |stream, _| {
        let _ = stream.write_all(bytes);
        then()
    })
}

/// An engine on the first core this process may use, with this many workers on it, over the test binary's back end.
pub fn engine(workers: usize) -> Engine {
    engine_over(workers, crate::BACKEND)
}

/// The same over another back end.
pub fn engine_over(workers: usize, backend: Backend) -> Engine {
    let core = (0..1024).find(|core| Engine::with_backend(&[*core], Backend::Epoll).is_ok()).unwrap();
    Engine::with_backend(&vec![core; workers], backend).unwrap()
}

/// HTTP/1.1 with up to this many requests in flight on a connection.
pub fn in_order(depth: u32) -> Protocol {
    if depth > 1 { Protocol::Pipelined { depth } } else { Protocol::Http1 }
}

/// A session in which only a hang reaches the timeout; tests of timeouts set a shorter one.
pub fn plan(address: SocketAddr, connections: usize) -> SessionPlan {
    let exchange = Exchange::new(REQUEST.to_vec(), 200, BODY.to_vec());
    let plan = SessionPlan::new(Target::Tcp(address), vec![exchange]);
    SessionPlan { connections, timeout_ns: 60_000_000_000, ..plan }
}

/// A block of exactly this many requests. Only a hang reaches its time limit, however busy the machine is.
pub fn count(session: u32, max_requests: u64) -> BlockPlan {
    BlockPlan { session, lead_ns: 0, counted_ns: 300_000_000_000, max_requests, open_loop: None }
}

/// Runs one such block on one worker and checks the invariants of every tally.
pub fn drive(server: &Server, connections: usize, max_requests: u64) -> Tally {
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, connections)).unwrap();
    let done = engine.run(&[count(session, max_requests)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!(done.sent, max_requests);
    done
}

/// Checks the identities of every finished block.
pub fn check(done: &Tally) {
    assert_eq!(done.sent, done.answered + done.failed, "{done:?}");
    assert_eq!(done.in_flight, 0);
    assert!(done.requests <= done.answered);
    assert!(done.errors.iter().sum::<u64>() >= done.failed);
    assert!(done.quantiles_ns.is_sorted());
    assert_eq!(done.sample.is_empty(), done.errors == [0; tally::KINDS], "{done:?}");
    let kinds: Vec<_> = done.samples.iter().map(|(kind, _)| *kind as usize).collect();
    assert!((0..tally::KINDS).all(|kind| kinds.contains(&kind) == (done.errors[kind] > 0)), "{done:?}");
    use Failure::{RequestCut, TooEarly, WrongBody, WrongHead, WrongLength, WrongStatus};
    let wrong = [WrongStatus, WrongHead, WrongLength, WrongBody, TooEarly, RequestCut];
    let wrong = wrong.map(|kind| done.errors[kind as usize]);
    let readable: u64 = done.statuses.iter().map(|(_, count)| count).sum();
    assert_eq!(readable, done.answered + wrong.iter().sum::<u64>(), "{done:?}");
}

/// The kinds of errors that occurred in a tally.
pub fn errors(done: &Tally) -> Vec<(&'static str, u64)> {
    tally::NAMES.into_iter().zip(done.errors).filter(|(_, count)| *count > 0).collect()
}

/// Sends these bytes again and again until the other end closes the connection.
pub fn endless(stream: &mut TcpStream, bytes: &[u8]) {
    while stream.write_all(bytes).is_ok() {}
}

/// Fails if the work hangs; how long it takes otherwise decides nothing.
pub fn ends_in_time(name: &str, work: impl FnOnce() + Send + 'static) {
    let (done, finished) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match finished.recv_timeout(std::time::Duration::from_secs(60)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{name}: it hangs"),
        _ => worker.join().unwrap(),
    }
}
