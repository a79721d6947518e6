//! Opening a connection and sending its only request in one chain of operations, over transports with
//! [`Transport::CHAINS`].
//!
//! The kernel sends the request as soon as the connection is open. So the permit to send is taken before, and a connection
//! that is being opened counts as an outstanding request: the block waits for it, and no server receives an uncounted one.

use super::super::Worker;
use super::super::first_byte::FirstByte;
use super::super::link::State;
use super::{Http1, Mode};
use crate::block_run::{BlockRun, LoadModel};
use crate::io::Transport;

impl<T: Transport, M: Mode> Worker<T, Http1<M>> {
    /// Begins to open a connection; its request follows.
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
        // The next attempt sends the request that the first one could not.
        let again = self.links[index].failures > 0;
        let number = if again { self.place(index).exchange as usize } else { self.core.cycle.next };
        if !again {
            self.count_on(index);
        }
        self.attach(index, socket, State::Connecting);
        let link = &mut self.links[index];
        link.proto.place.since_ns = now_ns; // preliminary: the send time follows
        link.proto.place.exchange = number as u32;
        M::FirstByte::begin(&mut link.proto.place);
        link.proto.out_at = self.core.plan.exchanges[number].request.len();
        let (token, generation) = (link.token(index), link.generation);
        // The transport has room for two connections of a link, of odd and even generation.
        let same = |token: u64| ((token >> 32) as u32 ^ generation) & 1 == 0;
        if self.closers.token(index).is_some_and(same) {
            self.closers.close(&mut self.io, index);
        }
        self.io.chain(token, number);
        self.core.ledger.outstanding += 1;
    }

    /// The connection is open, and the request was sent.
    pub(super) fn chain_sent(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let link = &mut self.links[index].proto;
        link.place.state = State::Waiting;
        block_run.counts.sent += 1;
        block_run.counts.bytes_out += link.out_at as u64;
    }

    /// The connection could not be opened: nothing was sent, and the place keeps its permit.
    #[cold]
    pub(super) fn unchain(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        self.core.ledger.outstanding -= 1;
        block_run.keep_permit(&mut self.place(index).due_ns);
    }
}
