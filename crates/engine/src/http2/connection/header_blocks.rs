//! Header blocks, in one frame or several, and what they mean at their place in the stream.

use super::super::HEAD_LIMIT;
use super::super::frame::{Header, code, flag};
use super::super::header_cache::HeaderInfo;
use super::{Block, Broken, Connection, Event};

/// Maximum number of frames of one header block: a server could send empty ones without end.
const MAX_CONTINUATIONS: u32 = 64;
/// Maximum number of interim responses to one request.
const MAX_INTERIM: u32 = 64;

impl Connection {
    #[cold]
    pub(super) fn malformed<'a>(&mut self, slot: usize, why: &'static str) -> Event<'a> {
        self.cancel(slot, code::PROTOCOL_ERROR);
        Event::Malformed { slot, why }
    }

    #[inline]
    pub(super) fn headers<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Event<'a>, Broken> {
        let end = header.flags & flag::END_STREAM != 0;
        let fragment =
            if header.flags & (flag::PADDED | flag::PRIORITY) == 0 { payload } else { bare(header, payload)? };
        if header.flags & flag::END_HEADERS == 0 {
            self.block = Some(Block { id: header.id, end, frames: 1, bytes: fragment.to_vec() });
            return Ok(Event::More);
        }
        let info = self.headers.read(fragment).map_err(|(code, why)| Broken { code, why })?;
        Ok(self.header_block(header.id, &info, end))
    }

    #[cold]
    pub(super) fn continuation<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Event<'a>, Broken> {
        let Some(mut block) = self.block.take() else { return Ok(Event::More) };
        block.frames += 1;
        if block.bytes.len() + payload.len() > HEAD_LIMIT || block.frames > MAX_CONTINUATIONS {
            return Err(Broken { code: code::ENHANCE_YOUR_CALM, why: "a header block is longer than 64 KiB" });
        }
        block.bytes.extend_from_slice(payload);
        if header.flags & flag::END_HEADERS == 0 {
            self.block = Some(block);
            return Ok(Event::More);
        }
        let info = self.headers.read(&block.bytes).map_err(|(code, why)| Broken { code, why })?;
        Ok(self.header_block(block.id, &info, block.end))
    }

    /// What a header block means at its place in the stream: an interim head, the final head, or trailers (RFC 9113, 8.1).
    #[inline]
    fn header_block<'a>(&mut self, id: u32, info: &HeaderInfo, end: bool) -> Event<'a> {
        let Some(slot) = self.slot_of(id) else { return Event::More };
        if let Some(why) = info.fault {
            return self.malformed(slot, why);
        }
        let stream = &mut self.slots[slot];
        match info.status {
            Some(status @ 200..) if !stream.head => {
                stream.head = true;
                if end {
                    self.over(slot);
                }
                Event::Head { slot, status, deviates: info.deviates, length: info.length, end }
            }
            Some(status @ 100..=199) if !stream.head && !end && status != 101 && stream.interims < MAX_INTERIM => {
                stream.interims += 1;
                Event::More
            }
            None if stream.head && end => {
                self.over(slot);
                Event::Data { slot, bytes: &[], end }
            }
            _ => self.malformed(slot, "a header block that is neither a final head, an interim one, nor trailers"),
        }
    }
}

/// The fragment of a HEADERS frame, without padding and priority (RFC 9113, 6.2).
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
