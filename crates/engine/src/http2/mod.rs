//! HTTP/2 as a client speaks it: frames in and out, by hand. No I/O, no clock, bounded memory.
//!
//! RFC 9113 (HTTP/2) and RFC 7541 (HPACK), strict where leniency would let a broken server pass. A [`Connection`] is
//! fed what arrived and tells what happened to which stream; what it has to say is taken from its [`Connection::out`].

mod connection;
pub mod frame;
pub mod hpack;
mod request;
mod section;

/// Longest header block, and longest header list as RFC 9113, 6.5.2 counts it.
pub const HEAD_LIMIT: usize = 64 * 1024;

pub use connection::{Broken, Connection, Event, MAX_REQUESTS, MAX_STREAMS, Repeated};
pub use request::Request;
