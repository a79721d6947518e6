//! The lower bound: the least that a closed loop over keep-alive can cost.
//! `raw PORT CONNECTIONS SECONDS CORE epoll|uring|coalesced [STREAMS]`
//!
//! Sends the same bytes as the engine, but parses, checks, times and records nothing: a response is complete when as
//! many bytes came as the first one had. One thread, pinned. `coalesced` is io_uring waiting for half of the responses,
//! at most 500 µs. STREAMS selects HTTP/2 in the clear, with the same frames as the engine's. Prints the first line of
//! `examples/drive.rs`, so that `make bench` reads both in the same way.

#[path = "raw/wire.rs"]
mod wire;

use io_uring::types::{BufRingEntry, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::io::Error;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Instant;
use wire::{Http1, Http2, Wire};

static OVER: AtomicBool = AtomicBool::new(false);
const ROOM: usize = 4096;
const SENT: u64 = 1 << 32;

fn check(result: libc::c_int, what: &str) -> libc::c_int {
    if result < 0 {
        panic!("raw: {what}: {}", Error::last_os_error());
    }
    result
}

/// User and system time of the process, µs.
fn cpu_us() -> f64 {
    // SAFETY: an all-zero rusage is valid and outlives the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

extern "C" fn over(_: libc::c_int) {
    OVER.store(true, Ordering::Relaxed);
}

/// Pins this thread, and sets `OVER` after `seconds`.
fn prepare(core: usize, seconds: f64) {
    let whole = seconds as i64;
    let after = libc::timeval { tv_sec: whole, tv_usec: ((seconds - whole as f64) * 1e6) as i64 };
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let once = libc::itimerval { it_interval: never, it_value: after };
    // SAFETY: all-zero sets and actions are valid; the handler only stores to an atomic; all outlive the calls. No
    // SA_RESTART: the signal must end a wait.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set), "core");
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = over as *const () as usize;
        check(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), "sigaction");
        check(libc::setitimer(libc::ITIMER_REAL, &once, std::ptr::null_mut()), "setitimer");
    }
}

fn send(fd: RawFd, request: &[u8]) {
    // SAFETY: the slice outlives the call.
    let sent = unsafe { libc::send(fd, request.as_ptr().cast(), request.len(), libc::MSG_NOSIGNAL) };
    assert_eq!(sent, request.len() as isize, "raw: a request did not fit");
}

fn by_epoll(fds: &[RawFd], mut wire: impl Wire) -> u64 {
    // SAFETY: no pointer is passed.
    let epoll = check(unsafe { libc::epoll_create1(0) }, "epoll");
    for (index, &fd) in fds.iter().enumerate() {
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: index as u64 };
        // SAFETY: `event` outlives the call; both descriptors are ours.
        check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) }, "epoll_ctl");
        send(fd, wire.first(index));
    }
    let (mut got, mut answered) = (vec![0usize; fds.len()], 0);
    let (mut events, mut buffer) = ([libc::epoll_event { events: 0, u64: 0 }; 256], [0u8; 65536]);
    while !OVER.load(Ordering::Relaxed) {
        // SAFETY: the kernel writes at most `events.len()` entries.
        let ready = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 256, -1) };
        for event in &events[..ready.max(0) as usize] {
            let index = event.u64 as usize;
            // SAFETY: the buffer is as long as we say and outlives the call.
            let count = unsafe { libc::recv(fds[index], buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            assert!(count > 0, "raw: the server closed a connection");
            got[index] += count as usize;
            let whole = wire.answers(&mut got[index]);
            if whole > 0 {
                answered += whole as u64;
                send(fds[index], wire.next(index, whole));
            }
        }
    }
    answered
}

/// A ring of buffers that the kernel fills; never freed.
struct Provided {
    entries: *mut BufRingEntry,
    memory: *mut u8,
    count: u16,
    tail: u16,
}

impl Provided {
    fn new(count: u16) -> Self {
        let map = |bytes: usize| {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new mapping of our own, wherever the kernel puts it.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
            assert!(at != libc::MAP_FAILED, "raw: {}", Error::last_os_error());
            at
        };
        let entries = map(usize::from(count) * size_of::<BufRingEntry>()).cast();
        let mut made = Self { entries, memory: map(usize::from(count) * ROOM).cast(), count, tail: 0 };
        (0..count).for_each(|id| made.give(id));
        made
    }

    fn give(&mut self, id: u16) {
        // SAFETY: the index is below `count` by the mask; `id` is below it; the kernel reads entries below the tail only.
        unsafe {
            let entry = &mut *self.entries.add(usize::from(self.tail & (self.count - 1)));
            entry.set_addr(self.memory.add(usize::from(id) * ROOM) as u64);
            entry.set_len(ROOM as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            (*BufRingEntry::tail(self.entries).cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }
}

fn push(ring: &mut IoUring, entry: &squeue::Entry) {
    // SAFETY: what an entry points to (the request, the ring of buffers) lives until the program ends.
    while unsafe { ring.submission().push(entry) }.is_err() {
        ring.submit().expect("raw: submit");
    }
}

fn by_uring(fds: &[RawFd], mut wire: impl Wire, coalesced: bool) -> u64 {
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(16384)
        .build(4096)
        .expect("raw: io_uring does not work here");
    ring.submitter().register_files(fds).expect("raw: register_files");
    let mut provided = Provided::new((2 * fds.len()).next_power_of_two().clamp(64, 16384) as u16);
    // SAFETY: the mapping lives until the program ends.
    unsafe { ring.submitter().register_buf_ring_with_flags(provided.entries as u64, provided.count, 0, 0) }
        .expect("raw: provided buffers");
    let receive = |index: usize| opcode::RecvMulti::new(Fixed(index as u32), 0).build().user_data(index as u64);
    let ask = |index: usize, request: &'static [u8]| {
        let send = opcode::Send::new(Fixed(index as u32), request.as_ptr(), request.len() as u32);
        send.flags(libc::MSG_NOSIGNAL).build().flags(squeue::Flags::SKIP_SUCCESS).user_data(SENT | index as u64)
    };
    for index in 0..fds.len() {
        push(&mut ring, &receive(index));
        push(&mut ring, &ask(index, wire.first(index)));
    }
    let wanted = if coalesced { (fds.len() / 2).max(1) } else { 1 };
    let limit = Timespec::new().nsec(500_000);
    let limited = SubmitArgs::new().timespec(&limit);
    let (mut got, mut answered, mut seen) = (vec![0usize; fds.len()], 0, Vec::with_capacity(16384));
    while !OVER.load(Ordering::Relaxed) {
        // An error is the end of the wait, by its time limit or the alarm.
        let _ =
            if coalesced { ring.submitter().submit_with_args(wanted, &limited) } else { ring.submit_and_wait(wanted) };
        seen.extend(ring.completion());
        for event in seen.drain(..) {
            let event: cqueue::Entry = event;
            assert!(event.user_data() < SENT, "raw: a request could not be sent: {}", event.result());
            let index = event.user_data() as usize;
            let count = event.result();
            if let Some(id) = cqueue::buffer_select(event.flags()) {
                provided.give(id);
            }
            assert!(count > 0 || count == -libc::ENOBUFS, "raw: the server closed a connection ({count})");
            if !cqueue::more(event.flags()) {
                push(&mut ring, &receive(index));
            }
            got[index] += count.max(0) as usize;
            let whole = wire.answers(&mut got[index]);
            if whole > 0 {
                answered += whole as u64;
                push(&mut ring, &ask(index, wire.next(index, whole)));
            }
        }
    }
    answered
}

/// Runs the requested loop over the connections.
fn measure(streams: &[TcpStream], wire: impl Wire, core: usize, seconds: f64, how: &str) {
    let fds: Vec<RawFd> = streams.iter().map(AsRawFd::as_raw_fd).collect();
    prepare(core, seconds);
    let (before_us, began) = (cpu_us(), Instant::now());
    let answered = match how {
        "epoll" => by_epoll(&fds, wire),
        "uring" => by_uring(&fds, wire, false),
        "coalesced" => by_uring(&fds, wire, true),
        _ => panic!("raw: {how:?} given; give epoll, uring or coalesced"),
    };
    let (cpu_us, rate) = (cpu_us() - before_us, answered as f64 / began.elapsed().as_secs_f64());
    println!("raw {how}: requests/s {rate:.0}  CPU us/request {:.3}  answered {answered}", cpu_us / answered as f64);
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [port, connections, seconds, core, how, rest @ ..] = words.as_slice() else {
        println!("usage: raw PORT CONNECTIONS SECONDS CORE epoll|uring|coalesced [STREAMS]"); // so that `cargo bench` passes
        return;
    };
    let (port, connections): (u16, usize) = (port.parse().expect("PORT"), connections.parse().expect("CONNECTIONS"));
    let (core, seconds) = (core.parse().expect("CORE"), seconds.parse().expect("SECONDS"));
    let request = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("raw: connect");
        stream.set_nodelay(true).expect("raw: nodelay");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..connections).map(|_| connect()).collect();
    match rest {
        [] => {
            let wire = Http1::new(&mut streams[0], request);
            measure(&streams, wire, core, seconds, how);
        }
        [many, ..] => {
            let wire = Http2::new(&mut streams, &request, many.parse().expect("STREAMS"));
            measure(&streams, wire, core, seconds, how);
        }
    }
}
