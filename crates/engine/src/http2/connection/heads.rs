//! Header blocks, in one frame or several, and what they mean where they stand.

use super::super::HEAD_LIMIT;
use super::super::frame::{Header, code, flag};
use super::super::section::Section;
use super::{Block, Broken, Connection, Event};

/// Frames that one header block may come in; a server that sends empty ones would never end.
const MAX_CONTINUATIONS: u32 = 64;
/// Interim answers to one request.
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
        let section = self.sections.read(fragment).map_err(|(code, why)| Broken { code, why })?;
        Ok(self.section(header.id, &section, end))
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
                Event::Head { slot, status, deviates: section.deviates, length: section.length, end }
            }
            Some(status @ 100..=199) if !one.head && !end && status != 101 && one.interims < MAX_INTERIM => {
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
