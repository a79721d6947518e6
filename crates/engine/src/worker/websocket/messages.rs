//! How messages are sent, and how the server's frames are read, judged and counted.

use super::super::arrived::Arrived;
use super::super::first_byte::{FirstByte, Timed};
use super::super::link::State;
use super::super::{MAX_READS, Worker, broken_by};
use super::{WebSocket, WebSocketLink, push};
use crate::block_run::{BlockRun, LoadModel};
use crate::failure::{Failure, Wrong};
use crate::io::Transport;
use crate::patience::Patience;
use crate::response::Verdict;
use crate::sys;
use crate::websocket::frames::reply;
use crate::websocket::{Broken, Event};
use std::io::{Error, ErrorKind};

/// The status that stands for every message: the upgrade's.
const STATUS: u16 = 101;
/// Replies to pings that may wait for a server that does not read them.
const MAX_REPLIES: usize = 1 << 20;

/// How a connection ends.
struct End {
    failure: Failure,
    why: String,
}

impl End {
    fn of(broken: &Broken) -> Self {
        Self { failure: Failure::BadResponse, why: format!("WebSocket: the server sent {}", broken.0) }
    }

    fn closed(code: Option<u16>) -> Self {
        let code = code.map_or_else(|| "without a code".into(), |code| format!("with code {code}"));
        Self { failure: Failure::ClosedEarly, why: format!("WebSocket: the server closed {code}") }
    }
}

impl<T: Transport> Worker<T, WebSocket> {
    /// Sends a place's next message.
    #[inline]
    pub(super) fn send_message(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if !block_run.take_permit(&mut self.links[index].proto.place.due_ns) {
            return;
        }
        let Self { core, io, links, proto, .. } = self;
        let number = core.cycle.next;
        let sent = match push(io, index, &mut links[index], &proto.messages[number].frame) {
            Ok(sent) => sent,
            Err(error) => return self.unsendable(index, &error, now_ns, block_run),
        };
        let place = &mut links[index].proto.place;
        Timed::begin(place);
        (place.state, place.exchange) = (State::Waiting, number as u32);
        if !place.fresh {
            place.depart(now_ns, block_run); // otherwise its latency began when its connection began to be opened
        }
        core.cycle.advance(&core.plan.sequence);
        core.ledger.outstanding += 1;
        block_run.counts.sent += 1;
        block_run.counts.bytes_out += sent as u64;
    }

    /// There is room to send: sends what waits.
    pub(super) fn go_on(&mut self, index: usize) {
        let link = &mut self.links[index];
        let token = link.token(index);
        if let Some(socket) = &link.socket {
            self.io.go_on(token, socket);
        }
        let _ = push(&mut self.io, index, link, &[]); // if it fails, the next read fails the message
    }

    /// Reads what has arrived: one read, unless more bytes are there or must be.
    #[inline]
    pub(super) fn read_link(
        &mut self,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let token = self.links[index].token(index);
        for _ in 0..MAX_READS {
            if self.links[index].token(index) != token || self.links[index].socket.is_none() {
                return;
            }
            let received = self.take_arrived(index, buffer);
            let stamped = received.as_ref().is_ok_and(|(_, stamp_ns)| *stamp_ns > 0);
            let now_ns = self.core.look_at_clock::<T>(stamped, block_run);
            let (arrived, stamp_ns) = match received {
                Ok((Arrived::Read(0), _)) => {
                    let why = "the server closed the connection before its response was complete";
                    return self.ended(index, Failure::ClosedEarly, why, false, now_ns, block_run);
                }
                Ok(received) => received,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted => continue,
                    _ => return self.ended(index, broken_by(&error), &error.to_string(), false, now_ns, block_run),
                },
            };
            let bytes = arrived.bytes(buffer);
            let got = bytes.len();
            block_run.counts.bytes_in += got as u64;
            self.take_bytes(index, bytes, (stamp_ns, now_ns), block_run);
            self.take_back(arrived);
            if T::BRINGS_BYTES || got < buffer.len() && !closing {
                return;
            }
        }
        self.core.unread.push_back((token, closing));
    }

    /// Reads bytes: the rest of the upgrade, then frames. The next message is sent when all of them are read: a response
    /// that came before its message was sent is none.
    #[inline]
    fn take_bytes(
        &mut self,
        index: usize,
        mut bytes: &[u8],
        (stamp_ns, now_ns): (u64, u64),
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let mut freed = false;
        if self.links[index].proto.upgrade.is_some() {
            match self.upgrade_with(index, bytes) {
                Ok(None) => return,
                Ok(Some(used)) => bytes = &bytes[used..],
                Err(error) => return self.unconnected(index, &error, now_ns, block_run),
            }
            block_run.connected(now_ns.saturating_sub(self.place(index).since_ns));
            self.links[index].failures = 0;
            freed = true;
        }
        // Ends: each turn uses some of the bytes.
        while !bytes.is_empty() {
            let Self { core, links, proto, .. } = self;
            let WebSocketLink { place, reader, .. } = &mut links[index].proto;
            let waiting = place.state == State::Waiting;
            if waiting {
                Timed::read(place, |since_ns| core.clock.clocks.arrival_ns(stamp_ns, since_ns, now_ns));
            }
            let message = waiting.then(|| &proto.messages[place.exchange as usize]);
            let (used, event) = match reader.feed(bytes, message) {
                Ok(read) => read,
                Err(broken) => {
                    let End { failure, why } = End::of(&broken);
                    return self.ended(index, failure, &why, freed, now_ns, block_run);
                }
            };
            if let Event::Message(wrong) = event {
                if let (Some(wrong), Some(message)) = (wrong, message) {
                    let came = if wrong == Wrong::Head { message.other_type().as_bytes() } else { bytes };
                    core.judge.sample.note(wrong.into(), came);
                }
                place.arrived_ns = core.clock.clocks.arrival_ns(stamp_ns, place.since_ns, now_ns);
                self.count(index, &Verdict { wrong, keep: true }, STATUS, now_ns, block_run);
                self.place(index).state = State::Idle;
                freed = true;
            } else if let Some(End { failure, why }) = self.control_event(index, event) {
                return self.ended(index, failure, &why, freed, now_ns, block_run);
            }
            bytes = &bytes[used..];
        }
        if freed {
            self.send_next(index, now_ns, block_run);
        }
    }

    /// The response to the upgrade, or a part of it. Some: the connection is open, and this many bytes were used.
    fn upgrade_with(&mut self, index: usize, bytes: &[u8]) -> Result<Option<usize>, Error> {
        let link = &mut self.links[index].proto;
        let Some(upgrade) = &mut link.upgrade else { return Ok(Some(0)) };
        let refused = |why| Error::new(ErrorKind::Unsupported, format!("WebSocket: {why}"));
        let used = upgrade.feed(bytes).map_err(refused)?;
        if used.is_some() {
            (link.upgrade, link.place.state) = (None, State::Idle);
        }
        Ok(used)
    }

    /// Answers a ping or a close; Some: the connection ends.
    fn control_event(&mut self, index: usize, event: Event) -> Option<End> {
        if !matches!(event, Event::Ping | Event::Close(_)) {
            return None;
        }
        let link = &mut self.links[index];
        let mut bytes = Vec::new();
        reply(&mut bytes, event, link.proto.reader.control());
        let _ = push(&mut self.io, index, link, &bytes); // if it fails, the next read fails the message
        match event {
            Event::Close(code) => Some(End::closed(code)),
            _ if link.proto.out.len() > MAX_REPLIES => Some(End::of(&Broken("pings, but reads no reply"))),
            _ => None,
        }
    }

    /// Reads what arrived on a connection without a message in flight.
    ///
    /// # Errors
    /// UnexpectedEof: the connection has ended. Unsupported: the server does not speak valid WebSocket. TimedOut: it did
    /// not stop sending while the patience lasted.
    pub(super) fn listen(&mut self, index: usize, patience: &Patience, buffer: &mut [u8]) -> Result<(), Error> {
        loop {
            let arrived = match self.take_arrived(index, buffer) {
                Ok((Arrived::Read(0), _)) => {
                    return Err(Error::new(ErrorKind::UnexpectedEof, "WebSocket: the server closed the connection"));
                }
                Ok((arrived, _)) => arrived,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let read = self.take_idle(index, arrived.bytes(buffer));
            self.take_back(arrived);
            read?;
            if T::BRINGS_BYTES {
                return Ok(());
            }
            if !patience.lasts() {
                return Err(Error::new(
                    ErrorKind::TimedOut,
                    "WebSocket: the server sends without end and without a message",
                ));
            }
        }
    }

    fn take_idle(&mut self, index: usize, mut bytes: &[u8]) -> Result<(), Error> {
        if self.links[index].proto.upgrade.is_some() {
            let Some(used) = self.upgrade_with(index, bytes)? else { return Ok(()) };
            self.core.opened_ns.push(sys::now_ns() - self.links[index].proto.place.since_ns);
            bytes = &bytes[used..];
        }
        // Ends: each turn uses some of the bytes.
        while !bytes.is_empty() {
            let (used, event) = match self.links[index].proto.reader.feed(bytes, None) {
                Ok(read) => read,
                Err(broken) => return Err(Error::new(ErrorKind::Unsupported, End::of(&broken).why)),
            };
            if let Some(end) = self.control_event(index, event) {
                return Err(Error::new(ErrorKind::UnexpectedEof, end.why));
            }
            bytes = &bytes[used..];
        }
        Ok(())
    }
}
