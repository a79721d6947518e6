//! One connection, whose response is awaited by a blocking read, without readiness events.
//!
//! With one connection each wake-up brings one response, and the wait is most of a request's cost. A blocking read is the
//! shortest way through the kernel. epoll does everything else, and watches the connection only then: connecting, requests
//! that don't fit into the socket's buffer, responses in pieces, and open loops, which must be awake when a request is due.

use super::timestamps::{self, Waited};
use super::{Coalescing, Epoll, Event, Needs, Received, Transport};
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Maximum length of a read.
const ROOM: usize = 1 << 16;
/// A read gives up after this time, so that timeouts and the stop flag are checked.
const READ_LIMIT: Duration = Duration::from_millis(10);

/// The only connection.
struct Place {
    token: u64,
    fd: RawFd,
    /// epoll watches it.
    watched: bool,
    /// Its request was sent completely: the next bytes can only be the response.
    awaited: bool,
}

/// epoll with one connection, and the blocking read.
pub struct Blocking {
    inner: Epoll,
    stamps: bool,
    place: Option<Place>,
    /// Requests are sent only after responses, never at a certain time.
    steady: bool,
    /// What the latest wait has read, until it is taken.
    arrived: Option<io::Result<Waited>>,
    /// The event for what was read.
    read_event: Option<Event>,
    held: Box<[u8]>,
}

impl Blocking {
    /// Makes epoll watch the connection, if it doesn't yet; it also reports what is there already.
    fn watched(&mut self) -> io::Result<()> {
        match &mut self.place {
            Some(place) if !place.watched => {
                place.watched = true;
                self.inner.add(place.token, place.fd)
            }
            _ => Ok(()),
        }
    }

    /// Waits for the response by a read; false: there is none yet.
    fn read(&mut self, token: u64, fd: RawFd) -> bool {
        let got = timestamps::wait(fd, &mut self.held);
        if let Err(error) = &got
            && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        {
            return false;
        }
        // More bytes may be the rest of the response; only the end of the connection is `closing`.
        let closing = match &got {
            Ok(Waited { bytes: 0, .. }) | Err(_) => true,
            Ok(waited) => waited.more && timestamps::ended(fd),
        };
        if let Some(place) = &mut self.place {
            place.awaited = false;
        }
        self.arrived = Some(got);
        self.read_event = Some(Event { token, readable: true, writable: false, closing, unsent: 0 });
        true
    }
}

impl Transport for Blocking {
    type Socket = Socket;

    const BRINGS_BYTES: bool = false;
    const SENDS_LATER: bool = false;
    const AWAITS_ONE: bool = true;

    fn open(needs: &Needs) -> io::Result<Self> {
        Ok(Self {
            inner: Epoll::open(needs)?,
            stamps: needs.stamps,
            place: None,
            steady: false,
            arrived: None,
            read_event: None,
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
        self.watched()?; // the former one may wait for the server to close it
        self.place = Some(Place { token, fd: socket.as_raw_fd(), watched: connecting, awaited: false });
        if connecting {
            self.inner.watch(token, socket, connecting)?;
        } else if self.stamps {
            timestamps::ask(socket)?;
        }
        timestamps::ask_for_rest(socket)?;
        // Calls that must not wait have a flag for that. A connection that is being opened is read from after it has sent.
        socket.set_read_timeout(Some(READ_LIMIT))?;
        socket.set_nonblocking(false)
    }

    fn established(&mut self, token: u64) {
        self.inner.established(token);
    }

    #[inline]
    fn send(&mut self, token: u64, socket: &Socket, number: usize, request: &[u8]) -> io::Result<usize> {
        let sent = self.inner.send(token, socket, number, request)?;
        if let Some(place) = self.place.as_mut().filter(|place| place.token == token) {
            place.awaited = sent == request.len();
        }
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
    fn wait(&mut self, now_ns: u64, limit_ns: u64, coalescing: Option<Coalescing>) -> usize {
        (self.arrived, self.read_event) = (None, None);
        match self.place {
            Some(Place { token, fd, awaited: true, .. }) if self.steady && limit_ns > 0 => {
                usize::from(self.read(token, fd))
            }
            _ => {
                let _ = self.watched(); // if it fails, the request times out
                self.inner.wait(now_ns, limit_ns, coalescing)
            }
        }
    }

    #[inline]
    fn event(&mut self, index: usize) -> Option<Event> {
        match self.read_event {
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
        if self.place.as_ref().is_some_and(|place| place.token == token) {
            self.place = None;
        }
        self.inner.release(token, socket);
    }

    fn settle(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, SockAddr, Type};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    const REQUEST: &[u8] = b"request";
    const PAUSE: Duration = Duration::from_millis(50);

    /// Waits until it is told something, as often as it takes; how often that was, and what came.
    fn wait(poller: &mut Blocking, begun: Instant) -> (usize, Event) {
        for count in 1.. {
            let now_ns = begun.elapsed().as_nanos() as u64;
            if poller.wait(now_ns, 1_000_000_000, None) > 0
                && let Some(event) = poller.event(0)
            {
                return (count, event);
            }
        }
        unreachable!()
    }

    #[test]
    fn a_connecting_generator_is_awaited_without_repeated_requests() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let requests = [REQUEST];
        let needs =
            Needs { connections: 1, body_bytes: 0, requests: &requests, stamps: false, target: None, tls: None };
        let mut poller = Blocking::open(&needs).unwrap();
        poller.steady(true);
        let ours = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).unwrap();
        let _ = ours.connect(&SockAddr::from(listener.local_addr().unwrap())); // what it says is told by the first event
        poller.watch(7, &ours, true).unwrap();
        let begun = Instant::now();
        assert!(wait(&mut poller, begun).1.writable);
        poller.established(7);
        assert_eq!(poller.send(7, &ours, 0, REQUEST).unwrap(), REQUEST.len());
        let (mut theirs, _) = listener.accept().unwrap();
        let answers = std::thread::spawn(move || {
            theirs.read_exact(&mut [0; REQUEST.len()]).unwrap();
            std::thread::sleep(PAUSE);
            theirs.write_all(b"answer").unwrap();
            theirs
        });
        let (waits, event) = wait(&mut poller, begun);
        assert!(event.token == 7 && event.readable && !event.closing, "{event:?}");
        // Each read waits up to its time limit; without waiting there would be thousands of them.
        assert!(waits <= 50, "{waits} waits for one response");
        assert_eq!(poller.receive(&ours, &mut [0; 64]).unwrap().bytes, b"answer");
        answers.join().unwrap();
    }
}
