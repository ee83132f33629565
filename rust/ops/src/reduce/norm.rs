//! Norms of vectors.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128, promote};
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::folds;
use rushlight_cpu::folds::Folds;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, Operator, Out, Saves,
    Sparse, Tags, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::sparse::unsupported;
use rushlight_dispatch::value::{Ints, Output, Value};

use super::{ReduceDims, derived_dims, restored};
use crate::expr_ext::ExprExt;
use crate::pointwise::compare::ISNAN;
use crate::pointwise::power::POW;

#[operator]
pub static VECTOR_NORM: Operator = Operator {
    name: "vector_norm",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The norm of the vectors along `dim` (of all elements by default).

    out = sum(abs(self) ** ord) ** (1 / ord)

`inf` and `-inf` give the largest and the smallest magnitude, 0 the number of non-zero elements.

    >>> torch.linalg.vector_norm(torch.tensor([3., 4.]))
    tensor(5.)",
    out: Out::EXACT,
    dtypes: DTypes::INEXACT.union(DTypes::COMPLEX32),
    autocast: Autocast::Fp32.on_cuda_alone(),
    batch_rule: BatchRule::Over(DIM),
    check: Some(check_strided),
    implementation: Implementation::Kernel(Kernel::on_any_device(infer, run)),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), gradient)]),
    samples: &[
        "t(2, 3)",
        "t(2, 3), 1, 1",
        "t(2, 3, 4), 3, (0, 2), True",
        "t(3), float('inf'), 0",
        "t(2, 3), 0",
        "t(4), 1.5",
    ],
    errors: &[
        (
            "i(3, 2)",
            "RuntimeError",
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got Long",
        ),
        ("t(3), 1j", "RuntimeError", "linalg.vector_norm: Expected a non-complex scalar as the order of norm."),
    ],
    reference: "np.linalg.norm(self.ravel() if dim is None else self, ord, dim, keepdim) if dim is None or isinstance(dim, int) or len(dim) == 1 else None",
    kernel_name: "norm_cpu",
    ..Operator::BASE
};

#[operator]
pub static NORM: Operator = Operator {
    name: "norm",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Scalar? p, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The norm of the vectors along `dim`, as `torch.linalg.vector_norm`.

    >>> torch.norm(torch.tensor([3., 4.]), 1)
    tensor(7.)",
    dtypes: DTypes::INEXACT.union(DTypes::COMPLEX32),
    sparse: Sparse::CompositeImplicit,
    implementation: Implementation::Delegate(|args| {
        let p = args.optional_scalar(P).unwrap_or(Scalar::Int(2));
        deferred(args, p)
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 3), 2", "t(2, 3), 1, 1", "t(2, 3, 4), 3, (0, 2), True"],
    reference: "np.sum(np.abs(self).astype(np.float64) ** p, axis=None if dim is None else dim, keepdims=keepdim) ** (1 / p)",
    ..Operator::BASE
};

#[operator]
pub static DIST: Operator = Operator {
    name: "dist",
    node: "DistBackward0",
    signature: "(Tensor self, Tensor other, Scalar p=2) -> Tensor",
    doc: "The norm of the difference.

    >>> torch.dist(torch.tensor([4., 5.]), torch.tensor([1., 1.]))
    tensor(5.)",
    dtypes: DTypes::INEXACT.union(DTypes::COMPLEX32),
    tags: Tags::BROADCASTS,
    implementation: Implementation::CompositeImplicit(|args| {
        let gap = (Expr::from(args.tensor(INPUT)?) - args.tensor(OTHER)?).done()?;
        if !gap.dtype().is_differentiable() {
            return Err(Error::runtime(format!(
                "norm(): input dtype should be either floating point or complex. Got {} instead.",
                gap.dtype().display_name()
            )));
        }
        // Sparse tensors have the older operator only.
        let norm = if gap.is_sparse() { &NORM } else { &VECTOR_NORM };
        norm.call([(&gap).into(), args.scalar(P)?.into()])
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 3), t(3)", "t(3), t(3), 1"],
    errors: &[
        (
            "i(3, 2), i(3, 2)",
            "RuntimeError",
            "norm(): input dtype should be either floating point or complex. Got Long instead.",
        ),
        (
            "t(2, 3), t(2)",
            "RuntimeError",
            "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1",
        ),
        (
            "b(2), b(2)",
            "RuntimeError",
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.",
        ),
    ],
    reference: "np.linalg.norm((self - other).ravel(), p)",
    ..Operator::BASE
};

#[operator]
pub static RENORM: Operator = Operator {
    name: "renorm",
    node: "RenormBackward0",
    variants: Variants::ALL,
    signature: "(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    doc: "The tensor with each of its slices along `dim` scaled down to the norm `maxnorm` if it is larger.

    >>> torch.renorm(torch.tensor([[3., 4.], [0., 1.]]), 2, 0, 1)
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])",
    out: Out::EXACT,
    dtypes: DTypes::INEXACT,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        let (p, maxnorm) = (args.scalar(P)?, args.scalar(MAXNORM)?);
        for (number, name) in [(p, "p"), (maxnorm, "maxnorm")] {
            if number.is_complex() {
                return Err(Error::runtime(format!("renorm: {name} must be real-valued")));
            }
        }
        let maxnorm = maxnorm.f64();
        // NaN is not a valid norm either.
        if p.f64() <= 0.0 || p.f64().is_nan() {
            return Err(Error::runtime("renorm: non-positive-norm not supported"));
        }
        if maxnorm < 0.0 || maxnorm.is_nan() {
            let maxnorm = crate::create::c_text(maxnorm);
            return Err(Error::runtime(format!("renorm: expected maxnorm to be >= 0 but got {maxnorm}")));
        }
        if input.rank() < 2 {
            return Err(Error::runtime(format!(
                "renorm: input needs at least 2 dimensions, got {} dimensions",
                input.rank()
            )));
        }
        let kept = super::one_dim(args, DIM)?;
        let dims: Ints = (0..input.rank() as i64).filter(|&dim| dim != kept as i64).collect();
        let wide = if input.dtype().is_half() { Some(DType::F32) } else { None };
        let norm = VECTOR_NORM.tensor([input.into(), p.into(), dims.into(), true.into(), wide.into()])?;
        let long = Expr::from(&norm).above(maxnorm);
        let factor = long.choose(Expr::from(maxnorm) / (Expr::from(norm) + 1e-7), 1.0);
        let shrunk = crate::convert::to_dtype(&(factor * input).done()?, input.dtype())?;
        crate::convert::contiguous(&shrunk).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 3), 2, 0, 1", "t(2, 3), 1, 1, 0.5"],
    errors: &[
        ("t(2, 3), 0, 0, 1", "RuntimeError", "renorm: non-positive-norm not supported"),
        ("t(2, 3), float('nan'), 0, 1", "RuntimeError", "renorm: non-positive-norm not supported"),
        ("t(2, 3), 1j, 0, 1", "RuntimeError", "renorm: p must be real-valued"),
        ("t(2, 3), 2, 0, 1j", "RuntimeError", "renorm: maxnorm must be real-valued"),
        ("t(2, 3), 2, 0, float('nan')", "RuntimeError", "renorm: expected maxnorm to be >= 0 but got nan"),
        ("t(3), 2, 0, 1", "RuntimeError", "renorm: input needs at least 2 dimensions, got 1 dimensions"),
    ],
    ..Operator::BASE
};

/// The call of `vector_norm` for a call of `norm`.
pub fn deferred<'a>(mut args: Args<'a>, p: Scalar) -> Result<Args<'a>> {
    args.op = &VECTOR_NORM;
    args.set(VECTOR_NORM::ORD, Value::Scalar(p));
    Ok(args)
}

pub fn real_order(ord: Scalar) -> Result<f64> {
    if ord.is_complex() {
        return Err(Error::runtime("linalg.vector_norm: Expected a non-complex scalar as the order of norm."));
    }
    Ok(ord.f64())
}

/// Refuses a tensor in a compressed format at the step where torch does: it makes the result in this format first.
fn check_strided(args: &Args) -> Result<()> {
    use VECTOR_NORM::*;

    let own = args.tensor(INPUT)?;
    let Some(parts) = own.compressed_parts() else { return Ok(()) };
    infer(args)?;
    let sizes = ReduceDims::of(args, DIM, KEEPDIM)?.sizes(own.sizes());
    if parts.format.blocks && sizes.len() >= 2 {
        return Err(crate::sparse::layouts::no_blocks("empty", parts.format.layout_name()));
    }
    if sizes.len() < 2 {
        return Err(Error::runtime(format!(
            "torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size {}",
            Shape(&sizes)
        )));
    }
    Err(unsupported("linalg_vector_norm.out", own))
}

fn infer(args: &Args) -> Result<Vec<TensorSpec>> {
    use VECTOR_NORM::*;

    let input = args.tensor(INPUT)?;
    if !input.dtype().is_differentiable() {
        return Err(Error::runtime(format!(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
            input.dtype().display_name()
        ))
        .hint("Use x.float() to convert integers to floats."));
    }
    if let Some(asked) = args.dtype(DTYPE) {
        if !asked.is_differentiable() {
            return Err(Error::runtime(format!(
                "linalg.vector_norm: dtype should be floating point or complex, but got {}",
                asked.display_name()
            )));
        }
        if asked.is_complex() != input.dtype().is_complex() {
            let kind = if input.dtype().is_complex() { "complex" } else { "real" };
            return Err(Error::runtime(format!(
                "linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got {}",
                asked.display_name()
            )));
        }
        if promote(asked, input.dtype())? != asked {
            return Err(Error::runtime(format!(
                "linalg.vector_norm: the dtype of the input ({}) should be convertible without narrowing to the specified dtype ({})",
                input.dtype().display_name(),
                asked.display_name()
            ))
            .hint("Convert the result instead: x.norm().to(dtype)."));
        }
    }
    let ord = real_order(args.scalar(ORD)?)?;
    let over = ReduceDims::of(args, DIM, KEEPDIM)?;
    if input.numel() == 0 && (ord < 0.0 || ord == f64::INFINITY) {
        if super::dims(args, DIM).is_empty() {
            return Err(Error::runtime(format!(
                "linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an identity"
            )));
        }
        if let Some(dim) = (0..input.rank()).find(|&dim| over.has(dim) && input.sizes()[dim] == 0) {
            return Err(Error::runtime(format!(
                "linalg.vector_norm cannot compute the {ord} norm on the dimension {dim}because this dimension is empty and the operation does not have an identity"
            )));
        }
    }
    Ok(vec![over.spec(args, args.dtype(DTYPE).unwrap_or(input.dtype()).to_real())?])
}

fn run(args: &Args, results: &[Tensor]) -> Result<()> {
    use VECTOR_NORM::*;

    let input = args.tensor(INPUT)?;
    let ord = args.scalar(ORD)?.f64();
    // The norm of one element is its magnitude; its powers might overflow or underflow in the dtype.
    let ord = if input.numel() == results[0].numel() && ord != 0.0 { 1.0 } else { ord };
    let compute = args.dtype(DTYPE).unwrap_or(input.dtype()).compute();
    super::fold(args, ReduceDims::of(args, DIM, KEEPDIM)?, results, folds_of(ord), compute, &[ord])
}

fn folds_of(ord: f64) -> Folds {
    if ord == 2.0 {
        EUCLIDEAN
    } else if ord == 1.0 {
        MANHATTAN
    } else if ord == 0.0 {
        NONZERO
    } else if ord == f64::INFINITY {
        GREATEST
    } else if ord == f64::NEG_INFINITY {
        LEAST
    } else {
        POWERS
    }
}

pub const EUCLIDEAN: Folds = folds! {
    "norm_two";
    for<S> [f32, f64] (0.0; |a, x| S::mul_add(x, x, a); |a, b| a + b; |a, _n| a.sqrt());
    for<S> [c64 => f32] (0.0; |a, z| a + z.norm_sqr(); |a, b| a + b; |a, _n| a.sqrt());
    for<S> [c128 => f64] (0.0; |a, z| a + z.norm_sqr(); |a, b| a + b; |a, _n| a.sqrt())
};

pub const MANHATTAN: Folds = folds! {
    "norm_one";
    for<S> [f32, f64] (0.0; |a, x| a + x.abs(); |a, b| a + b; |a, _n| a);
    for<S> [c64 => f32] (0.0; |a, z| a + z.norm(); |a, b| a + b; |a, _n| a);
    for<S> [c128 => f64] (0.0; |a, z| a + z.norm(); |a, b| a + b; |a, _n| a)
};

pub const NONZERO: Folds = folds! {
    "norm_zero";
    for<S> [f32, c64 => f32] (0.0; |a, x| a + f32::from(u8::from(x != T::default())); |a, b| a + b; |a, _n| a);
    for<S> [f64, c128 => f64] (0.0; |a, x| a + f64::from(u8::from(x != T::default())); |a, b| a + b; |a, _n| a)
};

pub const GREATEST: Folds = folds! {
    "norm_inf";
    for<S> [f32, f64] (0.0; |a, x| larger(a, x.abs()); |a, b| larger(a, b); |a, _n| a);
    for<S> [c64 => f32] (0.0; |a, z| larger(a, z.norm()); |a, b| larger(a, b); |a, _n| a);
    for<S> [c128 => f64] (0.0; |a, z| larger(a, z.norm()); |a, b| larger(a, b); |a, _n| a)
};

pub const LEAST: Folds = folds! {
    "norm_neg_inf";
    for<S> [f32, f64] (A::INFINITY; |a, x| smaller(a, x.abs()); |a, b| smaller(a, b); |a, _n| a);
    for<S> [c64 => f32] (A::INFINITY; |a, z| smaller(a, z.norm()); |a, b| smaller(a, b); |a, _n| a);
    for<S> [c128 => f64] (A::INFINITY; |a, z| smaller(a, z.norm()); |a, b| smaller(a, b); |a, _n| a)
};

pub const POWERS: Folds = folds! {
    "norm";
    for<S> [f32, f64] (0.0; |a, x; p| a + S::pow(x.abs(), p as T); |a, b| a + b; |a, _n; q| S::pow(a, 1.0 / q as T));
    for<S> [c64 => f32] (0.0; |a, z; p| a + S::pow(z.norm(), p as A); |a, b| a + b; |a, _n; q| S::pow(a, 1.0 / q as A));
    for<S> [c128 => f64] (0.0; |a, z; p| a + S::pow(z.norm(), p); |a, b| a + b; |a, _n; q| S::pow(a, 1.0 / q))
};

/// NaN wins over everything.
#[inline(always)]
#[allow(clippy::eq_op)]
fn larger<T: PartialOrd + Copy>(a: T, b: T) -> T {
    if (b > a) | (b != b) { b } else { a }
}

#[inline(always)]
#[allow(clippy::eq_op)]
fn smaller<T: PartialOrd + Copy>(a: T, b: T) -> T {
    if (b < a) | (b != b) { b } else { a }
}

/// torch's choice of formulas: the gradient is zero where the norm is zero, and magnitudes are divided by the norm
/// before powers.
fn gradient(d: &BackwardContext) -> Expr {
    use VECTOR_NORM::*;

    let p = d.scalar(ORD).f64();
    let x = || d.input(INPUT);
    let (grad, norm) = (restored(d, d.grad(), DIM, KEEPDIM), restored(d, d.result(), DIM, KEEPDIM));
    let power = |value: Expr, p: f64| value.call(&POW, [p.into()]);
    let unless_zero = |norm: Expr, value: Expr| norm.equals(0i64).choose(0i64, value);
    if p == 0.0 {
        return x().zeros_like();
    }
    if p == 1.0 {
        return x().sgn() * grad;
    }
    if p == 2.0 {
        return grad * unless_zero(norm.clone(), x() / norm);
    }
    if p.is_infinite() {
        let nan = x().call(&ISNAN, []).and(norm.clone().call(&ISNAN, []));
        let hit = x().abs().equals(norm).or(nan);
        let count = hit.clone().call(&super::sum::SUM_DIM, [derived_dims(d, DIM).into(), true.into()]);
        return x().sgn() * (hit * (grad / count));
    }
    if p < 1.0 {
        let own = x().equals(0i64).choose(0i64, x().sgn() * power(x().abs(), p - 1.0));
        return own * grad * power(norm, 1.0 - p);
    }
    let own = if p < 2.0 { x().sgn() * power(x().abs(), p - 1.0) } else { x() * power(x().abs(), p - 2.0) };
    own * unless_zero(norm.clone(), grad / power(norm, p - 1.0))
}
