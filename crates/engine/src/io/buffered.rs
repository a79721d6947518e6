//! epoll with a buffer per connection: for TLS, for connections that end after some requests, and for timed first bytes.
//!
//! A request is always accepted completely: bytes that the socket does not accept yet wait here.

use super::{Coalescing, Epoll, Event, Needs, Received, Transport, split_token};
use crate::sys;
use crate::tls::{TlsPlan, words};
use rustls::client::ClientConnection;
use rustls::{AlertDescription, ProtocolVersion};
use socket2::Socket;
use std::io::{self, ErrorKind, Read, Write};

/// Reads of encrypted bytes for one read of a worker.
const MAX_READS: u32 = 64;

/// Bytes of a connection that may wait here before [`Transport::send_now`] accepts no more.
const MAX_WAITING: usize = 64 << 10;

/// One connection.
#[derive(Default)]
struct Link {
    /// Bytes to send on an unencrypted connection; rustls keeps the bytes of encrypted ones.
    out: Vec<u8>,
    tls: Option<Box<ClientConnection>>,
    /// Bytes accepted since everything had been sent, and how many bytes the socket has taken since then.
    accepted: usize,
    taken: usize,
}

/// One epoll instance, and the state of each connection.
pub struct Buffered {
    inner: Epoll,
    links: Box<[Link]>,
    tls: Option<TlsPlan>,
    /// The version of TLS that the latest handshake agreed on.
    version: Option<&'static str>,
    /// The connection of the current event.
    turn: usize,
}

impl Buffered {
    fn link(&mut self, token: u64) -> &mut Link {
        &mut self.links[split_token(token).0]
    }
}

impl Link {
    /// Sends the waiting bytes; true if all were sent.
    fn push(&mut self, socket: &Socket) -> io::Result<bool> {
        if let Some(tls) = &mut self.tls {
            // Ends: each turn sends some of the bytes, of which there are no more meanwhile.
            while tls.wants_write() {
                match tls.write_tls(&mut NoSignal(socket)) {
                    Ok(sent) => self.taken += sent,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            (self.accepted, self.taken) = (0, 0);
            return Ok(true);
        }
        // Ends: each turn sends some of the bytes.
        while !self.out.is_empty() {
            match NoSignal(socket).write(&self.out) {
                Ok(sent) => {
                    self.out.drain(..sent);
                    self.taken += sent;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        (self.accepted, self.taken) = (0, 0);
        Ok(true)
    }
}

/// Writes without raising SIGPIPE.
struct NoSignal<'a>(&'a Socket);

impl Write for NoSignal<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        super::send(self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads, and notes whether a read has taken everything that had arrived.
struct Arrived<'a> {
    socket: &'a Socket,
    exhausted: bool,
}

impl Read for Arrived<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut socket = self.socket;
        let got = socket.read(room)?;
        self.exhausted = got > 0 && got < room.len();
        Ok(got)
    }
}

fn version_name(version: ProtocolVersion) -> &'static str {
    if version == ProtocolVersion::TLSv1_2 { "TLS 1.2" } else { "TLS 1.3" }
}

fn broken(error: rustls::Error) -> io::Error {
    let protocol = matches!(error, rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol));
    let kind = if protocol { ErrorKind::Unsupported } else { ErrorKind::InvalidData };
    io::Error::new(kind, format!("TLS: {}", words(&error)))
}

impl Transport for Buffered {
    type Socket = Socket;

    const BRINGS_BYTES: bool = false;
    const SENDS_LATER: bool = false;
    const HANDSHAKES: bool = true;

    fn tls_version(&self) -> Option<&'static str> {
        self.version
    }

    fn open(needs: &Needs) -> io::Result<Self> {
        let links = (0..needs.connections.max(1)).map(|_| Link::default()).collect();
        Ok(Self { inner: Epoll::open(needs)?, links, tls: needs.tls.cloned(), version: None, turn: 0 })
    }

    fn watch(&mut self, token: u64, socket: &Socket, connecting: bool) -> io::Result<()> {
        let mut tls = self.tls.as_ref().map(|plan| plan.connection().map(Box::new)).transpose().map_err(broken)?;
        if let Some(tls) = &mut tls {
            tls.set_buffer_limit(None); // otherwise it accepts no more than 64 KiB of a request

            // A handshake has several writes. Without this, each could wait up to 40 ms for the acknowledgement of the
            // previous one.
            let _ = socket.set_tcp_nodelay(true); // which a unix socket does not have
        }
        *self.link(token) = Link { tls, ..Link::default() };
        self.inner.watch(token, socket, connecting)
    }

    fn established(&mut self, token: u64) {
        self.inner.established(token);
    }

    fn handshake(&mut self, token: u64, mut socket: &Socket) -> io::Result<bool> {
        // Ends: rustls refuses a handshake with too many bytes or alerts.
        loop {
            let link = &mut self.links[split_token(token).0];
            if !link.push(socket)? {
                self.inner.want_writable(token, socket)?;
                return Ok(false);
            }
            let Some(tls) = link.tls.as_mut().filter(|tls| tls.is_handshaking()) else {
                if let (Some(plan), Some(tls)) = (&self.tls, &link.tls) {
                    plan.agreed(tls)?;
                    self.version = tls.protocol_version().map(version_name);
                }
                return Ok(true);
            };
            match tls.read_tls(&mut socket) {
                Ok(0) => {
                    return Err(io::Error::new(
                        ErrorKind::InvalidData,
                        "TLS: the server closed instead of a handshake",
                    ));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if let Err(error) = tls.process_new_packets() {
                let _ = link.push(socket); // the alert for the server
                return Err(broken(error));
            }
        }
    }

    fn send(&mut self, token: u64, socket: &Socket, _: usize, request: &[u8]) -> io::Result<usize> {
        let link = &mut self.links[split_token(token).0];
        match &mut link.tls {
            Some(tls) => tls.writer().write_all(request)?,
            None => link.out.extend_from_slice(request),
        }
        link.accepted += request.len();
        if !link.push(socket)? {
            let _ = self.inner.want_writable(token, socket); // if it fails, the request times out
        }
        Ok(request.len())
    }

    /// Accepts nothing while much waits: what a server asks for without reading it must not fill the memory.
    fn send_now(&mut self, token: u64, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        let link = self.link(token);
        if link.accepted - link.taken.min(link.accepted) > MAX_WAITING && !link.push(socket)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.send(token, socket, 0, bytes)
    }

    fn go_on(&mut self, token: u64, socket: &Socket) {
        // A server that responds early may have closed the connection: its response is still to be read.
        let _ = self.link(token).push(socket);
    }

    /// TLS adds some bytes to each 16 KiB: the number is a little too small then, but never 0 if something waits.
    #[inline]
    fn unsent(&self, token: u64) -> usize {
        let link = &self.links[split_token(token).0];
        if link.accepted == 0 { 0 } else { link.accepted.saturating_sub(link.taken).max(1) }
    }

    fn want_writable(&mut self, token: u64, socket: &Socket) -> io::Result<()> {
        self.inner.want_writable(token, socket)
    }

    fn flush(&mut self) {}

    fn departure(&mut self) -> Option<(u64, u64)> {
        None
    }

    fn wait(&mut self, now_ns: u64, limit_ns: u64, coalescing: Option<Coalescing>) -> usize {
        self.inner.wait(now_ns, limit_ns, coalescing)
    }

    #[inline]
    fn ahead(&self, index: usize) -> Option<u64> {
        let token = self.inner.ahead(index)?;
        if let Some(tls) = self.links.get(split_token(token).0).and_then(|link| link.tls.as_ref()) {
            sys::prefetch(&**tls);
        }
        Some(token)
    }

    fn event(&mut self, index: usize) -> Option<Event> {
        let event = self.inner.event(index)?;
        self.turn_to(event.token);
        Some(event)
    }

    fn turn_to(&mut self, token: u64) {
        self.turn = split_token(token).0;
    }

    fn receive<'a>(&'a mut self, socket: &Socket, buffer: &'a mut [u8]) -> io::Result<Received<'a>> {
        let Some(tls) = &mut self.links[self.turn].tls else {
            return self.inner.receive(socket, buffer);
        };
        let (mut filled, mut arrived, mut reads) = (0, Arrived { socket, exhausted: false }, 0);
        // Ends: each turn fills the buffer further, or reads, of which there is a limit.
        loop {
            match tls.reader().read(&mut buffer[filled..]) {
                // The connection ended without close_notify. Bodies are compared completely, so a cut one is found anyway.
                Ok(0) => break,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Ok(got) => {
                    filled += got;
                    if filled == buffer.len() {
                        break;
                    }
                    continue;
                }
                // All decrypted bytes were read, and an event will report later ones. Another read would only return
                // WouldBlock, one more call per response.
                Err(error) if arrived.exhausted && filled == 0 => return Err(error),
                Err(_) if arrived.exhausted => break,
                Err(_) if reads == MAX_READS && filled > 0 => break,
                // Records without bytes; the worker continues after other connections had their turn.
                Err(_) if reads == MAX_READS => return Err(ErrorKind::Interrupted.into()),
                Err(_) => reads += 1,
            }
            let refill = match tls.read_tls(&mut arrived) {
                Ok(_) => tls.process_new_packets().map(drop).map_err(broken),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            match refill {
                Ok(()) => {}
                Err(_) if filled > 0 => break, // the error will come again
                Err(error) => return Err(error),
            }
        }
        // No timestamp: the kernel's belongs to encrypted bytes, which are not a response yet.
        Ok(Received { bytes: &buffer[..filled], stamp_ns: 0 })
    }

    fn release(&mut self, token: u64, socket: Socket) {
        // The link may have another connection already, while this one waited for the server to close it.
        self.inner.release(token, socket);
    }

    fn settle(&mut self) {}
}
