//! What becomes of what arrives: read, matched with what was asked for, judged; then the connection's next request leaves.

use super::{FIRST_READ, MOST_READS, WorkerSession, broken_by};
use crate::block_run::{BlockRun, LoadModel};
use crate::conn::{State, place};
use crate::failure::Failure;
use crate::io::{Poller, Received};
use crate::response::{Expect, Verdict, Wrong};
use crate::sys;
use std::io::ErrorKind;

impl<P: Poller> WorkerSession<P> {
    /// Reads what has arrived for the outstanding request: once, unless there is or must be more.
    #[inline]
    pub(super) fn read(
        &mut self,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        for _ in 0..MOST_READS {
            let conn = &mut self.conns[index];
            if P::LENGTH_ONLY && conn.length_only {
                return self.count_body(index, closing, block_run);
            }
            let Some(socket) = &conn.socket else { return };
            // A body that may be counted is not copied on the way to its head.
            let room = if P::LENGTH_ONLY && !conn.whole { FIRST_READ.min(buffer.len()) } else { buffer.len() };
            let received = self.poller.receive(socket, &mut buffer[..room]);
            // What a wait brought with the kernel's stamp had arrived when the wait was over: no other time is asked for.
            if !P::BRINGS_BYTES || received.as_ref().map_or(0, |it| it.stamp_ns) == 0 {
                self.now_ns = sys::now_ns();
                block_run.cross(self.now_ns);
            }
            let now_ns = self.now_ns;
            let (bytes, stamp_ns) = match received {
                Ok(Received { bytes: [], .. }) => return self.peer_closed(index, now_ns, block_run),
                Ok(Received { bytes, stamp_ns }) => (bytes, stamp_ns),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted => continue,
                    _ => return self.lost(index, broken_by(&error), &error.to_string(), now_ns, block_run),
                },
            };
            let got = bytes.len();
            block_run.counts.bytes_in += got as u64;
            if P::EXTRAS && conn.first_ns == 0 {
                conn.first_ns = self.clocks.arrival_ns(stamp_ns, conn.since_ns, now_ns);
            }
            let expect = Expect::from(&self.plan.exchanges[conn.exchange as usize]);
            let known = &mut self.known[conn.exchange as usize];
            let fed = conn.reader.feed(bytes, &expect, known, &mut self.sample);
            if let Some(mut verdict) = fed.verdict {
                if fed.used < got {
                    verdict = surplus(verdict);
                    self.sample.note(verdict.wrong.unwrap_or(Wrong::Response).into(), bytes);
                }
                conn.arrived_ns = self.clocks.arrival_ns(stamp_ns, conn.since_ns, now_ns);
                return self.answered(index, verdict, closing, now_ns, block_run);
            }
            if P::LENGTH_ONLY && self.may_count_only(index) {
                return self.count_body(index, closing, block_run);
            }
            if P::BRINGS_BYTES || got < room && !closing {
                return;
            }
        }
        self.unread.push_back((self.conns[index].token(index), closing));
    }

    /// Goes on with connections that would not come to an end.
    pub(super) fn read_on(&mut self, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        for _ in 0..self.unread.len() {
            let Some((token, closing)) = self.unread.pop_front() else {
                return;
            };
            if P::MULTIPLEXES {
                self.poller.turn_to(token);
                self.read_link(token, closing, block_run, buffer);
                continue;
            }
            let (index, generation) = place(token);
            let conn = &self.conns[index];
            if conn.generation == generation && conn.state == State::Waiting {
                self.poller.turn_to(token);
                self.read_some(index, closing, block_run, buffer);
            }
        }
    }

    pub(super) fn peer_closed(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let conn = &mut self.conns[index];
        let expect = Expect::from(&self.plan.exchanges[conn.exchange as usize]);
        match conn.reader.end(&expect) {
            Some(verdict) => {
                if P::EXTRAS {
                    self.tell_script(index, &verdict, block_run);
                }
                let conn = &mut self.conns[index];
                if let Some(wrong) = verdict.wrong {
                    let why = b"the connection's end left a body of another length than expected";
                    self.sample.note(wrong.into(), why);
                }
                conn.arrived_ns = now_ns; // the kernel stamps no end
                self.answered(index, verdict, true, now_ns, block_run);
            }
            None => {
                let why = "the server closed the connection before its answer was complete";
                self.lost(index, Failure::ClosedEarly, why, now_ns, block_run);
            }
        }
    }

    /// The outstanding request is over, right or wrong; the next one leaves.
    #[inline]
    pub(super) fn answered(
        &mut self,
        index: usize,
        verdict: Verdict,
        peer_closed: bool,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let spent = self.spent(index);
        let conn = &mut self.conns[index];
        self.outstanding -= 1;
        conn.fresh = false;
        if P::LENGTH_ONLY {
            (conn.length_only, conn.whole) = (false, false);
        }
        match verdict.wrong {
            _ if self.judges_more => {
                self.judge_more(index, &verdict, block_run);
                let conn = &self.conns[index];
                self.coalescing.note(now_ns.saturating_sub(conn.since_ns));
            }
            None => {
                let before = block_run.counts.requests;
                block_run.right(conn.due_ns, conn.since_ns, conn.arrived_ns);
                if P::EXTRAS {
                    block_run.first_byte(before, conn.first_ns.saturating_sub(conn.since_ns));
                }
                self.coalescing.note(now_ns.saturating_sub(conn.since_ns));
            }
            Some(wrong) => block_run.wrong(wrong.into(), conn.due_ns, conn.since_ns),
        }
        let conn = &mut self.conns[index];
        block_run.answer(&verdict, &conn.reader);
        conn.due_ns = 0;
        let whole = conn.out_at == self.plan.exchanges[conn.exchange as usize].request.len();
        if verdict.keep && whole && self.plan.keepalive && !peer_closed && !spent {
            conn.state = State::Idle;
        } else {
            let sound = !matches!(verdict.wrong, Some(Wrong::Response | Wrong::Length));
            if sound && whole && !peer_closed {
                self.linger(index, now_ns);
            } else {
                self.discard(index);
            }
        }
        self.send_next(index, now_ns, block_run);
    }

    /// The outstanding request failed with its connection.
    #[cold]
    pub(super) fn lost(
        &mut self,
        index: usize,
        failure: Failure,
        why: &str,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        self.outstanding -= 1;
        self.failed(index, failure, block_run);
        self.fail_kinds_behind(index, block_run);
        for _ in 0..self.forget_behind(index) {
            block_run.wrong(failure, 0, 0);
        }
        self.sample.note(failure, why.as_bytes());
        let fresh = self.conns[index].fresh;
        self.discard(index);
        if fresh {
            self.rest(index, now_ns); // a server that takes and drops connections is not to be hammered
        } else {
            self.send_next(index, now_ns, block_run);
        }
    }

    /// The request that a place had found for itself is over, and there is no right answer.
    pub(super) fn failed(&mut self, index: usize, failure: Failure, block_run: &mut BlockRun<impl LoadModel>) {
        let conn = &mut self.conns[index];
        block_run.wrong(failure, conn.due_ns, conn.since_ns);
        conn.due_ns = 0;
        let kind = self.plan.exchanges[conn.exchange as usize].kind;
        block_run.wrong_of_kind(kind);
    }
}

/// Bytes behind an answer to the only request: the framing can't be trusted, nor what comes next.
fn surplus(verdict: Verdict) -> Verdict {
    match verdict.wrong {
        Some(wrong) if !verdict.keep => Verdict { wrong: Some(wrong), keep: false },
        _ => Verdict { wrong: Some(Wrong::Response), keep: false },
    }
}
