//! Memory that the kernel fills: a ring of equal buffers, which it fills in any order and gets back after use.

use io_uring::types::BufRingEntry;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Anonymous memory; pages are allocated when they are touched.
struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        match NonNull::new(at.cast::<u8>()) {
            Some(found) if at != libc::MAP_FAILED => Ok(Self { at: found, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; every slice of it borrows its owner.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// A buffer that was taken out of the ring. Dropping it instead of returning it loses the buffer.
pub struct Loan {
    memory: Rc<Mapping>,
    id: u16,
    at: usize,
    length: usize,
}

impl Deref for Loan {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: within the mapping, which the loan keeps alive. The kernel is done with this buffer, and gets it back only
        // when the loan ends.
        unsafe { std::slice::from_raw_parts(self.memory.at.as_ptr().add(self.at), self.length) }
    }
}

/// A provided buffer ring. Must outlive its registration.
pub struct Buffers {
    /// The entries; the spare field of the first one is the ring's tail.
    entries: Mapping,
    /// Shared with loans.
    memory: Rc<Mapping>,
    count: u16,
    size: usize,
    tail: u16,
}

impl Buffers {
    /// `count` buffers, a power of two up to 32768, of `size` bytes; all of them given to the kernel.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(count: u16, size: usize) -> io::Result<Self> {
        assert!(count.is_power_of_two() && count <= 1 << 15);
        let entries = Mapping::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let mut buffers =
            Self { entries, memory: Rc::new(Mapping::new(usize::from(count) * size)?), count, size, tail: 0 };
        for id in 0..count {
            buffers.give(id);
        }
        Ok(buffers)
    }

    /// Address of the entries, for the registration.
    pub fn address(&self) -> u64 {
        self.entries.at.as_ptr() as u64
    }

    /// How many buffers there are.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// What the kernel has put into a buffer that it is done with.
    #[inline]
    pub fn filled(&self, id: u16, length: usize) -> &[u8] {
        assert!(id < self.count && length <= self.size);
        // SAFETY: within the mapping, by the line above. The kernel is done with this buffer, and gets it back only by
        // `give`, which needs `&mut self`: this borrow has ended by then.
        unsafe { std::slice::from_raw_parts(self.memory.at.as_ptr().add(usize::from(id) * self.size), length) }
    }

    /// Lends bytes `from` to `to` of a buffer that the kernel is done with.
    ///
    /// # Safety
    /// Until the loan is returned or dropped, the buffer is not given to the kernel.
    #[inline]
    pub unsafe fn lend(&mut self, id: u16, from: usize, to: usize) -> Loan {
        assert!(id < self.count && from <= to && to <= self.size);
        Loan { memory: Rc::clone(&self.memory), id, at: usize::from(id) * self.size + from, length: to - from }
    }

    /// Ends a loan.
    #[inline]
    pub fn take_back(&mut self, loan: Loan) {
        let id = loan.id;
        drop(loan);
        self.give(id);
    }

    /// Gives a buffer to the kernel, for the first time or again.
    #[inline]
    pub fn give(&mut self, id: u16) {
        assert!(id < self.count);
        let base = self.entries.at.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the mask keeps the index below `count`; the kernel reads only entries below the tail, and this one is at
        // the tail. Fields are set one by one, because the spare field of the first entry is the tail itself.
        unsafe {
            let entry = &mut *base.add(usize::from(self.tail & (self.count - 1)));
            entry.set_addr(self.memory.at.as_ptr() as u64 + u64::from(id) * self.size as u64);
            entry.set_len(self.size as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies within the mapping and is aligned; the kernel only reads it.
        unsafe { &*BufRingEntry::tail(base).cast::<AtomicU16>() }.store(self.tail, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_in_any_order_and_the_ring_goes_round() {
        let mut buffers = Buffers::new(4, 64).unwrap();
        for turn in 0..70_000u32 {
            buffers.give((turn * 3 % 4) as u16); // past the tail's own overflow
        }
        let base = buffers.entries.at.as_ptr().cast::<BufRingEntry>();
        for place in 0..4 {
            // SAFETY: within the ring of four; nothing else looks at it.
            let entry = unsafe { &*base.add(place) };
            assert_eq!(entry.addr(), buffers.memory.at.as_ptr() as u64 + u64::from(entry.bid()) * 64);
            assert_eq!(entry.len(), 64);
        }
        assert_eq!(buffers.tail, (70_004 % 65_536) as u16);
        assert_eq!((buffers.filled(3, 64), buffers.filled(0, 0)), ([0; 64].as_slice(), [].as_slice()));
    }
}
