//! System calls of running processes by name, counted by the kernel's tracepoints.
//!
//! Closing the last event of a tracepoint takes the kernel tens of milliseconds, and there are 350 of them. So one
//! stretch of load shows which calls occur, and only these are counted in the next. A counter of all calls shows how
//! many had no counter of their own.

use crate::event::Event;
use crate::record;
use crate::ring::Ring;
use crate::sampler::{ProfileError, open_all, threads_of};
use crate::tracefs::Tracefs;
use std::collections::BTreeSet;
use std::io;
use std::thread;
use syscalls::Sysno;

/// The event of all system calls, and where its sample has the call's number.
const ALL: &str = "raw_syscalls/sys_enter";
const NUMBER_AT: usize = 8;

/// How often system calls were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// All of them.
    pub total: u64,
    /// By name, in the order of their numbers.
    pub named: Vec<(String, u64)>,
}

/// Which calls some processes make, and then how often.
#[derive(Debug)]
pub struct CallCounter {
    tracefs: Tracefs,
    threads: Vec<u32>,
    all: u64,
    seeing: Vec<Event>,
    rings: Vec<Ring>,
    counting: Vec<(Option<Sysno>, Event)>,
}

impl CallCounter {
    /// Begins to look which calls these processes make on these cores.
    ///
    /// # Errors
    /// [`ProfileError`]: the kernel refuses, or all threads have ended.
    pub fn start(pids: &[u32], cores: &[u32]) -> Result<Self, ProfileError> {
        let tracefs = Tracefs::open().map_err(ProfileError::Unlisted)?;
        let all = tracefs.number(ALL).map_err(ProfileError::Unlisted)?;
        let threads: Vec<u32> = pids.iter().flat_map(|&pid| threads_of(pid)).collect();
        let opened = open_all(&threads, cores, |thread, core| Event::each(all, thread, core));
        let (seeing, rings) = opened.map_err(ProfileError::Uncounted)?;
        if seeing.is_empty() {
            return Err(ProfileError::Ended);
        }
        for event in &seeing {
            event.enable().map_err(ProfileError::Uncounted)?;
        }
        Ok(Self { tracefs, threads, all, seeing, rings, counting: Vec::new() })
    }

    /// Ends looking, and counts the calls that were seen.
    ///
    /// # Errors
    /// [`ProfileError::Uncounted`]: the kernel refuses.
    pub fn count(&mut self) -> Result<(), ProfileError> {
        for event in &self.seeing {
            event.disable().map_err(ProfileError::Uncounted)?;
        }
        let mut numbers = BTreeSet::new();
        for mut ring in self.rings.drain(..) {
            ring.drain(|bytes| numbers.extend(record::fields(bytes).and_then(number)));
        }
        self.open(None, self.all).map_err(ProfileError::Uncounted)?;
        for call in numbers.into_iter().filter_map(Sysno::new) {
            // A call without an event of its own is in the total only.
            if let Some(event) = event_of(&self.tracefs, call) {
                self.open(Some(call), event).map_err(ProfileError::Uncounted)?;
            }
        }
        self.counting.iter().try_for_each(|(_, event)| event.enable()).map_err(ProfileError::Uncounted)
    }

    fn open(&mut self, call: Option<Sysno>, tracepoint: u64) -> io::Result<()> {
        for &thread in &self.threads {
            match Event::counting(tracepoint, thread) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                opened => self.counting.push((call, opened?)),
            }
        }
        Ok(())
    }

    /// Ends counting.
    ///
    /// # Errors
    /// [`ProfileError::Uncounted`]: a counter can't be read.
    pub fn stop(mut self) -> Result<Calls, ProfileError> {
        let mut made = Calls::default();
        // The counter of all began first and ends last, so that no call is counted by name alone.
        for (call, event) in self.counting.iter().rev() {
            event.disable().map_err(ProfileError::Uncounted)?;
            let count = event.count().map_err(ProfileError::Uncounted)?;
            match (call, made.named.last_mut()) {
                (None, _) => made.total += count,
                (Some(call), Some((name, sum))) if name == call.name() => *sum += count,
                (Some(call), _) => made.named.push((call.name().to_owned(), count)),
            }
        }
        made.named.reverse();
        let events = (std::mem::take(&mut self.seeing), std::mem::take(&mut self.counting));
        thread::spawn(move || drop(events)); // the kernel's part of it takes a while
        Ok(made)
    }
}

fn number(fields: &[u8]) -> Option<usize> {
    let bytes = fields.get(NUMBER_AT..NUMBER_AT + size_of::<usize>())?;
    bytes.try_into().map(usize::from_ne_bytes).ok()
}

/// The number of a call's event. A few events have the name of the kernel's function, such as newstat and sendfile64.
fn event_of(tracefs: &Tracefs, call: Sysno) -> Option<u64> {
    let names = [call.name().to_owned(), format!("new{}", call.name()), format!("{}64", call.name())];
    names.iter().find_map(|name| tracefs.number(&format!("syscalls/sys_enter_{name}")).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn calls_are_counted_by_name() {
        // Only root may count; everyone else has the reason.
        let cores: Vec<u32> = (0..thread::available_parallelism().map_or(1, |count| count.get() as u32)).collect();
        let (send, begin) = channel::<u32>();
        let (done, ended) = channel();
        let worker = thread::spawn(move || {
            while let Ok(times) = begin.recv() {
                for _ in 0..times {
                    std::hint::black_box(std::os::unix::process::parent_id());
                }
                done.send(()).unwrap();
            }
        });
        let run = |times| {
            send.send(times).unwrap();
            ended.recv().unwrap();
        };
        match CallCounter::start(&[std::process::id()], &cores) {
            Ok(mut counter) => {
                run(10);
                counter.count().unwrap();
                run(4321);
                let calls = counter.stop().unwrap();
                assert!(calls.named.contains(&("getppid".into(), 4321)), "{calls:?}");
                assert!(calls.total >= calls.named.iter().map(|(_, count)| count).sum(), "{calls:?}");
            }
            Err(refused) => assert!(refused.to_string().contains("root"), "{refused}"),
        }
        drop(send);
        worker.join().unwrap();
    }
}
