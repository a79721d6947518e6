//! A response that repeats a correct one byte for byte is accepted by one comparison and not read again.
//!
//! A server with one handler sends the same response again and again; only the stream number differs. The bytes of a
//! response that was read and judged correct are kept as a [`KnownResponse`]. Equal bytes mean the same as long as their
//! header block does; [`HeaderCache::is_valid`](super::super::header_cache::HeaderCache::is_valid) knows whether it does.

use super::super::frame::{HEADER_BYTES, Header, MAX_FRAME, flag, kind};
use super::super::header_cache::CacheSlot;
use super::Connection;

/// Known responses per connection: as many as cached header blocks.
const MAX_KNOWN: usize = 4;
/// Longer responses are read each time: comparing their bodies costs far more than reading their frames.
const MAX_KNOWN_BYTES: usize = 4096;
/// Offset of the stream number in a frame's header.
const NUMBER: usize = 5;
/// After this many known responses that were never repeated, keeping pauses: copies would be wasted on a server whose
/// responses differ each time.
const MAX_WASTED: u32 = 32;
/// Correct responses that are not kept in such a pause.
const NOT_KEPT: u32 = 1024;

/// A connection's known responses.
#[derive(Debug, Default)]
pub(super) struct KnownResponses {
    /// The one that came last is first.
    all: Vec<KnownResponse>,
    /// How many were replaced without ever having been repeated, since the last pause.
    wasted: u32,
    /// Correct responses that are not to be kept from now on.
    pause: u32,
}

impl KnownResponses {
    pub(super) fn held_bytes(&self) -> usize {
        self.all.iter().map(|response| response.bytes.len()).sum()
    }

    /// Whether another response is worth a copy.
    fn worth_keeping(&mut self) -> bool {
        if self.wasted >= MAX_WASTED {
            (self.wasted, self.pause) = (0, NOT_KEPT);
        }
        let worth_keeping = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        worth_keeping
    }

    fn add(&mut self, response: KnownResponse) {
        let same = |other: &mut KnownResponse| {
            other.bytes.len() == response.bytes.len() && other.stream(&response.bytes).is_some()
        };
        match self.all.iter_mut().find_map(|other| same(other).then_some(other)) {
            Some(other) if other.block == response.block => other.requests |= response.requests,
            Some(other) => *other = response,
            None => {
                if self.all.len() == MAX_KNOWN {
                    self.wasted += u32::from(self.all.pop().is_some_and(|oldest| !oldest.repeated));
                }
                self.all.insert(0, response);
            }
        }
    }
}

/// A whole response that was correct: a HEADERS frame, then a DATA frame that ends the stream.
#[derive(Debug)]
pub(super) struct KnownResponse {
    bytes: Box<[u8]>,
    /// Offset of the DATA frame's stream number.
    second: usize,
    /// Bytes of the body.
    length: u32,
    status: u16,
    /// Its header block.
    block: CacheSlot,
    /// The requests that it is correct for, one bit each.
    requests: u64,
    /// Another response has repeated it.
    repeated: bool,
}

impl KnownResponse {
    /// The stream number of the response at the beginning of the input, if it equals this response. The number is written
    /// into both frames here, so that one comparison is enough.
    #[inline]
    fn stream(&mut self, input: &[u8]) -> Option<u32> {
        let input = input.get(..self.bytes.len())?;
        let id: [u8; 4] = input.get(NUMBER..)?.first_chunk().copied()?;
        *self.bytes.get_mut(NUMBER..)?.first_chunk_mut()? = id;
        *self.bytes.get_mut(self.second..)?.first_chunk_mut()? = id;
        (*self.bytes == *input).then_some(u32::from_be_bytes(id))
    }
}

/// Consecutive responses that repeat a known one; their streams have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The status of all of them.
    pub status: u16,
    /// Their length in bytes, together.
    pub bytes: usize,
}

impl Connection {
    /// Takes responses from the beginning of the input as long as they repeat one that was passed to
    /// [`Connection::remember`], for a request that it is correct for; adds their slots to `slots`. None: the input begins
    /// with something else, to be read by [`Connection::next`].
    #[inline]
    pub fn take_repeated(&mut self, input: &[u8], slots: &mut Vec<u32>) -> Option<Repeated> {
        if self.known.all.is_empty() || !self.between_frames() {
            return None;
        }
        let known = &mut self.known.all;
        let (index, id) =
            known.iter_mut().enumerate().find_map(|(index, response)| Some((index, response.stream(input)?)))?;
        known.swap(0, index);
        let (mut next, mut taken) = (Some(id), 0);
        while let Some(id) = next
            && let Some(slot) = self.end_repeated(id)
        {
            taken += self.known.all[0].bytes.len();
            slots.push(slot);
            next = self.known.all[0].stream(&input[taken..]);
        }
        self.known.all[0].repeated |= taken > 0;
        (taken > 0).then(|| Repeated { status: self.known.all[0].status, bytes: taken })
    }

    /// Ends the stream on which the first known response has come, if the response is correct for that stream's request.
    #[inline]
    fn end_repeated(&mut self, id: u32) -> Option<u32> {
        let slot = self.slot_of(id).filter(|_| id != 0)?;
        let KnownResponse { length, block, requests, .. } = self.known.all[0];
        let stream = &self.slots[slot];
        let sent = stream.whole && stream.ends <= self.wrote;
        let due = !stream.head && sent && stream.request < u64::BITS && requests >> stream.request & 1 == 1;
        if !due || !self.headers.is_valid(block) {
            return None;
        }
        self.headers.repeat(block);
        self.received += u64::from(length);
        self.renew();
        self.forget(slot);
        Some(slot as u32)
    }

    /// Keeps a response that was correct for a request: all of its bytes, from the first one of its HEADERS frame. A
    /// response is not kept if it has other frames between, padding, or a header block that can't be cached.
    pub fn remember(&mut self, response: &[u8], request: u32) {
        if self.known.worth_keeping()
            && let Some(response) = self.known_response(response, request)
        {
            self.known.add(response);
        }
    }

    fn known_response(&self, response: &[u8], request: u32) -> Option<KnownResponse> {
        if response.len() > MAX_KNOWN_BYTES || request >= u64::BITS {
            return None;
        }
        let head = Header::read(response.first_chunk()?);
        let (fields, rest) = response[HEADER_BYTES..].split_at_checked(head.length)?;
        let data = Header::read(rest.first_chunk()?);
        let plain = (head.kind, head.flags) == (kind::HEADERS, flag::END_HEADERS)
            && (data.kind, data.flags) == (kind::DATA, flag::END_STREAM)
            && data.id == head.id
            && rest.len() == HEADER_BYTES + data.length
            && head.length.max(data.length) <= MAX_FRAME;
        let (block, info) = self.headers.find(fields)?;
        let status = info.status.filter(|status| plain && info.fault.is_none() && *status >= 200)?;
        let second = HEADER_BYTES + head.length + NUMBER;
        let (bytes, length) = (response.into(), data.length as u32);
        Some(KnownResponse { bytes, second, length, status, block, requests: 1 << request, repeated: false })
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

    /// A connection with four requests in flight, numbers 0, 1, 0 and 1. The response to the first was read and is correct
    /// for request 0.
    fn knowing(block: &[u8], body: &[u8]) -> Connection {
        let request = Request::new(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "http").unwrap();
        let requests = [request.clone(), request];
        let mut connection = Connection::new(4, 1000);
        (0..4).for_each(|slot| connection.open(slot, slot as u32 % 2, &requests));
        let queued = connection.out().len();
        connection.wrote(queued);
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
    fn responses_that_repeat_a_correct_one_are_taken_together_for_the_requests_that_it_is_correct_for() {
        let mut connection = knowing(&OK, b"hello");
        let same: Vec<u8> = [5, 3].map(|id| answer(id, &OK, b"hello")).concat();
        let mut slots = Vec::new();
        let taken = connection.take_repeated(&same, &mut slots);
        assert_eq!(
            taken,
            Some(Repeated { status: 200, bytes: same.len() / 2 }),
            "it is not known to be correct for request 1"
        );
        assert_eq!((slots.as_slice(), connection.active()), (&[2][..], 2));
        read(&mut connection, &same[same.len() / 2..]);
        connection.remember(&answer(3, &OK, b"hello"), 1);
        slots.clear();
        assert!(connection.take_repeated(&answer(7, &OK, b"hello"), &mut slots).is_some());
        assert_eq!((slots.as_slice(), connection.active()), (&[3][..], 0));
    }

    #[test]
    fn responses_that_differ_are_left_to_be_read() {
        let whole = answer(5, &OK, b"hello");
        let other_status = answer(5, &[0x8d], b"hello");
        let no_stream = answer(9, &OK, b"hello");
        let mut two_streams = whole.clone();
        two_streams[10 + 8] = 7; // the DATA frame's
        let mut open_end = whole.clone();
        open_end[10 + 4] = 0;
        let (cut, other_body) = (&whole[..whole.len() - 1], answer(5, &OK, b"hallo"));
        for bytes in [&other_status, &no_stream, &two_streams, &open_end, cut, &other_body] {
            let mut slots = Vec::new();
            assert_eq!(knowing(&OK, b"hello").take_repeated(bytes, &mut slots), None, "{bytes:?}");
            assert!(slots.is_empty());
        }
        let mut within_a_frame = knowing(&OK, b"hello");
        read(&mut within_a_frame, &whole[..3]);
        assert_eq!(within_a_frame.take_repeated(&whole, &mut Vec::new()), None);
    }

    #[test]
    fn a_header_block_whose_table_has_changed_means_something_else() {
        let (inserts, refers) = ([0x48, 3, b'2', b'0', b'1'], [0x80 | 62]); // :status 201, into the table, and out of it
        let mut connection = knowing(&inserts, b"");
        read(&mut connection, &answer(5, &refers, b"hello"));
        connection.remember(&answer(5, &refers, b"hello"), 1);
        let known = answer(3, &refers, b"hello");
        read(&mut connection, &answer(7, &[0x48, 3, b'2', b'0', b'2'], b""));
        assert_eq!(connection.take_repeated(&known, &mut Vec::new()), None, "62 is 202 by now");
        let (_, event) = connection.next(&known).unwrap();
        assert!(matches!(event, super::super::Event::Head { status: 202, .. }), "{event:?}");
    }

    #[test]
    fn responses_that_differ_each_time_are_rarely_copied() {
        let mut connection = knowing(&OK, b"hello");
        let mut kept = 0;
        for number in 0..10_000u32 {
            let response = answer(5, &OK, format!("{number:08}").as_bytes());
            connection.remember(&response, 0);
            kept += u32::from(connection.known.all.iter_mut().any(|known| known.stream(&response).is_some()));
        }
        let rounds = 10_000 / (NOT_KEPT + MAX_WASTED);
        assert!((rounds * MAX_WASTED..=(rounds + 2) * MAX_WASTED).contains(&kept), "{kept}");
        let same = answer(5, &OK, b"hello");
        for _ in 0..=NOT_KEPT {
            connection.remember(&same, 0);
        }
        assert!(connection.take_repeated(&same, &mut Vec::new()).is_some(), "the server repeats itself again");
    }

    #[test]
    fn memory_for_known_responses_is_bounded() {
        let mut connection = knowing(&OK, b"hello");
        let fixed = connection.held_bytes();
        for number in 0..1000u32 {
            connection.remember(&answer(5, &OK, format!("{number:04000}").as_bytes()), number % 64);
        }
        connection.remember(&answer(5, &OK, &[b'x'; MAX_KNOWN_BYTES]), 0);
        assert!(connection.held_bytes() <= fixed + MAX_KNOWN * MAX_KNOWN_BYTES);
    }
}
