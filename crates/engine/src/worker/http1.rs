//! HTTP/1: one place per connection; responses come in the order of the requests.
//!
//! Each [`Mode`] has its own state and code, so that sessions in other modes don't pay for it: connections that end after
//! some requests ([`Limited`]), bodies that are counted instead of read ([`LengthOnly`]), several requests in flight
//! ([`Pipelined`]).

mod chained;
mod connections;
mod length_only;
mod pipelined;
mod responses;
mod scripted;

use super::Worker;
use super::first_byte::{FirstByte, Timed, Untimed};
use super::link::{Link, Place, State};
use super::protocol::{Protocol, Wants};
use super::single::Single;
use crate::block_run::{BlockRun, LoadModel};
use crate::coalescing::{CoalescingRule, MIN_OUTSTANDING};
use crate::error::EngineError;
use crate::failure::Failure;
use crate::io::{self, Carrier, Coalescing, Event, Transport, split_token};
use crate::patience::Patience;
use crate::plan::{Exchange, SessionPlan};
use crate::response::{KnownHead, Reader, Verdict};
use crate::schedule::NEVER_NS;
use crate::sys;
pub(super) use length_only::LengthOnly;
pub(super) use pipelined::Pipelined;
use std::io::{Error, ErrorKind};
use std::time::Duration;

/// HTTP/1 in one of its modes.
pub(super) struct Http1<M> {
    /// By exchange, the previous response's head.
    known: Vec<KnownHead>,
    mode: M,
}

/// The state of a connection; `E`: the mode's part of it.
pub(super) struct Http1Link<E> {
    place: Place,
    /// How many bytes of the request were sent.
    out_at: usize,
    reader: Reader,
    extra: E,
}

/// Nearly all memory of 10,000 connections is this; see [`Link`].
const _: () = assert!(size_of::<Link<socket2::Socket, Http1Link<()>>>() == 128);

/// How sessions over HTTP/1 differ.
pub(super) trait Mode: Sized {
    /// The mode's state for each connection.
    type Extra: Default;
    /// As [`Protocol::FirstByte`].
    type FirstByte: FirstByte;

    /// As [`Protocol::ONE_AT_A_TIME`].
    const ONE_AT_A_TIME: bool = true;
    /// As [`Protocol::NEEDS_EPOLL`].
    const NEEDS_EPOLL: Option<&'static str> = None;
    /// As [`Protocol::MAY_CHAIN`].
    const MAY_CHAIN: bool = false;
    /// As [`Protocol::DISCARDS`].
    const DISCARDS: bool = false;
    /// Responses may share a wake-up from this many outstanding requests on.
    const MIN_OUTSTANDING: usize = MIN_OUTSTANDING;
    /// As [`Protocol::may_read_late`].
    const MAY_READ_LATE: bool = false;

    /// Prepares a worker's share with this many connections.
    fn prepare(plan: &SessionPlan, links: usize) -> Self;

    /// Requests that the connection may still carry, if that is counted.
    #[inline]
    fn left(_: &mut Self::Extra) -> Option<&mut u32> {
        None
    }

    /// The connection is a new one, or its response is complete.
    #[inline]
    fn reset(_: &mut Self::Extra) {}

    /// As [`Protocol::wants`].
    fn wants(plan: &SessionPlan) -> Wants<'_> {
        Wants::of(plan)
    }

    /// How many bytes of the buffer a read may fill.
    #[inline]
    fn room(_: &Self::Extra, buffer: usize) -> usize {
        buffer
    }

    /// As [`Protocol::note_latency`].
    #[inline]
    fn note_latency(rule: &mut CoalescingRule, latency_ns: u64) {
        rule.note(latency_ns);
    }

    /// Sends what the connection may send.
    #[inline]
    fn send<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.send(index, now_ns, block_run);
    }

    /// Reads the responses that have arrived.
    #[inline]
    fn read<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        worker.read(index, closing, block_run, buffer);
    }

    /// If the request whose response is due was not sent completely: how many of its bytes were, and its length.
    #[inline]
    fn cut<T: Transport>(worker: &Worker<T, Http1<Self>>, index: usize) -> Option<(usize, usize)> {
        let link = &worker.links[index];
        let length = worker.core.plan.exchanges[link.proto.place.exchange as usize].request.len();
        let sent = link.proto.out_at - worker.io.unsent(link.token(index)).min(link.proto.out_at);
        (sent < length).then_some((sent, length))
    }

    /// Continues with requests that the socket did not accept completely.
    #[inline]
    fn send_rest<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.send_rest(index, block_run);
    }

    /// The kernel reports that it could not send what it had accepted.
    fn unsent<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        errno: i32,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.unsent(index, errno, block_run);
    }

    /// As [`Protocol::departed`], for the current connection of a link.
    #[inline]
    fn departed<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        sent_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let place = worker.place(index);
        if T::CHAINS || place.state == State::Waiting && !place.fresh {
            place.depart(sent_ns, block_run);
        }
    }

    /// Called if a read did not complete the response; true if the mode continues with the response in its own way.
    #[inline]
    fn takes_over<T: Transport>(
        _: &mut Worker<T, Http1<Self>>,
        _: usize,
        _: bool,
        _: &mut BlockRun<impl LoadModel>,
    ) -> bool {
        false
    }

    /// The end of the connection was the end of the response.
    fn ended<T: Transport>(_: &mut Worker<T, Http1<Self>>, _: usize, _: &Verdict, _: &mut BlockRun<impl LoadModel>) {}

    /// The requests that were sent after a lost one have failed, too.
    fn fail_behind<T: Transport>(
        _: &mut Worker<T, Http1<Self>>,
        _: usize,
        _: Failure,
        _: &mut BlockRun<impl LoadModel>,
    ) {
    }

    /// A connection was closed.
    fn closed(&mut self, _: usize) {}

    /// As [`Protocol::before_wait`].
    #[inline]
    fn before_wait<T: Transport>(_: &mut Worker<T, Http1<Self>>, _: u64, _: &mut BlockRun<impl LoadModel>) {}

    /// As [`Protocol::due_ns`].
    #[inline]
    fn due_ns(&self) -> u64 {
        NEVER_NS
    }

    /// As [`Protocol::halted`].
    #[inline]
    fn halted(&self) -> bool {
        false
    }

    /// Forgets the requests in flight behind those in places; returns how many there were.
    fn tidy<T: Transport>(_: &mut Worker<T, Http1<Self>>) -> usize {
        0
    }
}

/// One request at a time on connections that are kept, or that carry one request each.
pub(super) struct Kept;

impl Mode for Kept {
    type Extra = ();
    type FirstByte = Untimed;

    const MAY_CHAIN: bool = true;
    const MAY_READ_LATE: bool = true;

    fn prepare(_: &SessionPlan, _: usize) -> Self {
        Self
    }
}

/// The same for connections that end after some requests, are encrypted, or whose first bytes are timed.
pub(super) struct Limited;

impl Mode for Limited {
    type Extra = u32;
    type FirstByte = Timed;

    const NEEDS_EPOLL: Option<&'static str> = Some("connections end, or first bytes are timed");

    fn prepare(_: &SessionPlan, _: usize) -> Self {
        Self
    }

    #[inline]
    fn left(extra: &mut u32) -> Option<&mut u32> {
        Some(extra)
    }
}

impl<M: Mode> Protocol for Http1<M> {
    type Link = Http1Link<M::Extra>;
    type FirstByte = M::FirstByte;

    const ONE_AT_A_TIME: bool = M::ONE_AT_A_TIME;
    const NEEDS_EPOLL: Option<&'static str> = M::NEEDS_EPOLL;
    const MAY_CHAIN: bool = M::MAY_CHAIN;
    const DISCARDS: bool = M::DISCARDS;

    fn prepare(plan: &SessionPlan, links: usize) -> Result<Self, EngineError> {
        let known = |exchange: &Exchange| KnownHead::of(&exchange.request).expecting(plan.heads_of(exchange));
        let known = plan.exchanges.iter().map(known).collect();
        Ok(Self { known, mode: M::prepare(plan, links) })
    }

    fn wants(plan: &SessionPlan) -> Wants<'_> {
        M::wants(plan)
    }

    fn link(&self) -> Self::Link {
        Http1Link { place: Place::new(), out_at: 0, reader: Reader::default(), extra: M::Extra::default() }
    }

    fn may_read_late(_: &SessionPlan) -> bool {
        M::MAY_READ_LATE
    }

    #[inline]
    fn place<'a, S>(&'a mut self, links: &'a mut [Link<S, Self::Link>], index: usize) -> &'a mut Place {
        &mut links[index].proto.place
    }

    #[inline]
    fn wait_for(&mut self, rule: &CoalescingRule, outstanding: usize, _: usize) -> Option<Coalescing> {
        rule.wait_for(outstanding, M::MIN_OUTSTANDING, false)
    }

    #[inline]
    fn note_latency(rule: &mut CoalescingRule, latency_ns: u64) {
        M::note_latency(rule, latency_ns);
    }

    fn open<T: Transport>(worker: &mut Worker<T, Self>, limit: Duration) -> Result<(), (usize, Error)> {
        for index in 0..worker.links.len() {
            let began_ns = sys::now_ns();
            match worker.open_one(index, limit) {
                Ok(()) => {}
                Err(error) if index > 0 && worker.core.plan.partial && error.kind() == ErrorKind::TimedOut => {
                    worker.discard(index);
                    return Ok(());
                }
                Err(source) => return Err((index, source)),
            }
            worker.core.opened_ns.push(sys::now_ns() - began_ns);
        }
        Ok(())
    }

    #[inline]
    fn send<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        M::send(worker, index, now_ns, block_run);
    }

    fn connect<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        match T::CHAIN {
            Some(socket) => worker.chain(index, socket, now_ns, block_run),
            None => worker.begin_connection(index, now_ns, block_run),
        }
    }

    #[inline]
    fn before_wait<T: Transport>(worker: &mut Worker<T, Self>, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        M::before_wait(worker, now_ns, block_run);
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        self.mode.due_ns()
    }

    #[inline]
    fn halted(&self) -> bool {
        self.mode.halted()
    }

    #[inline]
    fn departed<T: Transport>(
        worker: &mut Worker<T, Self>,
        token: u64,
        sent_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let (index, generation) = split_token(token);
        if worker.links[index].generation == generation {
            M::departed(worker, index, sent_ns, block_run);
        }
    }

    #[inline]
    fn handle<T: Transport>(
        worker: &mut Worker<T, Self>,
        event: Event,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let (index, generation) = split_token(event.token);
        let link = &worker.links[index];
        if link.generation != generation {
            return worker.closers.event(&mut worker.io, event.token, event.closing);
        }
        match link.proto.place.state {
            State::Waiting => {
                if event.unsent != 0 {
                    return M::unsent(worker, index, event.unsent, block_run);
                }
                if event.writable {
                    M::send_rest(worker, index, block_run);
                }
                if event.readable {
                    M::read(worker, index, event.closing, block_run, buffer);
                }
            }
            State::Connecting => worker.handshake_event(index, event, block_run, buffer),
            State::Idle => worker.idle_event(index, block_run, buffer),
            // The former socket may still wait for the server to close it, under the same token.
            State::Closed | State::Resting | State::GivenUp | State::Shut => {
                worker.closers.event(&mut worker.io, event.token, event.closing);
            }
        }
    }

    fn read_on<T: Transport>(
        worker: &mut Worker<T, Self>,
        token: u64,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let (index, generation) = split_token(token);
        let link = &worker.links[index];
        if link.generation == generation && link.proto.place.state == State::Waiting {
            worker.io.turn_to(token);
            M::read(worker, index, closing, block_run, buffer);
        }
    }

    fn handle_idle<T: Transport>(
        worker: &mut Worker<T, Self>,
        event: Event,
        _: &Patience,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let (index, generation) = split_token(event.token);
        let link = &worker.links[index];
        if link.generation == generation && link.proto.place.state == State::Idle {
            worker.idle_event(index, block_run, buffer);
        }
    }

    fn scan<T: Transport>(worker: &mut Worker<T, Self>, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        worker.scan_places(now_ns, block_run);
    }

    fn tidy<T: Transport>(worker: &mut Worker<T, Self>, block_run: &mut BlockRun<impl LoadModel>) {
        block_run.counts.in_flight += M::tidy(worker) as u64;
        for index in 0..worker.links.len() {
            let place = &mut worker.links[index].proto.place;
            if place.state == State::Idle && worker.core.plan.keepalive {
                place.fresh = false;
            } else {
                block_run.counts.in_flight += u64::from(place.state == State::Waiting);
                worker.discard(index);
            }
        }
    }
}

impl<M: Mode> Single for Http1<M> {
    fn reset(link: &mut Self::Link) {
        link.reader.reset();
        M::reset(&mut link.extra);
    }

    fn opened<T: Transport>(worker: &mut Worker<T, Self>, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        worker.opened(index, block_run);
    }

    fn expects_bytes<S>(link: &Link<S, Self::Link>) -> bool {
        link.proto.place.state == State::Waiting
    }

    #[inline]
    fn read<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        M::read(worker, index, closing, block_run, buffer);
    }

    fn unopened<T: Transport>(worker: &mut Worker<T, Self>, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        if T::CHAINS {
            worker.unchain(index, block_run);
        }
    }

    fn fail_behind<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        failure: Failure,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        M::fail_behind(worker, index, failure, block_run);
    }

    fn closed(&mut self, index: usize) {
        self.mode.closed(index);
    }
}

impl<T: Transport, M: Mode> Worker<T, Http1<M>> {
    /// The number of the next request, in the form for the connection's last one if it is that.
    #[inline]
    fn next_number(&mut self, index: usize) -> usize {
        let last = M::left(&mut self.links[index].proto.extra).is_some_and(|left| *left == 1);
        self.core.cycle.next + if last { self.core.cycle.length } else { 0 }
    }

    /// Whether the connection has carried all requests that it may.
    #[inline]
    fn spent(&mut self, index: usize) -> bool {
        let bounded = self.core.plan.requests_per_connection.is_some();
        M::left(&mut self.links[index].proto.extra).is_some_and(|left| bounded && *left == 0)
    }

    /// Moves on, after a request was sent.
    #[inline]
    fn count_on(&mut self, index: usize) {
        self.core.cycle.advance(&self.core.plan.sequence);
        let link = &mut self.links[index].proto;
        if let Some(left) = M::left(&mut link.extra) {
            *left = left.saturating_sub(1);
        }
    }

    #[inline]
    fn send(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if !block_run.take_permit(&mut self.links[index].proto.place.due_ns) {
            return;
        }
        let number = self.next_number(index);
        let request = &self.core.plan.exchanges[number].request;
        let link = &mut self.links[index];
        let token = link.token(index);
        let Some(socket) = &link.socket else { return };
        let sent = match self.io.send(token, socket, number, request) {
            Ok(sent) => sent,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(error) => return self.unsendable(index, &error, now_ns, block_run),
        };
        if sent < request.len() {
            let _ = self.io.want_writable(token, socket); // if it fails, the request times out
        }
        link.proto.out_at = sent;
        let place = &mut link.proto.place;
        M::FirstByte::begin(place);
        place.state = State::Waiting;
        place.exchange = number as u32;
        if T::SENDS_LATER && !place.fresh {
            place.since_ns = now_ns; // preliminary: the send time follows
        } else if !place.fresh {
            place.depart(now_ns, block_run); // otherwise its latency began when its connection began to be opened
        }
        self.count_on(index);
        self.core.ledger.outstanding += 1;
        block_run.counts.sent += 1;
        block_run.counts.bytes_out += sent as u64;
    }

    /// Nothing of the request was sent, reported by the kernel only after it had accepted it.
    #[cold]
    fn unsent(&mut self, index: usize, errno: i32, block_run: &mut BlockRun<impl LoadModel>) {
        self.core.ledger.outstanding -= 1;
        block_run.counts.sent -= 1;
        block_run.counts.bytes_out -= self.links[index].proto.out_at as u64;
        self.unsendable(index, &Error::from_raw_os_error(errno), sys::now_ns(), block_run);
    }

    fn send_rest(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let link = &mut self.links[index];
        let token = link.token(index);
        let Some(held) = &link.socket else { return };
        self.io.go_on(token, held);
        let Some(socket) = held.socket() else { return };
        let Http1Link { place, out_at, .. } = &mut link.proto;
        let request = &self.core.plan.exchanges[place.exchange as usize].request;
        // Ends: each turn sends some of the bytes.
        while *out_at < request.len() {
            match io::send(socket, &request[*out_at..]) {
                Ok(sent) => {
                    *out_at += sent;
                    block_run.counts.bytes_out += sent as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && T::BRINGS_BYTES => {
                    let _ = self.io.want_writable(token, held); // which reports once
                    return;
                }
                // A server that responds early may have closed the connection: its response is still to be read.
                Err(_) => return,
            }
        }
    }
}
