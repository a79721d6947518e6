//! Frames in, events out: the same however the bytes are cut, and no bytes do harm.
//!
//! `FUZZ_CASES=10000000 cargo test --test frames` reads as many mutated conversations.

use dragstrip_engine::http2::frame::{self, flag, kind, setting};
use dragstrip_engine::http2::{Broken, Connection, Event, Request};
use proptest::prelude::*;

const STREAMS: usize = 3;
/// What a connection may hold at most: a header block, a frame, what it owes, a request's body in frames, and spare room.
const MOST_HELD: usize = 10 << 20;

fn requests() -> Vec<Request> {
    let wires: [&[u8]; 2] = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n01234567890123456789",
    ];
    wires.iter().map(|wire| Request::new(wire, "http").unwrap()).collect()
}

/// An event without borrowed bytes; pieces of one body are one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Head(usize, u16, Option<u64>, bool),
    Data(usize, Vec<u8>, bool),
    Malformed(usize, &'static str),
    Reset(usize, u32),
    GoAway(u32, u32),
    Settings,
    Room,
    Broken(Broken),
}

/// A client that has requests under way on every stream that it may, and what it was told.
struct Client {
    connection: Connection,
    told: Vec<Told>,
    sent: Vec<u8>,
    broken: bool,
}

impl Client {
    fn new(requests: &[Request]) -> Self {
        let mut made =
            Self { connection: Connection::new(STREAMS, 1000), told: Vec::new(), sent: Vec::new(), broken: false };
        (0..STREAMS).for_each(|slot| made.connection.open(slot, slot as u32 % 2, requests));
        made
    }

    /// Feeds one piece to its end.
    fn feed(&mut self, mut piece: &[u8], requests: &[Request]) {
        while !piece.is_empty() && !self.broken {
            let (used, event) = match self.connection.next(piece) {
                Ok(next) => next,
                Err(broken) => {
                    self.told.push(Told::Broken(broken));
                    self.broken = true;
                    break;
                }
            };
            assert!(used > 0 && used <= piece.len(), "it must come forward");
            let over = self.note(event);
            piece = &piece[used..];
            if let Some(slot) = over {
                self.connection.open(slot, slot as u32 % 2, requests);
            }
            if event == Event::Room {
                self.connection.resume(requests);
            }
        }
        self.sent.extend_from_slice(self.connection.out());
        self.connection.wrote(self.connection.out().len());
        assert!(self.connection.held_bytes() <= MOST_HELD);
    }

    /// The slot that is free now, if one is.
    fn note(&mut self, event: Event) -> Option<usize> {
        let (told, over) = match event {
            Event::More => return None,
            Event::Head { slot, status, length, end } => (Told::Head(slot, status, length, end), end.then_some(slot)),
            Event::Data { slot, bytes, end } => {
                if let Some(Told::Data(same, known, ended @ false)) = self.told.last_mut()
                    && *same == slot
                {
                    known.extend_from_slice(bytes);
                    *ended = end;
                    return end.then_some(slot);
                }
                (Told::Data(slot, bytes.to_vec(), end), end.then_some(slot))
            }
            Event::Malformed { slot, why } => (Told::Malformed(slot, why), Some(slot)),
            Event::Reset { slot, code } => (Told::Reset(slot, code), Some(slot)),
            Event::GoAway { last, code } => (Told::GoAway(last, code), None),
            Event::Settings => (Told::Settings, None),
            Event::Room => (Told::Room, None),
        };
        self.told.push(told);
        over.filter(|slot| self.connection.id(*slot) == 0)
    }
}

/// What comes of bytes cut at these places.
fn outcome(bytes: &[u8], cuts: &[usize], requests: &[Request]) -> (Vec<Told>, Vec<u8>) {
    let mut client = Client::new(requests);
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        if to > from && to <= bytes.len() {
            client.feed(&bytes[from..to], requests);
            from = to;
        }
    }
    (client.told, client.sent)
}

/// A conversation: settings, then whole answers and frames of every kind, sound for the most part.
fn conversation(next: &mut impl FnMut(u32) -> u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_settings(&mut bytes, &[(setting::MAX_CONCURRENT_STREAMS, next(9)), (next(9) as u16, next(1 << 20))]);
    for _ in 0..next(12) {
        let id = 2 * next(6) + 1;
        let pad = [next(4) as u8];
        match next(12) {
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

/// SplitMix64 (Steele, Lea and Flood, 2014): numbers below what is asked.
fn drawing(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u64::from((mixed ^ mixed >> 31) as u32) * u64::from(below)) >> 32) as u32
    }
}

/// Reads a conversation of this seed, some of its bytes changed, whole and in pieces.
fn check(seed: u64, requests: &[Request]) {
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
}

#[test]
fn mutated_conversations_mean_the_same_however_they_are_cut_and_do_no_harm() {
    let cases: u64 = std::env::var("FUZZ_CASES").map_or(20_000, |text| text.parse().unwrap());
    let (requests, first) = (requests(), std::env::var("FUZZ_SEED").map_or(1, |text| text.parse().unwrap()));
    (0..cases).for_each(|case| check(first + case, &requests));
    println!("{cases} conversations read, from seed {first}");
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

    /// The fields that loona-hpack reads out of a block, this reads, too; and what it refuses is refused.
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
                // It takes a change of the table's size anywhere but at the end (RFC 7541, 4.2: at the beginning only).
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
