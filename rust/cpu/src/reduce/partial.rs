//! Partial results of a reduction: their memory, and the fixed order in which they are combined.

use std::mem::MaybeUninit;

use rushlight_core::Result;
use rushlight_core::alloc::list;

/// Joins `n` accumulators with as many that come after them.
///
/// # Safety
/// `n` filled accumulators of the fold lie at both addresses, without overlap.
pub type Join = unsafe fn(accs: *mut u8, later: *const u8, n: usize);

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

/// Accumulators on the heap that several threads fill, each its own ones.
pub struct Buffer {
    pub start: *mut u8,
    _room: Vec<MaybeUninit<u64>>,
}
// SAFETY: every task writes its own accumulators.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Memory for a task, whose size has a bound.
    pub fn new(bytes: usize) -> Buffer {
        Buffer::over(Vec::with_capacity(bytes.div_ceil(8)))
    }

    /// Memory that grows with the operand, or an error.
    pub fn try_new(bytes: Option<usize>) -> Result<Buffer> {
        list(bytes.unwrap_or(usize::MAX).div_ceil(8)).map(Buffer::over)
    }

    fn over(mut buffer: Vec<MaybeUninit<u64>>) -> Buffer {
        Buffer { start: buffer.as_mut_ptr() as *mut u8, _room: buffer }
    }

    /// The byte at `at`.
    ///
    /// # Safety
    /// It lies within the bytes that were asked for.
    pub unsafe fn at(&self, at: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { self.start.add(at) }
    }
}

/// Partial results in sequence that are joined pairwise, like the carries of a binary counter.
pub struct Counter {
    base: *mut u8,
    /// Bytes from one level to the next.
    step: usize,
    depth: usize,
    seen: usize,
}

impl Counter {
    /// # Safety
    /// `base` has room for one level more than are ever filled at once.
    pub unsafe fn new(base: *mut u8, step: usize) -> Counter {
        Counter { base, step, depth: 0, seen: 0 }
    }

    /// The address of the next partial result.
    pub fn place(&self) -> *mut u8 {
        // SAFETY: the caller of `new` gave room for every level.
        unsafe { self.base.add(self.depth * self.step) }
    }

    /// # Safety
    /// The level at `place` was filled, with `n` accumulators of what `join` joins.
    pub unsafe fn carry(&mut self, join: Join, n: usize) {
        self.depth += 1;
        self.seen += 1;
        let mut seen = self.seen;
        while seen & 1 == 0 {
            // SAFETY: an even count means that the two topmost levels are filled.
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

    /// Joins the remaining levels; the result is at the base.
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

/// Joins `count` groups of `n` accumulators, `step` bytes apart, pairwise; the result is at the base.
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
