//! Attention: means of values, weighted by a softmax of the products of queries with keys. The matrix of weights is
//! never stored as a whole.
//!
//! A task takes a block of queries and iterates over blocks of keys. It keeps, for each query, the largest score so
//! far, the sum of the weights and the weighted sum of the values; if a later block has a larger score, both sums are
//! scaled down.

mod backward;

use rushlight_core::Result;
use rushlight_core::alloc::filled;
use rushlight_simd::multiversion;

use crate::float::Float;
use crate::linalg::matmul::{GemmElement, Matrices, Product, gemm};
use crate::reduce::softmax::{LANES, added, larger, tree};

pub use backward::Gradients;

const QUERIES: usize = 64;
const KEYS: usize = 256;
/// Multiplications worth a task.
const TASK: usize = 1 << 17;

/// The matrices of one operand: strides in elements, and those of the batch dimensions.
pub struct Operand<P> {
    pub ptr: P,
    pub batch: Vec<isize>,
    pub row: isize,
    pub col: isize,
}

impl<P> Operand<P> {
    /// The offset of a batch item's matrix.
    fn offset(&self, sizes: &[usize], item: usize) -> isize {
        let mut rest = item;
        let mut offset = 0;
        for (&size, &stride) in sizes.iter().zip(&self.batch).rev() {
            offset += (rest % size) as isize * stride;
            rest /= size;
        }
        offset
    }
}

impl<T> Operand<*const T> {
    /// A batch item's matrix from a row on.
    fn from(&self, sizes: &[usize], item: usize, row: usize) -> Matrices<*const T> {
        Matrices {
            ptr: self.ptr.wrapping_offset(self.offset(sizes, item) + row as isize * self.row),
            batch_stride: 0,
            row_stride: self.row,
            col_stride: self.col,
        }
    }
}

/// Added to the scores, or which of them count.
pub enum Mask<T> {
    None,
    Additive(Operand<*const T>),
    Boolean(Operand<*const u8>),
}

pub struct Attention<'a, T> {
    /// The sizes of the batch.
    pub batch: &'a [usize],
    pub queries: usize,
    pub keys: usize,
    /// The numbers of elements of a query and of a value.
    pub widths: [usize; 2],
    pub scale: f64,
    /// Whether a query sees no key after its own position.
    pub causal: bool,
    pub q: Operand<*const T>,
    pub k: Operand<*const T>,
    pub v: Operand<*const T>,
    pub mask: Mask<T>,
    /// Row-major results: the means, and the logarithms of the sums of the scores' exponentials; infinite for a query
    /// that sees no key.
    pub out: *mut T,
    pub log_sums: *mut T,
}

// SAFETY: operands are only read, and each task writes the results of its own queries.
unsafe impl<T> Sync for Attention<'_, T> {}

fn number<T: Float>(value: f64) -> T {
    <T as Float>::narrow(value)
}

struct Scratch<T> {
    scores: Vec<T>,
    tops: Vec<T>,
    sums: Vec<T>,
}

impl<T: Float + GemmElement<Sum = T>> Attention<'_, T> {
    /// # Safety
    /// Every pointer covers its matrices at its strides, and the results do not overlap the operands.
    pub unsafe fn run(&self) -> Result<()> {
        let items: usize = self.batch.iter().product();
        let blocks = self.queries.div_ceil(QUERIES);
        let work = self.queries.min(QUERIES) * self.keys * (self.widths[0] + self.widths[1]);
        rushlight_par::try_parallel_for(items * blocks, TASK.div_ceil(work.max(1)), |tasks| {
            let mut scratch = Scratch {
                scores: filled(number(0.0), QUERIES.min(self.queries) * KEYS.min(self.keys))?,
                tops: filled(number(0.0), QUERIES)?,
                sums: filled(number(0.0), QUERIES)?,
            };
            for task in tasks {
                // SAFETY: guaranteed by the caller (see `# Safety`).
                unsafe { self.block(task / blocks, task % blocks * QUERIES, &mut scratch)? };
            }
            Ok(())
        })
    }

    /// The means for a block of queries.
    ///
    /// # Safety
    /// Same as for `run`.
    unsafe fn block(&self, item: usize, first: usize, scratch: &mut Scratch<T>) -> Result<()> {
        let rows = QUERIES.min(self.queries - first);
        let [width, depth] = self.widths;
        let place = item * self.queries + first;
        let out = self.out.wrapping_add(place * depth);
        // SAFETY: the results belong to this block.
        unsafe { std::slice::from_raw_parts_mut(out, rows * depth) }.fill(number(0.0));
        scratch.tops.fill(number(f64::NEG_INFINITY));
        scratch.sums.fill(number(0.0));
        let seen = if self.causal { self.keys.min(first + rows) } else { self.keys };
        let at = |operand: &Operand<*const T>, row: usize| operand.from(self.batch, item, row);
        for start in (0..seen).step_by(KEYS) {
            let keys = KEYS.min(seen - start);
            let k = at(&self.k, start);
            let scores = scratch.scores.as_mut_ptr();
            let matrix =
                |ptr: *const T, row: usize| Matrices { ptr, batch_stride: 0, row_stride: row as isize, col_stride: 1 };
            // SAFETY: guaranteed by the caller (see `# Safety`); scores and results are the task's own.
            unsafe {
                gemm(&Product {
                    batch: 1,
                    m: rows,
                    n: keys,
                    k: width,
                    alpha: number(1.0),
                    a: at(&self.q, first),
                    b: Matrices { row_stride: k.col_stride, col_stride: k.row_stride, ..k },
                    addend: None,
                    c: Matrices { ptr: scores, batch_stride: 0, row_stride: keys as isize, col_stride: 1 },
                })?;
                let scale = self.apply_mask(item, first..first + rows, start..start + keys, scores);
                for row in 0..rows {
                    let (top, sum) = (&mut scratch.tops[row], &mut scratch.sums[row]);
                    let (own, visible) = (scores.add(row * keys), self.visible(first + row, start, keys));
                    let shrunk = weigh(own, visible, scale, top, sum);
                    (visible..keys).for_each(|j| own.add(j).write(number(0.0)));
                    if shrunk != number::<T>(1.0) {
                        (0..depth).for_each(|j| *out.add(row * depth + j) = *out.add(row * depth + j) * shrunk);
                    }
                }
                gemm(&Product {
                    batch: 1,
                    m: rows,
                    n: depth,
                    k: keys,
                    alpha: number(1.0),
                    a: matrix(scores, keys),
                    b: at(&self.v, start),
                    addend: Some((number(1.0), matrix(out, depth))),
                    c: Matrices { ptr: out, batch_stride: 0, row_stride: depth as isize, col_stride: 1 },
                })?;
            }
        }
        for row in 0..rows {
            let sum = scratch.sums[row];
            let none = sum == number::<T>(0.0);
            let log = if none { f64::INFINITY } else { scratch.tops[row].wide() + sum.wide().ln() };
            // SAFETY: the results belong to this block.
            unsafe {
                self.log_sums.add(place + row).write(number(log));
                if !none {
                    (0..depth).for_each(|j| *out.add(row * depth + j) = *out.add(row * depth + j) / sum);
                }
            }
        }
        Ok(())
    }

    /// How many of `keys` keys from `start` on the query in this row may see.
    fn visible(&self, row: usize, start: usize, keys: usize) -> usize {
        if self.causal { (row + 1).saturating_sub(start).min(keys) } else { keys }
    }

    /// Scales a block of scores and applies the mask to them. Without a mask it leaves them unchanged, and returns the
    /// factor that is still to be applied.
    ///
    /// # Safety
    /// Same as for `run`; the scores have the stated rows and columns.
    unsafe fn apply_mask(
        &self,
        item: usize,
        rows: std::ops::Range<usize>,
        cols: std::ops::Range<usize>,
        scores: *mut T,
    ) -> T {
        let (scale, hidden): (T, T) = (number(self.scale), number(f64::NEG_INFINITY));
        let n = cols.len();
        for (at, row) in rows.enumerate() {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let scores = scores.add(at * n);
                match &self.mask {
                    Mask::None => return scale,
                    Mask::Additive(mask) => {
                        let start = mask.offset(self.batch, item) + row as isize * mask.row;
                        let from = mask.ptr.offset(start + cols.start as isize * mask.col);
                        (0..n).for_each(|j| {
                            *scores.add(j) = *scores.add(j) * scale + *from.offset(j as isize * mask.col);
                        });
                    }
                    Mask::Boolean(mask) => {
                        let start = mask.offset(self.batch, item) + row as isize * mask.row;
                        let from = mask.ptr.offset(start + cols.start as isize * mask.col);
                        (0..n).for_each(|j| {
                            let kept = *from.offset(j as isize * mask.col) != 0;
                            *scores.add(j) = if kept { *scores.add(j) * scale } else { hidden };
                        });
                    }
                }
            }
        }
        number(1.0)
    }
}

multiversion! {
    /// Computes weights from scores times their scale, relative to the largest score so far. Returns the factor for the
    /// earlier sums.
    ///
    /// # Safety
    /// The row holds `n` elements.
    unsafe fn weigh<S, T: Float>(row: *mut T, n: usize, scale: T, top: &mut T, sum: &mut T) -> T {
        let lowest = T::narrow(f64::NEG_INFINITY);
        // SAFETY: the caller gives n elements.
        unsafe {
            let mut tops = [lowest; LANES];
            let whole = n - n % LANES;
            for i in (0..whole).step_by(LANES) {
                for (j, top) in tops.iter_mut().enumerate() {
                    *top = larger(*top, *row.add(i + j) * scale);
                }
            }
            for (j, top) in tops.iter_mut().enumerate().take(n - whole) {
                *top = larger(*top, *row.add(whole + j) * scale);
            }
            let new = larger(*top, tree(tops, larger));
            // If nothing was seen yet there is no largest score.
            let base = if new == lowest { T::narrow(0.0) } else { new };
            let shrunk = S::exp(*top - base);
            let weights = added(n, |i| {
                let weight = S::exp(*row.add(i) * scale - base);
                row.add(i).write(weight);
                weight
            });
            *sum = *sum * shrunk + weights;
            *top = new;
            shrunk
        }
    }
}
