//! Open loops over real connections: the counts of scheduled, sent and answered requests add up exactly.
//! No test depends on this machine's speed; if a test needs something slow, its server is slow.

use crate::faulty::{RIGHT, Server, Then, answer, check, engine, errors, plan, serve};
use dragstrip_engine::schedule::{Arrivals, Departures, OpenLoopPlan, Precision, Step};
use dragstrip_engine::tally::OpenTally;
use dragstrip_engine::{BlockPlan, SessionPlan, Tally};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

const MS: u64 = 1_000_000;

fn block(session: u32, rate_per_s: f64, counted_ms: u64) -> BlockPlan {
    let open_loop = Some(OpenLoopPlan::constant(rate_per_s, Precision::Precise));
    BlockPlan { session, lead_ns: 0, counted_ns: counted_ms * MS, max_requests: 0, open_loop }
}

fn histogram(bytes: &[u8]) -> Histogram<u64> {
    Deserializer::new().deserialize(&mut &*bytes).unwrap()
}

/// Checks the invariants of every finished open loop on one session.
fn check_open(done: &Tally) -> &OpenTally {
    check(done);
    let open = done.open_loop.as_ref().unwrap();
    let left = open.offered - open.unsent;
    let [latency, sent, lag] = [&done.latency_hdr, &open.latency_sent_hdr, &open.lag_hdr].map(|hdr| histogram(hdr));
    assert_eq!((latency.len(), sent.len(), lag.len()), (done.requests, done.requests, left));
    assert!(done.requests <= left && left <= done.requests + done.failed);
    assert!(sent.max() <= latency.max() && open.lag_quantiles_ns.is_sorted());
    open
}

fn drive(server: &Server, connections: usize, workers: usize, block: impl Fn(u32) -> BlockPlan) -> Tally {
    let mut engine = engine(workers);
    let session = engine.open(plan(server.address, connections)).unwrap();
    engine.run(&[block(session)], &[]).unwrap().pop().unwrap()
}

#[test]
fn every_request_that_is_due_leaves_whatever_the_precision_and_the_share() {
    let server = answer(RIGHT, || Then::GoOn);
    for (workers, connections, precision) in [
        (1, 1, Precision::Precise),
        (1, 20, Precision::Balanced),
        (2, 9, Precision::Thrifty),
        (3, 2, Precision::Precise),
    ] {
        let before = server.requests();
        let done = drive(&server, connections, workers, |session| BlockPlan {
            open_loop: Some(OpenLoopPlan::constant(2000.0, precision)),
            lead_ns: 20 * MS,
            ..block(session, 0.0, 100)
        });
        let open = check_open(&done);
        assert_eq!(open.offered, 200);
        assert_eq!((done.requests, open.unsent, errors(&done)), (200 - open.unsent, open.unsent, vec![]));
        assert_eq!(server.requests() - before, done.sent);
        assert_eq!((done.lead_ns, done.counted_ns), (20 * MS, 100 * MS));
        assert!(done.sent <= 240);
    }
}

#[test]
fn responses_read_late_keep_their_arrival_time() {
    let server = answer(RIGHT, || Then::GoOn);
    let open_loop = Some(OpenLoopPlan::constant(4000.0, Precision::Thrifty));
    let done = drive(&server, 40, 1, |session| BlockPlan { open_loop: open_loop.clone(), ..block(session, 0.0, 200) });
    let sent = histogram(&check_open(&done).latency_sent_hdr);
    // Responses are read a millisecond after their requests; at least one of 800 comes in less than half of that.
    assert!(sent.min() < MS / 2, "{}", sent.min());
}

#[test]
fn a_wait_for_a_free_connection_is_in_the_latency_and_not_in_that_from_the_sending() {
    let server = serve(|stream, number| {
        if number == 20 {
            sleep(Duration::from_millis(100));
        }
        stream.write_all(RIGHT).unwrap();
        Then::GoOn
    });
    let done = drive(&server, 1, 1, |session| block(session, 1000.0, 300));
    let open = check_open(&done);
    assert_eq!((open.offered, done.failed), (300, 0));
    let slow = |hdr: &[u8]| histogram(hdr).count_between(50 * MS, 60_000 * MS);
    // Requests due in the first half of the stall waited at least for its second half.
    assert!(slow(&done.latency_hdr) >= 50, "{}", slow(&done.latency_hdr));
    assert!(slow(&open.latency_sent_hdr) < slow(&done.latency_hdr));
    assert!(slow(&open.lag_hdr) >= 49);
}

#[test]
fn a_rate_that_is_not_reached_is_still_the_rate_that_is_offered() {
    let server = serve(|stream, _| {
        sleep(Duration::from_millis(5));
        stream.write_all(RIGHT).unwrap();
        Then::GoOn
    });
    // At most 200 responses per second over each of two connections, a twentieth of the offered rate.
    let done = drive(&server, 2, 1, |session| block(session, 8000.0, 200));
    let open = check_open(&done);
    assert_eq!(open.offered, 1600);
    assert!(open.departed <= 82 && open.unsent >= 1500, "{open:?}");
    assert_eq!(done.requests + open.unsent, open.offered);
}

#[test]
fn each_kind_of_arrivals_sends_exactly_the_scheduled_number_of_requests() {
    let server = answer(RIGHT, || Then::GoOn);
    for (workers, arrivals) in [(1, Arrivals::Constant), (2, Arrivals::Constant), (2, Arrivals::Poisson)] {
        let open_loop = OpenLoopPlan { arrivals, seed: 11, ..OpenLoopPlan::constant(3000.0, Precision::Precise) };
        let done = drive(&server, 4, workers, |session| BlockPlan {
            counted_ns: 60_000 * MS,
            max_requests: 300,
            open_loop: Some(open_loop.clone()),
            ..block(session, 0.0, 1)
        });
        let open = check_open(&done);
        assert_eq!((open.offered, open.unsent, done.requests, done.sent), (300, 0, 300, 300));
        let next_ns = open_loop.time_of(300);
        assert!((next_ns..30_000 * MS).contains(&done.counted_ns), "{} {next_ns}", done.counted_ns);
    }
    assert_eq!(server.requests(), 900);
}

#[test]
fn steps_and_poisson_arrivals_offer_what_their_schedule_says() {
    let server = answer(RIGHT, || Then::GoOn);
    let steps = vec![
        Step { from_per_s: 500.0, to_per_s: 500.0, until_ns: 40 * MS },
        Step { from_per_s: 1000.0, to_per_s: 5000.0, until_ns: 150 * MS },
    ];
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let open_loop = OpenLoopPlan { arrivals, precision: Precision::Balanced, steps: steps.clone(), seed: 3 };
        let mut departures = Departures::new(&open_loop, 0, 1, u64::MAX);
        let mut expected = 0;
        while departures.next_ns() < 120 * MS {
            expected += u64::from(departures.next_ns() >= 20 * MS);
            departures.advance();
        }
        let done = drive(&server, 4, 2, |session| BlockPlan {
            lead_ns: 20 * MS,
            open_loop: Some(open_loop.clone()),
            ..block(session, 0.0, 100)
        });
        assert_eq!(check_open(&done).offered, expected);
    }
}

#[test]
fn a_server_that_ends_every_connection_gets_a_new_one_for_each_request() {
    let closing = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\nhello world";
    let server = answer(closing, || Then::Close);
    for keepalive in [true, false] {
        let mut engine = engine(2);
        let session = engine.open(SessionPlan { keepalive, ..plan(server.address, 6) }).unwrap();
        let bounded = BlockPlan { max_requests: 100, ..block(session, 2000.0, 60_000) };
        for done in engine.run(&[bounded.clone(), bounded], &[]).unwrap() {
            let open = check_open(&done);
            assert_eq!((open.offered, done.requests, errors(&done)), (100, 100, vec![]));
            assert!((94..=100).contains(&done.connects), "{}", done.connects);
        }
    }
}

#[test]
fn failures_and_correct_responses_add_up_to_what_was_sent() {
    let server = serve(|stream, number| {
        let (bytes, then): (&[u8], Then) = match number % 10 {
            2 => (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", Then::GoOn),
            4 => (b"", Then::Reset),
            6 => (b"HTTP/1.1 200 OK\r\nContent-Le", Then::Close),
            _ => (RIGHT, Then::GoOn),
        };
        let _ = stream.write_all(bytes);
        then
    });
    let done = drive(&server, 5, 1, |session| BlockPlan { max_requests: 200, ..block(session, 2000.0, 60_000) });
    let open = check_open(&done);
    assert_eq!((open.offered, open.unsent, done.requests, done.failed), (200, 0, 140, 60));
    assert_eq!(server.requests(), 200);
}

#[test]
fn requests_offered_to_a_dead_server_are_unsent() {
    let server = serve(|stream, number| {
        if number == 30 {
            return Then::Die;
        }
        let _ = stream.write_all(RIGHT);
        Then::GoOn
    });
    let done = drive(&server, 4, 1, |session| block(session, 1000.0, 3_600_000));
    let open = check_open(&done);
    assert!(done.gave_up && done.counted_ns < 600_000 * MS);
    assert_eq!(open.offered, done.counted_ns.div_ceil(MS), "what was due by then");
    assert_eq!(open.offered, done.requests + done.failed + open.unsent);
}

#[test]
fn closed_and_open_loops_alternate_on_one_session() {
    let server = answer(RIGHT, || Then::GoOn);
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, 3)).unwrap();
    let closed = BlockPlan { max_requests: 50, open_loop: None, ..block(session, 1.0, 10_000) };
    let open = BlockPlan { max_requests: 40, ..block(session, 4000.0, 60_000) };
    let done = engine.run(&[closed.clone(), open.clone(), closed, open], &[]).unwrap();
    assert_eq!(
        done.iter().map(|one| (one.answered, one.open_loop.is_some())).collect::<Vec<_>>(),
        [(50, false), (40, true), (50, false), (40, true)]
    );
}

#[test]
fn an_invalid_pace_is_refused_and_its_field_named() {
    let server = answer(RIGHT, || Then::GoOn);
    let mut engine = engine(1);
    let session = engine.open(plan(server.address, 1)).unwrap();
    let mut refusal = |block: BlockPlan| engine.run(&[block], &[]).unwrap_err().to_string();
    assert!(refusal(block(session, -1.0, 1)).starts_with("rate_per_s: -1"));
    assert!(refusal(block(session, 0.0, 1)).starts_with("steps"));
    let short = Step { from_per_s: 1.0, to_per_s: 1.0, until_ns: MS };
    let open_loop = Some(OpenLoopPlan { steps: vec![short], ..OpenLoopPlan::constant(1.0, Precision::Precise) });
    assert!(refusal(BlockPlan { open_loop, ..block(session, 0.0, 2) }).starts_with("until_ns: 1000000"));
}

#[test]
fn snapshots_of_a_running_block_add_up_to_its_result() {
    let server = answer(RIGHT, || Then::GoOn);
    let mut engine = engine(2);
    let session = engine.open(plan(server.address, 5)).unwrap();
    let mut run = engine.start_observed(&block(session, 2000.0, 300), 50 * MS).unwrap();
    let mut seen = vec![];
    while !run.wait(Duration::from_millis(5)).unwrap() {
        seen.extend(run.next_interval());
    }
    seen.extend(std::iter::from_fn(|| run.next_interval()));
    let (done, rest) = run.finish_observed().unwrap();
    seen.extend(rest);
    let sum = |of: fn(&Tally) -> u64| seen.iter().map(of).sum::<u64>();
    let whole = check_open(&done[0]).offered;
    assert!(seen.len() > 1);
    assert_eq!((sum(|one| one.requests), sum(|one| one.sent)), (done[0].requests, done[0].sent));
    assert_eq!(sum(|one| histogram(&one.latency_hdr).len()), done[0].requests);
    assert_eq!(sum(|one| one.open_loop.as_ref().unwrap().offered), whole);
    assert!(seen.windows(2).all(|two| two[0].started_ns + two[0].counted_ns == two[1].started_ns));
}
