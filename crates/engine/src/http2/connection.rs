//! One connection: its streams, its windows, its settings.

use super::HEAD_LIMIT;
use super::frame::{self, DEFAULT_WINDOW, HEADER_BYTES, Header, MAX_FRAME, MOST, code, flag, kind, number, setting};
use super::hpack;
use super::request::Request;
use super::section::{Section, Sections};

/// Most streams at a time.
pub const MOST_STREAMS: usize = 1024;
/// Streams that one connection can ever have (RFC 9113, 5.1.1: odd numbers of 31 bits). Then another one is opened.
pub const MOST_REQUESTS: u32 = MOST / 2 + 1;
/// So many bytes of bodies are read before the server is told that it may send as many more. The window is twice as large.
const RENEW_BYTES: u64 = 1 << 30;
/// Most bytes of answers to PING and SETTINGS that a server does not take off our hands.
const MOST_OWED: usize = 4 << 20;
/// A request's body is cut into frames as far as so much waits to be sent.
const BODY_ROOM: usize = 256 * 1024;
/// Frames that one header block may come in; a server that sends empty ones would never end.
const MOST_CONTINUATIONS: u32 = 64;
/// Interim answers to one request.
const MOST_INTERIM: u32 = 64;
/// Memory that is kept for what comes in pieces.
const KEPT_BYTES: usize = 4096;

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
    /// Of its stream; 0: there is none.
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
    out: Vec<u8>,
    /// What of it is sent.
    out_from: usize,
    /// Answers to PING and SETTINGS in it.
    owed: usize,
}

impl Connection {
    /// With room for so many streams at a time, at most [`MOST_STREAMS`]; after `left` requests, at most [`MOST_REQUESTS`],
    /// it takes no more. What goes first waits in [`Connection::out`]: the preface, settings, and a large window.
    pub fn new(streams: usize, left: u32) -> Self {
        let streams = streams.clamp(1, MOST_STREAMS);
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
            left: left.min(MOST_REQUESTS),
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
            out,
            out_from: 0,
            owed: 0,
        }
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
        self.out.capacity() + self.stash.capacity() + block + self.sections.held_bytes()
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
            *one = Slot::default();
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

    /// Takes bytes that arrived; to be called again with those behind the ones taken (their number comes back).
    ///
    /// # Errors
    /// The connection is broken; what it is told waits to be sent.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), Broken> {
        let result = match self.expects {
            Expects::Header => return self.header(input),
            Expects::Payload(header) => self.payload(header, input),
            Expects::Data { .. } => return Ok(self.data(input)),
            Expects::PadLength(header) => self.pad_length(header, input),
            Expects::Skip { left } => {
                let taken = left.min(input.len());
                self.expects = if taken == left { Expects::Header } else { Expects::Skip { left: left - taken } };
                return Ok((taken, Event::More));
            }
        };
        result.map_err(|broken| self.broken(broken))
    }

    #[cold]
    fn broken(&mut self, broken: Broken) -> Broken {
        self.go_away(broken.code);
        broken
    }

    #[inline]
    fn header<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), Broken> {
        let mut taken = HEADER_BYTES;
        let bytes: [u8; HEADER_BYTES] = match input.first_chunk() {
            Some(bytes) if self.stash.is_empty() => *bytes,
            _ => {
                taken = (HEADER_BYTES - self.stash.len()).min(input.len());
                self.stash.extend_from_slice(&input[..taken]);
                let Some(bytes) = self.stash.first_chunk() else { return Ok((taken, Event::More)) };
                let bytes = *bytes;
                self.stash.clear();
                bytes
            }
        };
        let header = Header::read(&bytes);
        if let Err(broken) = self.check(&header, &bytes) {
            return Err(self.broken(broken));
        }
        let rest = &input[taken..];
        match header.kind {
            kind::DATA => {
                self.received += header.length as u64;
                self.renew();
                if header.flags & flag::PADDED != 0 {
                    self.expects = Expects::PadLength(header);
                    return Ok((taken, Event::More));
                }
                let end = header.flags & flag::END_STREAM != 0;
                self.expects = Expects::Data { id: header.id, left: header.length, pad: 0, end };
                if header.length == 0 || !rest.is_empty() {
                    let (more, event) = self.data(rest);
                    return Ok((taken + more, event));
                }
                Ok((taken, Event::More))
            }
            kind::HEADERS..=kind::CONTINUATION => {
                self.expects = Expects::Payload(header);
                if header.length == 0 || !rest.is_empty() {
                    let (more, event) = self.payload(header, rest).map_err(|broken| self.broken(broken))?;
                    return Ok((taken + more, event));
                }
                Ok((taken, Event::More))
            }
            _ => {
                if header.length > 0 {
                    self.expects = Expects::Skip { left: header.length };
                }
                Ok((taken, Event::More)) // an extension that nobody asked for (RFC 9113, 5.5)
            }
        }
    }

    /// What a frame's header alone shows to be wrong.
    #[inline]
    fn check(&self, header: &Header, bytes: &[u8]) -> Result<(), Broken> {
        let protocol = |why| Err(Broken { code: code::PROTOCOL_ERROR, why });
        if !self.settled && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return protocol(if bytes.starts_with(b"HTTP/1.") {
                "it answers in HTTP/1: it does not speak HTTP/2 here"
            } else {
                "its first frame is no SETTINGS frame: it does not speak HTTP/2 here"
            });
        }
        if header.length > MAX_FRAME {
            return Err(Broken { code: code::FRAME_SIZE_ERROR, why: "a frame is longer than 16,384 bytes" });
        }
        if let Some(block) = &self.block
            && (header.kind != kind::CONTINUATION || header.id != block.id)
        {
            return protocol("another frame within a header block");
        }
        let of_stream =
            matches!(header.kind, kind::DATA | kind::HEADERS | kind::PRIORITY | kind::RST_STREAM | kind::CONTINUATION);
        let of_connection = matches!(header.kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
        if of_stream && header.id == 0 || of_connection && header.id != 0 {
            return protocol("a frame on a stream that it can't be on");
        }
        let ours = header.id & 1 == 1 && header.id < self.next_id;
        if header.id != 0 && !ours && matches!(header.kind, 0..=kind::CONTINUATION) && header.kind != kind::PRIORITY {
            return protocol("a frame on a stream that was never opened");
        }
        let fixed = match header.kind {
            kind::PRIORITY => header.length == 5,
            kind::RST_STREAM | kind::WINDOW_UPDATE => header.length == 4,
            kind::PING => header.length == 8,
            kind::GOAWAY => header.length >= 8,
            kind::SETTINGS if header.has(flag::ACK) => header.length == 0,
            kind::SETTINGS => header.length.is_multiple_of(6),
            _ => true,
        };
        if !fixed {
            return Err(Broken { code: code::FRAME_SIZE_ERROR, why: "a frame has a length that its kind can't have" });
        }
        match header.kind {
            kind::PUSH_PROMISE => protocol("a PUSH_PROMISE, though push was switched off"),
            kind::CONTINUATION if self.block.is_none() => protocol("a CONTINUATION of no header block"),
            _ => Ok(()),
        }
    }

    /// Lets the server send on, long before it would have to wait.
    #[inline]
    fn renew(&mut self) {
        if self.received >= RENEW_BYTES {
            let increment = (self.received as u32).to_be_bytes();
            frame::write(&mut self.out, kind::WINDOW_UPDATE, 0, 0, &increment);
            self.received = 0;
        }
    }

    fn pad_length<'a>(&mut self, header: Header, input: &'a [u8]) -> Result<(usize, Event<'a>), Broken> {
        let Some(&pad) = input.first() else { return Ok((0, Event::More)) };
        let pad = usize::from(pad);
        if header.length < pad + 1 {
            return Err(Broken { code: code::PROTOCOL_ERROR, why: "a frame's padding is longer than the frame" });
        }
        let end = header.flags & flag::END_STREAM != 0;
        self.expects = Expects::Data { id: header.id, left: header.length - 1 - pad, pad, end };
        let (more, event) = self.data(&input[1..]);
        Ok((1 + more, event))
    }

    /// A piece of a body, wherever the frame is cut.
    #[inline]
    fn data<'a>(&mut self, input: &'a [u8]) -> (usize, Event<'a>) {
        let Expects::Data { id, left, pad, end } = self.expects else { return (0, Event::More) };
        let taken = left.min(input.len());
        let passed = if taken == left { pad.min(input.len() - taken) } else { 0 };
        let (left, pad) = (left - taken, pad - passed);
        let done = left == 0 && pad == 0;
        self.expects = if done { Expects::Header } else { Expects::Data { id, left, pad, end } };
        let end = end && done;
        let event = match self.slot_of(id) {
            Some(slot) if !self.slots[slot].head => self.malformed(slot, "a body came before its head"),
            Some(slot) if taken > 0 || end => {
                if end {
                    self.over(slot);
                }
                Event::Data { slot, bytes: &input[..taken], end }
            }
            _ => Event::More, // of a stream that is over on our side
        };
        (taken + passed, event)
    }

    #[cold]
    fn malformed<'a>(&mut self, slot: usize, why: &'static str) -> Event<'a> {
        self.cancel(slot, code::PROTOCOL_ERROR);
        Event::Malformed { slot, why }
    }

    #[inline]
    fn payload<'a>(&mut self, header: Header, input: &'a [u8]) -> Result<(usize, Event<'a>), Broken> {
        if self.stash.is_empty()
            && let Some(payload) = input.get(..header.length)
        {
            self.expects = Expects::Header;
            return self.frame(header, payload).map(|event| (header.length, event));
        }
        let taken = (header.length - self.stash.len()).min(input.len());
        self.stash.extend_from_slice(&input[..taken]);
        if self.stash.len() < header.length {
            return Ok((taken, Event::More));
        }
        self.expects = Expects::Header;
        let mut payload = std::mem::take(&mut self.stash);
        let told = self.frame(header, &payload);
        if payload.capacity() <= KEPT_BYTES {
            payload.clear();
            self.stash = payload;
        }
        told.map(|event| (taken, event))
    }

    /// A whole frame that is no DATA.
    #[inline]
    fn frame<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Event<'a>, Broken> {
        match header.kind {
            kind::HEADERS => self.headers(header, payload),
            kind::CONTINUATION => self.continuation(header, payload),
            kind::RST_STREAM => Ok(match self.slot_of(header.id) {
                Some(slot) => {
                    self.forget(slot);
                    Event::Reset { slot, code: u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]) }
                }
                None => Event::More,
            }),
            kind::SETTINGS => self.settings(header, payload),
            kind::PING => self.ping(header, payload),
            kind::GOAWAY => {
                let code = u32::from_be_bytes([payload[4], payload[5], payload[6], payload[7]]);
                Ok(Event::GoAway { last: number(payload) & MOST, code })
            }
            kind::WINDOW_UPDATE => self.window_update(header, number(payload) & MOST),
            _ => Ok(Event::More), // PRIORITY
        }
    }

    #[inline]
    fn headers<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Event<'a>, Broken> {
        let end = header.flags & flag::END_STREAM != 0;
        let fragment =
            if header.flags & (flag::PADDED | flag::PRIORITY) == 0 { payload } else { bare(header, payload)? };
        if header.flags & flag::END_HEADERS == 0 {
            self.block = Some(Block { id: header.id, end, frames: 1, bytes: fragment.to_vec() });
            return Ok(Event::More);
        }
        let section = self.sections.read(fragment).map_err(|(code, why)| Broken { code, why })?;
        Ok(self.section(header.id, &section, end))
    }

    #[cold]
    fn continuation<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Event<'a>, Broken> {
        let Some(mut block) = self.block.take() else { return Ok(Event::More) };
        block.frames += 1;
        if block.bytes.len() + payload.len() > HEAD_LIMIT || block.frames > MOST_CONTINUATIONS {
            return Err(Broken { code: code::ENHANCE_YOUR_CALM, why: "a header block is longer than 64 KiB" });
        }
        block.bytes.extend_from_slice(payload);
        if header.flags & flag::END_HEADERS == 0 {
            self.block = Some(block);
            return Ok(Event::More);
        }
        let section = self.sections.read(&block.bytes).map_err(|(code, why)| Broken { code, why })?;
        Ok(self.section(block.id, &section, block.end))
    }

    /// What a block of fields means where it stands: an interim head, the head, or trailers (RFC 9113, 8.1).
    #[inline]
    fn section<'a>(&mut self, id: u32, section: &Section, end: bool) -> Event<'a> {
        let Some(slot) = self.slot_of(id) else { return Event::More };
        if let Some(why) = section.fault {
            return self.malformed(slot, why);
        }
        let one = &mut self.slots[slot];
        match section.status {
            Some(status @ 200..) if !one.head => {
                one.head = true;
                if end {
                    self.over(slot);
                }
                Event::Head { slot, status, length: section.length, end }
            }
            Some(status @ 100..=199) if !one.head && !end && status != 101 && one.interims < MOST_INTERIM => {
                one.interims += 1;
                Event::More
            }
            None if one.head && end => {
                self.over(slot);
                Event::Data { slot, bytes: &[], end }
            }
            _ => self.malformed(slot, "a header block that is no head, no interim one, and no trailers"),
        }
    }

    fn settings<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Event<'a>, Broken> {
        if header.has(flag::ACK) {
            return Ok(Event::More);
        }
        for one in payload.chunks_exact(6) {
            self.set(u16::from_be_bytes([one[0], one[1]]), u32::from_be_bytes([one[2], one[3], one[4], one[5]]))?;
        }
        self.settled = true;
        self.owe(kind::SETTINGS, &[])?;
        Ok(Event::Settings)
    }

    fn set(&mut self, name: u16, value: u32) -> Result<(), Broken> {
        let refused = |code, why| Err(Broken { code, why });
        match name {
            setting::MAX_CONCURRENT_STREAMS => self.allowed = value as usize,
            setting::HEADER_TABLE_SIZE => {
                self.table_word_due |= value < self.table_size;
                self.table_size = value;
            }
            setting::INITIAL_WINDOW_SIZE if value > MOST => {
                return refused(code::FLOW_CONTROL_ERROR, "SETTINGS with an initial window above 2^31 - 1");
            }
            setting::INITIAL_WINDOW_SIZE => {
                let change = i64::from(value) - self.initial_window;
                self.initial_window = i64::from(value);
                for slot in self.slots.iter_mut().filter(|slot| slot.id != 0) {
                    slot.window += change;
                    if slot.window > i64::from(MOST) {
                        return refused(code::FLOW_CONTROL_ERROR, "SETTINGS that let a window pass 2^31 - 1");
                    }
                }
            }
            setting::MAX_FRAME_SIZE if !(MAX_FRAME as u32..=0x00ff_ffff).contains(&value) => {
                return refused(code::PROTOCOL_ERROR, "SETTINGS with a frame size that is not 2^14 to 2^24 - 1");
            }
            setting::MAX_FRAME_SIZE => self.max_frame = value as usize,
            setting::ENABLE_PUSH if value != 0 => {
                return refused(code::PROTOCOL_ERROR, "SETTINGS by which a server would take pushes");
            }
            _ => {}
        }
        Ok(())
    }

    fn ping<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Event<'a>, Broken> {
        if !header.has(flag::ACK) {
            self.owe(kind::PING, payload)?;
        }
        Ok(Event::More)
    }

    /// Acknowledges, as long as the server takes that.
    fn owe(&mut self, kind: u8, payload: &[u8]) -> Result<(), Broken> {
        self.owed += HEADER_BYTES + payload.len();
        if self.owed > MOST_OWED {
            let why = "it asks for answers (PING, SETTINGS) faster than it takes them";
            return Err(Broken { code: code::ENHANCE_YOUR_CALM, why });
        }
        frame::write(&mut self.out, kind, flag::ACK, 0, payload);
        Ok(())
    }

    fn window_update<'a>(&mut self, header: Header, increment: u32) -> Result<Event<'a>, Broken> {
        let most = i64::from(MOST);
        if header.id == 0 {
            self.window += i64::from(increment);
            return match increment {
                0 => Err(Broken { code: code::PROTOCOL_ERROR, why: "a WINDOW_UPDATE by nothing" }),
                _ if self.window > most => {
                    Err(Broken { code: code::FLOW_CONTROL_ERROR, why: "a connection's window above 2^31 - 1" })
                }
                _ => Ok(Event::Room),
            };
        }
        let Some(slot) = self.slot_of(header.id) else { return Ok(Event::More) };
        self.slots[slot].window += i64::from(increment);
        if increment == 0 || self.slots[slot].window > most {
            return Ok(self.malformed(slot, "a WINDOW_UPDATE by nothing, or to a window above 2^31 - 1"));
        }
        Ok(Event::Room)
    }
}

/// A HEADERS frame's fragment without padding and priority (RFC 9113, 6.2).
#[cold]
fn bare(header: Header, payload: &[u8]) -> Result<&[u8], Broken> {
    let why = "a HEADERS frame's padding is longer than the frame";
    let broken = Broken { code: code::PROTOCOL_ERROR, why };
    let (mut from, mut to) = (0, payload.len());
    if header.has(flag::PADDED) {
        let pad = usize::from(*payload.first().ok_or(broken)?);
        from = 1;
        to = to.checked_sub(pad).ok_or(broken)?;
    }
    if header.has(flag::PRIORITY) {
        from += 5;
    }
    payload.get(from..to).ok_or(broken)
}
