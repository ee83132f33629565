//! The gradients of attention, in blocks like the forward pass: a block's weights are computed again from its scores
//! and the logarithms of their sums.
//!
//! A task takes a range of the keys of one item and all queries that see them. It owns the gradients of these keys and
//! values; a query's gradient has a part from each range, and the parts are added in the order of the keys.

use std::ops::Range;

use rushlight_core::alloc::filled;
use rushlight_core::{Error, Result};
use rushlight_simd::multiversion;

use super::{Attention, KEYS, Operand, QUERIES, number};
use crate::float::Float;
use crate::linalg::matmul::{GemmElement, Matrices, Product, gemm};
use crate::reduce::softmax::added;

/// From this many items on each is one task.
const MANY: usize = 16;
/// The most ranges of the keys of one item.
const STRETCHES: usize = 8;

pub struct Gradients<'a, T> {
    /// The forward call, with its results.
    pub forward: Attention<'a, T>,
    /// The gradient of the means, row-major.
    pub grad: *const T,
    /// The gradient of the logarithms of the sums, if there is one.
    pub grad_sums: *const T,
    /// Row-major gradients of each item's matrices.
    pub to_query: *mut T,
    pub to_key: *mut T,
    pub to_value: *mut T,
}

// SAFETY: operands are only read, and each task writes gradients of its own.
unsafe impl<T> Sync for Gradients<'_, T> {}

struct Scratch<T> {
    weights: Vec<T>,
    away: Vec<T>,
}

/// `c = a @ b`, added to `c` if `onto`.
///
/// # Safety
/// Same as for `gemm`.
unsafe fn product<T: Float + GemmElement<Sum = T>>(
    [m, n, k]: [usize; 3],
    [a, b]: [Matrices<*const T>; 2],
    c: Matrices<*mut T>,
    onto: bool,
) -> Result<()> {
    let own = Matrices::row_major(c.ptr.cast_const(), n);
    let addend = onto.then_some((number(1.0), own));
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe { gemm(&Product { batch: 1, m, n, k, alpha: number(1.0), a, b, addend, c }) }
}

impl<T: Float + GemmElement<Sum = T>> Gradients<'_, T> {
    /// # Safety
    /// Every pointer covers its matrices, and the gradients do not overlap the operands.
    pub unsafe fn run(&self) -> Result<()> {
        let own = &self.forward;
        let items: usize = own.batch.iter().product();
        let blocks = own.keys.div_ceil(KEYS);
        let stretches = if items >= MANY { 1 } else { blocks.clamp(1, STRETCHES) };
        let stretch = blocks.div_ceil(stretches) * KEYS;
        let size = own.queries * own.widths[0];
        // The first range writes directly to the result.
        let mut others = filled(number::<T>(0.0), items * (stretches - 1) * size)?;
        let others = rushlight_par::Address(others.as_mut_ptr());
        rushlight_par::try_parallel_for(items * stretches, 1, |tasks| {
            let capacity = QUERIES.min(own.queries) * KEYS.min(own.keys);
            let mut scratch = Scratch { weights: filled(number(0.0), capacity)?, away: filled(number(0.0), capacity)? };
            for task in tasks {
                let (item, part) = (task / stretches, task % stretches);
                let keys = (part * stretch).min(own.keys)..((part + 1) * stretch).min(own.keys);
                // SAFETY: guaranteed by the caller (see `# Safety`); each task has queries' gradients of its own.
                unsafe {
                    let to_query = match part {
                        0 => self.to_query.add(item * size),
                        part => others.at((item * (stretches - 1) + part - 1) * size),
                    };
                    self.stretch(item, keys, to_query, &mut scratch)?;
                }
            }
            Ok::<(), Error>(())
        })?;
        for item in 0..items {
            for part in 0..stretches - 1 {
                // SAFETY: both hold a gradient of the item's queries.
                unsafe {
                    joined(self.to_query.add(item * size), others.at((item * (stretches - 1) + part) * size), size)
                };
            }
        }
        Ok(())
    }

    /// The gradients of some keys and values, and their contribution to those of the queries.
    ///
    /// # Safety
    /// Same as for `run`.
    unsafe fn stretch(
        &self,
        item: usize,
        keys: Range<usize>,
        to_query: *mut T,
        scratch: &mut Scratch<T>,
    ) -> Result<()> {
        let own = &self.forward;
        let [width, depth] = own.widths;
        let (to_key, to_value) =
            (self.to_key.wrapping_add(item * own.keys * width), self.to_value.wrapping_add(item * own.keys * depth));
        // SAFETY: the gradients belong to this task.
        unsafe {
            std::slice::from_raw_parts_mut(to_query, own.queries * width).fill(number(0.0));
            std::slice::from_raw_parts_mut(to_key.add(keys.start * width), keys.len() * width).fill(number(0.0));
            std::slice::from_raw_parts_mut(to_value.add(keys.start * depth), keys.len() * depth).fill(number(0.0));
        }
        for first in (0..own.queries).step_by(QUERIES) {
            let queries = first..own.queries.min(first + QUERIES);
            let count = queries.len();
            let place = item * own.queries + first;
            let (out, grad) = (own.out.wrapping_add(place * depth), self.grad.wrapping_add(place * depth));
            let mut means = [number::<T>(0.0); QUERIES];
            for (row, mean) in means.iter_mut().enumerate().take(count) {
                // SAFETY: guaranteed by the caller (see `# Safety`).
                unsafe {
                    let arriving =
                        if self.grad_sums.is_null() { number(0.0) } else { *self.grad_sums.add(place + row) };
                    *mean = dot(grad.add(row * depth), out.add(row * depth), depth) - arriving;
                }
            }
            for start in keys.clone().step_by(KEYS) {
                if own.causal && start >= queries.end {
                    break;
                }
                // In a causal block, only the keys that at least one of the queries may use.
                let end = if own.causal { queries.end } else { keys.end };
                let block = start..keys.end.min(start + KEYS).min(end);
                let n = block.len();
                let (weights, away) = (scratch.weights.as_mut_ptr(), scratch.away.as_mut_ptr());
                let (q, k) = (self.at(&own.q, item, first), self.at(&own.k, item, start));
                let v = self.at(&own.v, item, start);
                let (given, kept) = (Matrices::row_major(grad, depth), Matrices::row_major(weights.cast_const(), n));
                // SAFETY: guaranteed by the caller (see `# Safety`); scratch and gradients are the task's own.
                unsafe {
                    product([count, n, width], [q, k.transposed()], Matrices::row_major(weights, n), false)?;
                    let scale = own.apply_mask(item, queries.clone(), block, weights);
                    product([count, n, depth], [given, v.transposed()], Matrices::row_major(away, n), false)?;
                    for row in 0..count {
                        let log_sum = *own.log_sums.add(place + row);
                        let visible = own.visible(first + row, start, n);
                        let (weights, away) = (weights.add(row * n), away.add(row * n));
                        weigh(weights, away, visible, [scale, number(own.scale), log_sum, means[row]]);
                        (visible..n).for_each(|j| {
                            weights.add(j).write(number(0.0));
                            away.add(j).write(number(0.0));
                        });
                    }
                    let to_value = Matrices::row_major(to_value.add(start * depth), depth);
                    product([n, depth, count], [kept.transposed(), given], to_value, true)?;
                    let moved = Matrices::row_major(away.cast_const(), n);
                    let to_key = Matrices::row_major(to_key.add(start * width), width);
                    product([n, width, count], [moved.transposed(), q], to_key, true)?;
                    let to_query = Matrices::row_major(to_query.add(first * width), width);
                    product([count, width, n], [moved, k], to_query, true)?;
                }
            }
        }
        Ok(())
    }

    /// An item's matrix from a row on.
    fn at(&self, operand: &Operand<*const T>, item: usize, row: usize) -> Matrices<*const T> {
        operand.from(self.forward.batch, item, row)
    }
}

multiversion! {
    /// Computes weights from scores times a scale. The gradient of the weights becomes that of the products of queries
    /// and keys, which the attention's own scale turned into scores.
    ///
    /// # Safety
    /// Both hold `n` elements.
    unsafe fn weigh<S, T: Float>(weights: *mut T, away: *mut T, n: usize, numbers: [T; 4]) {
        let [scale, own_scale, log_sum, mean] = numbers;
        for i in 0..n {
            // SAFETY: the caller gives n elements.
            unsafe {
                let weight = S::exp(*weights.add(i) * scale - log_sum);
                weights.add(i).write(weight);
                away.add(i).write(weight * (*away.add(i) - mean) * own_scale);
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// Both hold `n` elements.
    unsafe fn dot<S, T: Float>(a: *const T, b: *const T, n: usize) -> T {
        // SAFETY: the caller gives n elements.
        added(n, |i| unsafe { *a.add(i) * *b.add(i) })
    }
}

multiversion! {
    /// # Safety
    /// Both hold `n` elements.
    unsafe fn joined<S, T: Float>(to: *mut T, from: *const T, n: usize) {
        for i in 0..n {
            // SAFETY: the caller gives n elements.
            unsafe { to.add(i).write(*to.add(i) + *from.add(i)) };
        }
    }
}
