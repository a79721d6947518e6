//! An independent reading of the same bytes, by httparse and simple code, for comparison with the reader's verdicts.
//!
//! An input is a byte that selects the expected response, a byte that selects where the bytes are cut, and the bytes.
//! [`check`] panics if an invariant does not hold. The fuzzer's target, the corpus's test and the driver for machines
//! without a nightly toolchain all call it.

use dragstrip_engine::error_sample::ErrorSample;
use dragstrip_engine::response::{Expect, HEAD_LIMIT, KnownHead, Reader, Verdict, Wrong};

const EXPECTED: [Expect; 6] = [
    Expect { status: 200, body: b"hello world", bodiless: false, any_body: false, pattern: false },
    Expect { status: 200, body: b"", bodiless: true, any_body: false, pattern: false },
    Expect { status: 204, body: b"", bodiless: false, any_body: false, pattern: false },
    Expect { status: 404, body: b"no", bodiless: false, any_body: false, pattern: false },
    Expect { status: 200, body: b"", bodiless: false, any_body: false, pattern: false },
    Expect { status: 200, body: &[b'x'; 1000], bodiless: false, any_body: false, pattern: false },
];

/// The oracle's result.
#[derive(Debug, PartialEq, Eq)]
enum Reading {
    /// The bytes end before the response is complete.
    Cut,
    Unsound,
    Done {
        status: u16,
        body: Vec<u8>,
        keep: bool,
        chunked: bool,
    },
}

/// Checks the invariants of one input.
///
/// # Panics
/// If an invariant does not hold.
pub fn check(input: &[u8]) {
    let [pick, cut, bytes @ ..] = input else { return };
    let expect = &EXPECTED[usize::from(*pick) % EXPECTED.len()];
    let mut known = KnownHead::default();
    let whole = first(&[bytes], expect, &mut known);
    assert_eq!(first(&[bytes], expect, &mut known), whole, "with its head known");
    let at = usize::from(*cut) * bytes.len() / 256;
    let halves = [&bytes[..at], &bytes[at..]];
    let pieces: Vec<&[u8]> = bytes.chunks(1 + usize::from(*cut) % 16).collect();
    // Damage in an unfinished head line may be reported at once, or only as a truncated response.
    let told = |verdict: Option<Verdict>| verdict.unwrap_or(Verdict { wrong: Some(Wrong::Response), keep: false });
    assert_eq!(told(first(&halves, expect, &mut KnownHead::default())), told(whole), "cut at {at}");
    assert_eq!(told(first(&pieces, expect, &mut known)), told(whole), "cut in {}", pieces.len());
    let shown = bytes.escape_ascii();
    compare(whole, &read(bytes, expect.bodiless), expect, &shown);
}

/// The first verdict on these pieces; the connection closes after them.
fn first(pieces: &[&[u8]], expect: &Expect, known: &mut KnownHead) -> Option<Verdict> {
    let (mut reader, mut sample) = (Reader::default(), ErrorSample::default());
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        let fed = reader.feed(piece, expect, known, &mut sample);
        assert!(fed.used <= piece.len());
        assert!(reader.held_bytes() <= 4 * HEAD_LIMIT);
        if fed.verdict.is_some() {
            return fed.verdict;
        }
        assert_eq!(fed.used, piece.len(), "bytes left, and no verdict");
    }
    reader.end(expect)
}

fn compare(verdict: Option<Verdict>, reading: &Reading, expect: &Expect, bytes: &dyn std::fmt::Display) {
    let Reading::Done { status, body, keep, chunked } = reading else {
        let right = verdict.is_some_and(|verdict| verdict.wrong.is_none());
        assert!(!right, "called right, where the oracle reads {reading:?}: {bytes}");
        return;
    };
    let Some(verdict) = verdict else { panic!("no verdict, where the oracle reads {reading:?}: {bytes}") };
    if *chunked && verdict.wrong == Some(Wrong::Response) {
        return; // stricter than the oracle: extensions, trailers, lengths of 16 digits
    }
    match verdict.wrong {
        None => assert_eq!((*status, body.as_slice(), *keep), (expect.status, expect.body, verdict.keep), "{bytes}"),
        Some(Wrong::Status) => assert_ne!(*status, expect.status, "{bytes}"),
        Some(Wrong::Length) => assert!(*status == expect.status && body.len() != expect.body.len(), "{bytes}"),
        Some(Wrong::Body) => assert!(body.len() == expect.body.len() && body != expect.body, "{bytes}"),
        Some(Wrong::Head | Wrong::Request) => panic!("no head is expected here, and no request was sent: {bytes}"),
        Some(Wrong::Response) => panic!("refused, where the oracle reads {reading:?}: {bytes}"),
    }
}

fn read(mut bytes: &[u8], bodiless: bool) -> Reading {
    loop {
        // httparse skips empty lines before a head; the reader does not.
        let shared = bytes.len().min(7);
        if bytes[..shared] != b"HTTP/1."[..shared] {
            return Reading::Unsound;
        }
        let mut fields = [httparse::EMPTY_HEADER; 128];
        let mut head = httparse::Response::new(&mut fields);
        let mut rules = httparse::ParserConfig::default();
        rules.allow_obsolete_multiline_headers_in_responses(true);
        let length = match rules.parse_response(&mut head, bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Reading::Cut,
            Err(_) => return Reading::Unsound,
        };
        bytes = &bytes[length..];
        match head.code.unwrap_or(0) {
            101 | 0..100 => return Reading::Unsound,
            100..200 => {}
            _ => return body(&head, bytes, bodiless),
        }
    }
}

/// A list field's members, from all its lines.
fn values(head: &httparse::Response, name: &str) -> Vec<String> {
    let fields = head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    let lines = fields.map(|field| String::from_utf8_lossy(field.value).into_owned());
    lines.flat_map(|line| line.split(',').map(|part| part.trim_ascii().to_owned()).collect::<Vec<_>>()).collect()
}

/// RFC 9112, 6.3, read as strictly as a client may.
fn body(head: &httparse::Response, bytes: &[u8], bodiless: bool) -> Reading {
    let (status, minor) = (head.code.unwrap_or(0), head.version.unwrap_or(0));
    let (lengths, codings) = (values(head, "content-length"), values(head, "transfer-encoding"));
    let said = |word: &str| values(head, "connection").iter().any(|part| part.eq_ignore_ascii_case(word));
    let keep = !said("close") && (minor == 1 || said("keep-alive"));
    let sound = lengths.iter().all(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    let numbers: Result<Vec<u64>, _> = lengths.iter().map(|text| text.parse::<u64>()).collect();
    let (true, Ok(numbers)) = (sound, numbers) else { return Reading::Unsound };
    let chunked = !codings.is_empty();
    if numbers.iter().any(|length| *length != numbers[0])
        || chunked && (!numbers.is_empty() || minor == 0 || codings.len() > 1)
        || chunked && !codings[0].eq_ignore_ascii_case("chunked")
    {
        return Reading::Unsound;
    }
    let done = |body: &[u8], keep| Reading::Done { status, body: body.to_vec(), keep, chunked };
    if bodiless || status == 204 || status == 304 {
        return done(b"", keep);
    }
    match numbers.first() {
        _ if chunked => match unchunk(bytes) {
            Ok(Some(body)) => done(&body, keep),
            Ok(None) => Reading::Cut,
            Err(()) => Reading::Unsound,
        },
        Some(&length) if length <= bytes.len() as u64 => done(&bytes[..length as usize], keep),
        Some(_) => Reading::Cut,
        None => done(bytes, false),
    }
}

/// The body, or None if it is truncated.
fn unchunk(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, ()> {
    let mut body = Vec::new();
    loop {
        let (at, size) = match httparse::parse_chunk_size(bytes) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(()),
        };
        bytes = &bytes[at..];
        if size == 0 {
            let ended = bytes.starts_with(b"\r\n") || bytes.windows(4).any(|four| four == b"\r\n\r\n");
            return Ok(ended.then_some(body));
        }
        let Some(chunk) = bytes.get(..size as usize) else { return Ok(None) };
        body.extend_from_slice(chunk);
        bytes = match &bytes[size as usize..] {
            [b'\r', b'\n', rest @ ..] => rest,
            [] | [b'\r'] => return Ok(None),
            _ => return Err(()),
        };
    }
}
