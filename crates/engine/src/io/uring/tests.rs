//! The ring by itself, over pairs of sockets.

use super::*;
use socket2::{Domain, Type};
use std::io::{Read, Write};

/// A ring of this many connections with their other ends; None if the kernel refuses io_uring.
fn ring(connections: usize) -> Option<(Uring, Vec<(Socket, Socket)>)> {
    let needs = Needs { connections, body_bytes: 0, requests: &[b"x"], stamps: true, target: None, tls: None };
    let mut ring = Uring::open(&needs).ok()?;
    let pair = |index| {
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM.nonblocking(), None).unwrap();
        ring.watch(index as u64, &ours, false).unwrap();
        (ours, theirs)
    };
    let pairs = (0..connections).map(pair).collect();
    ring.settle();
    Some((ring, pairs))
}

fn heard(ring: &mut Uring, count: usize) -> Vec<(u64, bool)> {
    (0..count).filter_map(|index| ring.event(index)).map(|event| (event.token, event.closing)).collect()
}

#[test]
fn a_wait_for_more_responses_than_arrive_returns_those_that_arrived() {
    for minimum_wait in [true, false] {
        let Some((mut ring, mut pairs)) = ring(40) else { return };
        ring.minimum_wait &= minimum_wait;
        pairs[7].1.write_all(b"one").unwrap();
        let coalescing = Some(Coalescing { answers: 20, most_ns: 2_000_000 });
        let count = ring.wait(sys::now_ns(), 3_600_000_000_000, coalescing);
        assert_eq!(heard(&mut ring, count), [(7, false)]);
    }
}

#[test]
fn a_wait_until_a_due_time_returns_what_arrived_before() {
    let Some((mut ring, mut pairs)) = ring(40) else { return };
    for answers in [vec![3], vec![], vec![5, 9]] {
        let (began_ns, limit_ns) = (sys::now_ns(), 2_000_000);
        answers.iter().for_each(|index| pairs[*index].1.write_all(b"one").unwrap());
        let count = ring.wait(began_ns, limit_ns, Some(Coalescing { answers: 20, most_ns: u64::MAX }));
        assert!(sys::now_ns() >= began_ns + limit_ns);
        let told: Vec<(u64, bool)> = answers.iter().map(|index| (*index as u64, false)).collect();
        assert_eq!(heard(&mut ring, count), told);
        ring.give_back();
    }
}

#[test]
fn a_wait_ends_when_it_is_due_again_and_again() {
    let Some((mut ring, _pairs)) = ring(1) else { return };
    for limit_ns in [1_000_000, 3_000_000, 1_000_000, 1] {
        let before_ns = sys::now_ns();
        while sys::now_ns() < before_ns + limit_ns {
            let now_ns = sys::now_ns();
            let count = ring.wait(now_ns, (before_ns + limit_ns).saturating_sub(now_ns), None);
            assert_eq!(heard(&mut ring, count), []);
        }
    }
}

#[test]
fn a_response_and_its_connections_end_in_one_batch_are_reported_together() {
    let Some((mut ring, _pairs)) = ring(1) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = Socket::from(listener.accept().unwrap().0);
    ring.watch(1 << 32, &ours, false).unwrap();
    ring.settle();
    theirs.write_all(b"last words").unwrap();
    drop(theirs);
    let mut told = vec![];
    while told.last() != Some(&(1 << 32, true)) {
        let count = ring.wait(sys::now_ns(), 1_000_000_000, None);
        told = heard(&mut ring, count);
    }
    assert!(told.iter().all(|(_, closing)| *closing), "{told:?}");
}

#[test]
fn an_unsent_request_is_reported_before_the_connection_end_that_caused_it() {
    let Some((mut ring, mut pairs)) = ring(1) else { return };
    let (ours, theirs) = pairs.pop().unwrap();
    drop(theirs);
    assert_eq!(ring.send(0, &ours, 0, b"x").unwrap(), 1);
    let count = ring.wait(sys::now_ns(), 1_000_000_000, None);
    assert_eq!(ring.event(0).map(|event| event.unsent), Some(libc::EPIPE));
    assert_eq!(heard(&mut ring, count).last(), Some(&(0, true)));
}

#[test]
fn a_released_connection_reports_nothing_and_its_peer_sees_the_end() {
    let Some((mut ring, mut pairs)) = ring(1) else { return };
    let (ours, mut theirs) = pairs.pop().unwrap();
    ring.release(0, ours);
    ring.settle();
    assert!(theirs.write_all(b"too late").is_err());
    let count = ring.wait(0, 0, None);
    assert!(heard(&mut ring, count).iter().all(|(_, closing)| *closing));
}

#[test]
fn bytes_made_for_one_send_go_out_whole_and_in_order_however_small_the_buffer() {
    let Some((mut ring, mut pairs)) = ring(12) else { return };
    let (mut sent, mut got) = (vec![Vec::new(); 12], vec![Vec::new(); 12]);
    let (mut buffer, mut refused, mut kept) = (vec![0; 1 << 16], 0, 0);
    for turn in 0..3000usize {
        for place in 0..12 {
            // Some take what they are given as it comes, some only now and then.
            let bytes = vec![(turn % 251) as u8; 1 + (turn * 37 + place * 101) % LONG_REQUEST];
            match ring.send_now(place as u64, &pairs[place].0, &bytes) {
                Ok(length) => {
                    sent[place].extend_from_slice(&bytes[..length]);
                    bytes_are_gone(bytes);
                }
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    refused += 1;
                }
            }
        }
        for index in 0..ring.wait(sys::now_ns(), 0, None) {
            let Some(event) = ring.event(index) else { continue };
            assert_eq!(event.unsent, 0);
            if event.writable {
                kept += 1;
                ring.go_on(event.token, &pairs[event.token as usize].0);
            }
        }
        for (place, (_, theirs)) in
            pairs.iter_mut().enumerate().filter(|(place, _)| turn % 500 == 499 || place % 3 == 0)
        {
            while let Ok(read @ 1..) = theirs.read(&mut buffer) {
                got[place].extend_from_slice(&buffer[..read]);
            }
        }
    }
    while sent.iter().zip(&got).any(|(sent, got)| got.len() < sent.len()) {
        for index in 0..ring.wait(sys::now_ns(), 1_000_000, None) {
            let Some(event) = ring.event(index) else { continue };
            if event.writable {
                ring.go_on(event.token, &pairs[event.token as usize].0);
            }
        }
        for (place, (_, theirs)) in pairs.iter_mut().enumerate() {
            while let Ok(read @ 1..) = theirs.read(&mut buffer) {
                got[place].extend_from_slice(&buffer[..read]);
            }
        }
    }
    assert!(sent == got, "bytes arrive as they were given");
    assert!(refused > 0 && kept > 0, "some found no room: {refused} refused, {kept} kept");
    let told = std::iter::from_fn(|| ring.departure()).count();
    assert!(told > 0);
}

/// The memory of what was sent is another's at once.
fn bytes_are_gone(mut bytes: Vec<u8>) {
    bytes.fill(0xff);
}

#[test]
fn a_send_that_the_kernel_refuses_is_reported_with_its_error() {
    let Some((mut ring, mut pairs)) = ring(2) else { return };
    drop(pairs.pop().unwrap().1);
    let (ours, _) = Socket::pair(Domain::UNIX, Type::STREAM.nonblocking(), None).unwrap();
    assert_eq!(ring.send_now(0, &pairs[0].0, b"sound").unwrap(), 5);
    assert_eq!(ring.send_now(1, &ours, b"lost").unwrap(), 4);
    let mut unsent = Vec::new();
    while unsent.is_empty() {
        for index in 0..ring.wait(sys::now_ns(), 1_000_000, None) {
            unsent.extend(ring.event(index).filter(|event| event.unsent != 0).map(|event| (event.token, event.unsent)));
        }
    }
    assert_eq!(unsent, [(1, libc::EPIPE)]);
    let mut got = [0; 9];
    assert_eq!(pairs[0].1.read(&mut got).unwrap(), 5);
}

#[test]
fn more_requests_are_sent_together_only_if_responses_take_long() {
    let told = [0, 1_000_000, 8_999_999, 14_000_000, 200_000_000, u64::MAX].map(together);
    assert_eq!(told, [8, 8, 8, 14, 64, 64]);
}

#[test]
fn requests_sent_together_have_ascending_send_times_within_their_call() {
    let Some((mut ring, pairs)) = ring(TOGETHER) else { return };
    let mut apart = 0;
    for _ in 0..500 {
        let before_ns = sys::now_ns();
        for (place, (ours, _)) in pairs.iter().enumerate() {
            assert_eq!(ring.send(place as u64, ours, 0, b"x").unwrap(), 1);
        }
        let after_ns = sys::now_ns();
        let mut told: Vec<(u64, u64)> = std::iter::from_fn(|| ring.departure()).collect();
        told.sort_unstable();
        assert_eq!(told.len(), TOGETHER, "the last one's call took all along");
        assert!(told.is_sorted_by_key(|(_, sent_ns)| *sent_ns));
        assert!(told.iter().all(|(_, sent_ns)| (before_ns..=after_ns).contains(sent_ns)));
        apart += u32::from(told[0].1 < told[TOGETHER - 1].1);
    }
    assert!(apart > 400, "{apart} of 500 calls: what sending takes becomes known");
}

#[test]
fn an_interrupted_call_shifts_no_send_time_far() {
    let Some((mut ring, _pairs)) = ring(1) else { return };
    (0..2000).for_each(|_| {
        ring.share_ns(2000, 8);
    });
    assert_eq!(ring.share_ns(1_000_000, 8), 2000 / 8 * 7);
    assert_eq!(ring.share_ns(800, 8), 800 / 8 * 7);
    let quick_ns = 2000 + RISE_NS - FALL_NS; // after the long call and the quick one
    assert_eq!(ring.share_ns(1_000_000, 2), quick_ns / 8 * 7);
    assert_eq!(ring.share_ns(1_000_000, 8), quick_ns / 8 * 7, "a call of few requests changes nothing");
}
