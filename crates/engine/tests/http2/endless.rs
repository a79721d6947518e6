//! Servers that never stop sending: each block ends in time, by its drain or by the stop flag, and so does opening.

use super::peer::{HEAD, Peer, Server, Then, serve};
use super::plan;
use crate::faulty::{endless, engine};
use dragstrip_engine::http2::frame::{self, flag, kind};
use dragstrip_engine::{BlockPlan, SessionPlan};
use std::sync::atomic::{AtomicU64, Ordering};

/// A flood's name, and its next bytes on a stream.
type Flood = (&'static str, fn(u32) -> Vec<u8>);

/// What is sent without end on a stream after its head, and after its end.
const FLOODS: [Flood; 9] = [
    ("data", |id| made(kind::DATA, 0, id, &[b'x'; 4096])),
    ("empty data", |id| made(kind::DATA, 0, id, b"").repeat(100)),
    ("padding", |id| made(kind::DATA, flag::PADDED, id, &[&[200][..], &[0; 200]].concat()).repeat(20)),
    ("unknown frames", |id| made(77, 255, id, &[1; 500])),
    ("interim heads", |id| made(kind::HEADERS, flag::END_HEADERS, id, b"\x08\x03103").repeat(50)),
    ("trailers", |id| made(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, b"\x00\x01x\x01y").repeat(50)),
    ("pings", |_| made(kind::PING, 0, 0, &[7; 8]).repeat(50)),
    ("window updates", |_| made(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(50)),
    ("settings", |_| made(kind::SETTINGS, 0, 0, &[]).repeat(50)),
];

fn made(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, kind, flags, id, payload);
    bytes
}

/// Some correct responses on each connection, then one kind of flood on the stream: `ends` before it.
fn flooding(flood: fn(u32) -> Vec<u8>, head: bool, ends: bool) -> Server {
    let served = AtomicU64::new(0);
    serve(move |peer: &mut Peer, id, _| {
        peer.held.clear();
        if served.fetch_add(1, Ordering::SeqCst) < 40 {
            peer.right(id);
            return Then::GoOn;
        }
        if ends {
            peer.right(id);
        } else if head {
            peer.head(id, HEAD, false);
        }
        endless(&mut peer.stream, &flood(id));
        Then::Close
    })
}

/// Before which part of a response the flood comes, and over how many connections.
const MOMENTS: [(bool, bool, usize); 4] = [(false, false, 8), (true, false, 8), (true, true, 8), (true, true, 30)];

fn holds_no_block((name, flood): Flood, (head, ends, connections): (bool, bool, usize)) {
    let server = flooding(flood, head, ends);
    let plan = SessionPlan { timeout_ns: 300_000_000, ..plan(server.address, connections, 2) };
    crate::faulty::ends_in_time(&format!("{name}, {head}, {ends}, {connections}"), move || {
        let mut engine = engine(1);
        // On a busy machine not all connections may be open in time.
        let Ok(session) = engine.open(plan) else { return };
        let block = BlockPlan { session, lead_ns: 0, counted_ns: 50_000_000, max_requests: 0, open_loop: None };
        assert_eq!(engine.run(&[block.clone(), block], &[]).unwrap().len(), 2);
    });
}

/// Each flood at one moment, and each moment at two floods or more; all of them when `make soak-fuzz` asks for it.
#[test]
fn a_server_that_never_stops_sending_holds_no_block() {
    let all = std::env::var_os("FUZZ_CASES").is_some();
    for (number, flood) in FLOODS.into_iter().enumerate() {
        for (index, moment) in MOMENTS.into_iter().enumerate() {
            if all || number % MOMENTS.len() == index {
                holds_no_block(flood, moment);
            }
        }
    }
}

#[test]
fn a_server_that_never_stops_sending_before_a_request_is_refused_or_loaded() {
    for (_, flood) in FLOODS {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut first = made(kind::SETTINGS, 0, 0, &[]);
                    first.extend(flood(1));
                    endless(&mut stream, &first);
                    endless(&mut stream, &flood(1));
                });
            }
        });
        let plan = SessionPlan { timeout_ns: 300_000_000, ..plan(address, 8, 2) };
        crate::faulty::ends_in_time("before a request", move || {
            let mut engine = engine(1);
            if let Ok(session) = engine.open(plan) {
                let block =
                    BlockPlan { session, lead_ns: 0, counted_ns: 100_000_000, max_requests: 0, open_loop: None };
                engine.run(&[block], &[]).unwrap();
            }
        });
    }
}

#[test]
fn the_stop_flag_ends_the_wait_for_a_server_that_says_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = plan(listener.local_addr().unwrap(), 3, 2); // with a timeout of a minute
    crate::faulty::ends_in_time("silent", move || {
        let mut engine = engine(1);
        let stop = engine.stop_flag();
        std::thread::spawn(move || {
            loop {
                stop.store(true, Ordering::SeqCst); // `open` clears it when it begins
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        });
        assert!(engine.open(plan).is_err());
    });
}
