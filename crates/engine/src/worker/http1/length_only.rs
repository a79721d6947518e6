//! Large bodies that are counted in the kernel's buffers instead of being copied and compared.
//!
//! Needs a transport with [`Transport::DISCARDS`]. A server that begins to send other bytes of the same length is still
//! found, because some responses are always read and compared.

use super::super::{MAX_READS, Worker, broken_by};
use super::{Http1, Mode, Untimed};
use crate::block_run::{BlockRun, LoadModel};
use crate::coalescing::MIN_LARGE;
use crate::io::{self, Carrier, Transport};
use crate::plan::SessionPlan;
use crate::response::Expect;
use crate::sys;
use std::io::ErrorKind;

/// The first bodies of a worker's share that are read and compared.
const FIRST_WHOLE: u64 = 64;
/// After them, one in this many bodies is read and compared.
const WHOLE_EVERY: u64 = 64;
/// Length of the first read of a response: enough for a head.
const FIRST_READ: usize = 4096;

/// Large bodies are counted, not read.
pub(in crate::worker) struct LengthOnly {
    /// Large bodies so far.
    large: u64,
}

/// What is done with the rest of a response's body.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::worker) enum Body {
    /// Not decided yet.
    #[default]
    Undecided,
    /// It is counted in the kernel's buffers.
    Counted,
    /// It is read and compared.
    Whole,
}

impl Mode for LengthOnly {
    type Extra = Body;
    type FirstByte = Untimed;

    const NEEDS_EPOLL: Option<&'static str> = Some("large bodies are counted in the kernel's buffers");
    const DISCARDS: bool = true;
    const MIN_OUTSTANDING: usize = MIN_LARGE;

    fn prepare(_: &SessionPlan, _: usize) -> Self {
        Self { large: 0 }
    }

    #[inline]
    fn reset(body: &mut Body) {
        *body = Body::Undecided;
    }

    /// The first read is short, so that it copies little of a body that may be counted.
    #[inline]
    fn room(body: &Body, buffer: usize) -> usize {
        if *body == Body::Whole { buffer } else { FIRST_READ.min(buffer) }
    }

    #[inline]
    fn read<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        if worker.links[index].proto.extra == Body::Counted {
            worker.count_body(index, closing, block_run);
        } else {
            worker.read(index, closing, block_run, buffer);
        }
    }

    #[inline]
    fn takes_over<T: Transport>(
        worker: &mut Worker<T, Http1<Self>>,
        index: usize,
        closing: bool,
        block_run: &mut BlockRun<impl LoadModel>,
    ) -> bool {
        let counts = worker.may_count_only(index);
        if counts {
            worker.count_body(index, closing, block_run);
        }
        counts
    }
}

impl<T: Transport> Worker<T, Http1<LengthOnly>> {
    /// Decides, after a read that did not complete the response, whether the rest of the body is counted.
    fn may_count_only(&mut self, index: usize) -> bool {
        let link = &mut self.links[index].proto;
        if link.reader.body_left() == 0 || link.extra == Body::Whole {
            return false;
        }
        let large = &mut self.proto.mode.large;
        *large += 1;
        let whole = *large <= FIRST_WHOLE || large.is_multiple_of(WHOLE_EVERY);
        link.extra = if whole { Body::Whole } else { Body::Counted };
        !whole
    }

    /// Counts the bytes of the body that have arrived.
    fn count_body(&mut self, index: usize, closing: bool, block_run: &mut BlockRun<impl LoadModel>) {
        for _ in 0..MAX_READS {
            let link = &mut self.links[index];
            let Some(socket) = link.socket.as_ref().and_then(Carrier::socket) else { return };
            let discarded = io::discard(socket, link.proto.reader.body_left());
            let now_ns = sys::now_ns();
            block_run.read_cpu_at_bound(now_ns);
            let (got, stamp_ns) = match discarded {
                Ok((0, _)) => return self.peer_closed(index, now_ns, block_run),
                Ok(discarded) => discarded,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted => continue,
                    _ => return self.lost(index, broken_by(&error), &error.to_string(), now_ns, block_run),
                },
            };
            block_run.counts.bytes_in += got;
            let place = &mut link.proto.place;
            let expect = Expect::from(&self.core.plan.exchanges[place.exchange as usize]);
            if let Some(verdict) = link.proto.reader.skip_body(got, &expect) {
                place.arrived_ns = self.core.clock.clocks.arrival_ns(stamp_ns, place.since_ns, now_ns);
                return self.answered(index, verdict, closing, now_ns, block_run);
            }
            if !closing {
                return; // nothing is left; an event reports more
            }
        }
        self.core.unread.push_back((self.links[index].token(index), closing));
    }
}
