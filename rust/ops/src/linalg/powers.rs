//! Powers and exponentials of matrices.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::collected;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, BatchRule, DTypes, Derivative, ErrorInput, ExplicitAutograd, Implementation, Operator, Out, Saves,
    Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output};
use rushlight_dispatch::{create, op, value};

use super::dense::{check_inexact, check_square, identities, matrix_sizes};
use super::solve::inverse;
use crate::expr_ext::ExprExt;

const SQUARE: ErrorInput = (
    "t(2, 3)",
    "RuntimeError",
    "linalg.matrix_exp: A must be batches of square matrices, but they are 2 by 3 matrices",
);

#[operator]
pub static MATRIX_EXP: Operator = Operator {
    name: "matrix_exp",
    namespace: "linalg",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "The exponentials of matrices, `sum(A ** k / k!)`.

    >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])",
    dtypes: DTypes::INEXACT,
    batch_rule: BatchRule::Fallback,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let a = args.tensor(INPUT)?;
        check_square("linalg.matrix_exp", a)?;
        check_inexact("linalg.matrix_exp", a)?;
        exponential(a).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let n = d.sizes(INPUT).last().copied().unwrap_or(0);
        match (d.input(INPUT).adjoint().done(), d.grad().done()) {
            (Ok(a), Ok(grad)) => Expr::new(beside(&a, &grad)).part(-2, 0, n).part(-1, n, n),
            (Err(error), _) | (_, Err(error)) => Expr::failed(error),
        }
    })]),
    samples: &["t(3, 3)", "t(2, 3, 3)", "t(0, 0)"],
    errors: &[
        SQUARE,
        (
            "i(3, 2, 2)",
            "RuntimeError",
            "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got Long",
        ),
    ],
    reference: "reduce(lambda total, k: (total[0] + total[1] @ self / k, total[1] @ self / k), range(1, 40), (np.eye(self.shape[-1]) + 0 * self, np.eye(self.shape[-1]) + 0 * self))[0]",
    ..Operator::BASE
};

#[operator]
pub static MATRIX_EXP_OLD: Operator = Operator {
    name: "matrix_exp",
    signature: "(Tensor self) -> Tensor",
    doc: "The exponentials of matrices, as `torch.linalg.matrix_exp`.

    >>> torch.zeros(1, 1).matrix_exp()
    tensor([[1.]])",
    dtypes: DTypes::INEXACT,
    implementation: Implementation::CompositeImplicit(|args| op!(MATRIX_EXP, args.tensor(INPUT)?).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3)"],
    errors: &[SQUARE],
    reference: "reduce(lambda total, k: (total[0] + total[1] @ self / k, total[1] @ self / k), range(1, 40), (np.eye(self.shape[-1]) + 0 * self, np.eye(self.shape[-1]) + 0 * self))[0]",
    ..Operator::BASE
};

const POWERS: &[&str] = &["t(3, 3), 2", "t(2, 3, 3), 3", "t(3, 3), 0", "t(3, 3), 5"];

/// In torch a product or an inverse writes to `out=` itself, and does not cast.
const POWER: Out = Out::new(
    Accepts::ExactIf(|args| args.int(MATRIX_POWER::N).is_ok_and(|n| !matches!(n, 0 | 1))),
    &["matrix_power: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}"],
)
.known(|args| args.tensor(Arg::FIRST).ok().map(Tensor::dtype));

#[operator]
pub static MATRIX_POWER: Operator = Operator {
    name: "matrix_power",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, int n) -> Tensor",
    doc: "Integer powers of matrices; for a negative `n` powers of their inverses.

    >>> torch.linalg.matrix_power(torch.tensor([[1, 1], [0, 1]]), 3)
    tensor([[1, 3],
            [0, 1]])",
    out: POWER,
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        matrix_power(args.tensor(INPUT)?, args.int(N)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: POWERS,
    errors: &[(
        "t(2, 3), 2",
        "RuntimeError",
        "linalg.matrix_power: A must be batches of square matrices, but they are 2 by 3 matrices",
    )],
    reference: "np.linalg.matrix_power(self, n)",
    ..Operator::BASE
};

#[operator]
pub static MATRIX_POWER_OLD: Operator = Operator {
    name: "matrix_power",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int n) -> Tensor",
    doc: "Integer powers of matrices, as `torch.linalg.matrix_power`.

    >>> torch.matrix_power(torch.tensor([[1, 1], [0, 1]]), 3)
    tensor([[1, 3],
            [0, 1]])",
    out: POWER,
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        matrix_power(args.tensor(INPUT)?, args.int(N)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: POWERS,
    reference: "np.linalg.matrix_power(self, n)",
    ..Operator::BASE
};

fn matrix_power(a: &Tensor, n: i64) -> Result<Tensor> {
    check_square("linalg.matrix_power", a)?;
    let size = matrix_sizes(a)[0];
    match n {
        0 => {
            if DTypes::WIDE.has(a.dtype()) {
                return Err(Error::unsupported("eye", a.dtype()));
            }
            // Selected instead of the matrices, whose gradient is then zeros.
            let always = create::full(&[], Scalar::Bool(true), DType::Bool, a.device())?;
            return Expr::from(always).choose(identities(a, size, size)?, a).done();
        }
        1 => return op!(crate::convert::CLONE, a, "contiguous_format"),
        _ => {}
    }
    let mut square = Expr::from(if n < 0 { inverse(a)? } else { a.clone() });
    let mut result: Option<Expr> = None;
    let mut rest = n.unsigned_abs();
    loop {
        if rest & 1 == 1 {
            result = Some(match result {
                Some(result) => result.matmul(square.clone()),
                None => square.clone(),
            });
        }
        rest >>= 1;
        match (rest, result) {
            (0, Some(result)) => return result.done(),
            (_, kept) => result = kept,
        }
        square = square.clone().matmul(square);
    }
}

/// Below this norm the series converges quickly.
const SMALL: f64 = 1.0;

/// The series of the matrices divided by a power of two, squared as often.
fn exponential(a: &Tensor) -> Result<Tensor> {
    let n = matrix_sizes(a)[0];
    if a.numel() == 0 || a.device() == Device::Meta {
        return op!(crate::convert::CLONE, a);
    }
    // Half types are computed in single precision.
    if a.dtype().is_half() {
        return crate::convert::to_dtype(&exponential(&crate::convert::to_dtype(a, DType::F32)?)?, a.dtype());
    }
    let terms = if a.dtype().to_real() == DType::F64 { 18 } else { 10 };
    let sums = Expr::from(a).abs().sum_over(-2).call(&crate::reduce::extreme::AMAX, [Ints::from_slice(&[-1]).into()]);
    let mut halvings = crate::convert::to_vec::<f64>(&crate::convert::to_dtype(&sums.done()?, DType::F64)?)?;
    for norm in &mut halvings {
        *norm = if norm.is_finite() && *norm > SMALL { (*norm / SMALL).log2().ceil() } else { 0.0 };
    }
    let most = halvings.iter().copied().fold(0.0, f64::max) as usize;
    let mut sizes = rushlight_core::Dims::from_slice(super::dense::batch_sizes(a));
    sizes.extend([1, 1]);
    let per_matrix = |numbers: &[f64], dtype: DType| -> Result<Tensor> {
        let list = crate::convert::to_dtype(&create::from_slice(numbers)?, dtype)?;
        let list = crate::convert::to_device(&list, a.device())?;
        crate::view::RESHAPE.tensor([(&list).into(), value::sizes_value(&sizes)])
    };
    let factors = collected(halvings.iter().map(|count| (-count).exp2()))?;
    let small = (Expr::from(a) * per_matrix(&factors, a.dtype().to_real())?).done()?;
    let one = identities(a, n, n)?;
    let mut result = Expr::from(&one);
    for term in (1..=terms).rev() {
        result = Expr::from(&small).matmul(result) / term as f64 + &one;
    }
    let wanted = Expr::from(per_matrix(&halvings, DType::F64)?);
    for step in 0..most {
        let square = result.clone().matmul(result.clone());
        result = wanted.clone().above(step as f64).choose(square, result);
    }
    result.done()
}

/// The exponential of `[[a, grad], [0, a]]`: it contains that of `a` and its derivative in the direction of `grad`.
fn beside(a: &Tensor, grad: &Tensor) -> Result<Tensor> {
    let zeros = create::zeros(a.sizes(), a.dtype(), a.device())?;
    let row = |left: &Tensor, right: &Tensor| {
        crate::join::CAT.tensor([vec![left.clone(), right.clone()].into(), (-1i64).into()])
    };
    if a.dtype() != grad.dtype() {
        return Err(Error::runtime("matrix_exp: the gradient has another dtype than the result"));
    }
    let whole = crate::join::CAT.tensor([vec![row(a, grad)?, row(&zeros, a)?].into(), (-2i64).into()])?;
    op!(MATRIX_EXP, &whole)
}
