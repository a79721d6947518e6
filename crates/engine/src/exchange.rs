//! A request as it is sent, and the expected response: the part of a plan that the parsers need.

/// Bytes that stand for what varies in a pattern. UTF-8 has none of them (RFC 3629, 3).
pub mod varying {
    /// One decimal digit or more.
    pub const DIGITS: u8 = 0xfc;
    /// A number of JSON (RFC 8259, 6): one or more of its characters.
    pub const NUMBER: u8 = 0xfd;
    /// What is between the quotation marks of a string of JSON (RFC 8259, 7), or nothing.
    pub const STRING: u8 = 0xfe;
    /// One small letter or more: `true`, `false`.
    pub const WORD: u8 = 0xff;
}

/// A request as it is sent, and the expected response.
///
/// Build it with [`Exchange::new`] and struct update, so that a new field changes nothing for other callers.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Head and body, as sent.
    pub request: Vec<u8>,
    /// The expected status; 0: any from 200 to 399.
    pub status: u16,
    /// The expected body, without transfer coding; empty if a body of any length is correct.
    pub body: Vec<u8>,
    /// Any body of this length is correct. If `body` is empty, any of up to 1 MiB is: more would be a stream.
    pub any_body: bool,
    /// Bytes of `body` from [`varying::DIGITS`] on stand for what varies in correct responses.
    pub pattern: bool,
    /// A response that arrives sooner than this after its request was sent is incorrect.
    pub earliest_ns: u64,
    /// Kind of request; kinds are counted separately, and numbered from 0 without gaps.
    pub kind: u32,
    /// Over WebSocket, the type of the message and of its response: binary, not text.
    pub binary: bool,
}

impl Exchange {
    /// One kind of request with one correct body, and no earliest time.
    pub fn new(request: Vec<u8>, status: u16, body: Vec<u8>) -> Self {
        Self { request, status, body, any_body: false, pattern: false, earliest_ns: 0, kind: 0, binary: false }
    }

    /// The request's head with its blank line, and its body.
    pub fn parts(&self) -> (&[u8], &[u8]) {
        let blank = memchr::memmem::find(&self.request, b"\r\n\r\n");
        self.request.split_at(blank.map_or(self.request.len(), |at| at + 4))
    }

    /// Whether the response has no body, whatever its head says (RFC 9112, 6.3).
    pub fn bodiless(&self) -> bool {
        self.request.starts_with(b"HEAD ")
    }
}
