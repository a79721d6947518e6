//! An epoll server with a fixed response and an injected fault, to check that a race finds the fault.
//!
//! `planted PORT [ADDRESS] [--burn SHARE] [--burn-us T] [--pause-ms M --every-ms N] [--die-after REQUESTS]`
//!
//! `--burn 0.10` makes every request cost 10 % more CPU than the server's own cost per request, which
//! it measures as it runs (thread CPU time, burnt time taken out). `--burn-us 30` makes every request cost 30 us of its
//! thread's CPU time more. `--pause-ms 30 --every-ms 1000`
//! stops serving for 30 ms after every 970 ms of CPU time, as a garbage collector would; the first pause comes after a
//! random part of that time.
//! `--die-after` exits in the middle of its work. One thread, one core: it costs what a fast server does, mostly in
//! the kernel.

use std::io;
use std::time::{Duration, Instant};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello world\n";
const CLOSING: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\nConnection: close\r\n\r\nhello world\n";
/// Requests between two readings of the server's own cost.
const GAUGE_EVERY: u64 = 512;
/// Requests between two checks whether a pause is due: about 2 ms.
const LOOK_EVERY: u64 = 256;
/// Burnt at once: reading the clock for every request would cost as much as an injected 2 %.
const AT_ONCE_NS: f64 = 2_000.0;

struct Fault {
    burn_share: f64,
    burn: Duration,
    pause: Duration,
    every: Duration,
    die_after: u64,
}

struct Burner {
    share: f64,
    /// Extra cost of each request, ns.
    per_request_ns: f64,
    /// Time still to be burnt, ns; negative if the latest burning took too long.
    due_ns: f64,
    burnt: Duration,
    /// Total time burnt since the start.
    burnt_ever: Duration,
    seen: u64,
    cpu_at_last: Duration,
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call and the clock id is a constant the kernel knows.
    unsafe { libc::clock_gettime(id, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Stops serving after a given CPU time.
struct Pauser {
    pause: Duration,
    work: Duration,
    next: Duration,
    /// Number of served requests at which the clock is read next: each reading costs a tenth of a request.
    look: u64,
}

impl Pauser {
    fn new(pause: Duration, every: Duration) -> Self {
        let work = every.saturating_sub(pause);
        let chance = clock(libc::CLOCK_MONOTONIC).as_nanos() % work.as_nanos().max(1);
        Self { pause, work, next: thread_cpu() + Duration::from_nanos(chance as u64), look: 0 }
    }

    fn pause_if_due(&mut self, served: u64) {
        if self.pause.is_zero() || served < self.look {
            return;
        }
        self.look = served + LOOK_EVERY;
        if thread_cpu() >= self.next {
            std::thread::sleep(self.pause);
            self.next += self.work;
        }
    }
}

impl Burner {
    fn new(share: f64) -> Self {
        let cpu_at_last = thread_cpu();
        Self {
            share,
            per_request_ns: 0.0,
            due_ns: 0.0,
            burnt: Duration::ZERO,
            burnt_ever: Duration::ZERO,
            seen: 0,
            cpu_at_last,
        }
    }

    fn request(&mut self) {
        self.seen += 1;
        if self.share <= 0.0 {
            return;
        }
        if self.seen.is_multiple_of(GAUGE_EVERY) {
            let cpu = thread_cpu();
            let own = (cpu - self.cpu_at_last).saturating_sub(self.burnt);
            self.per_request_ns = own.as_nanos() as f64 * self.share / GAUGE_EVERY as f64;
            self.burnt = Duration::ZERO;
            self.cpu_at_last = cpu;
        }
        self.due_ns += self.per_request_ns;
        if self.due_ns < AT_ONCE_NS {
            return;
        }
        let start = Instant::now();
        while (start.elapsed().as_nanos() as f64) < self.due_ns {
            std::hint::spin_loop();
        }
        let took = start.elapsed();
        self.due_ns -= took.as_nanos() as f64;
        self.burnt += took;
        self.burnt_ever += took;
    }

    /// Mean cost of a request so far, ns: its own, and burnt.
    fn mean_costs(&self) -> (f64, f64) {
        let (requests, burnt_ns) = (self.seen.max(1) as f64, self.burnt_ever.as_nanos() as f64);
        ((thread_cpu().as_nanos() as f64 - burnt_ns) / requests, burnt_ns / requests)
    }
}

/// Burns exactly this much CPU time of the thread; time that the host or other programs take is not counted.
fn burn(time: Duration) {
    if !time.is_zero() {
        let until = thread_cpu() + time;
        while thread_cpu() < until {}
    }
}

fn argument(name: &str) -> Option<f64> {
    let mut words = std::env::args().skip_while(|word| word != name);
    words.next()?;
    Some(words.next().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("planted: {name} needs a number")))
}

fn check(result: libc::c_int) -> libc::c_int {
    if result < 0 {
        panic!("planted: {}", io::Error::last_os_error());
    }
    result
}

fn listen(port: u16) -> libc::c_int {
    let given = std::env::args().nth(2).filter(|word| !word.starts_with("--"));
    let address = given.unwrap_or_else(|| "127.0.0.1".to_owned());
    let listener = std::net::TcpListener::bind((address.as_str(), port)).expect("planted: bind");
    listener.set_nonblocking(true).expect("planted: nonblocking");
    let fd = std::os::fd::IntoRawFd::into_raw_fd(listener);
    // SAFETY: plain system call on a descriptor we own; a longer backlog than std's 128.
    check(unsafe { libc::listen(fd, 4096) });
    fd
}

fn watch(epoll: libc::c_int, fd: libc::c_int) {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd as u64 };
    // SAFETY: `event` outlives the call; both descriptors are ours.
    check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) });
}

/// Responds to every complete request in one read; the engine's requests always fit into one segment.
fn serve(fd: libc::c_int, fault: &Fault, burner: &mut Burner) -> u64 {
    let mut buffer = [0u8; 8192];
    // SAFETY: the buffer is as long as we say and outlives the call.
    let got = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    if got <= 0 {
        // SAFETY: `fd` is a connection of ours, closed once, here.
        unsafe { libc::close(fd) };
        return 0;
    }
    let bytes = &buffer[..got as usize];
    let count = bytes.windows(4).filter(|w| w == b"\r\n\r\n").count() as u64;
    let closing = bytes.windows(17).any(|w| w.eq_ignore_ascii_case(b"connection: close"));
    for _ in 0..count {
        burner.request();
        burn(fault.burn);
        let answer = if closing { CLOSING } else { ANSWER };
        // SAFETY: sends from a constant; a short send would show as an incorrect response in the race.
        unsafe { libc::send(fd, answer.as_ptr().cast(), answer.len(), libc::MSG_NOSIGNAL) };
    }
    if closing {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }
    count
}

fn accept_all(listener: libc::c_int, epoll: libc::c_int) {
    loop {
        // SAFETY: no address is asked for; flags are constants.
        let fd = unsafe { libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_NONBLOCK) };
        if fd < 0 {
            return;
        }
        let one: libc::c_int = 1;
        // SAFETY: the option's value outlives the call.
        unsafe {
            libc::setsockopt(
                fd,
                libc::IPPROTO_TCP,
                libc::TCP_NODELAY,
                (&raw const one).cast(),
                size_of::<libc::c_int>() as u32,
            )
        };
        watch(epoll, fd);
    }
}

fn run(port: u16, fault: &Fault) {
    let listener = listen(port);
    // SAFETY: no pointer is passed.
    let epoll = check(unsafe { libc::epoll_create1(0) });
    watch(epoll, listener);
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
    let mut burner = Burner::new(fault.burn_share);
    let mut pauser = Pauser::new(fault.pause, fault.every);
    let mut served = 0;
    loop {
        // SAFETY: the kernel writes at most `events.len()` entries.
        let ready = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), events.len() as libc::c_int, -1) };
        for event in events.iter().take(ready.max(0) as usize) {
            let fd = event.u64 as libc::c_int;
            if fd == listener {
                accept_all(listener, epoll);
            } else {
                served += serve(fd, fault, &mut burner);
            }
        }
        pauser.pause_if_due(served);
        if fault.die_after > 0 && served >= fault.die_after {
            let (own_ns, burnt_ns) = burner.mean_costs();
            eprintln!(
                "planted: dying after {served} requests, as requested; each cost {own_ns:.0} ns and {burnt_ns:.0} ns burnt"
            );
            std::process::exit(7);
        }
    }
}

fn main() {
    let port = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let port = port
        .expect("usage: planted PORT [--burn SHARE] [--burn-us T] [--pause-ms M --every-ms N] [--die-after REQUESTS]");
    let millis = |name| Duration::from_secs_f64(argument(name).unwrap_or(0.0) / 1000.0);
    let fault = Fault {
        burn_share: argument("--burn").unwrap_or(0.0),
        burn: Duration::from_secs_f64(argument("--burn-us").unwrap_or(0.0) / 1e6),
        pause: millis("--pause-ms"),
        every: millis("--every-ms"),
        die_after: argument("--die-after").unwrap_or(0.0) as u64,
    };
    run(port, &fault);
}
