//! Sessions whose requests a script makes while the load goes on: when it is asked, and what it is told.
//!
//! Only sessions over a back end with [`Poller::EXTRAS`] come here. As in wrk, what a script makes at once leaves at once,
//! and the next call for a connection comes when all of that is answered.

use super::WorkerSession;
use crate::block_run::{BlockRun, LoadModel};
use crate::conn::State;
use crate::io::Poller;
use crate::plan::SessionPlan;
use crate::response::{Verdict, Wrong};
use crate::script::{self, Failed, Script, SharedScript};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

/// An answer is kept for its script up to here; of a longer one the beginning is shown.
const MOST_KEPT: usize = 64 << 20;

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
        }))
    }
}

/// Nobody else holds it while a block runs.
fn held(script: &SharedScript) -> MutexGuard<'_, dyn Script + 'static> {
    script.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Poller> WorkerSession<P> {
    /// Whether a script wants no more requests to leave.
    #[inline]
    pub(super) fn halted(&self) -> bool {
        P::EXTRAS && self.scripted.as_ref().is_some_and(|scripted| scripted.halted)
    }

    /// Sends what the script makes next, unless something is under way or a pause comes first.
    pub(super) fn fill_by_script(&mut self, index: usize, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        if self.conns[index].state != State::Idle || !block_run.open(now_ns) {
            return;
        }
        let Some(mut scripted) = self.scripted.take() else { return };
        let mut together = std::mem::take(&mut self.together);
        together.clear();
        let made = self.ask(&mut scripted, index, now_ns, &mut together, block_run);
        let mut left = 0;
        match made {
            Ok(true) => match self.put_all(index, &mut together, now_ns, block_run) {
                Ok(count) => left = count,
                Err(why) => {
                    block_run.give_back();
                    held(&scripted.script).refuse(why);
                    self.fail(&mut scripted, block_run);
                }
            },
            Ok(false) => {}
            Err(Failed) => self.fail(&mut scripted, block_run),
        }
        self.scripted = Some(scripted);
        if left > 0 {
            self.send_together(index, &together, left, now_ns, block_run);
        }
        self.together = together;
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
                self.freed[index].clear(); // the connection waits by the script's will, not for us
                scripted.pauses.push(Reverse((now_ns.saturating_add(pause_ns), index)));
                return Ok(false);
            }
        }
        if !block_run.take(&mut self.conns[index].due_ns) {
            return Ok(false);
        }
        scripted.paused[index] = false;
        script.request(into).inspect_err(|_| block_run.give_back())?;
        Ok(true)
    }

    /// Notes each of the requests in these bytes as under way; those that may not leave any more are taken off.
    fn put_all(
        &mut self,
        index: usize,
        bytes: &mut Vec<u8>,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) -> Result<usize, &'static str> {
        let (mut at, mut count) = (0, 0);
        let mut kinds = std::mem::take(&mut self.kinds);
        kinds.clear();
        while at < bytes.len() {
            let found = script::first_request(&bytes[at..]);
            match found {
                Ok((length, bodiless)) => {
                    kinds.push((length, u32::from(bodiless)));
                    at += length;
                }
                Err(why) => {
                    self.kinds = kinds;
                    return Err(why);
                }
            }
        }
        at = 0;
        for (length, kind) in &kinds {
            if count > 0 && !block_run.take(&mut self.conns[index].due_ns) {
                break;
            }
            if let Some(arrived_ns) = self.freed[index].pop_front() {
                block_run.turned(now_ns, arrived_ns);
            }
            self.put(index, *kind, now_ns);
            self.conns[index].first_ns = 0;
            at += length;
            count += 1;
        }
        self.freed[index].clear(); // fewer may leave than were answered
        bytes.truncate(at);
        self.kinds = kinds;
        Ok(count)
    }

    /// The run is over, on all workers.
    #[cold]
    fn fail(&self, scripted: &mut Scripted, block_run: &BlockRun<impl LoadModel>) {
        scripted.halted = true;
        block_run.window.stop.store(true, Ordering::Relaxed);
    }

    /// Keeps what arrived for the answer that is due.
    #[inline]
    pub(super) fn keep_for_script(&mut self, index: usize, bytes: &[u8]) {
        if let Some(kept) = self.scripted.as_mut().and_then(|scripted| scripted.kept.get_mut(index)) {
            let room = MOST_KEPT - kept.len();
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Shows the script an answer that is complete; of one that can't be read it sees nothing.
    #[inline]
    pub(super) fn tell_script(&mut self, index: usize, verdict: &Verdict, block_run: &BlockRun<impl LoadModel>) {
        if self.scripted.as_ref().is_some_and(|scripted| !scripted.kept.is_empty()) {
            self.tell(index, verdict, block_run);
        }
    }

    fn tell(&mut self, index: usize, verdict: &Verdict, block_run: &BlockRun<impl LoadModel>) {
        let bodiless = self.conns[index].exchange == 1;
        let Some(mut scripted) = self.scripted.take() else { return };
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
        self.scripted = Some(scripted);
    }

    /// What was kept of an answer that never became whole.
    pub(super) fn forget_for_script(&mut self, index: usize) {
        if let Some(kept) = self.scripted.as_mut().and_then(|scripted| scripted.kept.get_mut(index)) {
            kept.clear();
        }
    }

    /// When the first pause is over.
    #[inline]
    pub(super) fn pause_ends_ns(&self) -> u64 {
        let first = self.scripted.as_ref().and_then(|scripted| scripted.pauses.peek());
        first.map_or(u64::MAX, |Reverse((due_ns, _))| *due_ns)
    }

    /// Goes on with connections whose pause is over.
    pub(super) fn wake_paused(&mut self, now_ns: u64, block_run: &mut BlockRun<impl LoadModel>) {
        while self.pause_ends_ns() <= now_ns {
            let Some(Reverse((_, index))) = self.scripted.as_mut().and_then(|scripted| scripted.pauses.pop()) else {
                return;
            };
            if matches!(self.conns[index].state, State::Idle | State::Closed) {
                self.send_next(index, now_ns, block_run);
            }
        }
    }

    /// As the next block should find it.
    pub(super) fn tidy_script(&mut self) {
        if let Some(scripted) = &mut self.scripted {
            scripted.pauses.clear();
            scripted.kept.iter_mut().for_each(Vec::clear);
            scripted.paused.iter_mut().for_each(|paused| *paused = false);
        }
    }
}
