//! What a protocol is to the worker's loop. Each owns its state, and no other code asks which one it is.
//!
//! A session's share has *links*, one for each connection, and *places*, one for each request that may be under way at a
//! time. The loop, the load models and the counting know places; a protocol says how requests and answers of its places go
//! over their links.

use super::Worker;
use super::link::{Link, Place};
use crate::block_run::{BlockRun, LoadModel};
use crate::coalescing::{CoalescingRule, MIN_OUTSTANDING};
use crate::error::EngineError;
use crate::io::{Coalescing, Event, Transport};
use crate::plan::SessionPlan;
use crate::schedule::NEVER_NS;
use crate::tls::TlsPlan;
use std::io::Error;
use std::time::Duration;

/// What a protocol will ask of its transport.
pub(super) struct Wants<'a> {
    /// What is sent as it is, by number.
    pub requests: Vec<&'a [u8]>,
    /// How much a read may bring besides a head.
    pub body_bytes: usize,
    /// How connections are encrypted.
    pub tls: Option<TlsPlan>,
}

impl<'a> Wants<'a> {
    /// Requests as the plan has them, and one answer a read.
    pub(super) fn of(plan: &'a SessionPlan) -> Self {
        let requests = plan.exchanges.iter().map(|exchange| exchange.request.as_slice()).collect();
        let body_bytes = plan.exchanges.iter().map(|exchange| exchange.body.len()).max().unwrap_or(0);
        Self { requests, body_bytes, tls: plan.tls.clone() }
    }
}

/// A protocol, with what a session's share has once, whatever the number of its connections.
pub(super) trait Protocol: Sized {
    /// What it knows of each connection.
    type Link;

    /// Each connection has one place.
    const ONE: bool;
    /// What it sends is taken whole, always.
    const SENDS_ALL: bool = false;
    /// Why it runs over epoll whatever was chosen for the engine, if it does.
    const NEEDS_EPOLL: Option<&'static str> = None;
    /// The time to an answer's first byte may be asked for.
    const TIMES_FIRST_BYTE: bool = false;
    /// Answers may wait for each other, so that several share a wake-up.
    const COALESCES: bool = true;
    /// It sends over connections that the transport opens and closes by itself; see [`Transport::chain`].
    const MAY_CHAIN: bool = false;
    /// It needs [`crate::io::discard`].
    const DISCARDS: bool = false;

    /// For a share with this many connections.
    ///
    /// # Errors
    /// [`EngineError::Plan`]: a request can't be sent so.
    fn prepare(plan: &SessionPlan, links: usize) -> Result<Self, EngineError>;

    /// A connection's state before it is opened.
    fn link(&self) -> Self::Link;

    /// Places of each connection.
    fn places_per_link(&self) -> usize {
        1
    }

    /// What it needs of its transport.
    fn wants(plan: &SessionPlan) -> Wants<'_> {
        Wants::of(plan)
    }

    /// Whether answers may wait to be read while the kernel's stamps say when they came: not where they would fill the
    /// socket and stop the server, nor where a read's last stamp would be taken for all answers in it.
    fn may_read_late(plan: &SessionPlan) -> bool;

    /// A place by its number.
    fn place<'a, S>(&'a mut self, links: &'a mut [Link<S, Self::Link>], index: usize) -> &'a mut Place;

    /// The order in which an open loop begins to use places.
    fn free_places(&self, links: usize) -> impl Iterator<Item = usize> + use<Self>;

    /// Has memory fetched for a connection that has its turn soon: with many of them each is far away.
    fn prefetch<S>(&self, links: &[Link<S, Self::Link>], token: u64);

    /// How to wait for the next answers, with this many outstanding.
    #[inline]
    fn wait_for(&mut self, rule: &CoalescingRule, outstanding: usize, _links: usize) -> Option<Coalescing> {
        rule.wait_for(outstanding, MIN_OUTSTANDING, false)
    }

    /// Opens all connections of a new share, each within the limit.
    ///
    /// # Errors
    /// What the first that can't be opened met, and its number.
    fn open<T: Transport>(worker: &mut Worker<T, Self>, limit: Duration) -> Result<(), (usize, Error)>;

    /// Whether a place may be used. If not, it is left until the server allows it.
    #[inline]
    fn may_use<T: Transport>(_: &mut Worker<T, Self>, _: usize, _: &mut BlockRun<impl LoadModel>) -> bool {
        true
    }

    /// Sends the next request of a place whose connection is open.
    fn send<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    );

    /// Opens the connection of a place that wants to send.
    fn connect<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    );

    /// Before each wait: sends what is still to be sent, and begins what is due.
    #[inline]
    fn before_wait<T: Transport>(_: &mut Worker<T, Self>, _: u64, _: &mut BlockRun<impl LoadModel>) {}

    /// When [`Protocol::before_wait`] has something to begin.
    #[inline]
    fn due_ns(&self) -> u64 {
        NEVER_NS
    }

    /// Whether no more requests are to leave in this block.
    #[inline]
    fn halted(&self) -> bool {
        false
    }

    /// A request whose sending was queued left.
    fn departed<T: Transport>(
        worker: &mut Worker<T, Self>,
        token: u64,
        sent_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    );

    /// An event of a connection.
    fn handle<T: Transport>(
        worker: &mut Worker<T, Self>,
        event: Event,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    );

    /// Goes on reading from a connection that would not come to an end.
    fn read_on<T: Transport>(
        worker: &mut Worker<T, Self>,
        token: u64,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    );

    /// An event of a connection between blocks.
    fn handle_idle<T: Transport>(
        worker: &mut Worker<T, Self>,
        event: Event,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    );

    /// Fails what has taken too long; closes what the server has not closed.
    fn scan<T: Transport>(worker: &mut Worker<T, Self>, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>);

    /// Leaves links and places as the next block should find them: idle connections, nothing pending.
    fn tidy<T: Transport>(worker: &mut Worker<T, Self>, block_run: &mut BlockRun<impl LoadModel>);
}
