//! One connection's state; what happens to it is `worker`'s.

use crate::block_run::{BlockRun, LoadModel};
pub use crate::io::place;
use crate::response::Reader;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none; the next request opens one.
    Closed,
    /// As closed, until its turn to try again comes.
    Resting,
    /// The handshake is under way.
    Connecting,
    /// Open, nothing outstanding.
    Idle,
    /// A request is outstanding.
    Waiting,
    /// Refused too often in this block.
    GivenUp,
    /// Over HTTP/2: the server does not allow so many streams on its connection.
    Shut,
}

/// 128 bytes, so that 10,000 of them stay near the processor; two of its lines each, and not parts of three.
#[derive(Debug)]
#[repr(align(64))]
pub struct Conn<S> {
    /// Open in Connecting, Idle and Waiting.
    pub socket: Option<S>,
    /// What it is doing.
    pub state: State,
    /// Opened, or to be opened, for the request under way or the next one, and not proven by an answer yet.
    pub fresh: bool,
    /// Successive failed attempts to connect in this block.
    pub failures: u8,
    /// Counts sockets in this place, so that late events of an earlier one are known as such.
    pub generation: u32,
    /// Which exchange is outstanding.
    pub exchange: u32,
    /// How much of its request was sent.
    pub out_at: usize,
    /// When the outstanding request was due: its sending, or the opening of its own connection.
    pub since_ns: u64,
    /// In an open loop, when the request under way or the next one is meant to leave; in a closed one, not 0 as long as
    /// the place has the right to send one and has not sent it; 0: there is none.
    pub due_ns: u64,
    /// When the latest answer arrived, until the next request leaves; 0: there is none in this block.
    pub arrived_ns: u64,
    /// When its answer's first byte was read; 0: not yet, or nobody asks.
    pub first_ns: u64,
    /// Requests that it may still carry; 0: no limit. The last one closes it.
    pub left: u32,
    /// What is left of its answer's body is counted, not read.
    pub length_only: bool,
    /// All of its answer's body is read, though it need not be.
    pub whole: bool,
    /// Its answer so far.
    pub reader: Reader,
}

impl<S> Conn<S> {
    /// A place without a connection.
    pub fn new() -> Self {
        Self {
            socket: None,
            state: State::Closed,
            fresh: false,
            failures: 0,
            generation: 0,
            exchange: 0,
            out_at: 0,
            since_ns: 0,
            due_ns: 0,
            arrived_ns: 0,
            first_ns: 0,
            left: 0,
            length_only: false,
            whole: false,
            reader: Reader::default(),
        }
    }

    /// Its next request left: what the previous answer had to wait for that is our time, not the server's.
    #[inline]
    pub fn depart(&mut self, sent_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        self.since_ns = sent_ns;
        if self.arrived_ns > 0 {
            block_run.turned(sent_ns, self.arrived_ns);
            self.arrived_ns = 0;
        }
    }

    /// What its events are known by.
    pub fn token(&self, index: usize) -> u64 {
        u64::from(self.generation) << 32 | index as u64
    }

    /// Takes a new socket in.
    pub fn attach(&mut self, socket: S, state: State) {
        self.generation = self.generation.wrapping_add(1);
        self.socket = Some(socket);
        self.state = state;
        self.fresh = true;
        self.reader.reset();
        (self.length_only, self.whole) = (false, false);
    }

    /// Gives the socket out, to be closed now or later.
    pub fn detach(&mut self) -> Option<S> {
        (self.state, self.fresh) = (State::Closed, false);
        self.reader.reset();
        (self.length_only, self.whole) = (false, false);
        self.socket.take()
    }
}

/// A connection whose answer is complete and which the server should close first, so that the wait
/// after closing (TIME_WAIT) is the server's and not ours.
#[derive(Debug)]
pub struct Linger<S> {
    /// What is to be closed.
    pub socket: S,
    /// Of the connection it was.
    pub token: u64,
    /// Begin of the wait.
    pub since_ns: u64,
}
