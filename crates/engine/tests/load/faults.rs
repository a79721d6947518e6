//! One server shows every fault in turn: each request has exactly one known result, and all are counted.

use crate::faulty::{RIGHT, Then, check, count, engine, errors, plan, serve};
use dragstrip_engine::SessionPlan;
use std::io::Write;
use std::net::TcpStream;

/// What the server does, what happens to the connection, and what the request counts as; None: a correct response.
type Fault = (&'static str, fn(&mut TcpStream), fn() -> Then, Option<&'static str>);

fn write(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes); // the client may have closed the connection already
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

const FAULTS: [Fault; 16] = [
    ("right", |to| write(to, RIGHT), || Then::GoOn, None),
    ("splits", |to| RIGHT.iter().for_each(|byte| write(to, &[*byte])), || Then::GoOn, None),
    ("glues two answers", |to| write(to, &[RIGHT, RIGHT].concat()), || Then::GoOn, Some("bad_response")),
    ("truncates the head", |to| write(to, &RIGHT[..20]), || Then::Close, Some("closed_early")),
    ("truncates the body", |to| write(to, &RIGHT[..RIGHT.len() - 1]), || Then::Close, Some("closed_early")),
    ("closes without a word", |_| (), || Then::Close, Some("closed_early")),
    ("resets without a word", |_| (), || Then::Reset, Some("reset")),
    ("stalls without a word", |_| (), || Then::Stall, Some("timeout")),
    ("stalls in the body", |to| write(to, &RIGHT[..RIGHT.len() - 1]), || Then::Stall, Some("timeout")),
    (
        "floods headers",
        |to| write(to, &[b"HTTP/1.1 200 OK\r\n", "X: yyyyyyyyyyyyyyyyyy\r\n".repeat(5000).as_bytes()].concat()),
        || Then::Stall,
        Some("bad_response"),
    ),
    (
        "claims more than it sends",
        |to| write(to, b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello world"),
        || Then::GoOn,
        Some("wrong_length"),
    ),
    (
        "sends more than it claims",
        |to| write(to, b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world!"),
        || Then::GoOn,
        Some("bad_response"),
    ),
    (
        "two lengths",
        |to| write(to, b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nContent-Length: 9\r\n\r\nhello world"),
        || Then::GoOn,
        Some("bad_response"),
    ),
    ("chunked garbage", |to| write(to, format!("{CHUNKED}zz\r\n").as_bytes()), || Then::GoOn, Some("bad_response")),
    (
        "chunks without an end",
        |to| write(to, format!("{CHUNKED}b\r\nhello world\r\n").as_bytes()),
        || Then::Close,
        Some("closed_early"),
    ),
    (
        "chunks too long",
        |to| write(to, format!("{CHUNKED}c\r\nhello world!\r\n0\r\n\r\n").as_bytes()),
        || Then::GoOn,
        Some("wrong_length"),
    ),
];

#[test]
fn every_fault_of_a_server_has_its_kind_and_the_counts_are_exact() {
    const TURNS: u64 = 6;
    let server = serve(|stream, number| {
        let (_, act, then, _) = FAULTS[number as usize % FAULTS.len()];
        act(stream);
        then()
    });
    let mut engine = engine(2);
    let patient = SessionPlan { timeout_ns: 3_000_000_000, ..plan(server.address, 24) };
    let session = engine.open(patient).unwrap();
    let requests = TURNS * FAULTS.len() as u64;
    let done = engine.run(&[count(session, requests)], &[]).unwrap().pop().unwrap();
    check(&done);
    let of = |kind| TURNS * FAULTS.iter().filter(|fault| fault.3 == kind).count() as u64;
    let kinds = ["reset", "closed_early", "timeout", "bad_response", "wrong_length"];
    assert_eq!((done.sent, done.answered, done.failed), (requests, of(None), requests - of(None)));
    assert_eq!(errors(&done), kinds.map(|kind| (kind, of(Some(kind)))));
    assert_eq!(server.requests(), requests);
    assert!(!done.sample.is_empty() && !done.gave_up);
}
