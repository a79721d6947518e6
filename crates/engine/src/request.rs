//! What a server reads in a request: where it ends, what its response has, and what becomes of the connection.

/// Maximum number of header fields in one head.
const MAX_FIELDS: usize = 128;
/// Longest line with a chunk's size.
const MAX_SIZE: usize = 4096;

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
    /// The number of the exchange that stands for such requests of a script; see [`SessionPlan::scripts`](crate::SessionPlan).
    pub fn kind(&self) -> u32 {
        u32::from(self.bodiless) + if self.closes { 2 } else { 4 * u32::from(self.old) }
    }
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

/// A chunked body without its framing, and how many bytes it took, including trailers (RFC 9112, 7.1).
pub(crate) fn dechunked(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
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
}
