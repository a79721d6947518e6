//! Messages in frames: masked ones out, unmasked ones in (RFC 6455, 5). Bounded memory: no message is stored.

use crate::failure::Wrong;
use crate::response::SKIP_LIMIT;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The frame is its message's last.
const FIN: u8 = 0x80;
/// Bits that only extensions use; none is agreed.
const RESERVED: u8 = 0x70;
/// Set in the byte of the length.
const MASKED: u8 = 0x80;
/// Longest payload of a control frame (5.5).
const MAX_CONTROL: usize = 125;
/// Longest header of an unmasked frame.
const MAX_HEADER: usize = 10;

/// A message as it is sent, and its correct response.
#[derive(Clone, Debug)]
pub struct Message {
    /// The whole message in one masked frame.
    pub frame: Vec<u8>,
    /// The response in one frame, as servers usually send it.
    response: Vec<u8>,
    /// Where the response's payload begins.
    payload_at: usize,
}

impl Message {
    /// Masking protects caches from browsers' scripts (10.3), not servers. So a message keeps its mask, and is prepared
    /// once; a server can't know that, because it reads the mask from each frame.
    pub fn new(payload: &[u8], response: &[u8], binary: bool, mask: [u8; 4]) -> Self {
        let opcode = if binary { BINARY } else { TEXT };
        let (mut frame, mut answer) = (Vec::new(), Vec::new());
        write(&mut frame, opcode, payload, Some(mask));
        write(&mut answer, opcode, response, None);
        Self { frame, payload_at: answer.len() - response.len(), response: answer }
    }

    /// The correct response's payload.
    fn payload(&self) -> &[u8] {
        &self.response[self.payload_at..]
    }

    /// How a response that has another type differs, for a person.
    pub fn other_type(&self) -> &'static str {
        let binary = self.response[0] & !FIN == BINARY;
        if binary { "a text message, binary is expected" } else { "a binary message, text is expected" }
    }
}

/// Appends a control frame: the reply to a ping or to a close.
pub fn reply(out: &mut Vec<u8>, event: Event, payload: &[u8]) {
    let opcode = if matches!(event, Event::Ping) { PONG } else { CLOSE };
    write(out, opcode, payload, Some([0; 4]));
}

fn write(out: &mut Vec<u8>, opcode: u8, payload: &[u8], mask: Option<[u8; 4]>) {
    let masked = if mask.is_some() { MASKED } else { 0 };
    out.push(FIN | opcode);
    match payload.len() {
        length @ ..=MAX_CONTROL => out.push(masked | length as u8),
        length @ ..=0xffff => {
            out.push(masked | 126);
            out.extend((length as u16).to_be_bytes());
        }
        length => {
            out.push(masked | 127);
            out.extend((length as u64).to_be_bytes());
        }
    }
    let Some(mask) = mask else { return out.extend_from_slice(payload) };
    out.extend(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
}

/// What bytes of a server meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing yet.
    More,
    /// A message is complete; what is wrong with it, if anything.
    Message(Option<Wrong>),
    /// Wants a reply with the payload in [`Reader::control`].
    Ping,
    /// Needs no reply.
    Pong,
    /// The server ends the connection, with this code if it gives one.
    Close(Option<u16>),
}

/// How the server violated the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    Data { left: u64, fin: bool },
    Control { opcode: u8, left: usize },
}

/// Reads the frames of one connection, one after the other.
#[derive(Debug)]
pub struct Reader {
    state: State,
    header: [u8; MAX_HEADER],
    /// Bytes of the header so far.
    held: usize,
    /// A message has begun and is not complete.
    within: bool,
    /// Bytes of the message so far.
    got: u64,
    /// The message has another type than expected.
    other_type: bool,
    /// It has other bytes.
    differs: bool,
    control: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            state: State::Header,
            header: [0; MAX_HEADER],
            held: 0,
            within: false,
            got: 0,
            other_type: false,
            differs: false,
            control: Vec::new(),
        }
    }
}

impl Reader {
    /// Reads bytes that arrived, up to the next event; call it again with the rest. Returns how many were used.
    ///
    /// Hot path: a response in one frame costs one comparison. `expected`: None if no response is due.
    ///
    /// # Errors
    /// The server violated the protocol; nothing after that can be read.
    #[inline]
    pub fn feed(&mut self, input: &[u8], expected: Option<&Message>) -> Result<(usize, Event), Broken> {
        if let Some(message) = expected
            && self.between_messages()
            && input.starts_with(&message.response)
        {
            return Ok((message.response.len(), Event::Message(None)));
        }
        self.read(input, expected)
    }

    /// Whether no frame and no message has begun.
    #[inline]
    pub fn between_messages(&self) -> bool {
        self.state == State::Header && self.held == 0 && !self.within
    }

    /// The payload of the latest control frame.
    pub fn control(&self) -> &[u8] {
        &self.control
    }

    fn read(&mut self, input: &[u8], expected: Option<&Message>) -> Result<(usize, Event), Broken> {
        let mut used = 0;
        while used < input.len() {
            let rest = &input[used..];
            let (taken, event) = match self.state {
                State::Header => self.header(rest, expected)?,
                State::Data { left, fin } => {
                    let piece = &rest[..rest.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
                    self.take(piece, expected);
                    self.state = State::Data { left: left - piece.len() as u64, fin };
                    (piece.len(), self.frame_may_end(expected))
                }
                State::Control { opcode, left } => {
                    let piece = &rest[..rest.len().min(left)];
                    self.control.extend_from_slice(piece);
                    self.state = State::Control { opcode, left: left - piece.len() };
                    (piece.len(), self.control_may_end()?)
                }
            };
            used += taken;
            if event != Event::More {
                return Ok((used, event));
            }
        }
        Ok((used, Event::More))
    }

    fn header(&mut self, rest: &[u8], expected: Option<&Message>) -> Result<(usize, Event), Broken> {
        let needed = match (self.held, self.header[1] & !MASKED) {
            (0..2, _) => 2,
            (_, 126) => 4,
            (_, 127) => MAX_HEADER,
            _ => 2,
        };
        let taken = rest.len().min(needed - self.held);
        self.header[self.held..self.held + taken].copy_from_slice(&rest[..taken]);
        self.held += taken;
        if self.held < needed || self.held == 2 && self.header[1] & !MASKED > 125 {
            return Ok((taken, Event::More));
        }
        self.held = 0;
        Ok((taken, self.begin(expected)?))
    }

    /// The header is complete.
    fn begin(&mut self, expected: Option<&Message>) -> Result<Event, Broken> {
        let [first, second, ..] = self.header;
        if first & RESERVED != 0 {
            return Err(Broken("a frame with reserved bits, although no extension is agreed"));
        }
        if second & MASKED != 0 {
            return Err(Broken("a masked frame, although servers must not mask (RFC 6455, 5.1)"));
        }
        let (length, least) = match second {
            126 => (u64::from(u16::from_be_bytes([self.header[2], self.header[3]])), 126),
            127 => (u64::from_be_bytes(std::array::from_fn(|at| self.header[2 + at])), 0x1_0000),
            length => (u64::from(length), 0),
        };
        if length < least {
            return Err(Broken("a frame whose length is not in its shortest form (RFC 6455, 5.2)"));
        }
        let (opcode, fin) = (first & !FIN, first & FIN != 0);
        match opcode {
            TEXT | BINARY if self.within => return Err(Broken("a message within another one")),
            TEXT | BINARY => {
                let Some(message) = expected else { return Err(Broken("a message without a request")) };
                (self.within, self.got, self.differs) = (true, 0, false);
                self.other_type = message.response[0] & !FIN != opcode;
            }
            CONTINUATION if self.within => {}
            CONTINUATION => return Err(Broken("a continuation without a message")),
            CLOSE | PING | PONG if !fin || length > MAX_CONTROL as u64 => {
                return Err(Broken("a control frame in pieces or of more than 125 bytes (RFC 6455, 5.5)"));
            }
            CLOSE | PING | PONG => {
                self.control.clear();
                self.state = State::Control { opcode, left: length as usize };
                return self.control_may_end();
            }
            _ => return Err(Broken("a frame with an unknown opcode")),
        }
        let longest = expected.map_or(0, |message| message.payload().len()) as u64 + SKIP_LIMIT;
        if length > longest.saturating_sub(self.got) {
            return Err(Broken("a message that is more than 1 MiB longer than expected"));
        }
        self.state = State::Data { left: length, fin };
        Ok(self.frame_may_end(expected))
    }

    fn take(&mut self, piece: &[u8], expected: Option<&Message>) {
        let from = usize::try_from(self.got).unwrap_or(usize::MAX);
        let due = expected.and_then(|message| message.payload().get(from..)).unwrap_or_default();
        self.differs |= !due.starts_with(piece);
        self.got += piece.len() as u64;
    }

    fn frame_may_end(&mut self, expected: Option<&Message>) -> Event {
        let State::Data { left: 0, fin } = self.state else { return Event::More };
        self.state = State::Header;
        if !fin {
            return Event::More;
        }
        self.within = false;
        let length = expected.map_or(0, |message| message.payload().len()) as u64;
        Event::Message(match (self.other_type, self.got == length) {
            (true, _) => Some(Wrong::Head),
            (_, false) => Some(Wrong::Length),
            _ => self.differs.then_some(Wrong::Body),
        })
    }

    fn control_may_end(&mut self) -> Result<Event, Broken> {
        let State::Control { opcode, left: 0 } = self.state else { return Ok(Event::More) };
        self.state = State::Header;
        Ok(match (opcode, self.control.as_slice()) {
            (PING, _) => Event::Ping,
            (PONG, _) => Event::Pong,
            (_, []) => Event::Close(None),
            (_, [_]) => return Err(Broken("a close frame with half a code (RFC 6455, 5.5.1)")),
            (_, [high, low, ..]) => Event::Close(Some(u16::from_be_bytes([*high, *low]))),
        })
    }
}
