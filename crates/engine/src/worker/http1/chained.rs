//! A connection and its one request in a single chain of operations, if the transport does that ([`Transport::CHAINS`]).
//!
//! The request leaves by itself once its connection is open, so that the right to send it is taken before, and a
//! connection under way is an outstanding request: a block waits for it, and no server sees one that is not counted.

use super::super::Worker;
use super::super::link::State;
use super::{Http1, Mode};
use crate::block_run::{BlockRun, LoadModel};
use crate::io::Transport;

impl<T: Transport, M: Mode> Worker<T, Http1<M>> {
    /// Begins to open a connection, with its request behind it.
    pub(super) fn chain(
        &mut self,
        index: usize,
        socket: T::Socket,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        if !block_run.take_permit(&mut self.place(index).due_ns) {
            return;
        }
        // What could not be sent at the first attempt is what is sent at the next one.
        let again = self.links[index].failures > 0;
        let number = if again { self.place(index).exchange as usize } else { self.core.cycle.next };
        if !again {
            self.count_on(index);
        }
        self.attach(index, socket, State::Connecting);
        let link = &mut self.links[index];
        link.proto.place.since_ns = now_ns; // for the time being
        link.proto.place.exchange = number as u32;
        link.proto.out_at = self.core.plan.exchanges[number].request.len();
        let (token, generation) = (link.token(index), link.generation);
        // The transport has room for two of a link, one of each parity.
        let same = |token: u64| ((token >> 32) as u32 ^ generation) & 1 == 0;
        if self.closers.token(index).is_some_and(same) {
            self.closers.close(&mut self.io, index);
        }
        self.io.chain(token, number);
        self.core.ledger.outstanding += 1;
    }

    /// Its connection is open: the request leaves.
    pub(super) fn left(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let link = &mut self.links[index].proto;
        link.place.state = State::Waiting;
        block_run.counts.sent += 1;
        block_run.counts.bytes_out += link.out_at as u64;
    }

    /// It could not be opened: nothing has left, and the place keeps its right to send.
    #[cold]
    pub(super) fn unchain(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        self.core.ledger.outstanding -= 1;
        block_run.keep_permit(&mut self.place(index).due_ns);
    }
}
