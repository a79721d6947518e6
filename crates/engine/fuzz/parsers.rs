//! The engine's parsers, compiled from its own files, without the engine: threads, sockets, TLS and their crates.
//!
//! The whole engine under AddressSanitizer takes minutes to build, the parsers take seconds. A parser that begins to
//! use another part of the engine fails to compile here; then add that file, if it does no I/O.
#![allow(dead_code)] // what only the rest of the engine uses

#[path = "../src"]
mod engine {
    pub mod error_sample;
    pub mod exchange;
    pub mod failure;
    pub mod heads;
    pub mod http2;
    pub mod request;
    pub mod response;
    pub mod websocket {
        pub mod frames;
    }
}

pub use engine::*;
