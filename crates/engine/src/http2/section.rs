//! What a header block says, as far as a load generator asks: status, length, and whether it is sound. Blocks that repeat
//! themselves are not read again.

use super::HEAD_LIMIT;
use super::frame::code;
use super::hpack::{Decoder, FIELD_COST, TABLE_BYTES};
use crate::heads::ExpectedHeads;
use std::collections::VecDeque;

/// Blocks known by heart, per connection: one for each kind of answer that a server gives in turn.
const MAX_KNOWN: usize = 4;
/// Longer ones are read each time.
const MAX_KNOWN_BYTES: usize = 1024;

/// What a block of fields says (RFC 9113, 8.1 and 8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// `:status`; None in trailers.
    pub status: Option<u16>,
    /// `content-length`.
    pub length: Option<u64>,
    /// A bit for each kind of request: it is a head, and not as those of the reference responses.
    pub deviates: u64,
    /// Why the message is malformed, if it is.
    pub fault: Option<&'static str>,
}

/// Gathers a section field by field.
#[derive(Debug, Default)]
struct Gathering {
    section: Section,
    /// A regular field has come: no pseudo-header may.
    regular: bool,
    /// RFC 9113, 6.5.2.
    list_bytes: usize,
    /// Where heads are compared: the fields.
    fields: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

/// Fields that HTTP/2 does not have (RFC 9113, 8.2.2).
const CONNECTION_SPECIFIC: [&[u8]; 5] =
    [b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"];

impl Gathering {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        self.list_bytes += name.len() + value.len() + FIELD_COST;
        if self.list_bytes > HEAD_LIMIT {
            return self.fault("its header list is longer than 64 KiB");
        }
        if name == b":status" {
            let sound = value.len() == 3 && value.iter().all(u8::is_ascii_digit) && value[0] != b'0';
            if self.regular || self.section.status.is_some() || !sound {
                return self.fault("its :status is no status, or not where it should be");
            }
            let digit = |at: usize| u16::from(value[at] - b'0');
            self.section.status = Some(100 * digit(0) + 10 * digit(1) + digit(2));
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
        match (given, self.section.length) {
            (Some(given), None) => self.section.length = Some(given),
            (Some(given), Some(known)) if given == known => {}
            _ => self.fault("its content-length is no length, or there are two that differ"),
        }
    }

    fn fault(&mut self, why: &'static str) {
        self.section.fault.get_or_insert(why);
    }
}

/// A name in lower case (RFC 9113, 8.2.1) of a token's characters; no pseudo-header.
fn name_is_sound(name: &[u8]) -> bool {
    let sound = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~');
    !name.is_empty() && name.iter().all(sound)
}

/// RFC 9113, 8.2.1: what could end a line elsewhere, and white space around it.
fn value_is_sound(value: &[u8]) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    !value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) && !outer(value.first()) && !outer(value.last())
}

/// Where a block is known by heart, as long as it is; see [`Sections::holds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    at: u8,
    number: u64,
}

/// A block that was read, and when it means the same again.
#[derive(Debug)]
struct Known {
    /// Counts blocks that were learned: no two have the same.
    number: u64,
    bytes: Vec<u8>,
    section: Section,
    /// The state of the table that it referred to; None: it referred to the static one only.
    state: Option<u64>,
    /// What the fields cost that it puts into the table at each meeting.
    inserts: usize,
}

/// Reads one connection's header blocks.
///
/// A block that refers to the dynamic table means the same as long as the table is in the same state, which is counted.
/// All others always do. One that puts fields into the table does so at each meeting. Where a server never refers to them
/// (nginx does not), that is put off until somebody looks; only the latest blocks count then, which fill the table.
/// One that sets the table's size, or refers to the table and changes it, is read each time.
#[derive(Debug, Default)]
pub struct Sections {
    decoder: Decoder,
    /// How often the table was changed.
    state: u64,
    known: Vec<Known>,
    /// How many were learned.
    learned: u64,
    /// Whose place the next one takes.
    oldest: usize,
    /// Known blocks whose fields the table has not got yet, in the order of their meetings.
    put_off: VecDeque<u8>,
    /// What all of these fields cost.
    put_off_bytes: usize,
    /// What heads look like, by the kind of request; empty: they are not compared.
    expected: Vec<ExpectedHeads>,
    /// In what the latest one deviated that did.
    deviation: Box<str>,
}

impl Sections {
    /// Heads are to be compared with these from now on, by the kind of request.
    pub fn expect(&mut self, heads: &[ExpectedHeads]) {
        self.expected = heads.to_vec();
    }

    /// In what the latest head deviates that did.
    pub fn deviation(&self) -> &str {
        &self.deviation
    }

    /// What a block says.
    ///
    /// # Errors
    /// What is wrong with its coding, which ends the connection (RFC 9113, 4.3), as a code and in words.
    #[inline]
    pub fn read(&mut self, block: &[u8]) -> Result<Section, (u32, &'static str)> {
        match self.at(block) {
            Some(at) => Ok(self.meet(at)),
            None => self.decode(block),
        }
    }

    fn at(&self, block: &[u8]) -> Option<usize> {
        self.known.iter().position(|known| known.bytes == block && self.means_the_same(known))
    }

    #[inline]
    fn means_the_same(&self, known: &Known) -> bool {
        known.state.is_none_or(|state| state == self.state)
    }

    /// Where a block is known by heart, if it is, and what it says.
    pub fn find(&self, block: &[u8]) -> Option<(Place, Section)> {
        let at = self.at(block)?;
        let Known { number, section, .. } = self.known[at];
        Some((Place { at: at as u8, number }, section))
    }

    /// Whether the block that was found in a place is still there, and would mean the same if it came now.
    #[inline]
    pub fn holds(&self, place: Place) -> bool {
        let known = &self.known[usize::from(place.at)];
        known.number == place.number && self.means_the_same(known)
    }

    /// The block in a place that [`Sections::holds`] has come.
    #[inline]
    pub fn met(&mut self, place: Place) {
        self.meet(usize::from(place.at));
    }

    #[inline]
    fn meet(&mut self, at: usize) -> Section {
        let Known { section, inserts, .. } = self.known[at];
        if inserts > 0 {
            self.put_off(at, inserts);
        }
        section
    }

    fn put_off(&mut self, place: usize, inserts: usize) {
        self.state += 1;
        self.put_off.push_back(place as u8);
        self.put_off_bytes += inserts;
        // What those behind the first put in leaves no room for its own.
        while let Some(first) = self.put_off.front().map(|place| self.known[usize::from(*place)].inserts)
            && self.put_off_bytes - first >= TABLE_BYTES
        {
            self.put_off.pop_front();
            self.put_off_bytes -= first;
        }
    }

    /// Puts into the table what was put off.
    fn catch_up(&mut self) -> Result<(), &'static str> {
        self.put_off_bytes = 0;
        for place in self.put_off.drain(..) {
            self.decoder.decode(&self.known[usize::from(place)].bytes, |_, _| {})?;
        }
        Ok(())
    }

    #[cold]
    fn decode(&mut self, block: &[u8]) -> Result<Section, (u32, &'static str)> {
        let fields = (!self.expected.is_empty()).then(Vec::new);
        let mut gathering = Gathering { fields, ..Gathering::default() };
        let caught_up = self.catch_up();
        let effects = caught_up.and_then(|()| self.decoder.decode(block, |name, value| gathering.take(name, value)));
        let effects = effects.map_err(|why| (code::COMPRESSION_ERROR, why))?;
        self.compare(&mut gathering);
        if effects.changed {
            self.state += 1;
        }
        if block.len() <= MAX_KNOWN_BYTES && !effects.resized && !(effects.changed && effects.referred) {
            let state = effects.referred.then_some(self.state);
            self.learned += 1;
            let (number, bytes) = (self.learned, block.to_vec());
            self.learn(Known { number, bytes, section: gathering.section, state, inserts: effects.inserted });
        }
        Ok(gathering.section)
    }

    /// Holds a head against those of the reference responses.
    fn compare(&mut self, gathering: &mut Gathering) {
        let Some(fields) = gathering.fields.take().filter(|_| gathering.section.status >= Some(200)) else { return };
        for (kind, expected) in self.expected.iter().enumerate() {
            let fields = fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
            if let Some(deviation) = expected.deviation(fields) {
                gathering.section.deviates |= 1 << kind;
                self.deviation = deviation;
            }
        }
    }

    /// In place of the same bytes in another state of the table, or of one that never fits again, or of the oldest.
    fn learn(&mut self, known: Known) {
        let stale = |other: &Known| other.bytes == known.bytes || other.state.is_some_and(|state| state != self.state);
        match self.known.iter().position(stale) {
            Some(place) => self.known[place] = known,
            None if self.known.len() < MAX_KNOWN => self.known.push(known),
            None => {
                self.known[self.oldest] = known;
                self.oldest = (self.oldest + 1) % MAX_KNOWN;
            }
        }
    }

    /// Bytes held.
    pub fn held_bytes(&self) -> usize {
        self.known.iter().map(|known| known.bytes.capacity()).sum::<usize>() + self.put_off.capacity()
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

    fn plainly(decoder: &mut Decoder, block: &[u8]) -> Result<Section, (u32, &'static str)> {
        let mut gathering = Gathering::default();
        let read = decoder.decode(block, |name, value| gathering.take(name, value));
        read.map(|_| gathering.section).map_err(|why| (code::COMPRESSION_ERROR, why))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// However blocks repeat and whatever they do to the table between, knowing them by heart changes nothing.
        #[test]
        fn what_is_known_by_heart_is_what_reading_would_say(
            few in blocks(),
            order in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
        ) {
            let (mut sections, mut decoder) = (Sections::default(), Decoder::default());
            for which in order {
                let block = which.get(&few);
                let (told, plain) = (sections.read(block), plainly(&mut decoder, block));
                prop_assert_eq!(&told, &plain);
                if plain.is_err() {
                    break; // the connection is over
                }
            }
        }
    }

    #[test]
    fn a_repeated_block_fills_the_table_each_time() {
        let mut sections = Sections::default();
        let inserts = [0x48, 3, b'2', b'0', b'1']; // :status 201, into the table
        for _ in 0..3 {
            assert_eq!(sections.read(&inserts).unwrap().status, Some(201));
        }
        let (first, third, fourth) = ([0x80 | 62], [0x80 | 64], [0x80 | 65]);
        assert_eq!(sections.read(&first).unwrap().status, Some(201));
        assert_eq!(sections.read(&third).unwrap().status, Some(201));
        assert!(sections.read(&fourth).is_err(), "three were put in, and no fourth");
    }

    #[test]
    fn what_was_put_off_is_in_the_table_when_somebody_looks_however_often_it_came() {
        let [first, second] = [b'1', b'2'].map(|digit| [0x48, 3, b'2', b'0', digit]); // :status, into the table
        for (times, last) in [(1, false), (2, true), (200, true), (1000, false)] {
            let (mut sections, mut decoder) = (Sections::default(), Decoder::default());
            let blocks = std::iter::repeat_n(first, times).chain(last.then_some(second));
            for block in blocks {
                assert_eq!(sections.read(&block), plainly(&mut decoder, &block));
            }
            assert!(sections.put_off.len() <= TABLE_BYTES / FIELD_COST + 1);
            for index in 62..127 {
                assert_eq!(sections.read(&[0x80 | index]), plainly(&mut decoder, &[0x80 | index]), "{index}");
            }
        }
    }

    #[test]
    fn a_block_that_refers_to_the_table_is_read_anew_once_the_table_has_changed() {
        let mut sections = Sections::default();
        sections.read(&[0x48, 3, b'2', b'0', b'1']).unwrap();
        let refers = [0x80 | 62];
        assert_eq!(sections.read(&refers).unwrap().status, Some(201));
        assert_eq!(sections.read(&refers).unwrap().status, Some(201));
        sections.read(&[0x48, 3, b'2', b'0', b'2']).unwrap();
        assert_eq!(sections.read(&refers).unwrap().status, Some(202));
    }

    #[test]
    fn memory_for_known_blocks_is_bounded() {
        let mut sections = Sections::default();
        for value in 0..10_000u32 {
            let text = format!("{value:0900}");
            let mut block = vec![0x88];
            super::super::hpack::write_field(&mut block, "x-long", text.as_bytes());
            assert_eq!(sections.read(&block).unwrap().status, Some(200));
        }
        assert!(sections.held_bytes() <= MAX_KNOWN * MAX_KNOWN_BYTES);
    }
}
