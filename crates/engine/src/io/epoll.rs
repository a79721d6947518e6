//! Readiness by epoll, edge-triggered: registered once, so that a request costs no `epoll_ctl`.
//!
//! A request's departure is the look at the clock before the call that sends it: that call's way to the device (2 to 4 us
//! on loopback) is in its latency. A second look, after the call, would bring no more: on loopback it holds the other side's work, too.

use super::{Coalescing, Event, Needs, Received, Transport, timestamps};
use crate::schedule::NEVER_NS;
use crate::sys;
use socket2::Socket;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Events taken at once. More would make the first of the next batch wait longer for its turn.
const BATCH: usize = 256;
/// So many events ahead of the one that has its turn, its connection is fetched from memory.
const AHEAD: usize = 4;

/// The alarm's token; no connection has it.
const ALARM: u64 = u64::MAX;

/// One epoll instance with its event buffer, and an alarm that ends waits.
pub struct Epoll {
    fd: OwnedFd,
    /// A timer of each wait's own would cost a tenth of a request at one connection: this one outlives waits.
    alarm: OwnedFd,
    /// When it goes off; [`NEVER_NS`]: it is not set.
    alarm_ns: u64,
    /// Sockets are asked for stamps.
    stamps: bool,
    /// What the latest wait told.
    told: usize,
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

    /// Watches what is connected already.
    pub(super) fn add(&self, token: u64, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, false)
    }

    /// Watches it no more.
    pub(super) fn leave(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, false)
    }

    /// Has a wait end by then; the time to wait in ms at most, where it can't be set.
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
        // SAFETY: the descriptor is open, `once` outlives the call, the previous setting is not asked for.
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

/// Sleeps: what arrives meanwhile is told together. A signal ends it, and nothing is lost by that.
fn doze(time_ns: u64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: time_ns.min(999_999_999) as libc::c_long };
    // SAFETY: `time` outlives the call; what is left of it is not asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const time, std::ptr::null_mut()) };
}

/// Takes a new descriptor into our hands, or tells why there is none.
fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: our callers have just made it, and it is nobody else's.
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
        let made = Self { fd, alarm, alarm_ns: NEVER_NS, stamps: needs.stamps, told: 0, events };
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
        // Where so many came at once that they are no fewer than waited for, more are there already.
        if let Some(coalescing) = coalescing.filter(|coalescing| limit_ns > 0 && self.told < coalescing.answers) {
            if coalescing.most_ns >= limit_ns {
                // Something is due then; since the look at the clock, requests have been sent.
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
        self.told = count.max(0) as usize;
        self.told
    }

    #[inline]
    fn ahead(&self, index: usize) -> Option<u64> {
        self.events[..self.told].get(index + AHEAD).map(|event| event.u64)
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
        drop(socket); // which takes it out of the epoll instance, too
    }

    fn settle(&mut self) {}
}
