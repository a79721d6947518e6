//! One connection: its streams, its windows, its settings.

mod control;
mod framing;
mod heads;
mod repeated;

use super::HEAD_LIMIT;
use super::frame::{self, DEFAULT_WINDOW, Header, MAX_FRAME, MOST, code, flag, kind, setting};
use super::hpack;
use super::request::Request;
use super::section::Sections;
use crate::heads::ExpectedHeads;
use repeated::Models;
pub use repeated::Repeated;

/// Most streams at a time.
pub const MAX_STREAMS: usize = 1024;
/// Streams that one connection can ever have (RFC 9113, 5.1.1: odd numbers of 31 bits). Then another one is opened.
pub const MAX_REQUESTS: u32 = MOST / 2 + 1;
/// A request's body is cut into frames as far as so much waits to be sent.
const BODY_ROOM: usize = 256 * 1024;

/// The server broke the protocol: the connection is of no more use (RFC 9113, 5.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What it is told, in a GOAWAY frame that [`Connection::out`] has.
    pub code: u32,
    /// For the report.
    pub why: &'static str,
}

/// What some bytes meant. A *slot* is a stream's place, below the number given at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing that anybody waits for.
    More,
    /// An answer's status and declared length; with `end` that is all of it.
    Head {
        /// Whose.
        slot: usize,
        /// 200 to 999.
        status: u16,
        /// A bit for each kind of request: the head is not as those of its reference responses.
        deviates: u64,
        /// As declared.
        length: Option<u64>,
        /// The stream is over.
        end: bool,
    },
    /// A piece of its body.
    Data {
        /// Whose.
        slot: usize,
        /// Padding taken off; may be empty.
        bytes: &'a [u8],
        /// The stream is over.
        end: bool,
    },
    /// Its answer is malformed (RFC 9113, 8.1.1); the stream has been reset.
    Malformed {
        /// Whose.
        slot: usize,
        /// For the report.
        why: &'static str,
    },
    /// The server reset it.
    Reset {
        /// Whose.
        slot: usize,
        /// See [`frame::code_name`].
        code: u32,
    },
    /// The server takes no new streams, and has not looked at those above this number.
    GoAway {
        /// 0: it has looked at none.
        last: u32,
        /// See [`frame::code_name`].
        code: u32,
    },
    /// It has said what it allows; so it does speak HTTP/2. See [`Connection::most`].
    Settings,
    /// There is more room for bodies; see [`Connection::resume`].
    Room,
}

/// A request and its answer under way.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Of its stream; 0: there is none, and the rest means nothing.
    id: u32,
    /// Which request.
    request: u32,
    /// How much of its body was put into frames.
    sent: usize,
    /// How much more may be.
    window: i64,
    /// The body is in frames, or there is none.
    whole: bool,
    /// The final head has come.
    head: bool,
    interims: u32,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Expects {
    Header,
    /// A frame that is looked at whole.
    Payload(Header),
    /// The byte that says how much of a DATA frame is padding.
    PadLength(Header),
    /// The rest of a DATA frame, then its padding.
    Data {
        id: u32,
        left: usize,
        pad: usize,
        end: bool,
    },
    /// The rest of a frame that nobody needs.
    Skip {
        left: usize,
    },
}

/// A header block that came in pieces so far.
#[derive(Debug)]
struct Block {
    id: u32,
    end: bool,
    frames: u32,
    bytes: Vec<u8>,
}

/// The client's side of one connection.
#[derive(Debug)]
pub struct Connection {
    slots: Box<[Slot]>,
    /// By a stream's number: the slot that it may be in.
    hints: Box<[u16]>,
    next_id: u32,
    /// Streams that may still be opened.
    left: u32,
    active: usize,
    /// Streams whose request's body is not in frames yet.
    unfinished: usize,
    /// The server's word on streams at a time.
    allowed: usize,
    /// Its first SETTINGS have come.
    settled: bool,
    initial_window: i64,
    window: i64,
    max_frame: usize,
    /// HEADER_TABLE_SIZE as the server last said; a smaller one than before is answered with the next request.
    table_size: u32,
    table_word_due: bool,
    /// Bytes of bodies since the server was last told that it may go on.
    received: u64,
    expects: Expects,
    /// A frame's header, or payload, as far as it has come.
    stash: Vec<u8>,
    block: Option<Block>,
    sections: Sections,
    models: Models,
    out: Vec<u8>,
    /// What of it is sent.
    out_from: usize,
    /// Answers to PING and SETTINGS in it.
    owed: usize,
}

impl Connection {
    /// With room for so many streams at a time, at most [`MAX_STREAMS`]; after `left` requests, at most [`MAX_REQUESTS`],
    /// it takes no more. What goes first waits in [`Connection::out`]: the preface, settings, and a large window.
    pub fn new(streams: usize, left: u32) -> Self {
        let streams = streams.clamp(1, MAX_STREAMS);
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(frame::PREFACE);
        let limit = HEAD_LIMIT as u32;
        let settings =
            [(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, MOST), (setting::MAX_HEADER_LIST_SIZE, limit)];
        frame::write_settings(&mut out, &settings);
        frame::write(&mut out, kind::WINDOW_UPDATE, 0, 0, &(MOST - DEFAULT_WINDOW).to_be_bytes());
        Self {
            slots: vec![Slot::default(); streams].into(),
            hints: vec![0; (2 * streams).next_power_of_two()].into(),
            next_id: 1,
            left: left.min(MAX_REQUESTS),
            active: 0,
            unfinished: 0,
            allowed: streams,
            settled: false,
            initial_window: i64::from(DEFAULT_WINDOW),
            window: i64::from(DEFAULT_WINDOW),
            max_frame: MAX_FRAME,
            table_size: hpack::TABLE_BYTES as u32,
            table_word_due: false,
            received: 0,
            expects: Expects::Header,
            stash: Vec::new(),
            block: None,
            sections: Sections::default(),
            models: Models::default(),
            out,
            out_from: 0,
            owed: 0,
        }
    }

    /// The same, with what the heads of right answers look like, by the kind of request.
    pub fn expecting(mut self, heads: &[ExpectedHeads]) -> Self {
        self.sections.expect(heads);
        self
    }

    /// In what the latest head deviates that did.
    pub fn deviation(&self) -> &str {
        self.sections.deviation()
    }

    /// Streams at a time that both sides allow: slots below this number may be used.
    #[inline]
    pub fn most(&self) -> usize {
        self.allowed.min(self.slots.len())
    }

    /// Streams under way.
    #[inline]
    pub fn active(&self) -> usize {
        self.active
    }

    /// Requests that it may still carry.
    #[inline]
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Whether the server's settings have come.
    pub fn settled(&self) -> bool {
        self.settled
    }

    /// The stream in a slot, 0 for none.
    #[inline]
    pub fn id(&self, slot: usize) -> u32 {
        self.slots[slot].id
    }

    /// What is to be sent.
    #[inline]
    pub fn out(&self) -> &[u8] {
        &self.out[self.out_from..]
    }

    /// Whether what comes next is a frame's first byte, and within no header block.
    #[inline]
    pub fn between_frames(&self) -> bool {
        matches!(self.expects, Expects::Header) && self.stash.is_empty() && self.block.is_none()
    }

    /// So much of it was sent.
    #[inline]
    pub fn wrote(&mut self, bytes: usize) {
        self.out_from += bytes;
        if self.out_from >= self.out.len() {
            self.out.clear();
            (self.out_from, self.owed) = (0, 0);
            if self.out.capacity() > BODY_ROOM {
                self.out = Vec::new(); // large bodies must not hold memory on 10,000 connections
            }
        } else if self.out_from > BODY_ROOM / 2 {
            self.out.drain(..self.out_from);
            self.out_from = 0;
        }
        self.owed = self.owed.min(self.out.len() - self.out_from);
    }

    /// Bytes held besides what is fixed at the start.
    pub fn held_bytes(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| block.bytes.capacity());
        self.out.capacity() + self.stash.capacity() + block + self.sections.held_bytes() + self.models.held_bytes()
    }

    /// Sends a request over a new stream in a slot that has none, as far as the server's windows let its body go.
    #[inline]
    pub fn open(&mut self, slot: usize, request: u32, requests: &[Request]) {
        let (id, asked) = (self.next_id, &requests[request as usize]);
        self.next_id = self.next_id.wrapping_add(2);
        self.left = self.left.saturating_sub(1);
        self.active += 1;
        let whole = asked.body.is_empty();
        let window = self.initial_window;
        self.slots[slot] = Slot { id, request, whole, window, ..Slot::default() };
        let hint = self.hint(id);
        self.hints[hint] = slot as u16;
        let at = self.out.len();
        if self.table_word_due {
            self.open_with_word(id, asked);
        } else {
            self.out.extend_from_slice(&asked.head);
            for number in &asked.numbers {
                self.out[at + number..][..4].copy_from_slice(&id.to_be_bytes());
            }
        }
        if !whole {
            self.unfinished += 1;
            self.pump(slot, requests);
        }
    }

    /// The same with the word in front that there is no table (RFC 7541, 4.2).
    #[cold]
    fn open_with_word(&mut self, id: u32, asked: &Request) {
        self.table_word_due = false;
        let mut block = Vec::with_capacity(asked.block.len() + 1);
        hpack::write_no_table(&mut block);
        block.extend_from_slice(&asked.block);
        frame::write_block(&mut self.out, &block, asked.body.is_empty(), id);
    }

    /// Goes on with bodies that had to wait for the server's windows, or for room in what is to be sent.
    pub fn resume(&mut self, requests: &[Request]) {
        for slot in 0..self.slots.len() {
            if self.unfinished == 0 {
                return;
            }
            if self.slots[slot].id != 0 && !self.slots[slot].whole {
                self.pump(slot, requests);
            }
        }
    }

    /// Whether a body is not in frames yet.
    #[inline]
    pub fn unfinished(&self) -> bool {
        self.unfinished > 0
    }

    fn pump(&mut self, slot: usize, requests: &[Request]) {
        let Slot { id, request, .. } = self.slots[slot];
        let body = &requests[request as usize].body;
        while self.out.len() - self.out_from < BODY_ROOM {
            let one = &mut self.slots[slot];
            let room = one.window.min(self.window).clamp(0, self.max_frame as i64) as usize;
            let length = room.min(body.len() - one.sent);
            if length == 0 {
                return;
            }
            let piece = &body[one.sent..one.sent + length];
            one.sent += length;
            one.window -= length as i64;
            self.window -= length as i64;
            one.whole = one.sent == body.len();
            let flags = if one.whole { flag::END_STREAM } else { 0 };
            frame::write(&mut self.out, kind::DATA, flags, id, piece);
            if self.slots[slot].whole {
                self.unfinished -= 1;
                return;
            }
        }
    }

    /// Ends a stream before its answer has.
    pub fn cancel(&mut self, slot: usize, code: u32) {
        let id = self.slots[slot].id;
        if id != 0 {
            frame::write(&mut self.out, kind::RST_STREAM, 0, id, &code.to_be_bytes());
            self.forget(slot);
        }
    }

    /// Frees a slot; the server is told nothing.
    pub fn forget(&mut self, slot: usize) {
        let one = &mut self.slots[slot];
        if one.id != 0 {
            self.active -= 1;
            self.unfinished -= usize::from(!one.whole);
            one.id = 0;
        }
    }

    /// Says that this side ends the connection (RFC 9113, 6.8).
    pub fn go_away(&mut self, code: u32) {
        let payload = u64::from(code).to_be_bytes(); // no stream of the server's was looked at
        frame::write(&mut self.out, kind::GOAWAY, 0, 0, &payload);
    }

    #[inline]
    fn hint(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.hints.len() - 1)
    }

    #[inline]
    fn slot_of(&self, id: u32) -> Option<usize> {
        let hinted = usize::from(self.hints[self.hint(id)]);
        if self.slots[hinted].id == id {
            return Some(hinted);
        }
        self.slots.iter().position(|slot| slot.id == id)
    }

    /// The answer is complete. What of the request is not sent is not wanted any more.
    #[inline]
    fn over(&mut self, slot: usize) {
        if self.slots[slot].whole {
            self.forget(slot);
        } else {
            self.cancel(slot, code::NO_ERROR);
        }
    }
}
