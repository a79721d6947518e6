//! Frames about the connection itself: SETTINGS, WINDOW_UPDATE and PING.

use super::super::frame::{self, HEADER_BYTES, Header, MAX_FRAME, MAX_U31, code, flag, kind, setting};
use super::{Broken, Connection, Event};

/// Maximum number of bytes of acknowledgements (PING, SETTINGS) that wait because the server does not read them.
const MAX_OWED: usize = 512 << 10;

impl Connection {
    pub(super) fn settings<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Event<'a>, Broken> {
        if header.has(flag::ACK) {
            return Ok(Event::More);
        }
        for entry in payload.chunks_exact(6) {
            self.set(
                u16::from_be_bytes([entry[0], entry[1]]),
                u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]),
            )?;
        }
        self.settled = true;
        self.acknowledge(kind::SETTINGS, &[])?;
        Ok(Event::Settings)
    }

    fn set(&mut self, name: u16, value: u32) -> Result<(), Broken> {
        let refused = |code, why| Err(Broken { code, why });
        match name {
            setting::MAX_CONCURRENT_STREAMS => self.allowed = value as usize,
            setting::HEADER_TABLE_SIZE => {
                self.table_size_due |= value < self.table_size;
                self.table_size = value;
            }
            setting::INITIAL_WINDOW_SIZE if value > MAX_U31 => {
                return refused(code::FLOW_CONTROL_ERROR, "SETTINGS with an initial window above 2^31 - 1");
            }
            setting::INITIAL_WINDOW_SIZE => {
                let change = i64::from(value) - self.initial_window;
                self.initial_window = i64::from(value);
                for slot in self.slots.iter_mut().filter(|slot| slot.id != 0) {
                    slot.window += change;
                    if slot.window > i64::from(MAX_U31) {
                        return refused(code::FLOW_CONTROL_ERROR, "SETTINGS that let a window pass 2^31 - 1");
                    }
                }
            }
            setting::MAX_FRAME_SIZE if !(MAX_FRAME as u32..=0x00ff_ffff).contains(&value) => {
                return refused(code::PROTOCOL_ERROR, "SETTINGS with a frame size that is not 2^14 to 2^24 - 1");
            }
            setting::MAX_FRAME_SIZE => self.max_frame = value as usize,
            setting::ENABLE_PUSH if value != 0 => {
                return refused(code::PROTOCOL_ERROR, "SETTINGS with ENABLE_PUSH, which a server must not send");
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn ping<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Event<'a>, Broken> {
        if !header.has(flag::ACK) {
            self.acknowledge(kind::PING, payload)?;
        }
        Ok(Event::More)
    }

    /// Queues an acknowledgement, as long as the server reads them.
    fn acknowledge(&mut self, kind: u8, payload: &[u8]) -> Result<(), Broken> {
        self.owed += HEADER_BYTES + payload.len();
        if self.owed > MAX_OWED {
            let why = "it sends PING or SETTINGS faster than it reads the acknowledgements";
            return Err(Broken { code: code::ENHANCE_YOUR_CALM, why });
        }
        frame::write(&mut self.out, kind, flag::ACK, 0, payload);
        Ok(())
    }

    pub(super) fn window_update<'a>(&mut self, header: Header, increment: u32) -> Result<Event<'a>, Broken> {
        let max_window = i64::from(MAX_U31);
        if header.id == 0 {
            self.window += i64::from(increment);
            return match increment {
                0 => Err(Broken { code: code::PROTOCOL_ERROR, why: "a WINDOW_UPDATE by 0" }),
                _ if self.window > max_window => {
                    Err(Broken { code: code::FLOW_CONTROL_ERROR, why: "a connection's window above 2^31 - 1" })
                }
                _ => Ok(Event::Room),
            };
        }
        let Some(slot) = self.slot_of(header.id) else { return Ok(Event::More) };
        self.slots[slot].window += i64::from(increment);
        if increment == 0 || self.slots[slot].window > max_window {
            return Ok(self.malformed(slot, "a WINDOW_UPDATE by 0, or to a window above 2^31 - 1"));
        }
        Ok(Event::Room)
    }
}
