//! Intermediate results of a long block: each worker sends its counts so far at intervals. The differences between two
//! such snapshots, over all workers, are the counts of the time between them.

use crate::tally::Counts;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender};

/// A worker's counts so far.
#[derive(Debug)]
pub struct Snapshot {
    /// The worker's number.
    pub worker: usize,
    /// When the block began.
    pub started_ns: u64,
    /// When the snapshot was taken.
    pub at_ns: u64,
    /// Counts since the beginning of the block.
    pub counts: Counts,
}

/// Where workers send their snapshots.
#[derive(Debug)]
pub struct SnapshotSender {
    /// Interval between snapshots.
    pub every_ns: u64,
    /// The receiver.
    pub to: Sender<Snapshot>,
}

/// The snapshots that have arrived.
pub struct Snapshots {
    inbox: Receiver<Snapshot>,
    /// Counts by worker.
    shown: Vec<VecDeque<Snapshot>>,
    /// Counts that were already reported.
    handed_on: Option<(u64, Counts)>,
}

/// The counts of the time between two points.
pub struct Between {
    /// Begin of this time.
    pub from_ns: u64,
    /// Over all workers; `counted_end_ns` is the end of this time.
    pub counts: Counts,
}

impl Snapshots {
    /// For this many workers.
    pub fn new(inbox: Receiver<Snapshot>, workers: usize) -> Self {
        Self { inbox, shown: (0..workers).map(|_| VecDeque::new()).collect(), handed_on: None }
    }

    /// The counts since the last call, if all workers have sent a snapshot.
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

    /// The counts since the last call, given the final counts.
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
