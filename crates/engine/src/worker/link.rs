//! A connection as the worker sees it (a link), and the places on it, each for one request at a time.

use crate::block_run::{BlockRun, LoadModel};

/// What a place is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its link has no connection; the next request opens one.
    Closed,
    /// As closed, until the pause before the next attempt is over.
    Resting,
    /// Its connection is being opened.
    Connecting,
    /// The connection is open, and the place has no outstanding request.
    Idle,
    /// A request is outstanding.
    Waiting,
    /// The connection could not be opened too often in this block.
    GivenUp,
    /// The server allows fewer concurrent requests on a connection than it has places.
    Shut,
}

/// Holds one request and its response at a time.
#[derive(Debug)]
pub struct Place {
    /// What the place is doing.
    pub state: State,
    /// The connection was opened, or is being opened, for the current or next request, and has brought no response yet.
    pub fresh: bool,
    /// The number of the outstanding exchange.
    pub exchange: u32,
    /// When the latency of the outstanding request begins: when it was sent, or when opening its connection began.
    pub since_ns: u64,
    /// In an open loop, when the current or next request is meant to be sent. In a closed loop, not 0 while the place holds
    /// a permit to send that it has not used. 0: none.
    pub due_ns: u64,
    /// When the latest response arrived, until the next request is sent; 0: none in this block.
    pub arrived_ns: u64,
    /// When the first byte of the response arrived; 0: not yet, or the protocol does not time it.
    pub first_ns: u64,
}

impl Place {
    /// A place without a connection.
    pub const fn new() -> Self {
        Self { state: State::Closed, fresh: false, exchange: 0, since_ns: 0, due_ns: 0, arrived_ns: 0, first_ns: 0 }
    }

    /// The next request was sent. The time since the previous response is the generator's, not the server's.
    #[inline]
    pub fn depart(&mut self, sent_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        self.since_ns = sent_ns;
        if self.arrived_ns > 0 {
            block_run.record_turnaround(sent_ns, self.arrived_ns);
            self.arrived_ns = 0;
        }
    }
}

/// A connection, and its protocol's state of it.
///
/// Over HTTP/1 it has 128 bytes and begins at a cache line, so that 10,000 of them take up few caches: two lines each.
#[derive(Debug)]
#[repr(align(64))]
pub struct Link<S, L> {
    /// Present while the connection is being opened and while it is open.
    pub socket: Option<S>,
    /// Number of sockets that this link has had, so that late events of an earlier socket are recognised.
    pub generation: u32,
    /// Consecutive failed attempts to connect in this block.
    pub failures: u8,
    /// The protocol's state.
    pub proto: L,
}

impl<S, L> Link<S, L> {
    /// A link without a connection.
    pub fn new(proto: L) -> Self {
        Self { socket: None, generation: 0, failures: 0, proto }
    }

    /// The token of its events; `at`: the link's number.
    #[inline]
    pub fn token(&self, at: usize) -> u64 {
        u64::from(self.generation) << 32 | at as u64
    }

    /// Begins to use a new socket.
    pub fn attach(&mut self, socket: S) {
        self.generation = self.generation.wrapping_add(1);
        self.socket = Some(socket);
    }
}
