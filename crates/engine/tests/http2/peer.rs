//! A small HTTP/2 server that misbehaves as a test requires: one thread per connection, blocking, hand-made frames.

use dragstrip_engine::http2::frame::{self, HEADER_BYTES, Header, code, flag, kind};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub use crate::faulty::Then;

/// `:status 200`, `content-length: 11`, without the dynamic table.
pub const HEAD: &[u8] = &[0x88, 0x0f, 0x0d, 2, b'1', b'1'];

/// One connection's state in its thread.
pub struct Peer {
    pub stream: TcpStream,
    /// Every request's header block.
    pub block: Vec<u8>,
    /// Body bytes of the latest request.
    pub body_bytes: usize,
    /// Requests without a response.
    pub held: Vec<u32>,
}

impl Peer {
    pub fn write(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, kind, flags, id, payload);
        self.raw(&bytes);
    }

    /// Writes; the client may have closed the connection already.
    pub fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub fn settings(&mut self, settings: &[(u16, u32)]) {
        let mut bytes = Vec::new();
        frame::write_settings(&mut bytes, settings);
        self.raw(&bytes);
    }

    pub fn head(&mut self, id: u32, block: &[u8], end: bool) {
        let end = if end { flag::END_STREAM } else { 0 };
        self.write(kind::HEADERS, flag::END_HEADERS | end, id, block);
    }

    pub fn data(&mut self, id: u32, bytes: &[u8], end: bool) {
        self.write(kind::DATA, if end { flag::END_STREAM } else { 0 }, id, bytes);
    }

    pub fn right(&mut self, id: u32) {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, kind::HEADERS, flag::END_HEADERS, id, HEAD);
        frame::write(&mut bytes, kind::DATA, flag::END_STREAM, id, crate::faulty::BODY);
        self.raw(&bytes);
    }

    pub fn reset(&mut self, id: u32, code: u32) {
        self.write(kind::RST_STREAM, 0, id, &code.to_be_bytes());
    }

    pub fn go_away(&mut self, last: u32, code: u32) {
        self.write(kind::GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat());
    }

    fn frame(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut bytes = [0; HEADER_BYTES];
        self.stream.read_exact(&mut bytes).ok()?;
        let header = Header::read(&bytes);
        let mut payload = vec![0; header.length];
        self.stream.read_exact(&mut payload).ok()?;
        Some((header, payload))
    }
}

#[derive(Default)]
pub struct Seen {
    pub requests: AtomicU64,
    pub accepted: AtomicU64,
    /// RST_STREAM frames.
    pub resets: AtomicU64,
    /// Acknowledgements of PING and SETTINGS.
    pub acks: AtomicU64,
    /// Maximum number of requests in flight on one connection.
    pub most_held: AtomicU64,
    dead: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

pub struct Server {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    listening: Option<JoinHandle<()>>,
}

/// What a server does apart from responding.
pub struct Manners {
    /// Its first SETTINGS.
    pub settings: Vec<(u16, u32)>,
    /// Opens the window for request bodies.
    pub renews: bool,
}

impl Default for Manners {
    fn default() -> Self {
        Self { settings: Vec::new(), renews: true }
    }
}

/// Serves on a free port; `behave` gets the connection, the stream, and the request's 0-based number over all of them.
pub fn serve(behave: impl Fn(&mut Peer, u32, u64) -> Then + Send + Sync + 'static) -> Server {
    serve_as(Manners::default(), behave)
}

pub fn serve_as(manners: Manners, behave: impl Fn(&mut Peer, u32, u64) -> Then + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, behave, manners) = (Arc::new(Seen::default()), Arc::new(behave), Arc::new(manners));
    let mine = Arc::clone(&seen);
    let listening = std::thread::spawn(move || {
        for stream in listener.incoming() {
            if mine.dead.load(Ordering::SeqCst) {
                return;
            }
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            mine.accepted.fetch_add(1, Ordering::SeqCst);
            mine.open.lock().unwrap().push(stream.try_clone().unwrap());
            let (seen, behave, manners) = (Arc::clone(&mine), Arc::clone(&behave), Arc::clone(&manners));
            std::thread::spawn(move || {
                let mut peer = Peer { stream, block: Vec::new(), body_bytes: 0, held: Vec::new() };
                attend(&mut peer, &seen, &manners, behave.as_ref());
                let _ = peer.stream.shutdown(Shutdown::Both);
            });
        }
    });
    Server { address, seen, listening: Some(listening) }
}

fn attend(
    peer: &mut Peer,
    seen: &Seen,
    manners: &Manners,
    behave: &(dyn Fn(&mut Peer, u32, u64) -> Then + Send + Sync),
) -> Option<()> {
    let mut preface = [0; frame::PREFACE.len()];
    peer.stream.read_exact(&mut preface).ok()?;
    assert_eq!(preface, frame::PREFACE);
    peer.settings(&manners.settings);
    loop {
        let (header, payload) = peer.frame()?;
        match header.kind {
            kind::HEADERS => {
                assert!(header.has(flag::END_HEADERS));
                (peer.block, peer.body_bytes) = (payload, 0);
            }
            kind::DATA => {
                peer.body_bytes += payload.len();
                if manners.renews && !payload.is_empty() {
                    let increment = (payload.len() as u32).to_be_bytes();
                    peer.write(kind::WINDOW_UPDATE, 0, 0, &increment);
                    peer.write(kind::WINDOW_UPDATE, 0, header.id, &increment);
                }
            }
            kind::SETTINGS | kind::PING if header.has(flag::ACK) => {
                seen.acks.fetch_add(1, Ordering::SeqCst);
            }
            kind::SETTINGS => peer.write(kind::SETTINGS, flag::ACK, 0, &[]),
            kind::RST_STREAM => {
                seen.resets.fetch_add(1, Ordering::SeqCst);
                peer.held.retain(|id| *id != header.id);
            }
            _ => {}
        }
        if matches!(header.kind, kind::HEADERS | kind::DATA) && header.has(flag::END_STREAM) {
            peer.held.push(header.id);
            seen.most_held.fetch_max(peer.held.len() as u64, Ordering::SeqCst);
            match behave(peer, header.id, seen.requests.fetch_add(1, Ordering::SeqCst)) {
                Then::GoOn | Then::Stall => {}
                Then::Close => return None,
                Then::Reset => {
                    socket2::SockRef::from(&peer.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
                    let name = peer.stream.peer_addr().ok();
                    // The caller closes the last descriptor, without a GOAWAY.
                    seen.open.lock().unwrap().retain(|other| other.peer_addr().ok() != name);
                    peer.stream = TcpStream::connect(idle()).unwrap();
                    return None;
                }
                Then::Die => panic!("not of this server"),
            }
        }
    }
}

/// A running server.
fn idle() -> SocketAddr {
    static IDLE: std::sync::OnceLock<(TcpListener, SocketAddr)> = std::sync::OnceLock::new();
    let make = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    };
    IDLE.get_or_init(make).1
}

impl Server {
    pub fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::SeqCst)
    }

    pub fn accepted(&self) -> u64 {
        self.seen.accepted.load(Ordering::SeqCst)
    }

    /// Sends these bytes on every connection while nothing is in flight.
    pub fn say(&self, bytes: &[u8]) {
        for stream in self.seen.open.lock().unwrap().iter_mut() {
            let _ = stream.write_all(bytes);
        }
    }

    /// Closes every connection.
    pub fn close_all(&self) {
        for stream in self.seen.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.seen.dead.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address); // wakes the listener, which closes
        self.close_all();
        self.listening.take().unwrap().join().unwrap();
    }
}

/// Sends the correct response to every request.
pub fn answering() -> Server {
    serve(|peer, id, _| {
        peer.held.clear();
        peer.right(id);
        Then::GoOn
    })
}

pub const INTERNAL_ERROR: u32 = 2;
pub const REFUSED: u32 = code::REFUSED_STREAM;
