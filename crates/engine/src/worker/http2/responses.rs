//! How responses are read, matched with their requests, judged and counted.

use super::super::arrived::Arrived;
use super::super::link::State;
use super::super::{MAX_READS, Worker, broken_by};
use super::{Http2, LinkState, socket_of};
use crate::block_run::{BlockRun, LoadModel, Times};
use crate::failure::Failure;
use crate::http2::Event;
use crate::http2::frame::{code, code_name};
use crate::io::{Event as Ready, Received, Transport, split_token};
use crate::response::{Expect, Verdict, Wrong};
use std::io::{Error, ErrorKind};

impl<T: Transport> Worker<T, Http2> {
    /// One read into the buffer: how many bytes, and the timestamp.
    pub(super) fn receive_link(&mut self, link: usize, buffer: &mut [u8]) -> Result<(usize, u64), Error> {
        let socket = socket_of(&self.links[link])?;
        if T::BRINGS_BYTES {
            let Received { bytes, stamp_ns } = self.io.receive(socket, &mut [])?;
            buffer[..bytes.len()].copy_from_slice(bytes);
            return Ok((bytes.len(), stamp_ns));
        }
        self.io.receive(socket, buffer).map(|received| (received.bytes.len(), received.stamp_ns))
    }

    /// Handles an event of a link.
    #[inline]
    pub(super) fn link_event(&mut self, event: Ready, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        let (link, generation) = split_token(event.token);
        let connection = &self.links[link];
        if connection.generation != generation || connection.proto.state == LinkState::Closed {
            return self.closers.event(&mut self.io, event.token, event.closing);
        }
        if connection.proto.state == LinkState::Connecting {
            return self.link_handshake(link, event, block_run, buffer);
        }
        if event.unsent != 0 {
            return self.link_unsent(link, block_run);
        }
        if event.writable {
            if let Some(socket) = &connection.socket {
                self.io.go_on(event.token, socket);
            }
            self.flush_link(link, block_run);
        }
        if event.readable {
            self.read_link(event.token, event.closing, block_run, buffer);
        }
    }

    /// Reads what has arrived: one read, unless more bytes are there or must be. Then sends what that has queued.
    #[inline]
    pub(super) fn read_link(
        &mut self,
        token: u64,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        let (link, generation) = split_token(token);
        for _ in 0..MAX_READS {
            if self.links[link].generation != generation || self.links[link].socket.is_none() {
                return;
            }
            let received = self.take_arrived(link, buffer);
            let stamped = received.as_ref().is_ok_and(|(_, stamp_ns)| *stamp_ns > 0);
            let now_ns = self.core.look_at_clock::<T>(stamped, block_run);
            let (arrived, stamp_ns) = match received {
                Ok((Arrived::Read(0), _)) => {
                    let why = "the server closed the connection before its response was complete";
                    return self.link_lost(link, Failure::ClosedEarly, why, now_ns, block_run);
                }
                Ok(received) => received,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return self.flush_link(link, block_run),
                    ErrorKind::Interrupted => continue,
                    _ => return self.link_lost(link, broken_by(&error), &error.to_string(), now_ns, block_run),
                },
            };
            let bytes = arrived.bytes(buffer);
            let got = bytes.len();
            block_run.counts.bytes_in += got as u64;
            self.links[link].proto.heard_ns = now_ns;
            let before = block_run.counts.answered;
            self.take_frames(token, bytes, (stamp_ns, now_ns), block_run);
            self.take_back(arrived);
            if let Some(trial) = &mut self.proto.together_trial {
                trial.note(block_run.counts.answered - before);
            }
            if T::BRINGS_BYTES || got < buffer.len() && !closing {
                return self.flush_link(link, block_run);
            }
        }
        self.flush_link(link, block_run);
        self.core.unread.push_back((token, closing));
    }

    /// Matches bytes with the requests in flight.
    #[inline]
    fn take_frames(
        &mut self,
        token: u64,
        mut bytes: &[u8],
        (stamp_ns, now_ns): (u64, u64),
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let (link, generation) = split_token(token);
        let first = link * self.proto.streams;
        // The slot of a response that began in these bytes, and the bytes from its first one on.
        let mut began: Option<(usize, &[u8])> = None;
        // Ends: each turn uses some of the bytes, or returns.
        while !bytes.is_empty() && self.links[link].generation == generation {
            if self.links[link].socket.is_none() {
                return;
            }
            let held = self.io.unsent(token);
            if !self.core.judge.judges_more && held == 0 {
                let rest = self.take_repeated(link, bytes, (stamp_ns, now_ns), block_run);
                if rest.len() < bytes.len() {
                    bytes = rest;
                    continue;
                }
            }
            let connection = &mut self.links[link].proto;
            let (from, between_frames) = (bytes, connection.http2.between_frames());
            let (used, event) = match connection.http2.next(bytes) {
                Ok(next) => next,
                Err(broken) => return self.link_broken(link, &broken, now_ns, block_run),
            };
            bytes = &bytes[used..];
            let (slot, end, verdict) = match event {
                Event::More => continue,
                Event::Head { slot, status, deviates, length, end } => {
                    let stream = &mut self.proto.places[first + slot];
                    if stream.place.first_ns == 0 {
                        stream.place.first_ns =
                            self.core.clock.clocks.arrival_ns(stamp_ns, stream.place.since_ns, now_ns);
                    }
                    let exchange = &self.core.plan.exchanges[stream.place.exchange as usize];
                    let (expect, deviates) = (Expect::from(exchange), deviates >> exchange.kind & 1 == 1);
                    if deviates {
                        self.core.judge.sample.note(Failure::WrongHead, connection.http2.deviation().as_bytes());
                    }
                    if expect.is_wrong(status) {
                        self.core.judge.sample.note(Failure::WrongStatus, format!("HTTP/2 {status}").as_bytes());
                    }
                    began = between_frames.then_some((slot, from));
                    (slot, end, stream.reader.streamed_head((status, deviates), length, end, &expect))
                }
                Event::Data { slot, bytes, end } => {
                    let stream = &mut self.proto.places[first + slot];
                    let expect = Expect::from(&self.core.plan.exchanges[stream.place.exchange as usize]);
                    (slot, end, stream.reader.streamed_body(bytes, end, &expect))
                }
                Event::Malformed { slot, why } => {
                    self.core.judge.sample.note(Failure::BadResponse, format!("HTTP/2: {why}").as_bytes());
                    (slot, true, Some(Verdict { wrong: Some(Wrong::Response), keep: false }))
                }
                _ => {
                    self.control_event(link, event, now_ns, block_run);
                    continue;
                }
            };
            if let Some(mut verdict) = verdict {
                let http2 = &self.links[link].proto.http2;
                if let Some((sent, length)) = http2.cut(slot, held, &self.proto.requests) {
                    verdict = self.core.judge.cut(verdict, sent, length);
                }
                if let Some(wrong) = verdict.wrong {
                    self.note_wrong(wrong, event);
                } else if let Some((_, begin)) = began.take_if(|(began, _)| *began == slot) {
                    let answer = &begin[..begin.len() - bytes.len()];
                    self.links[link].proto.http2.remember(answer, self.proto.places[first + slot].place.exchange);
                }
                if !end {
                    self.links[link].proto.http2.cancel(slot, code::CANCEL);
                    self.make_dirty(link);
                }
                let stream = &mut self.proto.places[first + slot];
                stream.place.arrived_ns = self.core.clock.clocks.arrival_ns(stamp_ns, stream.place.since_ns, now_ns);
                self.stream_over(first + slot, verdict, now_ns, block_run);
            }
        }
    }

    /// Takes responses that repeat a correct one from the beginning of the bytes, and queues the next requests of their places.
    ///
    /// These responses arrived together. Those whose requests were sent together are counted at once.
    #[inline]
    fn take_repeated<'a>(
        &mut self,
        link: usize,
        bytes: &'a [u8],
        (stamp_ns, now_ns): (u64, u64),
        block_run: &mut BlockRun<impl LoadModel>,
    ) -> &'a [u8] {
        let connection = &mut self.links[link].proto;
        // A link that ends does so after its last response, so its responses are taken one by one.
        if connection.state != LinkState::Open {
            return bytes;
        }
        let mut over = std::mem::take(&mut self.proto.over);
        let Some(repeated) = connection.http2.take_repeated(bytes, &mut over) else {
            self.proto.over = over;
            return bytes;
        };
        connection.fresh = false;
        self.core.ledger.outstanding -= over.len();
        let first = link * self.proto.streams;
        let (mut batch, mut times) = (0, Times::default());
        for slot in &over {
            let stream = &mut self.proto.places[first + *slot as usize];
            stream.place.arrived_ns = self.core.clock.clocks.arrival_ns(stamp_ns, stream.place.since_ns, now_ns);
            let place = &mut stream.place;
            let own = Times { due_ns: place.due_ns, sent_ns: place.since_ns, arrived_ns: place.arrived_ns };
            (place.due_ns, place.fresh, place.state) = (0, false, State::Idle);
            if own != times && batch > 0 {
                self.count_batch(std::mem::take(&mut batch), times, now_ns, block_run);
            }
            (batch, times) = (batch + 1, own);
        }
        self.count_batch(batch, times, now_ns, block_run);
        block_run.counts.statuses.add_some(repeated.status, over.len() as u64);
        self.send_several(link, &over, now_ns, block_run);
        over.clear();
        self.proto.over = over;
        &bytes[repeated.bytes..]
    }

    #[cold]
    fn note_wrong(&mut self, wrong: Wrong, event: Event) {
        match event {
            Event::Head { status, length, .. } => {
                let length = length.map_or(String::new(), |length| format!(", content-length {length}"));
                self.core.judge.sample.note(wrong.into(), format!("HTTP/2 {status}{length}").as_bytes());
            }
            Event::Data { bytes: [], .. } => {
                self.core.judge.sample.note(wrong.into(), b"HTTP/2: the stream ended too early")
            }
            Event::Data { bytes, .. } => self.core.judge.sample.note(wrong.into(), bytes),
            _ => {}
        }
    }

    /// Handles an event that is not part of a response.
    #[cold]
    fn control_event(&mut self, link: usize, event: Event, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        self.make_dirty(link);
        match event {
            Event::Settings if self.links[link].proto.state == LinkState::Greeting => {
                self.greeted(link, now_ns, block_run)
            }
            Event::Settings => {
                self.links[link].proto.http2.resume(&self.proto.requests);
                if self.links[link].proto.state == LinkState::Open {
                    self.wake_places(link, now_ns, block_run);
                }
            }
            Event::Room => self.links[link].proto.http2.resume(&self.proto.requests),
            Event::GoAway { last, code } => self.going_away(link, last, code, now_ns, block_run),
            Event::Reset { slot, code: code::REFUSED_STREAM } => {
                let index = link * self.proto.streams + slot;
                block_run.count_error(Failure::RefusedStream);
                self.core
                    .judge
                    .sample
                    .note(Failure::RefusedStream, b"HTTP/2: the server reset a stream (REFUSED_STREAM)");
                self.unprocessed(index, block_run);
                self.rest(index, now_ns);
                self.link_may_end(link, now_ns, block_run);
            }
            Event::Reset { slot, code } => {
                let index = link * self.proto.streams + slot;
                let why = format!("HTTP/2: the server reset the stream ({})", code_name(code));
                self.core.judge.sample.note(Failure::Reset, why.as_bytes());
                self.core.ledger.outstanding -= 1;
                self.count_failed(index, Failure::Reset, block_run);
                self.free_place(index, now_ns, block_run);
            }
            _ => {}
        }
    }

    /// The response is complete, correct or not; the place's next request is queued.
    #[inline]
    fn stream_over(&mut self, index: usize, verdict: Verdict, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (link, _) = self.proto.of(index);
        self.links[link].proto.fresh = false;
        let status = self.proto.places[index].reader.status();
        self.count(index, &verdict, status, now_ns, block_run);
        self.free_place(index, now_ns, block_run);
    }

    /// The place's request is over: its next one is queued, on this link or on a new one.
    #[inline]
    pub(super) fn free_place(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let (link, _) = self.proto.of(index);
        let stream = &mut self.proto.places[index];
        stream.place.fresh = false;
        stream.reader.reset();
        if self.links[link].proto.state == LinkState::Open {
            stream.place.state = State::Idle;
            return self.send_next(index, now_ns, block_run);
        }
        stream.place.state = State::Closed;
        self.link_may_end(link, now_ns, block_run);
        if self.proto.places[index].place.state == State::Closed {
            self.send_next(index, now_ns, block_run);
        }
    }
}
