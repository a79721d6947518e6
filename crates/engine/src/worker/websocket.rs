//! WebSocket: one message at a time on each connection; its response is the server's next message.
//!
//! A connection is open once the server's response to the upgrade has come and proves that the server speaks WebSocket.
//! Bytes that the socket does not accept wait in the link. Pings are answered; a message without a request is an error.

mod connections;
mod messages;

use super::Worker;
use super::first_byte::Timed;
use super::link::{Link, Place, State};
use super::protocol::{Protocol, Wants};
use super::single::Single;
use crate::block_run::{BlockRun, LoadModel};
use crate::error::EngineError;
use crate::io::{Event, Transport, split_token};
use crate::patience::Patience;
use crate::plan::SessionPlan;
use crate::sys;
use crate::websocket::{Message, Reader, Upgrade};
use std::io::{Error, ErrorKind};
use std::time::Duration;

/// WebSocket.
pub(super) struct WebSocket {
    /// By exchange.
    messages: Vec<Message>,
}

/// The state of a connection.
pub(super) struct WebSocketLink {
    place: Place,
    reader: Reader,
    /// Bytes that the socket has not accepted yet.
    out: Vec<u8>,
    /// While the response to the upgrade is due.
    upgrade: Option<Box<Upgrade>>,
}

impl Protocol for WebSocket {
    type Link = WebSocketLink;
    type FirstByte = Timed;

    const ONE_AT_A_TIME: bool = true;
    /// Over io_uring, bytes that wait would have to wait for the completion of those before them.
    const NEEDS_EPOLL: Option<&'static str> = Some("WebSocket queues bytes itself");

    fn prepare(plan: &SessionPlan, _: usize) -> Result<Self, EngineError> {
        Ok(Self { messages: plan.websocket_messages()? })
    }

    fn link(&self) -> WebSocketLink {
        WebSocketLink { place: Place::new(), reader: Reader::default(), out: Vec::new(), upgrade: None }
    }

    /// No request is sent by its number.
    fn wants(plan: &SessionPlan) -> Wants<'_> {
        Wants { requests: Vec::new(), ..Wants::of(plan) }
    }

    fn may_read_late(_: &SessionPlan) -> bool {
        true
    }

    #[inline]
    fn place<'a, S>(&'a mut self, links: &'a mut [Link<S, WebSocketLink>], index: usize) -> &'a mut Place {
        &mut links[index].proto.place
    }

    fn open<T: Transport>(worker: &mut Worker<T, Self>, limit: Duration) -> Result<(), (usize, Error)> {
        worker.upgrade_all(limit)
    }

    #[inline]
    fn send<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.send_message(index, now_ns, block_run);
    }

    fn connect<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        worker.begin_connection(index, now_ns, block_run);
    }

    /// Send times are read before each call.
    fn departed<T: Transport>(_: &mut Worker<T, Self>, _: u64, _: u64, _: &mut BlockRun<impl LoadModel>) {}

    #[inline]
    fn handle<T: Transport>(
        worker: &mut Worker<T, Self>,
        event: Event,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let (index, generation) = split_token(event.token);
        let link = &worker.links[index];
        if link.generation != generation || link.socket.is_none() {
            return;
        }
        if link.proto.place.state == State::Connecting && link.proto.upgrade.is_none() {
            return worker.handshake_event(index, event, block_run, buffer);
        }
        if event.writable {
            worker.go_on(index);
        }
        if event.readable {
            worker.read_link(index, event.closing, block_run, buffer);
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
        if worker.links[index].generation == generation {
            worker.io.turn_to(token);
            worker.read_link(index, closing, block_run, buffer);
        }
    }

    fn handle_idle<T: Transport>(
        worker: &mut Worker<T, Self>,
        event: Event,
        patience: &Patience,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let (index, generation) = split_token(event.token);
        let link = &worker.links[index];
        if link.generation == generation && link.proto.place.state == State::Idle {
            worker.idle_event(index, patience, block_run, buffer);
        }
    }

    fn scan<T: Transport>(worker: &mut Worker<T, Self>, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        worker.scan_places(now_ns, block_run);
    }

    fn tidy<T: Transport>(worker: &mut Worker<T, Self>, block_run: &mut BlockRun<impl LoadModel>) {
        for index in 0..worker.links.len() {
            let link = &mut worker.links[index].proto;
            if link.place.state == State::Idle && link.reader.between_messages() {
                link.place.fresh = false;
            } else {
                block_run.counts.in_flight += u64::from(link.place.state == State::Waiting);
                worker.discard(index);
            }
        }
    }
}

impl Single for WebSocket {
    fn reset(link: &mut WebSocketLink) {
        (link.reader, link.upgrade) = (Reader::default(), None);
        link.out.clear();
    }

    /// The upgrade is requested.
    fn opened<T: Transport>(worker: &mut Worker<T, Self>, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        match worker.request_upgrade(index) {
            Ok(bytes) => block_run.counts.bytes_out += bytes as u64,
            Err(error) => worker.unconnected(index, &error, sys::now_ns(), block_run),
        }
    }

    fn expects_bytes<S>(link: &Link<S, WebSocketLink>) -> bool {
        link.proto.upgrade.is_some()
    }

    fn read<T: Transport>(
        worker: &mut Worker<T, Self>,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        worker.read_link(index, closing, block_run, buffer);
    }
}

/// Sends these bytes after the link's waiting ones, as far as the socket accepts them; returns how many were sent.
///
/// # Errors
/// The kernel's error, if nothing was sent.
fn push<T: Transport>(
    io: &mut T,
    index: usize,
    link: &mut Link<T::Socket, WebSocketLink>,
    bytes: &[u8],
) -> Result<usize, Error> {
    let token = link.token(index);
    let Link { socket: Some(socket), proto, .. } = link else { return Ok(0) };
    if !proto.out.is_empty() && !bytes.is_empty() {
        // The socket is full, and an event reports when it is not. Thousands of replies must not copy all that wait.
        proto.out.extend_from_slice(bytes);
        return Ok(0);
    }
    let mut waited = std::mem::take(&mut proto.out);
    let all: &[u8] = if waited.is_empty() {
        bytes
    } else {
        waited.extend_from_slice(bytes);
        &waited
    };
    let mut sent = 0;
    // Ends: each turn sends some of the bytes.
    while sent < all.len() {
        match io.send_now(token, socket, &all[sent..]) {
            Ok(more) => sent += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = io.want_writable(token, socket); // if it fails, the request times out
                break;
            }
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break, // the next read fails the request
        }
    }
    proto.out = all[sent..].to_vec(); // usually empty: that allocates nothing
    Ok(sent)
}
