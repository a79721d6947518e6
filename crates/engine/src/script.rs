//! The interface between a session and the script that makes its requests during the load.
//!
//! The engine knows no scripting language: the caller implements [`Script`]. This module splits the bytes that a script
//! makes into requests, so that each has its response, and assembles responses for scripts that read them.

use crate::exchange::Exchange;
use crate::response;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Maximum number of header fields in one head.
const MAX_FIELDS: usize = 128;
/// Longest line with a chunk's size.
const MAX_SIZE: usize = 4096;

/// A function of a script failed; the implementation of [`Script`] knows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// One worker's script.
pub trait Script: Send {
    /// Appends what is to be sent next on a connection: one request, or several that are sent together.
    ///
    /// # Errors
    /// The script failed: the run ends.
    fn request(&mut self, into: &mut Vec<u8>) -> Result<(), Failed>;

    /// Whether there is a pause before each request.
    fn delays(&self) -> bool;

    /// The pause before the next request.
    ///
    /// # Errors
    /// As [`Script::request`].
    fn delay_ns(&mut self) -> Result<u64, Failed>;

    /// Whether the script reads responses.
    fn listens(&self) -> bool;

    /// Passes a response to the script.
    ///
    /// # Errors
    /// As [`Script::request`].
    fn response(&mut self, answer: &Answer) -> Result<(), Failed>;

    /// Whether the script has stopped this worker's requests.
    fn stopped(&self) -> bool;

    /// Reports that the bytes that the script made can't be sent.
    fn refuse(&mut self, why: &str);
}

/// A script as a plan holds it.
#[derive(Clone)]
pub struct SharedScript(pub Arc<Mutex<dyn Script>>);

impl fmt::Debug for SharedScript {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("SharedScript")
    }
}

/// A response as a script sees it.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The final status.
    pub status: u16,
    /// Names and values as sent.
    pub headers: Vec<(&'a [u8], &'a [u8])>,
    /// The body, without transfer coding.
    pub body: Cow<'a, [u8]>,
}

/// What a server reads in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestForm {
    /// Bytes of head and body.
    pub length: usize,
    /// Its response has no body (HEAD).
    pub bodiless: bool,
    /// It asks the server to close the connection: by `Connection: close`, or in HTTP/1.0 without `keep-alive`.
    pub closes: bool,
    /// It is in HTTP/1.0.
    pub old: bool,
    /// How many `Host` headers it has.
    pub hosts: usize,
}

impl RequestForm {
    /// The number of the exchange that stands for such requests of a script; see [`kinds_of_response`].
    pub fn kind(&self) -> u32 {
        u32::from(self.bodiless) + if self.closes { 2 } else { 4 * u32::from(self.old) }
    }
}

/// The exchanges of a session with a script, by [`RequestForm::kind`]: a response with a body and one without, after
/// requests that keep the connection, that close it, and that keep it in HTTP/1.0.
pub(crate) fn kinds_of_response(plain: &[Exchange]) -> Vec<Exchange> {
    let forms = ["HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n", "HTTP/1.0\r\nConnection: keep-alive\r\n"];
    let made = |form: &str, one: &Exchange| {
        let request = format!("{} / {form}\r\n", if one.bodiless() { "HEAD" } else { "GET" }).into_bytes();
        Exchange { request, ..one.clone() }
    };
    forms.iter().flat_map(|form| plain.iter().map(|one| made(form, one))).collect()
}

/// The first request in these bytes, read as a server reads it.
///
/// # Errors
/// Why the bytes do not begin with a whole HTTP/1.x request.
pub fn first_request(bytes: &[u8]) -> Result<RequestForm, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Err("its head has no end (an empty line)"),
        Err(_) => return Err("it is not a valid HTTP/1.1 request; wrk.format makes one"),
    };
    let (mut length, mut chunked) = (None, false);
    let (mut close, mut keep_alive, mut hosts) = (false, false, 0);
    for field in request.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            let digits = std::str::from_utf8(field.value).ok().map(str::trim);
            let given = digits.and_then(|digits| digits.parse::<usize>().ok());
            let given = given.ok_or("its Content-Length is not a number")?;
            if length.is_some_and(|length| length != given) {
                return Err("its Content-Lengths contradict each other");
            }
            length = Some(given);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            for part in field.value.split(|&byte| byte == b',') {
                close |= part.trim_ascii().eq_ignore_ascii_case(b"close");
                keep_alive |= part.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
            }
        } else if field.name.eq_ignore_ascii_case("host") {
            hosts += 1;
        }
    }
    let body = match (chunked, length) {
        (true, Some(_)) => return Err("it has Content-Length and Transfer-Encoding"),
        (true, None) => dechunked(&bytes[head..]).ok_or("its chunked body has no end")?.1,
        (false, length) => length.unwrap_or(0),
    };
    if bytes.len() - head < body {
        return Err("its body is shorter than its Content-Length");
    }
    let old = request.version == Some(0);
    let bodiless = request.method == Some("HEAD");
    Ok(RequestForm { length: head + body, bodiless, closes: close || old && !keep_alive, old, hosts })
}

/// Assembles a response from all its bytes, which the parser has accepted; None: it can't be read.
pub fn answer(mut bytes: &[u8], bodiless: bool, see: &mut dyn FnMut(&Answer)) -> Option<()> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut head = httparse::Response::new(&mut fields);
        let Ok(httparse::Status::Complete(length)) = response::read_head(&mut head, bytes) else { return None };
        let status = head.code?;
        let rest = &bytes[length..];
        if (100..200).contains(&status) {
            bytes = rest;
            continue;
        }
        let chunked = head.headers.iter().any(|field| field.name.eq_ignore_ascii_case("transfer-encoding"));
        let body = match chunked && !bodiless && status != 204 && status != 304 {
            true => Cow::Owned(dechunked(rest)?.0),
            false => Cow::Borrowed(rest),
        };
        let headers = head.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
        see(&Answer { status, headers, body });
        return Some(());
    }
}

/// A chunked body without its framing, and how many bytes it took, including trailers (RFC 9112, 7.1).
fn dechunked(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let line = line_at(bytes, at)?;
        let digits = line.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next()?;
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        at += line.len() + 2;
        if size == 0 {
            break;
        }
        body.extend_from_slice(bytes.get(at..at.checked_add(size)?)?);
        at += size + 2;
    }
    loop {
        let line = line_at(bytes, at)?;
        at += line.len() + 2;
        if line.is_empty() {
            return Some((body, at));
        }
    }
}

/// The line that begins here, without its end.
fn line_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    let end = memchr::memmem::find(&rest[..rest.len().min(MAX_SIZE)], b"\r\n")?;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_sent_together_are_distinguished() {
        let made = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcHEAD /b HTTP/1.1\r\n\r\n\
            POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n0\r\nA: b\r\n\r\nGET /d HTTP/1.0\r\n\r\n";
        let (mut rest, mut requests) = (&made[..], Vec::new());
        while !rest.is_empty() {
            let RequestForm { length, bodiless, .. } = first_request(rest).unwrap();
            requests.push((rest.split_at(length).0[..6].to_vec(), bodiless));
            rest = &rest[length..];
        }
        let starts: Vec<_> =
            requests.iter().map(|(start, head)| (std::str::from_utf8(start).unwrap(), *head)).collect();
        assert_eq!(starts, [("POST /", false), ("HEAD /", true), ("POST /", false), ("GET /d", false)]);
    }

    #[test]
    fn a_request_that_closes_its_connection_is_known_as_the_server_knows_it() {
        for (head, kind) in [
            ("GET / HTTP/1.1", 0),
            ("HEAD / HTTP/1.1", 1),
            ("GET / HTTP/1.1\r\nConnection: close", 2),
            ("GET / HTTP/1.1\r\nconnection: x, Close", 2),
            ("HEAD / HTTP/1.1\r\nConnection: close", 3),
            ("GET / HTTP/1.0", 2),
            ("GET / HTTP/1.0\r\nConnection: keep-alive", 4),
            ("HEAD / HTTP/1.0\r\nConnection: Keep-Alive", 5),
        ] {
            let form = first_request(format!("{head}\r\n\r\n").as_bytes()).unwrap();
            assert_eq!(form.kind(), kind, "{head}");
        }
    }

    #[test]
    fn an_incomplete_request_is_refused() {
        for made in [
            "GET / HTTP/1.1\r\n",
            "nothing at all\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc",
            "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        ] {
            assert!(first_request(made.as_bytes()).is_err(), "{made:?}");
        }
    }

    #[test]
    fn a_response_is_assembled_without_its_framing() {
        let mut responses = Vec::new();
        let mut see = |answer: &Answer| responses.push((answer.status, answer.headers.len(), answer.body.to_vec()));
        let framed =
            b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
        answer(framed, false, &mut see).unwrap();
        answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nX-A: b\r\n\r\nno", false, &mut see).unwrap();
        answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, &mut see).unwrap();
        assert_eq!(answer(b"HTTP/1.1 200", false, &mut see), None);
        let read: Vec<_> = responses.iter().map(|(status, fields, body)| (*status, *fields, &body[..])).collect();
        assert_eq!(read, [(200, 1, &b"abcd"[..]), (404, 2, &b"no"[..]), (200, 1, &b""[..])]);
    }
}
