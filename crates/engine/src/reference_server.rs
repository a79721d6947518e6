//! A minimal server: one response to everything, over epoll. `dragstrip doctor` measures a generator against it,
//! because no server that does more can respond faster on the same core.
//!
//! It recognises a request only by the empty line at the end of its head, so it does not support requests with a body.
//! There is one thread per core, each with its own listener on the same port (`SO_REUSEPORT`): the kernel distributes
//! connections.

use crate::error::EngineError;
use crate::io::{Epoll, Needs, Transport};
use crate::sys;
use memchr::memchr_iter;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Longest sleep before the stop flag is checked.
const WAIT_NS: u64 = 20_000_000;
/// Maximum number of connections that wait to be accepted; the kernel's somaxconn limits it.
const BACKLOG: i32 = 4096;
/// The listener's token; no connection has it.
const LISTENER: u64 = u64::MAX - 1;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello world\n";
const CLOSING: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\nConnection: close\r\n\r\nhello world\n";

/// Serves on 127.0.0.1 until it is dropped.
pub struct ReferenceServer {
    port: u16,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl ReferenceServer {
    /// Starts one thread per core, pinned to it; it listens when this returns.
    ///
    /// # Errors
    /// No core is given, one can't be used, or no port is free.
    pub fn start(cores: &[usize]) -> Result<Self, EngineError> {
        let refused = |source| EngineError::System { what: "the built-in server's port", source };
        if cores.is_empty() {
            return Err(EngineError::NoCores);
        }
        let mut server = Self { port: 0, stop: Arc::default(), threads: Vec::with_capacity(cores.len()) };
        for &core in cores {
            let listener = listen(server.port).map_err(refused)?;
            let address = listener.local_addr().map_err(refused)?;
            server.port = address.as_socket().map_or(0, |address| address.port());
            let (stop, (ready, started)) = (Arc::clone(&server.stop), channel());
            let thread = std::thread::Builder::new()
                .name(format!("fixed-{core}"))
                .spawn(move || run(core, listener, &stop, &ready))
                .map_err(refused)?;
            server.threads.push(thread);
            started.recv().map_err(|_| EngineError::WorkerDied)??;
        }
        Ok(server)
    }

    /// The address on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for ReferenceServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a panic in the thread was printed on stderr
        }
    }
}

fn listen(port: u16) -> io::Result<Socket> {
    let listener = Socket::new(Domain::IPV4, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    listener.set_reuse_port(true)?;
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    listener.listen(BACKLOG)?;
    Ok(listener)
}

fn run(core: usize, listener: Socket, stop: &AtomicBool, ready: &Sender<Result<(), EngineError>>) {
    let needs = Needs { connections: 0, body_bytes: 0, requests: &[], stamps: false, target: None, tls: None };
    let made = sys::pin(core).map_err(|source| EngineError::Core { core, source }).and_then(|()| {
        let made = Epoll::open(&needs).and_then(|mut poller| {
            poller.watch(LISTENER, &listener, false)?;
            Ok(poller)
        });
        made.map_err(|source| EngineError::System { what: "the built-in server's epoll", source })
    });
    match made {
        Ok(poller) => {
            let _ = ready.send(Ok(()));
            Serving { poller, listener, peers: Vec::new(), free: Vec::new() }.serve(stop);
        }
        Err(refused) => {
            let _ = ready.send(Err(refused));
        }
    }
}

/// One connection, and how many bytes of a line it has sent since the last line end.
struct Peer {
    socket: Socket,
    line: usize,
}

/// One thread's connections.
struct Serving {
    poller: Epoll,
    listener: Socket,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
}

impl Serving {
    fn serve(&mut self, stop: &AtomicBool) {
        let mut buffer = vec![0; 64 * 1024];
        while !stop.load(Ordering::Relaxed) {
            for index in 0..self.poller.wait(sys::now_ns(), WAIT_NS, None) {
                match self.poller.event(index) {
                    Some(event) if event.token == LISTENER => self.accept(),
                    Some(event) => self.attend(event.token as usize, event.closing, &mut buffer),
                    None => {}
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            let index = self.free.pop().unwrap_or(self.peers.len());
            let watched = socket
                .set_nonblocking(true)
                .and_then(|()| socket.set_tcp_nodelay(true))
                .and_then(|()| self.poller.watch(index as u64, &socket, false));
            if index == self.peers.len() {
                self.peers.push(None);
            }
            match watched {
                Ok(()) => self.peers[index] = Some(Peer { socket, line: 0 }),
                Err(_) => self.free.push(index), // dropped, so that the client sees it closed
            }
        }
    }

    /// Responds to what has arrived; reads again if the buffer was filled, because epoll reports each arrival once.
    fn attend(&mut self, index: usize, closing: bool, buffer: &mut [u8]) {
        let Some(peer) = &mut self.peers[index] else { return };
        loop {
            let got = match io::Read::read(&mut &peer.socket, buffer) {
                Ok(got) if got > 0 => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => break,
            };
            let last = wants_close(&buffer[..got]);
            let answer = if last { CLOSING } else { ANSWER };
            let asked = heads(&mut peer.line, &buffer[..got]);
            // Too many at once for its socket's room (a deep pipeline that reads nothing): given up, never queued.
            let answered = (0..asked).all(|_| crate::io::send(&peer.socket, answer).is_ok_and(|n| n == answer.len()));
            if !answered || last && asked > 0 {
                break;
            }
            if got < buffer.len() && !closing {
                return;
            }
        }
        self.peers[index] = None; // closing takes it out of the epoll instance, too
        self.free.push(index);
    }
}

fn wants_close(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"Connection: close").is_some()
}

/// How many heads end in these bytes; `line`: bytes of an incomplete line before them.
fn heads(line: &mut usize, bytes: &[u8]) -> usize {
    let (mut count, mut start) = (0, 0);
    for end in memchr_iter(b'\n', bytes) {
        count += usize::from(*line + end - start == 1); // a line of nothing but the carriage return
        (*line, start) = (0, end + 1);
    }
    *line += bytes.len() - start;
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_counted_however_they_are_cut() {
        let requests = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        for size in 1..=requests.len() {
            let mut line = 0;
            let count: usize = requests.chunks(size).map(|piece| heads(&mut line, piece)).sum();
            assert_eq!(count, 2, "cut every {size}");
        }
    }
}
