//! Partial results of a reduction: the room they stand in, and the fixed order in which they meet.

use std::mem::MaybeUninit;

use rushlight_core::Result;
use rushlight_core::alloc::list;

use super::Join;

#[repr(align(64))]
pub struct Bytes<const N: usize>([MaybeUninit<u8>; N]);

impl<const N: usize> Bytes<N> {
    pub fn new() -> Self {
        Bytes([MaybeUninit::uninit(); N])
    }

    pub fn pointer(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Accumulators on the heap that several threads fill, each its own places.
pub struct Room {
    pub start: *mut u8,
    _room: Vec<MaybeUninit<u64>>,
}
// SAFETY: every task writes places of its own.
unsafe impl Sync for Room {}

impl Room {
    /// Room for a task, whose size has a bound.
    pub fn new(bytes: usize) -> Room {
        Room::over(Vec::with_capacity(bytes.div_ceil(8)))
    }

    /// Room that grows with the operand, or an error.
    pub fn ask(bytes: Option<usize>) -> Result<Room> {
        list(bytes.unwrap_or(usize::MAX).div_ceil(8)).map(Room::over)
    }

    fn over(mut room: Vec<MaybeUninit<u64>>) -> Room {
        Room { start: room.as_mut_ptr() as *mut u8, _room: room }
    }

    /// The byte at `at`.
    ///
    /// # Safety
    /// It lies within the bytes that were asked for.
    pub unsafe fn at(&self, at: usize) -> *mut u8 {
        // SAFETY: by the caller's word.
        unsafe { self.start.add(at) }
    }
}

/// Partial results that come one after the other and meet pairwise, as a binary counter carries.
pub struct Counter {
    base: *mut u8,
    /// Bytes from one level to the next.
    step: usize,
    depth: usize,
    seen: usize,
}

impl Counter {
    /// # Safety
    /// `base` has room for a level more than ever are filled at once.
    pub unsafe fn new(base: *mut u8, step: usize) -> Counter {
        Counter { base, step, depth: 0, seen: 0 }
    }

    /// Where the next partial result goes.
    pub fn place(&self) -> *mut u8 {
        // SAFETY: the counter's maker gave room for every level.
        unsafe { self.base.add(self.depth * self.step) }
    }

    /// # Safety
    /// The level at `place` was filled, with `n` accumulators of what `join` joins.
    pub unsafe fn carry(&mut self, join: Join, n: usize) {
        self.depth += 1;
        self.seen += 1;
        let mut seen = self.seen;
        while seen & 1 == 0 {
            // SAFETY: an even count means that two full levels stand on top.
            unsafe { self.fall(join, n) };
            seen >>= 1;
        }
    }

    /// # Safety
    /// Two levels are filled, with `n` accumulators each.
    pub unsafe fn fall(&mut self, join: Join, n: usize) {
        self.depth -= 1;
        // SAFETY: both levels are filled.
        unsafe { join(self.base.add((self.depth - 1) * self.step), self.base.add(self.depth * self.step), n) };
    }

    /// Joins what is left; the result stands at the base.
    ///
    /// # Safety
    /// At least one level is filled, with `n` accumulators each.
    pub unsafe fn finish(mut self, join: Join, n: usize) {
        while self.depth > 1 {
            // SAFETY: as above.
            unsafe { self.fall(join, n) };
        }
    }
}

/// Joins `count` groups of `n` accumulators, `step` bytes apart, pairwise; the result stands at the base.
///
/// # Safety
/// `count` groups lie at `base`, all filled.
pub unsafe fn join_tree(join: Join, base: *mut u8, count: usize, step: usize, n: usize) {
    let mut reach = 1;
    while reach < count {
        for left in (0..count - reach).step_by(2 * reach) {
            // SAFETY: both groups exist.
            unsafe { join(base.add(left * step), base.add((left + reach) * step), n) };
        }
        reach *= 2;
    }
}
