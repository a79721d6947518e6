//! How responses are read, matched with their requests, judged and counted; then the connection's next request is sent.

use super::super::first_byte::FirstByte;
use super::super::link::State;
use super::super::{MAX_READS, Worker, broken_by};
use super::{Http1, Mode};
use crate::block_run::{BlockRun, LoadModel};
use crate::failure::Failure;
use crate::io::{Received, Transport};
use crate::response::{Expect, Verdict, Wrong};
use std::io::ErrorKind;

impl<T: Transport, M: Mode> Worker<T, Http1<M>> {
    /// Reads the response to the outstanding request: one read, unless more bytes are there or must be.
    #[inline]
    pub(super) fn read(
        &mut self,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        for _ in 0..MAX_READS {
            let Self { core, io, links, proto, .. } = self;
            let link = &mut links[index];
            let Some(socket) = &link.socket else { return };
            let link_here = &mut link.proto;
            let room = M::room(&link_here.extra, buffer.len());
            let received = io.receive(socket, &mut buffer[..room]);
            let now_ns = core.look_at_clock::<T>(received.as_ref().is_ok_and(|it| it.stamp_ns > 0), block_run);
            let (bytes, stamp_ns) = match received {
                Ok(Received { bytes: [], .. }) => return self.peer_closed(index, now_ns, block_run),
                Ok(Received { bytes, stamp_ns }) => (bytes, stamp_ns),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted => continue,
                    _ => return self.lost(index, broken_by(&error), &error.to_string(), now_ns, block_run),
                },
            };
            let got = bytes.len();
            block_run.counts.bytes_in += got as u64;
            let place = &mut link_here.place;
            M::FirstByte::read(place, |since_ns| core.clock.clocks.arrival_ns(stamp_ns, since_ns, now_ns));
            let expect = Expect::from(&core.plan.exchanges[place.exchange as usize]);
            let known = &mut proto.known[place.exchange as usize];
            let fed = link_here.reader.feed(bytes, &expect, known, &mut core.judge.sample);
            if let Some(mut verdict) = fed.verdict {
                if fed.used < got {
                    verdict = surplus(verdict);
                    let text = || {
                        format!("more bytes follow its end; they came: {}", String::from_utf8_lossy(&bytes[fed.used..]))
                    };
                    core.judge.sample.note_with(verdict.wrong.unwrap_or(Wrong::Response).into(), text);
                }
                place.arrived_ns = core.clock.clocks.arrival_ns(stamp_ns, place.since_ns, now_ns);
                return self.answered(index, verdict, closing, now_ns, block_run);
            }
            if M::takes_over(self, index, closing, block_run) || T::BRINGS_BYTES || got < room && !closing {
                return;
            }
        }
        self.core.unread.push_back((self.links[index].token(index), closing));
    }

    pub(super) fn peer_closed(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        let link = &mut self.links[index].proto;
        let expect = Expect::from(&self.core.plan.exchanges[link.place.exchange as usize]);
        match link.reader.end(&expect) {
            Some(verdict) => {
                link.place.arrived_ns = now_ns; // the end of a connection has no timestamp
                M::ended(self, index, &verdict, block_run);
                if let Some(wrong) = verdict.wrong {
                    let why = b"the connection's end left a body of another length than expected";
                    self.core.judge.sample.note(wrong.into(), why);
                }
                self.answered(index, verdict, true, now_ns, block_run);
            }
            None => {
                let why = "the server closed the connection before its response was complete";
                self.lost(index, Failure::ClosedEarly, why, now_ns, block_run);
            }
        }
    }

    /// The verdict on a complete response, and whether its request was not sent completely. Then its connection can't carry
    /// another one.
    #[inline]
    pub(super) fn unless_cut(&mut self, index: usize, verdict: Verdict) -> (Verdict, bool) {
        match M::cut(self, index) {
            None => (verdict, false),
            Some((sent, length)) => (self.core.judge.cut(verdict, sent, length), true),
        }
    }

    /// The response is complete, correct or not; the next request is sent.
    #[inline]
    pub(super) fn answered(
        &mut self,
        index: usize,
        verdict: Verdict,
        peer_closed: bool,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        let (verdict, cut) = self.unless_cut(index, verdict);
        let spent = self.spent(index);
        let status = self.links[index].proto.reader.status();
        self.count(index, &verdict, status, now_ns, block_run);
        let link = &mut self.links[index].proto;
        M::reset(&mut link.extra);
        if verdict.keep && self.core.plan.keepalive && !peer_closed && !spent {
            link.place.state = State::Idle;
        } else {
            let sound = !matches!(verdict.wrong, Some(Wrong::Response | Wrong::Length)) && !cut;
            if sound && !peer_closed {
                self.linger(index, now_ns);
            } else {
                self.discard(index);
            }
        }
        self.send_next(index, now_ns, block_run);
    }
}

/// The verdict on a response followed by more bytes, without another request: neither its framing nor what follows can be
/// trusted.
fn surplus(verdict: Verdict) -> Verdict {
    match verdict.wrong {
        Some(wrong) if !verdict.keep => Verdict { wrong: Some(wrong), keep: false },
        _ => Verdict { wrong: Some(Wrong::Response), keep: false },
    }
}
