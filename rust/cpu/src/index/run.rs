//! A run of an index, and the operand's elements that it names.

use crate::index::Outside;

pub const INDEX_WIDTH: usize = size_of::<i64>();
const ADJACENT: isize = INDEX_WIDTH as isize;

/// The address of a first element, and how many bytes apart the next ones are.
pub type Strided = (*mut u8, isize);

/// Integers of 64 bits, `stride` bytes apart: the places of `n` elements along a dimension of `size`, `step` bytes from place
/// to place.
pub struct Run {
    pub pointer: *const u8,
    pub stride: isize,
    pub n: usize,
    pub size: isize,
    pub step: isize,
}

impl Run {
    /// Calls `visit` for each element with its place in the operand, `across` bytes beside the one before and as far along
    /// the dimension as its index says, and with that of the element of another side, `beside` bytes apart. Ends at the first
    /// index that lies outside. Each is read once, since another thread may be writing to them.
    ///
    /// # Safety
    /// The run holds `n` integers.
    #[inline(always)]
    pub unsafe fn pairs<T>(
        &self,
        (base, across): Strided,
        (other, beside): Strided,
        visit: impl Fn(*mut u8, *mut u8),
    ) -> Result<(), Outside> {
        let width = size_of::<T>() as isize;
        // Strides that the compiler knows are a third of the work, and these are those of most calls.
        // SAFETY: by the caller's word.
        unsafe {
            match [self.stride, across, beside] {
                [ADJACENT, 0, near] if near == width => self.walk([ADJACENT, 0, width], base, other, visit),
                [ADJACENT, next, near] if next == width && near == width => {
                    self.walk([ADJACENT, width, width], base, other, visit)
                }
                strides => self.walk(strides, base, other, visit),
            }
        }
    }

    /// # Safety
    /// As for `pairs`, with the strides of index, operand and other side.
    #[inline(always)]
    unsafe fn walk(
        &self,
        [stride, across, beside]: [isize; 3],
        base: *mut u8,
        other: *mut u8,
        visit: impl Fn(*mut u8, *mut u8),
    ) -> Result<(), Outside> {
        for i in 0..self.n as isize {
            // SAFETY: by the caller's word.
            let value = unsafe { self.pointer.offset(i * stride).cast::<i64>().read_unaligned() };
            if value as u64 >= self.size as u64 {
                return Err(Outside { number: 0, value });
            }
            let place = base.wrapping_offset(i * across + (value as isize).wrapping_mul(self.step));
            visit(place, other.wrapping_offset(i * beside));
        }
        Ok(())
    }

    /// Whether every index lies within the dimension.
    ///
    /// # Safety
    /// As for `pairs`.
    pub unsafe fn is_inside(&self) -> bool {
        // The sign of an index, or of what is left behind it: both are clear of an index inside.
        let signs = |value: i64| value | (self.size as i64 - 1).wrapping_sub(value);
        // SAFETY: by the caller's word.
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

    /// The first index that lies outside.
    ///
    /// # Safety
    /// As for `pairs`.
    #[cold]
    pub unsafe fn first_outside(&self) -> Option<Outside> {
        let nowhere = std::ptr::null_mut();
        // SAFETY: by the caller's word; nothing is read but the indices.
        unsafe { self.walk([self.stride, 0, 0], nowhere, nowhere, |_, _| ()) }.err()
    }
}
