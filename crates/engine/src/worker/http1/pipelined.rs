//! Several requests under way on one connection. They leave together, and their answers are matched in order.
//!
//! The request whose answer is due is in the connection's own place, as everywhere; those behind it are in a queue. Each
//! latency runs from its own sending.

use super::super::link::State;
use super::super::{MAX_READS, Worker, broken_by};
use super::scripted::Scripted;
use super::{Http1, Mode};
use crate::block_run::{BlockRun, LoadModel};
use crate::failure::Failure;
use crate::io::Transport;
use crate::plan::SessionPlan;
use crate::response::{Expect, Verdict, Wrong};
use crate::schedule::NEVER_NS;
use crate::sys;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind};

/// Several requests at a time on each connection, prepared or made by a script.
pub(in crate::worker) struct Pipelined {
    /// Requests that leave together.
    pub(super) together: Vec<u8>,
    /// A script makes requests while the load goes on.
    pub(super) scripted: Option<Box<Scripted>>,
}

/// What each connection has besides.
#[derive(Default)]
pub(in crate::worker) struct Queue {
    /// Requests that it may still carry.
    left: u32,
    /// (exchange, since_ns) of requests behind the one that is due.
    behind: VecDeque<(u32, u64)>,
    /// When those answers arrived in whose places no request has left yet.
    pub(super) freed: VecDeque<u64>,
}

impl Mode for Pipelined {
    type Extra = Queue;

    const SENDS_ALL: bool = true;
    const NEEDS_EPOLL: Option<&'static str> = Some("requests are pipelined");
    const TIMES_FIRST_BYTE: bool = true;
    const COALESCES: bool = false;

    fn prepare(plan: &SessionPlan, links: usize) -> Self {
        Self { together: Vec::new(), scripted: Scripted::of(plan, links) }
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

/// What one read brought, and when.
struct Read<'a> {
    bytes: &'a [u8],
    stamp_ns: u64,
    now_ns: u64,
    closing: bool,
}

impl<T: Transport> Worker<T, Http1<Pipelined>> {
    /// Sends as many requests as the connection has room for, in one go.
    pub(super) fn fill(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if self.proto.mode.scripted.is_some() {
            return self.fill_by_script(index, now_ns, block_run);
        }
        let mut together = std::mem::take(&mut self.proto.mode.together);
        together.clear();
        let (mut left, depth) = (0, self.core.plan.protocol.depth());
        while self.on_their_way(index) < depth && block_run.may_send(now_ns) {
            if self.spent(index) || !block_run.take_permit(&mut self.place(index).due_ns) {
                break;
            }
            let number = self.next_number(index);
            together.extend_from_slice(&self.core.plan.exchanges[number].request);
            left += 1;
            if let Some(arrived_ns) = self.links[index].proto.extra.freed.pop_front() {
                block_run.record_turnaround(now_ns, arrived_ns);
            }
            self.put(index, number as u32, now_ns);
            self.count_on(index);
        }
        if left > 0 {
            self.send_together(index, &together, left, now_ns, block_run);
        }
        self.proto.mode.together = together;
    }

    fn on_their_way(&self, index: usize) -> usize {
        let link = &self.links[index].proto;
        usize::from(link.place.state == State::Waiting) + link.extra.behind.len()
    }

    /// Notes one that is about to leave.
    pub(super) fn put(&mut self, index: usize, exchange: u32, now_ns: u64) {
        let link = &mut self.links[index].proto;
        if link.place.state == State::Waiting {
            return link.extra.behind.push_back((exchange, now_ns));
        }
        (link.place.state, link.place.exchange) = (State::Waiting, exchange);
        if !link.place.fresh {
            link.place.since_ns = now_ns; // else it was due when its connection began to be opened
        }
        link.out_at = self.core.plan.exchanges[exchange as usize].request.len();
    }

    pub(super) fn send_together(
        &mut self,
        index: usize,
        bytes: &[u8],
        count: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let link = &self.links[index];
        let Some(socket) = &link.socket else { return };
        match self.io.send(link.token(index), socket, 0, bytes) {
            Ok(sent) => block_run.counts.bytes_out += sent as u64,
            Err(error) if self.on_their_way(index) == count => {
                self.links[index].proto.extra.behind.clear();
                for _ in 1..count {
                    block_run.return_permit();
                }
                return self.unsendable(index, error, now_ns, block_run);
            }
            // The connection is lost under others: what is read next says so for them and for these.
            Err(_) => {}
        }
        self.core.ledger.outstanding += count;
        block_run.counts.sent += count as u64;
    }

    /// Reads what has arrived, answer after answer, then sends as many more.
    fn read_several(
        &mut self,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        for _ in 0..MAX_READS {
            let link = &self.links[index];
            let Some(socket) = &link.socket else { return };
            let received = self.io.receive(socket, buffer).map(|it| (it.bytes.len(), it.stamp_ns));
            let now_ns = sys::now_ns();
            block_run.read_cpu_at_bound(now_ns);
            let (got, stamp_ns) = match received {
                Ok((0, _)) | Err(_) if link.proto.place.state != State::Waiting && !would_block(&received) => {
                    self.discard(index); // closed while nothing was due: no error
                    return self.send_next(index, now_ns, block_run);
                }
                Ok((0, _)) => return self.peer_closed(index, now_ns, block_run),
                Ok(got) => got,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return self.go_on_filling(index, now_ns, block_run),
                    ErrorKind::Interrupted => continue,
                    _ => return self.lost(index, broken_by(&error), &error.to_string(), now_ns, block_run),
                },
            };
            block_run.counts.bytes_in += got as u64;
            let read = Read { bytes: &buffer[..got], stamp_ns, now_ns, closing };
            if !self.take_answers(index, read, block_run) {
                return;
            }
            if got < buffer.len() && !closing {
                return self.go_on_filling(index, now_ns, block_run);
            }
        }
        self.core.unread.push_back((self.links[index].token(index), closing));
    }

    fn go_on_filling(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if matches!(self.place(index).state, State::Idle | State::Waiting) {
            self.fill(index, now_ns, block_run);
        }
    }

    /// Matches bytes with what is due; false: the connection is another one now, or none.
    fn take_answers(&mut self, index: usize, read: Read, block_run: &mut BlockRun<impl LoadModel>) -> bool {
        let Read { mut bytes, stamp_ns, now_ns, closing } = read;
        while !bytes.is_empty() {
            let Self { core, links, proto, .. } = self;
            let link = &mut links[index].proto;
            if link.place.state != State::Waiting {
                block_run.count_error(Failure::BadResponse);
                core.judge.sample.note(Failure::BadResponse, bytes);
                self.discard(index);
                self.send_next(index, now_ns, block_run);
                return false;
            }
            let arrived_ns = core.clock.clocks.arrival_ns(stamp_ns, link.place.since_ns, now_ns);
            if link.place.first_ns == 0 {
                link.place.first_ns = arrived_ns;
            }
            let expect = Expect::from(&core.plan.exchanges[link.place.exchange as usize]);
            let known = &mut proto.known[link.place.exchange as usize];
            let fed = link.reader.feed(bytes, &expect, known, &mut core.judge.sample);
            if let Some(scripted) = &mut proto.mode.scripted {
                scripted.keep(index, &bytes[..fed.used]);
            }
            bytes = &bytes[fed.used..];
            let Some(verdict) = fed.verdict else { return true };
            link.place.arrived_ns = arrived_ns;
            self.show_script(index, &verdict, block_run);
            if !verdict.keep || self.spent(index) && self.links[index].proto.extra.behind.is_empty() {
                self.end_of_pipe(index, verdict, block_run);
                self.answered(index, verdict, closing, now_ns, block_run);
                return false;
            }
            self.answered_in_turn(index, verdict, now_ns, block_run);
        }
        true
    }

    /// The answer that is due is over; the next one is due.
    fn answered_in_turn(
        &mut self,
        index: usize,
        verdict: Verdict,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let status = self.links[index].proto.reader.status();
        self.count(index, &verdict, status, now_ns, block_run);
        let link = &mut self.links[index].proto;
        link.extra.freed.push_back(link.place.arrived_ns);
        (link.place.first_ns, link.place.arrived_ns, link.place.state) = (0, 0, State::Idle);
        if let Some((exchange, since_ns)) = link.extra.behind.pop_front() {
            (link.place.state, link.place.exchange, link.place.since_ns) = (State::Waiting, exchange, since_ns);
            link.out_at = self.core.plan.exchanges[exchange as usize].request.len();
        }
    }

    /// The connection ends with this answer. What was sent behind it is not served (RFC 9112, 9.6): it is sent again on
    /// the next connection, as if it had not left; but behind an answer that can't be read, it has failed.
    fn end_of_pipe(&mut self, index: usize, verdict: Verdict, block_run: &mut BlockRun<impl LoadModel>) {
        if matches!(verdict.wrong, Some(Wrong::Response | Wrong::Length)) {
            if !self.links[index].proto.extra.behind.is_empty() {
                let why = b"behind an answer whose end can't be told";
                self.core.judge.sample.note(Failure::BadResponse, why);
            }
            return self.fail_queue(index, Failure::BadResponse, block_run);
        }
        for _ in 0..self.forget_behind(index) {
            block_run.counts.sent -= 1;
            block_run.return_permit();
        }
    }

    /// What was sent behind a request has failed, too.
    fn fail_queue(&mut self, index: usize, failure: Failure, block_run: &mut BlockRun<impl LoadModel>) {
        for (exchange, _) in &self.links[index].proto.extra.behind {
            block_run.record_failed_of_kind(self.core.plan.exchanges[*exchange as usize].kind);
        }
        for _ in 0..self.forget_behind(index) {
            block_run.record_failed(failure, 0, 0);
        }
    }

    /// Empties the queue behind the request that is due; how many there were.
    fn forget_behind(&mut self, index: usize) -> usize {
        let queue = &mut self.links[index].proto.extra.behind;
        let count = queue.len();
        queue.clear();
        self.core.ledger.outstanding -= count;
        count
    }
}

fn would_block(received: &Result<(usize, u64), Error>) -> bool {
    matches!(received, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
}
