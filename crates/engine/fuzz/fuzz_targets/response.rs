//! The response parser under LLVM's fuzzer; what must hold of every input is in `tests/oracle`.
#![no_main]

#[path = "../../tests/oracle/mod.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|input: &[u8]| oracle::check(input));
