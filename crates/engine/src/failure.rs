//! Why a request failed, and what may be wrong with an answer: plain values that counting and parsing share.

/// Why a request, or an attempt to connect, failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Failure {
    /// A connection could not be opened in time, or for another reason than a refusal. Sends nothing.
    Connect,
    /// Nobody listens. Sends nothing.
    Refused,
    /// The connection was reset under a request.
    Reset,
    /// The server closed before its answer was complete.
    ClosedEarly,
    /// No complete answer in time.
    Timeout,
    /// Not HTTP, framing that can't be trusted, or bytes nobody asked for.
    BadResponse,
    /// Another status.
    WrongStatus,
    /// A body of another length.
    WrongLength,
    /// A body of the right length with other bytes.
    WrongBody,
    /// The request could not be sent.
    Send,
    /// No handshake could be made, or what came could not be decrypted.
    Tls,
    /// The right answer, sooner than it may come.
    TooEarly,
    /// The server refused a stream without looking at its request (RFC 9113, 8.7), which leaves again. Sends nothing.
    RefusedStream,
    /// A head with other fields than the reference responses', or with other values of those that stay the same.
    WrongHead,
}

/// How many kinds of failure there are.
pub const KINDS: usize = 14;

/// Their names in records, in the order of [`Failure`].
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
];

/// What is wrong with an answer; the first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Not HTTP, or its framing can't be trusted.
    Response,
    /// Another status.
    Status,
    /// The right status in a head that is not as those of the reference responses.
    Head,
    /// The right status with a body of another length.
    Length,
    /// The right length with other bytes.
    Body,
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Response => Self::BadResponse,
            Wrong::Status => Self::WrongStatus,
            Wrong::Head => Self::WrongHead,
            Wrong::Length => Self::WrongLength,
            Wrong::Body => Self::WrongBody,
        }
    }
}
