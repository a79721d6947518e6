//! Frames of HTTP/2 under LLVM's fuzzer; what must hold of every input is in `tests/conversation`.
#![no_main]

#[path = "../../tests/conversation/mod.rs"]
mod conversation;

libfuzzer_sys::fuzz_target!(|input: &[u8]| conversation::check(input));
