//! Where the workers of a run meet: all continue together, or all stop.

use crate::sys;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Spins before a waiter sleeps: about 10 µs, so that most blocks begin without a wake-up.
const SPINS: u32 = 2_000;

/// A barrier that spins first, gives all workers the same time, and decides for all whether to continue.
pub struct Barrier {
    size: usize,
    arrived: AtomicUsize,
    generation: AtomicU32,
    opened_ns: AtomicU64,
    shut: AtomicBool,
    sleepers: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    /// For this many workers.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            arrived: AtomicUsize::new(0),
            generation: AtomicU32::new(0),
            opened_ns: AtomicU64::new(0),
            shut: AtomicBool::new(false),
            sleepers: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Waits for all workers; returns the time at which the last one came, or None: stop here.
    ///
    /// The last worker reads `stop`, so that either all workers continue or none does.
    pub fn wait(&self, stop: &AtomicBool) -> Option<u64> {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size {
            self.arrived.store(0, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                self.shut.store(true, Ordering::Relaxed);
            }
            self.opened_ns.store(sys::now_ns(), Ordering::Relaxed);
            self.release();
        } else {
            self.rest(generation);
        }
        (!self.shut.load(Ordering::Relaxed)).then(|| self.opened_ns.load(Ordering::Relaxed))
    }

    /// Releases all workers and makes them stop: a worker has died.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::Relaxed);
        self.release();
    }

    fn release(&self) {
        let _sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.generation.fetch_add(1, Ordering::Release);
        self.wake.notify_all();
    }

    fn rest(&self, generation: u32) {
        let closed = || self.generation.load(Ordering::Acquire) == generation && !self.shut.load(Ordering::Relaxed);
        for _ in 0..SPINS {
            if !closed() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        while closed() {
            sleepers = self.wake.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn all_pass_at_one_time_and_all_stop_together() {
        let (barrier, stop) = (Barrier::new(3), AtomicBool::new(false));
        let pass = || {
            let mut times = vec![];
            while let Some(time) = barrier.wait(&stop) {
                times.push(time);
                stop.store(times.len() >= 200, Ordering::Relaxed);
            }
            times
        };
        let times = thread::scope(|scope| {
            let all: Vec<_> = (0..3).map(|_| scope.spawn(pass)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(times[0].len() >= 200);
        assert!(times.iter().all(|one| *one == times[0]));
    }

    #[test]
    fn a_shut_barrier_releases_waiting_threads() {
        let (barrier, stop) = (Barrier::new(2), AtomicBool::new(false));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| barrier.wait(&stop));
            while barrier.arrived.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            barrier.shut();
            assert_eq!(waiting.join().unwrap(), None);
        });
    }
}
