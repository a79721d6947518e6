//! Frames of WebSocket under LLVM's fuzzer; what must hold of every input is in `tests/messages`.
#![no_main]

#[path = "../../tests/messages/mod.rs"]
mod messages;

libfuzzer_sys::fuzz_target!(|input: &[u8]| messages::check(input));
