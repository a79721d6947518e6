//! Heads under load are compared with the heads of reference responses.

use crate::faulty::{Server, Then, answer, check, count, engine, errors, in_order, plan, serve};
use dragstrip_engine::heads::{ExpectedHeads, ReferenceHead};
use dragstrip_engine::{SessionPlan, Tally};
use std::io::Write;

/// Expected heads: with a content type, and a date that may vary.
fn typed() -> ExpectedHeads {
    let field = |(name, value, exact): (&str, &str, bool)| (name.into(), value.into(), exact);
    let fields = [
        (":version", "HTTP/1.1", true),
        (":reason", "OK", true),
        ("content-type", "text/plain", true),
        ("content-length", "11", false),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT", false),
    ];
    ExpectedHeads::new(vec![ReferenceHead::new(fields.map(field).into())])
}

/// Responses with a new date each time; every tenth has this head instead.
fn every_tenth(head: &'static str, then: fn() -> Then) -> Server {
    serve(move |stream, number| {
        let date = format!("Date: Sun, 06 Nov 1994 08:49:{:02} GMT", number % 60);
        let head = if number % 10 == 9 { head } else { "HTTP/1.1 200 OK\r\nContent-Type: text/plain" };
        let whole = format!("{head}\r\n{date}\r\nContent-Length: 11\r\n\r\nhello world");
        stream.write_all(whole.as_bytes()).unwrap();
        then()
    })
}

fn drive(plan: SessionPlan, requests: u64) -> Tally {
    let mut engine = engine(1);
    let session = engine.open(SessionPlan { heads: vec![typed()], ..plan }).unwrap();
    let done = engine.run(&[count(session, requests)], &[]).unwrap().pop().unwrap();
    check(&done);
    done
}

#[test]
fn each_head_that_deviates_is_counted_and_the_first_one_named() {
    for (head, why) in [
        ("HTTP/1.1 200 OK", "content-type is missing, \"text/plain\" is expected; the head: HTTP/1.1 200 OK"),
        ("HTTP/1.1 200 OK\r\nContent-Type: a/b", "content-type is \"a/b\", \"text/plain\" is expected; the"),
        ("HTTP/1.1 200 Fine\r\nContent-Type: text/plain", ":reason is \"Fine\", \"OK\" is expected; the"),
        ("HTTP/1.1 200 OK\r\nX-Hit: 1\r\nContent-Type: text/plain", "x-hit is \"1\", no such header is expected; the"),
    ] {
        for pipelining in [1, 4] {
            let server = every_tenth(head, || Then::GoOn);
            let done = drive(SessionPlan { protocol: in_order(pipelining), ..plan(server.address, 3) }, 200);
            assert_eq!((done.answered, errors(&done), done.connects), (180, vec![("wrong_head", 20)], 0), "{head}");
            assert!(done.sample.starts_with(why), "{}", done.sample);
        }
        let server = every_tenth(head, || Then::Close);
        let done = drive(SessionPlan { keepalive: false, ..plan(server.address, 3) }, 100);
        assert_eq!((done.answered, errors(&done)), (90, vec![("wrong_head", 10)]), "{head}");
    }
}

#[test]
fn a_wrong_status_or_length_counts_before_a_wrong_head() {
    for (bytes, kind) in [
        (b"HTTP/1.1 500 OK\r\nContent-Length: 11\r\n\r\nhello world".as_slice(), "wrong_status"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "wrong_length"),
    ] {
        let server = answer(bytes, || Then::GoOn);
        let done = drive(plan(server.address, 2), 20);
        assert_eq!((done.answered, errors(&done)), (0, vec![(kind, 20)]));
    }
}

#[test]
fn heads_for_unknown_kinds_are_refused() {
    let server = answer(b"", || Then::GoOn);
    let refused = engine(1).open(SessionPlan { heads: vec![typed(), typed()], ..plan(server.address, 1) });
    assert!(refused.unwrap_err().to_string().contains("2 given for 1 kinds"));
}
