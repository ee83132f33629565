//! Whether all or any elements are true, and how many are.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::layout::DimSet;
use rushlight_core::{Bool, DType, Result};
use rushlight_cpu::folds;
use rushlight_cpu::reduce::Fold;

use super::Over;
use crate::derive::Derivative;
use crate::mapped::Mapped;
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::Args;

/// What `all` and `any` have in common.
const TRUTH: Row = Row {
    variants: Variants::BOTH.union(Variants::OUT),
    out: Out::new(
        Accepts::Also(DTypes::of(&[DType::Bool, DType::U8])),
        &["{name} only supports bool tensor for result, got: {Out}"],
    ),
    dtypes: DTypes::ALL,
    derivative: Derivative::NonDifferentiable("its result is a truth value"),
    ..Row::BASE
};

pub static ALL: Row = Row {
    name: "all",
    signature: "(Tensor self) -> Tensor",
    doc: "Whether all elements are true (not zero); true where there are none.

    >>> torch.all(torch.tensor([True, False]))
    tensor(False)",
    mapped: Mapped::Whole(&ALL_DIMS),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, Over::ALL),
        cpu: |args, results| run(args, Over::ALL, results, all()),
    }),
    samples: &["t(2, 3)", "t(0)", "t()"],
    reference: "np.all(self).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

pub static ALL_DIM: Row = Row {
    name: "all.dim",
    signature: "(Tensor self, int dim, bool keepdim=False) -> Tensor",
    doc: "Whether all elements along `dim` are true.

    >>> torch.all(torch.tensor([[1, 1], [0, 1]]), dim=1)
    tensor([ True, False])",
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, Over::of(args, 1)?),
        cpu: |args, results| run(args, Over::of(args, 1)?, results, all()),
    }),
    samples: &["t(2, 3), 1", "t(2, 3), 0, True"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.all(self, axis=dim, keepdims=keepdim).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

pub static ALL_DIMS: Row = Row {
    name: "all.dims",
    signature: "(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    doc: "Whether all elements along several dimensions are true; along none, each element alone.

    >>> torch.all(torch.ones(2, 3), dim=(0, 1))
    tensor(True)",
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, several(args)?),
        cpu: |args, results| run(args, several(args)?, results, all()),
    }),
    samples: &["t(2, 3), (0, 1)", "t(2, 3, 4), (0, 2), True"],
    reference: "np.all(self, axis=dim, keepdims=keepdim).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

pub static ANY: Row = Row {
    name: "any",
    signature: "(Tensor self) -> Tensor",
    doc: "Whether any element is true (not zero); false where there are none.

    >>> torch.any(torch.tensor([True, False]))
    tensor(True)",
    mapped: Mapped::Whole(&ANY_DIMS),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, Over::ALL),
        cpu: |args, results| run(args, Over::ALL, results, any()),
    }),
    samples: &["t(2, 3)", "t(0)", "t()"],
    reference: "np.any(self).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

pub static ANY_DIM: Row = Row {
    name: "any.dim",
    signature: "(Tensor self, int dim, bool keepdim=False) -> Tensor",
    doc: "Whether any element along `dim` is true.

    >>> torch.any(torch.tensor([[0, 0], [0, 1]]), dim=1)
    tensor([False,  True])",
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, Over::of(args, 1)?),
        cpu: |args, results| run(args, Over::of(args, 1)?, results, any()),
    }),
    samples: &["t(2, 3), 1", "t(2, 3), 0, True"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.any(self, axis=dim, keepdims=keepdim).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

pub static ANY_DIMS: Row = Row {
    name: "any.dims",
    signature: "(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    doc: "Whether any element along several dimensions is true; along none, each element alone.

    >>> torch.any(torch.zeros(2, 3), dim=(0, 1))
    tensor(False)",
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, several(args)?),
        cpu: |args, results| run(args, several(args)?, results, any()),
    }),
    samples: &["t(2, 3), (0, 1)", "t(2, 3, 4), (0, 2), True"],
    reference: "np.any(self, axis=dim, keepdims=keepdim).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

pub static COUNT_NONZERO: Row = Row {
    name: "count_nonzero",
    signature: "(Tensor self, int[1]? dim=None) -> Tensor",
    doc: "How many elements along `dim` (all dimensions by default) are not zero.

    >>> torch.count_nonzero(torch.tensor([[0, 1], [2, 3]]), dim=1)
    tensor([1, 2])",
    dtypes: DTypes::ALL,
    mapped: Mapped::Over(1),
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Over { keepdim: false, ..Over::of(args, 1)? }.spec(args, DType::I64)?]),
        cpu: |args, results| {
            let pick = folds! {
                for<S> [u8, i8, i16, i32, i64, f32, f64, c64, c128, Bool => i64] (
                    0; |a, x| a + i64::from(x != T::default()); |a, b| a + b; |a, _n| a)
            };
            run(args, Over { keepdim: false, ..Over::of(args, 1)? }, results, pick)
        },
    }),
    derivative: Derivative::NonDifferentiable("its result is a count"),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2)"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.array(np.count_nonzero(self, axis=dim))",
    ..Row::BASE
};

/// Dimensions as a list, where an empty one means none and a missing one all.
fn several(args: &Args) -> Result<Over> {
    let over = Over::of(args, 1)?;
    let none = args.optional_ints(1).is_some_and(<[i64]>::is_empty);
    Ok(if none { Over { dims: DimSet::NONE, ..over } } else { over })
}

fn all() -> fn(DType) -> Option<Fold> {
    folds! {
        for<S> [u8, i8, i16, i32, i64, f32, f64, c64, c128, Bool => Bool] (
            Bool(1); |a, x| Bool(a.0 & u8::from(x != T::default())); |a, b| Bool(a.0 & b.0); |a, _n| a)
    }
}

fn any() -> fn(DType) -> Option<Fold> {
    folds! {
        for<S> [u8, i8, i16, i32, i64, f32, f64, c64, c128, Bool => Bool] (
            Bool(0); |a, x| Bool(a.0 | u8::from(x != T::default())); |a, b| Bool(a.0 | b.0); |a, _n| a)
    }
}

fn infer(args: &Args, over: Over) -> Result<Vec<Spec>> {
    let dtype = if args.tensor(0)?.dtype() == DType::U8 { DType::U8 } else { DType::Bool };
    Ok(vec![over.spec(args, dtype)?])
}

fn run(args: &Args, over: Over, results: &[rushlight_autograd::Tensor], pick: fn(DType) -> Option<Fold>) -> Result<()> {
    let dtype = args.tensor(0)?.dtype();
    // What is not zero is so with a sign too.
    let compute = if dtype.is_wide_unsigned() { dtype.signed() } else { dtype.compute() };
    super::run(args, over, results, pick, compute, &[])
}
