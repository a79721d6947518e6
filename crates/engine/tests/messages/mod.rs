//! Invariants for any bytes of a WebSocket server: no panic, and what a plain reading of the whole bytes finds, wherever
//! they are cut. Shared by `websocket_frames.rs` and LLVM's fuzzer (`fuzz/fuzz_targets/messages.rs`).

use dragstrip_engine::failure::Wrong;
use dragstrip_engine::response::SKIP_LIMIT;
use dragstrip_engine::websocket::frames::{Event, Message, Reader};

/// The expected responses, in turn; the second is binary.
const EXPECTED: [(&[u8], bool); 2] = [(b"hello", false), (&[7; 200], true)];

/// What was read: events, or the end by a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Event(Event, Vec<u8>),
    Broken,
}

/// Reads bytes that are cut at these places, as the engine does.
pub fn read(bytes: &[u8], cuts: &[usize]) -> Vec<Told> {
    let messages = EXPECTED.map(|(payload, binary)| Message::new(b"", payload, binary, [0; 4]));
    let (mut reader, mut told, mut turn, mut from) = (Reader::default(), Vec::new(), 0, 0);
    for to in cuts.iter().copied().chain([bytes.len()]).filter(|to| *to <= bytes.len()) {
        while from < to {
            let Ok((used, event)) = reader.feed(&bytes[from..to], Some(&messages[turn % 2])) else {
                told.push(Told::Broken);
                return told;
            };
            assert!(used > 0 && used <= to - from, "it must come forward");
            from += used;
            match event {
                Event::More => continue,
                Event::Message(_) => {
                    turn += 1;
                    told.push(Told::Event(event, Vec::new()));
                }
                _ => told.push(Told::Event(event, reader.control().to_vec())),
            }
        }
    }
    told
}

/// The same by plain code over the whole bytes.
fn oracle(mut bytes: &[u8]) -> Vec<Told> {
    let (mut told, mut turn) = (Vec::new(), 0);
    let mut message: Option<(u8, Vec<u8>)> = None;
    while let [first, second, rest @ ..] = bytes {
        let (width, least) = match second & 0x7f {
            126 => (2, 126),
            127 => (8, 0x1_0000),
            _ => (0, 0),
        };
        let Some((length, rest)) = rest.split_at_checked(width) else { return told };
        let given = length.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let length = if width == 0 { u64::from(second & 0x7f) } else { given };
        let (fin, opcode) = (first & 0x80 != 0, first & 0x0f);
        let (expected, binary) = EXPECTED[turn % 2];
        let had = message.as_ref().map_or(0, |(_, payload)| payload.len() as u64);
        let sound = first & 0x70 == 0
            && second & 0x80 == 0
            && length >= least
            && match opcode {
                0 => message.is_some(),
                1 | 2 => message.is_none(),
                8..=10 => fin && length <= 125,
                _ => false,
            }
            && (opcode > 7 || had.saturating_add(length) <= expected.len() as u64 + SKIP_LIMIT);
        if !sound {
            told.push(Told::Broken);
            return told;
        }
        let Some((payload, rest)) = rest.split_at_checked(length as usize) else { return told };
        bytes = rest;
        if opcode > 7 {
            let event = match (opcode, payload) {
                (9, _) => Event::Ping,
                (10, _) => Event::Pong,
                (_, []) => Event::Close(None),
                (_, [_]) => {
                    told.push(Told::Broken);
                    return told;
                }
                (_, [high, low, ..]) => Event::Close(Some(u16::from_be_bytes([*high, *low]))),
            };
            told.push(Told::Event(event, payload.to_vec()));
            continue;
        }
        let (kind, mut whole) = message.take().unwrap_or((opcode, Vec::new()));
        whole.extend_from_slice(payload);
        if !fin {
            message = Some((kind, whole));
            continue;
        }
        turn += 1;
        let wrong = if (kind == 2) != binary {
            Some(Wrong::Head)
        } else if whole.len() != expected.len() {
            Some(Wrong::Length)
        } else {
            (whole != expected).then_some(Wrong::Body)
        };
        told.push(Told::Event(Event::Message(wrong), Vec::new()));
    }
    told
}

/// One input of the fuzzer: where to cut (a share of 255), then the server's bytes.
pub fn check(input: &[u8]) {
    let [cut, bytes @ ..] = input else { return };
    let whole = read(bytes, &[]);
    assert_eq!(whole, oracle(bytes), "{bytes:?}");
    assert_eq!(read(bytes, &[bytes.len() * usize::from(*cut) / 255]), whole, "cut: {bytes:?}");
    if bytes.len() < 4096 {
        let every: Vec<usize> = (1..bytes.len()).collect();
        assert_eq!(read(bytes, &every), whole, "byte by byte: {bytes:?}");
    }
}
