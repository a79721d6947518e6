//! A request in HTTP/1.1's form, translated once into HTTP/2's frames. Only the stream number is still to be filled in.

use super::{frame, hpack};

/// Fields of an HTTP/1 connection (RFC 9113, 8.2.2), and Host, which `:authority` replaces (8.3.1).
const LEFT_OUT: [&str; 7] =
    ["connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"];
/// Maximum number of header fields in a request.
const MAX_FIELDS: usize = 256;

/// A request as it is sent on a stream.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The HEADERS frame, and CONTINUATION frames if the header block is long.
    pub head: Vec<u8>,
    /// Offsets in `head` at which the stream number is filled in.
    pub numbers: Vec<usize>,
    /// The header block alone.
    pub block: Vec<u8>,
    /// The body, which follows in DATA frames.
    pub body: Vec<u8>,
}

impl Request {
    /// Translates a request in HTTP/1.1's form into HTTP/2's (RFC 9113, 8.3.1).
    ///
    /// # Errors
    /// Why the bytes are not a valid request.
    pub fn new(bytes: &[u8], scheme: &str) -> Result<Self, String> {
        let mut fields = vec![httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut read = httparse::Request::new(&mut fields);
        let length = match read.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Err("its head has no end".into()),
            Err(error) => return Err(format!("it can't be read ({error})")),
        };
        let (method, path) = (read.method.unwrap_or_default(), read.path.unwrap_or_default());
        let host = read.headers.iter().find(|field| field.name.eq_ignore_ascii_case("host"));
        let mut block = Vec::with_capacity(length);
        hpack::write_field(&mut block, ":method", method.as_bytes());
        hpack::write_field(&mut block, ":scheme", scheme.as_bytes());
        hpack::write_field(&mut block, ":path", path.as_bytes());
        if let Some(host) = host {
            hpack::write_field(&mut block, ":authority", host.value);
        }
        for field in read.headers.iter() {
            let name = field.name.to_ascii_lowercase();
            if !LEFT_OUT.contains(&name.as_str()) {
                hpack::write_field(&mut block, &name, field.value);
            }
        }
        let body = bytes[length..].to_vec();
        let mut head = Vec::with_capacity(block.len() + frame::HEADER_BYTES);
        let numbers = frame::write_block(&mut head, &block, body.is_empty(), 0);
        Ok(Self { head, numbers, block, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(request: &Request) -> Vec<String> {
        let mut fields = Vec::new();
        let effects = hpack::Decoder::default().decode(&request.block, |name, value| {
            fields.push(format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
        });
        assert_eq!(effects, Ok(hpack::Effects::default()), "it does not touch the table");
        fields
    }

    #[test]
    fn a_request_keeps_its_headers_except_connection_specific_ones() {
        let wire = b"POST /a?b=1 HTTP/1.1\r\nHost: here:80\r\nUser-Agent: x\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi";
        let request = Request::new(wire, "https").unwrap();
        let wanted =
            [":method=POST", ":scheme=https", ":path=/a?b=1", ":authority=here:80", "user-agent=x", "content-length=2"];
        assert_eq!(fields(&request), wanted);
        assert_eq!((request.body.as_slice(), request.numbers.as_slice()), (b"hi".as_slice(), [5].as_slice()));
        assert_eq!(request.head[..9], [0, 0, request.block.len() as u8, 1, 4, 0, 0, 0, 0]);
        let bodiless = Request::new(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "http").unwrap();
        assert_eq!(bodiless.head[4], 5, "the stream ends with its head");
    }

    #[test]
    fn a_long_head_goes_in_several_frames() {
        let wire = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(40_000));
        let request = Request::new(wire.as_bytes(), "http").unwrap();
        assert_eq!(request.numbers.len(), 3);
        assert_eq!(request.head.len(), request.block.len() + 3 * frame::HEADER_BYTES);
    }

    #[test]
    fn an_invalid_request_is_refused() {
        for wire in [b"GET / HTTP/1.1\r\nHost".as_slice(), b"\0\0", b""] {
            assert!(Request::new(wire, "http").is_err());
        }
    }
}
