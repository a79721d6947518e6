//! How requests are sent: queued on a link one by one, flushed together, and when.

use super::super::Worker;
use super::super::link::{Link, State};
use super::{FLUSHED, Http2, LinkState};
use crate::block_run::{BlockRun, LoadModel};
use crate::io::{Transport, split_token};
use crate::sys;
use std::io::{Error, ErrorKind};

impl<T: Transport> Worker<T, Http2> {
    /// Sends a link's queued bytes, as far as the socket accepts them; returns how many.
    pub(super) fn push_link(&mut self, link: usize) -> Result<usize, Error> {
        let token = self.links[link].token(link);
        let mut pushed = 0;
        let Link { socket: Some(socket), proto: connection, .. } = &mut self.links[link] else { return Ok(pushed) };
        // Ends: each turn sends some of the bytes, and windows bound what follows them.
        while !connection.http2.out().is_empty() {
            match self.io.send_now(token, socket, connection.http2.out()) {
                Ok(sent) => {
                    pushed += sent;
                    connection.http2.wrote(sent);
                    if T::STAGES {
                        connection.leaving.push(FLUSHED);
                        connection.flushed = (std::mem::take(&mut connection.unflushed), sent as u64);
                    }
                    if connection.http2.unfinished() {
                        connection.http2.resume(&self.proto.requests);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _ = self.io.want_writable(token, socket); // if it fails, the requests time out
                    return Ok(pushed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pushed)
    }

    /// Lets places send that wait for their link, or for the server to allow more streams.
    pub(super) fn wake_places(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        for index in self.places(link) {
            let state = self.proto.places[index].place.state;
            let allowed = index - link * self.proto.streams < self.links[link].proto.http2.max_streams();
            match state {
                State::Connecting if !allowed => self.shut(index, block_run),
                State::Connecting | State::Shut if allowed => {
                    self.proto.places[index].place.state = State::Idle;
                    self.send_next(index, now_ns, block_run);
                }
                _ => {}
            }
        }
    }

    /// The server does not allow the place's stream; a permit that the place holds goes to others.
    #[cold]
    fn shut(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let stream = &mut self.proto.places[index];
        (stream.place.state, stream.place.fresh) = (State::Shut, false);
        if stream.place.due_ns != 0 {
            block_run.release_permit(std::mem::take(&mut stream.place.due_ns));
        }
    }

    /// Whether the server allows enough streams for this place. If not, the place is set aside until it does.
    #[inline]
    pub(super) fn allowed(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) -> bool {
        let (link, slot) = self.proto.of(index);
        let connection = &self.links[link].proto;
        let allowed = connection.state != LinkState::Open || slot < connection.http2.max_streams();
        if !allowed {
            self.shut(index, block_run);
        }
        allowed
    }

    /// Queues the place's next request; the next flush sends it.
    #[inline]
    pub(super) fn send_stream(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (link, slot) = self.proto.of(index);
        if self.links[link].proto.state != LinkState::Open {
            self.proto.places[index].place.state = State::Closed;
            if block_run.reserve_permit(&mut self.proto.places[index].place.due_ns) {
                self.want_link(index, now_ns, block_run);
            }
            return;
        }
        if !block_run.take_permit(&mut self.proto.places[index].place.due_ns) {
            return;
        }
        let number = self.core.cycle.next as u32;
        let connection = &mut self.links[link].proto;
        connection.http2.open(slot, number, &self.proto.requests);
        connection.leaving.push(slot as u32);
        connection.unflushed += 1;
        if connection.http2.streams_left() == 0 {
            connection.state = LinkState::Ending;
        }
        let stream = &mut self.proto.places[index];
        (stream.place.state, stream.place.exchange) = (State::Waiting, number);
        if !stream.place.fresh {
            stream.place.since_ns = now_ns; // preliminary: the send time follows
        }
        self.make_dirty(link);
        self.core.cycle.advance(&self.core.plan.sequence);
        self.core.ledger.outstanding += 1;
        block_run.counts.sent += 1;
    }

    /// Queues the next requests of free places of an open link; the next flush sends them.
    #[inline]
    pub(super) fn send_several(
        &mut self,
        link: usize,
        slots: &[u32],
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let (first, connection) = (link * self.proto.streams, &mut self.links[link].proto);
        let has_room = connection.http2.max_streams() == self.proto.streams
            && connection.http2.streams_left() as usize > slots.len();
        if !(has_room && block_run.is_free(now_ns)) {
            return slots.iter().for_each(|slot| self.send_next(first + *slot as usize, now_ns, block_run));
        }
        for slot in slots {
            let (index, number) = (first + *slot as usize, self.core.cycle.next as u32);
            self.links[link].proto.http2.open(*slot as usize, number, &self.proto.requests);
            let stream = &mut self.proto.places[index];
            (stream.place.state, stream.place.exchange) = (State::Waiting, number);
            stream.place.since_ns = now_ns; // preliminary: the send time follows
            self.core.cycle.advance(&self.core.plan.sequence);
        }
        let connection = &mut self.links[link].proto;
        connection.leaving.extend_from_slice(slots);
        connection.unflushed += slots.len();
        self.make_dirty(link);
        self.core.ledger.outstanding += slots.len();
        block_run.counts.sent += slots.len() as u64;
    }

    pub(super) fn make_dirty(&mut self, link: usize) {
        if !std::mem::replace(&mut self.links[link].proto.dirty, true) {
            self.proto.dirty.push(link);
        }
    }

    /// Sends the queued bytes of all links.
    #[inline]
    pub(super) fn flush_links(&mut self, block_run: &mut BlockRun<impl LoadModel>) {
        // Ends: flushing a link adds none.
        while let Some(link) = self.proto.dirty.pop() {
            self.flush_link(link, block_run);
        }
    }

    #[inline]
    pub(super) fn flush_link(&mut self, link: usize, block_run: &mut BlockRun<impl LoadModel>) {
        self.links[link].proto.dirty = false;
        if self.links[link].proto.http2.out().is_empty() {
            return;
        }
        if T::STAGES {
            // The transport only queues the bytes, and reports the result later.
            match self.push_link(link) {
                Ok(bytes) => block_run.counts.bytes_out += bytes as u64,
                Err(_) => {
                    let connection = &mut self.links[link].proto;
                    connection.flushed = (std::mem::take(&mut connection.unflushed), 0);
                    self.link_unsent(link, block_run);
                }
            }
            return;
        }
        let sent_ns = sys::now_ns(); // no byte is sent before this
        let pushed = self.push_link(link);
        let (first, connection) = (link * self.proto.streams, &mut self.links[link].proto);
        match pushed {
            Ok(bytes) => {
                block_run.counts.bytes_out += bytes as u64;
                for slot in connection.leaving.drain(..) {
                    let stream = &mut self.proto.places[first + slot as usize];
                    if stream.place.state == State::Waiting && !stream.place.fresh {
                        stream.place.depart(sent_ns, block_run);
                    }
                }
            }
            // The server had closed the connection while it was idle: nothing was sent.
            Err(_) if connection.http2.active() == connection.leaving.len() && !connection.fresh => {
                let leaving = std::mem::take(&mut connection.leaving);
                self.drop_link(link);
                for slot in leaving {
                    self.unprocessed(first + slot as usize, block_run);
                    self.want_link(first + slot as usize, sent_ns, block_run);
                }
            }
            // The next read fails these requests.
            Err(_) => connection.leaving.clear(),
        }
    }

    /// A flush was sent at this time: the latest one whose send time was not known.
    #[inline]
    pub(super) fn link_departed(&mut self, token: u64, sent_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (link, generation) = split_token(token);
        if self.links[link].generation != generation {
            return;
        }
        let (first, connection) = (link * self.proto.streams, &mut self.links[link].proto);
        let Some(end) = connection.leaving.iter().rposition(|slot| *slot == FLUSHED) else { return };
        let begin = connection.leaving[..end].iter().rposition(|slot| *slot == FLUSHED).map_or(0, |before| before + 1);
        for slot in connection.leaving.drain(begin..=end).take(end - begin) {
            let stream = &mut self.proto.places[first + slot as usize];
            if stream.place.state == State::Waiting && !stream.place.fresh {
                stream.place.depart(sent_ns, block_run);
            }
        }
    }

    /// The kernel reports that nothing of the latest flush was sent. If the flush had all requests in flight, the server had
    /// closed the connection while it was idle, and nothing is lost. Otherwise the next read fails the requests.
    #[cold]
    pub(super) fn link_unsent(&mut self, link: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let connection = &self.links[link].proto;
        let (requests, bytes) = connection.flushed;
        if connection.state != LinkState::Open || connection.fresh || connection.http2.active() != requests {
            return;
        }
        block_run.counts.bytes_out -= bytes;
        let now_ns = sys::now_ns();
        let unsent: Vec<usize> =
            self.places(link).filter(|index| self.proto.places[*index].place.state == State::Waiting).collect();
        self.drop_link(link);
        for index in unsent {
            self.unprocessed(index, block_run);
            self.want_link(index, now_ns, block_run);
        }
    }

    /// The server has not processed a request: it is sent again and counted once, and its latency continues.
    pub(super) fn unprocessed(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        self.core.ledger.outstanding -= 1;
        block_run.counts.sent -= 1;
        let stream = &mut self.proto.places[index];
        block_run.keep_permit(&mut stream.place.due_ns);
        (stream.place.state, stream.place.fresh) = (State::Closed, true);
        stream.reader.reset();
    }
}
