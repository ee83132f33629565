//! The bytes on their way from one rank to another.

use std::sync::atomic::Ordering;

use super::memory::{GroupMemory, RingHeader};

/// Copies between a ring and memory, at a position that only grows.
pub struct Ring<'a> {
    header: &'a RingHeader,
    bytes: *mut u8,
    pub size: usize,
}

impl Ring<'_> {
    pub fn new(memory: &GroupMemory, from: usize, to: usize) -> Ring<'_> {
        let (header, bytes) = memory.ring(from, to);
        Ring { header, bytes, size: memory.ring_bytes() }
    }

    /// How many bytes have been read in all.
    pub fn taken(&self) -> u64 {
        self.header.read.load(Ordering::Acquire)
    }

    /// How many bytes lie in the ring. A peer that writes nonsense gives a number within the ring all the same.
    pub fn filled(&self) -> usize {
        let written = self.header.written.load(Ordering::Acquire);
        let read = self.header.read.load(Ordering::Acquire);
        (written.wrapping_sub(read) as usize).min(self.size)
    }

    /// The part of `count` bytes at position `at` that lies before the end of the ring.
    fn first(&self, at: u64, count: usize) -> (usize, usize) {
        let start = at as usize & (self.size - 1);
        (start, count.min(self.size - start))
    }

    /// # Safety
    /// `count` bytes lie at `source`, and the ring has room for them.
    pub unsafe fn write(&self, source: *const u8, count: usize) {
        let at = self.header.written.load(Ordering::Relaxed);
        let (start, first) = self.first(at, count);
        // SAFETY: the caller's contract; both parts lie in the ring.
        unsafe {
            std::ptr::copy_nonoverlapping(source, self.bytes.add(start), first);
            std::ptr::copy_nonoverlapping(source.add(first), self.bytes, count - first);
        }
        self.header.written.store(at.wrapping_add(count as u64), Ordering::Release);
    }

    /// # Safety
    /// There is room for `count` bytes at `target`, and the ring has them.
    pub unsafe fn read(&self, target: *mut u8, count: usize) {
        let at = self.header.read.load(Ordering::Relaxed);
        let (start, first) = self.first(at, count);
        // SAFETY: as above.
        unsafe {
            std::ptr::copy_nonoverlapping(self.bytes.add(start), target, first);
            std::ptr::copy_nonoverlapping(self.bytes, target.add(first), count - first);
        }
        self.skip(count);
    }

    pub fn skip(&self, count: usize) {
        self.header.read.fetch_add(count as u64, Ordering::Release);
    }
}
