//! Sums over everything or over some dimensions.

use rushlight_core::{DType, Result, dispatch};
use rushlight_cpu::reduce::Fold;

use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::Args;

pub static SUM: Row = Row {
    name: "sum",
    signature: "(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    doc: "The sum of all elements.

Integers and bool add up in int64. Floats add up in a fixed tree, so that the error grows with the logarithm of the count
and the bits do not depend on the number of threads.

    >>> torch.sum(torch.tensor([[1., 2.], [3., 4.]]))
    tensor(10.)",
    dtypes: DTypes::ALL,
    run: Run::Kernel(Kernel { infer: |args| infer(args, &[], false, 1), cpu: |args, results| run(args, &[], results) }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| expand(d, d.grad()))]),
    samples: &["t(2, 3)", "t(0)", "t()", "t(2, 3).t()"],
    reference: "np.sum(self)",
    ..Row::BASE
};

pub static SUM_DIM: Row = Row {
    name: "sum.dim",
    variants: Variants::BOTH.and(Variants::OUT),
    signature: "(Tensor self, int[]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The sums along `dim`, one dimension or several; they disappear unless `keepdim`.

    >>> torch.sum(torch.tensor([[1., 2.], [3., 4.]]), dim=1)
    tensor([3., 7.])",
    dtypes: DTypes::ALL,
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, args.optional_ints(1).unwrap_or(&[]), args.bool(2)?, 3),
        cpu: |args, results| run(args, args.optional_ints(1).unwrap_or(&[]), results),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        expand(d, d.grad().unreduce(d.ints(1), d.flag(2), d.rank(0)))
    })]),
    samples: &["t(2, 3), 1", "t(2, 3), dim=(0, 1)", "t(2, 3, 4), (0, 2), True", "t(0, 3), 0", "t(2, 3, 4).transpose(0, 2), 1"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.sum(self, axis=dim, keepdims=keepdim)",
    ..Row::BASE
};

/// The dtype of a sum: what was asked for, int64 for integers, else the operand's.
fn result_dtype(args: &Args, place: usize) -> Result<DType> {
    let own = args.tensor(0)?.dtype();
    let exact = own.is_integral() || own == DType::Bool;
    Ok(args.dtype(place).unwrap_or(if exact { DType::I64 } else { own }))
}

fn infer(args: &Args, dims: &[i64], keepdim: bool, dtype: usize) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    let sizes = super::reduced_sizes(own.sizes(), dims, keepdim)?;
    Ok(vec![Spec::new(&sizes, result_dtype(args, dtype)?, own)])
}

fn run(args: &Args, dims: &[i64], results: &[rushlight_autograd::Tensor]) -> Result<()> {
    let out = &results[0];
    let compute = out.dtype().compute();
    let fold: Fold = dispatch!(compute, T in [u8, i8, i16, i32, i64, f32, f64, rushlight_core::dtype::c64, rushlight_core::dtype::c128] => sum::<T> as Fold,
        else => return Err(crate::call::not_implemented(args.row, compute)));
    super::fold(args.tensor(0)?, dims, out, compute, fold)
}

/// Sixteen running sums side by side, then a tree over them.
unsafe fn sum<T: Copy + Default + std::ops::Add<Output = T>>(out: *mut u8, row: *const u8, n: usize) {
    let row = row.cast::<T>();
    let mut lanes = [T::default(); 16];
    // SAFETY: the caller gives `n` elements and room for one.
    unsafe {
        let mut i = 0;
        while i + 16 <= n {
            for (j, lane) in lanes.iter_mut().enumerate() {
                *lane = *lane + row.add(i + j).read_unaligned();
            }
            i += 16;
        }
        for (j, lane) in lanes.iter_mut().enumerate().take(n - i) {
            *lane = *lane + row.add(i + j).read_unaligned();
        }
        let mut width = 8;
        while width > 0 {
            for j in 0..width {
                lanes[j] = lanes[j] + lanes[j + width];
            }
            width /= 2;
        }
        out.cast::<T>().write_unaligned(lanes[0]);
    }
}

fn expand(d: &Derive, grad: Expr) -> Expr {
    grad.call(&crate::view::expand::EXPAND, [crate::view::reshape::sizes_value(d.sizes(0))])
}
