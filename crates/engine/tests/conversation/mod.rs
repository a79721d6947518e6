//! Invariants for any bytes of an HTTP/2 server: no panic, bounded memory, and the same meaning wherever they are cut,
//! whether repeated responses are decoded or compared. Shared by `frames.rs` and LLVM's fuzzer
//! (`fuzz/fuzz_targets/frames.rs`).

use dragstrip_engine::http2::frame::{self, HEADER_BYTES, Header};
use dragstrip_engine::http2::{Broken, Connection, Event, Request};
use std::sync::OnceLock;

const STREAMS: usize = 3;
/// Memory limit of a connection: a header block, a frame, pending bytes, a request's body in frames, and a reserve.
const MAX_HELD: usize = 10 << 20;

pub fn requests() -> Vec<Request> {
    let wires: [&[u8]; 2] = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n01234567890123456789",
    ];
    wires.iter().map(|wire| Request::new(wire, "http").unwrap()).collect()
}

/// An event without borrowed bytes; pieces of one body are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Head(usize, u16, Option<u64>, bool),
    Data(usize, Vec<u8>, bool),
    Malformed(usize, &'static str),
    Reset(usize, u32),
    GoAway(u32, u32),
    Settings,
    Room,
    Broken(Broken),
}

/// A client with requests in flight on every stream that it may use, and the events that it received.
struct Client {
    connection: Connection,
    told: Vec<Told>,
    sent: Vec<u8>,
    broken: bool,
    /// Whether it compares responses with earlier ones.
    compares: bool,
    /// Earlier responses without their stream numbers, and the lengths that their heads declared.
    had: Vec<(Vec<u8>, Option<u64>)>,
    /// Number of repeated responses that were not decoded.
    repeated: u64,
}

impl Client {
    fn new(requests: &[Request], compares: bool) -> Self {
        let connection = Connection::new(STREAMS, 1000);
        let (told, sent, had) = (Vec::new(), Vec::new(), Vec::new());
        let mut made = Self { connection, told, sent, broken: false, compares, had, repeated: 0 };
        (0..STREAMS).for_each(|slot| made.connection.open(slot, slot as u32 % 2, requests));
        made.send();
        made
    }

    /// Feeds one piece to its end.
    fn feed(&mut self, mut piece: &[u8], requests: &[Request]) {
        let mut began = None;
        while !piece.is_empty() && !self.broken {
            let mut slots = Vec::new();
            if self.compares
                && let Some(repeated) = self.connection.take_repeated(piece, &mut slots)
            {
                let (answers, rest) = piece.split_at(repeated.bytes);
                for (slot, answer) in slots.iter().zip(answers.chunks_exact(answers.len() / slots.len())) {
                    self.note_repeated(*slot, repeated.status, answer);
                    self.connection.open(*slot as usize, slot % 2, requests);
                }
                self.send();
                piece = rest;
                continue;
            }
            let (from, between_frames) = (piece, self.connection.between_frames());
            let (used, event) = match self.connection.next(piece) {
                Ok(next) => next,
                Err(broken) => {
                    self.told.push(Told::Broken(broken));
                    self.broken = true;
                    break;
                }
            };
            assert!(used > 0 && used <= piece.len(), "it must come forward");
            piece = &piece[used..];
            match event {
                Event::Head { slot, length, .. } => began = between_frames.then_some((slot, length, from)),
                Event::Data { slot, end: true, .. } => {
                    if let Some((_, length, from)) = began.take_if(|(began, ..)| *began == slot) {
                        let answer = &from[..from.len() - piece.len()];
                        self.connection.remember(answer, slot as u32 % 2);
                        self.had.push((unnumbered(answer), length));
                    }
                }
                _ => {}
            }
            let over = self.note(event);
            if let Some(slot) = over {
                self.connection.open(slot, slot as u32 % 2, requests);
            }
            if event == Event::Room {
                self.connection.resume(requests);
            }
            self.send();
        }
        self.send();
        assert!(self.connection.held_bytes() <= MAX_HELD);
    }

    /// Sends what is queued: a response can only repeat another one once its request was sent.
    fn send(&mut self) {
        self.sent.extend_from_slice(self.connection.out());
        self.connection.wrote(self.connection.out().len());
    }

    /// Records the events that decoding would have given.
    fn note_repeated(&mut self, slot: u32, status: u16, answer: &[u8]) {
        let slot = slot as usize;
        let same = unnumbered(answer);
        let length = self.had.iter().rev().find(|(had, _)| *had == same).expect("it repeats one that was had").1;
        let body = &answer[2 * HEADER_BYTES + Header::read(answer.first_chunk().unwrap()).length..];
        self.told.extend([Told::Head(slot, status, length, false), Told::Data(slot, body.to_vec(), true)]);
        self.repeated += 1;
    }

    /// A free slot, if one exists.
    fn note(&mut self, event: Event) -> Option<usize> {
        let (told, over) = match event {
            Event::More => return None,
            Event::Head { slot, status, length, end, .. } => {
                (Told::Head(slot, status, length, end), end.then_some(slot))
            }
            Event::Data { slot, bytes, end } => {
                if let Some(Told::Data(same, known, ended @ false)) = self.told.last_mut()
                    && *same == slot
                {
                    known.extend_from_slice(bytes);
                    *ended = end;
                    return end.then_some(slot);
                }
                (Told::Data(slot, bytes.to_vec(), end), end.then_some(slot))
            }
            Event::Malformed { slot, why } => (Told::Malformed(slot, why), Some(slot)),
            Event::Reset { slot, code } => (Told::Reset(slot, code), Some(slot)),
            Event::GoAway { last, code } => (Told::GoAway(last, code), None),
            Event::Settings => (Told::Settings, None),
            Event::Room => (Told::Room, None),
        };
        self.told.push(told);
        over.filter(|slot| self.connection.id(*slot) == 0)
    }
}

/// A complete response without its stream number.
fn unnumbered(answer: &[u8]) -> Vec<u8> {
    let mut bytes = answer.to_vec();
    let second = HEADER_BYTES + Header::read(answer.first_chunk().unwrap()).length;
    for begin in [0, second].into_iter().filter(|begin| begin + HEADER_BYTES <= answer.len()) {
        bytes[begin + 5..begin + HEADER_BYTES].fill(0);
    }
    bytes
}

/// The result of reading bytes: the events, and the bytes to be sent.
pub type Outcome = (Vec<Told>, Vec<u8>);

/// The result of bytes cut at these places; `compare`: repeated responses are compared instead of decoded.
pub fn outcome(bytes: &[u8], cuts: &[usize], requests: &[Request]) -> Outcome {
    let (told, repeated) = read(bytes, cuts, requests, true);
    if repeated > 0 {
        assert_eq!(read(bytes, cuts, requests, false).0, told, "compared, and read");
    }
    told
}

/// The same, and how many responses were not decoded because they repeat others.
pub fn read(bytes: &[u8], cuts: &[usize], requests: &[Request], compares: bool) -> (Outcome, u64) {
    let mut client = Client::new(requests, compares);
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        if to > from && to <= bytes.len() {
            client.feed(&bytes[from..to], requests);
            from = to;
        }
    }
    ((client.told, client.sent), client.repeated)
}

/// One input of the fuzzer: where to cut (a share of 255), whether a SETTINGS frame comes first and whether to read
/// byte by byte as well (bits 0 and 1), then the server's bytes.
pub fn check(input: &[u8]) {
    static REQUESTS: OnceLock<Vec<Request>> = OnceLock::new();
    let [cut, how, rest @ ..] = input else { return };
    let requests = REQUESTS.get_or_init(requests);
    let mut bytes = Vec::new();
    if how & 1 != 0 {
        frame::write_settings(&mut bytes, &[]);
    }
    bytes.extend_from_slice(rest);
    let whole = outcome(&bytes, &[], requests);
    assert_eq!(outcome(&bytes, &[bytes.len() * usize::from(*cut) / 255], requests), whole);
    if how & 2 != 0 {
        let every: Vec<usize> = (1..bytes.len()).collect();
        assert_eq!(outcome(&bytes, &every, requests), whole, "byte by byte");
    }
}
