//! Products.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, DType, Device, Result};
use rushlight_cpu::folds;
use rushlight_cpu::reduce::Fold;

use super::{Over, restored};
use crate::autocast::Autocast;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::row::{Kernel, Out, Row, Run, Variants};
use crate::value::Args;

pub static PROD: Row = Row {
    name: "prod",
    signature: "(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    doc: "The product of all elements; integers and bool multiply in int64.

    >>> torch.prod(torch.tensor([1., 2., 3.]))
    tensor(6.)",
    autocast: Autocast::Single,
    mapped: Mapped::Whole(&PROD_DIM),
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Over::ALL.spec(args, super::sum::result_dtype(args, 1)?)?]),
        cpu: |args, results| run(args, Over::ALL, results),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0).union(Saves::RESULT), |d| gradient(d, None))]),
    samples: &["t(2, 3)", "t()", "t(0)", "t(3, 2).t()"],
    reference: "np.prod(self)",
    ..Row::BASE
};

pub static PROD_DIM: Row = Row {
    name: "prod.dim",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The products along `dim`.

    >>> torch.prod(torch.tensor([[1., 2.], [3., 4.]]), 1)
    tensor([ 2., 12.])",
    out: Out::ASKED,
    autocast: Autocast::Single,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Over::of(args, 1)?.spec(args, super::sum::result_dtype(args, 3)?)?]),
        cpu: |args, results| run(args, Over::of(args, 1)?, results),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0).union(Saves::RESULT), |d| {
        gradient(d, Some(d.int(1)))
    })]),
    samples: &["t(2, 3), 1", "t(2, 3), 0, True", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.prod(self, axis=dim if self.ndim else None, keepdims=keepdim)",
    ..Row::BASE
};

fn run(args: &Args, over: Over, results: &[Tensor]) -> Result<()> {
    super::run(args, over, results, products(), results[0].dtype().compute(), &[])
}

fn products() -> fn(DType) -> Option<Fold> {
    folds! {
        for<S> [u8, i8, i16, i32, i64] (1; |a, x| a.wrapping_mul(x); |a, b| a.wrapping_mul(b); |a, _n| a);
        for<S> [f32, f64] (1.0; |a, x| a * x; |a, b| a * b; |a, _n| a);
        for<S> [c64, c128] (T::new(1.0, 0.0); |a, x| a * x; |a, b| a * b; |a, _n| a);
        for<S> [Bool] (Bool(1); |a, x| Bool(a.0 & x.0); |a, b| Bool(a.0 & b.0); |a, _n| a)
    }
}

/// The product of the others: a division where no element is zero, else the products from both sides.
fn gradient(d: &Derive, dim: Option<i64>) -> Expr {
    let own = d.input(0);
    let (grad, result) = match dim {
        Some(_) => (restored(d, d.grad(), 1), restored(d, d.result(), 1)),
        None => (d.grad(), d.result()),
    };
    if d.rank(0) == 0 {
        return grad;
    }
    match has_zero(own.clone()) {
        Ok(false) => grad * (result / own).conj(),
        Ok(true) => others(d, dim, own, grad),
        Err(error) => Expr::failed(error),
    }
}

/// On `meta` any element may be zero.
fn has_zero(own: Expr) -> Result<bool> {
    let all = Expr::from(crate::mapped::samples(&own.done()?)).call(&super::truth::ALL, []).done()?;
    Ok(all.device() == Device::Meta || !crate::convert::item(&all)?.truth())
}

fn others(d: &Derive, dim: Option<i64>, own: Expr, grad: Expr) -> Expr {
    let product = |own: Expr, dim: i64| -> Result<Tensor> {
        let own = own.done()?;
        let axis = rushlight_core::layout::wrap_dim(dim, own.rank())?;
        let before = super::cumulative::product_before(&own, axis)?;
        let turned = super::cumulative::flipped(&own, axis)?;
        let after = super::cumulative::flipped(&super::cumulative::product_before(&turned, axis)?, axis)?;
        (Expr::from(before) * after).conj().done()
    };
    match dim {
        Some(dim) => grad * Expr::new(product(own, dim)),
        None => {
            let flat = own.call(&crate::view::RESHAPE, [crate::view::reshape::sizes_value(&[-1])]);
            let product = Expr::new(product(flat, 0))
                .call(&crate::view::RESHAPE, [crate::view::reshape::sizes_value(d.sizes(0))]);
            grad * product
        }
    }
}
