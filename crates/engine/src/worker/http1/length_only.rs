//! Large bodies that are counted in the kernel's buffers instead of being copied and compared.
//!
//! Only over a transport with [`Transport::DISCARDS`]. A server that answers right for a while and wrong at the same length
//! later is still found: some answers are read whole all along.

use super::super::{MAX_READS, Worker, broken_by};
use super::{Http1, Mode};
use crate::block_run::{BlockRun, LoadModel};
use crate::coalescing::MIN_LARGE;
use crate::io::{self, Carrier, Transport};
use crate::plan::SessionPlan;
use crate::response::Expect;
use crate::sys;
use std::io::ErrorKind;

/// A worker reads this many of a session's large bodies whole at first.
const FIRST_WHOLE: u64 = 64;
/// And one in this many later.
const WHOLE_EVERY: u64 = 64;
/// The first read of an answer whose body may be counted: room for its head.
const FIRST_READ: usize = 4096;

/// Bodies are counted.
pub(in crate::worker) struct LengthOnly {
    /// Large bodies met so far: which of them are read whole.
    large: u64,
}

/// What happens to the rest of an answer's body.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::worker) enum Body {
    /// That is not known yet.
    #[default]
    Undecided,
    /// It is counted, not read.
    Counted,
    /// It is read, though it need not be.
    Whole,
}

impl Mode for LengthOnly {
    type Extra = Body;

    const NEEDS_EPOLL: Option<&'static str> = Some("large bodies are counted where they lie");
    const DISCARDS: bool = true;
    const MIN_OUTSTANDING: usize = MIN_LARGE;

    fn prepare(_: &SessionPlan, _: usize) -> Self {
        Self { large: 0 }
    }

    #[inline]
    fn reset(body: &mut Body) {
        *body = Body::Undecided;
    }

    /// A body that may be counted is not copied on the way to its head.
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
    /// Whether the rest of this answer may be counted only; to be asked after each read that did not end it.
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

    /// Counts what is there of the body.
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
                return; // all that was there; an event says when there is more
            }
        }
        self.core.unread.push_back((self.links[index].token(index), closing));
    }
}
