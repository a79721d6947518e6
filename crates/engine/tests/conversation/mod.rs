//! What must hold of any bytes that a server of HTTP/2 may send: no panic, bounded memory, and the same meaning wherever
//! they are cut. Shared by `frames.rs` and LLVM's fuzzer (`fuzz/fuzz_targets/frames.rs`).

use dragstrip_engine::http2::frame;
use dragstrip_engine::http2::{Broken, Connection, Event, Request};
use std::sync::OnceLock;

const STREAMS: usize = 3;
/// What a connection may hold at most: a header block, a frame, what it owes, a request's body in frames, and spare room.
const MOST_HELD: usize = 10 << 20;

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

/// A client that has requests under way on every stream that it may, and what it was told.
struct Client {
    connection: Connection,
    told: Vec<Told>,
    sent: Vec<u8>,
    broken: bool,
}

impl Client {
    fn new(requests: &[Request]) -> Self {
        let mut made =
            Self { connection: Connection::new(STREAMS, 1000), told: Vec::new(), sent: Vec::new(), broken: false };
        (0..STREAMS).for_each(|slot| made.connection.open(slot, slot as u32 % 2, requests));
        made
    }

    /// Feeds one piece to its end.
    fn feed(&mut self, mut piece: &[u8], requests: &[Request]) {
        while !piece.is_empty() && !self.broken {
            let (used, event) = match self.connection.next(piece) {
                Ok(next) => next,
                Err(broken) => {
                    self.told.push(Told::Broken(broken));
                    self.broken = true;
                    break;
                }
            };
            assert!(used > 0 && used <= piece.len(), "it must come forward");
            let over = self.note(event);
            piece = &piece[used..];
            if let Some(slot) = over {
                self.connection.open(slot, slot as u32 % 2, requests);
            }
            if event == Event::Room {
                self.connection.resume(requests);
            }
        }
        self.sent.extend_from_slice(self.connection.out());
        self.connection.wrote(self.connection.out().len());
        assert!(self.connection.held_bytes() <= MOST_HELD);
    }

    /// The slot that is free now, if one is.
    fn note(&mut self, event: Event) -> Option<usize> {
        let (told, over) = match event {
            Event::More => return None,
            Event::Head { slot, status, length, end } => (Told::Head(slot, status, length, end), end.then_some(slot)),
            Event::Answer { slot, status, length, bytes } => {
                self.told.push(Told::Head(slot, status, length, false));
                (Told::Data(slot, bytes.to_vec(), true), Some(slot))
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

/// What comes of bytes cut at these places.
pub fn outcome(bytes: &[u8], cuts: &[usize], requests: &[Request]) -> (Vec<Told>, Vec<u8>) {
    let mut client = Client::new(requests);
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        if to > from && to <= bytes.len() {
            client.feed(&bytes[from..to], requests);
            from = to;
        }
    }
    (client.told, client.sent)
}

/// One input of the fuzzer: where to cut (a share of 255), whether a SETTINGS frame goes before and whether it is read byte
/// by byte, too (bits 0 and 1), then what the server sends.
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
