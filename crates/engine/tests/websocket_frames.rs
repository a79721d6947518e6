//! Frames of WebSocket in, events out: as plain code reads them, however the bytes are cut, and without harm from any bytes.
//!
//! `FUZZ_CASES=10000000 cargo test --test websocket_frames` reads as many mutated conversations.

mod messages;

use proptest::prelude::*;
use std::path::Path;

/// A frame as some server could write it, or nearly.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![
        6 => prop::sample::select(vec![0x81u8, 0x82, 0x01, 0x02, 0x80, 0x00]),
        2 => prop::sample::select(vec![0x88u8, 0x89, 0x8a]),
        1 => any::<u8>(),
    ];
    let payload = prop_oneof![
        3 => Just(b"hello".to_vec()),
        3 => Just(vec![7; 200]),
        2 => prop::collection::vec(any::<u8>(), 0..140),
        1 => Just(vec![1; 70_000]),
    ];
    (first, payload, 0..12u8).prop_map(|(first, payload, form)| {
        let length = match (form, payload.len()) {
            (0, length) => [&[126], &(length as u16).to_be_bytes()[..]].concat(),
            (1, length) => [&[127], &(length as u64).to_be_bytes()[..]].concat(),
            (2, length) => vec![0x80 | length as u8],
            (_, length @ ..126) => vec![length as u8],
            (_, length @ ..0x1_0000) => [&[126], &(length as u16).to_be_bytes()[..]].concat(),
            (_, length) => [&[127], &(length as u64).to_be_bytes()[..]].concat(),
        };
        [&[first], length.as_slice(), &payload].concat()
    })
}

fn cases() -> u32 {
    std::env::var("FUZZ_CASES").map_or(2_000, |text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_conversations_are_read_as_plain_code_reads_them(
        frames in prop::collection::vec(frame(), 0..8),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..3),
        cut in any::<u8>(),
    ) {
        let mut bytes = frames.concat();
        bytes.truncate(200_000);
        for (at, byte, how) in damage {
            if bytes.is_empty() { break }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        messages::check(&[&[cut], bytes.as_slice()].concat());
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        messages::check(&bytes);
    }
}

#[test]
fn every_input_of_the_fuzzers_corpus_is_read_as_plain_code_reads_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/messages");
    let inputs: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|it| std::fs::read(it.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 15, "{} inputs", inputs.len());
    for input in inputs {
        for cut in (0..=255).step_by(5) {
            messages::check(&[&[cut], &input[1..]].concat());
        }
    }
}
