//! Products.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, Device, Result};
use rushlight_cpu::folds;
use rushlight_cpu::folds::Folds;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, BatchRule, Derivative, Implementation, Kernel, Operator, Out, Saves, Tags,
    Variants, formula, operator,
};
use rushlight_dispatch::{value, vmap};

use super::{ReduceDims, restored};
use crate::expr_ext::ExprExt;

#[operator]
pub static PROD: Operator = Operator {
    name: "prod",
    tags: Tags::ANY_DTYPE_WITHOUT_ELEMENTS,
    signature: "(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    doc: "The product of all elements; integers and bool are multiplied in int64.

    >>> torch.prod(torch.tensor([1., 2., 3.]))
    tensor(6.)",
    autocast: Autocast::Fp32.everywhere(),
    batch_rule: BatchRule::FullReduction(&PROD_DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| Ok(vec![ReduceDims::ALL.spec(args, super::sum::result_dtype(args, DTYPE)?)?]),
        |args, results| run(args, ReduceDims::ALL, results),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        gradient(d, None)
    })]),
    samples: &["t(2, 3)", "t()", "t(0)", "t(3, 2).t()"],
    reference: "np.prod(self)",
    kernel_name: "prod_out_cpu",
    ..Operator::BASE
};

#[operator]
pub static PROD_DIM: Operator = Operator {
    name: "prod.dim",
    tags: Tags::ANY_DTYPE_WITHOUT_ELEMENTS,
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The products along `dim`.

    >>> torch.prod(torch.tensor([[1., 2.], [3., 4.]]), 1)
    tensor([ 2., 12.])",
    out: Out::REQUESTED_DTYPE,
    autocast: Autocast::Fp32.everywhere(),
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| Ok(vec![ReduceDims::of(args, DIM, KEEPDIM)?.spec(args, super::sum::result_dtype(args, DTYPE)?)?]),
        |args, results| run(args, ReduceDims::of(args, DIM, KEEPDIM)?, results),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        gradient(d, Some(d.int(DIM)))
    })]),
    samples: &["t(2, 3), 1", "t(2, 3), 0, True", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.prod(self, axis=dim if self.ndim else None, keepdims=keepdim)",
    ..Operator::BASE
};

fn run(args: &Args, over: ReduceDims, results: &[Tensor]) -> Result<()> {
    super::fold(args, over, results, PRODUCTS, results[0].dtype().compute(), &[])
}

pub const PRODUCTS: Folds = folds! {
    "prod";
    for<S> [u8, i8, i16, i32, i64] (1; |a, x| a.wrapping_mul(x); |a, b| a.wrapping_mul(b); |a, _n| a);
    for<S> [f32, f64] (1.0; |a, x| a * x; |a, b| a * b; |a, _n| a);
    for<S> [c64, c128] (T::new(1.0, 0.0); |a, x| a * x; |a, b| a * b; |a, _n| a);
    for<S> [Bool] (Bool(1); |a, x| Bool(a.0 & x.0); |a, b| Bool(a.0 & b.0); |a, _n| a)
};

/// The product of the other elements: by division if no element is zero, else from the products of both sides.
fn gradient(d: &BackwardContext, dim: Option<i64>) -> Expr {
    use PROD::*;

    let input = d.input(INPUT);
    let (grad, result) = match dim {
        Some(_) => {
            let restored = |value| restored(d, value, PROD_DIM::DIM, PROD_DIM::KEEPDIM);
            (restored(d.grad()), restored(d.result()))
        }
        None => (d.grad(), d.result()),
    };
    if d.rank(INPUT) == 0 {
        return grad;
    }
    match has_zero(input.clone()) {
        Ok(false) => grad * (result / input).conj(),
        Ok(true) => others(d, dim, input, grad),
        Err(error) => Expr::failed(error),
    }
}

/// On `meta` any element may be zero.
fn has_zero(input: Expr) -> Result<bool> {
    let all = Expr::from(vmap::samples(&input.done()?)?).call(&super::all_any::ALL, []).done()?;
    Ok(all.device() == Device::Meta || !crate::convert::item(&all)?.truth())
}

fn others(d: &BackwardContext, dim: Option<i64>, input: Expr, grad: Expr) -> Expr {
    let product = |input: Expr, dim: i64| -> Result<Tensor> {
        let input = input.done()?;
        let axis = rushlight_core::layout::wrap_dim(dim, input.rank())?;
        let before = super::cumulative::product_before(&input, axis)?;
        let turned = super::cumulative::flipped(&input, axis)?;
        let after = super::cumulative::flipped(&super::cumulative::product_before(&turned, axis)?, axis)?;
        (Expr::from(before) * after).conj().done()
    };
    match dim {
        Some(dim) => grad * Expr::new(product(input, dim)),
        None => {
            let flat = input.call(&crate::view::RESHAPE, [value::sizes_value(&[-1])]);
            let product =
                Expr::new(product(flat, 0)).call(&crate::view::RESHAPE, [value::sizes_value(d.sizes(PROD::INPUT))]);
            grad * product
        }
    }
}
