//! Several requests in flight on one connection. They are sent together, and responses are matched with them in order.
//!
//! The request whose response is due is in the connection's place, as in other modes; the requests after it are in a queue.
//! Each latency begins when its own request was sent.

use super::super::arrived::Arrived;
use super::super::link::State;
use super::super::protocol::Wants;
use super::super::{MAX_READS, Worker, broken_by};
use super::connections::without_request;
use super::scripted::Scripted;
use super::{FirstByte, Http1, Http1Link, Mode, Timed};
use crate::block_run::{BlockRun, LoadModel};
use crate::coalescing::CoalescingRule;
use crate::failure::Failure;
use crate::io::Transport;
use crate::plan::SessionPlan;
use crate::response::{Expect, Verdict, Wrong};
use crate::schedule::NEVER_NS;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind};
use std::ops::Range;

/// Longest expected read of several responses; a worker's buffer is twice as long.
const MAX_TOGETHER: usize = 30 * 1024;
/// Room for the head of each response in such a read.
const HEAD_BYTES: usize = 256;

/// Several requests at a time on each connection, prepared or made by a script.
pub(in crate::worker) struct Pipelined {
    /// Buffer for requests that are sent together.
    pub(super) together: Vec<u8>,
    /// The script that makes the requests, if there is one.
    pub(super) scripted: Option<Box<Scripted>>,
}

/// The mode's state for each connection.
#[derive(Default)]
pub(in crate::worker) struct Queue {
    /// Requests that the connection may still carry.
    left: u32,
    /// The requests in flight after the one whose response is due.
    behind: VecDeque<Behind>,
    /// Arrival times of responses that have not been followed by a new request yet.
    pub(super) freed: VecDeque<u64>,
    /// Number of the request in the place, counted from 0 on each connection.
    first: usize,
    /// Length of the request in the place, bytes.
    due: u32,
    /// Bytes that the socket has not accepted yet.
    out: Vec<u8>,
    /// Requests in `out` of which nothing was sent.
    unflushed: usize,
    /// Requests and bytes of the latest call that sent something.
    flushed: (usize, u64),
    /// If the transport sends later: numbers of the requests of each call whose send time is not known, latest call last.
    departing: Vec<Range<usize>>,
}

/// A request in flight behind the one whose response is due.
struct Behind {
    exchange: u32,
    /// Its length in bytes.
    length: u32,
    since_ns: u64,
    /// Arrival of the response that made room for it, until the request's send time is known; 0: none.
    freed_ns: u64,
}

impl Mode for Pipelined {
    type Extra = Queue;
    type FirstByte = Timed;

    const ONE_AT_A_TIME: bool = false;

    fn prepare(plan: &SessionPlan, links: usize) -> Self {
        Self { together: Vec::new(), scripted: Scripted::of(plan, links) }
    }

    /// Pipelined requests share wake-ups anyway: without latencies the rule never waits.
    #[inline]
    fn note_latency(_: &mut CoalescingRule, _: u64) {}

    /// No request is sent unchanged, and a read may bring many responses.
    fn wants(plan: &SessionPlan) -> Wants<'_> {
        let wants = Wants::of(plan);
        let body_bytes = MAX_TOGETHER.min((wants.body_bytes + HEAD_BYTES) * plan.protocol.depth());
        Wants { requests: Vec::new(), body_bytes, ..wants }
    }

    fn reset(queue: &mut Queue) {
        queue.out.clear();
        queue.departing.clear();
        (queue.first, queue.unflushed, queue.flushed) = (0, 0, (0, 0));
    }

    fn cut<T: Transport>(worker: &Worker<T, Http1<Self>>, index: usize) -> Option<(usize, usize)> {
        let link = &worker.links[index];
        let queue = &link.proto.extra;
        let unsent = queue.out.len() + worker.io.unsent(link.token(index));
        if unsent == 0 {
            return None;
        }
        let behind: usize = queue.behind.iter().map(|behind| behind.length as usize).sum();
        let length = queue.due as usize;
        (unsent > behind).then(|| (length.saturating_sub(unsent - behind), length))
    }

    fn send_rest<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let link = &worker.links[index];
        if let Some(socket) = &link.socket {
            worker.io.go_on(link.token(index), socket);
        }
        // If it fails, the next read fails the requests.
        let _ = worker.push(index).map(|bytes| block_run.counts.bytes_out += bytes);
    }

    /// If the latest call had all requests in flight, the server had closed the connection while it was idle, and nothing is
    /// lost. Otherwise the next read fails the requests.
    fn unsent<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        errno: i32,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let link = &mut worker.links[index].proto;
        let (requests, bytes) = link.extra.flushed;
        if link.place.fresh || requests != usize::from(link.place.state == State::Waiting) + link.extra.behind.len() {
            return;
        }
        block_run.counts.bytes_out -= bytes;
        link.out_at = 0; // these bytes are not counted any more
        for _ in 0..worker.forget_behind(index) {
            block_run.counts.sent -= 1;
            block_run.return_permit();
        }
        worker.unsent(index, errno, block_run);
    }

    #[inline]
    fn departed<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        sent_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let Http1Link { place, extra: queue, .. } = &mut worker.links[index].proto;
        for number in queue.departing.pop().unwrap_or_default() {
            match number.checked_sub(queue.first) {
                Some(0) if place.state == State::Waiting && !place.fresh => place.depart(sent_ns, block_run),
                Some(at @ 1..) if let Some(behind) = queue.behind.get_mut(at - 1) => {
                    behind.since_ns = sent_ns;
                    if behind.freed_ns > 0 {
                        block_run.record_turnaround(sent_ns, std::mem::take(&mut behind.freed_ns));
                    }
                }
                _ => {}
            }
        }
    }

    #[inline]
    fn left(queue: &mut Queue) -> Option<&mut u32> {
        Some(&mut queue.left)
    }

    fn send<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.fill(index, now_ns, block_run);
    }

    fn read<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        worker.read_several(index, closing, block_run, buffer);
    }

    fn ended<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        verdict: &Verdict,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.show_script(index, verdict, block_run);
    }

    fn fail_behind<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        failure: Failure,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.fail_queue(index, failure, block_run);
    }

    fn closed(&mut self, index: usize) {
        if let Some(scripted) = &mut self.scripted {
            scripted.forget(index);
        }
    }

    #[inline]
    fn before_wait<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.wake_paused(now_ns, block_run);
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        self.scripted.as_ref().map_or(NEVER_NS, |scripted| scripted.pause_ends_ns())
    }

    #[inline]
    fn halted(&self) -> bool {
        self.scripted.as_ref().is_some_and(|scripted| scripted.halted())
    }

    fn tidy<T: Transport>(worker: &mut Worker<T, Http1<Self>>) -> usize {
        if let Some(scripted) = &mut worker.proto.mode.scripted {
            scripted.tidy();
        }
        let mut forgotten = 0;
        for index in 0..worker.links.len() {
            worker.links[index].proto.extra.freed.clear();
            forgotten += worker.forget_behind(index);
        }
        forgotten
    }
}

/// The result of one read.
struct Read<'a> {
    bytes: &'a [u8],
    stamp_ns: u64,
    now_ns: u64,
    closing: bool,
}

impl<T: Transport> Worker<T, Http1<Pipelined>> {
    /// Sends as many requests as the connection may have in flight, by one call.
    pub(super) fn fill(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if self.proto.mode.scripted.is_some() {
            return self.fill_by_script(index, now_ns, block_run);
        }
        let mut together = std::mem::take(&mut self.proto.mode.together);
        together.clear();
        let (mut sent, depth) = (0, self.core.plan.protocol.depth());
        // Ends: each turn puts one more request in flight.
        while self.in_flight(index) < depth && block_run.may_send(now_ns) {
            if self.spent(index) || !block_run.take_permit(&mut self.place(index).due_ns) {
                break;
            }
            let number = self.next_number(index);
            together.extend_from_slice(&self.core.plan.exchanges[number].request);
            sent += 1;
            let length = self.core.plan.exchanges[number].request.len() as u32;
            self.put(index, (number as u32, length), now_ns, block_run);
            self.count_on(index);
        }
        if sent > 0 {
            self.send_together(index, &together, sent, now_ns, block_run);
        }
        self.proto.mode.together = together;
    }

    fn in_flight(&self, index: usize) -> usize {
        let link = &self.links[index].proto;
        usize::from(link.place.state == State::Waiting) + link.extra.behind.len()
    }

    /// Records a request of this length that is about to be sent.
    pub(super) fn put(
        &mut self,
        index: usize,
        (exchange, length): (u32, u32),
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let Http1Link { place, extra: queue, out_at, .. } = &mut self.links[index].proto;
        let mut freed_ns = queue.freed.pop_front().unwrap_or(0);
        let begins = place.state != State::Waiting;
        if freed_ns > 0 && (!T::STAGES || begins && place.fresh) {
            block_run.record_turnaround(now_ns, std::mem::take(&mut freed_ns));
        }
        if !begins {
            return queue.behind.push_back(Behind { exchange, length, since_ns: now_ns, freed_ns });
        }
        (place.state, place.exchange, place.arrived_ns) = (State::Waiting, exchange, freed_ns);
        queue.due = length;
        Timed::begin(place);
        if !place.fresh {
            place.since_ns = now_ns; // otherwise its latency began when its connection began to be opened
        }
        *out_at = self.core.plan.exchanges[exchange as usize].request.len();
    }

    /// Sends the bytes of `count` requests that were recorded as in flight.
    pub(super) fn send_together(
        &mut self,
        index: usize,
        bytes: &[u8],
        count: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let queue = &mut self.links[index].proto.extra;
        queue.out.extend_from_slice(bytes);
        queue.unflushed += count;
        match self.push(index) {
            Ok(bytes) => block_run.counts.bytes_out += bytes,
            Err(error) if self.in_flight(index) == count => {
                self.links[index].proto.extra.behind.clear();
                for _ in 1..count {
                    block_run.return_permit();
                }
                return self.unsendable(index, &error, now_ns, block_run);
            }
            // Other requests are in flight on this connection: the next read fails all of them.
            Err(_) => {}
        }
        self.core.ledger.outstanding += count;
        block_run.counts.sent += count as u64;
    }

    /// Sends what is queued on a connection, as far as the socket accepts it; returns how many bytes.
    fn push(&mut self, index: usize) -> Result<u64, Error> {
        let link = &mut self.links[index];
        let token = link.token(index);
        let Http1Link { place, extra: queue, .. } = &mut link.proto;
        let Some(socket) = &link.socket else { return Ok(0) };
        let (mut pushed, mut result) = (0, Ok(()));
        // Ends: each turn sends some of the bytes.
        while pushed < queue.out.len() {
            match self.io.send_now(token, socket, &queue.out[pushed..]) {
                Ok(sent) => {
                    pushed += sent;
                    queue.flushed = (std::mem::take(&mut queue.unflushed), sent as u64);
                    if T::STAGES {
                        let end = queue.first + usize::from(place.state == State::Waiting) + queue.behind.len();
                        queue.departing.push(end - queue.flushed.0..end);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _ = self.io.want_writable(token, socket); // if it fails, the requests time out
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        queue.out.drain(..pushed);
        result.map(|()| pushed as u64)
    }

    /// Reads the responses that have arrived, then sends as many requests.
    fn read_several(
        &mut self,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        for _ in 0..MAX_READS {
            if self.links[index].socket.is_none() {
                return;
            }
            let received = self.take_arrived(index, buffer);
            let stamped = received.as_ref().is_ok_and(|(_, stamp_ns)| *stamp_ns > 0);
            let now_ns = self.core.look_at_clock::<T>(stamped, block_run);
            let idle = self.place(index).state != State::Waiting;
            let (arrived, stamp_ns) = match received {
                Ok((Arrived::Read(0), _)) if idle => return self.closed_idle(index, now_ns, block_run),
                Ok((Arrived::Read(0), _)) => return self.peer_closed(index, now_ns, block_run),
                Ok(received) => received,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return self.go_on_filling(index, now_ns, block_run),
                    ErrorKind::Interrupted => continue,
                    _ if idle => return self.closed_idle(index, now_ns, block_run),
                    _ => return self.lost(index, broken_by(&error), &error.to_string(), now_ns, block_run),
                },
            };
            let bytes = arrived.bytes(buffer);
            let got = bytes.len();
            block_run.counts.bytes_in += got as u64;
            let goes_on = self.take_responses(index, Read { bytes, stamp_ns, now_ns, closing }, block_run);
            self.take_back(arrived);
            if !goes_on {
                return;
            }
            if T::BRINGS_BYTES && closing {
                // The end follows as an event of its own: it fails the requests in flight.
                return if self.in_flight(index) == 0 {
                    self.closed_idle(index, now_ns, block_run)
                };
            }
            if T::BRINGS_BYTES || got < buffer.len() && !closing {
                return self.go_on_filling(index, now_ns, block_run);
            }
        }
        self.core.unread.push_back((self.links[index].token(index), closing));
    }

    /// The server has closed a connection without requests in flight: not an error.
    fn closed_idle(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        self.discard(index);
        self.send_next(index, now_ns, block_run);
    }

    fn go_on_filling(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if matches!(self.place(index).state, State::Idle | State::Waiting) {
            self.fill(index, now_ns, block_run);
        }
    }

    /// Matches bytes with the requests in flight; false: the connection was closed or replaced.
    fn take_responses(&mut self, index: usize, read: Read, block_run: &mut BlockRun<impl LoadModel>) -> bool {
        let Read { mut bytes, stamp_ns, now_ns, closing } = read;
        // Ends: each turn uses some of the bytes, or returns.
        while !bytes.is_empty() {
            let Self { core, links, proto, .. } = self;
            let link = &mut links[index].proto;
            if link.place.state != State::Waiting {
                block_run.count_error(Failure::BadResponse);
                core.judge.sample.note_with(Failure::BadResponse, || without_request(bytes));
                self.discard(index);
                self.send_next(index, now_ns, block_run);
                return false;
            }
            let arrived_ns = core.clock.clocks.arrival_ns(stamp_ns, link.place.since_ns, now_ns);
            Timed::read(&mut link.place, |_| arrived_ns);
            let expect = Expect::from(&core.plan.exchanges[link.place.exchange as usize]);
            let known = &mut proto.known[link.place.exchange as usize];
            let fed = link.reader.feed(bytes, &expect, known, &mut core.judge.sample);
            if let Some(scripted) = &mut proto.mode.scripted {
                scripted.keep(index, &bytes[..fed.used]);
            }
            bytes = &bytes[fed.used..];
            let Some(verdict) = fed.verdict else { return true };
            link.place.arrived_ns = arrived_ns;
            let (verdict, _) = self.unless_cut(index, verdict);
            self.show_script(index, &verdict, block_run);
            if !verdict.keep || self.spent(index) && self.links[index].proto.extra.behind.is_empty() {
                self.end_of_pipe(index, verdict, block_run);
                self.answered(index, verdict, closing, now_ns, block_run);
                return false;
            }
            self.next_in_turn(index, verdict, now_ns, block_run);
        }
        true
    }

    /// The response is complete; the next one in the queue is due.
    fn next_in_turn(&mut self, index: usize, verdict: Verdict, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let status = self.links[index].proto.reader.status();
        self.count(index, &verdict, status, now_ns, block_run);
        let link = &mut self.links[index].proto;
        link.extra.freed.push_back(link.place.arrived_ns);
        (link.place.first_ns, link.place.arrived_ns, link.place.state) = (0, 0, State::Idle);
        link.extra.first += 1;
        if let Some(Behind { exchange, length, since_ns, .. }) = link.extra.behind.pop_front() {
            link.extra.due = length;
            (link.place.state, link.place.exchange, link.place.since_ns) = (State::Waiting, exchange, since_ns);
            link.out_at = self.core.plan.exchanges[exchange as usize].request.len();
        }
    }

    /// The connection ends with this response. The server does not process later requests (RFC 9112, 9.6): they are sent
    /// again on the next connection, and counted once. After a response that can't be read, they have failed.
    fn end_of_pipe(&mut self, index: usize, verdict: Verdict, block_run: &mut BlockRun<impl LoadModel>) {
        if matches!(verdict.wrong, Some(Wrong::Response | Wrong::Length)) {
            if !self.links[index].proto.extra.behind.is_empty() {
                let why = b"after a response whose end is unknown";
                self.core.judge.sample.note(Failure::BadResponse, why);
            }
            return self.fail_queue(index, Failure::BadResponse, block_run);
        }
        for _ in 0..self.forget_behind(index) {
            block_run.counts.sent -= 1;
            block_run.return_permit();
        }
    }

    /// The requests that were sent after this one have failed, too.
    fn fail_queue(&mut self, index: usize, failure: Failure, block_run: &mut BlockRun<impl LoadModel>) {
        for Behind { exchange, .. } in &self.links[index].proto.extra.behind {
            block_run.record_failed_of_kind(self.core.plan.exchanges[*exchange as usize].kind);
        }
        for _ in 0..self.forget_behind(index) {
            block_run.record_failed(failure, 0, 0);
        }
    }

    /// Empties the queue; returns how many requests it had.
    fn forget_behind(&mut self, index: usize) -> usize {
        let queue = &mut self.links[index].proto.extra.behind;
        let count = queue.len();
        queue.clear();
        self.core.ledger.outstanding -= count;
        count
    }
}
