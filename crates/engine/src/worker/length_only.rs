//! Large bodies that are counted where they lie instead of being copied and compared.
//!
//! Only over a back end with [`Poller::LENGTH_ONLY`]. A server that answers right for a while and wrong at the same length
//! later is still found: some answers are read whole all along.

use super::{MOST_READS, WorkerSession, broken_by};
use crate::block_run::{BlockRun, LoadModel};
use crate::io::{self, Carrier, Poller};
use crate::response::Expect;
use crate::sys;
use std::io::ErrorKind;

/// A worker reads so many of a session's large bodies whole at first.
const FIRST_WHOLE: u64 = 64;
/// And one in so many later.
const WHOLE_EVERY: u64 = 64;

impl<P: Poller> WorkerSession<P> {
    /// Whether the rest of this answer may be counted only; to be asked after each read that did not end it.
    pub(super) fn may_count_only(&mut self, index: usize) -> bool {
        let conn = &mut self.conns[index];
        if conn.reader.owed() == 0 || conn.whole {
            return false;
        }
        self.large += 1;
        conn.whole = self.large <= FIRST_WHOLE || self.large.is_multiple_of(WHOLE_EVERY);
        conn.length_only = !conn.whole;
        conn.length_only
    }

    /// Counts what is there of the body.
    pub(super) fn count_body(&mut self, index: usize, closing: bool, block_run: &mut BlockRun<impl LoadModel>) {
        for _ in 0..MOST_READS {
            let conn = &mut self.conns[index];
            let Some(socket) = conn.socket.as_ref().and_then(Carrier::socket) else { return };
            let owed = conn.reader.owed();
            let discarded = io::discard(socket, owed);
            let now_ns = sys::now_ns();
            block_run.cross(now_ns);
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
            let expect = Expect::from(&self.plan.exchanges[conn.exchange as usize]);
            if let Some(verdict) = conn.reader.pass(got, &expect) {
                conn.arrived_ns = self.clocks.arrival_ns(stamp_ns, conn.since_ns, now_ns);
                return self.answered(index, verdict, closing, now_ns, block_run);
            }
            if !closing {
                return; // all that was there; more tells of itself
            }
        }
        self.unread.push_back((self.conns[index].token(index), closing));
    }
}
