//! Whether the time to a response's first byte is measured: a choice of each protocol, made when it is compiled.

use super::link::Place;
use crate::block_run::{BlockRun, LoadModel};

/// What is done about first bytes.
pub(super) trait FirstByte {
    /// The next request of a place is sent.
    fn begin(_: &mut Place) {}

    /// Bytes of the response are read; `arrival_ns` gives their arrival for the time at which the request was sent.
    #[inline]
    fn read(_: &mut Place, _arrival_ns: impl FnOnce(u64) -> u64) {}

    /// The response was correct; `requests_before`: correct responses recorded before it.
    #[inline]
    fn record(_: &Place, _requests_before: u64, _: &mut BlockRun<impl LoadModel>) {}
}

/// First bytes are not looked at.
pub(super) struct Untimed;

impl FirstByte for Untimed {}

/// First bytes are timed, if the session asks for it.
pub(super) struct Timed;

impl FirstByte for Timed {
    #[inline]
    fn begin(place: &mut Place) {
        place.first_ns = 0;
    }

    #[inline]
    fn read(place: &mut Place, arrival_ns: impl FnOnce(u64) -> u64) {
        if place.first_ns == 0 {
            place.first_ns = arrival_ns(place.since_ns);
        }
    }

    #[inline]
    fn record(place: &Place, requests_before: u64, block_run: &mut BlockRun<impl LoadModel>) {
        block_run.record_first_byte(requests_before, place.first_ns.saturating_sub(place.since_ns));
    }
}
