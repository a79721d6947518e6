//! Sessions whose requests are made by a script during the load: when its functions are called, and with what.
//!
//! As in wrk, all requests that one call makes are sent together. The next call for the same connection follows when all of
//! them have their responses.

use super::super::Worker;
use super::super::link::State;
use super::{Http1, Pipelined};
use crate::block_run::{BlockRun, LoadModel};
use crate::io::Transport;
use crate::plan::SessionPlan;
use crate::response::{Verdict, Wrong};
use crate::schedule::NEVER_NS;
use crate::script::{self, Failed, Script, SharedScript};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

/// How much of a response is kept for the script, bytes; the script sees the beginning of a longer one.
const MAX_KEPT: usize = 64 << 20;

/// The state of a session with a script.
pub(super) struct Scripted {
    script: SharedScript,
    delays: bool,
    /// By connection, the bytes of the response that is due; empty if the script does not read responses.
    kept: Vec<Vec<u8>>,
    /// (due, number) of connections in a pause before their next request.
    pauses: BinaryHeap<Reverse<(u64, usize)>>,
    /// By connection: the pause before its next request is over, or has begun.
    paused: Vec<bool>,
    /// No more requests are sent: the script has stopped or failed.
    halted: bool,
    /// Length and kind of response of each request that one call made.
    kinds: Vec<(usize, u32)>,
}

impl Scripted {
    /// For a share with this many connections, if the plan has a script.
    pub fn of(plan: &SessionPlan, count: usize) -> Option<Box<Self>> {
        let script = plan.scripts.first()?.clone();
        let (delays, listens) = {
            let held = held(&script);
            (held.delays(), held.listens())
        };
        Some(Box::new(Self {
            script,
            delays,
            kept: (0..if listens { count } else { 0 }).map(|_| Vec::new()).collect(),
            pauses: BinaryHeap::with_capacity(if delays { count } else { 0 }),
            paused: vec![false; count],
            halted: false,
            kinds: Vec::new(),
        }))
    }

    /// Whether no more requests are sent.
    pub fn halted(&self) -> bool {
        self.halted
    }

    /// Keeps bytes of the response that is due.
    #[inline]
    pub fn keep(&mut self, index: usize, bytes: &[u8]) {
        if let Some(kept) = self.kept.get_mut(index) {
            let room = MAX_KEPT - kept.len();
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Discards the bytes of an incomplete response.
    pub fn forget(&mut self, index: usize) {
        if let Some(kept) = self.kept.get_mut(index) {
            kept.clear();
        }
    }

    /// When the first pause is over.
    #[inline]
    pub fn pause_ends_ns(&self) -> u64 {
        self.pauses.peek().map_or(NEVER_NS, |Reverse((due_ns, _))| *due_ns)
    }

    /// Resets the state for the next block.
    pub fn tidy(&mut self) {
        self.pauses.clear();
        self.kept.iter_mut().for_each(Vec::clear);
        self.paused.iter_mut().for_each(|paused| *paused = false);
    }
}

/// Locks the script; no other thread uses it while a block runs.
fn held(script: &SharedScript) -> MutexGuard<'_, dyn Script + 'static> {
    script.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Transport> Worker<T, Http1<Pipelined>> {
    /// Sends the requests that the script makes next, unless some are in flight or a pause comes first.
    pub(super) fn fill_by_script(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if self.links[index].proto.place.state != State::Idle || !block_run.may_send(now_ns) {
            return;
        }
        let Some(mut scripted) = self.proto.mode.scripted.take() else { return };
        let mut together = std::mem::take(&mut self.proto.mode.together);
        together.clear();
        let made = self.ask(&mut scripted, index, now_ns, &mut together, block_run);
        let mut left = 0;
        match made {
            Ok(true) => match self.put_all(index, &mut together, &mut scripted.kinds, now_ns, block_run) {
                Ok(count) => left = count,
                Err(why) => {
                    block_run.return_permit();
                    held(&scripted.script).refuse(why);
                    self.fail(&mut scripted, block_run);
                }
            },
            Ok(false) => {}
            Err(Failed) => self.fail(&mut scripted, block_run),
        }
        self.proto.mode.scripted = Some(scripted);
        if left > 0 {
            self.send_together(index, &together, left, now_ns, block_run);
        }
        self.proto.mode.together = together;
    }

    /// Calls the script; whether it has made requests to send now, for which a permit was taken.
    fn ask(
        &mut self,
        scripted: &mut Scripted,
        index: usize,
        now_ns: u64,
        into: &mut Vec<u8>,
        block_run: &mut BlockRun<impl LoadModel>,
    ) -> Result<bool, Failed> {
        let mut script = held(&scripted.script);
        if scripted.halted || script.stopped() {
            scripted.halted = true;
            return Ok(false);
        }
        if scripted.delays && !std::mem::replace(&mut scripted.paused[index], true) {
            let pause_ns = script.delay_ns()?;
            if pause_ns > 0 {
                self.links[index].proto.extra.freed.clear(); // the script makes the connection wait, not the generator
                scripted.pauses.push(Reverse((now_ns.saturating_add(pause_ns), index)));
                return Ok(false);
            }
        }
        if !block_run.take_permit(&mut self.links[index].proto.place.due_ns) {
            return Ok(false);
        }
        scripted.paused[index] = false;
        script.request(into).inspect_err(|_| block_run.return_permit())?;
        Ok(true)
    }

    /// Records each of the requests in these bytes as in flight; removes those that may not be sent. Returns how many remain.
    fn put_all(
        &mut self,
        index: usize,
        bytes: &mut Vec<u8>,
        kinds: &mut Vec<(usize, u32)>,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) -> Result<usize, &'static str> {
        let (mut at, mut count) = (0, 0);
        kinds.clear();
        // Ends: a request has a length.
        while at < bytes.len() {
            let form = script::first_request(&bytes[at..])?;
            kinds.push((form.length, form.kind()));
            at += form.length;
        }
        at = 0;
        for (length, kind) in &*kinds {
            if count > 0 && !block_run.take_permit(&mut self.links[index].proto.place.due_ns) {
                break;
            }
            self.put(index, (*kind, *length as u32), now_ns, block_run);
            at += length;
            count += 1;
        }
        self.links[index].proto.extra.freed.clear(); // fewer may be sent than had responses
        bytes.truncate(at);
        Ok(count)
    }

    /// Ends the run, on all workers.
    #[cold]
    fn fail(&self, scripted: &mut Scripted, block_run: &BlockRun<impl LoadModel>) {
        scripted.halted = true;
        block_run.window.stop.store(true, Ordering::Relaxed);
    }

    /// Passes a complete response to the script, unless it can't be read.
    #[inline]
    pub(super) fn show_script(&mut self, index: usize, verdict: &Verdict, block_run: &BlockRun<impl LoadModel>) {
        if self.proto.mode.scripted.as_ref().is_some_and(|scripted| !scripted.kept.is_empty()) {
            self.show(index, verdict, block_run);
        }
    }

    fn show(&mut self, index: usize, verdict: &Verdict, block_run: &BlockRun<impl LoadModel>) {
        let bodiless = self.links[index].proto.place.exchange & 1 == 1;
        let Some(mut scripted) = self.proto.mode.scripted.take() else { return };
        let kept = std::mem::take(&mut scripted.kept[index]);
        if verdict.wrong != Some(Wrong::Response) {
            let mut result = Ok(());
            let mut script = held(&scripted.script);
            let _ = script::answer(&kept, bodiless, &mut |response| result = script.response(response));
            drop(script);
            if result.is_err() {
                self.fail(&mut scripted, block_run);
            }
        }
        scripted.kept[index] = kept;
        scripted.kept[index].clear();
        self.proto.mode.scripted = Some(scripted);
    }

    /// Continues with connections whose pause is over.
    pub(super) fn wake_paused(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        // Ends: `now_ns` stays, and a pause lasts.
        while self.proto.mode.scripted.as_ref().is_some_and(|scripted| scripted.pause_ends_ns() <= now_ns) {
            let Some(Reverse((_, index))) =
                self.proto.mode.scripted.as_mut().and_then(|scripted| scripted.pauses.pop())
            else {
                return;
            };
            if matches!(self.links[index].proto.place.state, State::Idle | State::Closed) {
                self.send_next(index, now_ns, block_run);
            }
        }
    }
}
