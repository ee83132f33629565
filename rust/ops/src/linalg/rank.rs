//! Ranks, pseudo-inverses and least squares from singular values.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BatchRule, DTypes, Derivative, ExplicitAutograd, Implementation, Joint, Operator, Out,
    Saves, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Value};
use rushlight_dispatch::{copy, create, handled, op};

use super::dense::{batch_sizes, by_columns, check_inexact, check_matrix, matrix_sizes, results, sized};
use super::eigen::{EIGH_KERNEL, eigvalsh};
use super::solve::{drop_last, is_vector};
use super::svd::{SVD_KERNEL, singular_values};
use crate::expr_ext::ExprExt;
use crate::pointwise::compare::MAXIMUM;
use crate::reduce::extreme::AMAX;

const RANKS: Out = Out::new(
    Accepts::Cast,
    &[
        "torch.linalg.matrix_rank: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}",
    ],
);

#[operator]
pub static MATRIX_RANK: Operator = Operator {
    name: "matrix_rank",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, Tensor|float? atol=None, Tensor|float? rtol=None, bool hermitian=False) -> Tensor",
    doc: "The number of singular values larger than `max(atol, rtol * the largest)`.

    >>> torch.linalg.matrix_rank(torch.ones(3, 3))
    tensor(1)",
    out: RANKS,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let tolerance = Tolerance { absolute: given(args, ATOL)?, relative: given(args, RTOL)? };
        rank(args.tensor(INPUT)?, tolerance, args.bool(HERMITIAN)?).map(Output::Tensor)
    }),
    derivative: Derivative::NonDifferentiable("it counts"),
    samples: &["t(3, 2)", "t(2, 3, 3), atol=1.0, rtol=0.0", "t(0, 3)"],
    errors: &[(
        "t(3)",
        "RuntimeError",
        "torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.",
    )],
    ..Operator::BASE
};

#[operator]
pub static MATRIX_RANK_TOL: Operator = Operator {
    name: "matrix_rank.tol",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Tensor|float tol, bool hermitian=False) -> Tensor",
    doc: "The number of singular values larger than `tol`.

    >>> torch.linalg.matrix_rank(torch.eye(3), 2.0)
    tensor(0)",
    out: RANKS,
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let tolerance = Tolerance { absolute: given(args, TOL)?, relative: Some(Expr::from(0.0)) };
        rank(args.tensor(INPUT)?, tolerance, args.bool(HERMITIAN)?).map(Output::Tensor)
    }),
    derivative: Derivative::NonDifferentiable("it counts"),
    samples: &["t(3, 2), 0.5"],
    reference: "np.linalg.matrix_rank(self, tol, hermitian)",
    ..Operator::BASE
};

#[operator]
pub static PINV: Operator = Operator {
    name: "pinv",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, Tensor|float? atol=None, Tensor|float? rtol=None, bool hermitian=False) -> Tensor",
    doc: "The pseudo-inverses of matrices; singular values up to `max(atol, rtol * the largest)` count as zero.

    >>> torch.linalg.pinv(torch.tensor([[2., 0.], [0., 0.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])",
    out: Out::new(
        Accepts::Cast,
        &["linalg.pinv: Expected result to be safely castable from {Result} dtype, but got result with dtype {Out}"],
    )
    .known_as_first(),
    dtypes: DTypes::DENSE,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let tolerance = Tolerance { absolute: given(args, ATOL)?, relative: given(args, RTOL)? };
        pseudo_inverse(args.tensor(INPUT)?, tolerance, args.bool(HERMITIAN)?).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        pinv_gradient(d.grad(), d.result(), d.input(INPUT))
    })]),
    samples: &["t(3, 2)", "t(2, 2, 3)", "t(3, 0)"],
    errors: &[("t(3)", "RuntimeError", "linalg.pinv(")],
    reference: "np.linalg.pinv(self) if self.size else None",
    ..Operator::BASE
};

#[operator]
pub static PINV_RCOND: Operator = Operator {
    name: "pinv.rcond",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Tensor|float rcond, bool hermitian=False) -> Tensor",
    doc: "The pseudo-inverses of matrices; singular values up to `rcond` times the largest count as zero.

    >>> torch.linalg.pinv(torch.tensor([[2., 0.], [0., 1.]]), 0.9)
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])",
    dtypes: DTypes::DENSE,
    implementation: Implementation::CompositeImplicit(|args| with_condition(args).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2), 1e-15"],
    ..Operator::BASE
};

#[operator]
pub static PINVERSE: Operator = Operator {
    name: "pinverse",
    signature: "(Tensor self, float rcond=1e-15) -> Tensor",
    doc: "The pseudo-inverses of matrices; singular values up to `rcond` times the largest count as zero.

    >>> torch.pinverse(torch.tensor([[2., 0.], [0., 0.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])",
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        PINV.call([args.tensor(INPUT)?.into(), Scalar::Float(0.0).into(), Scalar::Float(args.float(RCOND)?).into()])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2)"],
    reference: "np.linalg.pinv(self)",
    ..Operator::BASE
};

#[operator]
pub static LSTSQ_KERNEL: Operator = Operator {
    name: "_linalg_lstsq",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor b, float? rcond=None) -> Tensor",
    doc: "The least squares solution of smallest norm.

    >>> torch._linalg_lstsq(torch.tensor([[1.], [1.]]), torch.tensor([[1.], [3.]]))
    tensor([[2.]])",
    dtypes: DTypes::DENSE,
    batch_rule: BatchRule::Fallback,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let rcond = args.optional_scalar(RCOND).map(|number| Expr::from(number.f64()));
        let tolerance = Tolerance { absolute: Some(Expr::from(0.0)), relative: rcond };
        check_matrix("torch.linalg.lstsq", "other", args.tensor(B)?)?;
        let inverse = pseudo_inverse(args.tensor(INPUT)?, tolerance, false)?;
        let solution = Expr::from(inverse).matmul(args.tensor(B)?).done()?;
        // It is in the memory of torch's right-hand sides, column-major with the larger of both numbers of rows.
        let [rows, cols] = matrix_sizes(args.tensor(INPUT)?);
        let (mut sizes, dim) = (solution.sizes().clone(), solution.rank() - 2);
        sizes[dim] = rows.max(cols);
        let place = by_columns(&sizes, solution.dtype(), &solution).layout.slice(dim, 0, cols, 1);
        copy::laid_out(&solution, place).map(Output::Tensor)
    })),
    derivative: Derivative::Joint(Joint {
        inputs: &[INPUT, B],
        saves: Saves::input(INPUT).union(Saves::input(B)),
        gradients: |d| {
            let inverse = op!(PINV, &d.input(INPUT).done()?)?;
            let own = d.needs(INPUT).then(|| {
                let grad = d.grad().matmul(d.input(B).adjoint());
                pinv_gradient(grad, Expr::from(&inverse), d.input(INPUT)).done()
            });
            let sides = d.needs(B).then(|| Expr::from(&inverse).adjoint().matmul(d.grad()).done());
            Ok(vec![own.transpose()?, sides.transpose()?])
        },
    }),
    samples: &["t(4, 2), t(4, 3)", "t(2, 2, 3), t(2, 2, 1)"],
    errors: &[(
        "t(2, 2), t(2)",
        "RuntimeError",
        "torch.linalg.lstsq: The input tensor other must have at least 2 dimensions.",
    )],
    ..Operator::BASE
};

#[operator]
pub static LSTSQ: Operator = Operator {
    name: "lstsq",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    doc:
        "Least squares: the `X` that minimises the norm of the columns of `self @ X - b`, and the one of smallest norm.

`driver` is 'gels' (full rank), 'gelsy' (the default), 'gelsd' or 'gelss', and determines the other results.

    >>> torch.linalg.lstsq(torch.tensor([[1.], [1.]]), torch.tensor([[1.], [3.]])).solution
    tensor([[2.]])",
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    batch_rule: BatchRule::FallbackIf(&[INPUT, B]),
    implementation: Implementation::CompositeImplicit(lstsq),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(4, 2), t(4, 3)", "t(4, 2), t(4)", "t(2, 2, 3), t(2, 2, 1)", "t(4, 2), t(4, 3), driver='gelsd'"],
    errors: &[
        ("t(3), t(3)", "RuntimeError", "torch.linalg.lstsq: input must have at least 2 dimensions."),
        ("t(4, 3), t(3, 1)", "RuntimeError", "torch.linalg.lstsq: input.size(-2) should match other.size(-2)"),
        (
            "t(4, 3), t(4, 1), driver='x'",
            "RuntimeError",
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)",
        ),
    ],
    ..Operator::BASE
};

/// The bound below which singular values count as zero; a missing one is computed from the matrices.
struct Tolerance {
    absolute: Option<Expr>,
    relative: Option<Expr>,
}

fn given(args: &Args, arg: Arg) -> Result<Option<Expr>> {
    if let Some(tensor) = args.optional_tensor(arg) {
        if tensor.dtype().is_complex() {
            if args.values.iter().any(|value| matches!(value, Value::Float(_))) {
                // torch has a form for two tensors and one for two numbers, which a tensor beside a number becomes.
                return Err(Error::runtime("value cannot be converted to type double without overflow"));
            }
            // torch passes the older arguments on by their newer names, or has this one.
            let name = match args.param(arg).name {
                "tol" => "atol",
                name => name,
            };
            return Err(Error::runtime(format!(
                "torch.linalg.{}: {name} tensor of complex type is not supported. Got {}",
                args.op.python_name(),
                tensor.dtype().display_name()
            )));
        }
        return Ok(Some(Expr::from(tensor)));
    }
    Ok(args.optional_scalar(arg).map(|number| Expr::from(number.f64())))
}

impl Tolerance {
    /// For matrices like `a` with these magnitudes, a number for each matrix (with a trailing dimension).
    fn bound(self, a: &Tensor, sizes: &Tensor) -> Result<Expr> {
        let [m, n] = matrix_sizes(a);
        let single = a.dtype().to_real() == DType::F32;
        let tiny = if single { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let default = tiny * m.max(n) as f64;
        let per_matrix = |given: Expr| match given {
            Expr::Tensor(tensor) => Expr::from(tensor).along_rows(),
            other => other,
        };
        // If the caller gives one tolerance, the other is omitted.
        let relative = match (self.relative, &self.absolute) {
            (Some(given), _) => per_matrix(given),
            (None, None) => Expr::from(default),
            (None, Some(Expr::Tensor(absolute))) => per_matrix(Expr::from(absolute).above(0i64).choose(0.0, default)),
            (None, Some(Expr::Number(absolute))) => Expr::from(if absolute.f64() > 0.0 { 0.0 } else { default }),
            (None, Some(_)) => Expr::from(default),
        };
        let largest = Expr::from(op!(AMAX, sizes, Ints::from_slice(&[-1]), true)?);
        let relative = largest * relative;
        let absolute = per_matrix(self.absolute.unwrap_or(Expr::from(0.0)));
        // The larger one; NaN if one is NaN.
        Ok(match absolute {
            Expr::Number(number) if number.f64().is_nan() => Expr::from(f64::NAN),
            Expr::Number(number) => relative.clone().at_most(number.f64()).choose(number.f64(), relative),
            absolute => relative.with(&MAXIMUM, absolute),
        })
    }
}

fn rank(a: &Tensor, tolerance: Tolerance, hermitian: bool) -> Result<Tensor> {
    check_matrix("torch.linalg.matrix_rank", "input", a)?;
    if tolerance.relative.is_none() && !DTypes::DENSE.has(a.dtype()) {
        return Err(Error::runtime("This function doesn't handle types other than float and double"));
    }
    check_inexact("linalg.svd", a)?;
    let a = handled::detach(a)?;
    let sizes = if hermitian { Expr::from(eigvalsh(&a, "L")?).abs().done()? } else { singular_values(&a, None)? };
    if sizes.numel() == 0 {
        return create::zeros(batch_sizes(&a), DType::I64, a.device());
    }
    let bound = tolerance.bound(&a, &sizes)?;
    Expr::from(sizes).above(bound).sum_over(-1).done()
}

fn pseudo_inverse(a: &Tensor, tolerance: Tolerance, hermitian: bool) -> Result<Tensor> {
    if a.rank() < 2 || !DTypes::DENSE.has(a.dtype()) {
        return Err(Error::runtime(format!(
            "linalg.pinv({}{{{}}}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types",
            a.dtype().display_name(),
            rushlight_core::layout::Shape(a.sizes())
        )));
    }
    let [m, n] = matrix_sizes(a);
    if hermitian {
        super::dense::check_square("linalg.eigh", a)?;
    }
    if a.numel() == 0 {
        return create::zeros(&sized(a, &[n, m]), a.dtype(), a.device());
    }
    let inverted =
        |values: Expr, sizes: &Tensor, bound: Expr| Expr::from(sizes).above(bound).choose(values.reciprocal(), 0.0);
    if hermitian {
        let [values, vectors] = results(EIGH_KERNEL.call([a.into()])?)?;
        let sizes = Expr::from(&values).abs().done()?;
        let values = inverted(Expr::from(&values), &sizes, tolerance.bound(a, &sizes)?);
        return (Expr::from(&vectors) * values.along_columns()).matmul(Expr::from(&vectors).adjoint()).done();
    }
    let [u, s, vh] = results(SVD_KERNEL.call([a.into()])?)?;
    let values = inverted(Expr::from(&s), &s, tolerance.bound(a, &s)?);
    (Expr::from(vh).adjoint() * values.along_columns()).matmul(Expr::from(u).adjoint()).done()
}

fn with_condition(args: &Args) -> Result<Tensor> {
    use PINV_RCOND::*;

    let relative = match args.optional_tensor(RCOND) {
        Some(tensor) => {
            given(args, RCOND)?;
            Value::Tensor(tensor)
        }
        None => args.scalar(RCOND)?.into(),
    };
    PINV.tensor([args.tensor(INPUT)?.into(), Scalar::Float(0.0).into(), relative, args.bool(HERMITIAN)?.into()])
}

/// The derivative of a pseudo-inverse `p` of `a` as long as its rank does not change.
fn pinv_gradient(grad: Expr, p: Expr, a: Expr) -> Expr {
    let (g, q) = (grad.adjoint(), p.clone().adjoint());
    let sizes = a.sizes();
    if sizes.len() >= 2 && sizes[sizes.len() - 2] <= sizes[sizes.len() - 1] {
        let k = g.clone().matmul(p.clone());
        let kq = k.clone().matmul(q.clone());
        let inner = -p.clone().matmul(k.clone()).adjoint() + kq.clone() - a.clone().matmul(p.clone()).matmul(kq);
        return inner + q.matmul(p).matmul(g - k.matmul(a));
    }
    let k = p.clone().matmul(g.clone());
    let qk = q.clone().matmul(k.clone());
    let inner = -k.clone().matmul(p.clone()).adjoint() + (g - a.clone().matmul(k)).matmul(p.clone()).matmul(q);
    inner + qk.clone() - qk.matmul(p).matmul(a)
}

fn lstsq(args: &Args) -> Result<Output> {
    use LSTSQ::*;

    let (a, b) = (args.tensor(INPUT)?, args.tensor(B)?);
    let name = "torch.linalg.lstsq";
    if a.rank() < 2 {
        return Err(Error::runtime(format!("{name}: input must have at least 2 dimensions.")));
    }
    if b.rank() < 1 {
        return Err(Error::runtime(format!("{name}: other must have at least 1 dimension.")));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "{name}: Expected input and other to have the same dtype, but got input's dtype {} and other's dtype {}",
            a.dtype().display_name(),
            b.dtype().display_name()
        )));
    }
    if !DTypes::DENSE.has(a.dtype()) {
        return Err(Error::runtime("This function doesn't handle types other than float and double"));
    }
    let gap = a.rank() as i64 - b.rank() as i64;
    if !(0..=1).contains(&gap) {
        return Err(Error::runtime(format!(
            "{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )));
    }
    let [m, n] = matrix_sizes(a);
    let vector = is_vector(a, b);
    let height = b.sizes()[if vector { b.rank() - 1 } else { b.rank() - 2 }];
    if m != height {
        let place = if vector { 1 } else { 2 };
        return Err(Error::runtime(format!("{name}: input.size(-2) should match other.size(-{place})")));
    }
    let on_host = !matches!(a.device(), Device::Cuda(_));
    let driver = args.optional_str(DRIVER).unwrap_or(if on_host { "gelsy" } else { "gels" });
    if !matches!(driver, "gels" | "gelsy" | "gelsd" | "gelss") {
        return Err(Error::runtime(format!("{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")));
    }
    if !on_host && driver != "gels" {
        return Err(Error::runtime(format!("{name}: `driver` other than `gels` is not supported on CUDA")));
    }
    let sides = if vector { Expr::from(b).along_rows().done()? } else { b.clone() };
    let rcond = match (driver, args.optional_scalar(RCOND).map(Scalar::f64)) {
        // This driver takes the matrices to have full rank.
        ("gels", _) => None,
        // LAPACK's drivers take such a number as the machine precision, or keep the largest singular value.
        ("gelsd", Some(rcond)) if rcond >= 1.0 => None,
        ("gelsy", Some(rcond)) if rcond >= 1.0 => Some(1.0 - f64::from(f32::EPSILON)),
        (_, rcond) => rcond,
    };
    let condition = rcond.map(Value::Float);
    let solution = LSTSQ_KERNEL.tensor([a.into(), (&sides).into(), condition.unwrap_or(Value::None)])?;
    let nothing = |dtype: DType| create::zeros(&[0], dtype, a.device());
    let real = a.dtype().to_real();
    let sizes = singular_values(&handled::detach(a)?, None)?;
    let relative = rcond.map(Expr::from);
    let ranks = match driver {
        "gels" => nothing(DType::I64)?,
        _ => rank(a, Tolerance { absolute: Some(Expr::from(0.0)), relative }, false)?,
    };
    // Residuals exist only for a full rank.
    let full = a.device() == Device::Meta
        || driver == "gels"
        || crate::convert::to_vec::<i64>(&ranks)?.iter().all(|&rank| rank == n as i64);
    let residuals = if m > n && driver != "gelsy" && full {
        let rest = Expr::from(a).matmul(&solution) - &sides;
        rest.abs().square().sum_over(-2).done()?
    } else {
        // They belong to the same node as the solution, even if they are empty.
        let flat = op!(crate::view::reshape::RESHAPE, &solution, Ints::from_slice(&[-1]))?;
        let none = op!(crate::view::narrow::NARROW, &flat, 0i64, 0i64, 0i64)?;
        Expr::from(none).abs().done()?
    };
    let values = if matches!(driver, "gelsd" | "gelss") { sizes } else { nothing(real)? };
    let solution = if vector { drop_last(solution)? } else { solution };
    Ok(Output::Tuple(vec![solution, residuals, ranks, values]))
}
