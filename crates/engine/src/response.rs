//! Reads HTTP/1.x responses: bytes in, a verdict or "need more" out. No I/O, no clock, bounded memory.
//!
//! The rules are from RFC 9112, applied strictly wherever leniency would let a broken server pass. Bodies are compared
//! as they arrive and never stored. Only an incomplete head is stored, up to [`HEAD_LIMIT`].

mod streamed;

use crate::error_sample::{ErrorSample, SAMPLE_BYTES};
use crate::exchange::{Exchange, varying};
use crate::failure::Failure;
pub use crate::failure::Wrong;
use crate::heads::{self, ExpectedHeads};
use crate::request::first_request;
use memchr::memchr;
use std::borrow::Cow;

/// Longest head, including interim responses before it, and longest trailer section.
pub const HEAD_LIMIT: usize = 64 * 1024;
/// Longest extension of one chunk. All extensions and trailers of a response together are limited by [`HEAD_LIMIT`].
const EXTENSION_LIMIT: u32 = 4096;
/// If the status is wrong, the body is skipped; it may exceed the expected length by this much: an error page, not a stream.
pub const SKIP_LIMIT: u64 = 1 << 20;
/// Maximum number of header fields in one head.
const MAX_FIELDS: usize = 128;

/// What a correct response looks like.
#[derive(Clone, Copy, Debug)]
pub struct Expect<'a> {
    /// Final status; 0: any from 200 to 399.
    pub status: u16,
    /// The body, without transfer coding.
    pub body: &'a [u8],
    /// This is the response to a HEAD request: it has no body, whatever its head says.
    pub bodiless: bool,
    /// Any body of the same length is correct. If `body` is empty, any length is, up to [`SKIP_LIMIT`] bytes if a status is
    /// given.
    pub any_body: bool,
    /// Bytes of `body` that are listed in [`varying`] stand for what varies.
    pub pattern: bool,
}

impl Expect<'_> {
    #[inline]
    fn any_length(&self) -> bool {
        self.pattern || self.any_body && self.body.is_empty()
    }

    #[inline]
    pub(crate) fn is_wrong(&self, status: u16) -> bool {
        status != self.status && (self.status != 0 || status >= 400)
    }
}

impl<'a> From<&'a Exchange> for Expect<'a> {
    #[inline]
    fn from(exchange: &'a Exchange) -> Self {
        let Exchange { status, body, any_body, pattern, .. } = exchange;
        Self { status: *status, body, bodiless: exchange.bodiless(), any_body: *any_body, pattern: *pattern }
    }
}

/// The result of one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// None: everything that is checked is correct.
    pub wrong: Option<Wrong>,
    /// The connection may carry another request.
    pub keep: bool,
}

/// The result of [`Reader::feed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes consumed; fewer than given only if the response ended before the last byte.
    pub used: usize,
    /// None: the response is not complete yet.
    pub verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Nothing,
    Length(u64),
    Chunked,
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    framing: Framing,
    keep: bool,
    /// It differs from the heads of the reference responses.
    deviates: bool,
}

/// The bytes of the previous response's head and what they meant: servers repeat themselves.
#[derive(Debug, Default)]
pub struct KnownHead {
    bytes: Vec<u8>,
    head: Option<Head>,
    /// The connection stays open only if the response says so.
    must_say: bool,
    /// The request asked the server to close the connection after its response.
    closes: bool,
    expected: ExpectedHeads,
    /// How the head differs from the expected ones, if it does.
    deviation: Option<Box<str>>,
}

impl KnownHead {
    /// For responses to this request. After a request in HTTP/1.0 the connection stays open only if the response says so,
    /// even if the response has version HTTP/1.1: many servers send that and then close. `ab -k` does the same.
    pub fn of(request: &[u8]) -> Self {
        let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let closes = first_request(request).is_ok_and(|form| form.closes && !form.old);
        Self { must_say: line.ends_with(b" HTTP/1.0"), closes, ..Self::default() }
    }

    /// The same, comparing heads with these.
    pub fn expecting(self, expected: ExpectedHeads) -> Self {
        Self { expected, ..self }
    }

    #[inline]
    fn recall(&self, input: &[u8]) -> Option<(Head, usize)> {
        let head = self.head?;
        (input.len() >= self.bytes.len() && input[..self.bytes.len()] == self.bytes[..])
            .then_some((head, self.bytes.len()))
    }

    fn learn(&mut self, bytes: &[u8], head: Head, deviation: Option<Box<str>>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.head = Some(head);
        self.deviation = deviation;
    }

    #[cold]
    fn note_deviation(&self, sample: &mut ErrorSample) {
        let (why, head) = (self.deviation.as_deref().unwrap_or_default(), String::from_utf8_lossy(&self.bytes));
        sample.note_with(Failure::WrongHead, || format!("{why}; the head: {head}"));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Size {
        value: u64,
        digits: u8,
    },
    /// White space after the size; only an extension may follow.
    Blank {
        value: u64,
    },
    Extension {
        value: u64,
        length: u32,
    },
    SizeEnd {
        value: u64,
    },
    Data {
        left: u64,
    },
    DataReturn,
    DataEnd,
    LineStart,
    Line,
    LineEnd,
    LastEnd,
}

impl Chunk {
    /// Why a byte can't follow here.
    #[cold]
    fn fault(self) -> &'static str {
        match self {
            Self::Size { .. } => "a chunk's size is not a hexadecimal number of at most 15 digits",
            Self::Blank { .. } => "white space after a chunk's size is not followed by an extension",
            Self::Extension { .. } => "a chunk's extension is too long, or ends with LF alone",
            Self::SizeEnd { .. } => "the line of a chunk's size does not end with CR LF",
            Self::Data { .. } | Self::DataReturn | Self::DataEnd => "a chunk's data does not end with CR LF",
            Self::LineStart | Self::Line | Self::LineEnd => {
                "its trailers are too long, or a line does not end with CR LF"
            }
            Self::LastEnd => "the last line after its chunks does not end with CR LF",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Length { left: u64 },
    Chunked(Chunk),
    UntilClose,
}

/// Reads the responses of one connection, one after the other.
#[derive(Debug)]
pub struct Reader {
    state: State,
    keep: bool,
    wrong: Option<Wrong>,
    /// Bytes of this response's heads so far, including interim ones; later of its trailers.
    overhead: u32,
    /// Bytes of the body so far.
    got: u64,
    /// The bytes of the pattern that have come whole.
    matched: u32,
    /// What varies at this place of the pattern has begun; its last byte was a backslash.
    varied: bool,
    escaped: bool,
    /// Status of the current response, or of the previous one until a head is complete.
    status: u16,
    /// An incomplete head.
    stash: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            state: State::Head,
            keep: true,
            wrong: None,
            overhead: 0,
            got: 0,
            matched: 0,
            varied: false,
            escaped: false,
            status: 0,
            stash: Vec::new(),
        }
    }
}

const UNSOUND: Verdict = Verdict { wrong: Some(Wrong::Response), keep: false };
const LONG_HEAD: &str = "its head exceeds 65,536 bytes";

/// The verdict on bytes that are no response; the reason precedes them in the sample.
#[cold]
fn unsound(why: &str, bytes: &[u8], sample: &mut ErrorSample) -> Verdict {
    sample.note_with(Failure::BadResponse, || {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SAMPLE_BYTES)]);
        if shown.is_empty() { why.to_owned() } else { format!("{why}; it came: {shown}") }
    });
    UNSOUND
}

/// Bytes consumed, and the verdict if they completed the response.
type Consumed = (usize, Option<Verdict>);

impl Reader {
    /// Reads bytes that arrived, up to the end of one response; call it again with the rest for the next response.
    ///
    /// Hot path: a whole response whose head equals the previous one costs two comparisons. `sample` receives the beginning
    /// of the first wrong response of each kind, as far as it is in `input`.
    #[inline]
    pub fn feed(&mut self, input: &[u8], expect: &Expect, known: &mut KnownHead, sample: &mut ErrorSample) -> Fed {
        match self.repeated(input, expect, known) {
            Some(fed) => fed,
            None => self.read(input, expect, known, sample),
        }
    }

    /// Recognises a whole correct response whose head equals the previous one; returns what [`Reader::read`] returns.
    #[inline]
    fn repeated(&mut self, input: &[u8], expect: &Expect, known: &KnownHead) -> Option<Fed> {
        let head = known.head?;
        let begins = self.state == State::Head && self.stash.is_empty() && self.overhead == 0;
        let plain = head.framing == Framing::Length(expect.body.len() as u64) && !expect.any_body && !expect.pattern;
        if !begins || !plain || head.deviates || expect.is_wrong(head.status) {
            return None;
        }
        let rest = input.strip_prefix(known.bytes.as_slice())?;
        rest.starts_with(expect.body).then(|| {
            self.status = head.status;
            let used = known.bytes.len() + expect.body.len();
            Fed { used, verdict: Some(Verdict { wrong: None, keep: head.keep }) }
        })
    }

    fn read(&mut self, input: &[u8], expect: &Expect, known: &mut KnownHead, sample: &mut ErrorSample) -> Fed {
        let mut used = 0;
        while used < input.len() {
            let rest = &input[used..];
            let (taken, verdict) = match self.state {
                State::Head => self.head(rest, expect, known, sample),
                State::Length { left } => self.length(rest, left, expect),
                State::Chunked(chunk) => self.chunked(rest, chunk, expect, sample),
                State::UntilClose => (rest.len(), self.body(rest, expect)),
            };
            used += taken;
            if let Some(verdict) = verdict {
                if let Some(wrong) = verdict.wrong {
                    sample.note(wrong.into(), input);
                }
                self.reset();
                return Fed { used, verdict: Some(verdict) };
            }
        }
        Fed { used, verdict: None }
    }

    /// The server closed the connection: the verdict if that ends the body, None if the response is incomplete.
    pub fn end(&mut self, expect: &Expect) -> Option<Verdict> {
        let verdict = (self.state == State::UntilClose).then(|| self.finish(expect));
        self.reset();
        verdict
    }

    /// How many bytes of the body are still to come, if its length is known and nothing was wrong so far; otherwise 0.
    #[inline]
    pub fn body_left(&self) -> u64 {
        match self.state {
            State::Length { left } if self.wrong.is_none() => left,
            _ => 0,
        }
    }

    /// Counts bytes of the body without seeing them, at most [`Reader::body_left`]; the verdict if they were the last.
    pub fn skip_body(&mut self, count: u64, expect: &Expect) -> Option<Verdict> {
        let left = self.body_left().checked_sub(count)?;
        self.got += count;
        self.state = State::Length { left };
        (left == 0).then(|| {
            let verdict = self.finish(expect);
            self.reset();
            verdict
        })
    }

    /// The latest response's status; meaningless if the verdict was [`Wrong::Response`].
    #[inline]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Bytes of memory in use for an incomplete head.
    pub fn held_bytes(&self) -> usize {
        self.stash.capacity()
    }

    /// Discards the current response, for a new connection.
    pub fn reset(&mut self) {
        self.stash.clear();
        if self.stash.capacity() > 4096 {
            self.stash = Vec::new(); // one large, split head must not hold memory on each of 10,000 connections
        }
        (self.state, self.keep, self.wrong) = (State::Head, true, None);
        (self.overhead, self.got, self.matched) = (0, 0, 0);
        (self.varied, self.escaped) = (false, false);
    }

    #[inline]
    fn head(&mut self, rest: &[u8], expect: &Expect, known: &mut KnownHead, sample: &mut ErrorSample) -> Consumed {
        if self.stash.is_empty()
            && let Some((head, length)) = known.recall(rest)
        {
            if expect.is_wrong(head.status) {
                sample.note(Failure::WrongStatus, rest);
            } else if head.deviates {
                known.note_deviation(sample);
            }
            return (length, self.begin(head, expect));
        }
        self.unknown_head(rest, expect, known, sample)
    }

    #[cold]
    fn unknown_head(
        &mut self,
        rest: &[u8],
        expect: &Expect,
        known: &mut KnownHead,
        sample: &mut ErrorSample,
    ) -> Consumed {
        let before = self.stash.len();
        let parsed = if before == 0 {
            parse(rest, expect.bodiless, known)
        } else {
            self.stash.extend_from_slice(rest);
            // A head ends with a line feed: without one there is no need to parse again.
            match memchr(b'\n', rest) {
                Some(_) => parse(&self.stash, expect.bodiless, known),
                None => Parsed::More,
            }
        };
        let bytes = if before == 0 { rest } else { &self.stash };
        let length = match parsed {
            Parsed::More if bytes.len() + self.overhead as usize <= HEAD_LIMIT => {
                if before == 0 {
                    self.stash.extend_from_slice(rest);
                }
                return (rest.len(), None);
            }
            Parsed::More => return (rest.len(), Some(unsound(LONG_HEAD, bytes, sample))),
            Parsed::Unsound(why) => return (rest.len(), Some(unsound(why, bytes, sample))),
            Parsed::Interim(length) | Parsed::Final(_, length, _) => length,
        };
        if self.overhead as usize + length > HEAD_LIMIT {
            return (rest.len(), Some(unsound(LONG_HEAD, bytes, sample)));
        }
        self.overhead += length as u32;
        let mut verdict = None;
        if let Parsed::Final(head, _, deviation) = parsed {
            known.learn(&bytes[..length], head, deviation);
            if expect.is_wrong(head.status) {
                sample.note(Failure::WrongStatus, bytes);
            } else if head.deviates {
                known.note_deviation(sample);
            }
            verdict = self.begin(head, expect);
            if let Some(wrong) = verdict.and_then(|verdict| verdict.wrong) {
                let bytes = if before == 0 { rest } else { &self.stash };
                sample.note(wrong.into(), bytes);
            }
        }
        self.stash.clear();
        (length - before, verdict)
    }

    /// The head is complete: sets what follows, or returns the verdict if nothing does.
    #[inline]
    fn begin(&mut self, head: Head, expect: &Expect) -> Option<Verdict> {
        (self.keep, self.status) = (head.keep, head.status);
        self.overhead = 0;
        if expect.is_wrong(head.status) {
            self.wrong = Some(Wrong::Status);
        } else if head.deviates {
            self.wrong = Some(Wrong::Head);
        }
        match head.framing {
            Framing::Nothing | Framing::Length(0) => return Some(self.finish(expect)),
            Framing::Length(length) => {
                let compared = self.wrong != Some(Wrong::Status) && !expect.any_length();
                if compared && length != expect.body.len() as u64 {
                    return Some(Verdict { wrong: Some(Wrong::Length), keep: false });
                }
                if length > max_skipped(expect) {
                    return Some(self.too_long());
                }
                self.state = State::Length { left: length };
            }
            Framing::Chunked => self.state = State::Chunked(Chunk::Size { value: 0, digits: 0 }),
            Framing::UntilClose => self.state = State::UntilClose,
        }
        None
    }

    /// The verdict on a skipped body that is too long.
    #[cold]
    fn too_long(&self) -> Verdict {
        Verdict { wrong: Some(self.wrong.unwrap_or(Wrong::Length)), keep: false }
    }

    #[inline]
    fn length(&mut self, rest: &[u8], left: u64, expect: &Expect) -> Consumed {
        let take = left.min(rest.len() as u64) as usize;
        let mut verdict = self.body(&rest[..take], expect);
        let left = left - take as u64;
        self.state = State::Length { left };
        if verdict.is_none() && left == 0 {
            verdict = Some(self.finish(expect));
        }
        (take, verdict)
    }

    /// Compares a piece of the body with the expected bytes; a body that becomes too long ends the response.
    #[inline]
    fn body(&mut self, piece: &[u8], expect: &Expect) -> Option<Verdict> {
        let from = self.got;
        self.got += piece.len() as u64;
        if self.wrong == Some(Wrong::Status) {
            return (self.got > max_skipped(expect)).then_some(self.too_long());
        }
        if expect.pattern && self.wrong.is_none() && !self.is_alike(piece, expect.body) {
            self.wrong = Some(Wrong::Body);
        }
        if self.got > expect.body.len() as u64 || expect.pattern {
            if expect.any_length() {
                return (self.got > max_skipped(expect)).then_some(self.too_long());
            }
            return Some(Verdict { wrong: Some(Wrong::Length), keep: false });
        }
        let compared = self.wrong.is_none() && !expect.any_body;
        if compared && piece != &expect.body[from as usize..self.got as usize] {
            self.wrong = Some(Wrong::Body);
        }
        None
    }

    /// Whether a piece of the body goes on like the pattern.
    fn is_alike(&mut self, piece: &[u8], pattern: &[u8]) -> bool {
        for &byte in piece {
            loop {
                let Some(&due) = pattern.get(self.matched as usize) else { return false };
                let stands = match due {
                    varying::DIGITS => byte.is_ascii_digit(),
                    varying::NUMBER => byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'),
                    varying::WORD => byte.is_ascii_lowercase(),
                    varying::STRING => byte >= b' ' && (byte != b'"' || self.escaped),
                    _ if due == byte => {
                        self.matched += 1;
                        break;
                    }
                    _ => return false,
                };
                if stands {
                    self.escaped = due == varying::STRING && byte == b'\\' && !self.escaped;
                    self.varied = true;
                    break;
                }
                if !self.varied && due != varying::STRING || self.escaped {
                    return false;
                }
                self.varied = false; // what varies has ended: the byte is the pattern's next one
                self.matched += 1;
            }
        }
        true
    }

    /// Whether the whole pattern was there; a number may be its end.
    fn is_whole(&self, pattern: &[u8]) -> bool {
        self.matched as usize + usize::from(self.varied) == pattern.len()
    }

    #[inline]
    fn finish(&mut self, expect: &Expect) -> Verdict {
        let short = self.got != expect.body.len() as u64 && !expect.bodiless && !expect.any_length();
        match self.wrong {
            Some(Wrong::Status) => Verdict { wrong: self.wrong, keep: self.keep },
            _ if short => Verdict { wrong: Some(Wrong::Length), keep: false },
            None if expect.pattern && !expect.bodiless && !self.is_whole(expect.body) => {
                Verdict { wrong: Some(Wrong::Body), keep: self.keep }
            }
            wrong => Verdict { wrong, keep: self.keep },
        }
    }

    /// One step through a chunked body: a piece of data, or one byte of framing.
    fn chunked(&mut self, rest: &[u8], chunk: Chunk, expect: &Expect, sample: &mut ErrorSample) -> Consumed {
        if let Chunk::Data { left } = chunk {
            let take = left.min(rest.len() as u64) as usize;
            let verdict = self.body(&rest[..take], expect);
            let left = left - take as u64;
            let next = if left == 0 { Chunk::DataReturn } else { Chunk::Data { left } };
            self.state = State::Chunked(next);
            return (take, verdict);
        }
        if matches!(chunk, Chunk::LastEnd) && rest[0] == b'\n' {
            return (1, Some(self.finish(expect)));
        }
        match self.chunk_byte(chunk, rest[0]) {
            Some(next) => {
                self.state = State::Chunked(next);
                (1, None)
            }
            None => (rest.len(), Some(unsound(chunk.fault(), rest, sample))),
        }
    }

    /// The next state of a chunked body's framing (RFC 9112, 7.1); None: the framing is invalid.
    fn chunk_byte(&mut self, chunk: Chunk, byte: u8) -> Option<Chunk> {
        match (chunk, byte) {
            (Chunk::Size { value, digits }, _) if byte.is_ascii_hexdigit() => {
                let digit = (byte as char).to_digit(16)?;
                // 15 digits can't overflow, and no body is that long.
                (digits < 15).then_some(Chunk::Size { value: value << 4 | u64::from(digit), digits: digits + 1 })
            }
            (Chunk::Size { digits: 0, .. }, _) => None,
            (Chunk::Size { value, .. }, b'\r') => Some(Chunk::SizeEnd { value }),
            (Chunk::Size { value, .. }, b';' | b' ' | b'\t') => {
                Some(if byte == b';' { Chunk::Extension { value, length: 0 } } else { Chunk::Blank { value } })
            }
            (Chunk::Blank { value }, b' ' | b'\t') if self.overhead < EXTENSION_LIMIT => {
                self.overhead += 1;
                Some(Chunk::Blank { value })
            }
            (Chunk::Blank { value }, b';') => Some(Chunk::Extension { value, length: 0 }),
            (Chunk::Blank { value }, b'\r') => Some(Chunk::SizeEnd { value }),
            (Chunk::Extension { value, .. }, b'\r') => Some(Chunk::SizeEnd { value }),
            (Chunk::Extension { value, length }, _)
                if byte != b'\n' && length < EXTENSION_LIMIT && (self.overhead as usize) < HEAD_LIMIT =>
            {
                self.overhead += 1;
                Some(Chunk::Extension { value, length: length + 1 })
            }
            (Chunk::SizeEnd { value: 0 }, b'\n') => Some(Chunk::LineStart),
            (Chunk::SizeEnd { value }, b'\n') => Some(Chunk::Data { left: value }),
            (Chunk::DataReturn, b'\r') => Some(Chunk::DataEnd),
            (Chunk::DataEnd, b'\n') => Some(Chunk::Size { value: 0, digits: 0 }),
            (Chunk::LineStart, b'\r') => Some(Chunk::LastEnd),
            (Chunk::Line, b'\r') => Some(Chunk::LineEnd),
            (Chunk::LineStart | Chunk::Line, _) if byte != b'\n' => {
                self.overhead += 1;
                (self.overhead as usize <= HEAD_LIMIT).then_some(Chunk::Line)
            }
            (Chunk::LineEnd, b'\n') => Some(Chunk::LineStart),
            _ => None,
        }
    }
}

/// Longest body that is skipped after a wrong status, or accepted if any length is correct.
fn max_skipped(expect: &Expect) -> u64 {
    if expect.any_length() && expect.status == 0 {
        return u64::MAX;
    }
    expect.body.len() as u64 + SKIP_LIMIT
}

enum Parsed {
    More,
    Unsound(&'static str),
    Interim(usize),
    /// The head, its length, and how it differs from the reference responses, if it does.
    Final(Head, usize, Option<Box<str>>),
}

/// Reads a head from its first byte.
fn parse(bytes: &[u8], bodiless: bool, known: &KnownHead) -> Parsed {
    const START: &[u8] = b"HTTP/1.";
    let shared = bytes.len().min(START.len());
    if bytes[..shared] != START[..shared] {
        return Parsed::Unsound("it does not begin with HTTP/1."); // garbage is found at its first byte, not by a timeout
    }
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    let length = match read_head(&mut answer, bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Parsed::More,
        Err(error) => return Parsed::Unsound(fault_of(error)),
    };
    match (answer.code, answer.version) {
        (Some(101), _) => Parsed::Unsound("it switches protocols (status 101) without a request to"),
        (Some(100..=199), _) => Parsed::Interim(length),
        (Some(status @ 200..=999), Some(version)) => {
            let head = match meaning(status, version, answer.headers, bodiless, known.must_say) {
                Ok(head) => Head { keep: head.keep && !known.closes, ..head },
                Err(why) => return Parsed::Unsound(why),
            };
            let version: &[u8] = if version == 0 { b"HTTP/1.0" } else { b"HTTP/1.1" };
            let line = [(heads::VERSION, version), (heads::REASON, answer.reason.unwrap_or_default().as_bytes())];
            let values: Vec<_> = answer.headers.iter().map(|field| unfolded(field.value)).collect();
            let fields = answer.headers.iter().zip(&values).map(|(field, value)| (field.name.as_bytes(), &value[..]));
            let deviation = known.expected.deviation(line.into_iter().chain(fields));
            Parsed::Final(Head { deviates: deviation.is_some(), ..head }, length, deviation)
        }
        _ => Parsed::Unsound("its status is not a number from 100 to 999"),
    }
}

/// Parses a head. A line that begins with white space continues the one before (RFC 9112, 5.2).
///
/// # Errors
/// As httparse's.
pub(crate) fn read_head<'a>(
    into: &mut httparse::Response<'_, 'a>,
    bytes: &'a [u8],
) -> Result<httparse::Status<usize>, httparse::Error> {
    let mut rules = httparse::ParserConfig::default();
    rules.allow_obsolete_multiline_headers_in_responses(true);
    rules.parse_response(into, bytes)
}

/// A field's value in one line: a fold, with the white space around it, is one blank.
pub(crate) fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\n', value).is_none() {
        return Cow::Borrowed(value);
    }
    let lines: Vec<&[u8]> = value.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).collect();
    Cow::Owned(lines.join(&b' ').trim_ascii().to_vec())
}

/// Why a head can't be parsed.
#[cold]
fn fault_of(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "a header's name has an invalid character",
        httparse::Error::HeaderValue => "a header's value has an invalid character",
        httparse::Error::NewLine => "a line of its head ends with CR alone",
        httparse::Error::Status => "its status line is not valid",
        httparse::Error::TooManyHeaders => "its head has more than 128 headers",
        httparse::Error::Token => "its head has an invalid character",
        httparse::Error::Version => "its version is neither HTTP/1.1 nor HTTP/1.0",
    }
}

/// Framing and persistence (RFC 9112, 6.3 and 9.3).
///
/// # Errors
/// Why the length can't be known.
fn meaning(
    status: u16,
    version: u8,
    fields: &[httparse::Header],
    bodiless: bool,
    must_say: bool,
) -> Result<Head, &'static str> {
    const LENGTH: &str = "its Content-Length is not one number";
    let (mut length, mut chunked) = (None, false);
    let (mut close, mut keep_alive) = (false, false);
    for field in fields {
        let value = unfolded(field.value);
        if field.name.eq_ignore_ascii_case("content-length") {
            for part in value.split(|&byte| byte == b',') {
                let given = decimal(part.trim_ascii()).ok_or(LENGTH)?;
                if length.is_some_and(|length| length != given) {
                    return Err("its Content-Lengths contradict each other");
                }
                length = Some(given);
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            // Another coding, or chunked twice: the body can't be checked.
            if chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err("its Transfer-Encoding is not chunked alone");
            }
            chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            for part in value.split(|&byte| byte == b',') {
                close |= part.trim_ascii().eq_ignore_ascii_case(b"close");
                keep_alive |= part.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
            }
        }
    }
    let framing = match (chunked, length) {
        (true, Some(_)) => return Err("it has Content-Length and Transfer-Encoding"),
        (true, None) if version == 0 => return Err("it is chunked, which HTTP/1.0 does not support"),
        _ if bodiless || status == 204 || status == 304 => Framing::Nothing,
        (true, None) => Framing::Chunked,
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::UntilClose,
    };
    let keep = !close && (version == 1 && !must_say || keep_alive) && framing != Framing::UntilClose;
    Ok(Head { status, framing, keep, deviates: false })
}

/// A length that consists of digits alone: no sign, no space, no overflow.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}
