//! Products of bytes, summed in integers of 32 bits: exact, and so the same for any order and instruction set.

use rushlight_par::Address;
use rushlight_simd::multiversion;

/// Products worth a task of their own.
const TASK: usize = 1 << 17;

multiversion! {
    /// The products of one row with `N` rows of weights, which are `length` apart.
    ///
    /// # Safety
    /// `length` elements behind `row`, `rows * length` behind `weights`, `rows` behind `sums`.
    unsafe fn row_products<S>(
        sums: *mut i32, row: *const i16, weights: *const i8, rows: usize, length: usize
    ) {
        let mut first = 0;
        while first + 4 <= rows {
            let mut partial = [0i32; 4];
            for k in 0..length {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    let value = i32::from(row.add(k).read());
                    for (place, sum) in partial.iter_mut().enumerate() {
                        let weight = i32::from(weights.add((first + place) * length + k).read());
                        *sum = sum.wrapping_add(value * weight);
                    }
                }
            }
            for (place, sum) in partial.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { sums.add(first + place).write(sum) }
            }
            first += 4;
        }
        for place in first..rows {
            let mut sum = 0i32;
            for k in 0..length {
                // SAFETY: as above.
                unsafe {
                    let weight = i32::from(weights.add(place * length + k).read());
                    sum = sum.wrapping_add(i32::from(row.add(k).read()) * weight);
                }
            }
            // SAFETY: as above.
            unsafe { sums.add(place).write(sum) }
        }
    }
}

/// `sums[i][j]`, the sum over `k` of `rows[i][k] * weights[j][k]`, modulo 2^32. `done(i, first, sums)` gets finished
/// parts of rows.
///
/// # Safety
/// `[count, length]` elements behind `rows`, `[outputs, length]` behind `weights`.
pub unsafe fn products(
    rows: *const i16,
    weights: *const i8,
    [count, outputs, length]: [usize; 3],
    done: impl Fn(usize, usize, &[i32]) + Sync,
) {
    const BLOCK: usize = 64;
    let (rows, weights) = (Address(rows.cast_mut()), Address(weights.cast_mut()));
    let blocks = outputs.div_ceil(BLOCK);
    // A block of weights stays in the cache for all rows.
    let grain = TASK.div_ceil((BLOCK * length * count).max(1));
    rushlight_par::parallel_for(blocks, grain, |range| {
        let mut sums = [0i32; BLOCK];
        for block in range {
            let first = block * BLOCK;
            let size = BLOCK.min(outputs - first);
            for row in 0..count {
                // SAFETY: the block lies within the weights, and the row within the rows.
                unsafe {
                    row_products(sums.as_mut_ptr(), rows.at(row * length), weights.at(first * length), size, length);
                }
                done(row, first, &sums[..size]);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn products_are_exact_for_all_sizes() {
        for (count, outputs, length) in [(1, 1, 1), (2, 5, 33), (3, 67, 130), (1, 4, 0)] {
            let rows: Vec<i16> = (0..count * length).map(|i| (i * 37 % 511) as i16 - 255).collect();
            let weights: Vec<i8> = (0..outputs * length).map(|i| (i * 91 % 256) as u8 as i8).collect();
            let found = Mutex::new(vec![0; count * outputs]);
            // SAFETY: the lists have these sizes.
            unsafe {
                products(rows.as_ptr(), weights.as_ptr(), [count, outputs, length], |row, first, sums| {
                    let start = row * outputs + first;
                    found.lock().unwrap()[start..start + sums.len()].copy_from_slice(sums);
                });
            }
            let expected: Vec<i32> = (0..count * outputs)
                .map(|at| {
                    let (i, j) = (at / outputs, at % outputs);
                    (0..length).map(|k| i32::from(rows[i * length + k]) * i32::from(weights[j * length + k])).sum()
                })
                .collect();
            assert_eq!(*found.lock().unwrap(), expected);
        }
    }
}
