//! HPACK (RFC 7541): a decoder with its dynamic table, and what little an encoder needs that keeps no table.
//!
//! The Huffman code (RFC 7541, 5.2) is a crate's. Fields and table are here, as a client in a hot path needs to know what
//! crates don't tell: whether a block changed the table, and whether it referred to it. See [`Effects`].

use httlib_huffman::DecoderSpeed;
use std::collections::VecDeque;

/// Largest dynamic table that we let a server fill: SETTINGS_HEADER_TABLE_SIZE's default, which we never change.
pub const TABLE_BYTES: usize = 4096;
/// What a field costs besides its bytes (RFC 7541, 4.1).
pub const FIELD_COST: usize = 32;
/// Larger integers than this are a fault (RFC 7541, 5.1): nothing that we take is as long.
const MAX_INTEGER: usize = 1 << 24;

/// RFC 7541, appendix A; the first has index 1.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// What a block did besides telling fields. One that is met again, byte for byte, means the same only where it did not
/// change the table, and where it did not refer to it or nothing has changed it since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// A field was put into the table, or its size was set.
    pub changed: bool,
    /// Its size was set.
    pub resized: bool,
    /// What the fields that were put into it cost there, in bytes (RFC 7541, 4.1).
    pub inserted: usize,
    /// A field or a name came out of it.
    pub referred: bool,
}

/// What is wrong with a block.
pub type Fault = &'static str;

const CUT: Fault = "a header block ends within a field";

/// Name and value.
type Field = (Box<[u8]>, Box<[u8]>);

/// One direction of one connection.
#[derive(Debug)]
pub struct Decoder {
    /// The latest first.
    table: VecDeque<Field>,
    size: usize,
    limit: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { table: VecDeque::new(), size: 0, limit: TABLE_BYTES, name: Vec::new(), value: Vec::new() }
    }
}

impl Decoder {
    /// Reads a whole block and hands out its fields. After an error the table is of no use any more.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(&mut self, block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<Effects, Fault> {
        let (mut at, mut effects, mut begun) = (0, Effects::default(), false);
        while at < block.len() {
            let first = block[at];
            if first & 0x80 != 0 {
                let index = integer(block, &mut at, 7)?;
                let (name, value) = self.entry(index, &mut effects)?;
                field(name, value);
            } else if first & 0xe0 == 0x20 {
                let limit = integer(block, &mut at, 5)?;
                if begun || limit > TABLE_BYTES {
                    return Err("a header block sets the table's size where it may not, or beyond what we allow");
                }
                (effects.changed, effects.resized) = (true, true);
                self.resize(limit);
                continue;
            } else {
                let inserts = first & 0x40 != 0;
                let index = integer(block, &mut at, if inserts { 6 } else { 4 })?;
                let mut name = std::mem::take(&mut self.name);
                let mut value = std::mem::take(&mut self.value);
                name.clear();
                value.clear();
                if index == 0 {
                    string(block, &mut at, &mut name)?;
                } else {
                    name.extend_from_slice(self.entry(index, &mut effects)?.0);
                }
                string(block, &mut at, &mut value)?;
                field(&name, &value);
                if inserts {
                    effects.changed = true;
                    effects.inserted += name.len() + value.len() + FIELD_COST;
                    self.insert(&name, &value);
                }
                (self.name, self.value) = (name, value);
            }
            begun = true;
        }
        Ok(effects)
    }

    fn entry(&self, index: usize, effects: &mut Effects) -> Result<(&[u8], &[u8]), Fault> {
        const NONE: Fault = "a header block refers to a field that is not in the table";
        let place = index.checked_sub(1).ok_or(NONE)?;
        if let Some((name, value)) = STATIC.get(place) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        effects.referred = true;
        self.table.get(place - STATIC.len()).map(|(name, value)| (&**name, &**value)).ok_or(NONE)
    }

    /// RFC 7541, 4.4: what does not fit empties the table.
    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let cost = name.len() + value.len() + FIELD_COST;
        self.shrink(self.limit.saturating_sub(cost));
        if cost <= self.limit {
            self.size += cost;
            self.table.push_front((name.into(), value.into()));
        }
    }

    fn resize(&mut self, limit: usize) {
        self.limit = limit;
        self.shrink(limit);
    }

    fn shrink(&mut self, most: usize) {
        while self.size > most {
            let Some((name, value)) = self.table.pop_back() else { return };
            self.size -= name.len() + value.len() + FIELD_COST;
        }
    }
}

/// RFC 7541, 5.1.
fn integer(block: &[u8], at: &mut usize, bits: u32) -> Result<usize, Fault> {
    let mask = (1usize << bits) - 1;
    let mut value = *block.get(*at).ok_or(CUT)? as usize & mask;
    *at += 1;
    if value < mask {
        return Ok(value);
    }
    for shift in (0..28).step_by(7) {
        let byte = *block.get(*at).ok_or(CUT)? as usize;
        *at += 1;
        value += (byte & 0x7f) << shift;
        if value > MAX_INTEGER {
            break;
        }
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a header block has an integer that is too large")
}

/// RFC 7541, 5.2; appended to `to`.
fn string(block: &[u8], at: &mut usize, to: &mut Vec<u8>) -> Result<(), Fault> {
    let coded = *block.get(*at).ok_or(CUT)? & 0x80 != 0;
    let length = integer(block, at, 7)?;
    let bytes = block.get(*at..*at + length).ok_or(CUT)?;
    *at += length;
    if !coded {
        to.extend_from_slice(bytes);
        return Ok(());
    }
    const BAD: Fault = "a header block has a bad Huffman code";
    let begin = to.len();
    httlib_huffman::decode(bytes, to, DecoderSpeed::FiveBits).map_err(|_| BAD)?;
    // The crate takes any padding, RFC 7541 one only. A text has one code: what is coded otherwise is padded otherwise.
    let mut again = Vec::with_capacity(length);
    httlib_huffman::encode(&to[begin..], &mut again).map_err(|_| BAD)?;
    if again == bytes { Ok(()) } else { Err(BAD) }
}

/// Appends an integer; `first` has the bits before its prefix.
fn write_integer(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let mask = (1usize << bits) - 1;
    if value < mask {
        return out.push(first | value as u8);
    }
    out.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    write_integer(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// Appends a field that touches no dynamic table: indexed where the static one has it, else a literal that is not to be
/// indexed (RFC 7541, 6.1 and 6.2.2). So the same bytes are right on every connection, as often as they are sent.
pub fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if let Some(index) = STATIC.iter().position(|(known, same)| *known == name && same.as_bytes() == value) {
        return write_integer(out, 0x80, 7, index + 1);
    }
    match STATIC.iter().position(|(known, _)| *known == name) {
        Some(index) => write_integer(out, 0, 4, index + 1),
        None => {
            out.push(0);
            write_string(out, name.as_bytes());
        }
    }
    write_string(out, value);
}

/// Appends the word that we keep no table (RFC 7541, 6.3): due where a server allows a smaller one than before (4.2).
pub fn write_no_table(out: &mut Vec<u8>) {
    out.push(0x20);
}
