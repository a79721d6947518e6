//! The client side of HTTP/2: frames in and out. No I/O, no clock, bounded memory.
//!
//! RFC 9113 (HTTP/2) and RFC 7541 (HPACK), read strictly wherever leniency would let a broken server pass. A [`Connection`]
//! is given the bytes that arrived and reports what happened on which stream. [`Connection::out`] has the bytes to send.

mod connection;
pub mod frame;
mod header_cache;
pub mod hpack;
mod request;

/// Longest header block, and longest header list as RFC 9113, 6.5.2 counts it.
pub const HEAD_LIMIT: usize = 64 * 1024;

pub use connection::{Broken, Connection, Event, MAX_REQUESTS, MAX_STREAMS, Repeated};
pub use request::Request;
