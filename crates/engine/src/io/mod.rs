//! How bytes get in and out. One back end so far; it is chosen here, once, by name.
//!
//! Sockets themselves are safe code (socket2); only the readiness calls in `epoll` are not.

mod epoll;

pub use epoll::Epoll as Poller;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

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
}

/// The back end's name, for the report.
pub const BACK_END: &str = "epoll";

fn socket(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))
}

/// Starts connecting; true if it is connected already, as on loopback, where the handshake runs inside the call.
pub fn connect(address: SocketAddr, keepalive: bool) -> io::Result<(Socket, bool)> {
    let socket = socket(address)?;
    if keepalive {
        // One request per connection leaves nothing for Nagle's algorithm to hold back.
        socket.set_tcp_nodelay(true)?;
    }
    match socket.connect(&address.into()) {
        Ok(()) => Ok((socket, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok((socket, false)),
        Err(error) => Err(error),
    }
}

/// Connects and waits for it.
pub fn connect_wait(address: SocketAddr, limit: Duration) -> io::Result<Socket> {
    let socket = socket(address)?;
    socket.set_tcp_nodelay(true)?;
    socket.connect_timeout(&address.into(), limit)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sends without raising SIGPIPE; fewer bytes than given may be taken.
#[inline]
pub fn send(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    socket.send_with_flags(bytes, libc::MSG_NOSIGNAL)
}

/// Reads what is there.
#[inline]
pub fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
    io::Read::read(&mut &*socket, buffer)
}
