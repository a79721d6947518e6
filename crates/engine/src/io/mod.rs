//! How bytes get in and out: by io_uring where the kernel has it, else by epoll; chosen once, at the start.
//!
//! The worker's loop is written against [`Transport`] and compiled once for each. A *token* names a
//! connection: its low half is its place below the number given at the start, its high half the generation of the socket
//! in that place. Sockets themselves are safe code (socket2); only the system calls in `epoll`, `uring` and `buffers` are not.

mod blocking;
mod buffered;
mod buffers;
mod epoll;
mod select;
mod timestamps;
mod uring;
mod uring_linked;

use crate::plan::{SessionPlan, Target};
use crate::tls::TlsPlan;
pub use blocking::Blocking;
pub use buffered::Buffered;
pub use buffers::Loan;
pub use epoll::Epoll;
pub use select::{Backend, Chosen, choose, probe};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;
pub use timestamps::{Received, TimestampSource, discard};
pub use uring::Uring;
pub use uring_linked::{Direct, UringLinked};

/// What a back end tells about one connection.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// As given when the connection was added.
    pub token: u64,
    /// There may be something to read: data, an end, or an error.
    pub readable: bool,
    /// There may be room to send.
    pub writable: bool,
    /// The peer has closed or reset: reads must go on to the end.
    pub closing: bool,
    /// The error that a request met which [`Transport::send`] had taken; 0: none.
    pub unsent: i32,
}

/// What a place holds of its connection.
pub trait Carrier: From<Socket> {
    /// The socket, where it is ours and not the back end's own.
    fn socket(&self) -> Option<&Socket>;
}

impl Carrier for Socket {
    #[inline]
    fn socket(&self) -> Option<&Socket> {
        Some(self)
    }
}

/// What a session will ask of its back end.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// Places for connections.
    pub connections: usize,
    /// The largest right answer's body.
    pub body_bytes: usize,
    /// What will be sent, by number.
    pub requests: &'a [&'a [u8]],
    /// The kernel is to say when answers arrived, and can.
    pub stamps: bool,
    /// Where connections lead that the back end opens by itself.
    pub target: Option<&'a Target>,
    /// How connections are encrypted, if they are ([`Buffered`] alone can).
    pub tls: Option<&'a TlsPlan>,
}

/// How long to wait for more than one answer, so that they share a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// So many are enough.
    pub answers: usize,
    /// After so long, one is enough; from the wait's limit on: all that time is waited.
    pub most_ns: u64,
}

/// A back end, as one session's share of a worker uses it.
pub trait Transport: Sized {
    /// What it wants to be given for a connection.
    type Socket: Carrier;

    /// An event brings what arrived along: one event, one read.
    const BRINGS_BYTES: bool;
    /// What is sent leaves later: [`Transport::departure`] tells when.
    const SENDS_LATER: bool;
    /// So does what was made for this once: of each successful [`Transport::send_now`] [`Transport::departure`] tells once, the
    /// latest first.
    const STAGES: bool = false;

    /// A handshake may follow TCP's; see [`Transport::handshake`].
    const HANDSHAKES: bool = false;
    /// Takes whatever is given to be sent, and sends it when there is room.
    const TAKES_ALL: bool = false;
    /// Has room for one answer at a time, which it waits for after a request has left.
    const AWAITS_ONE: bool = false;
    /// What an event brings along may be lent; see [`Transport::lend`].
    const LENDS: bool = false;
    /// Bodies may be counted in the kernel's buffers instead of being read; see [`discard`].
    const DISCARDS: bool = false;

    /// Given where connections are opened, sent over and closed by the back end itself; see [`Transport::chain`].
    const CHAIN: Option<Self::Socket> = None;
    /// Whether [`Transport::CHAIN`] is given.
    const CHAINS: bool = false;

    /// The version of TLS that its latest handshake agreed on.
    fn tls_version(&self) -> Option<&'static str> {
        None
    }

    /// Makes one.
    ///
    /// # Errors
    /// What the kernel said.
    fn open(needs: &Needs) -> io::Result<Self>;

    /// Whether in what follows requests leave only when answers come: where nothing is due at a time of its own, a wait
    /// may be longer than it was told by some milliseconds.
    #[inline]
    fn steady(&mut self, _on: bool) {}

    /// Watches a connection until it is released; `connecting`: its handshake is still under way.
    ///
    /// # Errors
    /// What the kernel said.
    fn watch(&mut self, token: u64, socket: &Self::Socket, connecting: bool) -> io::Result<()>;

    /// Opens a connection and sends request `number` over it, in one go: an event tells when it is open, or with `unsent`
    /// why it is not, and [`Transport::departure`] when its opening began.
    fn chain(&mut self, _token: u64, _number: usize) {}

    /// The handshake is over.
    fn established(&mut self, token: u64);

    /// Goes on with what follows TCP's handshake; true when nothing is left of it.
    ///
    /// # Errors
    /// What the kernel said; InvalidData where the other side is to blame.
    #[inline]
    fn handshake(&mut self, _token: u64, _socket: &Self::Socket) -> io::Result<bool> {
        Ok(true)
    }

    /// There is room to send: what was taken and not sent leaves.
    #[inline]
    fn go_on(&mut self, _token: u64, _socket: &Self::Socket) {}

    /// What is received next is this connection's, as after its event.
    #[inline]
    fn turn_to(&mut self, _token: u64) {}

    /// Sends request `number` of those that were named at the start; fewer bytes than it has may be taken.
    ///
    /// # Errors
    /// What the kernel said; where it says so later, an event has it in `unsent`.
    fn send(&mut self, token: u64, socket: &Self::Socket, number: usize, request: &[u8]) -> io::Result<usize>;

    /// Sends bytes that were made for this once, without waiting; fewer than given may be taken.
    ///
    /// # Errors
    /// What the kernel said; where it says so later, an event has it in `unsent`.
    #[inline]
    fn send_now(&mut self, token: u64, socket: &Self::Socket, bytes: &[u8]) -> io::Result<usize> {
        self.send(token, socket, 0, bytes)
    }

    /// How soon the fastest answers come at present, 0 if that is not known: where they come late, a departure need not be
    /// known as precisely.
    #[inline]
    fn latency(&mut self, _least_ns: u64) {}

    /// Tells once when there is room to send.
    ///
    /// # Errors
    /// What the kernel said.
    fn want_writable(&mut self, token: u64, socket: &Self::Socket) -> io::Result<()>;

    /// Hands to the kernel what was queued, if it is more than the next wait can take along unseen.
    fn flush(&mut self);

    /// A request's token and the time at which it left, for each that was sent, where that is later: known after
    /// the wait that follows, and before what that wait brought.
    fn departure(&mut self) -> Option<(u64, u64)>;

    /// Waits up to `limit_ns` from `now_ns` for an event (longer by less than a millisecond) and returns how many
    /// [`Transport::event`] has; none on a signal, or for no reason. With `coalescing` it may wait for several.
    fn wait(&mut self, now_ns: u64, limit_ns: u64, coalescing: Option<Coalescing>) -> usize;

    /// The token of an event that comes soon after the one at `index`, whose bytes are fetched from memory meanwhile.
    #[inline]
    fn ahead(&self, _index: usize) -> Option<u64> {
        None
    }

    /// The event at `index` of the latest wait, to be asked for in order; None where it is no one else's business.
    fn event(&mut self, index: usize) -> Option<Event>;

    /// Reads what is there, or what the latest event brought along.
    ///
    /// # Errors
    /// What the kernel said; WouldBlock where nothing is there.
    fn receive<'a>(&'a mut self, socket: &Self::Socket, buffer: &'a mut [u8]) -> io::Result<Received<'a>>;

    /// As [`Transport::receive`], if an event brings what arrived along: the bytes don't borrow the transport, and are to be
    /// returned by [`Transport::take_back`]. None: the connection's end.
    ///
    /// # Errors
    /// As there.
    #[inline]
    fn lend(&mut self, _socket: &Self::Socket) -> io::Result<Option<(Loan, u64)>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes back what it has lent.
    #[inline]
    fn take_back(&mut self, _loan: Loan) {}

    /// Closes a watched connection.
    fn release(&mut self, token: u64, socket: Self::Socket);

    /// Sees to it that what was released is closed.
    fn settle(&mut self);
}

/// Whether [`Blocking`] can do what this session asks, and is the best for it.
pub fn suits_blocking(plan: &SessionPlan, connections: usize) -> bool {
    connections == 1 && plan.keepalive && !plan.polls && matches!(plan.target, Target::Tcp(_))
}

/// Whether [`UringLinked`] can do what this session asks, and works here.
pub fn suits_linked(plan: &SessionPlan) -> bool {
    let short = plan.exchanges.iter().all(|exchange| exchange.request.len() <= uring::LONG_REQUEST);
    let plain = !plan.keepalive && plan.sources <= 1 && matches!(plan.target, Target::Tcp(_));
    plain && short && uring_linked::works()
}

fn socket(target: &Target, source: Option<Ipv4Addr>) -> io::Result<(Socket, SockAddr)> {
    let (domain, address) = match target {
        Target::Tcp(address) => (Domain::for_address(*address), (*address).into()),
        Target::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
    };
    let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None)?;
    if let Some(source) = source {
        late_port(&socket)?;
        socket.bind(&SocketAddr::from((source, 0)).into())?;
    }
    Ok((socket, address))
}

/// The port is chosen at connecting, when both ends are known: else all targets share one source's ports (ip(7)).
fn late_port(socket: &Socket) -> io::Result<()> {
    let one: libc::c_int = 1;
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, the option's value outlives the call and is as long as said.
    let set = unsafe {
        let (option, value) = (libc::IP_BIND_ADDRESS_NO_PORT, (&raw const one).cast());
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, option, value, bytes)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Starts connecting; true if it is connected already, as on loopback, where the handshake runs inside the call.
///
/// # Errors
/// What the kernel said; WouldBlock where a unix socket's queue of connections is full.
pub fn connect(target: &Target, source: Option<Ipv4Addr>, keepalive: bool) -> io::Result<(Socket, bool)> {
    let (socket, address) = socket(target, source)?;
    if keepalive && matches!(target, Target::Tcp(_)) {
        // One request per connection leaves nothing for Nagle's algorithm to hold back.
        socket.set_tcp_nodelay(true)?;
    }
    match socket.connect(&address) {
        Ok(()) => Ok((socket, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
            // That was said before the kernel had looked at what had come back meanwhile: on loopback all of it.
            let connected = socket.peer_addr().is_ok();
            Ok((socket, connected))
        }
        Err(error) => Err(error),
    }
}

/// Waits until a connection is open or refused.
fn opened(socket: &Socket, limit: Duration) -> io::Result<()> {
    let limit_ms = libc::c_int::try_from(limit.as_millis()).unwrap_or(libc::c_int::MAX).max(1);
    let mut told = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, which outlives the call; the descriptor is open.
    match unsafe { libc::poll(&raw mut told, 1, limit_ms) } {
        0 => Err(io::ErrorKind::TimedOut.into()),
        ..=-1 => Err(io::Error::last_os_error()),
        _ => socket.take_error()?.map_or(Ok(()), Err),
    }
}

/// Connects and waits for it.
pub fn connect_wait(target: &Target, source: Option<Ipv4Addr>, limit: Duration) -> io::Result<Socket> {
    if matches!(target, Target::Tcp(_)) {
        let (socket, connected) = connect(target, source, true)?;
        return if connected { Ok(socket) } else { opened(&socket, limit).map(|()| socket) };
    }
    let (socket, address) = socket(target, source)?;
    // Connecting a unix socket waits as long as sending does (unix(7)).
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(limit))?;
    socket.connect(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sends without raising SIGPIPE and without waiting; fewer bytes than given may be taken.
#[inline]
pub fn send(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    socket.send_with_flags(bytes, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
}

/// The number of a connection, and the generation of its socket, as a token has them.
pub fn split_token(token: u64) -> (usize, u32) {
    (token as u32 as usize, (token >> 32) as u32)
}
