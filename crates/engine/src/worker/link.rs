//! A connection, and a place for one request at a time on it.

use crate::block_run::{BlockRun, LoadModel};

/// What a place is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no connection; the next request opens one.
    Closed,
    /// As closed, until its turn to try again comes.
    Resting,
    /// Its connection is being opened.
    Connecting,
    /// Its connection is open, and nothing is outstanding.
    Idle,
    /// A request is outstanding.
    Waiting,
    /// Its connection was refused too often in this block.
    GivenUp,
    /// The server allows fewer requests at a time on a connection than the session has places for.
    Shut,
}

/// One exchange at a time.
#[derive(Debug)]
pub struct Place {
    /// What it is doing.
    pub state: State,
    /// Its connection was opened, or is to be opened, for the request under way or the next one, and no answer has come.
    pub fresh: bool,
    /// Which exchange is outstanding.
    pub exchange: u32,
    /// When the outstanding request was due: its sending, or the opening of its own connection.
    pub since_ns: u64,
    /// In an open loop, when the request under way or the next one is meant to leave; in a closed one, not 0 as long as
    /// the place has the right to send one and has not sent it; 0: there is none.
    pub due_ns: u64,
    /// When the latest answer arrived, until the next request leaves; 0: there is none in this block.
    pub arrived_ns: u64,
    /// When its answer's first byte was read; 0: not yet, or the session does not record it.
    pub first_ns: u64,
}

impl Place {
    /// Without a connection.
    pub const fn new() -> Self {
        Self { state: State::Closed, fresh: false, exchange: 0, since_ns: 0, due_ns: 0, arrived_ns: 0, first_ns: 0 }
    }

    /// Its next request left: what the previous answer had to wait for that is our time, not the server's.
    #[inline]
    pub fn depart(&mut self, sent_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        self.since_ns = sent_ns;
        if self.arrived_ns > 0 {
            block_run.record_turnaround(sent_ns, self.arrived_ns);
            self.arrived_ns = 0;
        }
    }
}

/// A connection, and what its protocol knows of it.
///
/// With HTTP/1, 128 bytes, so that 10,000 of them stay near the processor; two of its lines each, and not parts of three.
#[derive(Debug)]
#[repr(align(64))]
pub struct Link<S, L> {
    /// There is one while it is being opened, and as long as it is open.
    pub socket: Option<S>,
    /// Counts sockets of this link, so that late events of an earlier one are known as such.
    pub generation: u32,
    /// Successive failed attempts to connect in this block.
    pub failures: u8,
    /// The protocol's own.
    pub proto: L,
}

impl<S, L> Link<S, L> {
    /// Not open.
    pub fn new(proto: L) -> Self {
        Self { socket: None, generation: 0, failures: 0, proto }
    }

    /// What its events are known by; `at`: its number.
    #[inline]
    pub fn token(&self, at: usize) -> u64 {
        u64::from(self.generation) << 32 | at as u64
    }

    /// Takes a new socket in.
    pub fn attach(&mut self, socket: S) {
        self.generation = self.generation.wrapping_add(1);
        self.socket = Some(socket);
    }
}
