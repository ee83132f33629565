//! Elements chosen along a dimension by their places, and the way back: what derivatives of maxima, sorts and their like
//! are made of. Each is the other's derivative.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, Dims, Result, dispatch};

use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Value};

pub static PICK: Row = Row {
    name: "_pick_along",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor index, int dim) -> Tensor",
    doc: "The element at each place of `index` along `dim`.

    >>> torch._pick_along(torch.tensor([5, 6, 7]), torch.tensor([2, 0]), 0)
    tensor([7, 5])",
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Spec::new(args.tensor(1)?.sizes(), args.tensor(0)?.dtype(), args.tensor(0)?)]),
        cpu: |args, results| walk(args, &results[0], true),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1), |d| {
        let dim = d.int(2);
        let size = axis_size(d.sizes(0), dim);
        let index = d.input(1);
        match index.done() {
            Ok(index) => d.grad().call(&SPREAD, [index.into(), dim.into(), size.into()]),
            Err(error) => Expr::failed(error),
        }
    })]),
    samples: &["t(2, 3), i(3, 2, 2), 1", "t(4), i(4, 3), 0"],
    reference: "np.take_along_axis(self, index, dim)",
    ..Row::BASE
};

pub static SPREAD: Row = Row {
    name: "_spread_along",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor index, int dim, int size) -> Tensor",
    doc: "Zeros with `size` elements along `dim`, to which each element is added at its place.

    >>> torch._spread_along(torch.tensor([5, 6, 7]), torch.tensor([1, 0, 1]), 0, 2)
    tensor([ 6, 12])",
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            let mut sizes: Dims = own.sizes().clone();
            if own.rank() > 0 {
                sizes[super::one_dim(args, 2)?] = args.int(3)? as isize;
            }
            Ok(vec![Spec::new(&sizes, own.dtype(), own)])
        },
        cpu: |args, results| {
            crate::create::fill(&results[0], rushlight_core::Scalar::ZERO)?;
            walk(args, &results[0], false)
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1), |d| match d.input(1).done() {
        Ok(index) => d.grad().call(&PICK, [index.into(), d.int(2).into()]),
        Err(error) => Expr::failed(error),
    })]),
    samples: &["t(2, 3), i(4, 2, 3), 1, 4", "t(4), i(2, 4), 0, 2"],
    ..Row::BASE
};

fn axis_size(sizes: &[isize], dim: i64) -> i64 {
    rushlight_core::layout::wrap_dim(dim, sizes.len()).ok().and_then(|dim| sizes.get(dim)).map_or(1, |&n| n as i64)
}

/// The gradient of what was selected along `dim`, put back where it came from.
pub fn put_back(d: &Derive, grad: Expr, index: Expr, dim: i64, keepdim: bool) -> Expr {
    let rank = d.rank(0);
    if rank == 0 {
        return grad;
    }
    match index.unreduce(&[dim], keepdim, rank).done() {
        Ok(index) => {
            let rest = [index.into(), dim.into(), Value::Int(axis_size(d.sizes(0), dim))];
            grad.unreduce(&[dim], keepdim, rank).call(&SPREAD, rest)
        }
        Err(error) => Expr::failed(error),
    }
}

/// `to[..., i, ...] = from[..., index[..., i, ...], ...]`, or the other way about with addition.
fn walk(args: &Args, result: &Tensor, pick: bool) -> Result<()> {
    let own = crate::convert::contiguous(args.tensor(0)?)?;
    let index = crate::convert::contiguous(args.tensor(1)?)?;
    let dim = super::one_dim(args, 2)?;
    let axis = |tensor: &Tensor| tensor.sizes().get(dim).copied().unwrap_or(1) as usize;
    let inner: usize = index.sizes().iter().skip(dim + 1).product::<isize>() as usize;
    let (long, wide) = (axis(&index), axis(if pick { &own } else { result }));
    let outer = index.numel().checked_div(long * inner).unwrap_or(0);
    let (source, places, target) = (own.storage().pin(), index.storage().pin(), result.storage().pin());
    let offset = own.layout().offset;
    // SAFETY: index is contiguous int64.
    let places = unsafe { places.as_ptr().cast::<i64>().offset(index.layout().offset) };
    dispatch!(own.dtype(), T in [u8, i8, i16, i32, i64, f32, f64, rushlight_core::dtype::f16_, rushlight_core::dtype::bf16_, c64, c128, Bool] => {
        // SAFETY: source and target are contiguous of this dtype; places were made by rows, and are checked again.
        unsafe {
            let (from, to) = (source.as_ptr().cast::<T>().offset(offset), target.as_ptr().cast::<T>());
            for line in 0..outer * inner {
                let (block, column) = (line / inner, line % inner);
                for i in 0..long {
                    let small = (block * long + i) * inner + column;
                    let place = places.add(small).read_unaligned();
                    if place < 0 || place as usize >= wide {
                        return Err(rushlight_core::Error::index(format!(
                            "index {place} is out of bounds for dimension {dim} with size {wide}"
                        )));
                    }
                    let large = (block * wide + place as usize) * inner + column;
                    if pick {
                        to.add(small).write(from.add(large).read_unaligned());
                    } else {
                        let sum = plus(to.add(large).read(), from.add(small).read_unaligned());
                        to.add(large).write(sum);
                    }
                }
            }
        }
        Ok(())
    }, else => Err(crate::call::not_implemented(args.row, own.dtype())))
}

/// Addition for every dtype; integers wrap.
trait Plus {
    fn plus(self, other: Self) -> Self;
}

macro_rules! plus {
    ($(|$a:ident, $b:ident| $sum:expr => $($t:ty)*;)*) => {$($(
        impl Plus for $t {
            fn plus(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $sum
            }
        }
    )*)*};
}
plus! {
    |a, b| a.wrapping_add(b) => u8 i8 i16 i32 i64;
    |a, b| a + b => f32 f64 c64 c128;
    |a, b| Self::from_f32(a.to_f32() + b.to_f32()) => rushlight_core::dtype::f16_ rushlight_core::dtype::bf16_;
    |a, b| Bool(a.0 | b.0) => Bool;
}

fn plus<T: Plus>(a: T, b: T) -> T {
    a.plus(b)
}

/// The dtypes of rows that choose elements by their order.
pub const ORDERED: DTypes = DTypes::REAL.and(DTypes::BOOL);
