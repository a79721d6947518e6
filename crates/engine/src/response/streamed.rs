//! Responses that come as a head, pieces of a body and an end, as on a stream of HTTP/2. They are judged by the same rules.

use super::{Expect, Framing, Head, Reader, State, UNSOUND, Verdict};

impl Reader {
    /// Judges a final head by its status and declared length. `end`: no body follows. `deviates`: the head differs from those
    /// of the reference responses. A verdict with `keep` false means that the stream can't be used any more.
    #[inline]
    pub fn streamed_head(
        &mut self,
        (status, deviates): (u16, bool),
        length: Option<u64>,
        end: bool,
        expect: &Expect,
    ) -> Option<Verdict> {
        let bodiless = expect.bodiless || status == 204 || status == 304;
        let length = if bodiless { Some(0) } else { length };
        let framing = length.map_or(Framing::UntilClose, Framing::Length);
        let verdict = match self.begin(Head { status, framing, keep: true, deviates }, expect) {
            Some(verdict) if !verdict.keep => Some(verdict),
            // The body is empty; the end of the stream is still to come.
            Some(_) => {
                self.state = State::Length { left: 0 };
                None
            }
            None => None,
        };
        self.ended(verdict, end, expect)
    }

    /// Judges a piece of the body, which may be empty.
    #[inline]
    pub fn streamed_body(&mut self, piece: &[u8], end: bool, expect: &Expect) -> Option<Verdict> {
        let mut verdict = None;
        if let State::Length { left } = self.state {
            match left.checked_sub(piece.len() as u64) {
                Some(left) => self.state = State::Length { left },
                None => verdict = Some(UNSOUND), // more than was declared (RFC 9113, 8.1.1)
            }
        }
        let verdict = verdict.or_else(|| self.body(piece, expect));
        self.ended(verdict, end, expect)
    }

    #[inline]
    fn ended(&mut self, verdict: Option<Verdict>, end: bool, expect: &Expect) -> Option<Verdict> {
        let verdict = match (verdict, self.state) {
            (None, _) if !end => return None,
            (None, State::Length { left: 1.. }) => UNSOUND, // less than was declared
            (None, _) => self.finish(expect),
            (Some(verdict), _) => verdict,
        };
        self.reset();
        Some(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Wrong;
    use super::*;

    fn expect() -> Expect<'static> {
        Expect { status: 200, body: b"hello world", bodiless: false, any_body: false, pattern: false }
    }

    /// The verdict on a response whose body comes in these pieces.
    fn of(status: u16, length: Option<u64>, pieces: &[&[u8]], expect: &Expect) -> Option<Wrong> {
        let mut reader = Reader::default();
        let mut verdict = reader.streamed_head((status, false), length, pieces.is_empty(), expect);
        for (index, piece) in pieces.iter().enumerate() {
            verdict = verdict.or_else(|| reader.streamed_body(piece, index + 1 == pieces.len(), expect));
        }
        assert_eq!(reader.status(), status);
        verdict.expect("it has ended").wrong
    }

    #[test]
    fn an_answer_is_right_or_wrong_by_the_same_rules_as_over_http_1() {
        assert_eq!(of(200, Some(11), &[b"hello", b" ", b"world"], &expect()), None);
        assert_eq!(of(200, None, &[b"hello world", b""], &expect()), None);
        assert_eq!(of(503, Some(4), &[b"busy"], &expect()), Some(Wrong::Status));
        assert_eq!(of(503, Some(0), &[], &expect()), Some(Wrong::Status));
        assert_eq!(of(200, Some(12), &[b"hello world!"], &expect()), Some(Wrong::Length));
        assert_eq!(of(200, None, &[b"hello world!"], &expect()), Some(Wrong::Length));
        assert_eq!(of(200, None, &[b"hello"], &expect()), Some(Wrong::Length));
        assert_eq!(of(200, None, &[], &expect()), Some(Wrong::Length));
        assert_eq!(of(200, Some(11), &[b"hello World"], &expect()), Some(Wrong::Body));
        // The length that it declares and the one that it has differ.
        assert_eq!(of(200, Some(11), &[b"hello"], &expect()), Some(Wrong::Response));
        assert_eq!(of(200, Some(11), &[b"hello world!"], &expect()), Some(Wrong::Response));
        assert_eq!(of(503, Some(4), &[b"bus"], &expect()), Some(Wrong::Response));
        let head = Expect { bodiless: true, ..expect() };
        assert_eq!(of(200, Some(11), &[], &head), None);
        assert_eq!(of(200, Some(11), &[b""], &head), None);
        assert_eq!(of(200, Some(11), &[b"hello world"], &head), Some(Wrong::Response));
        let empty = Expect { body: b"", ..expect() };
        assert_eq!(of(200, Some(0), &[b""], &empty), None);
        assert_eq!(of(200, None, &[], &empty), None);
        assert_eq!(of(304, Some(11), &[], &Expect { status: 304, ..empty }), None);
    }
}
