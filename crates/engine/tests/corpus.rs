//! Runs the fuzzer's target without the fuzzer: on every input of the committed corpus, and on mutations of each.

mod oracle;

use proptest::prelude::*;
use std::path::Path;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/response");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn every_input_of_the_corpus_is_read_as_the_oracle_reads_it() {
    let inputs = corpus();
    assert!(inputs.len() >= 40, "{} inputs", inputs.len());
    for input in &inputs {
        for cut in 0..=255 {
            oracle::check(&[&input[..1], &[cut], &input[2..]].concat());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn neighbours_of_the_corpus_are_read_as_the_oracle_reads_them(
        mut input in prop::sample::select(corpus()),
        other in prop::sample::select(corpus()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..4),
    ) {
        for (at, byte, how) in damage {
            let at = at.index(input.len());
            match how {
                0 => input[at] = byte,
                1 => input.insert(at, byte),
                2 => input.truncate(at),
                _ => input.extend_from_slice(&other[at.min(other.len())..]),
            }
            if input.is_empty() { break }
        }
        oracle::check(&input);
    }
}
