//! Real connections to a server that misbehaves: one kind of failure for each fault, and counts that add up exactly.

mod faults;
mod heads;

use crate::faulty::{
    BODY, REQUEST, RIGHT, Then, answer, check, count, drive, engine, errors, in_order, plan, serve, serve_heads,
};
use dragstrip_engine::response::SKIP_LIMIT;
use dragstrip_engine::{BlockPlan, EngineError, Exchange, Protocol, SessionPlan, Tally, Target};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn every_request_of_a_right_server_is_answered_and_counted_once() {
    let server = answer(RIGHT, || Then::GoOn);
    for (workers, connections) in [(1, 1), (1, 7), (3, 8), (4, 3)] {
        let before = server.requests();
        let mut engine = engine(workers);
        let session = engine.open(plan(server.address, connections)).unwrap();
        let done = engine.run(&[count(session, 1001)], &[]).unwrap().pop().unwrap();
        check(&done);
        assert_eq!((done.requests, done.answered, done.sent), (1001, 1001, 1001));
        assert_eq!(server.requests() - before, 1001);
        assert_eq!(done.bytes_in, 1001 * RIGHT.len() as u64);
        assert_eq!(done.bytes_out, 1001 * REQUEST.len() as u64);
        assert_eq!((done.connects, done.engine_threads), (0, workers));
        let latency: Histogram<u64> = Deserializer::new().deserialize(&mut done.latency_hdr.as_slice()).unwrap();
        assert_eq!(latency.len(), 1001);
        assert!(done.latency_sum_ns > 0 && done.engine_cpu_ns > 0);
    }
    assert_eq!(server.accepted(), 1 + 7 + 8 + 3);
}

#[test]
fn a_timed_block_counts_only_its_counted_part_and_is_drained() {
    let server = answer(RIGHT, || Then::GoOn);
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, 4)).unwrap();
    let block = BlockPlan { session, lead_ns: 10_000_000, counted_ns: 20_000_000, max_requests: 0, open_loop: None };
    let mut done = engine.run(&vec![block.clone(); 5], &[0]).unwrap();
    assert_eq!(done.len(), 5);
    // Other programs may use the core for a whole part of a block, which then has no responses.
    let in_both = |one: &Tally| 0 < one.requests && one.requests < one.answered;
    while !done.iter().any(in_both) {
        assert!(done.len() < 500);
        done.extend(engine.run(&vec![block.clone(); 5], &[0]).unwrap());
    }
    for (one, next) in done.iter().zip(&done[1..]) {
        check(one);
        assert!(one.requests <= one.answered);
        assert_eq!((one.lead_ns, one.counted_ns), (10_000_000, 20_000_000));
        assert_eq!(one.counted_start_ns, one.started_ns + one.lead_ns);
        assert!(one.duration_ns >= 30_000_000);
        assert!(next.started_ns >= one.started_ns + one.duration_ns);
    }
    assert_eq!(done.iter().map(|one| one.answered).sum::<u64>(), server.requests());
}

#[test]
fn responses_cut_into_single_bytes_are_correct() {
    let server = serve(|stream, _| {
        for byte in RIGHT {
            stream.write_all(&[*byte]).unwrap();
        }
        Then::GoOn
    });
    assert_eq!(drive(&server, 3, 60).answered, 60);
}

#[test]
fn chunked_answers_are_right() {
    let chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nA: b\r\n\r\n";
    let done = drive(&answer(chunked, || Then::GoOn), 3, 60);
    assert_eq!((done.answered, done.connects), (60, 0));
}

#[test]
fn large_bodies_and_large_requests_arrive_whole() {
    let body: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
    let (head, sent) = (format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()), body.clone());
    let server = serve(move |stream, _| {
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&sent).unwrap();
        Then::GoOn
    });
    let mut request = b"POST / HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n".to_vec();
    request.resize(request.len() + 3_000_000, b'x');
    let length = request.len() as u64;
    let mut engine = engine(1);
    let exchanges = vec![Exchange::new(request, 200, body)];
    let session = engine.open(SessionPlan { exchanges, ..plan(server.address, 3) }).unwrap();
    let done = engine.run(&[count(session, 12)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, done.bytes_out), (12, 12 * length));
}

#[test]
fn a_response_that_is_complete_before_its_request_is_sent_is_counted_apart() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if stream.read_exact(&mut [0; 4096]).is_ok() {
                stream.write_all(RIGHT).unwrap(); // and reads no more: the rest of the request can't be sent
            }
            open.push(stream);
        }
    });
    let mut request = b"POST / HTTP/1.1\r\nContent-Length: 20000000\r\n\r\n".to_vec();
    request.resize(request.len() + 20_000_000, b'x');
    let whole = request.len() as u64;
    let exchanges = vec![Exchange::new(request, 200, BODY.to_vec())];
    let plain = SessionPlan { exchanges, ..plan(address, 1) };
    for plan in [
        plain.clone(),
        SessionPlan { keepalive: false, ..plain.clone() },
        SessionPlan { first_byte: true, ..plain.clone() },
        SessionPlan { requests_per_connection: NonZeroU32::new(5), ..plain.clone() },
        SessionPlan { protocol: Protocol::Pipelined { depth: 3 }, ..plain },
    ] {
        let mut engine = engine(1);
        let session = engine.open(plan).unwrap();
        let done = engine.run(&[count(session, 4)], &[]).unwrap().pop().unwrap();
        check(&done);
        assert_eq!((done.answered, errors(&done)), (0, vec![("request_cut", 4)]));
        let sample = &done.samples[0].1;
        assert!(sample.ends_with(" %)") && sample.contains(&format!("of the request's {whole} bytes")), "{sample}");
    }
}

#[test]
fn a_folded_header_line_is_read_as_one_line() {
    let folded = b"HTTP/1.1 200 OK\r\nX-Long: one,\r\n two\r\nContent-Length:\r\n\t11\r\n\r\nhello world";
    let done = drive(&answer(folded, || Then::GoOn), 3, 60);
    assert_eq!((done.answered, errors(&done), done.connects), (60, vec![], 0));
}

#[test]
fn a_response_that_is_refused_has_its_reason() {
    for (bytes, why) in [
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nContent-Length: 9\r\n\r\n".as_slice(),
            "its Content-Lengths contradict",
        ),
        (b"HTTP/1.1 200 OK\r\nX y: 1\r\n\r\n", "a header's name has an invalid character"),
        (b"ICY 200 OK\r\n\r\n", "it does not begin with HTTP/1."),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "its Transfer-Encoding is not chunked alone"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz", "a chunk's size is not"),
        (b"HTTP/1.1 101 Go\r\n\r\n", "it switches protocols"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello worldx", "more bytes follow its end; they came: x"),
    ] {
        let done = drive(&answer(bytes, || Then::Close), 1, 3);
        assert_eq!(errors(&done), [("bad_response", 3)]);
        assert!(done.sample.starts_with(why), "{}", done.sample);
    }
}

#[test]
fn a_request_that_closes_its_connection_is_not_followed_by_another_one() {
    let server = answer(RIGHT, || Then::Close);
    for (head, depth) in [("Connection: close", 1), ("connection: x, Close", 3)] {
        let request = format!("GET / HTTP/1.1\r\nHost: test\r\n{head}\r\n\r\n").into_bytes();
        let exchanges = vec![Exchange::new(request, 200, BODY.to_vec())];
        let plan = SessionPlan { exchanges, protocol: in_order(depth), ..plan(server.address, 4) };
        let mut engine = engine(1);
        let session = engine.open(plan).unwrap();
        let done = engine.run(&[count(session, 100)], &[]).unwrap().pop().unwrap();
        assert_eq!((done.answered, errors(&done)), (100, vec![]), "{head}");
        assert!(done.connects >= 96, "{}", done.connects);
    }
}

#[test]
fn a_session_may_begin_with_the_connections_that_a_server_accepts() {
    let mut engine = engine(1);
    // Each server accepts nothing: connections wait in its queue, which closed ones don't leave.
    let mut full = |partial| {
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
        listener.listen(4).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let opened = engine.open(SessionPlan { partial, timeout_ns: 300_000_000, ..plan(address, 20) });
        (listener, opened)
    };
    assert!(full(false).1.is_err());
    let (_listener, opened) = full(true);
    let session = opened.unwrap();
    let opened = engine.used(session).unwrap().opened;
    assert!(opened.is_some_and(|opened| (1..20).contains(&opened)), "{opened:?}");
}

#[test]
fn an_announced_close_is_not_an_error_and_opens_a_new_connection() {
    let closing = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\nhello world";
    for (bytes, then) in [
        (closing.as_slice(), (|| Then::Close) as fn() -> Then),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 11\r\n\r\nhello world", || Then::Close),
        (b"HTTP/1.0 200 OK\r\n\r\nhello world", || Then::Close),
        (closing, || Then::Stall), // announces the close but stays open: the engine closes
    ] {
        let server = answer(bytes, then);
        let done = drive(&server, 5, 40);
        assert_eq!((done.answered, errors(&done)), (40, vec![]));
        // The first request on each connection found it open; at the end some may be opened without a request.
        assert!((35..40).contains(&done.connects), "{}", done.connects);
        assert!(server.accepted() >= 40);
    }
}

#[test]
fn without_keep_alive_each_request_has_its_own_connection() {
    let server =
        answer(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\nhello world", || Then::Close);
    let mut engine = engine(2);
    let session = engine.open(SessionPlan { keepalive: false, ..plan(server.address, 5) }).unwrap();
    assert_eq!(server.accepted(), 0);
    let done = engine.run(&[count(session, 100), count(session, 50)], &[]).unwrap();
    for (one, requests) in done.iter().zip([100, 50]) {
        check(one);
        assert_eq!((one.answered, errors(one)), (requests, vec![]));
        assert!((requests..requests + 5).contains(&one.connects), "{}", one.connects);
    }
    assert_eq!(server.requests(), 150);
}

#[test]
fn a_connection_closed_while_idle_is_opened_again_without_an_error() {
    let server = answer(RIGHT, || Then::GoOn);
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, 6)).unwrap();
    engine.run(&[count(session, 60)], &[]).unwrap();
    server.close_all();
    let done = engine.run(&[count(session, 60)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, done.connects, errors(&done)), (60, 6, vec![]));
}

#[test]
fn bytes_on_an_idle_connection_are_a_bad_response_without_a_request() {
    let server = answer(RIGHT, || Then::GoOn);
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, 2)).unwrap();
    engine.run(&[count(session, 20)], &[]).unwrap();
    server.write_all(RIGHT);
    let done = engine.run(&[count(session, 20)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, done.failed, errors(&done)), (20, 0, vec![("bad_response", 2)]));
    assert_eq!(done.connects, 2);
}

#[test]
fn each_fault_has_its_kind() {
    type Fault = (&'static str, &'static [u8], fn() -> Then);
    let faults: [Fault; 11] = [
        ("closed_early", b"", || Then::Close),
        ("closed_early", b"HTTP/1.1 200 OK\r\nContent-Le", || Then::Close),
        ("closed_early", b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello", || Then::Close),
        ("reset", b"", || Then::Reset),
        ("bad_response", b"220 mail.example ESMTP\r\n", || Then::GoOn),
        ("bad_response", b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world!", || Then::GoOn),
        ("bad_response", b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nContent-Length: 1\r\n\r\nhello world", || {
            Then::GoOn
        }),
        ("wrong_length", b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello world!", || Then::GoOn),
        ("wrong_length", b"HTTP/1.0 200 OK\r\n\r\nhello", || Then::Close),
        ("wrong_status", b"HTTP/1.1 500 Oh\r\nContent-Length: 11\r\n\r\nhello world", || Then::GoOn),
        ("wrong_body", b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello World", || Then::GoOn),
    ];
    for (kind, bytes, then) in faults {
        let server = answer(bytes, then);
        let done = drive(&server, 3, 30);
        assert_eq!((done.answered, done.requests, errors(&done)), (0, 0, vec![(kind, 30)]), "{bytes:?}");
        assert!(!done.gave_up);
        let goes_on = matches!(kind, "wrong_status" | "wrong_body");
        let connects = if goes_on { 0..1 } else { 27..30 };
        assert!(connects.contains(&done.connects), "{kind}: {}", done.connects);
        assert_eq!(server.requests(), 30);
        if goes_on {
            assert!(done.sample.starts_with("HTTP/1."), "{}", done.sample);
        }
    }
}

#[test]
fn a_repeated_response_is_never_counted_twice() {
    let server = serve(|stream, _| {
        stream.write_all(&[RIGHT, RIGHT].concat()).unwrap();
        Then::GoOn
    });
    let done = drive(&server, 2, 20);
    assert_eq!((done.answered, errors(&done)), (0, vec![("bad_response", 20)]));
}

#[test]
fn only_the_incorrect_responses_among_correct_ones_fail() {
    let server = serve(|stream, number| {
        let wrong = number % 5 == 3;
        stream.write_all(if wrong { b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n" } else { RIGHT }).unwrap();
        Then::GoOn
    });
    let done = drive(&server, 4, 100);
    assert_eq!((done.answered, done.requests, errors(&done)), (80, 80, vec![("wrong_status", 20)]));
}

#[test]
fn a_stalled_request_times_out_and_its_connection_is_replaced() {
    let server = serve(|stream, number| {
        if number == 5 {
            return Then::Stall;
        }
        stream.write_all(RIGHT).unwrap();
        Then::GoOn
    });
    let mut engine = engine(1);
    let session = engine.open(SessionPlan { timeout_ns: 2_000_000_000, ..plan(server.address, 2) }).unwrap();
    let done = engine.run(&[count(session, 40)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, errors(&done)), (39, vec![("timeout", 1)]));
    assert_eq!(done.sample, "no complete response within 2000 ms");
}

#[test]
fn an_endless_body_with_an_incorrect_status_does_not_hold_the_worker() {
    let server = serve(|stream, number| {
        if number != 5 {
            stream.write_all(RIGHT).unwrap();
            return Then::GoOn;
        }
        let _ = stream.write_all(b"HTTP/1.0 500 Oh\r\n\r\n");
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
        Then::Close
    });
    let mut engine = engine(1);
    // Not a time limit ends it, but the limit of bytes that are skipped.
    let session = engine.open(SessionPlan { timeout_ns: 3_600_000_000_000, ..plan(server.address, 2) }).unwrap();
    let block = BlockPlan { counted_ns: 3_600_000_000_000, ..count(session, 40) };
    let done = engine.run(&[block], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, errors(&done)), (39, vec![("wrong_status", 1)]));
    assert!(done.bytes_in > SKIP_LIMIT);
}

#[test]
fn a_body_that_drips_without_end_times_out() {
    let server = serve(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.0 500 Oh\r\n\r\n");
        // So slow that it stays below the limit on its length, even if the time limit is checked late.
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Then::Close
    });
    let mut engine = engine(1);
    let session = engine.open(SessionPlan { timeout_ns: 50_000_000, ..plan(server.address, 2) }).unwrap();
    let done = engine.run(&[count(session, 4)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!(errors(&done), [("timeout", 4)]);
}

#[test]
fn a_server_that_dies_in_a_block_ends_it_early_with_exact_counts() {
    let server = serve(|stream, number| {
        if number == 100 {
            return Then::Die;
        }
        let _ = stream.write_all(RIGHT);
        Then::GoOn
    });
    let mut engine = engine(2);
    let session = engine.open(plan(server.address, 8)).unwrap();
    let block = BlockPlan { session, lead_ns: 0, counted_ns: 3_600_000_000_000, max_requests: 0, open_loop: None };
    let done = engine.run(&[block.clone(), block], &[]).unwrap();
    for one in &done {
        check(one);
        assert!(one.gave_up);
        assert!(one.counted_ns < 60_000_000_000, "it ended long before its hour");
        let refused = one.errors[1];
        assert_eq!(refused + one.errors[0], 3 * 8, "{:?}", errors(one));
    }
    assert!(done[0].answered >= 100);
    assert_eq!((done[1].sent, done[1].connects), (0, 0));
}

#[test]
fn a_missing_listener_is_refused_at_once_with_its_address() {
    let address = answer(RIGHT, || Then::GoOn).address; // dropped: closed again
    let refused = engine(2).open(plan(address, 4)).unwrap_err();
    assert!(matches!(refused, EngineError::Connect { .. }), "{refused}");
    assert!(refused.to_string().contains(&address.to_string()), "{refused}");
}

#[test]
fn the_stop_flag_ends_a_block_at_once_and_keeps_the_finished_ones() {
    let (stalled, told) = std::sync::mpsc::channel();
    let server = serve(move |stream, number| {
        if number >= 50 {
            let _ = stalled.send(());
            return Then::Stall;
        }
        stream.write_all(RIGHT).unwrap();
        Then::GoOn
    });
    let mut engine = engine(2);
    let session = engine.open(SessionPlan { timeout_ns: 3_600_000_000_000, ..plan(server.address, 3) }).unwrap();
    let stop = engine.stop_flag();
    let hour = BlockPlan { session, lead_ns: 0, counted_ns: 3_600_000_000_000, max_requests: 0, open_loop: None };
    let run = engine.start(&[count(session, 20), count(session, 30), hour.clone(), hour], &[]).unwrap();
    told.recv().unwrap();
    stop.store(true, Ordering::Relaxed);
    let done = run.finish().unwrap();
    assert_eq!(done.iter().map(|one| one.answered).collect::<Vec<_>>(), [20, 30]);
    let after = engine.run(&[], &[]).unwrap();
    assert!(after.is_empty());
}

#[test]
fn sessions_live_side_by_side_and_a_block_touches_only_its_own() {
    let servers = [answer(RIGHT, || Then::GoOn), answer(RIGHT, || Then::GoOn), answer(RIGHT, || Then::GoOn)];
    let mut engine = engine(2);
    let sessions: Vec<u32> = servers.iter().map(|one| engine.open(plan(one.address, 4)).unwrap()).collect();
    let order = [0, 1, 0, 2, 1, 0];
    let blocks: Vec<BlockPlan> =
        order.iter().enumerate().map(|(at, which)| count(sessions[*which], 10 + at as u64)).collect();
    let done = engine.run(&blocks, &[]).unwrap();
    for (one, block) in done.iter().zip(&blocks) {
        check(one);
        assert_eq!((one.session, one.answered), (block.session, block.max_requests));
    }
    assert_eq!(servers.each_ref().map(|one| one.requests()), [10 + 12 + 15, 11 + 14, 13]);
    engine.close(sessions[1]).unwrap();
    engine.close(sessions[1]).unwrap();
    assert!(matches!(engine.run(&[blocks[1].clone()], &[]), Err(EngineError::NoSession(_))));
    assert_eq!(engine.run(&[blocks[0].clone()], &[]).unwrap()[0].answered, 10);
}

#[test]
fn exchanges_are_cycled_and_each_response_is_compared_with_its_own() {
    let server = serve(|stream, _| {
        stream.write_all(RIGHT).unwrap();
        Then::GoOn
    });
    let exchange = |body: &[u8]| Exchange::new(REQUEST.to_vec(), 200, body.to_vec());
    let exchanges = vec![exchange(BODY), exchange(b"HELLO WORLD"), exchange(b"other")];
    let mut engine = engine(1);
    let session = engine.open(SessionPlan { exchanges, ..plan(server.address, 1) }).unwrap();
    let done = engine.run(&[count(session, 30)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, errors(&done)), (10, vec![("wrong_length", 10), ("wrong_body", 10)]));
}

#[test]
fn an_invalid_plan_is_refused_and_its_field_named() {
    let server = answer(RIGHT, || Then::GoOn);
    let mut engine = engine(1);
    let refusal = |plan: SessionPlan, engine: &mut dragstrip_engine::Engine| engine.open(plan).unwrap_err().to_string();
    let good = plan(server.address, 1);
    assert!(refusal(SessionPlan { connections: 0, ..good.clone() }, &mut engine).starts_with("connections: 0"));
    assert!(refusal(SessionPlan { exchanges: vec![], ..good.clone() }, &mut engine).starts_with("exchanges"));
    assert!(refusal(SessionPlan { timeout_ns: 5, ..good.clone() }, &mut engine).starts_with("timeout_ns: 5"));
    let session = engine.open(good).unwrap();
    let block = BlockPlan { lead_ns: 1, ..count(session, 1) };
    assert!(engine.run(&[block], &[]).unwrap_err().to_string().starts_with("lead_ns: 1"));
    let block = BlockPlan { counted_ns: 0, ..count(session, 1) };
    assert!(engine.run(&[block], &[]).unwrap_err().to_string().starts_with("counted_ns: 0"));
    assert!(matches!(dragstrip_engine::Engine::new(&[]), Err(EngineError::NoCores)));
    assert!(matches!(dragstrip_engine::Engine::new(&[1023]), Err(EngineError::Core { core: 1023, .. })));
}

/// Sends the correct response to every request at a socket file until the process ends; counts requests.
fn answer_at(path: &std::path::Path) -> Arc<AtomicU64> {
    let _ = std::fs::remove_file(path);
    let (listener, requests) = (UnixListener::bind(path).unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, counted) = (stream.unwrap(), Arc::clone(&counted));
            std::thread::spawn(move || {
                let mut request = [0; REQUEST.len()];
                while stream.read_exact(&mut request).is_ok() {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(RIGHT);
                }
            });
        }
    });
    requests
}

#[test]
fn a_unix_socket_is_loaded_like_a_port_even_if_its_queue_is_full() {
    let path = std::env::temp_dir().join(format!("dragstrip-{}-{:?}.sock", std::process::id(), crate::BACKEND));
    let requests = answer_at(&path);
    let target = Target::Unix(path.clone());
    let nowhere = plan("127.0.0.1:1".parse().unwrap(), 300); // more than the 128 that std lets wait in its queue
    for keepalive in [true, false] {
        let mut engine = engine(2);
        let session = engine.open(SessionPlan { target: target.clone(), keepalive, ..nowhere.clone() }).unwrap();
        let done = engine.run(&[count(session, 2000)], &[]).unwrap().pop().unwrap();
        check(&done);
        assert_eq!((done.answered, errors(&done)), (2000, vec![]));
    }
    assert_eq!(requests.load(Ordering::SeqCst), 4000);
    std::fs::remove_file(&path).unwrap();
    let refused = engine(1).open(SessionPlan { target, ..nowhere.clone() }).unwrap_err().to_string();
    assert!(refused.starts_with(&format!("unix:{}", path.display())), "{refused}");
    let target = Target::Unix("/x".repeat(60).into());
    let refused = engine(1).open(SessionPlan { target, ..nowhere }).unwrap_err().to_string();
    assert!(refused.starts_with("target: unix:/x/x"), "{refused}");
}

#[test]
fn a_request_in_http_1_0_is_kept_alive_only_where_the_answer_says_so() {
    const OLD: &[u8] = b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: test\r\n\r\n";
    type Case = (&'static [u8], fn() -> Then, bool);
    let cases: [Case; 5] = [
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 11\r\n\r\nhello world", || Then::GoOn, true),
        (b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 11\r\n\r\nhello world", || Then::GoOn, true),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 11\r\n\r\nhello world", || Then::Close, false),
        (b"HTTP/1.0 200 OK\r\n\r\nhello world", || Then::Close, false),
        (RIGHT, || Then::Close, false), // HTTP/1.1, but closes anyway
    ];
    for (bytes, then, kept) in cases {
        let server = answer(bytes, then);
        let mut engine = engine(1);
        let mut plan = plan(server.address, 4);
        plan.exchanges[0].request = OLD.to_vec();
        let session = engine.open(plan).unwrap();
        let done = engine.run(&[count(session, 100)], &[]).unwrap().pop().unwrap();
        check(&done);
        assert_eq!((done.answered, errors(&done)), (100, vec![]));
        assert_eq!(done.connects, if kept { 0 } else { done.connects.clamp(96, 99) }, "{bytes:?}");
    }
}

fn recorded(bytes: &[u8]) -> u64 {
    if bytes.is_empty() {
        return 0;
    }
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &*bytes).unwrap();
    histogram.len()
}

#[test]
fn a_connection_ends_with_its_nth_request_which_says_so() {
    let closes = |polite: bool| {
        serve_heads(move |stream, head, _| {
            let last = head.windows(19).any(|window| window == b"Connection: close\r\n");
            let _ = stream.write_all(RIGHT);
            if last && polite { Then::Close } else { Then::GoOn }
        })
    };
    for (polite, pipelining) in [(true, 1), (false, 1), (true, 3), (false, 3), (true, 16)] {
        let server = closes(polite);
        let mut engine = engine(2);
        let (protocol, requests_per_connection) = (in_order(pipelining), NonZeroU32::new(10));
        let plan = SessionPlan { requests_per_connection, protocol, ..plan(server.address, 4) };
        let session = engine.open(plan).unwrap();
        let done = engine.run(&[count(session, 400)], &[]).unwrap().pop().unwrap();
        check(&done);
        assert_eq!((done.answered, errors(&done)), (400, vec![]), "{polite} {pipelining}");
        assert_eq!(server.requests(), 400);
        assert!((40..=44).contains(&server.accepted()), "{polite} {pipelining}: {}", server.accepted());
        assert_eq!(recorded(&done.connect_hdr), 4 + done.connects);
    }
}

#[test]
fn pipelined_answers_are_matched_in_order_and_each_is_checked() {
    let server = serve(|stream, number| {
        let wrong = number % 5 == 3;
        stream.write_all(if wrong { b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n" } else { RIGHT }).unwrap();
        Then::GoOn
    });
    let mut engine = engine(1);
    let plan = SessionPlan { protocol: Protocol::Pipelined { depth: 8 }, first_byte: true, ..plan(server.address, 3) };
    let session = engine.open(plan).unwrap();
    let done = engine.run(&[count(session, 500), count(session, 7)], &[]).unwrap();
    assert_eq!((done[0].answered, errors(&done[0])), (400, vec![("wrong_status", 100)]));
    assert_eq!((recorded(&done[0].first_byte_hdr), done[0].connects), (400, 0));
    assert_eq!(done[0].bytes_out, 500 * REQUEST.len() as u64);
    done.iter().for_each(check);
    assert_eq!(server.requests(), 507);
}

#[test]
fn pipelined_requests_larger_than_the_socket_buffer_are_sent_whole_and_in_order() {
    let server = answer(RIGHT, || Then::GoOn);
    let mut engine = engine(1);
    let body = vec![b'x'; 300_000];
    let head = format!("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", body.len());
    let large = Exchange::new([head.as_bytes(), &body].concat(), 200, BODY.to_vec());
    let small = Exchange::new(REQUEST.to_vec(), 200, BODY.to_vec());
    let bytes = large.request.len() + small.request.len();
    let exchanges = vec![large, small];
    let protocol = Protocol::Pipelined { depth: 8 };
    let session = engine.open(SessionPlan { protocol, exchanges, ..plan(server.address, 2) }).unwrap();
    let done = engine.run(&[count(session, 60)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, errors(&done)), (60, vec![]));
    assert_eq!((done.bytes_out, server.requests()), (30 * bytes as u64, 60));
}

#[test]
fn the_first_byte_of_a_pipelined_response_counts_though_more_requests_are_sent_before_its_last() {
    const PAUSE: Duration = Duration::from_millis(20);
    let server = serve(|stream, _| {
        let (first, rest) = RIGHT.split_at(20);
        stream.write_all(first).unwrap();
        std::thread::sleep(PAUSE);
        stream.write_all(rest).unwrap();
        Then::GoOn
    });
    let mut engine = engine(1);
    let plan = SessionPlan { protocol: Protocol::Pipelined { depth: 4 }, first_byte: true, ..plan(server.address, 1) };
    let session = engine.open(plan).unwrap();
    let done = engine.run(&[count(session, 20)], &[]).unwrap().pop().unwrap();
    check(&done);
    let [first, whole] = [&done.first_byte_hdr, &done.latency_hdr].map(|bytes| {
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        histogram.mean()
    });
    assert!(whole - first >= 0.8 * PAUSE.as_nanos() as f64, "{first} {whole}");
}

#[test]
fn requests_after_an_announced_close_are_sent_again_and_after_a_broken_response_fail() {
    let closing = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\nhello world";
    let server = answer(closing, || Then::Close);
    let mut engine = engine(1);
    let session =
        engine.open(SessionPlan { protocol: Protocol::Pipelined { depth: 4 }, ..plan(server.address, 2) }).unwrap();
    let done = engine.run(&[count(session, 30)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, errors(&done)), (30, vec![]));
    // Only the server that stalls has a short time, so that a busy machine causes no other timeout.
    let (short_ns, long_ns) = (50_000_000, 60_000_000_000);
    for (bytes, then, kind, timeout_ns) in [
        (b"".as_slice(), (|| Then::Close) as fn() -> Then, "closed_early", long_ns),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n", || Then::GoOn, "bad_response", long_ns),
        (b"", || Then::Stall, "timeout", short_ns),
    ] {
        let server = answer(bytes, then);
        let plan = SessionPlan { protocol: Protocol::Pipelined { depth: 4 }, timeout_ns, ..plan(server.address, 2) };
        let session = engine.open(plan).unwrap();
        let done = engine.run(&[count(session, 16)], &[]).unwrap().pop().unwrap();
        check(&done);
        assert_eq!((done.answered, errors(&done)), (0, vec![(kind, 16)]));
    }
}

#[test]
fn connections_come_from_the_requested_number_of_addresses() {
    let seen = Arc::new(std::sync::Mutex::new(std::collections::HashSet::new()));
    let mine = Arc::clone(&seen);
    let server = serve(move |stream, _| {
        mine.lock().unwrap().insert(stream.peer_addr().unwrap().ip());
        let _ = stream.write_all(RIGHT);
        Then::GoOn
    });
    let mut engine = engine(1);
    for keepalive in [true, false] {
        let session = engine.open(SessionPlan { sources: 3, keepalive, ..plan(server.address, 7) }).unwrap();
        let done = engine.run(&[count(session, 50)], &[]).unwrap().pop().unwrap();
        assert_eq!((done.answered, errors(&done)), (50, vec![]));
        let from: Vec<String> = seen.lock().unwrap().drain().map(|one| one.to_string()).collect();
        assert_eq!(from.len(), 3, "{from:?}");
    }
    let refused = engine.open(SessionPlan { sources: 0, ..plan(server.address, 7) }).unwrap_err().to_string();
    assert!(refused.starts_with("sources: 0"), "{refused}");
}
