//! A long block seen while it runs: each worker shows its counts so far now and then, and the differences between two of
//! these, over all workers, are what was done in between.

use crate::tally::Counts;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender};

/// A worker's counts so far.
#[derive(Debug)]
pub struct Snapshot {
    /// Whose.
    pub worker: usize,
    /// When the block began.
    pub started_ns: u64,
    /// When they were so.
    pub at_ns: u64,
    /// From the block's begin.
    pub counts: Counts,
}

/// What a worker shows its counts to.
#[derive(Debug)]
pub struct SnapshotSender {
    /// How often.
    pub every_ns: u64,
    /// To whom.
    pub to: Sender<Snapshot>,
}

/// What the workers have shown.
pub struct Snapshots {
    inbox: Receiver<Snapshot>,
    /// By worker.
    shown: Vec<VecDeque<Snapshot>>,
    /// What was handed on.
    handed_on: Option<(u64, Counts)>,
}

/// What was done between two times.
pub struct Between {
    /// Begin.
    pub from_ns: u64,
    /// Over all workers; `counted_end_ns` is its end.
    pub counts: Counts,
}

impl Snapshots {
    /// Of so many workers.
    pub fn new(inbox: Receiver<Snapshot>, workers: usize) -> Self {
        Self { inbox, shown: (0..workers).map(|_| VecDeque::new()).collect(), handed_on: None }
    }

    /// What was done since the last time, if all workers have shown it.
    pub fn next(&mut self) -> Option<Between> {
        for snapshot in self.inbox.try_iter() {
            self.shown[snapshot.worker].push_back(snapshot);
        }
        if self.shown.iter().any(VecDeque::is_empty) {
            return None;
        }
        let mut all = self.shown.iter_mut().filter_map(VecDeque::pop_front);
        let first = all.next()?;
        let (started_ns, mut at_ns, mut sum) = (first.started_ns, first.at_ns, first.counts);
        for snapshot in all {
            at_ns = at_ns.max(snapshot.at_ns);
            sum.add(&snapshot.counts);
        }
        (sum.counted_end_ns, sum.finished_ns) = (at_ns, at_ns);
        Some(self.since(started_ns, sum))
    }

    /// What was done since the last time, given all that was done.
    pub fn rest(&mut self, started_ns: u64, sum: &Counts) -> Between {
        self.since(started_ns, sum.clone())
    }

    fn since(&mut self, started_ns: u64, sum: Counts) -> Between {
        let (from_ns, mut counts) = (self.handed_on.as_ref().map_or(started_ns, |(at_ns, _)| *at_ns), sum.clone());
        if let Some((_, handed_on)) = &self.handed_on {
            counts.take_off(handed_on);
        }
        counts.counted_end_ns = counts.counted_end_ns.max(from_ns);
        counts.finished_ns = counts.finished_ns.max(counts.counted_end_ns);
        self.handed_on = Some((counts.counted_end_ns, sum));
        Between { from_ns, counts }
    }
}
