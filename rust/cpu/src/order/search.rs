//! Positions of values in sorted lines.

use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::{DType, dispatch};
use rushlight_par::Address;

use crate::pointwise::GRAIN;

/// The parameters of a search: contiguous lines, each for as many values; after equal elements, or before them.
pub struct Search {
    pub line: usize,
    pub per_line: usize,
    pub right: bool,
}

/// Writes the position of each of `n` values; returns whether the dtype has an order.
///
/// # Safety
/// `sorted` holds the lines of all values, `values` and `to` hold `n` elements each.
pub unsafe fn search(
    dtype: DType,
    sorted: *const u8,
    values: *const u8,
    to: *mut i64,
    n: usize,
    search: &Search,
) -> bool {
    dispatch!(dtype, T in [u8, i8, i16, i32, i64, f32, f64, f16_, bf16_] => {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { search.run::<T>(sorted.cast(), values.cast(), to, n) };
        true
    }, else => false)
}

impl Search {
    /// # Safety
    /// Lines of this search's length at `sorted`, `n` elements at `values`, `n` positions at `to`.
    unsafe fn run<T: Copy + PartialOrd>(&self, sorted: *const T, values: *const T, to: *mut i64, n: usize) {
        let (sorted, values, to) = (Address(sorted.cast_mut()), Address(values.cast_mut()), Address(to));
        let steps = self.line.max(1).ilog2() as usize + 1;
        rushlight_par::parallel_for(n, (GRAIN / steps).max(1), |range| {
            for i in range {
                let start = i / self.per_line.max(1) * self.line;
                // SAFETY: guaranteed by the caller (see `# Safety`); unaligned because foreign memory may be.
                unsafe {
                    let wanted = values.at(i).read_unaligned();
                    let (mut low, mut high) = (0, self.line);
                    while low < high {
                        let middle = (low + high) / 2;
                        let own = sorted.at(start + middle).read_unaligned();
                        // As torch compares: every value goes behind a NaN.
                        let ends = if self.right { own > wanted } else { own >= wanted };
                        if ends { high = middle } else { low = middle + 1 }
                    }
                    to.at(i).write(low as i64);
                }
            }
        });
    }
}
