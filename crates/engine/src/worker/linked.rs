//! A connection and its one request in a single chain of operations, where the back end does that ([`Poller::LINKS`]).
//!
//! The request leaves by itself once its connection is open, so that the right to send it is taken before, and a
//! connection under way is an outstanding request: a block waits for it, and no server sees one that is not counted.

use super::WorkerSession;
use crate::block_run::{BlockRun, LoadModel};
use crate::conn::State;
use crate::io::Poller;

impl<P: Poller> WorkerSession<P> {
    /// Begins to open a connection, with its request behind it.
    pub(super) fn chain(
        &mut self,
        index: usize,
        link: P::Socket,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        if !block_run.take(&mut self.conns[index].due_ns) {
            return;
        }
        // What could not be sent at the first attempt is what is sent at the next one.
        let again = self.conns[index].failures > 0;
        let number = if again { self.conns[index].exchange as usize } else { self.next_exchange };
        if !again {
            self.count_on(index);
        }
        let conn = &mut self.conns[index];
        conn.attach(link, State::Connecting);
        conn.since_ns = now_ns; // for the time being
        (conn.exchange, conn.out_at) = (number as u32, self.plan.exchanges[number].request.len());
        let (token, generation) = (conn.token(index), conn.generation);
        // The back end has room for two of a place, one of each parity.
        let same = |token: u64| ((token >> 32) as u32 ^ generation) & 1 == 0;
        if self.lingering[index].as_ref().is_some_and(|former| same(former.token)) {
            self.forget(index);
        }
        self.poller.chain(token, number);
        self.outstanding += 1;
    }

    /// Its connection is open: the request leaves.
    pub(super) fn left(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let conn = &mut self.conns[index];
        (conn.failures, conn.state) = (0, State::Waiting);
        block_run.counts.sent += 1;
        block_run.counts.bytes_out += conn.out_at as u64;
    }

    /// It could not be opened: nothing has left, and the place keeps its right to send.
    #[cold]
    pub(super) fn unchain(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        self.outstanding -= 1;
        block_run.keep(&mut self.conns[index].due_ns);
    }
}
