//! What a header block says, as far as a load generator needs it: status, length, and whether the block is valid. Blocks
//! that repeat an earlier one are taken from a cache instead of being decoded again.

use super::HEAD_LIMIT;
use super::frame::code;
use super::hpack::{Decoder, FIELD_COST, TABLE_BYTES};
use crate::heads::ExpectedHeads;
use std::collections::VecDeque;

/// Cached blocks per connection: one for each kind of response that a server sends in turn.
const MAX_CACHED: usize = 4;
/// Longer blocks are decoded each time.
const MAX_CACHED_BYTES: usize = 1024;

/// What a header block says (RFC 9113, 8.1 and 8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderInfo {
    /// `:status`; None in trailers.
    pub status: Option<u16>,
    /// `content-length`.
    pub length: Option<u64>,
    /// One bit per kind of request: this is a head, and it differs from that kind's reference responses.
    pub deviates: u64,
    /// Why the message is malformed, if it is.
    pub fault: Option<&'static str>,
}

/// Reads a header block field by field.
#[derive(Debug, Default)]
struct FieldReader {
    info: HeaderInfo,
    /// A regular field has come: pseudo-headers are no longer allowed.
    regular: bool,
    /// Size of the header list (RFC 9113, 6.5.2).
    list_bytes: usize,
    /// All fields, if heads are compared.
    fields: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

/// Fields that HTTP/2 forbids (RFC 9113, 8.2.2).
const CONNECTION_SPECIFIC: [&[u8]; 5] =
    [b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"];

impl FieldReader {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        self.list_bytes += name.len() + value.len() + FIELD_COST;
        if self.list_bytes > HEAD_LIMIT {
            return self.fault("its header list is longer than 64 KiB");
        }
        if name == b":status" {
            let sound = value.len() == 3 && value.iter().all(u8::is_ascii_digit) && value[0] != b'0';
            if self.regular || self.info.status.is_some() || !sound {
                return self.fault("its :status is not a valid status, or is in the wrong place");
            }
            let digit = |at: usize| u16::from(value[at] - b'0');
            self.info.status = Some(100 * digit(0) + 10 * digit(1) + digit(2));
            return;
        }
        self.regular = true;
        if let Some(fields) = &mut self.fields {
            fields.push((name.to_vec(), value.to_vec()));
        }
        if !name_is_sound(name) || !value_is_sound(value) {
            return self
                .fault("it has a header that HTTP/2 does not allow: upper case, a pseudo-header, or a control byte");
        }
        if name == b"content-length" {
            return self.length(value);
        }
        if CONNECTION_SPECIFIC.contains(&name) {
            self.fault("it has a header of HTTP/1 connections (connection, keep-alive, transfer-encoding, upgrade)");
        }
    }

    fn length(&mut self, value: &[u8]) {
        let digits = !value.is_empty() && value.len() < 20 && value.iter().all(u8::is_ascii_digit);
        let given = digits.then(|| value.iter().fold(0u64, |sum, byte| 10 * sum + u64::from(byte - b'0')));
        match (given, self.info.length) {
            (Some(given), None) => self.info.length = Some(given),
            (Some(given), Some(known)) if given == known => {}
            _ => self.fault("its content-length is not a valid length, or it has two that differ"),
        }
    }

    fn fault(&mut self, why: &'static str) {
        self.info.fault.get_or_insert(why);
    }
}

/// Whether a name consists of a token's characters in lower case (RFC 9113, 8.2.1) and is not a pseudo-header.
fn name_is_sound(name: &[u8]) -> bool {
    let sound = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~');
    !name.is_empty() && name.iter().all(sound)
}

/// Whether a value has no byte that could end a line elsewhere, and no white space around it (RFC 9113, 8.2.1).
fn value_is_sound(value: &[u8]) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    !value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) && !outer(value.first()) && !outer(value.last())
}

/// Where a block is cached; see [`HeaderCache::is_valid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSlot {
    at: u8,
    number: u64,
}

/// A decoded block, and when its meaning is still the same.
#[derive(Debug)]
struct CachedBlock {
    /// Unique: counts the blocks that were stored.
    number: u64,
    bytes: Vec<u8>,
    info: HeaderInfo,
    /// The state of the dynamic table that the block referred to; None: it referred only to the static table.
    state: Option<u64>,
    /// Size in the table of the fields that the block inserts each time it comes.
    inserts: usize,
}

/// Reads one connection's header blocks, and caches the latest ones.
///
/// A block that refers to the dynamic table stays valid until the table changes; `state` counts the changes. All other
/// blocks always mean the same. A block that inserts fields into the table does so each time it comes. A server may never
/// refer to these fields (nginx does not), so the inserts are deferred until a block has to be decoded. Then only the
/// latest blocks matter, whose fields fill the table. A block that sets the table's size, or both refers to the table and
/// changes it, is decoded each time.
#[derive(Debug, Default)]
pub struct HeaderCache {
    decoder: Decoder,
    /// How often the table was changed.
    state: u64,
    blocks: Vec<CachedBlock>,
    /// How many blocks were stored.
    stored: u64,
    /// The slot that is overwritten next.
    oldest: usize,
    /// Slots of cached blocks whose inserts are still to be applied to the table, in the order in which they came.
    deferred: VecDeque<u8>,
    /// Total size of these inserts.
    deferred_bytes: usize,
    /// Expected heads by kind of request; empty: heads are not compared.
    expected: Vec<ExpectedHeads>,
    /// How the latest head that differed from the reference responses did so.
    deviation: Box<str>,
}

impl HeaderCache {
    /// Compares heads with these from now on, by kind of request.
    pub fn expect(&mut self, heads: &[ExpectedHeads]) {
        self.expected = heads.to_vec();
    }

    /// How the latest head that differed from the reference responses did so.
    pub fn deviation(&self) -> &str {
        &self.deviation
    }

    /// What a block says.
    ///
    /// # Errors
    /// The block can't be decoded, which ends the connection (RFC 9113, 4.3): error code and reason.
    #[inline]
    pub fn read(&mut self, block: &[u8]) -> Result<HeaderInfo, (u32, &'static str)> {
        match self.position(block) {
            Some(at) => Ok(self.recall(at)),
            None => self.decode(block),
        }
    }

    fn position(&self, block: &[u8]) -> Option<usize> {
        self.blocks.iter().position(|known| known.bytes == block && self.is_current(known))
    }

    #[inline]
    fn is_current(&self, known: &CachedBlock) -> bool {
        known.state.is_none_or(|state| state == self.state)
    }

    /// Where a block is cached, if it is, and what it says.
    pub fn find(&self, block: &[u8]) -> Option<(CacheSlot, HeaderInfo)> {
        let at = self.position(block)?;
        let CachedBlock { number, info, .. } = self.blocks[at];
        Some((CacheSlot { at: at as u8, number }, info))
    }

    /// Whether the block that was found in a slot is still there, and would mean the same if it came now.
    #[inline]
    pub fn is_valid(&self, slot: CacheSlot) -> bool {
        let known = &self.blocks[usize::from(slot.at)];
        known.number == slot.number && self.is_current(known)
    }

    /// Records that the block in a valid slot has come again; see [`HeaderCache::is_valid`].
    #[inline]
    pub fn repeat(&mut self, slot: CacheSlot) {
        self.recall(usize::from(slot.at));
    }

    #[inline]
    fn recall(&mut self, at: usize) -> HeaderInfo {
        let CachedBlock { info, inserts, .. } = self.blocks[at];
        if inserts > 0 {
            self.defer_inserts(at, inserts);
        }
        info
    }

    fn defer_inserts(&mut self, slot: usize, inserts: usize) {
        self.state += 1;
        self.deferred.push_back(slot as u8);
        self.deferred_bytes += inserts;
        // The inserts after the first one leave no room for its fields.
        while let Some(first) = self.deferred.front().map(|slot| self.blocks[usize::from(*slot)].inserts)
            && self.deferred_bytes - first >= TABLE_BYTES
        {
            self.deferred.pop_front();
            self.deferred_bytes -= first;
        }
    }

    /// Applies the deferred inserts to the table.
    fn apply_deferred(&mut self) -> Result<(), &'static str> {
        self.deferred_bytes = 0;
        for slot in self.deferred.drain(..) {
            self.decoder.decode(&self.blocks[usize::from(slot)].bytes, |_, _| {})?;
        }
        Ok(())
    }

    #[cold]
    fn decode(&mut self, block: &[u8]) -> Result<HeaderInfo, (u32, &'static str)> {
        let fields = (!self.expected.is_empty()).then(Vec::new);
        let mut reader = FieldReader { fields, ..FieldReader::default() };
        let applied = self.apply_deferred();
        let effects = applied.and_then(|()| self.decoder.decode(block, |name, value| reader.take(name, value)));
        let effects = effects.map_err(|why| (code::COMPRESSION_ERROR, why))?;
        self.compare(&mut reader);
        if effects.changed {
            self.state += 1;
        }
        if block.len() <= MAX_CACHED_BYTES && !effects.resized && !(effects.changed && effects.referred) {
            let state = effects.referred.then_some(self.state);
            self.stored += 1;
            let (number, bytes) = (self.stored, block.to_vec());
            self.store(CachedBlock { number, bytes, info: reader.info, state, inserts: effects.inserted });
        }
        Ok(reader.info)
    }

    /// Compares a head with the heads of the reference responses.
    fn compare(&mut self, reader: &mut FieldReader) {
        let Some(fields) = reader.fields.take().filter(|_| reader.info.status >= Some(200)) else { return };
        for (kind, expected) in self.expected.iter().enumerate() {
            let fields = fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
            if let Some(deviation) = expected.deviation(fields) {
                reader.info.deviates |= 1 << kind;
                self.deviation = deviation;
            }
        }
    }

    /// Overwrites the same bytes of another state of the table, or a block that is no longer valid, or the oldest one.
    fn store(&mut self, block: CachedBlock) {
        let stale =
            |other: &CachedBlock| other.bytes == block.bytes || other.state.is_some_and(|state| state != self.state);
        match self.blocks.iter().position(stale) {
            Some(slot) => self.blocks[slot] = block,
            None if self.blocks.len() < MAX_CACHED => self.blocks.push(block),
            None => {
                self.blocks[self.oldest] = block;
                self.oldest = (self.oldest + 1) % MAX_CACHED;
            }
        }
    }

    /// Bytes of memory in use.
    pub fn held_bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes.capacity()).sum::<usize>() + self.deferred.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A server's block: fields out of few, so that they repeat, coded with or without the table, and its size set.
    fn blocks() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let field = prop_oneof![
            (2u8..70).prop_map(|index| vec![0x80 | index.min(0x7e)]), // static, or whatever the table has there
            (0u8..6).prop_map(|value| vec![0x48, 3, b'2', b'0', b'0' + value]), // :status, into the table
            (0u8..6).prop_map(|value| vec![0x5c, 1, b'0' + value]),   // content-length, into the table
            (0u8..6).prop_map(|value| vec![0x0f, 0x0d, 1, b'0' + value]), // content-length, not into it
            (62u8..70).prop_map(|index| vec![0x0f, index - 15, 1, b'7']), // a name out of the table
            Just(vec![0x08, 3, b'2', b'0', b'0']),
        ];
        let block = (prop::option::of(0u8..30), prop::collection::vec(field, 1..5)).prop_map(|(size, fields)| {
            let mut block: Vec<u8> = size.into_iter().map(|size| 0x20 | size).collect();
            block.extend(fields.concat());
            block
        });
        prop::collection::vec(block, 1..6)
    }

    fn plainly(decoder: &mut Decoder, block: &[u8]) -> Result<HeaderInfo, (u32, &'static str)> {
        let mut reader = FieldReader::default();
        let read = decoder.decode(block, |name, value| reader.take(name, value));
        read.map(|_| reader.info).map_err(|why| (code::COMPRESSION_ERROR, why))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// However blocks repeat and change the table, the cache gives the same results as plain decoding.
        #[test]
        fn cached_blocks_mean_what_decoding_would_say(
            few in blocks(),
            order in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
        ) {
            let (mut cache, mut decoder) = (HeaderCache::default(), Decoder::default());
            for which in order {
                let block = which.get(&few);
                let (cached, plain) = (cache.read(block), plainly(&mut decoder, block));
                prop_assert_eq!(&cached, &plain);
                if plain.is_err() {
                    break; // the connection is over
                }
            }
        }
    }

    #[test]
    fn a_repeated_block_fills_the_table_each_time() {
        let mut cache = HeaderCache::default();
        let inserts = [0x48, 3, b'2', b'0', b'1']; // :status 201, into the table
        for _ in 0..3 {
            assert_eq!(cache.read(&inserts).unwrap().status, Some(201));
        }
        let (first, third, fourth) = ([0x80 | 62], [0x80 | 64], [0x80 | 65]);
        assert_eq!(cache.read(&first).unwrap().status, Some(201));
        assert_eq!(cache.read(&third).unwrap().status, Some(201));
        assert!(cache.read(&fourth).is_err(), "three were inserted, not four");
    }

    #[test]
    fn deferred_inserts_are_in_the_table_when_a_block_refers_to_it() {
        let [first, second] = [b'1', b'2'].map(|digit| [0x48, 3, b'2', b'0', digit]); // :status, into the table
        for (times, last) in [(1, false), (2, true), (200, true), (1000, false)] {
            let (mut cache, mut decoder) = (HeaderCache::default(), Decoder::default());
            let blocks = std::iter::repeat_n(first, times).chain(last.then_some(second));
            for block in blocks {
                assert_eq!(cache.read(&block), plainly(&mut decoder, &block));
            }
            assert!(cache.deferred.len() <= TABLE_BYTES / FIELD_COST + 1);
            for index in 62..127 {
                assert_eq!(cache.read(&[0x80 | index]), plainly(&mut decoder, &[0x80 | index]), "{index}");
            }
        }
    }

    #[test]
    fn a_block_that_refers_to_the_table_is_decoded_again_once_the_table_has_changed() {
        let mut cache = HeaderCache::default();
        cache.read(&[0x48, 3, b'2', b'0', b'1']).unwrap();
        let refers = [0x80 | 62];
        assert_eq!(cache.read(&refers).unwrap().status, Some(201));
        assert_eq!(cache.read(&refers).unwrap().status, Some(201));
        cache.read(&[0x48, 3, b'2', b'0', b'2']).unwrap();
        assert_eq!(cache.read(&refers).unwrap().status, Some(202));
    }

    #[test]
    fn memory_for_cached_blocks_is_bounded() {
        let mut cache = HeaderCache::default();
        for value in 0..10_000u32 {
            let text = format!("{value:0900}");
            let mut block = vec![0x88];
            super::super::hpack::write_field(&mut block, "x-long", text.as_bytes());
            assert_eq!(cache.read(&block).unwrap().status, Some(200));
        }
        assert!(cache.held_bytes() <= MAX_CACHED * MAX_CACHED_BYTES);
    }
}
