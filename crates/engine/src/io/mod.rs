//! How bytes are sent and received: by io_uring if the kernel supports it, otherwise by epoll. Chosen once, at the start.
//!
//! The worker's loop is written against [`Transport`] and compiled for each. A *token* identifies a connection: its low half
//! is the number of the link, its high half the generation of the link's socket. Sockets are safe code (socket2); only the
//! system calls in this module are not.

mod blocking;
mod buffered;
mod buffers;
mod epoll;
mod select;
mod timestamps;
mod uring;
mod uring_linked;

use crate::patience::Patience;
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

/// Pause between two attempts to connect while the server's queue of connections is full.
const AGAIN: Duration = Duration::from_millis(2);

/// What a transport reports about one connection.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// As given to [`Transport::watch`].
    pub token: u64,
    /// There may be something to read: data, the end of the connection, or an error.
    pub readable: bool,
    /// There may be room to send.
    pub writable: bool,
    /// The server has closed or reset the connection: read on until the end.
    pub closing: bool,
    /// The error number of a request that [`Transport::send`] had accepted, but that could not be sent; 0: none.
    pub unsent: i32,
}

/// What a link holds of its connection.
pub trait Carrier: From<Socket> {
    /// The socket, unless only the transport has it.
    fn socket(&self) -> Option<&Socket>;
}

impl Carrier for Socket {
    #[inline]
    fn socket(&self) -> Option<&Socket> {
        Some(self)
    }
}

/// What a session needs of its transport.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// Number of connections.
    pub connections: usize,
    /// Bytes of the largest expected body.
    pub body_bytes: usize,
    /// Requests that are sent unchanged, by number.
    pub requests: &'a [&'a [u8]],
    /// Use the kernel's timestamps; they work here.
    pub stamps: bool,
    /// The server, for connections that the transport opens itself.
    pub target: Option<&'a Target>,
    /// How connections are encrypted, if they are; only [`Buffered`] supports that.
    pub tls: Option<&'a TlsPlan>,
}

/// How to wait for several responses, so that they share a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// This many end the wait.
    pub answers: usize,
    /// After this time one is enough. If it is not below the wait's limit, the wait always lasts until the limit.
    pub most_ns: u64,
}

/// How one worker's share of a session sends and receives.
pub trait Transport: Sized {
    /// What it needs for a connection.
    type Socket: Carrier;

    /// Each event brings the bytes that arrived: one event, one read.
    const BRINGS_BYTES: bool;
    /// Requests are queued and sent later; [`Transport::departure`] reports when.
    const SENDS_LATER: bool;
    /// The same for [`Transport::send_now`]: [`Transport::departure`] reports each successful call once, the latest first.
    const STAGES: bool = false;

    /// Another handshake may follow TCP's; see [`Transport::handshake`].
    const HANDSHAKES: bool = false;
    /// It waits for one response after each request, and can't have several requests in flight.
    const AWAITS_ONE: bool = false;
    /// Bytes that an event brings can be lent; see [`Transport::lend`].
    const LENDS: bool = false;
    /// Bodies can be counted in the kernel's buffers instead of being read; see [`discard`].
    const DISCARDS: bool = false;

    /// Given if the transport opens connections, sends over them and closes them itself; see [`Transport::chain`].
    const CHAIN: Option<Self::Socket> = None;
    /// Whether [`Transport::CHAIN`] is given.
    const CHAINS: bool = false;

    /// The version of TLS that the latest handshake agreed on.
    fn tls_version(&self) -> Option<&'static str> {
        None
    }

    /// Creates a transport.
    ///
    /// # Errors
    /// The kernel's error.
    fn open(needs: &Needs) -> io::Result<Self>;

    /// Whether requests are now sent only after responses. Then nothing is due at a certain time, and a wait may exceed its
    /// limit by some milliseconds.
    #[inline]
    fn steady(&mut self, _on: bool) {}

    /// Watches a connection until it is released; `connecting`: TCP's handshake is not complete.
    ///
    /// # Errors
    /// What the kernel said.
    fn watch(&mut self, token: u64, socket: &Self::Socket, connecting: bool) -> io::Result<()>;

    /// Opens a connection and sends request `number` on it, in one chain of operations. An event reports that it is open, or,
    /// with `unsent`, why it is not. [`Transport::departure`] reports when opening it began.
    fn chain(&mut self, _token: u64, _number: usize) {}

    /// TCP's handshake is complete.
    fn established(&mut self, token: u64);

    /// Continues with the handshake that follows TCP's; true: it is complete.
    ///
    /// # Errors
    /// The kernel's error; InvalidData: the server is at fault.
    #[inline]
    fn handshake(&mut self, _token: u64, _socket: &Self::Socket) -> io::Result<bool> {
        Ok(true)
    }

    /// There is room to send: sends bytes that were accepted before and not sent.
    #[inline]
    fn go_on(&mut self, _token: u64, _socket: &Self::Socket) {}

    /// How many bytes that were accepted for a connection still wait to be sent.
    #[inline]
    fn unsent(&self, _token: u64) -> usize {
        0
    }

    /// The next read is from this connection, as after its event.
    #[inline]
    fn turn_to(&mut self, _token: u64) {}

    /// Sends request `number` of [`Needs::requests`]; returns how many of its bytes were accepted.
    ///
    /// # Errors
    /// The kernel's error. An error that the kernel reports later comes as an event, in `unsent`.
    fn send(&mut self, token: u64, socket: &Self::Socket, number: usize, request: &[u8]) -> io::Result<usize>;

    /// Sends these bytes once, without waiting; returns how many were accepted.
    ///
    /// # Errors
    /// As [`Transport::send`].
    #[inline]
    fn send_now(&mut self, token: u64, socket: &Self::Socket, bytes: &[u8]) -> io::Result<usize> {
        self.send(token, socket, 0, bytes)
    }

    /// The lowest latency at present, 0: not known. If latencies are long, send times need less precision.
    #[inline]
    fn latency(&mut self, _least_ns: u64) {}

    /// Requests one event for when there is room to send.
    ///
    /// # Errors
    /// What the kernel said.
    fn want_writable(&mut self, token: u64, socket: &Self::Socket) -> io::Result<()>;

    /// Submits queued requests, if there are too many to be submitted by the next wait.
    fn flush(&mut self);

    /// Token and send time of a request that was queued. Known after the next wait, before the events of that wait.
    fn departure(&mut self) -> Option<(u64, u64)>;

    /// Waits up to `limit_ns` from `now_ns` for an event (or less than a millisecond longer), and returns the number of
    /// events; 0 at the limit, on a signal, or spuriously. With `coalescing` it may wait for several.
    fn wait(&mut self, now_ns: u64, limit_ns: u64, coalescing: Option<Coalescing>) -> usize;

    /// The token of an event that follows soon after the one at `index`; its bytes are prefetched.
    #[inline]
    fn ahead(&self, _index: usize) -> Option<u64> {
        None
    }

    /// The event at `index` of the latest wait; to be called in order. None: the event concerns only the transport.
    fn event(&mut self, index: usize) -> Option<Event>;

    /// Reads what is there, or returns what the latest event has brought.
    ///
    /// # Errors
    /// The kernel's error; WouldBlock: nothing is there.
    fn receive<'a>(&'a mut self, socket: &Self::Socket, buffer: &'a mut [u8]) -> io::Result<Received<'a>>;

    /// As [`Transport::receive`], if events bring bytes. The bytes don't borrow the transport; return them by
    /// [`Transport::take_back`]. None: the end of the connection.
    ///
    /// # Errors
    /// As [`Transport::receive`].
    #[inline]
    fn lend(&mut self, _socket: &Self::Socket) -> io::Result<Option<(Loan, u64)>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Ends a loan.
    #[inline]
    fn take_back(&mut self, _loan: Loan) {}

    /// Closes a watched connection.
    fn release(&mut self, token: u64, socket: Self::Socket);

    /// Makes sure that released connections are closed.
    fn settle(&mut self);
}

/// Whether [`Blocking`] can carry this session, and suits it best.
pub fn suits_blocking(plan: &SessionPlan, connections: usize) -> bool {
    connections == 1 && plan.keepalive && !plan.polls && plan.target.address().is_some()
}

/// Whether [`UringLinked`] can carry this session, and works here.
pub fn suits_linked(plan: &SessionPlan) -> bool {
    let short = plan.exchanges.iter().all(|exchange| exchange.request.len() <= uring::LONG_REQUEST);
    // The kernel makes those sockets itself, in the namespace of the process.
    let plain = !plan.keepalive && plan.sources <= 1 && matches!(plan.target, Target::Tcp(_));
    plain && short && uring_linked::works()
}

fn socket(target: &Target, source: Option<Ipv4Addr>) -> io::Result<(Socket, SockAddr)> {
    let (domain, address) = match target {
        Target::Tcp(address) | Target::Inside(address, _) => (Domain::for_address(*address), (*address).into()),
        Target::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
    };
    let make = || Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None);
    let socket = match target {
        Target::Inside(_, namespace) => namespace.within(make)?,
        Target::Tcp(_) | Target::Unix(_) => make()?,
    };
    if let Some(source) = source {
        late_port(&socket)?;
        socket.bind(&SocketAddr::from((source, 0)).into())?;
    }
    Ok((socket, address))
}

/// The kernel chooses the port when connecting, when both ends are known. Otherwise all targets would share the ports of one
/// source address (ip(7)).
fn late_port(socket: &Socket) -> io::Result<()> {
    let one: libc::c_int = 1;
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open; the option's value outlives the call and has the given length.
    let set = unsafe {
        let (option, value) = (libc::IP_BIND_ADDRESS_NO_PORT, (&raw const one).cast());
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, option, value, bytes)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Starts connecting; true if the connection is open already, as on loopback, where the handshake runs inside the call.
///
/// # Errors
/// The kernel's error; WouldBlock: a unix socket's queue of connections is full.
pub fn connect(target: &Target, source: Option<Ipv4Addr>, keepalive: bool) -> io::Result<(Socket, bool)> {
    let (socket, address) = socket(target, source)?;
    if keepalive && target.address().is_some() {
        // With one request per connection, Nagle's algorithm has nothing to hold back.
        socket.set_tcp_nodelay(true)?;
    }
    match socket.connect(&address) {
        Ok(()) => Ok((socket, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
            // The kernel said so before it processed the packets of the server: on loopback, these are there already.
            let connected = socket.peer_addr().is_ok();
            Ok((socket, connected))
        }
        Err(error) => Err(error),
    }
}

/// Waits for one of these events on a socket.
///
/// # Errors
/// TimedOut: the patience has ended; or the kernel's error.
pub fn await_socket(socket: &Socket, events: libc::c_short, patience: &Patience) -> io::Result<()> {
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    while patience.lasts() {
        let limit_ms = patience.next_wait_ns().div_ceil(1_000_000) as libc::c_int;
        // SAFETY: one entry, which outlives the call; the descriptor is open.
        match unsafe { libc::poll(&raw mut entry, 1, limit_ms) } {
            0 => {}
            ..=-1 => return Err(io::Error::last_os_error()),
            _ => return Ok(()),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Connects, and waits for it. If the server's queue of connections is full, the kernel would try again only after a second.
/// On loopback, where nothing is on its way, a new socket tries again soon.
fn connect_again(target: &Target, source: Option<Ipv4Addr>, patience: &Patience) -> io::Result<Socket> {
    let near = target.address().is_some_and(|address| address.ip().is_loopback());
    while patience.lasts() {
        let (socket, connected) = connect(target, source, true)?;
        let soon = near.then(|| patience.within(AGAIN));
        let pending =
            if connected { Ok(()) } else { await_socket(&socket, libc::POLLOUT, soon.as_ref().unwrap_or(patience)) };
        match pending {
            Err(error) if near && error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(error),
            Ok(()) => return socket.take_error()?.map_or(Ok(socket), Err),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Connects and waits for it.
pub fn connect_wait(target: &Target, source: Option<Ipv4Addr>, patience: &Patience) -> io::Result<Socket> {
    if target.address().is_some() {
        return connect_again(target, source, patience);
    }
    let (socket, address) = socket(target, source)?;
    // Connecting a unix socket waits as long as sending does (unix(7)).
    socket.set_nonblocking(false)?;
    while patience.lasts() {
        socket.set_write_timeout(Some(Duration::from_nanos(patience.next_wait_ns().max(1_000_000))))?;
        match socket.connect(&address) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done.and_then(|()| socket.set_nonblocking(true)).map(|()| socket),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Sends without raising SIGPIPE and without waiting; returns how many bytes were accepted.
#[inline]
pub fn send(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    socket.send_with_flags(bytes, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
}

/// The link and the generation in a token.
pub fn split_token(token: u64) -> (usize, u32) {
    (token as u32 as usize, (token >> 32) as u32)
}
