//! Why a request failed, and what may be wrong with a response: plain values that counting and parsing share.

/// Why a request, or an attempt to connect, failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Failure {
    /// A connection could not be opened in time, or for another reason than a refusal. No request was sent.
    Connect,
    /// The connection was refused: nothing listens. No request was sent.
    Refused,
    /// The connection was reset during a request.
    Reset,
    /// The server closed the connection before its response was complete.
    ClosedEarly,
    /// No complete response in time.
    Timeout,
    /// Not HTTP, invalid framing, or bytes without a request.
    BadResponse,
    /// The status differs from the expected one.
    WrongStatus,
    /// The body's length differs from the expected one.
    WrongLength,
    /// The body has the expected length but other bytes.
    WrongBody,
    /// The request could not be sent.
    Send,
    /// The TLS handshake failed, or received bytes could not be decrypted.
    Tls,
    /// A response that is correct but came before its earliest time.
    TooEarly,
    /// The server refused a stream without processing its request (RFC 9113, 8.7). The request is sent again, and counted once.
    RefusedStream,
    /// The head has other fields than the reference responses, or other values of the fields that stay the same.
    WrongHead,
    /// The response was complete, and otherwise correct, before its request was sent completely: the server has not read it.
    RequestCut,
}

/// Number of kinds of failure.
pub const KINDS: usize = 15;

/// Names of the kinds in records, in the order of [`Failure`].
pub const NAMES: [&str; KINDS] = [
    "connect",
    "refused",
    "reset",
    "closed_early",
    "timeout",
    "bad_response",
    "wrong_status",
    "wrong_length",
    "wrong_body",
    "send",
    "tls",
    "too_early",
    "refused_stream",
    "wrong_head",
    "request_cut",
];

/// What is wrong with a response; the first of these that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Not HTTP, or invalid framing.
    Response,
    /// The status differs.
    Status,
    /// The status is correct, but the head differs from the reference responses.
    Head,
    /// The status is correct, but the body's length differs.
    Length,
    /// The length is correct, but the bytes differ.
    Body,
    /// It was complete before its request was sent completely.
    Request,
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Response => Self::BadResponse,
            Wrong::Status => Self::WrongStatus,
            Wrong::Head => Self::WrongHead,
            Wrong::Length => Self::WrongLength,
            Wrong::Body => Self::WrongBody,
            Wrong::Request => Self::RequestCut,
        }
    }
}
