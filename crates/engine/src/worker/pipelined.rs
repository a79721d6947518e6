//! What most sessions are spared: which request is a connection's last, and several on their way on one connection. They leave together, and their answers are matched in order.
//!
//! Only sessions over a back end with [`Poller::EXTRAS`] come here. The request whose answer is due is in the connection's
//! own fields, as everywhere; those behind it are in a queue. Each latency runs from its own leaving.

use super::{MOST_READS, WorkerSession};
use crate::block_run::{BlockRun, LoadModel};
use crate::conn::State;
use crate::failure::Failure;
use crate::io::Poller;
use crate::response::{Expect, Verdict, Wrong};
use crate::sys;
use std::io::{Error, ErrorKind};

/// What one read brought, and when.
struct Read<'a> {
    bytes: &'a [u8],
    stamp_ns: u64,
    now_ns: u64,
    closing: bool,
}

impl<P: Poller> WorkerSession<P> {
    /// Which request is next, in the form for a connection's last one where it is that.
    #[inline]
    pub(super) fn next_number(&self, index: usize) -> usize {
        let last = P::EXTRAS && self.conns[index].left == 1;
        self.next_exchange + if last { self.cycle } else { 0 }
    }

    /// Whether it has carried as many as it may.
    #[inline]
    pub(super) fn spent(&self, index: usize) -> bool {
        P::EXTRAS && self.plan.requests_per_connection > 0 && self.conns[index].left == 0
    }

    /// It has left.
    #[inline]
    pub(super) fn count_on(&mut self, index: usize) {
        self.next_exchange = if self.next_exchange == self.last_exchange {
            0
        } else if self.plan.sequence.is_empty() {
            self.next_exchange + 1
        } else {
            self.next_in_sequence()
        };
        if P::EXTRAS {
            let conn = &mut self.conns[index];
            conn.left = conn.left.saturating_sub(1);
            conn.first_ns = 0;
        }
    }

    /// Of requests that were drawn before.
    #[inline]
    fn next_in_sequence(&mut self) -> usize {
        self.at_in_sequence += 1;
        if self.at_in_sequence == self.plan.sequence.len() {
            self.at_in_sequence = 0;
        }
        self.plan.sequence[self.at_in_sequence] as usize
    }

    #[inline]
    pub(super) fn read_some(
        &mut self,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        if P::EXTRAS && self.plan.pipelined() {
            self.read_several(index, closing, block_run, buffer);
        } else {
            self.read(index, closing, block_run, buffer);
        }
    }

    /// Sends as many requests as the connection has room for, in one go.
    pub(super) fn fill(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if self.scripted.is_some() {
            return self.fill_by_script(index, now_ns, block_run);
        }
        let mut together = std::mem::take(&mut self.together);
        together.clear();
        let mut left = 0;
        while self.on_their_way(index) < self.plan.pipelining as usize && block_run.open(now_ns) {
            if self.spent(index) || !block_run.take(&mut self.conns[index].due_ns) {
                break;
            }
            let number = self.next_number(index);
            together.extend_from_slice(&self.plan.exchanges[number].request);
            left += 1;
            if let Some(arrived_ns) = self.freed[index].pop_front() {
                block_run.turned(now_ns, arrived_ns);
            }
            self.put(index, number as u32, now_ns);
            self.count_on(index);
        }
        if left > 0 {
            self.send_together(index, &together, left, now_ns, block_run);
        }
        self.together = together;
    }

    fn on_their_way(&self, index: usize) -> usize {
        usize::from(self.conns[index].state == State::Waiting) + self.behind[index].len()
    }

    /// Notes one that is about to leave.
    pub(super) fn put(&mut self, index: usize, exchange: u32, now_ns: u64) {
        let conn = &mut self.conns[index];
        if conn.state == State::Waiting {
            return self.behind[index].push_back((exchange, now_ns));
        }
        (conn.state, conn.exchange) = (State::Waiting, exchange);
        if !conn.fresh {
            conn.since_ns = now_ns; // else it was due when its connection began to be opened
        }
        conn.out_at = self.plan.exchanges[exchange as usize].request.len();
    }

    pub(super) fn send_together(
        &mut self,
        index: usize,
        bytes: &[u8],
        count: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let conn = &mut self.conns[index];
        let Some(socket) = &conn.socket else { return };
        match self.poller.send(conn.token(index), socket, 0, bytes) {
            Ok(sent) => block_run.counts.bytes_out += sent as u64,
            Err(error) if self.on_their_way(index) == count => {
                self.behind[index].clear();
                for _ in 1..count {
                    block_run.give_back();
                }
                return self.unsendable(index, error, now_ns, block_run);
            }
            // The connection is lost under others: they and these will be told so by what is read next.
            Err(_) => {}
        }
        self.outstanding += count;
        block_run.counts.sent += count as u64;
    }

    /// Reads what has arrived, answer after answer, then sends as many more.
    pub(super) fn read_several(
        &mut self,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        for _ in 0..MOST_READS {
            let Some(socket) = &self.conns[index].socket else { return };
            let received = self.poller.receive(socket, buffer).map(|it| (it.bytes.len(), it.stamp_ns));
            let now_ns = sys::now_ns();
            block_run.cross(now_ns);
            let (got, stamp_ns) = match received {
                Ok((0, _)) | Err(_) if self.conns[index].state != State::Waiting && !would_block(&received) => {
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
        self.unread.push_back((self.conns[index].token(index), closing));
    }

    fn go_on_filling(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if matches!(self.conns[index].state, State::Idle | State::Waiting) {
            self.fill(index, now_ns, block_run);
        }
    }

    /// Matches bytes with what is due; false: the connection is another one now, or none.
    fn take_answers(&mut self, index: usize, read: Read, block_run: &mut BlockRun<impl LoadModel>) -> bool {
        let Read { mut bytes, stamp_ns, now_ns, closing } = read;
        while !bytes.is_empty() {
            let conn = &mut self.conns[index];
            if conn.state != State::Waiting {
                block_run.mishap(Failure::BadResponse);
                self.sample.note(Failure::BadResponse, bytes);
                self.discard(index);
                self.send_next(index, now_ns, block_run);
                return false;
            }
            let arrived_ns = self.clocks.arrival_ns(stamp_ns, conn.since_ns, now_ns);
            if conn.first_ns == 0 {
                conn.first_ns = arrived_ns;
            }
            let expect = Expect::from(&self.plan.exchanges[conn.exchange as usize]);
            let known = &mut self.known[conn.exchange as usize];
            let fed = conn.reader.feed(bytes, &expect, known, &mut self.sample);
            self.keep_for_script(index, &bytes[..fed.used]);
            bytes = &bytes[fed.used..];
            let Some(verdict) = fed.verdict else { return true };
            self.tell_script(index, &verdict, block_run);
            if !verdict.keep || self.spent(index) && self.behind[index].is_empty() {
                self.conns[index].arrived_ns = arrived_ns;
                self.end_of_pipe(index, verdict, block_run);
                self.answered(index, verdict, closing, now_ns, block_run);
                return false;
            }
            self.answered_in_turn(index, verdict, arrived_ns, block_run);
        }
        true
    }

    fn answered_in_turn(
        &mut self,
        index: usize,
        verdict: Verdict,
        arrived_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        self.outstanding -= 1;
        let conn = &mut self.conns[index];
        conn.fresh = false;
        match verdict.wrong {
            _ if self.judges_more => {
                conn.arrived_ns = arrived_ns;
                self.judge_more(index, &verdict, block_run);
            }
            None => {
                let before = block_run.counts.requests;
                block_run.right(0, conn.since_ns, arrived_ns);
                block_run.first_byte(before, conn.first_ns.saturating_sub(conn.since_ns));
            }
            Some(wrong) => block_run.wrong(wrong.into(), 0, conn.since_ns),
        }
        let conn = &mut self.conns[index];
        block_run.answer(&verdict, &conn.reader);
        (conn.first_ns, conn.arrived_ns, conn.state) = (0, 0, State::Idle);
        self.freed[index].push_back(arrived_ns);
        if let Some((exchange, since_ns)) = self.behind[index].pop_front() {
            (conn.state, conn.exchange, conn.since_ns) = (State::Waiting, exchange, since_ns);
            conn.out_at = self.plan.exchanges[exchange as usize].request.len();
        }
    }

    /// The connection ends with this answer. What was sent behind it is not served (RFC 9112, 9.6): it is sent again on
    /// the next connection, as if it had not left; but behind an answer that can't be read, it has failed.
    fn end_of_pipe(&mut self, index: usize, verdict: Verdict, block_run: &mut BlockRun<impl LoadModel>) {
        let unread = matches!(verdict.wrong, Some(Wrong::Response | Wrong::Length));
        if unread {
            self.fail_kinds_behind(index, block_run);
        }
        for _ in 0..self.forget_behind(index) {
            if unread {
                block_run.wrong(Failure::BadResponse, 0, 0);
                self.sample.note(Failure::BadResponse, b"behind an answer whose end can't be told");
            } else {
                block_run.counts.sent -= 1;
                block_run.give_back();
            }
        }
    }

    /// Empties the queue behind the request that is due; how many there were.
    pub(super) fn forget_behind(&mut self, index: usize) -> usize {
        let Some(queue) = self.behind.get_mut(index) else { return 0 };
        let count = queue.len();
        queue.clear();
        self.outstanding -= count;
        count
    }
}

fn would_block(received: &Result<(usize, u64), Error>) -> bool {
    matches!(received, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
}

/// What an error of reading says.
pub(super) fn broken_by(error: &Error) -> Failure {
    if error.kind() == ErrorKind::InvalidData { Failure::Tls } else { Failure::Reset }
}
