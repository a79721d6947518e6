//! Readiness by epoll, edge-triggered: registered once, so that a request costs no `epoll_ctl`.

use super::{Event, Hold, Needs, Poller};
use socket2::Socket;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Events taken at once. More would make the first of the next batch wait longer for its turn.
const BATCH: usize = 256;

/// One epoll instance with its event buffer.
pub struct Epoll {
    fd: OwnedFd,
    events: Box<[libc::epoll_event; BATCH]>,
}

impl Epoll {
    fn control(&self, operation: libc::c_int, socket: &Socket, token: u64, writable: bool) -> io::Result<()> {
        let out = if writable { libc::EPOLLOUT } else { 0 };
        let flags = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET | out;
        let mut event = libc::epoll_event { events: flags as u32, u64: token };
        // SAFETY: both descriptors are open, `event` outlives the call.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, socket.as_raw_fd(), &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Poller for Epoll {
    const BRINGS_BYTES: bool = false;

    fn open(_: &Needs) -> io::Result<Self> {
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: Box::new([libc::epoll_event { events: 0, u64: 0 }; BATCH]) })
    }

    fn watch(&mut self, token: u64, socket: &Socket, connecting: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, token, connecting)
    }

    fn established(&mut self, _: u64) {}

    #[inline]
    fn send(&mut self, _: u64, socket: &Socket, _: usize, request: &[u8]) -> io::Result<usize> {
        super::send(socket, request)
    }

    fn want_writable(&mut self, token: u64, socket: &Socket) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, token, true)
    }

    #[inline]
    fn flush(&mut self) {}

    #[inline]
    fn departure(&mut self) -> Option<(u64, u64)> {
        None
    }

    fn wait(&mut self, _: u64, limit_ns: u64, _: Option<Hold>) -> usize {
        let limit_ms = limit_ns.div_ceil(1_000_000).min(1_000) as libc::c_int;
        // SAFETY: the kernel writes at most BATCH entries into a buffer of BATCH.
        let count =
            unsafe { libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), BATCH as libc::c_int, limit_ms) };
        count.max(0) as usize
    }

    #[inline]
    fn event(&mut self, index: usize) -> Option<Event> {
        let event = self.events[index];
        let has = |flags: libc::c_int| event.events & flags as u32 != 0;
        Some(Event {
            token: event.u64,
            readable: has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR),
            writable: has(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR),
            closing: has(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR),
            unsent: 0,
        })
    }

    #[inline]
    fn receive<'a>(&'a mut self, socket: &Socket, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let got = io::Read::read(&mut &*socket, buffer)?;
        Ok(&buffer[..got])
    }

    fn release(&mut self, _: u64, socket: Socket) {
        drop(socket); // which takes it out of the epoll instance, too
    }

    fn settle(&mut self) {}
}
