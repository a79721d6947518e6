//! How a link ends: in order, by an error, or by a timeout; and what becomes of its requests.

use super::super::Worker;
use super::super::link::State;
use super::{Http2, Http2Link, LinkState, why_broken};
use crate::block_run::{BlockRun, LoadModel};
use crate::failure::Failure;
use crate::http2::Broken;
use crate::http2::frame::{code, code_name};
use crate::io::Transport;
use std::io::{Error, ErrorKind};

impl<T: Transport> Worker<T, Http2> {
    /// Closes a link that accepts no new requests, once none is in flight; opens a new one if places wait for it.
    pub(super) fn link_may_end(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let connection = &mut self.links[link].proto;
        if connection.state != LinkState::Ending || connection.http2.active() > 0 {
            return;
        }
        connection.http2.go_away(code::NO_ERROR);
        let _ = self.push_link(link).map(|bytes| block_run.counts.bytes_out += bytes as u64);
        self.linger_link(link, now_ns);
        if self.places(link).any(|index| self.proto.places[index].place.state == State::Connecting) {
            self.begin_link(link, now_ns, block_run);
        }
    }

    /// Waits for the server to close a link, unless too many others wait.
    fn linger_link(&mut self, link: usize, now_ns: u64) {
        if !self.closers.has_room() {
            return self.drop_link(link);
        }
        let connection = &mut self.links[link];
        connection.proto.state = LinkState::Closed;
        if let Some(socket) = connection.socket.take() {
            self.closers.add(&mut self.io, connection.token(link), socket, now_ns);
        }
    }

    pub(super) fn drop_link(&mut self, link: usize) {
        let connection = &mut self.links[link];
        connection.proto.state = LinkState::Closed;
        connection.proto.leaving.clear();
        if let Some(socket) = connection.socket.take() {
            self.io.release(connection.token(link), socket);
        }
    }

    /// The server accepts no new streams on this link, and has not processed those above `last`: their requests are sent
    /// again on a new one.
    pub(super) fn going_away(
        &mut self,
        link: usize,
        last: u32,
        code: u32,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let connection = &mut self.links[link].proto;
        if connection.state == LinkState::Greeting {
            let why = format!("HTTP/2: the server sent GOAWAY ({})", code_name(code));
            return self.link_unconnected(link, &Error::other(why), now_ns, block_run);
        }
        connection.state = LinkState::Ending;
        connection.goaway_error = (code != code::NO_ERROR).then_some(code); // reported if requests fail because of it
        for index in self.places(link) {
            let slot = index - link * self.proto.streams;
            let connection = &mut self.links[link].proto;
            if connection.http2.id(slot) > last {
                connection.http2.forget(slot);
                self.unprocessed(index, block_run);
                self.proto.places[index].place.state = State::Connecting; // it waits for the new link
            }
        }
        self.link_may_end(link, now_ns, block_run);
    }

    /// The server violated the protocol: the responses in flight can't be read.
    #[cold]
    pub(super) fn link_broken(
        &mut self,
        link: usize,
        broken: &Broken,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let why = why_broken(broken);
        let _ = self.push_link(link).map(|bytes| block_run.counts.bytes_out += bytes as u64);
        if self.links[link].proto.state == LinkState::Greeting {
            return self.link_unconnected(link, &Error::new(ErrorKind::Unsupported, why), now_ns, block_run);
        }
        if self.links[link].proto.http2.active() == 0 {
            block_run.count_error(Failure::BadResponse);
            self.core.judge.sample.note(Failure::BadResponse, why.as_bytes());
        }
        self.link_lost(link, Failure::BadResponse, &why, now_ns, block_run);
    }

    /// A link has ended, and with it the requests in flight.
    #[cold]
    pub(super) fn link_lost(
        &mut self,
        link: usize,
        failure: Failure,
        why: &str,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let Http2Link { state, fresh, .. } = self.links[link].proto;
        if state == LinkState::Greeting {
            let error = Error::new(ErrorKind::Unsupported, format!("HTTP/2: no SETTINGS from the server: {why}"));
            return self.link_unconnected(link, &error, now_ns, block_run);
        }
        self.drop_link(link);
        let was_in = |session: &Self, state| -> Vec<usize> {
            session.places(link).filter(|index| session.proto.places[*index].place.state == state).collect()
        };
        let (lost, idle, wanting) =
            (was_in(self, State::Waiting), was_in(self, State::Idle), was_in(self, State::Connecting));
        if !lost.is_empty() {
            let goaway_error = self.links[link].proto.goaway_error;
            let goaway_error = goaway_error.map(|code| format!("HTTP/2: the server sent GOAWAY ({})", code_name(code)));
            self.core.judge.sample.note(failure, goaway_error.as_deref().unwrap_or(why).as_bytes());
        }
        for index in &lost {
            self.core.ledger.outstanding -= 1;
            self.count_failed(*index, failure, block_run);
            self.proto.places[*index].reader.reset();
            self.proto.places[*index].place.fresh = false;
        }
        for index in lost.iter().chain(&idle) {
            self.proto.places[*index].place.state = State::Closed;
        }
        for index in lost {
            if fresh {
                self.rest(index, now_ns); // don't hammer a server that accepts connections and drops them
            } else {
                self.send_next(index, now_ns, block_run);
            }
        }
        for index in wanting {
            self.want_link(index, now_ns, block_run);
        }
    }

    /// Fails requests that have taken too long.
    pub(super) fn scan_streams(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let limit_ms = self.core.plan.timeout_ns / 1_000_000;
        let timeout_ns = self.core.plan.timeout_ns;
        let late = |since_ns: u64| now_ns.saturating_sub(since_ns) >= timeout_ns;
        for link in 0..self.links.len() {
            self.closers.close_late(&mut self.io, link, now_ns);
        }
        let opening: Vec<usize> = (0..self.links.len())
            .filter(|link| {
                let link = &self.links[*link].proto;
                matches!(link.state, LinkState::Connecting | LinkState::Greeting) && late(link.since_ns)
            })
            .collect();
        let waiting: Vec<usize> = (0..self.proto.places.len())
            .filter(|index| {
                self.proto.places[*index].place.state == State::Waiting
                    && late(self.proto.places[*index].place.since_ns)
            })
            .collect();
        for link in opening {
            let error = Error::new(ErrorKind::TimedOut, format!("not connected within {limit_ms} ms"));
            self.link_unconnected(link, &error, now_ns, block_run);
        }
        for index in waiting {
            let (link, slot) = self.proto.of(index);
            let connection = &mut self.links[link].proto;
            if self.proto.places[index].place.state != State::Waiting || connection.http2.id(slot) == 0 {
                continue;
            }
            if connection.heard_ns < self.proto.places[index].place.since_ns && connection.state == LinkState::Open {
                connection.state = LinkState::Ending; // nothing was received since: no new requests
            }
            connection.http2.cancel(slot, code::CANCEL);
            self.make_dirty(link);
            self.core
                .judge
                .sample
                .note(Failure::Timeout, format!("no complete response within {limit_ms} ms").as_bytes());
            self.core.ledger.outstanding -= 1;
            self.count_failed(index, Failure::Timeout, block_run);
            self.free_place(index, now_ns, block_run);
        }
    }
}
