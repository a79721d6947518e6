//! Connections whose last answer is complete, and which the server should close first, so that the wait after closing
//! (TIME_WAIT) is the server's and not ours.

use super::LINGER_NS;
use crate::io::{Transport, split_token};

/// Most connections left to the server's closing at a time; they cost descriptors.
pub const MAX_LINGERING: usize = 1024;

/// One of them.
struct Linger<S> {
    socket: S,
    /// Of the connection it was.
    token: u64,
    /// Begin of the wait.
    since_ns: u64,
}

/// By link, its former connection that the server has not closed yet.
pub(super) struct Closers<S> {
    former: Vec<Option<Linger<S>>>,
    count: usize,
}

impl<S> Closers<S> {
    pub(super) fn new(links: usize) -> Self {
        Self { former: (0..links).map(|_| None).collect(), count: 0 }
    }

    /// How many wait for the server.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether there is room for another one.
    pub(super) fn has_room(&self) -> bool {
        self.count < MAX_LINGERING
    }

    /// Leaves a connection to the server's closing; the link's former one is closed now.
    pub(super) fn add(&mut self, io: &mut impl Transport<Socket = S>, token: u64, socket: S, now_ns: u64) {
        let (link, _) = split_token(token);
        self.close(io, link);
        self.former[link] = Some(Linger { socket, token, since_ns: now_ns });
        self.count += 1;
    }

    /// The token of a link's former connection.
    pub(super) fn token(&self, link: usize) -> Option<u64> {
        self.former[link].as_ref().map(|former| former.token)
    }

    /// Closes a link's former connection, if it is still there.
    pub(super) fn close(&mut self, io: &mut impl Transport<Socket = S>, link: usize) {
        if let Some(former) = self.former[link].take() {
            io.release(former.token, former.socket);
            self.count -= 1;
        }
    }

    /// The same, if the server had its time to close it.
    #[inline]
    pub(super) fn close_late(&mut self, io: &mut impl Transport<Socket = S>, link: usize, now_ns: u64) {
        if self.former[link].as_ref().is_some_and(|former| now_ns >= former.since_ns + LINGER_NS) {
            self.close(io, link);
        }
    }

    /// An event of a connection that may be one of these: the server closes it, as it should.
    pub(super) fn event(&mut self, io: &mut impl Transport<Socket = S>, token: u64, closing: bool) {
        let (link, _) = split_token(token);
        if closing && self.token(link) == Some(token) {
            self.close(io, link);
        }
    }
}
