//! The one place where an answer is counted, whatever the protocol: right or wrong, too early, of its kind.

use super::Worker;
use super::protocol::Protocol;
use crate::block_run::{BlockRun, LoadModel, Times};
use crate::error_sample::ErrorSample;
use crate::failure::Failure;
use crate::io::Transport;
use crate::response::Verdict;

/// What answers are judged with, besides what their bytes say.
pub(super) struct Judge {
    pub sample: ErrorSample,
    /// More is asked of answers than their bytes, or kinds of requests are counted apart.
    pub judges_more: bool,
}

impl<T: Transport, C: Protocol> Worker<T, C> {
    /// Counts the answer that a place has waited for; `status`: what its head said.
    #[inline(always)] // a call of its own costs a pipelined request a thirtieth
    pub(super) fn count(
        &mut self,
        index: usize,
        verdict: &Verdict,
        status: u16,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        self.core.ledger.outstanding -= 1;
        let judges_more = self.core.judge.judges_more;
        let place = self.place(index);
        place.fresh = false;
        let waited_ns = now_ns.saturating_sub(place.since_ns);
        match verdict.wrong {
            _ if judges_more => self.judge_more(index, verdict, block_run),
            None => {
                let before = block_run.counts.requests;
                block_run.record_correct(place.due_ns, place.since_ns, place.arrived_ns);
                if C::TIMES_FIRST_BYTE {
                    block_run.record_first_byte(before, place.first_ns.saturating_sub(place.since_ns));
                }
            }
            Some(wrong) => block_run.record_failed(wrong.into(), place.due_ns, place.since_ns),
        }
        if C::COALESCES && (judges_more || verdict.wrong.is_none()) {
            self.core.coalescing.note(waited_ns);
        }
        block_run.count_status(verdict, status);
        self.place(index).due_ns = 0;
    }

    /// Counts right answers to requests that were due and left together, and that arrived together.
    #[inline]
    pub(super) fn count_batch(
        &mut self,
        answers: u64,
        times: Times,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let before = block_run.counts.requests;
        block_run.record_correct_batch(answers, times);
        block_run.record_first_byte(before, times.arrived_ns.saturating_sub(times.sent_ns));
        for _ in 0..answers {
            self.core.coalescing.note(now_ns.saturating_sub(times.sent_ns));
        }
    }

    /// The request that a place had found for itself is over without an answer that can be judged.
    pub(super) fn count_failed(&mut self, index: usize, failure: Failure, block_run: &mut BlockRun<impl LoadModel>) {
        let place = self.place(index);
        block_run.record_failed(failure, place.due_ns, place.since_ns);
        place.due_ns = 0;
        let exchange = place.exchange as usize;
        block_run.record_failed_of_kind(self.core.plan.exchanges[exchange].kind);
    }

    /// Judges the answer that arrived at a place by more than its bytes, and counts it, also as one of its kind.
    fn judge_more(&mut self, index: usize, verdict: &Verdict, block_run: &mut BlockRun<impl LoadModel>) {
        let Self { core, links, proto, .. } = self;
        let place = proto.place(links, index);
        let exchange = &core.plan.exchanges[place.exchange as usize];
        let took_ns = place.arrived_ns.saturating_sub(place.since_ns);
        let failure = match verdict.wrong {
            None if took_ns < exchange.earliest_ns => Some(Failure::TooEarly),
            wrong => wrong.map(Failure::from),
        };
        let Some(failure) = failure else {
            let before = (block_run.counts.requests, block_run.counts.latency_sum_ns);
            block_run.record_correct(place.due_ns, place.since_ns, place.arrived_ns);
            block_run.record_correct_of_kind(exchange.kind, before);
            if C::TIMES_FIRST_BYTE {
                block_run.record_first_byte(before.0, place.first_ns.saturating_sub(place.since_ns));
            }
            return;
        };
        if failure == Failure::TooEarly {
            let [took_ms, earliest_ms] = [took_ns, exchange.earliest_ns].map(|ns| ns as f64 / 1e6);
            let text = || format!("answered after {took_ms:.2} ms, before {earliest_ms:.2} ms");
            core.judge.sample.note_with(failure, text);
        }
        block_run.record_failed(failure, place.due_ns, place.since_ns);
        block_run.record_failed_of_kind(exchange.kind);
    }
}
