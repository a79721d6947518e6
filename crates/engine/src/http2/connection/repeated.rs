//! Answers that repeat a right one byte for byte are compared with it, and not read.
//!
//! A server that serves one handler says the same thing again and again: but for the stream's number, an answer is the one
//! before. What was read and judged right once is kept as a *model*. Bytes that equal it mean the same, as long as the
//! model's header block would: [`Sections`](super::super::section::Sections) says so.

use super::super::frame::{HEADER_BYTES, Header, MAX_FRAME, flag, kind};
use super::super::section::Place;
use super::Connection;

/// Models of one connection: as many as header blocks are known by heart.
const MAX_MODELS: usize = 4;
/// Longer answers are read each time: that is little beside comparing their bodies.
const MAX_MODEL_BYTES: usize = 4096;
/// Where a frame's header has its stream's number.
const NUMBER: usize = 5;
/// After so many models that no answer repeated, so many right answers are not kept: a server that says something else
/// each time is not to be copied for nothing.
const MAX_WASTED: u32 = 32;
const NOT_KEPT: u32 = 1024;

/// A connection's models.
#[derive(Debug, Default)]
pub(super) struct Models {
    /// The one that came last at the front.
    all: Vec<Model>,
    /// Those that were replaced without having been repeated, since the last pause.
    wasted: u32,
    /// Right answers that are not to be kept.
    pause: u32,
}

impl Models {
    pub(super) fn held_bytes(&self) -> usize {
        self.all.iter().map(|model| model.bytes.len()).sum()
    }

    /// Whether another one is worth its copy.
    fn wanted(&mut self) -> bool {
        if self.wasted >= MAX_WASTED {
            (self.wasted, self.pause) = (0, NOT_KEPT);
        }
        let wanted = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        wanted
    }

    fn add(&mut self, model: Model) {
        let same = |other: &mut Model| other.bytes.len() == model.bytes.len() && other.stream(&model.bytes).is_some();
        match self.all.iter_mut().find_map(|other| same(other).then_some(other)) {
            Some(other) if other.place == model.place => other.requests |= model.requests,
            Some(other) => *other = model,
            None => {
                if self.all.len() == MAX_MODELS {
                    self.wasted += u32::from(self.all.pop().is_some_and(|oldest| !oldest.repeated));
                }
                self.all.insert(0, model);
            }
        }
    }
}

/// A whole answer that was right: a HEADERS frame, then a DATA frame that ends it.
#[derive(Debug)]
pub(super) struct Model {
    bytes: Box<[u8]>,
    /// Where in it the DATA frame's stream number is.
    second: usize,
    /// Bytes of body.
    length: u32,
    status: u16,
    place: Place,
    /// The requests that it is right for, a bit each.
    requests: u64,
    /// An answer has repeated it.
    repeated: bool,
}

impl Model {
    /// The stream of the answer that the input begins with, if that is this one. The number is put into both frames here,
    /// so that one comparison is enough.
    #[inline]
    fn stream(&mut self, input: &[u8]) -> Option<u32> {
        let input = input.get(..self.bytes.len())?;
        let id: [u8; 4] = input.get(NUMBER..)?.first_chunk().copied()?;
        *self.bytes.get_mut(NUMBER..)?.first_chunk_mut()? = id;
        *self.bytes.get_mut(self.second..)?.first_chunk_mut()? = id;
        (*self.bytes == *input).then_some(u32::from_be_bytes(id))
    }
}

/// Right answers that were known by heart, one behind the other; their streams are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// Of all of them.
    pub status: u16,
    /// How many bytes they were.
    pub bytes: usize,
}

impl Connection {
    /// Takes answers off the beginning of what arrived as long as they are the same one that [`Connection::remember`] was
    /// given, to requests that it is right for, and adds their slots to `slots`. None: nothing is taken, and
    /// [`Connection::next`] tells what it is.
    #[inline]
    pub fn repeated(&mut self, input: &[u8], slots: &mut Vec<u32>) -> Option<Repeated> {
        if self.models.all.is_empty() || !self.between_frames() {
            return None;
        }
        let known = &mut self.models.all;
        let (at, id) = known.iter_mut().enumerate().find_map(|(at, model)| Some((at, model.stream(input)?)))?;
        known.swap(0, at);
        let (mut next, mut taken) = (Some(id), 0);
        while let Some(id) = next
            && let Some(slot) = self.repeats(id)
        {
            taken += self.models.all[0].bytes.len();
            slots.push(slot);
            next = self.models.all[0].stream(&input[taken..]);
        }
        self.models.all[0].repeated |= taken > 0;
        (taken > 0).then(|| Repeated { status: self.models.all[0].status, bytes: taken })
    }

    /// Ends the stream that the first model has come on, if that is right there.
    #[inline]
    fn repeats(&mut self, id: u32) -> Option<u32> {
        let slot = self.slot_of(id).filter(|_| id != 0)?;
        let Model { length, place, requests, .. } = self.models.all[0];
        let one = &self.slots[slot];
        let due = !one.head && one.whole && one.request < u64::BITS && requests >> one.request & 1 == 1;
        if !due || !self.sections.holds(place) {
            return None;
        }
        self.sections.met(place);
        self.received += u64::from(length);
        self.renew();
        self.forget(slot);
        Some(slot as u32)
    }

    /// Keeps an answer that was right for a request: all of its bytes, from the first one of its HEADERS frame. Whatever
    /// does not suit is not kept: other frames between, padding, a header block that can't be known by heart.
    pub fn remember(&mut self, answer: &[u8], request: u32) {
        if self.models.wanted()
            && let Some(model) = self.model(answer, request)
        {
            self.models.add(model);
        }
    }

    fn model(&self, answer: &[u8], request: u32) -> Option<Model> {
        if answer.len() > MAX_MODEL_BYTES || request >= u64::BITS {
            return None;
        }
        let head = Header::read(answer.first_chunk()?);
        let (block, rest) = answer[HEADER_BYTES..].split_at_checked(head.length)?;
        let data = Header::read(rest.first_chunk()?);
        let plain = (head.kind, head.flags) == (kind::HEADERS, flag::END_HEADERS)
            && (data.kind, data.flags) == (kind::DATA, flag::END_STREAM)
            && data.id == head.id
            && rest.len() == HEADER_BYTES + data.length
            && head.length.max(data.length) <= MAX_FRAME;
        let (place, section) = self.sections.find(block)?;
        let status = section.status.filter(|status| plain && section.fault.is_none() && *status >= 200)?;
        let second = HEADER_BYTES + head.length + NUMBER;
        let (bytes, length) = (answer.into(), data.length as u32);
        Some(Model { bytes, second, length, status, place, requests: 1 << request, repeated: false })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::{self, setting};
    use super::*;
    use crate::http2::Request;

    fn answer(id: u32, block: &[u8], body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, kind::HEADERS, flag::END_HEADERS, id, block);
        frame::write(&mut bytes, kind::DATA, flag::END_STREAM, id, body);
        bytes
    }

    /// A connection with four requests under way, numbers 0, 1, 0 and 1, whose first answer was read and is right for
    /// request 0.
    fn knowing(block: &[u8], body: &[u8]) -> Connection {
        let request = Request::new(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "http").unwrap();
        let requests = [request.clone(), request];
        let mut connection = Connection::new(4, 1000);
        (0..4).for_each(|slot| connection.open(slot, slot as u32 % 2, &requests));
        let mut bytes = Vec::new();
        frame::write_settings(&mut bytes, &[(setting::MAX_CONCURRENT_STREAMS, 100)]);
        let first = answer(1, block, body);
        bytes.extend(&first);
        read(&mut connection, &bytes);
        connection.remember(&first, 0);
        connection
    }

    fn read(connection: &mut Connection, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (used, _) = connection.next(bytes).unwrap();
            bytes = &bytes[used..];
        }
    }

    const OK: [u8; 1] = [0x88];

    #[test]
    fn answers_that_repeat_a_right_one_are_taken_together_for_the_requests_that_it_is_right_for() {
        let mut connection = knowing(&OK, b"hello");
        let same: Vec<u8> = [5, 3].map(|id| answer(id, &OK, b"hello")).concat();
        let mut slots = Vec::new();
        let taken = connection.repeated(&same, &mut slots);
        assert_eq!(
            taken,
            Some(Repeated { status: 200, bytes: same.len() / 2 }),
            "request 1 is not known to be answered so"
        );
        assert_eq!((slots.as_slice(), connection.active()), (&[2][..], 2));
        read(&mut connection, &same[same.len() / 2..]);
        connection.remember(&answer(3, &OK, b"hello"), 1);
        slots.clear();
        assert!(connection.repeated(&answer(7, &OK, b"hello"), &mut slots).is_some());
        assert_eq!((slots.as_slice(), connection.active()), (&[3][..], 0));
    }

    #[test]
    fn whatever_differs_is_left_to_be_read() {
        let whole = answer(5, &OK, b"hello");
        let other_status = answer(5, &[0x8d], b"hello");
        let nobody_waits = answer(9, &OK, b"hello");
        let mut two_streams = whole.clone();
        two_streams[10 + 8] = 7; // the DATA frame's
        let mut open_end = whole.clone();
        open_end[10 + 4] = 0;
        let (cut, other_body) = (&whole[..whole.len() - 1], answer(5, &OK, b"hallo"));
        for bytes in [&other_status, &nobody_waits, &two_streams, &open_end, cut, &other_body] {
            let mut slots = Vec::new();
            assert_eq!(knowing(&OK, b"hello").repeated(bytes, &mut slots), None, "{bytes:?}");
            assert!(slots.is_empty());
        }
        let mut within_a_frame = knowing(&OK, b"hello");
        read(&mut within_a_frame, &whole[..3]);
        assert_eq!(within_a_frame.repeated(&whole, &mut Vec::new()), None);
    }

    #[test]
    fn a_header_block_whose_table_has_changed_means_something_else() {
        let (inserts, refers) = ([0x48, 3, b'2', b'0', b'1'], [0x80 | 62]); // :status 201, into the table, and out of it
        let mut connection = knowing(&inserts, b"");
        read(&mut connection, &answer(5, &refers, b"hello"));
        connection.remember(&answer(5, &refers, b"hello"), 1);
        let known = answer(3, &refers, b"hello");
        read(&mut connection, &answer(7, &[0x48, 3, b'2', b'0', b'2'], b""));
        assert_eq!(connection.repeated(&known, &mut Vec::new()), None, "62 is 202 by now");
        let (_, event) = connection.next(&known).unwrap();
        assert!(matches!(event, super::super::Event::Head { status: 202, .. }), "{event:?}");
    }

    #[test]
    fn a_server_that_says_something_else_each_time_is_copied_now_and_then_only() {
        let mut connection = knowing(&OK, b"hello");
        let mut kept = 0;
        for number in 0..10_000u32 {
            let said = answer(5, &OK, format!("{number:08}").as_bytes());
            connection.remember(&said, 0);
            kept += u32::from(connection.models.all.iter_mut().any(|model| model.stream(&said).is_some()));
        }
        let rounds = 10_000 / (NOT_KEPT + MAX_WASTED);
        assert!((rounds * MAX_WASTED..=(rounds + 2) * MAX_WASTED).contains(&kept), "{kept}");
        let same = answer(5, &OK, b"hello");
        for _ in 0..=NOT_KEPT {
            connection.remember(&same, 0);
        }
        assert!(connection.repeated(&same, &mut Vec::new()).is_some(), "it says the same again");
    }

    #[test]
    fn memory_for_models_is_bounded() {
        let mut connection = knowing(&OK, b"hello");
        let fixed = connection.held_bytes();
        for number in 0..1000u32 {
            connection.remember(&answer(5, &OK, format!("{number:04000}").as_bytes()), number % 64);
        }
        connection.remember(&answer(5, &OK, &[b'x'; MAX_MODEL_BYTES]), 0);
        assert!(connection.held_bytes() <= fixed + MAX_MODELS * MAX_MODEL_BYTES);
    }
}
