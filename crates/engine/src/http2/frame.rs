//! Frames as bytes (RFC 9113, 4.1 and 6), and the numbers in them.

/// Length of a frame's header.
pub const HEADER_BYTES: usize = 9;
/// Longest payload that the engine accepts: its SETTINGS never allow more (RFC 9113, 4.2).
pub const MAX_FRAME: usize = 16_384;
/// The first bytes of a client (RFC 9113, 3.4); its SETTINGS follow.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Largest window, and largest stream number: 31 bits.
pub const MAX_U31: u32 = 0x7fff_ffff;
/// The initial size of a window.
pub const DEFAULT_WINDOW: u32 = 65_535;

/// The kinds of frames (RFC 9113, 6). Others are ignored.
pub mod kind {
    #![allow(missing_docs)] // as the RFC names them
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// The flags (RFC 9113, 6).
pub mod flag {
    #![allow(missing_docs)]
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

/// The settings (RFC 9113, 6.5.2).
pub mod setting {
    #![allow(missing_docs)]
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// The error codes (RFC 9113, 7).
pub mod code {
    #![allow(missing_docs)]
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// An error code's name (RFC 9113, 7).
pub fn code_name(code: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).copied().unwrap_or("an unknown code")
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the payload.
    pub length: usize,
    /// Kind of the frame; see [`kind`].
    pub kind: u8,
    /// Flags; see [`flag`].
    pub flags: u8,
    /// Stream number; 0: the frame is about the connection.
    pub id: u32,
}

impl Header {
    /// Reads a header; the reserved bit is ignored.
    #[inline]
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [a, b, c, kind, flags, d, e, f, g] = *bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            id: u32::from_be_bytes([d, e, f, g]) & MAX_U31,
        }
    }

    /// Whether all of these flags are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Appends the header to `out`.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        let [d, e, f, g] = self.id.to_be_bytes();
        out.extend_from_slice(&[a, b, c, self.kind, self.flags, d, e, f, g]);
    }
}

/// Appends a whole frame.
pub fn write(out: &mut Vec<u8>, kind: u8, flags: u8, id: u32, payload: &[u8]) {
    Header { length: payload.len(), kind, flags, id }.write(out);
    out.extend_from_slice(payload);
}

/// Appends a SETTINGS frame.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    Header { length: 6 * settings.len(), kind: kind::SETTINGS, flags: 0, id: 0 }.write(out);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends a header block in as many frames as it needs (RFC 9113, 4.3); returns where in `out` each frame has its stream
/// number.
pub fn write_block(out: &mut Vec<u8>, block: &[u8], end_stream: bool, id: u32) -> Vec<usize> {
    let mut numbers = Vec::with_capacity(1);
    let count = block.len().div_ceil(MAX_FRAME).max(1);
    for index in 0..count {
        let piece = &block[index * MAX_FRAME..block.len().min((index + 1) * MAX_FRAME)];
        let ending = if index == count - 1 { flag::END_HEADERS } else { 0 };
        let (kind, flags) = match index {
            0 => (kind::HEADERS, ending | if end_stream { flag::END_STREAM } else { 0 }),
            _ => (kind::CONTINUATION, ending),
        };
        numbers.push(out.len() + 5);
        write(out, kind, flags, id, piece);
    }
    numbers
}

/// Four bytes as a number of 31 bits.
#[inline]
pub fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
