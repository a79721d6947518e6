//! How a link ends: by agreement, by a fault of the server's, or late; and what becomes of the requests on it.

use super::super::{MOST_LINGERING, WorkerSession};
use super::{Link, LinkState, why_broken};
use crate::block_run::{BlockRun, LoadModel};
use crate::conn::{Linger, State};
use crate::failure::Failure;
use crate::http2::Broken;
use crate::http2::frame::{code, code_name};
use crate::io::Poller;
use std::io::{Error, ErrorKind};

impl<P: Poller> WorkerSession<P> {
    /// Closes a link that takes nothing new once nothing is under way; a new one is opened for whoever waits.
    pub(super) fn link_may_end(&mut self, link: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let here = &mut self.links.all[link];
        if here.state != LinkState::Ending || here.http2.active() > 0 {
            return;
        }
        here.http2.go_away(code::NO_ERROR);
        let _ = self.push_link(link).map(|bytes| block_run.counts.bytes_out += bytes as u64);
        self.linger_link(link, now_ns);
        if self.places(link).any(|index| self.conns[index].state == State::Connecting) {
            self.begin_link(link, now_ns, block_run);
        }
    }

    /// Leaves a link to the server's closing, as long as there are not too many of them.
    fn linger_link(&mut self, link: usize, now_ns: u64) {
        if self.lingerers >= MOST_LINGERING {
            return self.drop_link(link);
        }
        self.forget(link);
        let token = self.links.token(link);
        let here = &mut self.links.all[link];
        here.state = LinkState::Closed;
        if let Some(socket) = here.socket.take() {
            self.lingering[link] = Some(Linger { socket, token, since_ns: now_ns });
            self.lingerers += 1;
        }
    }

    pub(super) fn drop_link(&mut self, link: usize) {
        let token = self.links.token(link);
        let here = &mut self.links.all[link];
        here.state = LinkState::Closed;
        here.leaving.clear();
        if let Some(socket) = here.socket.take() {
            self.poller.release(token, socket);
        }
    }

    /// The server takes no new streams here, and has not looked at those above `last`: these leave again elsewhere.
    pub(super) fn going_away(
        &mut self,
        link: usize,
        last: u32,
        code: u32,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let here = &mut self.links.all[link];
        if here.state == LinkState::Greeting {
            let why = format!("HTTP/2: the server says GOAWAY ({})", code_name(code));
            return self.link_unconnected(link, &Error::other(why), now_ns, block_run);
        }
        here.state = LinkState::Ending;
        here.farewell = (code != code::NO_ERROR).then_some(code); // told where it costs a request
        for index in self.places(link) {
            let slot = index - link * self.links.streams;
            let here = &mut self.links.all[link];
            if here.http2.id(slot) > last {
                here.http2.forget(slot);
                self.unprocessed(index, block_run);
                self.conns[index].state = State::Connecting; // it waits for the next link
            }
        }
        self.link_may_end(link, now_ns, block_run);
    }

    /// The server broke the protocol: what is under way has no readable answer.
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
        if self.links.all[link].state == LinkState::Greeting {
            return self.link_unconnected(link, &Error::new(ErrorKind::Unsupported, why), now_ns, block_run);
        }
        if self.links.all[link].http2.active() == 0 {
            block_run.mishap(Failure::BadResponse);
            self.sample.note(Failure::BadResponse, why.as_bytes());
        }
        self.link_lost(link, Failure::BadResponse, &why, now_ns, block_run);
    }

    /// A link has ended, and with it what was under way.
    #[cold]
    pub(super) fn link_lost(
        &mut self,
        link: usize,
        failure: Failure,
        why: &str,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let Link { state, fresh, .. } = self.links.all[link];
        if state == LinkState::Greeting {
            let error = Error::new(ErrorKind::Unsupported, format!("HTTP/2: no SETTINGS from the server: {why}"));
            return self.link_unconnected(link, &error, now_ns, block_run);
        }
        self.drop_link(link);
        let was_in = |session: &Self, state| -> Vec<usize> {
            session.places(link).filter(|index| session.conns[*index].state == state).collect()
        };
        let (lost, idle, wanting) =
            (was_in(self, State::Waiting), was_in(self, State::Idle), was_in(self, State::Connecting));
        if !lost.is_empty() {
            let farewell = self.links.all[link].farewell;
            let farewell = farewell.map(|code| format!("HTTP/2: the server says GOAWAY ({})", code_name(code)));
            self.sample.note(failure, farewell.as_deref().unwrap_or(why).as_bytes());
        }
        for index in &lost {
            self.outstanding -= 1;
            self.failed(*index, failure, block_run);
            self.conns[*index].reader.reset();
            self.conns[*index].fresh = false;
        }
        for index in lost.iter().chain(&idle) {
            self.conns[*index].state = State::Closed;
        }
        for index in lost {
            if fresh {
                self.rest(index, now_ns); // a server that takes connections and drops them is not to be hammered
            } else {
                self.send_next(index, now_ns, block_run);
            }
        }
        for index in wanting {
            self.want_link(index, now_ns, block_run);
        }
    }

    /// Fails what has taken too long.
    pub(in crate::worker) fn scan_links(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let limit_ms = self.plan.timeout_ns / 1_000_000;
        let timeout_ns = self.plan.timeout_ns;
        let late = |since_ns: u64| now_ns.saturating_sub(since_ns) >= timeout_ns;
        for link in 0..self.links.all.len() {
            self.close_former(link, now_ns);
        }
        let opening: Vec<usize> = (0..self.links.all.len())
            .filter(|link| {
                let link = &self.links.all[*link];
                matches!(link.state, LinkState::Connecting | LinkState::Greeting) && late(link.since_ns)
            })
            .collect();
        let waiting: Vec<usize> = (0..self.conns.len())
            .filter(|index| self.conns[*index].state == State::Waiting && late(self.conns[*index].since_ns))
            .collect();
        for link in opening {
            let error = Error::new(ErrorKind::TimedOut, format!("not connected within {limit_ms} ms"));
            self.link_unconnected(link, &error, now_ns, block_run);
        }
        for index in waiting {
            let (link, slot) = self.links.of(index);
            let here = &mut self.links.all[link];
            if self.conns[index].state != State::Waiting || here.http2.id(slot) == 0 {
                continue;
            }
            if here.heard_ns < self.conns[index].since_ns && here.state == LinkState::Open {
                here.state = LinkState::Ending; // nothing has been heard since: it takes nothing new
            }
            here.http2.cancel(slot, code::CANCEL);
            self.make_dirty(link);
            self.sample.note(Failure::Timeout, format!("no complete answer within {limit_ms} ms").as_bytes());
            self.outstanding -= 1;
            self.failed(index, Failure::Timeout, block_run);
            self.free_place(index, now_ns, block_run);
        }
    }
}
