//! Frames in, events out: the same however the bytes are cut, and without harm from any bytes.
//!
//! `FUZZ_CASES=10000000 cargo test --test frames` reads as many mutated conversations.

mod conversation;

use conversation::{outcome, read, requests};
use dragstrip_engine::http2::Request;
use dragstrip_engine::http2::frame::{self, flag, kind, setting};
use proptest::prelude::*;
use std::path::Path;

/// A conversation: settings, then complete responses and frames of every kind, most of them valid.
fn conversation(next: &mut impl FnMut(u32) -> u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_settings(&mut bytes, &[(setting::MAX_CONCURRENT_STREAMS, next(9)), (next(9) as u16, next(1 << 20))]);
    for _ in 0..next(12) {
        let id = 2 * next(6) + 1;
        let pad = [next(4) as u8];
        match next(14) {
            0..=3 => {
                let head: &[u8] = [&[0x88, 0x0f, 0x0d, 1, b'5'][..], &[0x88], &[0x5c, 1, b'5', 0x88], &[0x8e, 0xbe]]
                    [next(4) as usize];
                frame::write(&mut bytes, kind::HEADERS, flag::END_HEADERS | next(2) as u8, id, head);
                frame::write(&mut bytes, kind::DATA, next(2) as u8, id, &b"hello world"[..next(12) as usize]);
            }
            4 => frame::write(&mut bytes, kind::DATA, flag::PADDED | 1, id, &[&pad[..], b"hi", &[0; 3]].concat()),
            5 => {
                frame::write(&mut bytes, kind::HEADERS, next(2) as u8, id, &[0x88]);
                frame::write(&mut bytes, kind::CONTINUATION, 4 * next(2) as u8, id, &[0x0f, 0x0d, 1, b'0']);
            }
            6 => frame::write(&mut bytes, kind::PING, next(2) as u8, 0, &[next(256) as u8; 8]),
            7 => frame::write(&mut bytes, kind::RST_STREAM, 0, id, &next(14).to_be_bytes()),
            8 => frame::write(&mut bytes, kind::WINDOW_UPDATE, 0, id * next(2), &next(1 << 31).to_be_bytes()),
            9 => frame::write(&mut bytes, kind::GOAWAY, 0, 0, &[0, 0, 0, next(9) as u8, 0, 0, 0, next(14) as u8]),
            10 => frame::write_settings(&mut bytes, &[(setting::INITIAL_WINDOW_SIZE, next(1 << 17)), (1, next(5000))]),
            // Identical responses, to requests in flight or completed.
            11..=12 => {
                let known = next(2) as usize;
                for id in (id..).step_by(2).take(1 + next(5) as usize) {
                    let head: &[u8] = [&[0x88, 0x0f, 0x0d, 1, b'5'][..], &[0x88, 0x5c, 1, b'5']][known];
                    frame::write(&mut bytes, kind::HEADERS, flag::END_HEADERS, id, head);
                    frame::write(&mut bytes, kind::DATA, flag::END_STREAM, id, b"hello");
                }
            }
            _ => frame::write(
                &mut bytes,
                next(256) as u8,
                next(256) as u8,
                next(9),
                &vec![next(256) as u8; next(40) as usize],
            ),
        }
    }
    bytes
}

/// SplitMix64 (Steele, Lea and Flood, 2014): random numbers below a bound.
fn drawing(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u64::from((mixed ^ mixed >> 31) as u32) * u64::from(below)) >> 32) as u32
    }
}

/// Reads this seed's conversation with some bytes changed, whole and in pieces; counts the repeated responses.
fn check(seed: u64, requests: &[Request]) -> u64 {
    let mut next = drawing(seed);
    let mut bytes = conversation(&mut next);
    for _ in 0..next(4) * next(3) {
        let at = next(bytes.len() as u32) as usize;
        match next(3) {
            0 => bytes[at] ^= 1 << next(8),
            1 => bytes[at] = next(256) as u8,
            _ => drop(bytes.remove(at)),
        }
    }
    let whole = outcome(&bytes, &[], requests);
    let mut cuts: Vec<usize> = (0..next(6)).map(|_| next(bytes.len() as u32 + 1) as usize).collect();
    cuts.sort_unstable();
    assert_eq!(outcome(&bytes, &cuts, requests), whole, "seed {seed}, cut at {cuts:?}: {bytes:?}");
    if seed.is_multiple_of(16) {
        let every: Vec<usize> = (1..bytes.len()).collect();
        assert_eq!(outcome(&bytes, &every, requests), whole, "seed {seed}, byte by byte: {bytes:?}");
    }
    read(&bytes, &[], requests, true).1
}

#[test]
fn mutated_conversations_mean_the_same_however_they_are_cut_and_do_no_harm() {
    let cases: u64 = std::env::var("FUZZ_CASES").map_or(20_000, |text| text.parse().unwrap());
    let (requests, first) = (requests(), std::env::var("FUZZ_SEED").map_or(1, |text| text.parse().unwrap()));
    let repeated: u64 = (0..cases).map(|case| check(first + case, &requests)).sum();
    println!("{cases} conversations read, from seed {first}; {repeated} answers in them repeated others");
    assert!(repeated > cases / 10, "too few answers that repeat others: {repeated}");
}

#[test]
fn every_input_of_the_fuzzers_corpus_means_the_same_wherever_it_is_cut() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/frames");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let input = std::fs::read(entry.unwrap().path()).unwrap();
        for cut in (0..=255).step_by(5) {
            conversation::check(&[&[cut], &input[1..]].concat());
        }
        count += 1;
    }
    assert!(count >= 40, "{count} inputs");
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
        let requests = requests();
        let mut settled = Vec::new();
        frame::write_settings(&mut settled, &[]);
        settled.extend(bytes);
        prop_assert_eq!(outcome(&settled, &[cut], &requests), outcome(&settled, &[], &requests));
    }

    /// The decoder reads the same fields from a block as loona-hpack, and refuses what loona-hpack refuses.
    #[test]
    fn header_blocks_are_read_as_another_decoder_reads_them(
        blocks in prop::collection::vec(prop::collection::vec(piece(), 0..6).prop_map(|parts| parts.concat()), 1..8),
    ) {
        let mut ours = dragstrip_engine::http2::hpack::Decoder::default();
        let mut theirs = loona_hpack::Decoder::new();
        theirs.set_max_allowed_table_size(dragstrip_engine::http2::hpack::TABLE_BYTES);
        for block in &blocks {
            let mut fields = Vec::new();
            let read = ours.decode(block, |name, value| fields.push((name.to_vec(), value.to_vec())));
            match (read, theirs.decode(block)) {
                (Ok(_), Ok(wanted)) => prop_assert_eq!(fields, wanted),
                (Err(_), Err(_)) => break,
                // loona-hpack accepts table size updates anywhere but at the end (RFC 7541, 4.2: at the beginning).
                (Err(why), Ok(_)) => {
                    prop_assert!(why.contains("sets the table's size"), "{}: {:?}", why, block);
                    break;
                }
                (Ok(effects), Err(why)) => {
                    prop_assert!(effects.changed && format!("{why:?}").contains("SizeUpdateAtEnd"), "{why:?}: {block:?}");
                    break;
                }
            }
        }
    }
}

/// A field as some encoder could write it, or nearly.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::collection::vec(any::<u8>(), 0..12);
    let coded = prop::collection::vec(any::<u8>(), 0..12).prop_map(|text| {
        let mut coded = Vec::new();
        httlib_huffman::encode(&text, &mut coded).unwrap();
        coded
    });
    let string = prop_oneof![
        3 => text.clone().prop_map(|text| [&[text.len() as u8], text.as_slice()].concat()),
        2 => coded.prop_map(|text| [&[0x80 | text.len() as u8], text.as_slice()].concat()),
        1 => text.prop_map(|text| [&[0x80 | text.len() as u8], text.as_slice()].concat()),
    ];
    prop_oneof![
        (1u8..80).prop_map(|index| vec![0x80 | index]),
        (1u8..80, string.clone()).prop_map(|(index, value)| [&[0x40 | index.min(0x3e)][..], &value].concat()),
        (string.clone(), string.clone()).prop_map(|(name, value)| [&[0x40][..], &name, &value].concat()),
        (0u8..2, 1u8..15, string.clone()).prop_map(|(kind, index, value)| [&[kind << 4 | index][..], &value].concat()),
        (string.clone(), string).prop_map(|(name, value)| [&[0x10][..], &name, &value].concat()),
        (0u8..31).prop_map(|size| vec![0x20 | size]),
        prop::collection::vec(any::<u8>(), 1..4),
    ]
}
