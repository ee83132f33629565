//! A run of indices, and the operand's elements that it selects.

use crate::index::OutOfBounds;

pub const INDEX_WIDTH: usize = size_of::<i64>();
const ADJACENT: isize = INDEX_WIDTH as isize;

/// The address of a first element, and the distance in bytes between consecutive ones.
pub type Strided = (*mut u8, isize);

/// Integers of 64 bits, `stride` bytes apart: the indices of `n` elements along a dimension of `size`, whose elements
/// are `step` bytes apart.
pub struct IndexRun {
    pub pointer: *const u8,
    pub stride: isize,
    pub n: usize,
    pub size: isize,
    pub step: isize,
}

impl IndexRun {
    /// Calls `visit` for each element with its address in the operand and with that of an element of the other side.
    /// The operand's address advances by `across` bytes from element to element, plus its index along the dimension;
    /// the other side's by `beside` bytes. Stops at the first index that is out of range. Each index is read once,
    /// because another thread may be writing to them.
    ///
    /// # Safety
    /// The run holds `n` integers.
    #[inline(always)]
    pub unsafe fn pairs<T>(
        &self,
        (base, across): Strided,
        (other, beside): Strided,
        visit: impl Fn(*mut u8, *mut u8),
    ) -> Result<(), OutOfBounds> {
        let width = size_of::<T>() as isize;
        // Constant strides save a third of the work, and most calls have these.
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            match [self.stride, across, beside] {
                [ADJACENT, 0, near] if near == width => self.each([ADJACENT, 0, width], base, other, visit),
                [ADJACENT, next, near] if next == width && near == width => {
                    self.each([ADJACENT, width, width], base, other, visit)
                }
                strides => self.each(strides, base, other, visit),
            }
        }
    }

    /// # Safety
    /// Same as for `pairs`, with the strides of index, operand and other side.
    #[inline(always)]
    unsafe fn each(
        &self,
        [stride, across, beside]: [isize; 3],
        base: *mut u8,
        other: *mut u8,
        visit: impl Fn(*mut u8, *mut u8),
    ) -> Result<(), OutOfBounds> {
        for i in 0..self.n as isize {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            let value = unsafe { self.pointer.offset(i * stride).cast::<i64>().read_unaligned() };
            if value as u64 >= self.size as u64 {
                return Err(OutOfBounds { number: 0, value });
            }
            let place = base.wrapping_offset(i * across + (value as isize).wrapping_mul(self.step));
            visit(place, other.wrapping_offset(i * beside));
        }
        Ok(())
    }

    /// Whether every index lies within the dimension.
    ///
    /// # Safety
    /// Same as for `pairs`.
    pub unsafe fn is_inside(&self) -> bool {
        // The sign bit of an index, or of its distance to the last element, is clear if the index is within range.
        let signs = |value: i64| value | (self.size as i64 - 1).wrapping_sub(value);
        // SAFETY: guaranteed by the caller (see `# Safety`).
        let value = |i: usize, stride: isize| unsafe {
            self.pointer.offset(i as isize * stride).cast::<i64>().read_unaligned()
        };
        let all = if self.stride == ADJACENT {
            (0..self.n).fold(0, |all, i| all | signs(value(i, ADJACENT)))
        } else {
            (0..self.n).fold(0, |all, i| all | signs(value(i, self.stride)))
        };
        all >= 0
    }

    /// The first index that is out of range.
    ///
    /// # Safety
    /// Same as for `pairs`.
    #[cold]
    pub unsafe fn first_out_of_bounds(&self) -> Option<OutOfBounds> {
        let nowhere = std::ptr::null_mut();
        // SAFETY: guaranteed by the caller (see `# Safety`); only the indices are read.
        unsafe { self.each([self.stride, 0, 0], nowhere, nowhere, |_, _| ()) }.err()
    }
}
