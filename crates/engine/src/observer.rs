//! The server's CPU time if generator and server are on two machines: read on the server's machine, requested by
//! datagram.
//!
//! An [`Observer`] runs on the server's machine, a [`Marker`] in each generator. A generator sends a sync message
//! before each block and one after it, outside the counted part, and continues when it has the reply. The observer
//! reads the server's files once, as soon as all generators have sent theirs: at this time no generator loads the
//! server. So each block's cost is measured from idle to idle, whichever generator was last, and all replies have the
//! same reading.
//!
//! The reply before a block also says when the block begins, by the observer's clock. Each generator knows the offset
//! between its own clock and that one, from the exchange with the shortest delay, as in NTP (Mills 1991). A generator
//! asks again if a reply does not come; without any reply the block has no reading.

use crate::cpu_accounting::{ServerFiles, ServerUse, Steal};
use crate::error::EngineError;
use crate::sys;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A secret that both sides get from the program that starts them, so that no other program can ask.
pub type Token = [u8; 16];

/// The first bytes of a question and of a reply; the last one is the version.
const ASKS: [u8; 4] = *b"DSQ1";
const TELLS: [u8; 4] = *b"DSA1";
const QUESTION_BYTES: usize = 64;
const ANSWER_BYTES: usize = 96;

/// Interval at which the stop flag is checked.
const LOOK: Duration = Duration::from_millis(100);
/// Time after which a reply is requested again: far longer than any round trip that blocks of milliseconds can bear.
const AGAIN: Duration = Duration::from_millis(20);
/// Longest wait for a reply: with one generator, and if other generators may also wait for late replies.
const ALONE_NS: u64 = 1_000_000_000;
const TOGETHER_NS: u64 = 8_000_000_000;
/// A worker stops sleeping this long before a common begin, to be in time.
const SPIN_NS: u64 = 200_000;
/// Maximum number of generators of one race.
const MAX_GENERATORS: u8 = 64;

/// The purpose of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Clock = 1,
    Ready = 2,
    Done = 3,
}

/// A generator's datagram. `run` and `block` only increase; `ahead_ns`: how much later the block is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question {
    kind: Kind,
    generator: u8,
    generators: u8,
    token: Token,
    run: u64,
    block: u32,
    server: u32,
    sent_ns: u64,
    ahead_ns: u64,
}

/// The observer's datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    kind: Kind,
    token: Token,
    run: u64,
    block: u32,
    /// Copied from the question, for the round trip.
    sent_ns: u64,
    received_ns: u64,
    begin_ns: u64,
    reading: Reading,
}

/// The server's CPU use so far, and the steal on its cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Use of the server's processes.
    pub server: ServerUse,
    /// Steal on the cores that the observer was given.
    pub steal_ns: u64,
}

/// A number in a datagram; the largest value means "unknown".
fn word(value: Option<u64>) -> [u8; 8] {
    value.unwrap_or(u64::MAX).to_le_bytes()
}

/// Reads a datagram from its beginning.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn known(&mut self) -> Option<Option<u64>> {
        self.number().map(|number| (number != u64::MAX).then_some(number))
    }

    fn kind(&mut self) -> Option<Kind> {
        let [kind] = self.take()?;
        [Kind::Clock, Kind::Ready, Kind::Done].into_iter().find(|known| *known as u8 == kind)
    }
}

impl Question {
    fn bytes(&self) -> [u8; QUESTION_BYTES] {
        let mut made = Vec::with_capacity(QUESTION_BYTES);
        made.extend(ASKS);
        made.extend([self.kind as u8, self.generator, self.generators, 0]);
        made.extend(self.token);
        made.extend(self.run.to_le_bytes());
        made.extend(self.block.to_le_bytes());
        made.extend(self.server.to_le_bytes());
        made.extend(self.sent_ns.to_le_bytes());
        made.extend(self.ahead_ns.to_le_bytes());
        padded(&made)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if bytes.len() != QUESTION_BYTES || reader.take()? != ASKS {
            return None;
        }
        let kind = reader.kind()?;
        let [generator, generators, _] = reader.take()?;
        let made = Self {
            kind,
            generator,
            generators,
            token: reader.take()?,
            run: reader.number()?,
            block: reader.take().map(u32::from_le_bytes)?,
            server: reader.take().map(u32::from_le_bytes)?,
            sent_ns: reader.number()?,
            ahead_ns: reader.number()?,
        };
        (generator < generators && generators <= MAX_GENERATORS).then_some(made)
    }
}

impl Answer {
    fn bytes(&self) -> [u8; ANSWER_BYTES] {
        let mut made = Vec::with_capacity(ANSWER_BYTES);
        made.extend(TELLS);
        made.extend([self.kind as u8, 0, 0, 0]);
        made.extend(self.token);
        made.extend(self.run.to_le_bytes());
        made.extend(self.block.to_le_bytes());
        made.extend([0; 4]);
        for number in [self.sent_ns, self.received_ns, self.begin_ns, self.reading.steal_ns] {
            made.extend(number.to_le_bytes());
        }
        let ServerUse { cpu_ns, wait_ns, runs } = self.reading.server;
        for number in [cpu_ns, wait_ns, runs] {
            made.extend(word(number));
        }
        padded(&made)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if bytes.len() != ANSWER_BYTES || reader.take()? != TELLS {
            return None;
        }
        let kind = reader.kind()?;
        let [_, _, _] = reader.take()?;
        let (token, run) = (reader.take()?, reader.number()?);
        let block = reader.take().map(u32::from_le_bytes)?;
        let [_, _, _, _] = reader.take()?;
        let (sent_ns, received_ns) = (reader.number()?, reader.number()?);
        let (begin_ns, steal_ns) = (reader.number()?, reader.number()?);
        let server = ServerUse { cpu_ns: reader.known()?, wait_ns: reader.known()?, runs: reader.known()? };
        Some(Self { kind, token, run, block, sent_ns, received_ns, begin_ns, reading: Reading { server, steal_ns } })
    }
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut made = [0; N];
    made[..bytes.len()].copy_from_slice(bytes);
    made
}

/// Replies to sync messages on the server's machine until it is dropped. It has its own thread, which sleeps between
/// them.
pub struct Observer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// When a sync message was last received, by this machine's clock; 0: never.
    heard_ns: AtomicU64,
    servers: Mutex<HashMap<u32, ServerFiles>>,
}

impl Observer {
    /// Listens on this address of this machine, at the given port or, for 0, at one that the kernel chooses.
    ///
    /// # Errors
    /// [`EngineError::System`]: the address is not this machine's, the port is in use, or no thread could be started.
    pub fn start(at: SocketAddr, token: Token, steal_cores: &[usize]) -> Result<Self, EngineError> {
        let refused = |source| EngineError::System { what: "the observer's socket", source };
        let socket = UdpSocket::bind(at).map_err(refused)?;
        socket.set_read_timeout(Some(LOOK)).map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        let shared = Arc::new(Shared::default());
        let (thread_shared, steal) = (Arc::clone(&shared), Steal::open(steal_cores));
        let thread = std::thread::Builder::new()
            .name("observer".into())
            .spawn(move || {
                sys::sharp_timers();
                Answering { socket, token, shared: thread_shared, steal, meeting: None }.serve();
            })
            .map_err(refused)?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads a server's files under this number from now on, instead of earlier ones.
    ///
    /// # Errors
    /// [`EngineError::Watch`].
    pub fn watch(
        &self,
        server: u32,
        cgroup: Option<&str>,
        processes: &[i32],
        schedstats: &[&str],
    ) -> Result<(), EngineError> {
        let files = ServerFiles::open(cgroup, processes, schedstats)?;
        self.shared.servers.lock().unwrap_or_else(PoisonError::into_inner).insert(server, files);
        Ok(())
    }

    /// Closes a server's files.
    pub fn forget(&self, server: u32) {
        self.shared.servers.lock().unwrap_or_else(PoisonError::into_inner).remove(&server);
    }

    /// When a sync message of a generator was last received, CLOCK_MONOTONIC; 0: never.
    pub fn heard_ns(&self) -> u64 {
        self.shared.heard_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The generators that have sent their sync message for one moment, and the reply once all have.
struct Meeting {
    run: u64,
    block: u32,
    kind: Kind,
    ahead_ns: u64,
    come: Vec<Option<(SocketAddr, u64, u64)>>,
    told: Option<(u64, Reading)>,
}

impl Meeting {
    fn place(&self) -> (u64, u32, Kind) {
        (self.run, self.block, self.kind)
    }
}

/// The state of the observer's thread. Its memory does not grow: one moment, and the files to read.
struct Answering {
    socket: UdpSocket,
    token: Token,
    shared: Arc<Shared>,
    steal: Option<Steal>,
    meeting: Option<Meeting>,
}

impl Answering {
    fn serve(mut self) {
        let mut bytes = [0; QUESTION_BYTES + 1];
        while !self.shared.stop.load(Ordering::Relaxed) {
            let Ok((length, from)) = self.socket.recv_from(&mut bytes) else {
                continue; // nothing came, or a peer that is gone was told of by ICMP
            };
            let received_ns = sys::now_ns();
            if let Some(asked) = Question::read(&bytes[..length]).filter(|asked| same(&asked.token, &self.token)) {
                self.shared.heard_ns.store(received_ns, Ordering::Relaxed);
                self.answer(&asked, from, received_ns);
            }
        }
    }

    fn answer(&mut self, asked: &Question, from: SocketAddr, received_ns: u64) {
        if asked.kind == Kind::Clock {
            self.tell(asked.run, asked.block, asked.kind, (from, asked.sent_ns, received_ns), 0, Reading::default());
            return;
        }
        let place = (asked.run, asked.block, asked.kind);
        let count = usize::from(asked.generators);
        let mut meeting = match self.meeting.take() {
            Some(meeting) if meeting.place() == place && meeting.come.len() == count => meeting,
            // A late copy of an earlier sync message: its sender has continued.
            Some(meeting) if meeting.place() > place => {
                self.meeting = Some(meeting);
                return;
            }
            _ => Meeting {
                run: asked.run,
                block: asked.block,
                kind: asked.kind,
                ahead_ns: 0,
                come: vec![None; count],
                told: None,
            },
        };
        let one = (from, asked.sent_ns, received_ns);
        meeting.come[usize::from(asked.generator)] = Some(one);
        meeting.ahead_ns = meeting.ahead_ns.max(asked.ahead_ns);
        if let Some((begin_ns, reading)) = meeting.told {
            self.tell(asked.run, asked.block, asked.kind, one, begin_ns, reading);
        } else if meeting.come.iter().all(Option::is_some) {
            let reading = self.read(asked.server);
            let begin_ns = sys::now_ns() + meeting.ahead_ns;
            meeting.told = Some((begin_ns, reading));
            for one in meeting.come.iter().flatten() {
                self.tell(asked.run, asked.block, asked.kind, *one, begin_ns, reading);
            }
        }
        self.meeting = Some(meeting);
    }

    fn read(&mut self, server: u32) -> Reading {
        let servers = self.shared.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let server = servers.get(&server).map_or(ServerUse::default(), ServerFiles::read);
        Reading { server, steal_ns: self.steal.as_mut().map_or(0, Steal::read_ns) }
    }

    fn tell(
        &self,
        run: u64,
        block: u32,
        kind: Kind,
        (to, sent_ns, received_ns): (SocketAddr, u64, u64),
        begin_ns: u64,
        reading: Reading,
    ) {
        let answer = Answer { kind, token: self.token, run, block, sent_ns, received_ns, begin_ns, reading };
        let _ = self.socket.send_to(&answer.bytes(), to); // a lost one is asked for again
    }
}

/// Whether two tokens are equal; the time taken does not depend on where they differ.
fn same(one: &Token, other: &Token) -> bool {
    one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// One exchange with the observer: the offset of its clock, and the duration of the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// The observer's clock minus this one, ns; the error is at most half the round trip.
    pub offset_ns: i64,
    /// Duration of the round trip, ns.
    pub round_trip_ns: u64,
}

/// A generator's side: sends sync messages, and waits for the replies.
#[derive(Debug)]
pub struct Marker {
    socket: UdpSocket,
    token: Token,
    generator: u8,
    generators: u8,
    ahead_ns: u64,
    run: AtomicU64,
    offset_ns: AtomicI64,
}

impl Marker {
    /// Number `generator`, from 0, of `generators`; `ahead_ns`: how long after the last sync message a block begins.
    ///
    /// # Errors
    /// [`EngineError::Plan`], [`EngineError::System`].
    pub fn open(
        observer: SocketAddr,
        token: Token,
        (generator, generators): (u8, u8),
        ahead_ns: u64,
    ) -> Result<Self, EngineError> {
        if generator >= generators || generators > MAX_GENERATORS {
            let problem = format!("number {generator} of {generators} given");
            return Err(EngineError::Plan { field: "generators", problem, remedy: "give 1 to 64, numbered from 0" });
        }
        let refused = |source| EngineError::System { what: "a mark's socket", source };
        let unspecified = if observer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(unspecified).map_err(refused)?;
        socket.connect(observer).map_err(refused)?;
        socket.set_read_timeout(Some(AGAIN)).map_err(refused)?;
        let (run, offset_ns) = (AtomicU64::new(0), AtomicI64::new(0));
        Ok(Self { socket, token, generator, generators, ahead_ns, run, offset_ns })
    }

    /// Sets the number of the next run. Run numbers increase, and are the same for all generators.
    pub fn begin(&self, run: u64) {
        self.run.store(run, Ordering::Relaxed);
    }

    /// Makes this many exchanges and keeps the one with the shortest round trip: blocks begin by it from now on. None:
    /// no reply.
    pub fn clock(&self, exchanges: u32) -> Option<ClockOffset> {
        let mut best: Option<ClockOffset> = None;
        for number in 0..exchanges {
            let Some((answer, came_ns)) = self.ask(Kind::Clock, number, 0, sys::now_ns() + 10 * ALONE_NS / 100) else {
                continue;
            };
            let round_trip_ns = came_ns.saturating_sub(answer.sent_ns);
            if best.is_none_or(|best| round_trip_ns < best.round_trip_ns) {
                let there = i128::from(answer.received_ns);
                let twice = 2 * there - i128::from(answer.sent_ns) - i128::from(came_ns);
                best = Some(ClockOffset { offset_ns: (twice / 2) as i64, round_trip_ns });
            }
        }
        if let Some(best) = best {
            self.offset_ns.store(best.offset_ns, Ordering::Relaxed);
        }
        best
    }

    /// Reports that this generator is idle before a block; returns the reading, and when the block begins by this
    /// machine's clock.
    pub fn ready(&self, block: usize, server: u32) -> Option<(Reading, u64)> {
        let answer = self.mark(Kind::Ready, block, server)?;
        let offset_ns = self.offset_ns.load(Ordering::Relaxed);
        Some((answer.reading, answer.begin_ns.wrapping_add_signed(offset_ns.wrapping_neg())))
    }

    /// Reports that this generator is idle after a block.
    pub fn done(&self, block: usize, server: u32) -> Option<Reading> {
        Some(self.mark(Kind::Done, block, server)?.reading)
    }

    /// Whether blocks begin at a common time; a single generator begins at once.
    pub fn together(&self) -> bool {
        self.generators > 1
    }

    fn mark(&self, kind: Kind, block: usize, server: u32) -> Option<Answer> {
        let most_ns = if self.together() { TOGETHER_NS } else { ALONE_NS };
        Some(self.ask(kind, block as u32, server, sys::now_ns() + most_ns)?.0)
    }

    /// The reply and when it came; None: none until then.
    fn ask(&self, kind: Kind, block: u32, server: u32, until_ns: u64) -> Option<(Answer, u64)> {
        let run = self.run.load(Ordering::Relaxed);
        let mut bytes = [0; ANSWER_BYTES + 1];
        while sys::now_ns() < until_ns {
            let asked = Question {
                kind,
                generator: self.generator,
                generators: self.generators,
                token: self.token,
                run,
                block,
                server,
                sent_ns: sys::now_ns(),
                ahead_ns: self.ahead_ns,
            };
            if self.socket.send(&asked.bytes()).is_err() {
                std::thread::sleep(AGAIN); // the machine there is gone, or its observer
                continue;
            }
            loop {
                let length = match self.socket.recv(&mut bytes) {
                    Ok(length) => length,
                    Err(error) => {
                        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                            std::thread::sleep(AGAIN);
                        }
                        break; // asked again
                    }
                };
                let came_ns = sys::now_ns();
                let ours = Answer::read(&bytes[..length]).filter(|answer| {
                    same(&answer.token, &self.token)
                        && (answer.kind, answer.run, answer.block) == (kind, run, block)
                        && (kind != Kind::Clock || answer.sent_ns == asked.sent_ns)
                });
                if let Some(answer) = ours {
                    return Some((answer, came_ns));
                }
            }
        }
        None
    }
}

/// Waits until this time of the local clock: asleep at first, awake at the end.
pub fn wait_until(begin_ns: u64) {
    loop {
        let left_ns = begin_ns.saturating_sub(sys::now_ns());
        match left_ns {
            0 => return,
            1..=SPIN_NS => std::hint::spin_loop(),
            // Never longer than the longest wait for a reply, whatever a clock says.
            _ => std::thread::sleep(Duration::from_nanos((left_ns - SPIN_NS).min(TOGETHER_NS))),
        }
        if left_ns > TOGETHER_NS {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const TOKEN: Token = *b"sixteen bytes ok";

    fn observer() -> Observer {
        Observer::start((Ipv4Addr::LOCALHOST, 0).into(), TOKEN, &[0]).unwrap()
    }

    fn marker(observer: &Observer, which: (u8, u8)) -> Marker {
        Marker::open(observer.address(), TOKEN, which, 2_000_000).unwrap()
    }

    fn stat(name: &str, usage_us: u64) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("dragstrip-observer-{}-{name}", std::process::id()));
        std::fs::write(&path, format!("usage_usec {usage_us}\n")).unwrap();
        path
    }

    #[test]
    fn datagrams_are_read_as_they_were_written_and_nothing_else_is_read() {
        let asked = Question {
            kind: Kind::Ready,
            generator: 1,
            generators: 3,
            token: TOKEN,
            run: u64::MAX - 1,
            block: 7,
            server: 9,
            sent_ns: 11,
            ahead_ns: 13,
        };
        assert_eq!(Question::read(&asked.bytes()), Some(asked));
        let server = ServerUse { cpu_ns: Some(5), wait_ns: None, runs: Some(0) };
        let reply = Answer {
            kind: Kind::Done,
            token: TOKEN,
            run: 3,
            block: 4,
            sent_ns: 5,
            received_ns: 6,
            begin_ns: 7,
            reading: Reading { server, steal_ns: 8 },
        };
        assert_eq!(Answer::read(&reply.bytes()), Some(reply));
        for length in 0..QUESTION_BYTES {
            assert_eq!(Question::read(&asked.bytes()[..length]), None);
        }
        assert_eq!(Question::read(&[0xff; QUESTION_BYTES]), None);
        assert_eq!(Question::read(&Question { generator: 3, ..asked }.bytes()), None);
        assert_eq!(Answer::read(&[0xff; ANSWER_BYTES]), None);
    }

    #[test]
    fn a_sync_message_gives_the_servers_cpu_time_at_that_moment() {
        let (observer, path) = (observer(), stat("alone", 10));
        observer.watch(4, path.to_str(), &[], &[]).unwrap();
        let marker = marker(&observer, (0, 1));
        marker.begin(1);
        let (before, _) = marker.ready(0, 4).unwrap();
        std::fs::write(&path, "usage_usec 35\n").unwrap();
        let after = marker.done(0, 4).unwrap();
        assert_eq!(after.server.since(before.server).cpu_ns, Some(25_000));
        assert!(observer.heard_ns() > 0);
        observer.forget(4);
        assert_eq!(marker.ready(1, 4).unwrap().0.server, ServerUse::default());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn several_generators_get_one_reading_and_one_begin_once_all_are_idle() {
        let observer = observer();
        let replies: Vec<_> = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..3)
                .map(|which| {
                    let marker = marker(&observer, (which, 3));
                    scope.spawn(move || {
                        marker.begin(5);
                        marker.clock(20).unwrap();
                        std::thread::sleep(Duration::from_millis(40 * u64::from(which)));
                        let marked_ns = sys::now_ns();
                        (marked_ns, marker.ready(0, 1).unwrap())
                    })
                })
                .collect();
            asking.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let last_ns = replies.iter().map(|(marked_ns, _)| *marked_ns).max().unwrap();
        let begins: Vec<u64> = replies.iter().map(|(_, (_, begin_ns))| *begin_ns).collect();
        assert!(begins.iter().all(|begin_ns| *begin_ns >= last_ns), "{begins:?} before {last_ns}");
        assert!(begins.iter().max().unwrap() - begins.iter().min().unwrap() < 50_000_000, "{begins:?}");
        assert!(replies.iter().all(|(_, (reading, _))| *reading == replies[0].1.0));
    }

    #[test]
    fn a_client_without_the_token_gets_no_reply_and_a_missing_reply_is_reported() {
        let observer = observer();
        let stranger = Marker::open(observer.address(), [0; 16], (0, 1), 0).unwrap();
        assert!(stranger.clock(2).is_none());
        assert_eq!(observer.heard_ns(), 0);
        let gone = observer.address();
        drop(observer);
        let marker = Marker::open(gone, TOKEN, (0, 1), 0).unwrap();
        assert!(marker.ready(0, 0).is_none());
        assert!(Marker::open(gone, TOKEN, (1, 1), 0).is_err());
    }

    #[test]
    fn the_clocks_offset_is_within_half_a_round_trip() {
        let observer = observer();
        let offset = marker(&observer, (0, 1)).clock(100).unwrap();
        // Both clocks are this machine's.
        assert!(offset.offset_ns.unsigned_abs() <= offset.round_trip_ns / 2 + 1, "{offset:?}");
    }
}
