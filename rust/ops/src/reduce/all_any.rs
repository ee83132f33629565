//! Whether all or any elements are true, and how many are.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::layout::DimSet;
use rushlight_core::{Bool, DType, Result};
use rushlight_cpu::folds;
use rushlight_cpu::folds::Folds;
use rushlight_dispatch::operator::{
    Accepts, Args, BatchRule, DTypes, Derivative, Implementation, Kernel, Operator, Out, Sparse, TensorSpec, Variants,
    operator,
};
use rushlight_dispatch::value::Arg;

use super::ReduceDims;

/// Shared by `all` and `any`.
const TRUTH: Operator = Operator {
    variants: Variants::BOTH.union(Variants::OUT),
    out: Out::new(
        Accepts::Also(DTypes::of(&[DType::Bool, DType::U8])),
        &["{name} only supports bool tensor for result, got: {Out}"],
    )
    .known(|args| args.tensor(Arg::FIRST).ok().map(result_dtype)),
    dtypes: DTypes::ALL,
    derivative: Derivative::NonDifferentiable("its result is a truth value"),
    ..Operator::BASE
};

#[operator]
pub static ALL: Operator = Operator {
    name: "all",
    signature: "(Tensor self) -> Tensor",
    doc: "Whether all elements are true (not zero); true if there are none.

    >>> torch.all(torch.tensor([True, False]))
    tensor(False)",
    batch_rule: BatchRule::FullReduction(&ALL_DIMS),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, ReduceDims::ALL),
        |args, results| run(args, ReduceDims::ALL, results, ALL_TRUE),
    )),
    samples: &["t(2, 3)", "t(0)", "t()"],
    reference: "np.all(self).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

#[operator]
pub static ALL_DIM: Operator = Operator {
    name: "all.dim",
    signature: "(Tensor self, int dim, bool keepdim=False) -> Tensor",
    doc: "Whether all elements along `dim` are true.

    >>> torch.all(torch.tensor([[1, 1], [0, 1]]), dim=1)
    tensor([ True, False])",
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, ReduceDims::of(args, DIM, KEEPDIM)?),
        |args, results| run(args, ReduceDims::of(args, DIM, KEEPDIM)?, results, ALL_TRUE),
    )),
    samples: &["t(2, 3), 1", "t(2, 3), 0, True"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.all(self, axis=dim, keepdims=keepdim).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

#[operator]
pub static ALL_DIMS: Operator = Operator {
    name: "all.dims",
    signature: "(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    doc: "Whether all elements along several dimensions are true; an empty list tests each element alone.

    >>> torch.all(torch.ones(2, 3), dim=(0, 1))
    tensor(True)",
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, several(args)?),
        |args, results| run(args, several(args)?, results, ALL_TRUE),
    )),
    samples: &["t(2, 3), (0, 1)", "t(2, 3, 4), (0, 2), True"],
    reference: "np.all(self, axis=dim, keepdims=keepdim).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

#[operator]
pub static ANY: Operator = Operator {
    name: "any",
    signature: "(Tensor self) -> Tensor",
    doc: "Whether any element is true (not zero); false if there are none.

    >>> torch.any(torch.tensor([True, False]))
    tensor(True)",
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::FullReduction(&ANY_DIMS),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, ReduceDims::ALL),
        |args, results| run(args, ReduceDims::ALL, results, ANY_TRUE),
    )),
    samples: &["t(2, 3)", "t(0)", "t()"],
    reference: "np.any(self).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

#[operator]
pub static ANY_DIM: Operator = Operator {
    name: "any.dim",
    signature: "(Tensor self, int dim, bool keepdim=False) -> Tensor",
    doc: "Whether any element along `dim` is true.

    >>> torch.any(torch.tensor([[0, 0], [0, 1]]), dim=1)
    tensor([False,  True])",
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, ReduceDims::of(args, DIM, KEEPDIM)?),
        |args, results| run(args, ReduceDims::of(args, DIM, KEEPDIM)?, results, ANY_TRUE),
    )),
    samples: &["t(2, 3), 1", "t(2, 3), 0, True"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.any(self, axis=dim, keepdims=keepdim).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

#[operator]
pub static ANY_DIMS: Operator = Operator {
    name: "any.dims",
    signature: "(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    doc: "Whether any element along several dimensions is true; an empty list tests each element alone.

    >>> torch.any(torch.zeros(2, 3), dim=(0, 1))
    tensor(False)",
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, several(args)?),
        |args, results| run(args, several(args)?, results, ANY_TRUE),
    )),
    samples: &["t(2, 3), (0, 1)", "t(2, 3, 4), (0, 2), True"],
    reference: "np.any(self, axis=dim, keepdims=keepdim).astype(np.uint8 if self.dtype == np.uint8 else bool)",
    ..TRUTH
};

#[operator]
pub static COUNT_NONZERO: Operator = Operator {
    name: "count_nonzero",
    signature: "(Tensor self, int[1]? dim=None) -> Tensor",
    doc: "The number of non-zero elements along `dim` (all dimensions by default).

    >>> torch.count_nonzero(torch.tensor([[0, 1], [2, 3]]), dim=1)
    tensor([1, 2])",
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32),
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| Ok(vec![ReduceDims::along(args, DIM)?.spec(args, DType::I64)?]),
        |args, results| run(args, ReduceDims::along(args, DIM)?, results, COUNTS),
    )),
    derivative: Derivative::NonDifferentiable("its result is a count"),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2)"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.array(np.count_nonzero(self, axis=dim))",
    ..Operator::BASE
};

/// Dimensions as a list; an empty list means none and an omitted one all.
fn several(args: &Args) -> Result<ReduceDims> {
    use ALL_DIMS::*;

    let over = ReduceDims::of(args, DIM, KEEPDIM)?;
    let none = args.optional_ints(DIM).is_some_and(<[i64]>::is_empty);
    Ok(if none { ReduceDims { dims: DimSet::NONE, ..over } } else { over })
}

pub const COUNTS: Folds = folds! {
    "count_nonzero";
    for<S> [u8, i8, i16, i32, i64, f32, f64, c64, c128, Bool => i64] (
        0; |a, x| a + i64::from(x != T::default()); |a, b| a + b; |a, _n| a)
};

pub const ALL_TRUE: Folds = folds! {
    "all";
    for<S> [u8, i8, i16, i32, i64, f32, f64, c64, c128, Bool => Bool] (
        Bool(1); |a, x| Bool(a.0 & u8::from(x != T::default())); |a, b| Bool(a.0 & b.0); |a, _n| a)
};

pub const ANY_TRUE: Folds = folds! {
    "any";
    for<S> [u8, i8, i16, i32, i64, f32, f64, c64, c128, Bool => Bool] (
        Bool(0); |a, x| Bool(a.0 | u8::from(x != T::default())); |a, b| Bool(a.0 | b.0); |a, _n| a)
};

fn result_dtype(input: &Tensor) -> DType {
    if input.dtype() == DType::U8 { DType::U8 } else { DType::Bool }
}

fn infer(args: &Args, over: ReduceDims) -> Result<Vec<TensorSpec>> {
    Ok(vec![over.spec(args, result_dtype(args.tensor(ALL::INPUT)?))?])
}

fn run(args: &Args, over: ReduceDims, results: &[Tensor], folds: Folds) -> Result<()> {
    let dtype = args.tensor(ALL::INPUT)?.dtype();
    // Signedness does not affect whether an element is zero.
    let compute = if dtype.is_wide_unsigned() { dtype.signed() } else { dtype.compute() };
    super::fold(args, over, results, folds, compute, &[])
}
