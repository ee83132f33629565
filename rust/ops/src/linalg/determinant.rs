//! Determinants, from the diagonals of LU factors.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    BackwardContext, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Out, Saves, Variants, formula,
    operator,
};
use rushlight_dispatch::value::Output;
use rushlight_dispatch::{handled, op, vmap};

use super::dense::{check_dense, check_inexact, check_square, identities, matrix_sizes, results};
use super::lu::{LU_FACTOR_EX, solve_factored};
use super::solve::SOLVE;
use super::svd::SVD_KERNEL;
use crate::create::range::integers;
use crate::expr_ext::ExprExt;
use crate::reduce::cumulative::{flipped, product_before};

#[operator]
pub static DET_KERNEL: Operator = Operator {
    name: "_linalg_det",
    variants: Variants::FUNCTION,
    signature: "(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
    doc: "The determinants of matrices, and the factors from which they were computed.

    >>> torch._linalg_det(torch.eye(2))[0]
    tensor(1.)",
    dtypes: DTypes::DENSE,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let a = args.tensor(A)?;
        let [lu, pivots, _] = results(LU_FACTOR_EX.call([a.into()])?)?;
        let diagonal = Expr::from(&lu).diagonals().call(&crate::reduce::prod::PROD_DIM, [(-1i64).into()]);
        let result = (parity(&pivots, a.dtype())? * diagonal).done()?;
        Ok(Output::Tuple(vec![result, lu, pivots]))
    })),
    derivative: Derivative::Formulas(&[formula(
        A,
        Saves::input(A).union(Saves::result(0)).union(Saves::result(1)).union(Saves::result(2)),
        |d| Expr::new(gradient(d)),
    )]),
    samples: &["t(0, 0)"],
    ..Operator::BASE
};

const SAMPLES: &[&str] = &["t(3, 3) + torch.eye(3) * 4", "t(2, 3, 3) + torch.eye(3) * 4", "t(0, 0)"];

#[operator]
pub static DET: Operator = Operator {
    name: "det",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A) -> Tensor",
    doc: "The determinants of matrices.

    >>> torch.linalg.det(torch.tensor([[2., 0.], [1., 4.]]))
    tensor(8.)",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    implementation: Implementation::CompositeImplicit(|args| det(args.tensor(A)?).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: SAMPLES,
    errors: &[
        ("t(3)", "RuntimeError", "linalg.det: The input tensor A must have at least 2 dimensions."),
        ("t(2, 3)", "RuntimeError", "linalg.det: A must be batches of square matrices, but they are 2 by 3 matrices"),
    ],
    reference: "np.linalg.det(A)",
    ..Operator::BASE
};

#[operator]
pub static DET_OLD: Operator = Operator {
    name: "det",
    signature: "(Tensor self) -> Tensor",
    doc: "The determinants of matrices, as `torch.linalg.det`.

    >>> torch.det(torch.tensor([[2., 0.], [1., 4.]]))
    tensor(8.)",
    dtypes: DTypes::DENSE,
    implementation: Implementation::CompositeImplicit(|args| det(args.tensor(INPUT)?).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: SAMPLES,
    errors: &[(
        "i(3, 2, 2)",
        "RuntimeError",
        "linalg.det: Expected a floating point or complex tensor as input. Got Long",
    )],
    reference: "np.linalg.det(self)",
    ..Operator::BASE
};

#[operator]
pub static SLOGDET_KERNEL: Operator = Operator {
    name: "_linalg_slogdet",
    variants: Variants::FUNCTION,
    signature: "(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    doc: "Sign and logarithm of determinants.

    >>> torch._linalg_slogdet(torch.eye(2))[1]
    tensor(0.)",
    dtypes: DTypes::DENSE,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let a = args.tensor(A)?;
        let [lu, pivots, _] = results(LU_FACTOR_EX.call([a.into()])?)?;
        let diagonal = || Expr::from(&lu).diagonals();
        let signs = diagonal().sgn().call(&crate::reduce::prod::PROD_DIM, [(-1i64).into()]);
        let sign = (parity(&pivots, a.dtype())? * signs).done()?;
        Ok(Output::Tuple(vec![sign, diagonal().abs().log().sum_over(-1).done()?]))
    })),
    derivative: Derivative::Formulas(&[formula(A, Saves::input(A).union(Saves::result(0)), |d| {
        Expr::new(log_gradient(d))
    })]),
    samples: &["t(3, 3) + torch.eye(3) * 4", "t(0, 0)"],
    ..Operator::BASE
};

#[operator]
pub static SLOGDET: Operator = Operator {
    name: "slogdet",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    doc: "The sign of the determinants of matrices, and the logarithm of their magnitude.

    >>> torch.linalg.slogdet(torch.tensor([[0., 1.], [1., 0.]]))
    torch.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    implementation: Implementation::CompositeImplicit(|args| {
        slogdet(args.tensor(A)?).map(|pair| Output::Tuple(pair.into()))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: SAMPLES,
    errors: &[(
        "t(2, 3)",
        "RuntimeError",
        "linalg.slogdet: A must be batches of square matrices, but they are 2 by 3 matrices",
    )],
    reference: "tuple(np.linalg.slogdet(A))",
    ..Operator::BASE
};

#[operator]
pub static SLOGDET_OLD: Operator = Operator {
    name: "slogdet",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self) -> (Tensor sign, Tensor logabsdet)",
    doc: "The sign of determinants and the logarithm of their magnitude, as `torch.linalg.slogdet`.

    >>> torch.slogdet(torch.eye(2)).logabsdet
    tensor(0.)",
    out: Out::EXACT,
    dtypes: DTypes::DENSE,
    implementation: Implementation::CompositeImplicit(|args| {
        slogdet(args.tensor(INPUT)?).map(|pair| Output::Tuple(pair.into()))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: SAMPLES,
    reference: "tuple(np.linalg.slogdet(self))",
    ..Operator::BASE
};

#[operator]
pub static LOGDET: Operator = Operator {
    name: "logdet",
    signature: "(Tensor self) -> Tensor",
    doc: "The logarithm of determinants; NaN where one is negative.

    >>> torch.logdet(torch.eye(2))
    tensor(0.)",
    dtypes: DTypes::DENSE,
    implementation: Implementation::CompositeImplicit(|args| {
        let a = args.tensor(INPUT)?;
        check_square("logdet", a)?;
        check_dense("logdet", a)?;
        let [sign, log] = results(SLOGDET_KERNEL.call([a.into()])?)?;
        if a.dtype().is_complex() {
            return (Expr::from(sign).log() + log).done().map(Output::Tensor);
        }
        Expr::from(sign).equals(-1i64).choose(f64::NAN, log).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3) + torch.eye(3) * 9", "t(0, 0)"],
    errors: &[(
        "t(2, 3)",
        "RuntimeError",
        "logdet: A must be batches of square matrices, but they are 2 by 3 matrices",
    )],
    reference: "(lambda found: found[1] + np.log(found[0]))(np.linalg.slogdet(self)) if self.dtype.kind == 'c' else np.where(np.linalg.slogdet(self)[0] < 0, np.nan, np.linalg.slogdet(self)[1])",
    ..Operator::BASE
};

fn det(a: &Tensor) -> Result<Tensor> {
    check_square("linalg.det", a)?;
    check_inexact("linalg.det", a)?;
    let [det, _, _] = results(DET_KERNEL.call([a.into()])?)?;
    Ok(det)
}

fn slogdet(a: &Tensor) -> Result<[Tensor; 2]> {
    check_square("linalg.slogdet", a)?;
    check_dense("linalg.slogdet", a)?;
    results(SLOGDET_KERNEL.call([a.into()])?)
}

/// 1 for an even number of row exchanges, else -1.
fn parity(pivots: &Tensor, dtype: DType) -> Result<Expr> {
    let count = *pivots.sizes().last().unwrap_or(&0) as i64;
    let steps = integers([1, count + 1, 1], DType::I32, pivots.device())?;
    let moved = Expr::from(pivots).with(&crate::pointwise::compare::NE, steps).sum_over(-1);
    let odd = moved.with(&crate::pointwise::divide::REMAINDER, 2i64).done()?;
    Ok(Expr::from(crate::convert::to_dtype(&odd, dtype)?) * -2.0 + Expr::from(1i64))
}

/// The adjugate's adjoint: `conj(det) A^-H`. A singular matrix has one too, which is approximated by an LU factor
/// without zeros; if its derivative is needed again, it is computed from singular values. A 1-by-1 matrix is its own
/// determinant, whose gradient is constant.
fn gradient(d: &BackwardContext) -> Result<Tensor> {
    let (a, det) = (d.input(DET_KERNEL::A).done()?, d.result_of(0));
    let n = matrix_sizes(&a)[0];
    if n == 1 {
        return d.grad().along_rows().along_rows().done();
    }
    let numbers = (d.grad() * det.clone().conj()).along_rows().along_rows();
    let sides = (numbers * identities(&a, n, n)?).done()?;
    let tiny = if a.dtype().to_real() == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    if !rushlight_autograd::modes::recording() {
        let lu = d.result_of(1).done()?;
        let zeros = Expr::from(&lu).diagonals().equals(0i64);
        let lifted =
            Expr::from(&lu) + crate::convert::to_dtype(&zeros.choose(tiny, 0.0).on_diagonals().done()?, lu.dtype())?;
        return solve_factored(&lifted.done()?, &d.result_of(2).done()?, &sides, true, true);
    }
    let singular = match det.clone() {
        Expr::Tensor(det) if det.device() != Device::Meta && vmap::samples(&det)?.numel() > 0 => {
            let smallest = Expr::from(vmap::samples(&handled::detach(&det)?)?)
                .abs()
                .call(&crate::reduce::extreme::MIN, [])
                .done()?;
            crate::convert::item(&smallest)?.f64() < 100.0 * tiny
        }
        _ => false,
    };
    if !singular {
        return op!(SOLVE, &Expr::from(&a).adjoint().done()?, &sides);
    }
    let [u, s, vh] = results(SVD_KERNEL.call([(&a).into()])?)?;
    let phase = (Expr::from(self::det(&u)?) * self::det(&vh)?).conj() * d.grad();
    let others = products_of_others(&s)?;
    (Expr::from(&u) * (phase.along_rows() * others).along_columns()).matmul(Expr::from(vh)).done()
}

/// For each number of a vector the product of all others.
fn products_of_others(s: &Tensor) -> Result<Tensor> {
    let axis = s.rank() - 1;
    let behind = flipped(&product_before(&flipped(s, axis)?, axis)?, axis)?;
    (Expr::from(product_before(s, axis)?) * behind).done()
}

/// `A^-H`, times the gradient of the logarithm, and of the phase of a complex sign.
fn log_gradient(d: &BackwardContext) -> Result<Tensor> {
    let a = d.input(SLOGDET_KERNEL::A).done()?;
    let n = matrix_sizes(&a)[0];
    let mut number = d.grad_of(1);
    if a.dtype().is_complex() && d.has_grad(0) {
        let turned = d.grad_of(0).conj() * d.result_of(0);
        number = number - (turned.clone() - turned.real());
    }
    let sides = (number.along_rows().along_rows() * identities(&a, n, n)?).done()?;
    op!(SOLVE, &Expr::from(&a).adjoint().done()?, &sides)
}
