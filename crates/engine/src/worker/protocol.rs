//! The interface between the worker's loop and a protocol. Each protocol owns its state; no other code asks which one runs.
//!
//! A worker's share of a session has *links*, one per connection, and *places*, one per request that may be in flight. The
//! loop, the load models and the counting know places. A protocol decides how the requests and responses of its places use
//! their links.

use super::Worker;
use super::first_byte::FirstByte;
use super::link::{Link, Place};
use crate::block_run::{BlockRun, LoadModel};
use crate::coalescing::{CoalescingRule, MIN_OUTSTANDING};
use crate::error::EngineError;
use crate::io::{Coalescing, Event, Transport, split_token};
use crate::patience::Patience;
use crate::plan::SessionPlan;
use crate::schedule::NEVER_NS;
use crate::sys;
use crate::tls::TlsPlan;
use std::io::Error;
use std::time::Duration;

/// What a protocol needs of its transport.
pub(super) struct Wants<'a> {
    /// Requests that are sent unchanged, by number.
    pub requests: Vec<&'a [u8]>,
    /// How much a read may bring in addition to a head.
    pub body_bytes: usize,
    /// How connections are encrypted, if they are.
    pub tls: Option<TlsPlan>,
}

impl<'a> Wants<'a> {
    /// The plan's requests, and one response per read.
    pub(super) fn of(plan: &'a SessionPlan) -> Self {
        let requests = plan.exchanges.iter().map(|exchange| exchange.request.as_slice()).collect();
        let body_bytes = plan.exchanges.iter().map(|exchange| exchange.body.len()).max().unwrap_or(0);
        Self { requests, body_bytes, tls: plan.tls.clone() }
    }
}

/// A protocol; the value holds its state that does not belong to a single connection.
pub(super) trait Protocol: Sized {
    /// Its state for each connection.
    type Link;
    /// Whether it times first bytes.
    type FirstByte: FirstByte;

    /// A connection has at most one request in flight. This constant and the next two decide which transports can carry
    /// the protocol; see [`Worker::MISFIT`].
    const ONE_AT_A_TIME: bool;
    /// It can send over connections that the transport opens and closes itself; see [`Transport::chain`].
    const MAY_CHAIN: bool = false;
    /// It needs [`Transport::DISCARDS`].
    const DISCARDS: bool = false;
    /// Why it runs over epoll whatever the engine has chosen, if it does.
    const NEEDS_EPOLL: Option<&'static str> = None;

    /// Prepares a worker's share with this many connections.
    ///
    /// # Errors
    /// [`EngineError::Plan`]: the protocol can't send a request.
    fn prepare(plan: &SessionPlan, links: usize) -> Result<Self, EngineError>;

    /// The state of a connection before it is opened.
    fn link(&self) -> Self::Link;

    /// Number of places on each connection.
    fn places_per_link(&self) -> usize {
        1
    }

    /// How many concurrent requests the server allows on a connection, if it says so.
    fn streams_allowed<S>(&self, _links: &[Link<S, Self::Link>]) -> Option<usize> {
        None
    }

    /// What it needs of its transport.
    fn wants(plan: &SessionPlan) -> Wants<'_> {
        Wants::of(plan)
    }

    /// Whether responses may wait to be read, because the kernel's timestamps say when they arrived. They may not if they
    /// would fill the socket and stop the server, or if one read may bring several responses, which share one timestamp.
    fn may_read_late(plan: &SessionPlan) -> bool;

    /// The place with this number.
    fn place<'a, S>(&'a mut self, links: &'a mut [Link<S, Self::Link>], index: usize) -> &'a mut Place;

    /// The order in which an open loop begins to use places.
    fn free_places(&self, links: usize) -> impl Iterator<Item = usize> + use<Self> {
        0..links
    }

    /// Prefetches the memory of a connection that has its turn soon: with many connections it is not in the caches.
    #[inline]
    fn prefetch<S>(&self, links: &[Link<S, Self::Link>], token: u64) {
        if let Some(link) = links.get(split_token(token).0) {
            sys::prefetch(link);
        }
    }

    /// How to wait for the next responses, with this many requests outstanding.
    #[inline]
    fn wait_for(&mut self, rule: &CoalescingRule, outstanding: usize, _links: usize) -> Option<Coalescing> {
        rule.wait_for(outstanding, MIN_OUTSTANDING, false)
    }

    /// Passes a response's latency to the rule that [`Protocol::wait_for`] uses.
    #[inline]
    fn note_latency(rule: &mut CoalescingRule, latency_ns: u64) {
        rule.note(latency_ns);
    }

    /// Opens all connections of a new share, each within the time limit.
    ///
    /// # Errors
    /// The number of the first connection that can't be opened, and the reason.
    fn open<T: Transport>(worker: &mut Worker<T, Self>, limit: Duration) -> Result<(), (usize, Error)>;

    /// Whether the server allows the use of a place. If not, the place is set aside until it does.
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

    /// Opens the connection of a place that has a request to send.
    fn connect<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    );

    /// Runs before each wait: sends what is queued, and starts what is due.
    #[inline]
    fn before_wait<T: Transport>(_: &mut Worker<T, Self>, _: u64, _: &mut BlockRun<impl LoadModel>) {}

    /// When [`Protocol::before_wait`] has something to start next.
    #[inline]
    fn due_ns(&self) -> u64 {
        NEVER_NS
    }

    /// Whether no more requests may be sent in this block.
    #[inline]
    fn halted(&self) -> bool {
        false
    }

    /// A queued request was sent at this time.
    fn departed<T: Transport>(
        worker: &mut Worker<T, Self>,
        token: u64,
        sent_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    );

    /// Handles an event of a connection.
    fn handle<T: Transport>(
        worker: &mut Worker<T, Self>,
        event: Event,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    );

    /// Continues to read from a connection that filled the buffer too often in one turn.
    fn read_on<T: Transport>(
        worker: &mut Worker<T, Self>,
        token: u64,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    );

    /// Handles an event of a connection between blocks, as long as the patience lasts.
    fn handle_idle<T: Transport>(
        worker: &mut Worker<T, Self>,
        event: Event,
        patience: &Patience,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    );

    /// Fails requests that have taken too long; closes connections that the server should have closed.
    fn scan<T: Transport>(worker: &mut Worker<T, Self>, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>);

    /// Brings links and places into the state in which a block begins: idle connections, nothing pending.
    fn tidy<T: Transport>(worker: &mut Worker<T, Self>, block_run: &mut BlockRun<impl LoadModel>);
}
