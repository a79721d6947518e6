//! Both back ends give the same counts; the engine falls back to epoll if the kernel refuses io_uring.

mod faulty;

use dragstrip_engine::schedule::{OpenLoopPlan, Precision};
use dragstrip_engine::{
    Backend, BlockPlan, BodyCheck, Engine, EngineError, Exchange, Protocol, SessionPlan, SessionUse, Tally, tally,
};
use faulty::{RIGHT, Server, Then, answer, check, count, engine_over, errors, plan, serve};
use std::io::{Error, Write};
use std::net::TcpListener;
use std::sync::Arc;

const BACKEND: Backend = Backend::Auto;

/// A server that fails in many ways, at the same requests each time.
fn troubled() -> Server {
    serve(|stream, number| {
        let (bytes, then): (&[u8], Then) = match number % 20 {
            3 => (b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", Then::GoOn),
            5 => (b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello there", Then::GoOn),
            7 => (b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello world!", Then::GoOn),
            9 => (b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhel", Then::Close),
            11 => (b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\nhello world", Then::Close),
            13 => (b"", Then::Reset),
            15 => (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n", Then::GoOn),
            17 => (b"nonsense", Then::GoOn),
            _ => (RIGHT, Then::GoOn),
        };
        let _ = stream.write_all(bytes);
        then
    })
}

#[test]
fn both_count_the_same() {
    for (workers, connections) in [(1, 1), (1, 9), (2, 40)] {
        let seen = [Backend::Epoll, BACKEND, ring()].map(|backend| {
            let server = troubled();
            let mut engine = engine_over(workers, backend);
            let session = engine.open(plan(server.address, connections)).unwrap();
            let done = engine.run(&[count(session, 2000)], &[]).unwrap().pop().unwrap();
            check(&done);
            assert_eq!(server.requests(), 2000);
            (done.sent, done.answered, done.failed, done.bytes_in, done.bytes_out, errors(&done), done.statuses)
        });
        assert_eq!((&seen[0], &seen[0]), (&seen[1], &seen[2]));
        assert_eq!((seen[0].0, seen[0].1), (2000, 1400));
    }
}

#[test]
fn both_count_the_same_with_a_connection_per_request() {
    for (workers, connections) in [(1, 1), (1, 9), (2, 40)] {
        let seen = [Backend::Epoll, BACKEND].map(|backend| {
            let server = troubled();
            let mut engine = engine_over(workers, backend);
            let plan = SessionPlan { keepalive: false, ..plan(server.address, connections) };
            let session = engine.open(plan).unwrap();
            // Twice: the first block's remains must not affect the second.
            let done = engine.run(&[count(session, 1000), count(session, 1000)], &[]).unwrap();
            done.iter().for_each(check);
            assert_eq!((server.requests(), server.accepted()), (2000, 2000));
            let told = |one: &Tally| (one.sent, one.answered, one.connects, one.bytes_in, one.bytes_out, errors(one));
            done.iter().map(told).collect::<Vec<_>>()
        });
        assert_eq!(seen[0], seen[1]);
        assert_eq!((seen[0][0].0, seen[0][1].1, seen[0][1].2), (1000, 700, 1000));
    }
}

#[test]
fn both_report_refused_and_unanswered_connections_as_the_same_kinds() {
    let seen = [Backend::Epoll, BACKEND].map(|backend| {
        let stalling = serve(|stream, number| {
            if number % 10 == 3 {
                return Then::Stall;
            }
            let _ = stream.write_all(RIGHT);
            Then::Close
        });
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut engine = engine_over(1, backend);
        let single = |address| SessionPlan { keepalive: false, timeout_ns: 2_000_000_000, ..plan(address, 20) };
        let sessions = [stalling.address, nobody].map(|address| engine.open(single(address)).unwrap());
        let done = engine.run(&sessions.map(|session| count(session, 100)), &[]).unwrap();
        done.iter().for_each(check);
        assert_eq!(stalling.accepted(), 100);
        done.iter().map(|one| (one.sent, one.answered, one.connects, errors(one))).collect::<Vec<_>>()
    });
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], [(100, 90, 100, vec![("timeout", 10)]), (0, 0, 0, vec![("refused", 60)])]);
}

#[test]
fn no_more_connections_are_opened_than_there_are_requests_to_send() {
    for (workers, connections, requests) in [(1, 64, 1000), (3, 200, 1500), (2, 300, 20)] {
        for backend in [Backend::Epoll, BACKEND] {
            let server = answer(RIGHT, || Then::Close);
            let mut engine = engine_over(workers, backend);
            let plan = SessionPlan { keepalive: false, ..plan(server.address, connections) };
            let session = engine.open(plan).unwrap();
            let done = engine.run(&[count(session, requests)], &[]).unwrap().pop().unwrap();
            check(&done);
            assert_eq!((done.answered, done.connects, errors(&done)), (requests, requests, vec![]));
            assert_eq!((server.accepted(), server.requests()), (requests, requests), "{backend:?}");
        }
    }
}

#[test]
fn a_kernel_without_io_uring_uses_epoll_and_the_reason_is_reported() {
    let forbidden = || Err(Error::from_raw_os_error(1));
    let mut engine = Engine::with_probe(&[first_core()], Backend::Auto, forbidden).unwrap();
    assert!(engine.backend().starts_with("epoll (io_uring: Operation not permitted"), "{}", engine.backend());
    let server = answer(RIGHT, || Then::GoOn);
    let session = engine.open(plan(server.address, 4)).unwrap();
    assert_eq!(engine.run(&[count(session, 100)], &[]).unwrap()[0].answered, 100);
}

#[test]
fn io_uring_by_name_is_used_or_refused_and_never_replaced() {
    let refused = Engine::with_probe(&[first_core()], Backend::Uring, || Err(Error::from_raw_os_error(38)));
    let Err(refused @ EngineError::Uring { .. }) = refused else { panic!("it should be refused") };
    assert!(refused.to_string().contains("auto or epoll"), "{refused}");
    match Engine::with_backend(&[first_core()], Backend::Uring) {
        Ok(engine) => assert!(engine.backend().starts_with("io_uring ("), "{}", engine.backend()),
        Err(refused) => assert!(matches!(refused, EngineError::Uring { .. }), "{refused}"),
    }
    assert_eq!(engine_over(1, Backend::Epoll).backend(), "epoll");
}

#[test]
fn a_server_that_closes_idle_connections_during_anothers_block_is_noticed() {
    for backend in [Backend::Epoll, BACKEND] {
        let closing = Arc::new(answer(RIGHT, || Then::GoOn));
        let closed_by = Arc::clone(&closing);
        let busy = serve(move |stream, number| {
            if number == 1000 {
                closed_by.close_all();
            }
            stream.write_all(RIGHT).unwrap();
            Then::GoOn
        });
        let mut engine = engine_over(1, backend);
        let idle = engine.open(plan(closing.address, 5)).unwrap();
        let other = engine.open(plan(busy.address, 5)).unwrap();
        engine.run(&[count(idle, 50)], &[]).unwrap();
        let done = engine.run(&[count(other, 2000), count(idle, 50), count(other, 50)], &[]).unwrap();
        done.iter().for_each(check);
        let told: Vec<_> = done.iter().map(|one| (one.answered, one.connects, errors(one))).collect();
        assert_eq!(told, [(2000, 0, vec![]), (50, 5, vec![]), (50, 0, vec![])]);
    }
}

#[test]
fn more_answers_than_buffers_arrive_whole() {
    // 200 connections with 300 kB each at once: far more than the provided buffers hold.
    let body: Vec<u8> = (0..300_000).map(|at: u32| (at % 241) as u8).collect();
    let sent = [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
    let length = sent.len() as u64;
    let server = serve(move |stream, _| {
        stream.write_all(&sent).unwrap();
        Then::GoOn
    });
    let mut engine = engine_over(1, BACKEND);
    let mut plan = plan(server.address, 200);
    plan.exchanges[0].body = body;
    let session = engine.open(plan).unwrap();
    let done = engine.run(&[count(session, 400)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, done.bytes_in, errors(&done)), (400, 400 * length, vec![]));
}

#[test]
fn sessions_come_and_go_without_leaving_a_connection_behind() {
    for backend in [Backend::Epoll, BACKEND] {
        let server = serve(|stream, _| {
            let _ = stream.write_all(RIGHT);
            Then::GoOn
        });
        let mut engine = engine_over(2, backend);
        for _ in 0..20 {
            let session = engine.open(SessionPlan { ..plan(server.address, 10) }).unwrap();
            assert_eq!(engine.run(&[count(session, 30)], &[]).unwrap()[0].answered, 30);
            engine.close(session).unwrap();
        }
        server.wait_until_all_have_gone();
    }
}

/// io_uring even for one connection, if the kernel supports it.
fn ring() -> Backend {
    Engine::with_backend(&[first_core()], Backend::Uring).map_or(BACKEND, |_| Backend::Uring)
}

#[test]
fn a_single_connection_handles_pauses_and_pieces_like_many() {
    for backend in [Backend::Epoll, BACKEND, ring()] {
        // A pause longer than the read's time limit, and a response in two pieces.
        let server = serve(|stream, number| {
            if number % 50 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
            let cut = if number % 5 == 0 { RIGHT.len() / 2 } else { RIGHT.len() };
            stream.write_all(&RIGHT[..cut]).unwrap();
            if cut < RIGHT.len() {
                std::thread::sleep(std::time::Duration::from_millis(1));
                stream.write_all(&RIGHT[cut..]).unwrap();
            }
            Then::GoOn
        });
        let mut engine = engine_over(1, backend);
        let session = engine.open(plan(server.address, 1)).unwrap();
        let timed = |open_loop| BlockPlan { session, lead_ns: 0, counted_ns: 200_000_000, max_requests: 0, open_loop };
        let open_loop = timed(Some(OpenLoopPlan::constant(400.0, Precision::Precise)));
        let done = engine.run(&[count(session, 300), open_loop, timed(None), count(session, 20)], &[]).unwrap();
        done.iter().for_each(check);
        let told: Vec<_> = done.iter().map(|one| (one.connects, one.answered == one.sent, errors(one))).collect();
        assert_eq!(told, vec![(0, true, vec![]); 4]);
        assert_eq!((done[0].answered, done[3].answered), (300, 20));
    }
}

fn first_core() -> usize {
    (0..1024).find(|core| Engine::with_backend(&[*core], Backend::Epoll).is_ok()).unwrap()
}

/// A large body, incorrect in its middle from request `from` on and shorter by one byte from `short` on.
fn large(from: u64, short: u64, connections: usize) -> (Server, SessionPlan) {
    let body: Vec<u8> = (0..200_000).map(|at: u32| (at % 241) as u8).collect();
    let right = body.clone();
    let server = serve(move |stream, number| {
        let mut body = right.clone();
        if number >= from {
            body[150_000] ^= 1;
        }
        if number >= short {
            body.pop();
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), &body].concat()).map_or(Then::Close, |()| Then::GoOn)
    });
    let mut plan = plan(server.address, connections);
    plan.exchanges[0].body = body;
    plan.body_check = BodyCheck::Length;
    (server, plan)
}

#[test]
fn large_bodies_checked_by_length_are_counted_to_the_byte_and_some_are_read_whole() {
    let of = |from, short, connections, backend| {
        let (_server, plan) = large(from, short, connections);
        let mut engine = engine_over(1, backend);
        let session = engine.open(plan).unwrap();
        let done = engine.run(&[count(session, 640)], &[]).unwrap().pop().unwrap();
        check(&done);
        done
    };
    for backend in [Backend::Epoll, BACKEND] {
        let right = of(u64::MAX, u64::MAX, 4, backend);
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n".len() as u64;
        assert_eq!((right.answered, right.bytes_in, errors(&right)), (640, 640 * (200_000 + head), vec![]));
        // The first bodies are all compared; of later ones, one in 64.
        assert_eq!(of(0, u64::MAX, 4, backend).errors[tally::Failure::WrongBody as usize], 64 + 9);
        // One connection: with several, a preempted server thread sends a response of an earlier number late.
        assert_eq!(of(100, u64::MAX, 1, backend).errors[tally::Failure::WrongBody as usize], 9);
        assert_eq!(of(u64::MAX, 600, 4, backend).errors[tally::Failure::WrongLength as usize], 40);
    }
}

#[test]
fn a_session_reports_its_back_end_and_the_reason() {
    let server = serve(|stream, _| {
        let _ = stream.write_all(RIGHT);
        Then::GoOn
    });
    let by_length = |plan: SessionPlan| {
        let body_check = BodyCheck::Length;
        let exchanges = plan.exchanges.iter().cloned().map(|it| Exchange { body: vec![0; 1 << 20], ..it }).collect();
        SessionPlan { body_check, exchanges, ..plan }
    };
    for backend in [Backend::Epoll, BACKEND] {
        let mut engine = engine_over(2, backend);
        let chosen = engine.backend();
        let kernel = engine.latency_stamps();
        let plan = plan(server.address, 3);
        let pipelined = Protocol::Pipelined { depth: 4 };
        for (plan, io, backend, wait) in [
            (plan.clone(), chosen.as_str(), engine.io(), "sleep"),
            (SessionPlan { polls: true, ..plan.clone() }, &chosen, engine.io(), "poll"),
            (SessionPlan { protocol: pipelined, ..plan.clone() }, &chosen, engine.io(), "sleep"),
            (by_length(plan), "epoll (large bodies are counted in the kernel's buffers)", Backend::Epoll, "sleep"),
        ] {
            let session = engine.open(plan).unwrap();
            let (io, protocol) = (io.to_owned(), "HTTP/1.1");
            let used = engine.used(session).unwrap();
            let SessionUse { opened, streams, .. } = used;
            let expected = SessionUse { io, backend, protocol, wait, tls: None, stamps: kernel, opened, streams };
            assert_eq!(used, expected);
            engine.close(session).unwrap();
            assert_eq!(engine.used(session).unwrap_err().kind(), "session");
        }
    }
}
