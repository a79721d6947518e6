//! HTTP/2 in the clear, by prior knowledge: the part that a server with one fixed response needs.

use dragstrip_engine::http2::frame::{self, HEADER_BYTES, Header, MAX_FRAME, flag, kind};
use dragstrip_engine::http2::hpack;

/// A response in frames, and the offset of each frame's stream number.
pub struct Answer {
    bytes: Vec<u8>,
    numbers: Vec<usize>,
}

impl Answer {
    pub fn new(body: &[u8]) -> Self {
        let mut block = Vec::new();
        hpack::write_field(&mut block, ":status", b"200");
        hpack::write_field(&mut block, "content-type", b"text/plain");
        hpack::write_field(&mut block, "content-length", body.len().to_string().as_bytes());
        let mut bytes = Vec::new();
        let mut numbers = frame::write_block(&mut bytes, &block, body.is_empty(), 0);
        let pieces = body.chunks(MAX_FRAME);
        let last = pieces.len();
        for (index, piece) in pieces.enumerate() {
            numbers.push(bytes.len() + 5);
            frame::write(&mut bytes, kind::DATA, if index + 1 == last { flag::END_STREAM } else { 0 }, 0, piece);
        }
        Self { bytes, numbers }
    }
}

/// One connection.
#[derive(Default, Clone)]
pub struct Http2 {
    /// The received part of a frame.
    rest: Vec<u8>,
    greeted: bool,
    /// Bytes to be sent.
    pub out: Vec<u8>,
    /// Arrival times of requests whose responses are in `out` and were not yet begun.
    pub answered: Vec<u64>,
}

impl Http2 {
    /// Takes received bytes; returns the streams of the requests that they complete.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<u32> {
        self.rest.extend_from_slice(bytes);
        let (mut at, mut asked) = (0, Vec::new());
        if !self.greeted {
            if self.rest.len() < frame::PREFACE.len() {
                return asked;
            }
            (self.greeted, at) = (true, frame::PREFACE.len());
            frame::write_settings(&mut self.out, &[]);
        }
        while let Some(head) = self.rest[at..].first_chunk::<HEADER_BYTES>() {
            let header = Header::read(head);
            let Some(payload) = self.rest[at + HEADER_BYTES..].get(..header.length) else { break };
            at += HEADER_BYTES + header.length;
            match header.kind {
                kind::HEADERS | kind::DATA if header.has(flag::END_STREAM) => asked.push(header.id),
                kind::SETTINGS | kind::PING if !header.has(flag::ACK) => {
                    let same: &[u8] = if header.kind == kind::PING { payload } else { &[] };
                    frame::write(&mut self.out, header.kind, flag::ACK, 0, same);
                }
                _ => {}
            }
        }
        self.rest.drain(..at);
        asked
    }

    /// Responds to a request that arrived at `arrived_ns`.
    pub fn answer(&mut self, answer: &Answer, id: u32, arrived_ns: u64) {
        let at = self.out.len();
        self.out.extend_from_slice(&answer.bytes);
        for number in &answer.numbers {
            self.out[at + number..][..4].copy_from_slice(&id.to_be_bytes());
        }
        self.answered.push(arrived_ns);
    }
}
