//! Connections whose last response is complete. The server should close them first, so that it has the wait after closing
//! (TIME_WAIT), not the engine.

use super::LINGER_NS;
use crate::io::{Transport, split_token};

/// Maximum number of connections that wait for the server to close them; each costs a descriptor.
pub const MAX_LINGERING: usize = 1024;

/// A connection that waits for the server to close it.
struct Linger<S> {
    socket: S,
    /// The token that its link had for it.
    token: u64,
    /// When the wait began.
    since_ns: u64,
}

/// By link, its former connection, if the server has not closed it yet.
pub(super) struct Closers<S> {
    former: Vec<Option<Linger<S>>>,
    count: usize,
}

impl<S> Closers<S> {
    pub(super) fn new(links: usize) -> Self {
        Self { former: (0..links).map(|_| None).collect(), count: 0 }
    }

    /// How many connections wait.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether there is room for another one.
    pub(super) fn has_room(&self) -> bool {
        self.count < MAX_LINGERING
    }

    /// Waits for the server to close a connection; an earlier one of the same link is closed now.
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

    /// Closes a link's former connection, if there is one.
    pub(super) fn close(&mut self, io: &mut impl Transport<Socket = S>, link: usize) {
        if let Some(former) = self.former[link].take() {
            io.release(former.token, former.socket);
            self.count -= 1;
        }
    }

    /// The same, if the server has had enough time to close it.
    #[inline]
    pub(super) fn close_late(&mut self, io: &mut impl Transport<Socket = S>, link: usize, now_ns: u64) {
        if self.former[link].as_ref().is_some_and(|former| now_ns >= former.since_ns + LINGER_NS) {
            self.close(io, link);
        }
    }

    /// Handles an event whose connection may be one of these: the server has closed it.
    pub(super) fn event(&mut self, io: &mut impl Transport<Socket = S>, token: u64, closing: bool) {
        let (link, _) = split_token(token);
        if closing && self.token(link) == Some(token) {
            self.close(io, link);
        }
    }
}
