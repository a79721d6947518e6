//! WebSocket over real connections: exact counts, and one kind of failure for each server fault.

use crate::faulty::{Server, Then, check, count, engine, errors, serve_heads};
use dragstrip_engine::schedule::{Arrivals, OpenLoopPlan, Precision, Step};
use dragstrip_engine::websocket::handshake::accept;
use dragstrip_engine::{BlockPlan, Exchange, Protocol, SessionPlan, Tally};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const HEAD: &[u8] = b"GET /ws HTTP/1.1\r\nHost: test\r\n\r\n";
const BINARY: u8 = 2;

/// A frame of the client, unmasked.
struct Frame {
    opcode: u8,
    payload: Vec<u8>,
}

impl Frame {
    /// The whole message as a server sends it back.
    fn echo(&self) -> Vec<u8> {
        framed(0x80 | self.opcode, &self.payload)
    }
}

fn framed(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = match payload.len() {
        short @ ..126 => vec![short as u8],
        long @ ..0x1_0000 => [&[126], &(long as u16).to_be_bytes()[..]].concat(),
        long => [&[127], &(long as u64).to_be_bytes()[..]].concat(),
    };
    [&[first], length.as_slice(), payload].concat()
}

fn read_frame(stream: &mut TcpStream) -> Option<Frame> {
    let mut bytes = |count: usize| {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes).ok().map(|()| bytes)
    };
    let head = bytes(2)?;
    assert!(head[0] & 0xf0 == 0x80 && head[1] & 0x80 != 0, "{head:?} is not a whole masked frame");
    let length = match head[1] & 0x7f {
        126 => bytes(2)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
        127 => bytes(8)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
        short => usize::from(short),
    };
    let mask = bytes(4)?;
    let payload = bytes(length)?.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    Some(Frame { opcode: head[0] & 0x0f, payload })
}

/// The correct response to an upgrade.
fn upgraded(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head);
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    assert_eq!((value("Upgrade: "), value("Sec-WebSocket-Version: ")), ("websocket".into(), "13".into()));
    let accept = accept(&value("Sec-WebSocket-Key: "));
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
}

/// What a server has received: messages, and control frames.
#[derive(Default)]
struct Seen {
    messages: AtomicU64,
    controls: AtomicU64,
}

/// Upgrades every connection; `behave` gets each message, and its 0-based number over all connections.
fn serve(behave: impl Fn(&mut TcpStream, &Frame, u64) -> Then + Send + Sync + 'static) -> (Server, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let mine = Arc::clone(&seen);
    let server = serve_heads(move |stream, head, _| {
        let _ = stream.write_all(upgraded(head).as_bytes());
        while let Some(frame) = read_frame(stream) {
            if frame.opcode > BINARY {
                mine.controls.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            match behave(stream, &frame, mine.messages.fetch_add(1, Ordering::SeqCst)) {
                Then::GoOn => {}
                then => return then,
            }
        }
        Then::Close
    });
    (server, seen)
}

fn echoing() -> (Server, Arc<Seen>) {
    serve(|stream, frame, _| {
        let _ = stream.write_all(&frame.echo());
        Then::GoOn
    })
}

fn exchange(payload: &[u8], binary: bool) -> Exchange {
    Exchange { binary, ..Exchange::new([HEAD, payload].concat(), 101, payload.to_vec()) }
}

fn plan(address: SocketAddr, connections: usize) -> SessionPlan {
    let exchanges = vec![exchange(b"hello", false), exchange(b"world", false), exchange(&[0, 255, 7], true)];
    SessionPlan { protocol: Protocol::WebSocket, exchanges, ..crate::faulty::plan(address, connections) }
}

/// Runs a block of this many messages on one worker and checks the invariants of every tally.
fn drive(plan: SessionPlan, messages: u64) -> Tally {
    let mut engine = engine(1);
    let session = engine.open(plan).unwrap();
    let done = engine.run(&[count(session, messages)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!(done.sent, messages, "{done:?}");
    done
}

#[test]
fn every_message_over_every_number_of_connections_is_answered_and_counted_once() {
    for (workers, connections) in [(1, 1), (1, 3), (2, 5), (3, 4)] {
        let (server, seen) = echoing();
        let mut engine = engine(workers);
        let session = engine.open(plan(server.address, connections)).unwrap();
        assert_eq!(engine.used(session).unwrap().protocol, "WebSocket");
        let done = engine.run(&[count(session, 1001), count(session, 300)], &[]).unwrap();
        for (one, messages) in done.iter().zip([1001, 300]) {
            check(one);
            assert_eq!((one.requests, one.answered, one.sent, errors(one)), (messages, messages, messages, vec![]));
            assert_eq!((one.connects, one.statuses.clone()), (0, vec![(101, messages)]));
        }
        assert_eq!((seen.messages.load(Ordering::SeqCst), server.accepted()), (1301, connections as u64));
    }
}

#[test]
fn messages_of_every_form_of_length_arrive_whole_both_ways() {
    let (server, _) = echoing();
    let payloads = [0, 1, 125, 126, 127, 65_535, 65_536, 3 << 20]
        .map(|length| (0..length).map(|at: usize| (at * 7 + at / 251) as u8).collect::<Vec<_>>());
    let exchanges = payloads.iter().map(|payload| exchange(payload, true)).collect();
    let done = drive(SessionPlan { exchanges, ..plan(server.address, 2) }, 32);
    assert_eq!((done.answered, errors(&done), done.connects), (32, vec![], 0));
}

type Fault = (&'static str, fn(&mut TcpStream, &Frame), fn() -> Then, Option<&'static str>);

fn say(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
}

fn with(stream: &mut TcpStream, frame: &Frame, before: &[u8]) {
    say(stream, &[before, &frame.echo()].concat());
}

fn fragments(stream: &mut TcpStream, frame: &Frame) {
    let (first, rest) = frame.payload.split_at(1);
    say(stream, &framed(frame.opcode, first));
    say(stream, &framed(0x89, b"between"));
    say(stream, &[framed(0, b""), framed(0x80, rest)].concat());
}

fn masked(stream: &mut TcpStream, frame: &Frame) {
    let mut bytes = vec![0x80 | frame.opcode, 0x80 | frame.payload.len() as u8, 0, 0, 0, 0];
    bytes.extend_from_slice(&frame.payload);
    say(stream, &bytes);
}

/// What the server does, what happens to the connection, and what the message counts as; None: a correct response.
const FAULTS: [Fault; 24] = [
    ("right", |to, it| with(to, it, b""), || Then::GoOn, None),
    ("byte by byte", |to, it| it.echo().iter().for_each(|byte| say(to, &[*byte])), || Then::GoOn, None),
    ("in fragments, with a ping between", fragments, || Then::GoOn, None),
    ("a ping before", |to, it| with(to, it, &framed(0x89, b"ping")), || Then::GoOn, None),
    ("a pong before", |to, it| with(to, it, &framed(0x8a, b"")), || Then::GoOn, None),
    ("the other type", |to, it| say(to, &framed(0x83 ^ it.opcode, &it.payload)), || Then::GoOn, Some("wrong_head")),
    ("always hello!", |to, it| say(to, &framed(0x80 | it.opcode, b"hello!")), || Then::GoOn, Some("wrong_length")),
    ("too short", |to, it| say(to, &framed(0x80 | it.opcode, b"")), || Then::GoOn, Some("wrong_length")),
    (
        "other bytes",
        |to, it| say(to, &framed(0x80 | it.opcode, &vec![b'x'; it.payload.len()])),
        || Then::GoOn,
        Some("wrong_body"),
    ),
    ("masked", masked, || Then::GoOn, Some("bad_response")),
    ("reserved bits", |to, it| say(to, &framed(0xc0 | it.opcode, &it.payload)), || Then::GoOn, Some("bad_response")),
    ("an unknown opcode", |to, it| say(to, &framed(0x83, &it.payload)), || Then::GoOn, Some("bad_response")),
    ("a continuation alone", |to, it| say(to, &framed(0x80, &it.payload)), || Then::GoOn, Some("bad_response")),
    (
        "a message within another",
        |to, it| say(to, &[framed(it.opcode, b""), it.echo()].concat()),
        || Then::GoOn,
        Some("bad_response"),
    ),
    (
        "a long form of a short length",
        |to, it| say(to, &[&[0x80 | it.opcode, 126, 0, 5][..], &it.payload].concat()),
        || Then::GoOn,
        Some("bad_response"),
    ),
    ("a ping in fragments", |to, it| with(to, it, &framed(0x09, b"")), || Then::GoOn, Some("bad_response")),
    ("a long ping", |to, it| with(to, it, &framed(0x89, &[1; 126])), || Then::GoOn, Some("bad_response")),
    ("half a code", |to, _| say(to, &framed(0x88, b"x")), || Then::GoOn, Some("bad_response")),
    ("HTTP", |to, _| say(to, b"HTTP/1.1 200 OK\r\n\r\n"), || Then::GoOn, Some("bad_response")),
    (
        "megabytes more",
        |to, it| say(to, &[0x80 | it.opcode, 127, 0, 0, 0, 0, 0, 0x20, 0, 0]),
        || Then::GoOn,
        Some("bad_response"),
    ),
    ("close", |to, _| say(to, &framed(0x88, &1001u16.to_be_bytes())), || Then::GoOn, Some("closed_early")),
    ("the connection's end", |to, _| say(to, &[0x81]), || Then::Close, Some("closed_early")),
    ("TCP's reset", |_, _| (), || Then::Reset, Some("reset")),
    ("nothing", |_, _| (), || Then::Stall, Some("timeout")),
];

#[test]
fn every_fault_of_a_server_has_its_kind_and_the_counts_are_exact() {
    for (name, act, then, kind) in FAULTS {
        let (server, seen) = serve(move |stream, frame, _| {
            act(stream, frame);
            then()
        });
        let timeout_ns = if kind == Some("timeout") { 500_000_000 } else { 60_000_000_000 };
        let done = drive(SessionPlan { timeout_ns, ..plan(server.address, 2) }, 6);
        assert_eq!(seen.messages.load(Ordering::SeqCst), 6, "{name}: {done:?}");
        match kind {
            None => assert_eq!((done.answered, done.connects, errors(&done)), (6, 0, vec![]), "{name}"),
            Some(kind) => assert_eq!((done.answered, errors(&done)), (0, vec![(kind, 6)]), "{name}"),
        }
    }
}

#[test]
fn pings_are_answered_and_a_server_that_reads_no_reply_is_given_up() {
    let (server, seen) = serve(|stream, frame, _| {
        with(stream, frame, &framed(0x89, b"1"));
        Then::GoOn
    });
    drive(plan(server.address, 1), 100);
    drop(server);
    // The last reply may still be on its way when the engine ends.
    assert!(seen.controls.load(Ordering::SeqCst) >= 99);
    let (server, _) = serve(|stream, _, _| {
        while stream.write_all(&framed(0x89, &[1; 125])).is_ok() {}
        Then::Close
    });
    let done = drive(plan(server.address, 1), 1);
    assert_eq!((done.answered, errors(&done)), (0, vec![("bad_response", 1)]));
    assert!(done.sample.contains("reads no reply"), "{}", done.sample);
}

#[test]
fn a_second_response_is_an_error_and_costs_the_connection() {
    let (server, _) = serve(|stream, frame, _| {
        say(stream, &[frame.echo(), frame.echo()].concat());
        Then::GoOn
    });
    let done = drive(plan(server.address, 1), 20);
    assert_eq!((done.answered, done.connects), (20, 19));
    assert_eq!(errors(&done), [("bad_response", 20)]);
    assert!(done.sample.contains("a message without a request"), "{}", done.sample);
}

#[test]
fn a_connection_that_the_server_has_closed_is_opened_again_and_fails_no_message() {
    for farewell in [&b""[..], &framed(0x88, b"")] {
        let (server, seen) = echoing();
        let mut engine = engine(1);
        let session = engine.open(plan(server.address, 3)).unwrap();
        let first = engine.run(&[count(session, 30)], &[]).unwrap().pop().unwrap();
        server.write_all(farewell);
        server.close_all();
        let done = engine.run(&[count(session, 30)], &[]).unwrap().pop().unwrap();
        check(&done);
        assert_eq!((first.connects, done.connects, done.answered, errors(&done)), (0, 3, 30, vec![]));
        assert_eq!((seen.messages.load(Ordering::SeqCst), server.accepted()), (60, 6));
    }
}

#[test]
fn bytes_between_blocks_are_no_response() {
    let (server, _) = echoing();
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, 1)).unwrap();
    server.write_all(&framed(0x81, b"hello"));
    let done = engine.run(&[count(session, 3)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, errors(&done)), (3, vec![("bad_response", 1)]));
}

#[test]
fn an_upgrade_without_its_proof_is_refused_and_says_why() {
    type Answer = fn(&[u8]) -> String;
    let cases: [(Answer, &str); 6] = [
        (|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into(), "status 200"),
        (|head| upgraded(head).replace("Accept: ", "Accept: x"), "Sec-WebSocket-Accept is \"x"),
        (|head| upgraded(head).replace("upgrade: WebSocket\r\n", ""), "without Upgrade"),
        (|head| upgraded(head).replace("\r\n\r\n", "\r\nSec-WebSocket-Protocol: a\r\n\r\n"), "was not offered"),
        (|_| "\x00\x00\x12\x04".into(), "is not HTTP/1.1"),
        (|_| format!("HTTP/1.1 101 X\r\nA: {}", "x".repeat(70_000)), "exceeds 65536 bytes"),
    ];
    for (answer, why) in cases {
        let server = serve_heads(move |stream, head, _| {
            let _ = stream.write_all(answer(head).as_bytes());
            Then::Stall
        });
        let refused = engine(1).open(plan(server.address, 2)).unwrap_err();
        assert_eq!(refused.kind(), "protocol");
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let silent = serve_heads(|_, _, _| Then::Stall);
    let refused = engine(1).open(SessionPlan { timeout_ns: 50_000_000, ..plan(silent.address, 2) }).unwrap_err();
    assert_eq!(refused.kind(), "timeout");
}

#[test]
fn a_server_that_upgrades_no_more_is_given_up_for_the_block() {
    let upgrades = AtomicU64::new(0);
    let server = serve_heads(move |stream, head, _| {
        if upgrades.fetch_add(1, Ordering::SeqCst) > 0 {
            let _ = stream.write_all(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
            return Then::Close;
        }
        let _ = stream.write_all(upgraded(head).as_bytes());
        let _ = read_frame(stream);
        Then::Close
    });
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, 1)).unwrap();
    let done = engine.run(&[count(session, 5)], &[]).unwrap().pop().unwrap();
    assert!(done.gave_up && done.samples.iter().any(|(_, text)| text.contains("status 503")), "{done:?}");
    assert_eq!((done.sent, done.answered), (1, 0));
    assert_eq!(errors(&done), [("closed_early", 1), ("bad_response", 3)]);
}

#[test]
fn an_open_loop_sends_each_message_that_is_due() {
    let (server, seen) = echoing();
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, 4)).unwrap();
    let step = Step { from_per_s: 2000.0, to_per_s: 2000.0, until_ns: 200_000_000 };
    let schedule =
        OpenLoopPlan { arrivals: Arrivals::Constant, precision: Precision::Precise, steps: vec![step], seed: 1 };
    let block = BlockPlan { counted_ns: 200_000_000, open_loop: Some(schedule), ..count(session, 0) };
    let done = engine.run(&[block], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, errors(&done)), (done.sent, vec![]));
    assert_eq!(seen.messages.load(Ordering::SeqCst), done.sent);
}

#[test]
fn what_websocket_has_not_is_refused_with_the_field_named() {
    let (server, _) = echoing();
    let good = plan(server.address, 1);
    let refusal = |plan: SessionPlan| engine(1).open(plan).unwrap_err().to_string();
    assert!(refusal(SessionPlan { keepalive: false, ..good.clone() }).starts_with("websocket: "));
    let bound = SessionPlan { requests_per_connection: NonZeroU32::new(5), ..good.clone() };
    assert!(refusal(bound).starts_with("websocket: "));
    let other = Exchange::new(b"GET /other HTTP/1.1\r\n\r\nhello".to_vec(), 101, b"hello".to_vec());
    for wrong in [other, Exchange { any_body: true, ..exchange(b"hello", false) }] {
        let exchanges = vec![exchange(b"hello", false), wrong];
        assert!(refusal(SessionPlan { exchanges, ..good.clone() }).starts_with("exchanges: request 1"));
    }
}

/// Each flood in one of three ways; in all of them when `make soak-fuzz` asks for it.
#[test]
fn a_server_that_never_stops_sending_holds_no_block() {
    type Flood = (&'static str, fn() -> Vec<u8>);
    let floods: [Flood; 5] = [
        ("pings", || framed(0x89, b"x").repeat(100)),
        ("pongs", || framed(0x8a, b"").repeat(100)),
        ("empty continuations", || framed(0, b"").repeat(100)),
        ("messages", || framed(0x81, b"hello").repeat(100)),
        ("pieces of a message", || [framed(1, b"x"), framed(0, b"y").repeat(100)].concat()),
    ];
    let all = std::env::var_os("FUZZ_CASES").is_some();
    for (number, (name, flood)) in floods.into_iter().enumerate() {
        for (index, (echoes, connections)) in [(true, 8), (false, 8), (true, 30)].into_iter().enumerate() {
            if !all && number % 3 != index {
                continue;
            }
            let (server, _) = serve(move |stream, frame, number| {
                if number < 40 || echoes {
                    let _ = stream.write_all(&frame.echo());
                }
                if number >= 40 {
                    crate::faulty::endless(stream, &flood());
                }
                Then::GoOn
            });
            let plan = SessionPlan { timeout_ns: 300_000_000, ..plan(server.address, connections) };
            crate::faulty::ends_in_time(&format!("{name}, {echoes}, {connections}"), move || {
                let mut engine = engine(1);
                // On a busy machine not all connections may be open in time.
                let Ok(session) = engine.open(plan) else { return };
                let block = BlockPlan { session, lead_ns: 0, counted_ns: 50_000_000, max_requests: 0, open_loop: None };
                assert_eq!(engine.run(&[block.clone(), block], &[]).unwrap().len(), 2);
            });
        }
    }
}
