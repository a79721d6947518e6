//! The ring by itself, over pairs of sockets.

use super::*;
use socket2::{Domain, Type};
use std::io::Write;

/// A ring of so many connections with their other ends; None where the kernel will not have it.
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
fn a_hold_for_more_answers_than_come_ends_with_those_that_came() {
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
fn a_hold_until_something_is_due_leaves_what_came_until_then() {
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
fn an_answer_and_its_connections_end_in_one_batch_are_told_together() {
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
fn a_request_that_could_not_leave_is_told_before_the_end_that_prevented_it() {
    let Some((mut ring, mut pairs)) = ring(1) else { return };
    let (ours, theirs) = pairs.pop().unwrap();
    drop(theirs);
    assert_eq!(ring.send(0, &ours, 0, b"x").unwrap(), 1);
    let count = ring.wait(sys::now_ns(), 1_000_000_000, None);
    assert_eq!(ring.event(0).map(|event| event.unsent), Some(libc::EPIPE));
    assert_eq!(heard(&mut ring, count).last(), Some(&(0, true)));
}

#[test]
fn what_was_released_says_no_more_and_its_peer_is_told() {
    let Some((mut ring, mut pairs)) = ring(1) else { return };
    let (ours, mut theirs) = pairs.pop().unwrap();
    ring.release(0, ours);
    ring.settle();
    assert!(theirs.write_all(b"too late").is_err());
    let count = ring.wait(0, 0, None);
    assert!(heard(&mut ring, count).iter().all(|(_, closing)| *closing));
}
