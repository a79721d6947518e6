//! Sessions whose requests a script makes while the load goes on: when it is asked, and what it is told.
//!
//! As in wrk, what a script makes at once leaves at once, and the next call for a connection comes when all of that is
//! answered.

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

/// An answer is kept for its script up to here; of a longer one the beginning is shown.
const MAX_KEPT: usize = 64 << 20;

/// What a session has besides, where a script makes its requests.
pub(super) struct Scripted {
    script: SharedScript,
    delays: bool,
    /// By connection, the bytes of the answer that is due; empty where nobody wants to see them.
    kept: Vec<Vec<u8>>,
    /// (due, index) of connections whose next request waits for its time.
    pauses: BinaryHeap<Reverse<(u64, usize)>>,
    /// By connection: its next request has had its pause.
    paused: Vec<bool>,
    /// No more requests leave: the script stopped, or failed.
    halted: bool,
    /// Of requests that the script made at once, how long each is, and its kind of answer.
    kinds: Vec<(usize, u32)>,
}

impl Scripted {
    /// For a share of so many connections, if the plan has a script.
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

    /// Whether the script wants no more requests to leave.
    pub fn halted(&self) -> bool {
        self.halted
    }

    /// Keeps what arrived for the answer that is due.
    #[inline]
    pub fn keep(&mut self, index: usize, bytes: &[u8]) {
        if let Some(kept) = self.kept.get_mut(index) {
            let room = MAX_KEPT - kept.len();
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Forgets what was kept of an answer that never became whole.
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

    /// As the next block should find it.
    pub fn tidy(&mut self) {
        self.pauses.clear();
        self.kept.iter_mut().for_each(Vec::clear);
        self.paused.iter_mut().for_each(|paused| *paused = false);
    }
}

/// Nobody else holds it while a block runs.
fn held(script: &SharedScript) -> MutexGuard<'_, dyn Script + 'static> {
    script.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Transport> Worker<T, Http1<Pipelined>> {
    /// Sends what the script makes next, unless something is under way or a pause comes first.
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

    /// Whether the script made something to send now; it has the right to leave.
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
                self.links[index].proto.extra.freed.clear(); // the connection waits by the script's will, not for us
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

    /// Notes each of the requests in these bytes as under way; those that may not leave any more are taken off.
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
        while at < bytes.len() {
            let (length, bodiless) = script::first_request(&bytes[at..])?;
            kinds.push((length, u32::from(bodiless)));
            at += length;
        }
        at = 0;
        for (length, kind) in &*kinds {
            if count > 0 && !block_run.take_permit(&mut self.links[index].proto.place.due_ns) {
                break;
            }
            if let Some(arrived_ns) = self.links[index].proto.extra.freed.pop_front() {
                block_run.record_turnaround(now_ns, arrived_ns);
            }
            self.put(index, *kind, now_ns);
            self.links[index].proto.place.first_ns = 0;
            at += length;
            count += 1;
        }
        self.links[index].proto.extra.freed.clear(); // fewer may leave than were answered
        bytes.truncate(at);
        Ok(count)
    }

    /// The run is over, on all workers.
    #[cold]
    fn fail(&self, scripted: &mut Scripted, block_run: &BlockRun<impl LoadModel>) {
        scripted.halted = true;
        block_run.window.stop.store(true, Ordering::Relaxed);
    }

    /// Shows the script an answer that is complete; of one that can't be read it sees nothing.
    #[inline]
    pub(super) fn show_script(&mut self, index: usize, verdict: &Verdict, block_run: &BlockRun<impl LoadModel>) {
        if self.proto.mode.scripted.as_ref().is_some_and(|scripted| !scripted.kept.is_empty()) {
            self.show(index, verdict, block_run);
        }
    }

    fn show(&mut self, index: usize, verdict: &Verdict, block_run: &BlockRun<impl LoadModel>) {
        let bodiless = self.links[index].proto.place.exchange == 1;
        let Some(mut scripted) = self.proto.mode.scripted.take() else { return };
        let kept = std::mem::take(&mut scripted.kept[index]);
        if verdict.wrong != Some(Wrong::Response) {
            let mut told = Ok(());
            let mut script = held(&scripted.script);
            let _ = script::answer(&kept, bodiless, &mut |answer| told = script.response(answer));
            drop(script);
            if told.is_err() {
                self.fail(&mut scripted, block_run);
            }
        }
        scripted.kept[index] = kept;
        scripted.kept[index].clear();
        self.proto.mode.scripted = Some(scripted);
    }

    /// Goes on with connections whose pause is over.
    pub(super) fn wake_paused(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
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
