//! Counts every response, whatever the protocol: correct or not, too early, and by kind of request.

use super::Worker;
use super::first_byte::FirstByte;
use super::protocol::Protocol;
use crate::block_run::{BlockRun, LoadModel, Times};
use crate::error_sample::ErrorSample;
use crate::failure::Failure;
use crate::io::Transport;
use crate::response::{Verdict, Wrong};

/// What responses are judged by, in addition to their bytes.
pub(super) struct Judge {
    pub sample: ErrorSample,
    /// Some responses have an earliest time, or kinds of requests are counted separately.
    pub judges_more: bool,
}

impl Judge {
    /// The verdict on a response that was complete when only `sent` of its request's bytes were.
    #[cold]
    pub(super) fn cut(&mut self, verdict: Verdict, sent: usize, length: usize) -> Verdict {
        if verdict.wrong.is_none() {
            let share = 100.0 * sent as f64 / length.max(1) as f64;
            let text = || format!("complete after {sent} of the request's {length} bytes were sent ({share:.1} %)");
            self.sample.note_with(Failure::RequestCut, text);
        }
        Verdict { wrong: verdict.wrong.or(Some(Wrong::Request)), keep: false }
    }
}

impl<T: Transport, C: Protocol> Worker<T, C> {
    /// Counts the response to a place's request; `status`: the one in its head.
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
                C::FirstByte::record(place, before, block_run);
            }
            Some(wrong) => block_run.record_failed(wrong.into(), place.due_ns, place.since_ns),
        }
        if judges_more || verdict.wrong.is_none() {
            C::note_latency(&mut self.core.coalescing, waited_ns);
        }
        block_run.count_status(verdict, status);
        self.place(index).due_ns = 0;
    }

    /// Counts correct responses that arrived together, to requests that were due and sent together.
    #[inline]
    pub(super) fn count_batch(
        &mut self,
        responses: u64,
        times: Times,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let before = block_run.counts.requests;
        block_run.record_correct_batch(responses, times);
        block_run.record_first_byte(before, times.arrived_ns.saturating_sub(times.sent_ns));
        for _ in 0..responses {
            C::note_latency(&mut self.core.coalescing, now_ns.saturating_sub(times.sent_ns));
        }
    }

    /// Counts a place's request that has ended without a response that can be judged.
    pub(super) fn count_failed(&mut self, index: usize, failure: Failure, block_run: &mut BlockRun<impl LoadModel>) {
        let place = self.place(index);
        block_run.record_failed(failure, place.due_ns, place.since_ns);
        place.due_ns = 0;
        let exchange = place.exchange as usize;
        block_run.record_failed_of_kind(self.core.plan.exchanges[exchange].kind);
    }

    /// Judges a place's response by more than its bytes, and counts it, also by kind.
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
            C::FirstByte::record(place, before.0, block_run);
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
