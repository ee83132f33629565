//! Products of matrices, for every element type, layout and size, behind one function: [`gemm`].
//!
//! ```text
//! gemm ── batch ── Gemm::run ── tiny     three loops (driver.rs)
//!                           ├── vector   a few rows: bound by reading the matrix (vector.rs)
//!                           └── tiles    packed blocks and a register tile (tiles.rs, pack.rs, kernel.rs, x86.rs)
//! ```
//!
//! Strides are signed and in elements, so transposed, reversed and broadcast operands cost no copy. The result's bits
//! depend on the operands and on the machine's instruction level, never on the number of threads.
//! Half precision is summed in float32 and rounded once; integers wrap.

mod driver;
mod dtypes;
pub(crate) mod element;
pub(crate) mod gemm;
pub(crate) mod kernel;
pub(crate) mod pack;
pub(crate) mod scratch;
#[cfg(test)]
mod tests;
mod tiles;
mod untyped;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use element::{GemmElement, Sum};
pub use untyped::{Untyped, gemm_of, multiplies};

use rushlight_core::Result;

use element::Source;
use gemm::Gemm;

/// A batch of matrices: element `(i, j)` of matrix `b` is at
/// `ptr + b * batch_stride + i * row_stride + j * col_stride`.
#[derive(Clone, Copy, Debug)]
pub struct Matrices<P> {
    pub ptr: P,
    pub batch_stride: isize,
    pub row_stride: isize,
    pub col_stride: isize,
}

/// A batch of products: `c = alpha * a b + beta * addend`, with `a` of `m` by `k` and `b` of `k` by `n`.
pub struct Product<T: GemmElement> {
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: T::Sum,
    pub a: Matrices<*const T>,
    pub b: Matrices<*const T>,
    /// `beta` and the matrix that it scales: C itself, a bias (with strides of zero along repeated dimensions), or any
    /// other matrix. It is not read if `beta` is zero.
    pub addend: Option<(T::Sum, Matrices<*const T>)>,
    pub c: Matrices<*mut T>,
}

impl<P> Matrices<P> {
    /// One row-major matrix.
    pub fn row_major(ptr: P, width: usize) -> Matrices<P> {
        Matrices { ptr, batch_stride: 0, row_stride: width as isize, col_stride: 1 }
    }

    pub fn transposed(self) -> Matrices<P> {
        Matrices { row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }
}

impl<T> Matrices<*const T> {
    fn item(&self, b: usize) -> Source<T> {
        Source {
            ptr: self.ptr.wrapping_offset(b as isize * self.batch_stride),
            row_stride: self.row_stride,
            col_stride: self.col_stride,
        }
    }
}

/// Batches whose items have fewer multiplications than this are spread over threads item by item; a batch of many items
/// always is.
const SMALL_ITEM: usize = 1 << 22;
/// The fewest multiplications worth a task.
const TASK: usize = 1 << 17;

/// Computes a batch of products.
///
/// # Safety
/// Every pointer covers its matrices at its strides. `c` overlaps neither `a` nor `b`, its own elements do not overlap,
/// and the addend overlaps it only by being the same matrix.
pub unsafe fn gemm<T: GemmElement>(product: &Product<T>) -> Result<()> {
    let p = &joined(product);
    let one = |b: usize| Gemm {
        m: p.m,
        n: p.n,
        k: p.k,
        alpha: p.alpha,
        a: p.a.item(b),
        b: p.b.item(b),
        addend: p.addend.filter(|(beta, _)| *beta != T::Sum::ZERO).map(|(beta, d)| (beta, d.item(b))),
        c: p.c.ptr.wrapping_offset(b as isize * p.c.batch_stride),
        c_strides: (p.c.row_stride, p.c.col_stride),
    };
    let item = p.m * p.n * p.k;
    let spread = item < SMALL_ITEM || p.batch >= 4 * rushlight_par::num_threads();
    if p.batch > 1 && spread && item.saturating_mul(p.batch) >= 2 * TASK {
        let operands = Operands(&one);
        rushlight_par::try_parallel_for(p.batch, TASK.div_ceil(item.max(1)), |mut items| {
            // SAFETY: guaranteed by the caller (see `# Safety`); items of C do not overlap.
            items.try_for_each(|b| unsafe { operands.item(b).run() })
        })
    } else {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        (0..p.batch).try_for_each(|b| unsafe { one(b).run() })
    }
}

/// The items of a batch, shared by tasks.
struct Operands<F>(F);
// SAFETY: as for `Gemm`: pointers to operands that outlive the call, and disjoint results.
unsafe impl<F> Sync for Operands<F> {}

impl<T: GemmElement, F: Fn(usize) -> Gemm<T>> Operands<F> {
    fn item(&self, b: usize) -> Gemm<T> {
        (self.0)(b)
    }
}

/// A batch with a single B, whose rows of A follow one another across items, is one tall product.
fn joined<T: GemmElement>(p: &Product<T>) -> Product<T> {
    let follows = |batch_stride: isize, row_stride: isize| batch_stride == row_stride * p.m as isize;
    let tall = p.batch > 1
        && p.b.batch_stride == 0
        && follows(p.a.batch_stride, p.a.row_stride)
        && follows(p.c.batch_stride, p.c.row_stride)
        && p.addend.is_none_or(|(_, d)| follows(d.batch_stride, d.row_stride));
    let (batch, m) = if tall { (1, p.m * p.batch) } else { (p.batch, p.m) };
    Product { batch, m, ..*p }
}
