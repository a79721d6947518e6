//! One connection: its streams, windows and settings.

mod control;
mod framing;
mod header_blocks;
mod known_responses;

use super::HEAD_LIMIT;
use super::frame::{self, DEFAULT_WINDOW, Header, MAX_FRAME, MAX_U31, code, flag, kind, setting};
use super::header_cache::HeaderCache;
use super::hpack;
use super::request::Request;
use crate::heads::ExpectedHeads;
use known_responses::KnownResponses;
pub use known_responses::Repeated;

/// Maximum number of concurrent streams.
pub const MAX_STREAMS: usize = 1024;
/// Streams that one connection can have in its life (RFC 9113, 5.1.1: odd numbers of 31 bits). Then a new one is opened.
pub const MAX_REQUESTS: u32 = MAX_U31 / 2 + 1;
/// A request's body is cut into frames until this many bytes wait to be sent.
const BODY_ROOM: usize = 256 * 1024;

/// The server violated the protocol: the connection can't be used any more (RFC 9113, 5.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The error code of the GOAWAY frame that is in [`Connection::out`].
    pub code: u32,
    /// The reason, for the report.
    pub why: &'static str,
}

/// What was read. A *slot* holds one stream at a time; slots are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing that the caller needs to know.
    More,
    /// A response's status and declared length; with `end` this is the whole response.
    Head {
        /// Slot of the stream.
        slot: usize,
        /// 200 to 999.
        status: u16,
        /// One bit per kind of request: the head differs from that kind's reference responses.
        deviates: u64,
        /// The value of `content-length`.
        length: Option<u64>,
        /// The stream has ended.
        end: bool,
    },
    /// A piece of a response's body.
    Data {
        /// Slot of the stream.
        slot: usize,
        /// Without padding; may be empty.
        bytes: &'a [u8],
        /// The stream has ended.
        end: bool,
    },
    /// A response is malformed (RFC 9113, 8.1.1); the engine has reset the stream.
    Malformed {
        /// Slot of the stream.
        slot: usize,
        /// The reason, for the report.
        why: &'static str,
    },
    /// The server reset a stream.
    Reset {
        /// Slot of the stream.
        slot: usize,
        /// Error code; see [`frame::code_name`].
        code: u32,
    },
    /// The server accepts no new streams, and has not processed those above `last`.
    GoAway {
        /// 0: it has processed none.
        last: u32,
        /// Error code; see [`frame::code_name`].
        code: u32,
    },
    /// The server's SETTINGS have come, so it does speak HTTP/2. See [`Connection::max_streams`].
    Settings,
    /// A flow-control window has grown; see [`Connection::resume`].
    Room,
}

/// A request and its response, in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Stream number; 0: the slot is free, and the other fields mean nothing.
    id: u32,
    /// Number of the request.
    request: u32,
    /// Bytes of the request's body that are in frames.
    sent: usize,
    /// Where its latest frame ends in all that the connection sends.
    ends: u64,
    /// The stream's window: how many more bytes may be sent.
    window: i64,
    /// The whole body is in frames, or there is none.
    whole: bool,
    /// The final response head has come.
    head: bool,
    interims: u32,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug)]
enum Expects {
    Header,
    /// The payload of a frame that is read as a whole.
    Payload(Header),
    /// The length of a DATA frame's padding.
    PadLength(Header),
    /// The rest of a DATA frame, then its padding.
    Data {
        id: u32,
        left: usize,
        pad: usize,
        end: bool,
    },
    /// The rest of a frame that is ignored.
    Skip {
        left: usize,
    },
}

/// An incomplete header block that comes in several frames.
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
    /// By stream number: the slot that the stream is probably in.
    hints: Box<[u16]>,
    next_id: u32,
    /// Streams that may still be opened.
    streams_left: u32,
    active: usize,
    /// Streams whose request body is not yet completely in frames.
    unfinished: usize,
    /// How many concurrent streams the server allows.
    allowed: usize,
    /// The server's first SETTINGS have come.
    settled: bool,
    initial_window: i64,
    window: i64,
    max_frame: usize,
    /// The server's latest HEADER_TABLE_SIZE; a smaller one than before is acknowledged with the next request.
    table_size: u32,
    table_size_due: bool,
    /// Bytes of response bodies since the latest WINDOW_UPDATE.
    received: u64,
    expects: Expects,
    /// An incomplete frame header or payload.
    stash: Vec<u8>,
    block: Option<Block>,
    headers: HeaderCache,
    known: KnownResponses,
    /// Bytes to send.
    out: Vec<u8>,
    /// How many of them were sent.
    out_from: usize,
    /// Bytes that the connection has sent.
    wrote: u64,
    /// Bytes of acknowledgements of PING and SETTINGS in `out`.
    owed: usize,
}

impl Connection {
    /// A connection for up to `streams` concurrent streams, at most [`MAX_STREAMS`], and `requests` requests in all, at
    /// most [`MAX_REQUESTS`]. [`Connection::out`] then has what a client sends first: preface, SETTINGS, a large window.
    pub fn new(streams: usize, requests: u32) -> Self {
        let streams = streams.clamp(1, MAX_STREAMS);
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(frame::PREFACE);
        let limit = HEAD_LIMIT as u32;
        let settings = [
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, MAX_U31),
            (setting::MAX_HEADER_LIST_SIZE, limit),
        ];
        frame::write_settings(&mut out, &settings);
        frame::write(&mut out, kind::WINDOW_UPDATE, 0, 0, &(MAX_U31 - DEFAULT_WINDOW).to_be_bytes());
        Self {
            slots: vec![Slot::default(); streams].into(),
            hints: vec![0; (2 * streams).next_power_of_two()].into(),
            next_id: 1,
            streams_left: requests.min(MAX_REQUESTS),
            active: 0,
            unfinished: 0,
            allowed: streams,
            settled: false,
            initial_window: i64::from(DEFAULT_WINDOW),
            window: i64::from(DEFAULT_WINDOW),
            max_frame: MAX_FRAME,
            table_size: hpack::TABLE_BYTES as u32,
            table_size_due: false,
            received: 0,
            expects: Expects::Header,
            stash: Vec::new(),
            block: None,
            headers: HeaderCache::default(),
            known: KnownResponses::default(),
            out,
            out_from: 0,
            wrote: 0,
            owed: 0,
        }
    }

    /// The same, comparing response heads with these, by kind of request.
    pub fn expecting(mut self, heads: &[ExpectedHeads]) -> Self {
        self.headers.expect(heads);
        self
    }

    /// How the latest head that differed from the reference responses did so.
    pub fn deviation(&self) -> &str {
        self.headers.deviation()
    }

    /// Number of concurrent streams that both sides allow: slots below this number may be used.
    #[inline]
    pub fn max_streams(&self) -> usize {
        self.allowed.min(self.slots.len())
    }

    /// Streams in use.
    #[inline]
    pub fn active(&self) -> usize {
        self.active
    }

    /// Requests that the connection may still carry.
    #[inline]
    pub fn streams_left(&self) -> u32 {
        self.streams_left
    }

    /// Whether the server's settings have come.
    pub fn settled(&self) -> bool {
        self.settled
    }

    /// The number of the stream in a slot; 0: the slot is free.
    #[inline]
    pub fn id(&self, slot: usize) -> u32 {
        self.slots[slot].id
    }

    /// The bytes to send.
    #[inline]
    pub fn out(&self) -> &[u8] {
        &self.out[self.out_from..]
    }

    /// Whether the next byte is a frame's first one, outside a header block.
    #[inline]
    pub fn between_frames(&self) -> bool {
        matches!(self.expects, Expects::Header) && self.stash.is_empty() && self.block.is_none()
    }

    /// Removes bytes that were sent from [`Connection::out`].
    #[inline]
    pub fn wrote(&mut self, bytes: usize) {
        self.out_from += bytes;
        self.wrote += bytes as u64;
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

    /// Bytes of memory in use, apart from what is allocated at the start.
    pub fn held_bytes(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| block.bytes.capacity());
        self.out.capacity() + self.stash.capacity() + block + self.headers.held_bytes() + self.known.held_bytes()
    }

    /// Queues a request on a new stream in a free slot, and as much of its body as the server's windows allow.
    #[inline]
    pub fn open(&mut self, slot: usize, request: u32, requests: &[Request]) {
        let (id, sent) = (self.next_id, &requests[request as usize]);
        self.next_id = self.next_id.wrapping_add(2);
        self.streams_left = self.streams_left.saturating_sub(1);
        self.active += 1;
        let whole = sent.body.is_empty();
        let window = self.initial_window;
        self.slots[slot] = Slot { id, request, whole, window, ..Slot::default() };
        let hint = self.hint(id);
        self.hints[hint] = slot as u16;
        let at = self.out.len();
        if self.table_size_due {
            self.open_with_table_size(id, sent);
        } else {
            self.out.extend_from_slice(&sent.head);
            for number in &sent.numbers {
                self.out[at + number..][..4].copy_from_slice(&id.to_be_bytes());
            }
        }
        self.slots[slot].ends = self.wrote + self.out().len() as u64;
        if !whole {
            self.unfinished += 1;
            self.pump(slot, requests);
        }
    }

    /// The same, preceded by a dynamic table size of 0 (RFC 7541, 4.2).
    #[cold]
    fn open_with_table_size(&mut self, id: u32, sent: &Request) {
        self.table_size_due = false;
        let mut block = Vec::with_capacity(sent.block.len() + 1);
        hpack::write_no_table(&mut block);
        block.extend_from_slice(&sent.block);
        frame::write_block(&mut self.out, &block, sent.body.is_empty(), id);
    }

    /// Continues with request bodies that had to wait for the server's windows or for room in [`Connection::out`].
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

    /// Whether a request body is not yet completely in frames.
    #[inline]
    pub fn unfinished(&self) -> bool {
        self.unfinished > 0
    }

    fn pump(&mut self, slot: usize, requests: &[Request]) {
        let Slot { id, request, .. } = self.slots[slot];
        let body = &requests[request as usize].body;
        while self.out.len() - self.out_from < BODY_ROOM {
            let stream = &mut self.slots[slot];
            let room = stream.window.min(self.window).clamp(0, self.max_frame as i64) as usize;
            let length = room.min(body.len() - stream.sent);
            if length == 0 {
                return;
            }
            let piece = &body[stream.sent..stream.sent + length];
            stream.sent += length;
            stream.window -= length as i64;
            self.window -= length as i64;
            stream.whole = stream.sent == body.len();
            let flags = if stream.whole { flag::END_STREAM } else { 0 };
            frame::write(&mut self.out, kind::DATA, flags, id, piece);
            self.slots[slot].ends = self.wrote + (self.out.len() - self.out_from) as u64;
            if self.slots[slot].whole {
                self.unfinished -= 1;
                return;
            }
        }
    }

    /// If the latest request in a slot was not sent completely: how many bytes of its body were, and its body's length.
    /// `held`: bytes that the transport has accepted and not sent.
    #[inline]
    pub fn cut(&self, slot: usize, held: usize, requests: &[Request]) -> Option<(usize, usize)> {
        let Slot { request, sent, ends, whole, .. } = self.slots[slot];
        let unsent = ends.saturating_sub(self.wrote.saturating_sub(held as u64)) as usize;
        (!whole || unsent > 0).then(|| (sent.saturating_sub(unsent), requests[request as usize].body.len()))
    }

    /// Resets a stream whose response is not complete.
    pub fn cancel(&mut self, slot: usize, code: u32) {
        let id = self.slots[slot].id;
        if id != 0 {
            frame::write(&mut self.out, kind::RST_STREAM, 0, id, &code.to_be_bytes());
            self.forget(slot);
        }
    }

    /// Frees a slot without telling the server.
    pub fn forget(&mut self, slot: usize) {
        let stream = &mut self.slots[slot];
        if stream.id != 0 {
            self.active -= 1;
            self.unfinished -= usize::from(!stream.whole);
            stream.id = 0;
        }
    }

    /// Queues a GOAWAY frame: this side ends the connection (RFC 9113, 6.8).
    pub fn go_away(&mut self, code: u32) {
        let payload = u64::from(code).to_be_bytes(); // last stream 0: servers open no streams here
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

    /// The response is complete. The server does not need the unsent rest of the request.
    #[inline]
    fn over(&mut self, slot: usize) {
        if self.slots[slot].whole {
            self.forget(slot);
        } else {
            self.cancel(slot, code::NO_ERROR);
        }
    }
}
