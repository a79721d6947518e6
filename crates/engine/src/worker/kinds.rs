//! What most sessions are spared: answers that must not come too early, and requests of several kinds that are told apart.

use super::WorkerSession;
use crate::block_run::{BlockRun, LoadModel};
use crate::failure::Failure;
use crate::io::Poller;
use crate::response::Verdict;

impl<P: Poller> WorkerSession<P> {
    /// Judges the answer that arrived at a connection by more than its bytes, and counts it, also as one of its kind.
    pub(super) fn judge_more(&mut self, index: usize, verdict: &Verdict, block_run: &mut BlockRun<impl LoadModel>) {
        let conn = &self.conns[index];
        let exchange = &self.plan.exchanges[conn.exchange as usize];
        let took_ns = conn.arrived_ns.saturating_sub(conn.since_ns);
        let failure = match verdict.wrong {
            None if took_ns < exchange.earliest_ns => Some(Failure::TooEarly),
            wrong => wrong.map(Failure::from),
        };
        let Some(failure) = failure else {
            let before = (block_run.counts.requests, block_run.counts.latency_sum_ns);
            block_run.right(conn.due_ns, conn.since_ns, conn.arrived_ns);
            block_run.right_of_kind(exchange.kind, before);
            if P::EXTRAS {
                block_run.first_byte(before.0, conn.first_ns.saturating_sub(conn.since_ns));
            }
            return;
        };
        if failure == Failure::TooEarly {
            let [took_ms, earliest_ms] = [took_ns, exchange.earliest_ns].map(|ns| ns as f64 / 1e6);
            self.sample.note_with(failure, || format!("answered after {took_ms:.2} ms, before {earliest_ms:.2} ms"));
        }
        block_run.wrong(failure, conn.due_ns, conn.since_ns);
        block_run.wrong_of_kind(exchange.kind);
    }

    /// What was sent behind a request that is lost has failed, too.
    pub(super) fn fail_kinds_behind(&self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        for (exchange, _) in self.behind.get(index).into_iter().flatten() {
            block_run.wrong_of_kind(self.plan.exchanges[*exchange as usize].kind);
        }
    }
}
