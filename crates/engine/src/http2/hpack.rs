//! HPACK (RFC 7541): a decoder with its dynamic table, and an encoder without one.
//!
//! A crate does the Huffman code (RFC 7541, 5.2). Fields and table are done here, because the cache of header blocks needs
//! to know what crates don't report: whether a block changed the table, and whether it referred to it. See [`Effects`].

use httlib_huffman::DecoderSpeed;
use std::collections::VecDeque;

/// Size of the dynamic table that servers may fill: SETTINGS_HEADER_TABLE_SIZE's default, which the engine never changes.
pub const TABLE_BYTES: usize = 4096;
/// Size of a field in the table in addition to its bytes (RFC 7541, 4.1).
pub const FIELD_COST: usize = 32;
/// Larger integers are an error (RFC 7541, 5.1): nothing that the engine accepts is that long.
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

/// What decoding a block did to the dynamic table. If the same bytes come again, they mean the same only if the block did
/// not change the table, and did not refer to it or the table is unchanged since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// A field was inserted into the table, or the table's size was set.
    pub changed: bool,
    /// The table's size was set.
    pub resized: bool,
    /// Size in the table of the fields that were inserted, in bytes (RFC 7541, 4.1).
    pub inserted: usize,
    /// A field or a name was taken from the table.
    pub referred: bool,
}

/// What is wrong with a block.
pub type Fault = &'static str;

const CUT: Fault = "a header block ends within a field";

/// Name and value.
type Field = (Box<[u8]>, Box<[u8]>);

/// Decodes one direction of one connection.
#[derive(Debug)]
pub struct Decoder {
    /// Latest field first.
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
    /// Decodes a whole block and passes its fields to `field`. After an error the table can't be used any more.
    ///
    /// # Errors
    /// What is wrong with the block.
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
                    return Err(
                        "a header block sets the table's size at a place where it must not, or above the limit",
                    );
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

    /// RFC 7541, 4.4: a field that does not fit empties the table.
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
    // The crate accepts any padding, RFC 7541 only one. Each text has exactly one code, so different bytes mean different
    // padding.
    let mut again = Vec::with_capacity(length);
    httlib_huffman::encode(&to[begin..], &mut again).map_err(|_| BAD)?;
    if again == bytes { Ok(()) } else { Err(BAD) }
}

/// Appends an integer; `first` has the bits before the prefix.
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

/// Appends a field that does not use the dynamic table: an index into the static table if the field is there, otherwise a
/// literal without indexing (RFC 7541, 6.1 and 6.2.2). So the same bytes are valid on every connection, any number of times.
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

/// Appends a table size of 0 (RFC 7541, 6.3). It is required after a server has reduced its limit (4.2).
pub fn write_no_table(out: &mut Vec<u8>) {
    out.push(0x20);
}
