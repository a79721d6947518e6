//! Readiness by epoll, edge-triggered: registered once, so that a request costs no `epoll_ctl`.

use super::Event;
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
    /// Makes an instance.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: Box::new([libc::epoll_event { events: 0, u64: 0 }; BATCH]) })
    }

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

    /// Watches a connection until it is closed; `writable` only where sending has to wait.
    pub fn add(&self, socket: &Socket, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, token, writable)
    }

    /// Tells when there is room to send, too.
    pub fn want_writable(&self, socket: &Socket, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, token, true)
    }

    /// Waits up to `timeout_ms` and returns how many events [`Epoll::event`] has; none on a signal.
    pub fn wait(&mut self, timeout_ms: i32) -> usize {
        // SAFETY: the kernel writes at most BATCH entries into a buffer of BATCH.
        let count = unsafe {
            libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), BATCH as libc::c_int, timeout_ms)
        };
        count.max(0) as usize
    }

    /// The event at `index` of the latest wait.
    #[inline]
    pub fn event(&self, index: usize) -> Event {
        let event = self.events[index];
        let has = |flags: libc::c_int| event.events & flags as u32 != 0;
        Event {
            token: event.u64,
            readable: has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR),
            writable: has(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR),
            closing: has(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR),
        }
    }
}
