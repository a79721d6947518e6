//! Each fault of an HTTP/2 server has exactly one known result, and the counts add up.

use super::peer::{HEAD, INTERNAL_ERROR, Peer, Then, serve};
use super::{drive, plan};
use crate::faulty::{BODY, check, count, engine, errors};
use dragstrip_engine::SessionPlan;
use dragstrip_engine::http2::frame::{self, flag, kind, setting};
use std::sync::atomic::Ordering;

type Fault = (&'static str, fn(&mut Peer, u32), fn() -> Then, Option<&'static str>);

fn named(name: &str, value: &str) -> Vec<u8> {
    let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    [&[0x88, 0][..], &literal(name), &literal(value)].concat()
}

/// What the server does, what happens to the connection, and what the request counts as; None: a correct response.
const FAULTS: [Fault; 43] = [
    ("right", |to, id| to.right(id), || Then::GoOn, None),
    ("byte by byte", |to, id| bytewise(to, id), || Then::GoOn, None),
    ("body in pieces", |to, id| pieces(to, id), || Then::GoOn, None),
    ("padded", |to, id| padded(to, id, 200), || Then::GoOn, None),
    ("padded with nothing", |to, id| padded(to, id, 0), || Then::GoOn, None),
    ("priority in the head", |to, id| with_priority(to, id), || Then::GoOn, None),
    ("interim heads before", |to, id| interim(to, id, 3), || Then::GoOn, None),
    ("trailers", |to, id| trailers(to, id, &named("x", "y")[1..]), || Then::GoOn, None),
    ("head in CONTINUATIONs", |to, id| continued(to, id), || Then::GoOn, None),
    (
        "an unknown frame",
        |to, id| {
            to.write(77, 255, id, &[1; 99]);
            to.right(id)
        },
        || Then::GoOn,
        None,
    ),
    (
        "a PRIORITY frame",
        |to, id| {
            to.write(kind::PRIORITY, 0, id, &[0; 5]);
            to.right(id)
        },
        || Then::GoOn,
        None,
    ),
    (
        "window updates",
        |to, id| {
            to.write(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]);
            to.right(id)
        },
        || Then::GoOn,
        None,
    ),
    (
        "settings within",
        |to, id| {
            to.settings(&[(setting::HEADER_TABLE_SIZE, 0), (99, 7)]);
            to.right(id)
        },
        || Then::GoOn,
        None,
    ),
    ("RST", |to, id| to.reset(id, INTERNAL_ERROR), || Then::GoOn, Some("reset")),
    (
        "RST within the body",
        |to, id| {
            to.head(id, HEAD, false);
            to.data(id, b"hello", false);
            to.reset(id, 8)
        },
        || Then::GoOn,
        Some("reset"),
    ),
    ("TCP's reset", |_, _| (), || Then::Reset, Some("reset")),
    ("closes without a word", |_, _| (), || Then::Close, Some("closed_early")),
    (
        "closes within the body",
        |to, id| {
            to.head(id, HEAD, false);
            to.data(id, b"hello", false)
        },
        || Then::Close,
        Some("closed_early"),
    ),
    (
        "says GOAWAY with an error and closes",
        |to, id| to.go_away(id, INTERNAL_ERROR),
        || Then::Close,
        Some("closed_early"),
    ),
    ("stalls", |_, _| (), || Then::Stall, Some("timeout")),
    (
        "stalls within the body",
        |to, id| {
            to.head(id, HEAD, false);
            to.data(id, b"hello", false)
        },
        || Then::Stall,
        Some("timeout"),
    ),
    ("another status", |to, id| to.head(id, &[0x8e], true), || Then::GoOn, Some("wrong_status")),
    (
        "too long by its word",
        |to, id| to.head(id, &[0x88, 0x0f, 0x0d, 2, b'9', b'9'], false),
        || Then::GoOn,
        Some("wrong_length"),
    ),
    (
        "too long without a word",
        |to, id| {
            to.head(id, &[0x88], false);
            to.data(id, b"hello world!", true)
        },
        || Then::GoOn,
        Some("wrong_length"),
    ),
    (
        "too short without a word",
        |to, id| {
            to.head(id, &[0x88], false);
            to.data(id, b"hello", true)
        },
        || Then::GoOn,
        Some("wrong_length"),
    ),
    (
        "other bytes",
        |to, id| {
            to.head(id, HEAD, false);
            to.data(id, b"hello World", true)
        },
        || Then::GoOn,
        Some("wrong_body"),
    ),
    (
        "shorter than its word",
        |to, id| {
            to.head(id, HEAD, false);
            to.data(id, b"hello", true)
        },
        || Then::GoOn,
        Some("bad_response"),
    ),
    (
        "longer than its word",
        |to, id| {
            to.head(id, HEAD, false);
            to.data(id, b"hello world!", true)
        },
        || Then::GoOn,
        Some("bad_response"),
    ),
    ("a body before its head", |to, id| to.data(id, BODY, true), || Then::GoOn, Some("bad_response")),
    ("no status", |to, id| to.head(id, &[0x0f, 0x0d, 2, b'1', b'1'], false), || Then::GoOn, Some("bad_response")),
    ("upper case", |to, id| to.head(id, &named("Server", "x"), false), || Then::GoOn, Some("bad_response")),
    (
        "a word of HTTP/1",
        |to, id| to.head(id, &named("connection", "close"), false),
        || Then::GoOn,
        Some("bad_response"),
    ),
    ("a pseudo-header in trailers", |to, id| trailers(to, id, &[0x88]), || Then::GoOn, Some("bad_response")),
    ("a header list beyond 64 KiB", |to, id| long_list(to, id), || Then::GoOn, Some("bad_response")),
    ("interim heads without end", |to, id| interim(to, id, 100), || Then::GoOn, Some("bad_response")),
    ("a header block beyond 64 KiB", |to, id| long_block(to, id), || Then::Stall, Some("bad_response")),
    ("empty CONTINUATIONs without end", |to, id| empty_continuations(to, id), || Then::Stall, Some("bad_response")),
    ("bad HPACK: no such field", |to, id| to.head(id, &[0xff, 0x7f], true), || Then::Stall, Some("bad_response")),
    (
        "bad HPACK: bad Huffman code",
        |to, id| to.head(id, &[0x08, 0x84, 0xff, 0xff, 0xff, 0xff], true),
        || Then::Stall,
        Some("bad_response"),
    ),
    (
        "bad padding",
        |to, id| {
            to.head(id, HEAD, false);
            to.write(kind::DATA, flag::PADDED, id, &[9, 1, 1])
        },
        || Then::Stall,
        Some("bad_response"),
    ),
    (
        "a frame beyond 16,384 bytes",
        |to, id| {
            to.head(id, HEAD, false);
            to.data(id, &[b'x'; 16_385], true)
        },
        || Then::Stall,
        Some("bad_response"),
    ),
    (
        "a push",
        |to, id| to.write(kind::PUSH_PROMISE, flag::END_HEADERS, id, &[0, 0, 0, 2, 0x82]),
        || Then::Stall,
        Some("bad_response"),
    ),
    (
        "a frame on a stream that was not opened",
        |to, _| to.data(1 << 20 | 1, b"x", false),
        || Then::Stall,
        Some("bad_response"),
    ),
];

fn bytewise(to: &mut Peer, id: u32) {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, kind::HEADERS, flag::END_HEADERS, id, HEAD);
    frame::write(&mut bytes, kind::DATA, flag::END_STREAM, id, BODY);
    bytes.iter().for_each(|byte| to.raw(&[*byte]));
}

fn pieces(to: &mut Peer, id: u32) {
    to.head(id, HEAD, false);
    to.data(id, b"", false);
    BODY.chunks(3).for_each(|piece| to.data(id, piece, false));
    to.data(id, b"", true);
}

fn padded(to: &mut Peer, id: u32, pad: u8) {
    let of = |bytes: &[u8]| [&[pad], bytes, &vec![0; usize::from(pad)]].concat();
    to.write(kind::HEADERS, flag::END_HEADERS | flag::PADDED, id, &of(HEAD));
    to.write(kind::DATA, flag::PADDED, id, &of(b"hello"));
    to.write(kind::DATA, flag::PADDED | flag::END_STREAM, id, &of(b" world"));
}

fn with_priority(to: &mut Peer, id: u32) {
    let payload = [&[2][..], &[0, 0, 0, 0, 9], HEAD, &[0, 0]].concat();
    to.write(kind::HEADERS, flag::END_HEADERS | flag::PADDED | flag::PRIORITY, id, &payload);
    to.data(id, BODY, true);
}

fn interim(to: &mut Peer, id: u32, count: usize) {
    (0..count).for_each(|_| to.head(id, &[0x08, 3, b'1', b'0', b'3'], false));
    to.right(id);
}

fn trailers(to: &mut Peer, id: u32, block: &[u8]) {
    to.head(id, HEAD, false);
    to.data(id, BODY, false);
    to.head(id, block, true);
}

fn continued(to: &mut Peer, id: u32) {
    let (first, rest) = HEAD.split_at(2);
    to.write(kind::HEADERS, 0, id, first);
    to.write(kind::CONTINUATION, 0, id, &[]);
    to.write(kind::CONTINUATION, flag::END_HEADERS, id, rest);
    to.data(id, BODY, true);
}

/// A field of 4,000 bytes inserted into the table once, then referred to 20 times by one byte each.
fn long_list(to: &mut Peer, id: u32) {
    let mut block = vec![0x88, 0x40, 1, b'x', 0x7f, 0xa1, 0x1e]; // 127 + 3873
    block.extend([b'y'; 4000]);
    block.extend([0x80 | 62; 20]);
    to.head(id, &block, false);
}

fn long_block(to: &mut Peer, id: u32) {
    to.write(kind::HEADERS, 0, id, &[0x88]);
    (0..6).for_each(|_| to.write(kind::CONTINUATION, 0, id, &[0x88; 16_000]));
}

fn empty_continuations(to: &mut Peer, id: u32) {
    to.write(kind::HEADERS, 0, id, &[0x88]);
    (0..1000).for_each(|_| to.write(kind::CONTINUATION, 0, id, &[]));
}

#[test]
fn every_fault_of_a_server_has_its_kind_and_the_counts_are_exact() {
    for (name, act, then, kind) in FAULTS {
        let server = serve(move |peer, id, _| {
            peer.held.clear();
            act(peer, id);
            then()
        });
        let mut engine = engine(1);
        let timeout_ns = if kind == Some("timeout") { 500_000_000 } else { 60_000_000_000 };
        let session = engine.open(SessionPlan { timeout_ns, ..plan(server.address, 2, 1) }).unwrap();
        let done = engine.run(&[count(session, 12)], &[]).unwrap().pop().unwrap();
        check(&done);
        assert_eq!((done.sent, server.requests()), (12, 12), "{name}: {done:?}");
        match kind {
            None => assert_eq!((done.answered, done.connects, errors(&done)), (12, 0, vec![]), "{name}"),
            Some(kind) => assert_eq!((done.answered, errors(&done)), (0, vec![(kind, 12)]), "{name}"),
        }
    }
}

#[test]
fn a_fault_of_one_stream_does_not_affect_the_others_on_its_connection() {
    let server = serve(|peer, id, number| {
        peer.held.clear();
        match number % 5 {
            1 => peer.reset(id, INTERNAL_ERROR),
            2 => peer.head(id, &[0x8e], true),
            3 => peer.head(id, &named("connection", "close"), false),
            _ => peer.right(id),
        }
        Then::GoOn
    });
    let done = drive(plan(server.address, 2, 10), 500);
    let wanted = vec![("reset", 100), ("bad_response", 100), ("wrong_status", 100)];
    assert_eq!((done.answered, errors(&done), done.connects), (200, wanted, 0));
    assert_eq!(server.requests(), 500);
}

#[test]
fn twenty_thousand_pings_and_settings_are_answered_and_cost_no_request() {
    let server = serve(|peer, id, number| {
        peer.held.clear();
        if number == 3 {
            let mut flood = Vec::new();
            for turn in 0..20_000u64 {
                frame::write(&mut flood, kind::PING, 0, 0, &turn.to_be_bytes());
            }
            (0..5_000).for_each(|_| frame::write_settings(&mut flood, &[(setting::INITIAL_WINDOW_SIZE, 65_535)]));
            // Written and read at the same time, because a socket can't hold all responses.
            let mut writing = peer.stream.try_clone().unwrap();
            let mut last = Vec::new();
            frame::write(&mut last, kind::HEADERS, flag::END_HEADERS, id, HEAD);
            frame::write(&mut last, kind::DATA, flag::END_STREAM, id, BODY);
            std::thread::spawn(move || {
                use std::io::Write;
                let _ = writing.write_all(&flood);
                let _ = writing.write_all(&last);
            });
            return Then::GoOn;
        }
        peer.right(id);
        Then::GoOn
    });
    let plan = SessionPlan { timeout_ns: 60_000_000_000, ..plan(server.address, 1, 1) };
    let done = drive(plan, 10);
    assert_eq!((done.answered, errors(&done), done.connects), (10, vec![], 0));
    assert!(server.seen.acks.load(Ordering::SeqCst) >= 25_000);
}

#[test]
fn a_server_that_floods_and_takes_no_answers_is_given_up_with_bounded_memory() {
    let server = serve(|peer, _, _| {
        // The replies to these exceed what the sockets hold, and the server reads nothing during this time.
        let mut flood = Vec::new();
        (0..50_000u64).for_each(|turn| frame::write(&mut flood, kind::PING, 0, 0, &turn.to_be_bytes()));
        while std::io::Write::write_all(&mut peer.stream, &flood).is_ok() {}
        Then::Close
    });
    let done = drive(SessionPlan { timeout_ns: 60_000_000_000, ..plan(server.address, 1, 1) }, 1);
    assert_eq!((done.answered, errors(&done)), (0, vec![("bad_response", 1)]));
    assert!(done.sample.contains("ENHANCE_YOUR_CALM"), "{}", done.sample);
}
