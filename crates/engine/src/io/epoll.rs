//! Readiness by epoll, edge-triggered: each connection is registered once, so that a request needs no `epoll_ctl`.
//!
//! The send time of a request is read before the call that sends it. So its latency includes the way through the kernel to
//! the device (2 to 4 µs on loopback). A reading after the call would be no better: on loopback the call includes work of
//! the other side.

use super::{Coalescing, Event, Needs, Received, Transport, timestamps};
use crate::schedule::NEVER_NS;
use crate::sys;
use socket2::Socket;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Events per wait. With more, the first event of the next batch would wait longer for its turn.
const BATCH: usize = 256;
/// Connections are prefetched this many events ahead.
const AHEAD: usize = 4;

/// The alarm's token; no connection has it.
const ALARM: u64 = u64::MAX;

/// One epoll instance with its event buffer, and an alarm that ends waits.
pub struct Epoll {
    fd: OwnedFd,
    /// A timer per wait would cost a tenth of a request with one connection, so this one is kept across waits.
    alarm: OwnedFd,
    /// When the alarm goes off; [`NEVER_NS`]: it is not set.
    alarm_ns: u64,
    /// Sockets deliver timestamps.
    stamps: bool,
    /// Number of events of the latest wait.
    count: usize,
    events: Box<[libc::epoll_event; BATCH]>,
}

impl Epoll {
    fn control(&self, operation: libc::c_int, fd: RawFd, token: u64, writable: bool) -> io::Result<()> {
        let out = if writable { libc::EPOLLOUT } else { 0 };
        let flags = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET | out;
        let mut event = libc::epoll_event { events: flags as u32, u64: token };
        // SAFETY: both descriptors are open, `event` outlives the call.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Watches an open connection.
    pub(super) fn add(&self, token: u64, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, false)
    }

    /// Stops watching a connection.
    pub(super) fn leave(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, false)
    }

    /// Sets the alarm to end a wait by then; returns the limit for the wait in ms, -1 if the alarm is set.
    fn set_alarm(&mut self, due_ns: u64) -> libc::c_int {
        if self.alarm_ns <= due_ns {
            return -1;
        }
        let second_ns = 1_000_000_000;
        let due = libc::timespec {
            tv_sec: (due_ns / second_ns) as i64,
            tv_nsec: (due_ns % second_ns).max(1) as libc::c_long,
        };
        let once = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: due };
        // SAFETY: the descriptor is open, `once` outlives the call, the previous setting is not requested.
        let set = unsafe {
            libc::timerfd_settime(self.alarm.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &once, std::ptr::null_mut())
        };
        if set != 0 {
            return 1;
        }
        self.alarm_ns = due_ns;
        -1
    }
}

/// Sleeps; events that arrive during the sleep are reported together. A signal ends the sleep, which does no harm.
fn doze(time_ns: u64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: time_ns.min(999_999_999) as libc::c_long };
    // SAFETY: `time` outlives the call; the remaining time is not requested.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const time, std::ptr::null_mut()) };
}

/// Takes ownership of a new descriptor, or returns the error.
fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller has just created it; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Transport for Epoll {
    type Socket = Socket;

    const BRINGS_BYTES: bool = false;
    const SENDS_LATER: bool = false;
    const DISCARDS: bool = true;

    fn open(needs: &Needs) -> io::Result<Self> {
        // SAFETY: no pointer is passed.
        let fd = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: no pointer is passed.
        let alarm =
            owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) })?;
        let events = Box::new([libc::epoll_event { events: 0, u64: 0 }; BATCH]);
        let made = Self { fd, alarm, alarm_ns: NEVER_NS, stamps: needs.stamps, count: 0, events };
        made.control(libc::EPOLL_CTL_ADD, made.alarm.as_raw_fd(), ALARM, false)?;
        Ok(made)
    }

    fn watch(&mut self, token: u64, socket: &Socket, connecting: bool) -> io::Result<()> {
        if self.stamps {
            timestamps::ask(socket)?;
        }
        self.control(libc::EPOLL_CTL_ADD, socket.as_raw_fd(), token, connecting)
    }

    fn established(&mut self, _: u64) {}

    #[inline]
    fn send(&mut self, _: u64, socket: &Socket, _: usize, request: &[u8]) -> io::Result<usize> {
        super::send(socket, request)
    }

    fn want_writable(&mut self, token: u64, socket: &Socket) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket.as_raw_fd(), token, true)
    }

    #[inline]
    fn flush(&mut self) {}

    #[inline]
    fn departure(&mut self) -> Option<(u64, u64)> {
        None
    }

    fn wait(&mut self, now_ns: u64, limit_ns: u64, coalescing: Option<Coalescing>) -> usize {
        let mut limit_ns = limit_ns;
        // If the latest wait brought at least as many events, more are there already.
        if let Some(coalescing) = coalescing.filter(|coalescing| limit_ns > 0 && self.count < coalescing.answers) {
            if coalescing.most_ns >= limit_ns {
                // Something is due at the limit. Time has passed since the clock was read: requests were sent.
                doze((now_ns + limit_ns).saturating_sub(sys::now_ns()));
                limit_ns = 0;
            } else {
                doze(coalescing.most_ns);
            }
        }
        let limit_ms = if limit_ns == 0 { 0 } else { self.set_alarm(now_ns + limit_ns) };
        // SAFETY: the kernel writes at most BATCH entries into a buffer of BATCH.
        let count =
            unsafe { libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), BATCH as libc::c_int, limit_ms) };
        self.count = count.max(0) as usize;
        self.count
    }

    #[inline]
    fn ahead(&self, index: usize) -> Option<u64> {
        self.events[..self.count].get(index + AHEAD).map(|event| event.u64)
    }

    #[inline]
    fn event(&mut self, index: usize) -> Option<Event> {
        let event = self.events[index];
        if event.u64 == ALARM {
            self.alarm_ns = NEVER_NS;
            return None;
        }
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
    fn receive<'a>(&'a mut self, socket: &Socket, buffer: &'a mut [u8]) -> io::Result<Received<'a>> {
        timestamps::receive(socket, buffer)
    }

    fn release(&mut self, _: u64, socket: Socket) {
        drop(socket); // which also removes it from the epoll instance
    }

    fn settle(&mut self) {}
}
