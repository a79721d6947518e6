//! The ring that the kernel writes a core's samples into, and that is read while it writes.

use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::perf_event_mmap_page;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of a ring, from the most to the fewest: an ordinary user may lock only some hundred KiB.
const PAGES: [usize; 5] = [2048, 512, 128, 64, 32];

/// A mapped ring; unmapped when it is dropped.
#[derive(Debug)]
pub struct Ring {
    map: MmapRaw,
    page_bytes: usize,
    data_bytes: usize,
}

impl Ring {
    /// Maps an event's ring, as large as the kernel allows.
    ///
    /// # Errors
    /// The kernel's, if it refuses even the smallest ring.
    pub fn map(file: &File) -> io::Result<Self> {
        // SAFETY: sysconf has no preconditions.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mut refused = io::Error::from(io::ErrorKind::PermissionDenied);
        for pages in PAGES {
            match MmapOptions::new().len((1 + pages) * page_bytes).map_raw(file) {
                Ok(map) => return Ok(Self { map, page_bytes, data_bytes: pages * page_bytes }),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// How many bytes of records it holds.
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Hands over each record that has been written since the last call, its header first, and frees its room.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let head_at = self.counter(std::mem::offset_of!(perf_event_mmap_page, data_head));
        let tail_at = self.counter(std::mem::offset_of!(perf_event_mmap_page, data_tail));
        // Acquire: the records before the head are read after the head.
        let head = head_at.load(Ordering::Acquire);
        let mut tail = tail_at.load(Ordering::Relaxed);
        let mut record = Vec::new();
        while tail < head {
            self.copy(tail, 8, &mut record);
            let bytes = usize::from(u16::from_ne_bytes([record[6], record[7]]));
            if bytes < 8 || bytes as u64 > head - tail {
                break; // the kernel writes whole records only
            }
            self.copy(tail, bytes, &mut record);
            take(&record);
            tail += bytes as u64;
        }
        // Release: the records have been copied before their room is free.
        tail_at.store(tail, Ordering::Release);
    }

    /// One of the counters in the ring's first page.
    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped as long as `self` lives, and the kernel aligns its counters to 8 bytes.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// Copies bytes of the ring, which may go over its end.
    fn copy(&self, from: u64, bytes: usize, into: &mut Vec<u8>) {
        into.clear();
        let start = (from % self.data_bytes as u64) as usize;
        let first = bytes.min(self.data_bytes - start);
        for (at, length) in [(start, first), (0, bytes - first)] {
            // SAFETY: the range lies in the mapped data, which the kernel does not write before `data_tail` passes it.
            into.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.map.as_ptr().add(self.page_bytes + at), length)
            });
        }
    }
}
