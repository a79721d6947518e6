//! One connection, whose answer is waited for in the read itself: no readiness is asked for and none is told.
//!
//! With one connection at work a wake-up brings one answer, and the wait is most of what a request costs. A read that blocks
//! is the shortest way through the kernel. Everything else (connecting, a request that does not fit, an answer in pieces, an
//! open loop, which has to be awake when a request is due) is epoll's, which is told of the connection when it is needed.

use super::stamp::{self, Waited};
use super::{Epoll, Event, Hold, Needs, Poller, Received};
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// What one read takes at most.
const ROOM: usize = 1 << 16;
/// A read gives up after so long, for a look at the time: soon enough for timeouts and for an order to stop.
const PATIENCE: Duration = Duration::from_millis(10);

/// The connection in the only place.
struct Place {
    token: u64,
    fd: RawFd,
    /// epoll has it.
    watched: bool,
}

/// epoll with one place, and the read that waits.
pub struct Alone {
    inner: Epoll,
    stamps: bool,
    place: Option<Place>,
    /// The connection whose request left whole, if what comes next can only be its answer.
    awaited: Option<(u64, RawFd)>,
    /// Requests leave when answers come, and never because it is time.
    steady: bool,
    /// What the latest wait read, until it is taken.
    arrived: Option<io::Result<Waited>>,
    /// Whose that is, and whether the connection's end came with it.
    told: Option<Event>,
    held: Box<[u8]>,
}

impl Alone {
    /// Has epoll watch the connection, if it doesn't yet: what is there already is told, too.
    fn watched(&mut self) -> io::Result<()> {
        match &mut self.place {
            Some(place) if !place.watched => {
                place.watched = true;
                self.inner.add(place.token, place.fd)
            }
            _ => Ok(()),
        }
    }

    /// Waits for the answer in the read; false: there is none yet.
    fn read(&mut self, token: u64, fd: RawFd) -> bool {
        let got = stamp::wait(fd, &mut self.held);
        if let Err(error) = &got
            && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        {
            return false;
        }
        // Bytes left behind what was read may be the rest of an answer; only an end is one.
        let closing = match &got {
            Ok(Waited { bytes: 0, .. }) | Err(_) => true,
            Ok(waited) => waited.more && stamp::ended(fd),
        };
        self.awaited = None;
        self.arrived = Some(got);
        self.told = Some(Event { token, readable: true, writable: false, closing, unsent: 0 });
        true
    }
}

impl Poller for Alone {
    type Socket = Socket;

    const BRINGS_BYTES: bool = false;
    const SENDS_LATER: bool = false;

    fn open(needs: &Needs) -> io::Result<Self> {
        Ok(Self {
            inner: Epoll::open(needs)?,
            stamps: needs.stamps,
            place: None,
            awaited: None,
            steady: false,
            arrived: None,
            told: None,
            held: vec![0; ROOM].into(),
        })
    }

    fn steady(&mut self, on: bool) {
        self.steady = on;
        if let Some(place) = self.place.as_mut().filter(|place| on && place.watched) {
            place.watched = self.inner.leave(place.fd).is_err();
        }
    }

    fn watch(&mut self, token: u64, socket: &Socket, connecting: bool) -> io::Result<()> {
        self.watched()?; // the one before may be left for the server to close
        self.place = Some(Place { token, fd: socket.as_raw_fd(), watched: connecting });
        if connecting {
            return self.inner.watch(token, socket, connecting);
        }
        if self.stamps {
            stamp::ask(socket)?;
        }
        stamp::ask_for_rest(socket)?;
        // Calls that must not wait say so themselves.
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_nonblocking(false)
    }

    fn established(&mut self, token: u64) {
        self.inner.established(token);
    }

    #[inline]
    fn send(&mut self, token: u64, socket: &Socket, number: usize, request: &[u8]) -> io::Result<usize> {
        let sent = self.inner.send(token, socket, number, request)?;
        self.awaited = (sent == request.len()).then_some((token, socket.as_raw_fd()));
        Ok(sent)
    }

    fn want_writable(&mut self, token: u64, socket: &Socket) -> io::Result<()> {
        self.watched()?;
        self.inner.want_writable(token, socket)
    }

    #[inline]
    fn flush(&mut self) {}

    #[inline]
    fn departure(&mut self) -> Option<(u64, u64)> {
        None
    }

    #[inline]
    fn wait(&mut self, now_ns: u64, limit_ns: u64, hold: Option<Hold>) -> usize {
        (self.arrived, self.told) = (None, None);
        match self.awaited {
            Some((token, fd)) if self.steady && limit_ns > 0 => usize::from(self.read(token, fd)),
            _ => {
                let _ = self.watched(); // if it fails, the timeout tells
                self.inner.wait(now_ns, limit_ns, hold)
            }
        }
    }

    #[inline]
    fn event(&mut self, index: usize) -> Option<Event> {
        match self.told {
            Some(event) => Some(event),
            None => self.inner.event(index),
        }
    }

    #[inline]
    fn receive<'a>(&'a mut self, socket: &Socket, buffer: &'a mut [u8]) -> io::Result<Received<'a>> {
        match self.arrived.take() {
            Some(got) => got.map(|got| Received { bytes: &self.held[..got.bytes], stamp_ns: got.stamp_ns }),
            None => self.inner.receive(socket, buffer),
        }
    }

    fn release(&mut self, token: u64, socket: Socket) {
        if self.awaited.is_some_and(|(awaited, _)| awaited == token) {
            self.awaited = None;
        }
        if self.place.as_ref().is_some_and(|place| place.token == token) {
            self.place = None;
        }
        self.inner.release(token, socket);
    }

    fn settle(&mut self) {}
}
