//! Splits bytes into frames, wherever reads cut them, and checks what a frame's header alone can show to be wrong.

use super::super::frame::{self, HEADER_BYTES, Header, MAX_FRAME, MAX_U31, code, flag, kind, number};
use super::{Broken, Connection, Event, Expects};

/// After this many bytes of response bodies, a WINDOW_UPDATE lets the server send as many more. The window is twice as
/// large.
const RENEW_BYTES: u64 = 1 << 30;
/// Memory that is kept for payloads that come in several reads.
const KEPT_BYTES: usize = 4096;

impl Connection {
    /// Reads bytes that arrived, up to the next event; returns how many. Call it again with the rest.
    ///
    /// # Errors
    /// The server violated the protocol; a GOAWAY frame waits in [`Connection::out`].
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
                Ok((taken, Event::More)) // an unknown extension: ignored (RFC 9113, 5.5)
            }
        }
    }

    /// Checks what a frame's header alone can show to be wrong.
    #[inline]
    fn check(&self, header: &Header, bytes: &[u8]) -> Result<(), Broken> {
        let protocol = |why| Err(Broken { code: code::PROTOCOL_ERROR, why });
        if !self.settled && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return protocol(if bytes.starts_with(b"HTTP/1.") {
                "it responds in HTTP/1: it does not speak HTTP/2 here"
            } else {
                "its first frame is not SETTINGS: it does not speak HTTP/2 here"
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
            kind::CONTINUATION if self.block.is_none() => protocol("a CONTINUATION outside a header block"),
            _ => Ok(()),
        }
    }

    /// Extends the window long before the server would have to wait.
    #[inline]
    pub(super) fn renew(&mut self) {
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

    /// A piece of a response body, wherever reads cut the frame.
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
            _ => Event::More, // the stream has ended on this side
        };
        (taken + passed, event)
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
        let result = self.frame(header, &payload);
        if payload.capacity() <= KEPT_BYTES {
            payload.clear();
            self.stash = payload;
        }
        result.map(|event| (taken, event))
    }

    /// A whole frame other than DATA.
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
                Ok(Event::GoAway { last: number(payload) & MAX_U31, code })
            }
            kind::WINDOW_UPDATE => self.window_update(header, number(payload) & MAX_U31),
            _ => Ok(Event::More), // PRIORITY
        }
    }
}
