//! A connection per request, without a system call per step: one chain of linked io_uring operations creates the socket,
//! connects, sends and reads. The socket is only in the ring's table of files.
//!
//! A link has two entries in the table, used in turn: while one connection waits for the server to close it, the next one is
//! in use. [`Uring`] does everything else; to it, each entry is a link. The kernel's timestamp gives the arrival of the
//! response, as elsewhere. A connection's latency begins with the call that submits its chain: it includes the time of the
//! chains before it in that call.

use super::uring::{KIND, RECEIVE, SEND, Uring, slot};
use super::{Carrier, Coalescing, Event, Needs, Received, TimestampSource, Transport};
use crate::plan::Target;
use crate::sys;
use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::DestinationSlot;
use socket2::{SockAddr, Socket};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

/// Kinds of completions in addition to the kinds of [`Uring`]: a socket was created or got timestamps; it is connected; it is
/// closed.
const MAKE: u64 = 5 << 28;
const CONNECT: u64 = 6 << 28;
const CLOSE: u64 = 7 << 28;
/// Parts of a token. The lowest bit of the generation selects one of the link's two entries.
const PLACE: u64 = (1 << 28) - 1;
const GENERATION: u64 = !0 << 32;

/// The value that switches an option on.
static ON: libc::c_int = 1;

/// A connection whose socket only the ring has.
#[derive(Debug)]
pub struct Direct;

impl From<Socket> for Direct {
    /// Closes the socket: the ring creates its own.
    fn from(_: Socket) -> Self {
        Self
    }
}

impl Carrier for Direct {
    #[inline]
    fn socket(&self) -> Option<&Socket> {
        None
    }
}

/// A ring whose connections carry one request each. Fields are dropped in this order: the ring before what it uses.
pub struct UringLinked {
    inner: Uring,
    /// The server's address; the queue points to it, so it keeps its own address.
    address: Box<SockAddr>,
}

/// The token that the inner ring uses for a connection: its link number is an entry in the table of files.
#[inline]
fn inner_of(token: u64) -> u64 {
    (token & GENERATION) | ((token & PLACE) * 2 + (token >> 32 & 1))
}

#[inline]
fn outer_of(inner: u64) -> u64 {
    (inner & GENERATION) | ((inner & PLACE) / 2)
}

impl UringLinked {
    fn make(&self, inner: u64) -> Option<Entry> {
        let entry = DestinationSlot::try_from_slot_target(inner as u32).ok()?;
        let domain = i32::from(self.address.family());
        let socket = opcode::Socket::new(domain, libc::SOCK_STREAM, 0).file_index(Some(entry)).build();
        Some(socket.flags(Flags::IO_LINK | Flags::SKIP_SUCCESS).user_data(inner | MAKE))
    }

    fn ask(inner: u64) -> Entry {
        let (level, option) = (libc::SOL_SOCKET as u32, libc::SO_TIMESTAMPNS as u32);
        opcode::SetSockOpt::new(slot(inner), level, option, (&raw const ON).cast(), size_of_val(&ON) as u32)
            .build()
            .flags(Flags::IO_LINK | Flags::SKIP_SUCCESS)
            .user_data(inner | MAKE)
    }

    fn connect(&self, inner: u64) -> Entry {
        opcode::Connect::new(slot(inner), self.address.as_ptr().cast(), self.address.len())
            .build()
            .flags(Flags::IO_LINK)
            .user_data(inner | CONNECT)
    }

    /// A failed chain has no more completions.
    fn over(&mut self, inner: u64) {
        if self.inner.current(inner) {
            self.inner.places[inner as u32 as usize].held = false;
        }
    }
}

impl Transport for UringLinked {
    type Socket = Direct;

    const BRINGS_BYTES: bool = true;
    const SENDS_LATER: bool = true;
    const CHAIN: Option<Direct> = Some(Direct);
    const CHAINS: bool = true;

    fn open(needs: &Needs) -> io::Result<Self> {
        let Some(Target::Tcp(address)) = needs.target else {
            return Err(io::Error::other("linked operations need an IP address"));
        };
        let inner = Uring::open(&Needs { connections: 2 * needs.connections.max(1), ..*needs })?;
        Ok(Self { inner, address: Box::new((*address).into()) })
    }

    fn watch(&mut self, _: u64, _: &Direct, _: bool) -> io::Result<()> {
        Ok(())
    }

    #[inline]
    fn chain(&mut self, token: u64, number: usize) {
        let inner = inner_of(token);
        let place = &mut self.inner.places[inner as u32 as usize];
        (place.token, place.held) = (inner, true);
        let Some(make) = self.make(inner) else { return };
        let send = self.inner.send_entry(inner, number).flags(Flags::IO_LINK);
        let (connect, receive) = (self.connect(inner), self.inner.receive_entry(inner));
        if self.inner.stamps {
            self.inner.push_all(&[make, Self::ask(inner), connect, send, receive]);
        } else {
            self.inner.push_all(&[make, connect, send, receive]);
        }
        self.inner.queued.push(inner);
    }

    fn established(&mut self, _: u64) {}

    fn send(&mut self, _: u64, _: &Direct, _: usize, request: &[u8]) -> io::Result<usize> {
        Ok(request.len()) // its chain has sent it
    }

    fn want_writable(&mut self, _: u64, _: &Direct) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: the next wait submits what is queued, because chains only proceed during a wait.
    #[inline]
    fn flush(&mut self) {}

    #[inline]
    fn departure(&mut self) -> Option<(u64, u64)> {
        self.inner.departure().map(|(inner, begun_ns)| (outer_of(inner), begun_ns))
    }

    fn wait(&mut self, now_ns: u64, limit_ns: u64, coalescing: Option<Coalescing>) -> usize {
        self.inner.wait(now_ns, limit_ns, coalescing)
    }

    #[inline]
    fn event(&mut self, index: usize) -> Option<Event> {
        self.inner.give_back();
        let done = self.inner.batch[index];
        let inner = done.user_data & !KIND;
        let empty = Event { token: outer_of(inner), readable: false, writable: false, closing: false, unsent: 0 };
        let cancelled = done.result == -libc::ECANCELED;
        match done.user_data & KIND {
            RECEIVE if !cancelled => {
                let event = self.inner.event(index);
                if event.is_some_and(|event| event.closing) {
                    self.over(inner); // nothing is left to be cancelled
                }
                event.map(|event| Event { token: empty.token, ..event })
            }
            CONNECT if done.result == 0 => Some(Event { writable: true, ..empty }),
            // The operations after a failed one are cancelled; their completions say nothing new.
            MAKE | CONNECT | SEND if done.result < 0 && !cancelled => {
                self.over(inner);
                Some(Event { unsent: -done.result, ..empty })
            }
            RECEIVE | MAKE | CONNECT | SEND | CLOSE => None,
            _ => self.inner.event(index),
        }
    }

    #[inline]
    fn receive<'a>(&'a mut self, _: &Direct, _: &'a mut [u8]) -> io::Result<Received<'a>> {
        self.inner.taken()
    }

    /// Closing needs the entry in the table; operations that still use the connection are cancelled.
    fn release(&mut self, token: u64, _: Direct) {
        let inner = inner_of(token);
        if self.inner.current(inner) {
            self.inner.cancel(inner, &[CONNECT, SEND, RECEIVE]);
            self.inner.places[inner as u32 as usize].held = false;
        }
        let close = opcode::Close::new(slot(inner)).build();
        self.inner.push(&close.flags(Flags::SKIP_SUCCESS).user_data(inner | CLOSE));
    }

    fn settle(&mut self) {
        self.inner.settle();
    }
}

/// Whether linked operations work here; this is tried once.
pub fn works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| probe().is_ok())
}

/// Does with a ring what sessions do: opens two connections to a local listener. One gets a response with a timestamp and is
/// closed while the other one still waits. Before Linux 6.13, it would be closed only after the other one.
fn probe() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let target = Target::Tcp(listener.local_addr()?);
    let stamping = TimestampSource::begin();
    let (target, stamps) = (Some(&target), stamping.is_some());
    let mut ring =
        UringLinked::open(&Needs { connections: 2, body_bytes: 0, requests: &[b"q"], stamps, target, tls: None })?;
    let mut accepted = Vec::new();
    for token in [1, 0] {
        ring.chain(token, 0);
        await_event(&mut ring, token, false)?;
        let mut theirs: TcpStream = listener.accept()?.0;
        theirs.set_read_timeout(Some(Duration::from_millis(500)))?;
        for _ in 0..4 {
            ring.settle(); // each call advances the chain by a step
        }
        theirs.read_exact(&mut [0])?;
        accepted.push(theirs);
    }
    let mut theirs = accepted.pop().ok_or(io::ErrorKind::NotFound)?;
    theirs.write_all(b"a")?;
    await_event(&mut ring, 0, true)?;
    let answer = ring.receive(&Direct, &mut [])?;
    if answer.bytes != b"a" || stamps && answer.stamp_ns == 0 {
        return Err(io::Error::other("it accepts operations and does not carry them out"));
    }
    ring.release(0, Direct);
    for _ in 0..4 {
        ring.settle();
    }
    theirs.read(&mut [0]).map(drop)
}

/// Waits until a connection is open, or until something arrives on it.
fn await_event(ring: &mut UringLinked, token: u64, readable: bool) -> io::Result<()> {
    for _ in 0..10 {
        let count = ring.wait(sys::now_ns(), 50_000_000, None);
        // Ends: one for each request.
        while ring.departure().is_some() {}
        for index in 0..count {
            match ring.event(index) {
                Some(event) if event.unsent != 0 => return Err(io::Error::from_raw_os_error(event.unsent)),
                Some(event) if event.readable == readable && event.token == token => return Ok(()),
                _ => {}
            }
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}
