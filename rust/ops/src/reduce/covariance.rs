//! Covariance and correlation; and sums to another shape.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, BatchRule, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Ints, Output, sizes_value};
use rushlight_dispatch::{handled, interpreter, op, vmap};

use crate::expr_ext::ExprExt;
use crate::pointwise::clamp::CLAMP;
use crate::reduce::sum::{SUM, SUM_DIM};
use crate::view::squeeze::SQUEEZE;

#[operator]
pub static COV: Operator = Operator {
    name: "cov",
    signature: "(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
    doc: "The covariances of the rows of a matrix, whose columns are observations; for a vector its variance.

`fweights` are the frequencies of observations, `aweights` their relative weights.

    >>> torch.cov(torch.tensor([[0., 1., 2.], [2., 1., 0.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])",
    dtypes: DTypes::NUMBERS,
    batch_rule: BatchRule::FallbackIf(&[FWEIGHTS, AWEIGHTS]),
    implementation: Implementation::CompositeImplicit(|args| {
        cov(args.tensor(INPUT)?, args.int(CORRECTION)?, args.optional_tensor(FWEIGHTS), args.optional_tensor(AWEIGHTS))
            .map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(3, 4)",
        "t(4)",
        "t(2, 4), correction=0",
        "t(2, 4), fweights=i(3, 4) + 1, aweights=torch.tensor([1., 2., 0.5, 3.], dtype=torch.float64)",
    ],
    errors: &[
        (
            "t(5, 5, 5)",
            "RuntimeError",
            "cov(): expected input to have two or fewer dimensions but got an input with 3 dimensions",
        ),
        (
            "t(5), fweights=torch.ones(5)",
            "RuntimeError",
            "cov(): expected fweights to have integral dtype but got fweights with Float dtype",
        ),
        (
            "t(5), fweights=torch.tensor([1])",
            "RuntimeError",
            "cov(): expected fweights to have the same numel as there are observations in the input but got 1 != 5",
        ),
        ("t(5), aweights=torch.tensor([1., 1, 1, 1, -1])", "RuntimeError", "cov(): aweights cannot be negative"),
    ],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static CORRCOEF: Operator = Operator {
    name: "corrcoef",
    signature: "(Tensor self) -> Tensor",
    doc: "The correlations of the rows of a matrix, whose columns are observations, from -1 to 1.

    >>> torch.corrcoef(torch.tensor([[0., 1., 2.], [2., 1., 0.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])",
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        check_rank(input, "corrcoef")?;
        let covariance = cov(input, 1, None, None)?;
        if covariance.rank() == 0 {
            return (Expr::from(&covariance) / Expr::from(&covariance)).done().map(Output::Tensor);
        }
        let variances = Expr::from(&covariance).call(&crate::view::diagonal::DIAGONAL, []).real();
        let deviations = variances.sqrt().done()?;
        let along = |sizes: [isize; 2]| op!(crate::view::RESHAPE, &deviations, sizes_value(&sizes)).map(Expr::from);
        let whole = Expr::from(&covariance) / along([-1, 1])? / along([1, -1])?;
        let clipped = |expr: Expr| expr.call(&CLAMP, [Scalar::Float(-1.0).into(), Scalar::Float(1.0).into()]);
        if !covariance.dtype().is_complex() {
            return clipped(whole).done().map(Output::Tensor);
        }
        let imaginary = whole.clone().call(&crate::view::complex::IMAG, []);
        clipped(whole.real()).with(&crate::pointwise::complex::COMPLEX, clipped(imaginary)).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 4)", "t(2, 5)"],
    errors: &[(
        "t(5, 5, 5)",
        "RuntimeError",
        "corrcoef(): expected input to have two or fewer dimensions but got an input with 3 dimensions",
    )],
    reference: "",
    ..Operator::BASE
};

fn check_rank(input: &Tensor, name: &str) -> Result<()> {
    if input.rank() <= 2 {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        input.rank()
    )))
}

/// Returns an error for invalid weights of observations.
fn check_weights(weights: &Tensor, name: &str, fits: fn(DType) -> bool, kind: &str, count: isize) -> Result<()> {
    if weights.rank() > 1 {
        return Err(Error::runtime(format!(
            "cov(): expected {name} to have one or fewer dimensions but got {name} with {} dimensions",
            weights.rank()
        )));
    }
    if !fits(weights.dtype()) {
        return Err(Error::runtime(format!(
            "cov(): expected {name} to have {kind} dtype but got {name} with {} dtype",
            weights.dtype().display_name()
        )));
    }
    if weights.numel() as isize != count {
        return Err(Error::runtime(format!(
            "cov(): expected {name} to have the same numel as there are observations in the input but got {} != {count}",
            weights.numel()
        )));
    }
    if weights.device() != rushlight_core::Device::Meta
        && crate::convert::to_vec::<f64>(&vmap::samples(&handled::detach(weights)?)?)?
            .iter()
            .any(|&weight| weight < 0.0)
    {
        return Err(Error::runtime(format!("cov(): {name} cannot be negative")).hint("Weights must be non-negative."));
    }
    Ok(())
}

fn cov(input: &Tensor, correction: i64, often: Option<&Tensor>, much: Option<&Tensor>) -> Result<Tensor> {
    check_rank(input, "cov")?;
    if input.dtype() == DType::Bool {
        return Err(Error::runtime("cov(): bool dtype is not supported for input"));
    }
    let rows = if input.rank() < 2 { op!(crate::view::RESHAPE, input, sizes_value(&[1, -1]))? } else { input.clone() };
    let count = rows.sizes()[1];
    if let Some(weights) = often {
        check_weights(weights, "fweights", DType::is_integral, "integral", count)?;
    }
    if let Some(weights) = much {
        check_weights(weights, "aweights", DType::is_floating, "floating point", count)?;
    }
    let line = |weights: &Tensor| op!(crate::view::RESHAPE, weights, sizes_value(&[-1])).map(Expr::from);
    let weights = match (often, much) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => Some(line(one)?),
        (Some(often), Some(much)) => Some(line(often)? * line(much)?),
    };
    let weighted = |expr: Expr| match &weights {
        Some(weights) => expr * weights.clone(),
        None => expr,
    };
    let sums = weighted(Expr::from(&rows)).call(&SUM_DIM, [Ints::from_slice(&[1]).into(), true.into()]);
    let (means, free) = match (&weights, much) {
        (None, _) => (sums / count as f64, Expr::from(count as f64 - correction as f64)),
        (Some(weights), much) => {
            let total = weights.clone().call(&SUM, []);
            let taken = match much {
                Some(much) if correction != 0 => (weights.clone() * line(much)?).call(&SUM, []) / total.clone(),
                _ => total.clone() * 0.0 + 1.0,
            };
            (sums / total.clone(), total - taken * correction as f64)
        }
    };
    let centred = Expr::from(&rows) - means;
    let free = match free {
        Expr::Tensor(free) if free.device() != rushlight_core::Device::Meta => {
            if crate::convert::item(&handled::detach(&free)?)?.f64() <= 0.0 { none_free()? } else { Expr::Tensor(free) }
        }
        Expr::Number(free) if free.f64() <= 0.0 => none_free()?,
        free => free,
    };
    let products = centred.clone().matmul(weighted(centred).across().conj());
    op!(SQUEEZE, &(products / free).done()?)
}

fn none_free() -> Result<Expr> {
    interpreter::warn(
        "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
    )?;
    Ok(Expr::from(0.0))
}

#[operator]
pub static SUM_TO_SIZE: Operator = Operator {
    name: "sum_to_size",
    variants: Variants::METHOD,
    signature: "(Tensor self, int[] size) -> Tensor",
    doc: "The sum over all dimensions along which `size` would have to be expanded to this shape.

    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])",
    dtypes: DTypes::COMMON,
    implementation: Implementation::CompositeImplicit(|args: &Args| {
        let (input, sizes) = (args.tensor(INPUT)?, to_dims(args.ints(SIZE)?));
        let extra = input.rank().checked_sub(sizes.len());
        let fits = extra.is_some_and(|extra| {
            sizes.iter().zip(&input.sizes()[extra..]).all(|(&wanted, &size)| wanted == size || wanted == 1)
        });
        if !fits {
            return Err(Error::runtime(format!(
                "size {{{}}} is not expandable to size {{{}}}.",
                Shape(&sizes),
                Shape(input.sizes())
            ))
            .hint("Each requested size must be the input's or 1; leading dimensions are summed."));
        }
        if sizes.is_empty() {
            return op!(SUM, input).map(Output::Tensor);
        }
        super::sum_to(input, &sizes).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), (1, 3)", "t(2, 3), (3,)", "t(2, 3, 4), (2, 1, 4)", "t(2, 3), (2, 3)"],
    errors: &[("t(2, 3), (2, 2)", "RuntimeError", "size {[2, 2]} is not expandable to size {[2, 3]}.")],
    reference: "",
    ..Operator::BASE
};
