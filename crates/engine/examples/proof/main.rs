//! An epoll server with a fixed response that records the true times, for comparison with a generator's figures.
//!
//! `proof PORT [--body BYTES] [--work-us U] [--delay-ms D --every N] [--stall-ms S --stall-at N] [--core C]
//! [--count FILE] [--stamps FILE]`
//!
//! `--body` is 12 by default, repeated `hello world`. `--work-us` keeps the core busy for U µs per request. One of
//! every N requests (`--every`) gets its response D ms late, the others at once; at request number `--stall-at`
//! everything stops for S ms, once. `--count` is a file of 8 bytes that always holds the number of responses.
//! `--stamps` logs two CLOCK_REALTIME times in ns for each request, 16 bytes little-endian, written at SIGTERM: the
//! request's arrival by the kernel's timestamp (SO_TIMESTAMPNS), and the response's arrival at the client's kernel. On
//! loopback, `send` itself delivers the response, so its arrival is the time before `send` plus the duration of the
//! delivery. That duration is measured at the start over a separate pair of sockets, also by kernel timestamps. One thread.
//!
//! A client that begins with HTTP/2's preface is served HTTP/2: all requests of one read get their responses by one `send`.

mod http2;

use dragstrip_engine::http2::frame::PREFACE;
use http2::{Answer, Http2};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ENDING: AtomicBool = AtomicBool::new(false);
const STAMP_SPACE: usize = 64;

fn argument(name: &str) -> Option<String> {
    let mut words = std::env::args().skip_while(|word| word != name);
    words.next()?;
    Some(words.next().unwrap_or_else(|| panic!("proof: {name} needs a value")))
}

fn number(name: &str) -> u64 {
    argument(name)
        .map_or(0, |text| text.parse().unwrap_or_else(|_| panic!("proof: {name}: {text:?} is not a whole number")))
}

fn check(result: libc::c_int) -> libc::c_int {
    if result < 0 {
        panic!("proof: {}", io::Error::last_os_error());
    }
    result
}

fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call and the clock id is a constant the kernel knows.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn set(fd: libc::c_int, level: libc::c_int, option: libc::c_int) {
    let one: libc::c_int = 1;
    // SAFETY: the option's value outlives the call.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const one).cast(), size_of::<libc::c_int>() as u32) });
}

/// Receives, with the kernel's timestamp of the last segment (0: none).
fn receive(fd: libc::c_int, buffer: &mut [u8]) -> (isize, u64) {
    let mut control = [0u64; STAMP_SPACE / 8];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: an all-zero header is valid; the buffers named in it outlive the call and are as long as it says;
    // control messages are walked by libc's own macros within what the kernel filled.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = STAMP_SPACE as _;
        let got = libc::recvmsg(fd, &mut message, 0);
        let head = if got > 0 { libc::CMSG_FIRSTHDR(&message) } else { std::ptr::null_mut() };
        if head.is_null() || (*head).cmsg_type != libc::SCM_TIMESTAMPNS {
            return (got, 0);
        }
        let time = libc::CMSG_DATA(head).cast::<libc::timespec>().read_unaligned();
        (got, time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

/// Median time of a thousand from before `send` to the kernel's timestamp at the other end, ns.
fn way_ns(answer: &[u8]) -> u64 {
    use std::os::fd::AsRawFd;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("proof: bind");
    let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).expect("proof: connect");
    let (far, _) = listener.accept().expect("proof: accept");
    near.set_nodelay(true).unwrap();
    set(far.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
    let (mut buffer, mut ways) = ([0; 4096], vec![]);
    for _ in 0..1000 {
        let before = now_ns(libc::CLOCK_REALTIME);
        near.write_all(&answer[..answer.len().min(77)]).unwrap();
        let (_, stamp) = receive(far.as_raw_fd(), &mut buffer);
        ways.push(stamp.saturating_sub(before));
    }
    ways.sort_unstable();
    ways[ways.len() / 2]
}

/// A connection, and how much of its responses is still to be sent.
#[derive(Default, Clone)]
struct Peer {
    open: bool,
    unsent: usize,
    closing: bool,
    /// The client speaks HTTP/1.0 and requests keep-alive, as `ab -k` does: it expects a header that confirms it.
    old: bool,
    http2: Option<Box<Http2>>,
}

struct Server {
    epoll: libc::c_int,
    listener: libc::c_int,
    answer: Vec<u8>,
    frames: Answer,
    closing: Vec<u8>,
    keeping: Vec<u8>,
    peers: Vec<Peer>,
    work_ns: u64,
    delay_ns: u64,
    every: u64,
    stall_ms: u64,
    stall_at: u64,
    count: &'static AtomicU64,
    /// Delayed responses: (due, connection, arrival, stream or 0).
    late: BinaryHeap<Reverse<(u64, libc::c_int, u64, u32)>>,
    way_ns: u64,
    stamps: Option<Vec<(u64, u64)>>,
}

impl Server {
    fn watch(&self, fd: libc::c_int, operation: libc::c_int, writable: bool) {
        let events = libc::EPOLLIN | if writable { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: events as u32, u64: fd as u64 };
        // SAFETY: `event` outlives the call; both descriptors are ours.
        check(unsafe { libc::epoll_ctl(self.epoll, operation, fd, &mut event) });
    }

    fn accept_all(&mut self) {
        loop {
            // SAFETY: no address is asked for; flags are constants.
            let fd = unsafe {
                libc::accept4(self.listener, std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_NONBLOCK)
            };
            if fd < 0 {
                return;
            }
            set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY);
            if self.stamps.is_some() {
                set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
            }
            if self.peers.len() <= fd as usize {
                self.peers.resize(fd as usize + 1, Peer::default());
            }
            self.peers[fd as usize] = Peer { open: true, ..Peer::default() };
            self.watch(fd, libc::EPOLL_CTL_ADD, false);
        }
    }

    fn close(&mut self, fd: libc::c_int) {
        self.peers[fd as usize] = Peer::default();
        self.late.retain(|Reverse((_, other, ..))| *other != fd);
        // SAFETY: a connection of ours, closed once: its place records that it is closed.
        unsafe { libc::close(fd) };
    }

    /// An HTTP/1 request always fits into one segment, and each connection has at most one in flight.
    fn read(&mut self, fd: libc::c_int) {
        let mut buffer = [0u8; 8192];
        let (got, arrived_ns) = if self.stamps.is_some() {
            receive(fd, &mut buffer)
        } else {
            // SAFETY: the buffer is as long as we say and outlives the call.
            (unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) }, 0)
        };
        if got <= 0 {
            if got == 0 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
                self.close(fd);
            }
            return;
        }
        let bytes = &buffer[..got as usize];
        if self.peers[fd as usize].http2.is_some() || bytes.starts_with(PREFACE) {
            let asked = self.peers[fd as usize].http2.get_or_insert_default().take(bytes);
            asked.into_iter().for_each(|id| self.request(fd, arrived_ns, id));
            return self.leave(fd);
        }
        let has = |what: &[u8]| bytes.windows(what.len()).any(|window| window.eq_ignore_ascii_case(what));
        let peer = &mut self.peers[fd as usize];
        peer.old = has(b" http/1.0\r") && has(b"connection: keep-alive");
        peer.closing |= has(b"connection: close") || has(b" http/1.0\r") && !peer.old;
        for _ in 0..bytes.windows(4).filter(|w| w == b"\r\n\r\n").count() {
            self.request(fd, arrived_ns, 0);
        }
    }

    fn request(&mut self, fd: libc::c_int, arrived_ns: u64, id: u32) {
        let seen = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if self.work_ns > 0 {
            let until = now_ns(libc::CLOCK_MONOTONIC) + self.work_ns;
            while now_ns(libc::CLOCK_MONOTONIC) < until {
                std::hint::spin_loop();
            }
        }
        if self.stall_at > 0 && seen == self.stall_at {
            std::thread::sleep(std::time::Duration::from_millis(self.stall_ms));
        }
        if self.every > 0 && seen.is_multiple_of(self.every) {
            self.late.push(Reverse((now_ns(libc::CLOCK_MONOTONIC) + self.delay_ns, fd, arrived_ns, id)));
        } else {
            self.answer(fd, arrived_ns, id);
        }
    }

    /// Over HTTP/2, [`Self::leave`] sends it.
    fn answer(&mut self, fd: libc::c_int, arrived_ns: u64, id: u32) {
        let peer = &mut self.peers[fd as usize];
        if let Some(http2) = &mut peer.http2 {
            return http2.answer(&self.frames, id, arrived_ns);
        }
        peer.unsent = whole(peer, &self.answer, &self.closing, &self.keeping).len();
        if let Some(stamps) = &mut self.stamps {
            stamps.push((arrived_ns, now_ns(libc::CLOCK_REALTIME) + self.way_ns));
        }
        if !self.send(fd) {
            self.watch(fd, libc::EPOLL_CTL_MOD, true);
        }
    }

    /// Sends the pending bytes of an HTTP/2 connection.
    fn leave(&mut self, fd: libc::c_int) {
        let Some(http2) = &mut self.peers[fd as usize].http2 else { return };
        if let Some(stamps) = &mut self.stamps {
            let left_ns = now_ns(libc::CLOCK_REALTIME) + self.way_ns;
            stamps.extend(http2.answered.iter().map(|arrived_ns| (*arrived_ns, left_ns)));
        }
        http2.answered.clear();
        if !http2.out.is_empty() && !self.send(fd) {
            self.watch(fd, libc::EPOLL_CTL_MOD, true);
        }
    }

    /// Sends the unsent bytes; returns whether all were sent.
    fn send(&mut self, fd: libc::c_int) -> bool {
        let peer = &mut self.peers[fd as usize];
        if let Some(Http2 { out, .. }) = peer.http2.as_deref_mut() {
            // SAFETY: the slice outlives the call.
            let sent = unsafe { libc::send(fd, out.as_ptr().cast(), out.len(), libc::MSG_NOSIGNAL) };
            if sent < 0 && io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
                self.close(fd);
                return true;
            }
            out.drain(..sent.max(0) as usize);
            return out.is_empty();
        }
        let whole = whole(peer, &self.answer, &self.closing, &self.keeping);
        while peer.unsent > 0 {
            let rest = &whole[whole.len() - peer.unsent..];
            // SAFETY: the slice outlives the call.
            let sent = unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL) };
            if sent < 0 {
                if io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
                    self.close(fd);
                    return true;
                }
                return false;
            }
            peer.unsent -= sent as usize;
        }
        if peer.closing {
            self.close(fd);
        }
        true
    }

    /// Sends the delayed responses that are due; returns the next one's remaining delay in whole ms, -1: none.
    fn send_late(&mut self) -> libc::c_int {
        while let Some(Reverse((due_ns, fd, arrived_ns, id))) = self.late.peek().copied() {
            let now_ns = now_ns(libc::CLOCK_MONOTONIC);
            if due_ns > now_ns {
                // The last millisecond is spent spinning, so that the delay is exact.
                return ((due_ns - now_ns) / 1_000_000) as libc::c_int;
            }
            self.late.pop();
            self.answer(fd, arrived_ns, id);
            self.leave(fd);
        }
        -1
    }

    fn run(&mut self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        while !ENDING.load(Ordering::Relaxed) {
            let wait_ms = self.send_late();
            // SAFETY: the kernel writes at most `events.len()` entries.
            let ready = unsafe { libc::epoll_wait(self.epoll, events.as_mut_ptr(), events.len() as i32, wait_ms) };
            for event in events.iter().take(ready.max(0) as usize) {
                let fd = event.u64 as libc::c_int;
                if fd == self.listener {
                    self.accept_all();
                    continue;
                }
                if event.events & libc::EPOLLOUT as u32 != 0 && self.peers[fd as usize].open && self.send(fd) {
                    if self.peers[fd as usize].open {
                        self.watch(fd, libc::EPOLL_CTL_MOD, false);
                    }
                    continue;
                }
                if event.events & !(libc::EPOLLOUT as u32) != 0 && self.peers[fd as usize].open {
                    self.read(fd);
                }
            }
        }
    }
}

extern "C" fn end(_: libc::c_int) {
    ENDING.store(true, Ordering::Relaxed);
}

/// Eight bytes that another process can read while we write them.
fn counter(path: Option<String>) -> &'static AtomicU64 {
    use std::os::fd::AsRawFd;
    let Some(path) = path else { return Box::leak(Box::default()) };
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path);
    let file = file.expect("proof: --count");
    file.set_len(8).expect("proof: --count");
    // SAFETY: a shared mapping of the 8 bytes just made, page-aligned, never unmapped; only atomics touch it.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(std::ptr::null_mut(), 8, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert!(at != libc::MAP_FAILED, "proof: --count: {}", io::Error::last_os_error());
        &*at.cast::<AtomicU64>()
    }
}

/// The response that a connection gets.
fn whole<'a>(peer: &Peer, answer: &'a [u8], closing: &'a [u8], keeping: &'a [u8]) -> &'a [u8] {
    match (peer.closing, peer.old) {
        (true, _) => closing,
        (_, true) => keeping,
        _ => answer,
    }
}

fn compose(body: &[u8], extra: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n{extra}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn main() {
    let port: u16 = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("usage: proof PORT [OPTIONS]");
    if let Some(core) = argument("--core") {
        let core: usize = core.parse().expect("proof: --core");
        // SAFETY: an all-zero set is the empty set; it outlives the call.
        check(unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
        });
    }
    // SAFETY: the handler only stores to an atomic; timers without slack make delays exact.
    unsafe {
        libc::signal(libc::SIGTERM, end as *const () as libc::sighandler_t);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
    }
    let size = argument("--body").map_or(12, |text| text.parse().expect("proof: --body"));
    let body: Vec<u8> = b"hello world\n".iter().copied().cycle().take(size).collect();
    let answer = compose(&body, "");
    let count = counter(argument("--count")); // exists before any client can connect
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).expect("proof: bind");
    listener.set_nonblocking(true).expect("proof: nonblocking");
    let listener = std::os::fd::IntoRawFd::into_raw_fd(listener);
    // SAFETY: plain system calls on descriptors we own; a longer backlog than std's 128.
    let epoll = unsafe {
        check(libc::listen(listener, 16384));
        check(libc::epoll_create1(0))
    };
    let path = argument("--stamps");
    let mut server = Server {
        epoll,
        listener,
        way_ns: if path.is_some() { way_ns(&answer) } else { 0 },
        answer,
        frames: Answer::new(&body),
        closing: compose(&body, "Connection: close\r\n"),
        keeping: compose(&body, "Connection: keep-alive\r\n"),
        peers: Vec::new(),
        work_ns: number("--work-us") * 1000,
        delay_ns: number("--delay-ms") * 1_000_000,
        every: number("--every"),
        stall_ms: number("--stall-ms"),
        stall_at: number("--stall-at"),
        count,
        late: BinaryHeap::new(),
        stamps: path.is_some().then(|| Vec::with_capacity(1 << 21)),
    };
    server.watch(listener, libc::EPOLL_CTL_ADD, false);
    server.run();
    if let (Some(path), Some(stamps)) = (path, server.stamps) {
        let bytes: Vec<u8> = stamps.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat()).collect();
        std::fs::write(path, bytes).expect("proof: --stamps");
    }
}
