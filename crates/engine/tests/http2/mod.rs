//! HTTP/2 over real connections: exact counts, and one kind of failure for each server fault.

mod endless;
mod faults;
mod oracle;
mod peer;

use crate::faulty::{BODY, REQUEST, check, count, engine, errors};
use dragstrip_engine::http2::frame::{self, flag, kind, setting};
use dragstrip_engine::schedule::{OpenLoopPlan, Precision};
use dragstrip_engine::{BlockPlan, EngineError, Exchange, Protocol, SessionPlan, Tally};
use peer::{Manners, REFUSED, Server, Then, answering, serve, serve_as};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;

fn plan(address: SocketAddr, connections: usize, streams: u32) -> SessionPlan {
    SessionPlan { protocol: Protocol::Http2 { streams }, ..crate::faulty::plan(address, connections) }
}

/// Runs a block of this many requests on one worker and checks the invariants of every tally.
fn drive(plan: SessionPlan, max_requests: u64) -> Tally {
    let mut engine = engine(1);
    let session = engine.open(plan).unwrap();
    let done = engine.run(&[count(session, max_requests)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!(done.sent, max_requests, "{done:?}");
    done
}

#[test]
fn every_request_over_every_number_of_streams_is_answered_and_counted_once() {
    for (workers, connections, streams) in [(1, 1, 1), (1, 3, 10), (2, 5, 100), (3, 4, 7)] {
        let server = answering();
        let mut engine = engine(workers);
        let session = engine.open(plan(server.address, connections, streams)).unwrap();
        let done = engine.run(&[count(session, 1001), count(session, 300)], &[]).unwrap();
        for (one, requests) in done.iter().zip([1001, 300]) {
            check(one);
            assert_eq!((one.requests, one.answered, one.sent, errors(one)), (requests, requests, requests, vec![]));
            assert_eq!(one.connects, 0);
        }
        assert_eq!((server.requests(), server.accepted()), (1301, connections as u64));
        assert_eq!(server.seen.resets.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn each_stream_of_a_connection_has_a_request_in_flight() {
    for streams in [1, 10, 100] {
        let server = serve(move |peer, _, _| {
            if peer.held.len() == streams {
                for id in std::mem::take(&mut peer.held).into_iter().rev() {
                    peer.right(id); // in another order than the requests
                }
            }
            Then::GoOn
        });
        let done = drive(plan(server.address, 1, streams as u32), 600);
        assert_eq!((done.answered, errors(&done)), (600, vec![]));
        assert_eq!(server.seen.most_held.load(Ordering::SeqCst), streams as u64);
    }
}

#[test]
fn a_server_that_allows_fewer_streams_gets_no_more_and_more_when_it_says_so() {
    let manners = Manners { settings: vec![(setting::MAX_CONCURRENT_STREAMS, 3)], ..Manners::default() };
    let server = serve_as(manners, |peer, id, number| {
        if number == 200 {
            peer.settings(&[(setting::MAX_CONCURRENT_STREAMS, 8)]);
        }
        if peer.held.len() == if number < 400 { 3 } else { 8 } {
            for id in std::mem::take(&mut peer.held) {
                peer.right(id);
            }
        }
        let _ = id;
        Then::GoOn
    });
    // Responses are held back in threes, then in eights; those still held at the end are abandoned.
    let plan = SessionPlan { timeout_ns: 2_000_000_000, ..plan(server.address, 1, 10) };
    let done = drive(plan, 800);
    assert!(done.answered >= 790, "{done:?}");
    assert_eq!(server.seen.most_held.load(Ordering::SeqCst), 8);
}

#[test]
fn a_refused_stream_is_sent_again_and_counted_once() {
    let server = serve(|peer, id, number| {
        peer.held.clear();
        if number % 5 == 4 {
            peer.reset(id, REFUSED)
        } else {
            peer.right(id)
        }
        Then::GoOn
    });
    let done = drive(plan(server.address, 2, 4), 400);
    let refused = server.requests() - 400;
    assert_eq!((done.answered, done.failed), (400, 0));
    assert!((95..=105).contains(&refused), "{refused}");
    assert_eq!(errors(&done), [("refused_stream", refused)]);
}

#[test]
fn requests_above_a_goaways_last_stream_are_sent_again_on_another_connection() {
    for streams in [1, 8] {
        // Each connection responds to 20 requests, names the last one, and closes; it ignores later ones.
        let server = serve(|peer, id, _| {
            peer.held.clear();
            if id > 41 {
                return Then::GoOn;
            }
            peer.right(id);
            if id == 41 {
                peer.go_away(41, 0);
            }
            Then::GoOn
        });
        let done = drive(plan(server.address, 2, streams), 420);
        assert_eq!((done.answered, errors(&done)), (420, vec![]), "{streams}");
        assert!((20..=22).contains(&server.accepted()), "{}", server.accepted());
        assert_eq!(done.connects + 2, server.accepted());
    }
}

#[test]
fn a_connection_sends_its_maximum_of_requests_and_is_then_replaced() {
    for (streams, keepalive) in [(1, true), (5, true), (1, false)] {
        let server = answering();
        let per_connection = if keepalive { 10 } else { 1 };
        let plan =
            SessionPlan { requests_per_connection: NonZeroU32::new(10), keepalive, ..plan(server.address, 2, streams) };
        let done = drive(plan, 400);
        assert_eq!((done.answered, errors(&done)), (400, vec![]));
        let wanted = 400 / per_connection;
        assert!((wanted..=wanted + 2).contains(&server.accepted()), "{}", server.accepted());
    }
}

#[test]
fn bodies_wait_for_the_servers_windows_and_arrive_whole() {
    let body: Vec<u8> = (0..300_000).map(|at: u32| (at % 241) as u8).collect();
    let head = format!("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", body.len());
    let request = [head.as_bytes(), &body].concat();
    for window in [1000, 65_535, 1 << 20] {
        let manners = Manners { settings: vec![(setting::INITIAL_WINDOW_SIZE, window)], ..Manners::default() };
        let server = serve_as(manners, move |peer, id, _| {
            peer.held.clear();
            peer.right(id);
            Then::GoOn
        });
        let mut plan = plan(server.address, 2, 3);
        plan.exchanges = vec![Exchange::new(request.clone(), 200, BODY.to_vec())];
        let done = drive(plan, 12);
        assert_eq!((done.answered, errors(&done)), (12, vec![]));
        assert!(done.bytes_out > 12 * 300_000);
    }
}

#[test]
fn a_session_reports_how_many_streams_the_server_allows() {
    let manners = Manners { settings: vec![(setting::MAX_CONCURRENT_STREAMS, 3)], ..Manners::default() };
    let server = serve_as(manners, |peer, id, _| {
        peer.right(id);
        Then::GoOn
    });
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, 2, 32)).unwrap();
    let done = engine.run(&[count(session, 60)], &[]).unwrap().pop().unwrap();
    let used = engine.used(session).unwrap();
    assert_eq!((done.answered, used.streams, used.opened), (60, Some(3), Some(2)));
}

#[test]
fn a_server_that_never_opens_its_window_times_out_alone() {
    let manners = Manners { settings: vec![(setting::INITIAL_WINDOW_SIZE, 0)], renews: false };
    let server = serve_as(manners, |_, _, _| Then::GoOn);
    let mut plan = SessionPlan { timeout_ns: 1_000_000_000, ..plan(server.address, 2, 2) };
    let request = b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nhi".to_vec();
    plan.exchanges = vec![Exchange::new(request, 200, BODY.to_vec())];
    let done = drive(plan, 8);
    assert_eq!((done.answered, errors(&done)), (0, vec![("timeout", 8)]));
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_response_before_the_request_body_is_sent_is_counted_apart_and_cancels_the_rest() {
    let early = early_server();
    let mut plan = plan(early.0, 1, 1);
    let request = [b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n".as_slice(), &[b'x'; 100]].concat();
    plan.exchanges = vec![Exchange::new(request, 200, BODY.to_vec())];
    let done = drive(plan, 5);
    assert_eq!((done.answered, errors(&done), done.connects), (0, vec![("request_cut", 5)], 0));
    let share = "complete after 10 of the request's 100 bytes were sent (10.0 %)";
    assert_eq!(done.samples[0].1, share);
    assert_eq!(early.1.recv().unwrap(), 5, "each stream was reset");
}

/// Responds to each head at once, reads no body, and reports how many streams were reset when the connection ends.
fn early_server() -> (SocketAddr, std::sync::mpsc::Receiver<u64>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; frame::PREFACE.len()]).unwrap();
        let mut bytes = Vec::new();
        frame::write_settings(&mut bytes, &[(setting::INITIAL_WINDOW_SIZE, 10)]);
        stream.write_all(&bytes).unwrap();
        let (mut resets, mut head) = (0, [0; frame::HEADER_BYTES]);
        while stream.read_exact(&mut head).is_ok() {
            let header = frame::Header::read(&head);
            stream.read_exact(&mut vec![0; header.length]).unwrap();
            bytes.clear();
            if header.kind == kind::HEADERS {
                frame::write(&mut bytes, kind::HEADERS, flag::END_HEADERS, header.id, peer::HEAD);
                frame::write(&mut bytes, kind::DATA, flag::END_STREAM, header.id, BODY);
                frame::write(&mut bytes, kind::RST_STREAM, 0, header.id, &[0; 4]); // NO_ERROR: RFC 9113, 8.1
            }
            resets += u64::from(header.kind == kind::RST_STREAM);
            let _ = stream.write_all(&bytes);
        }
        tell.send(resets).unwrap();
    });
    (address, told)
}

#[test]
fn an_open_loop_sends_all_offered_requests_over_the_available_streams() {
    for streams in [1, 10] {
        let server = answering();
        let mut engine = engine(1);
        let session = engine.open(plan(server.address, 4, streams)).unwrap();
        let open_loop = Some(OpenLoopPlan::constant(5000.0, Precision::Precise));
        // The block ends by its count, not by the clock: a busy machine may send late, but skips no request.
        let block = BlockPlan { session, lead_ns: 0, counted_ns: 60_000_000_000, max_requests: 500, open_loop };
        let done = engine.run(&[block.clone(), block], &[]).unwrap();
        for one in &done {
            check(one);
            let open = one.open_loop.as_ref().unwrap();
            assert_eq!((open.offered, open.unsent, errors(one)), (500, 0, vec![]));
            assert_eq!(one.answered, 500);
        }
        assert_eq!((server.requests(), server.accepted()), (1000, 4));
    }
}

#[test]
fn connections_that_end_or_send_frames_between_blocks_are_not_errors() {
    let server = answering();
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, 3, 2)).unwrap();
    assert_eq!(engine.run(&[count(session, 50)], &[]).unwrap()[0].answered, 50);
    let mut ping = Vec::new();
    frame::write(&mut ping, kind::PING, 0, 0, &[7; 8]);
    let before = server.seen.acks.load(Ordering::SeqCst);
    server.say(&ping);
    let done = engine.run(&[count(session, 50)], &[]).unwrap().pop().unwrap();
    assert_eq!((done.answered, done.connects, errors(&done)), (50, 0, vec![]));
    assert_eq!(server.seen.acks.load(Ordering::SeqCst) - before, 3);
    server.close_all();
    let done = engine.run(&[count(session, 50)], &[]).unwrap().pop().unwrap();
    assert_eq!((done.answered, done.connects, errors(&done)), (50, 3, vec![]));
}

#[test]
fn a_server_of_http_1_is_refused_and_says_so() {
    let server = crate::faulty::serve(|stream, _| {
        use std::io::Write;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
        Then::Close
    });
    let refused = engine(1).open(plan(server.address, 2, 1)).unwrap_err();
    assert_eq!(refused.kind(), "protocol");
    assert!(refused.to_string().contains("it responds in HTTP/1"), "{refused}");
    let silent = crate::faulty::serve(|_, _| Then::Stall);
    let plan = SessionPlan { timeout_ns: 50_000_000, ..plan(silent.address, 2, 1) };
    assert_eq!(engine(1).open(plan).unwrap_err().kind(), "timeout");
}

#[test]
fn what_http_2_has_not_is_refused_with_the_field_named() {
    let server = answering();
    let good = plan(server.address, 1, 1);
    let refusal = |plan: SessionPlan| engine(1).open(plan).unwrap_err().to_string();
    for (streams, keepalive) in [(0, true), (2000, true), (2, false)] {
        let plan = SessionPlan { keepalive, ..plan(server.address, 1, streams) };
        assert!(refusal(plan).starts_with(&format!("streams: {streams} given")));
    }
    let exchanges = vec![Exchange::new(b"nothing".to_vec(), 200, vec![])];
    assert!(refusal(SessionPlan { exchanges, ..good }).starts_with("exchanges: request 0"));
}

#[test]
fn the_stop_flag_ends_a_block_and_the_connections_are_opened_again() {
    let (stalled, told) = std::sync::mpsc::channel();
    let server = serve(move |peer, id, number| {
        if number == 50 {
            let _ = stalled.send(());
        }
        if !(50..54).contains(&number) {
            peer.held.clear();
            peer.right(id);
        }
        Then::GoOn
    });
    let mut engine = engine(1);
    let session = engine.open(SessionPlan { timeout_ns: 3_600_000_000_000, ..plan(server.address, 1, 4) }).unwrap();
    let stop = engine.stop_flag();
    let hour = BlockPlan { counted_ns: 3_600_000_000_000, ..count(session, 0) };
    let run = engine.start(&[count(session, 50), hour], &[]).unwrap();
    told.recv().unwrap();
    stop.store(true, Ordering::Relaxed);
    let done = run.finish().unwrap();
    assert_eq!(done.iter().map(|one| one.answered).collect::<Vec<_>>(), [50]);
    let done = engine.run(&[count(session, 20)], &[]).unwrap().pop().unwrap();
    assert_eq!(done.sent, done.answered + done.failed);
    assert_eq!(done.connects, 1);
}

#[test]
fn a_missing_listener_is_refused_and_a_dying_server_ends_its_block_early() {
    let address = answering().address; // dropped: closed again
    assert!(matches!(engine(2).open(plan(address, 4, 2)), Err(EngineError::Connect { .. })));
    let server = std::sync::Arc::new(std::sync::Mutex::new(None::<Server>));
    let mine = std::sync::Arc::clone(&server);
    let one = serve(move |peer, id, number| {
        peer.held.clear();
        peer.right(id);
        if number == 100 {
            let mine = std::sync::Arc::clone(&mine);
            std::thread::spawn(move || drop(mine.lock().unwrap().take()));
        }
        Then::GoOn
    });
    let address = one.address;
    *server.lock().unwrap() = Some(one);
    let mut engine = engine(1);
    let session = engine.open(plan(address, 3, 2)).unwrap();
    let hour = BlockPlan { counted_ns: 3_600_000_000_000, ..count(session, 0) };
    let done = engine.run(&[hour], &[]).unwrap().pop().unwrap();
    check(&done);
    assert!(done.gave_up && done.answered >= 100, "{done:?}");
    assert!(done.counted_ns < 60_000_000_000);
}

#[test]
fn requests_in_two_kinds_keep_their_own_answers() {
    let server = answering();
    let mut plan = plan(server.address, 1, 3);
    let exchange = |body: &[u8]| Exchange::new(REQUEST.to_vec(), 200, body.to_vec());
    plan.exchanges = vec![exchange(BODY), exchange(b"HELLO WORLD"), exchange(b"other")];
    let done = drive(plan, 30);
    assert_eq!((done.answered, errors(&done)), (10, vec![("wrong_length", 10), ("wrong_body", 10)]));
}

#[test]
fn kinds_of_requests_and_answers_that_come_too_early_are_counted_as_over_http_1() {
    let server = serve(|peer, id, number| {
        peer.held.clear();
        match number % 10 {
            9 => peer.reset(id, peer::INTERNAL_ERROR),
            _ => peer.right(id),
        }
        Then::GoOn
    });
    let mut plan = plan(server.address, 1, 1);
    let exchange =
        |kind, earliest_ns| Exchange { kind, earliest_ns, ..Exchange::new(REQUEST.to_vec(), 200, BODY.to_vec()) };
    // The third kind's earliest time is an hour, so that all its responses come too early.
    plan.exchanges = vec![exchange(0, 0), exchange(1, 0), exchange(2, 3_600_000_000_000)];
    let done = drive(plan, 300);
    let kinds: Vec<_> = done.kinds.iter().map(|kind| (kind.requests, kind.failed)).collect();
    // One request in ten is reset, whatever its kind.
    assert_eq!(kinds, [(90, 10), (90, 10), (0, 100)]);
    assert_eq!(errors(&done), [("reset", 30), ("too_early", 90)]);
    assert!(done.sample.contains("answered after"), "{}", done.sample);
}

#[test]
fn requests_that_do_not_fit_into_the_socket_wait_and_arrive_whole() {
    const STREAMS: usize = 1000;
    let server = serve(|peer, id, _| {
        let _ = id;
        if peer.held.len() == STREAMS {
            // The server reads all requests before it responds, and none while it responds: later requests must wait.
            for id in std::mem::take(&mut peer.held) {
                peer.right(id);
            }
        }
        Then::GoOn
    });
    let mut plan = plan(server.address, 1, STREAMS as u32);
    let request = format!("GET / HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n", "y".repeat(3900));
    plan.exchanges = vec![Exchange::new(request.into_bytes(), 200, BODY.to_vec())];
    let done = drive(plan, 5 * STREAMS as u64);
    assert_eq!((done.answered, errors(&done), done.connects), (5000, vec![], 0));
    assert!(done.bytes_out > 5000 * 3900, "{}", done.bytes_out);
}
