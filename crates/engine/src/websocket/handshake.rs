//! The upgrade of a connection: a request of HTTP/1.1 with a key, and a response that proves that the server has read it
//! (RFC 6455, 4).

use crate::response::{HEAD_LIMIT, read_head, unfolded};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// Appended to the key before it is hashed (1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Maximum number of header fields in the response, as in responses of HTTP/1.1.
const MAX_FIELDS: usize = 128;

/// An upgrade that was requested, and the response so far.
#[derive(Debug)]
pub struct Upgrade {
    accept: String,
    came: Vec<u8>,
}

impl Upgrade {
    /// The bytes of the request: `head` with the fields of an upgrade. Each `seed` has its own key.
    pub fn request(head: &[u8], seed: u64) -> (Self, Vec<u8>) {
        let mut key = [0; 16];
        for (number, half) in (0..).zip(key.chunks_exact_mut(8)) {
            half.copy_from_slice(&mixed(seed, number).to_be_bytes());
        }
        let key = BASE64_STANDARD.encode(key);
        let fields = format!(
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        );
        let head = head.strip_suffix(b"\r\n").unwrap_or(head);
        (Self { accept: accept(&key), came: Vec::new() }, [head, fields.as_bytes()].concat())
    }

    /// Reads bytes of the response. Some: the connection is upgraded, and this many of the bytes were used.
    ///
    /// # Errors
    /// Why the connection is not upgraded.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let before = self.came.len();
        self.came.extend_from_slice(&bytes[..bytes.len().min(HEAD_LIMIT - before)]);
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        match read_head(&mut response, &self.came) {
            Ok(httparse::Status::Complete(length)) => {
                self.check(&response)?;
                Ok(Some(length - before))
            }
            Ok(httparse::Status::Partial) if self.came.len() < HEAD_LIMIT => Ok(None),
            Ok(httparse::Status::Partial) => Err(format!("the response to the upgrade exceeds {HEAD_LIMIT} bytes")),
            Err(error) => Err(format!("the response to the upgrade is not HTTP/1.1 ({error})")),
        }
    }

    fn check(&self, response: &httparse::Response) -> Result<(), String> {
        let status = response.code.unwrap_or(0);
        if status != 101 {
            return Err(format!("the upgrade got status {status}, 101 is expected"));
        }
        let values = |name: &str| {
            let named = response.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            named
                .map(|field| String::from_utf8_lossy(&unfolded(field.value)).into_owned())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let listed = |name: &str, word: &str| values(name).split(',').any(|it| it.trim().eq_ignore_ascii_case(word));
        if !listed("upgrade", "websocket") || !listed("connection", "upgrade") {
            return Err("status 101 without Upgrade: websocket and Connection: Upgrade".into());
        }
        let given = values("sec-websocket-accept");
        if given.trim() != self.accept {
            return Err(format!("Sec-WebSocket-Accept is {given:?}, {:?} is expected", self.accept));
        }
        for name in ["sec-websocket-extensions", "sec-websocket-protocol"] {
            if !values(name).is_empty() {
                return Err(format!("the upgrade's response has {name}, which was not offered"));
            }
        }
        Ok(())
    }
}

/// The proof that a server has read a key.
pub fn accept(key: &str) -> String {
    BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()))
}

/// Draw `number` of a seed (splitmix64 of a counter; Steele, Lea & Flood 2014).
pub fn mixed(seed: u64, number: u64) -> u64 {
    let mut bits = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_own_example_has_the_proof_that_it_names() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn every_seed_has_another_key_and_the_request_ends_with_a_blank_line() {
        let [first, second] = [1, 2].map(|seed| Upgrade::request(b"GET /ws HTTP/1.1\r\nHost: a\r\n\r\n", seed).1);
        assert_ne!(first, second);
        assert!(first.starts_with(b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"), "{first:?}");
        assert_eq!(memchr::memmem::find_iter(&first, b"\r\n\r\n").collect::<Vec<_>>(), [first.len() - 4]);
    }

    #[test]
    fn the_response_may_come_in_pieces_and_what_follows_it_is_not_used() {
        let (mut upgrade, _) = Upgrade::request(b"GET / HTTP/1.1\r\n\r\n", 7);
        let fields = "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Accept";
        for byte in format!("HTTP/1.1 101 Switching Protocols\r\n{fields}: {}\r\n\r", upgrade.accept).bytes() {
            assert_eq!(upgrade.feed(&[byte]), Ok(None));
        }
        assert_eq!(upgrade.feed(b"\n\x81\x00"), Ok(Some(1)));
    }
}
