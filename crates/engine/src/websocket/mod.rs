//! WebSocket (RFC 6455): the upgrade of a connection, and messages in frames. No I/O, no clock.

pub mod frames;
pub mod handshake;

pub use frames::{Broken, Event, Message, Reader};
pub use handshake::Upgrade;
