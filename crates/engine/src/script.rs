//! The interface between a session and the script that makes its requests during the load.
//!
//! The engine knows no scripting language: the caller implements [`Script`]. This module splits the bytes that a script
//! makes into requests, so that each has its response, and assembles responses for scripts that read them.

use crate::exchange::Exchange;
use crate::request::dechunked;
pub use crate::request::{RequestForm, first_request};
use crate::response;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Maximum number of header fields in one head.
const MAX_FIELDS: usize = 128;

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

#[cfg(test)]
mod tests {
    use super::*;

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
