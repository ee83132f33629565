//! Norms of vectors.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128, promote};
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::folds;
use rushlight_cpu::reduce::Fold;

use super::{Over, derived_dims, restored};
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::pointwise::compare::ISNAN;
use crate::pointwise::power::POW;
use crate::row::{DTypes, Kernel, Out, Row, Run, Spec, Traits, Variants};
use crate::sparse::Sparse;
use crate::value::{Args, Output, Value};

pub static VECTOR_NORM: Row = Row {
    name: "vector_norm",
    namespace: "linalg",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The norm of the vectors along `dim` (of all elements by default).

    out = sum(abs(self) ** ord) ** (1 / ord)

`inf` and `-inf` give the largest and the smallest magnitude, 0 the number of elements that are not zero.

    >>> torch.linalg.vector_norm(torch.tensor([3., 4.]))
    tensor(5.)",
    out: Out::EXACT,
    dtypes: DTypes::INEXACT,
    mapped: Mapped::Over(2),
    run: Run::Kernel(Kernel { infer, cpu: run }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0).union(Saves::RESULT), gradient)]),
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
    ..Row::BASE
};

pub static NORM: Row = Row {
    name: "norm",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Scalar? p=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The norm of the vectors along `dim`, as `torch.linalg.vector_norm`.

    >>> torch.norm(torch.tensor([3., 4.]))
    tensor(5.)",
    dtypes: DTypes::INEXACT,
    sparse: Sparse::Compose(crate::sparse::elementwise::norm),
    run: Run::Defer(|args| {
        let p = args.optional_scalar(1).unwrap_or(Scalar::Int(2));
        deferred(args, p)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t(2, 3), 1, 1", "t(2, 3, 4), 3, (0, 2), True"],
    reference: "np.sum(np.abs(self).astype(np.float64) ** p, axis=None if dim is None else dim, keepdims=keepdim) ** (1 / p)",
    ..Row::BASE
};

pub static NORM_NAMED: Row = Row {
    name: "norm.named",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, str p, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The Frobenius norm, `p='fro'`, or the sum of singular values, `p='nuc'`.

    >>> torch.norm(torch.tensor([[3., 4.]]), 'fro')
    tensor(5.)",
    dtypes: DTypes::INEXACT,
    run: Run::Defer(|args| match args.str(1)? {
        "fro" => deferred(args, Scalar::Int(2)),
        "nuc" => nuclear(args),
        other => Err(Error::runtime(format!("linalg.matrix_norm: Order {other} not supported."))),
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), 'fro'", "t(2, 3), 'fro', 1"],
    errors: &[("t(2, 3), 'abc'", "RuntimeError", "linalg.matrix_norm: Order abc not supported.")],
    reference: "np.linalg.norm(self, None, dim, keepdim)",
    ..Row::BASE
};

pub static DIST: Row = Row {
    name: "dist",
    node: "DistBackward0",
    signature: "(Tensor self, Tensor other, Scalar p=2) -> Tensor",
    doc: "The norm of the difference.

    >>> torch.dist(torch.tensor([4., 5.]), torch.tensor([1., 1.]))
    tensor(5.)",
    dtypes: DTypes::INEXACT,
    traits: Traits::BROADCASTS,
    run: Run::Compose(|args| {
        let gap = (Expr::from(args.tensor(0)?) - args.tensor(1)?).done()?;
        if !gap.dtype().is_differentiable() {
            return Err(Error::runtime(format!(
                "norm(): input dtype should be either floating point or complex. Got {} instead.",
                gap.dtype().title()
            )));
        }
        VECTOR_NORM.call([(&gap).into(), args.scalar(2)?.into()])
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

pub static RENORM: Row = Row {
    name: "renorm",
    node: "RenormBackward0",
    variants: Variants::ALL,
    signature: "(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    doc: "The tensor with each of its parts along `dim` shrunk to the norm `maxnorm` where it is longer.

    >>> torch.renorm(torch.tensor([[3., 4.], [0., 1.]]), 2, 0, 1)
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])",
    out: Out::EXACT,
    dtypes: DTypes::INEXACT,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        let (p, maxnorm) = (args.scalar(1)?, args.scalar(3)?);
        for (number, name) in [(p, "p"), (maxnorm, "maxnorm")] {
            if number.is_complex() {
                return Err(Error::runtime(format!("renorm: {name} must be real-valued")));
            }
        }
        let maxnorm = maxnorm.f64();
        // NaN is no norm either.
        if p.f64() <= 0.0 || p.f64().is_nan() {
            return Err(Error::runtime("renorm: non-positive-norm not supported"));
        }
        if maxnorm < 0.0 || maxnorm.is_nan() {
            let maxnorm = crate::create::c_text(maxnorm);
            return Err(Error::runtime(format!("renorm: expected maxnorm to be >= 0 but got {maxnorm}")));
        }
        if own.rank() < 2 {
            return Err(Error::runtime(format!(
                "renorm: input needs at least 2 dimensions, got {} dimensions",
                own.rank()
            )));
        }
        let kept = super::one_dim(args, 2)?;
        let dims: crate::value::Ints = (0..own.rank() as i64).filter(|&dim| dim != kept as i64).collect();
        let wide = if own.dtype().is_half() { Some(DType::F32) } else { None };
        let norm = VECTOR_NORM.tensor([own.into(), p.into(), dims.into(), true.into(), wide.into()])?;
        let long = Expr::from(&norm).above(maxnorm);
        let factor = long.choose(Expr::from(maxnorm) / (Expr::from(norm) + 1e-7), 1.0);
        let shrunk = crate::convert::to_dtype(&(factor * own).done()?, own.dtype())?;
        crate::convert::contiguous(&shrunk).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), 2, 0, 1", "t(2, 3), 1, 1, 0.5"],
    errors: &[
        ("t(2, 3), 0, 0, 1", "RuntimeError", "renorm: non-positive-norm not supported"),
        ("t(2, 3), float('nan'), 0, 1", "RuntimeError", "renorm: non-positive-norm not supported"),
        ("t(2, 3), 1j, 0, 1", "RuntimeError", "renorm: p must be real-valued"),
        ("t(2, 3), 2, 0, 1j", "RuntimeError", "renorm: maxnorm must be real-valued"),
        ("t(2, 3), 2, 0, float('nan')", "RuntimeError", "renorm: expected maxnorm to be >= 0 but got nan"),
        ("t(3), 2, 0, 1", "RuntimeError", "renorm: input needs at least 2 dimensions, got 1 dimensions"),
    ],
    ..Row::BASE
};

fn deferred<'a>(mut args: Args<'a>, p: Scalar) -> Result<Args<'a>> {
    args.row = &VECTOR_NORM;
    args.values[1] = Value::Scalar(p);
    Ok(args)
}

fn nuclear(mut args: Args) -> Result<Args> {
    args.row = &crate::linalg::norms::MATRIX_NORM_NAMED;
    if !args.has(2) {
        args.values[2] = Value::Ints(crate::value::Ints::from_slice(&[-2, -1]));
    }
    Ok(args)
}

pub fn real_order(ord: Scalar) -> Result<f64> {
    if ord.is_complex() {
        return Err(Error::runtime("linalg.vector_norm: Expected a non-complex scalar as the order of norm."));
    }
    Ok(ord.f64())
}

fn infer(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    if !own.dtype().is_differentiable() {
        return Err(Error::runtime(format!(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
            own.dtype().title()
        ))
        .hint("x.float() turns integers into floats."));
    }
    if let Some(asked) = args.dtype(4) {
        if !asked.is_differentiable() {
            return Err(Error::runtime(format!(
                "linalg.vector_norm: dtype should be floating point or complex, but got {}",
                asked.title()
            )));
        }
        if asked.is_complex() != own.dtype().is_complex() {
            let kind = if own.dtype().is_complex() { "complex" } else { "real" };
            return Err(Error::runtime(format!(
                "linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got {}",
                asked.title()
            )));
        }
        if promote(asked, own.dtype())? != asked {
            return Err(Error::runtime(format!(
                "linalg.vector_norm: the dtype of the input ({}) should be convertible without narrowing to the specified dtype ({})",
                own.dtype().title(),
                asked.title()
            ))
            .hint("The norm of the dtype's own elements can be narrowed afterwards: x.norm().to(dtype)."));
        }
    }
    let ord = real_order(args.scalar(1)?)?;
    let over = Over::of(args, 2)?;
    if own.numel() == 0 && (ord < 0.0 || ord == f64::INFINITY) {
        if super::dims(args, 2).is_empty() {
            return Err(Error::runtime(format!(
                "linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an identity"
            )));
        }
        if let Some(dim) = (0..own.rank()).find(|&dim| over.has(dim) && own.sizes()[dim] == 0) {
            return Err(Error::runtime(format!(
                "linalg.vector_norm cannot compute the {ord} norm on the dimension {dim}because this dimension is empty and the operation does not have an identity"
            )));
        }
    }
    Ok(vec![over.spec(args, args.dtype(4).unwrap_or(own.dtype()).to_real())?])
}

fn run(args: &Args, results: &[Tensor]) -> Result<()> {
    let own = args.tensor(0)?;
    let ord = args.scalar(1)?.f64();
    // Of one element it is the magnitude, whose powers may be too large or too small for the dtype.
    let ord = if own.numel() == results[0].numel() && ord != 0.0 { 1.0 } else { ord };
    let compute = args.dtype(4).unwrap_or(own.dtype()).compute();
    super::run(args, Over::of(args, 2)?, results, folds_of(ord), compute, &[ord])
}

fn folds_of(ord: f64) -> fn(DType) -> Option<Fold> {
    if ord == 2.0 {
        folds! {
            for<S> [f32, f64] (0.0; |a, x| S::mul_add(x, x, a); |a, b| a + b; |a, _n| a.sqrt());
            for<S> [c64 => f32] (0.0; |a, z| a + z.norm_sqr(); |a, b| a + b; |a, _n| a.sqrt());
            for<S> [c128 => f64] (0.0; |a, z| a + z.norm_sqr(); |a, b| a + b; |a, _n| a.sqrt())
        }
    } else if ord == 1.0 {
        folds! {
            for<S> [f32, f64] (0.0; |a, x| a + x.abs(); |a, b| a + b; |a, _n| a);
            for<S> [c64 => f32] (0.0; |a, z| a + z.norm(); |a, b| a + b; |a, _n| a);
            for<S> [c128 => f64] (0.0; |a, z| a + z.norm(); |a, b| a + b; |a, _n| a)
        }
    } else if ord == 0.0 {
        folds! {
            for<S> [f32, c64 => f32] (0.0; |a, x| a + f32::from(u8::from(x != T::default())); |a, b| a + b; |a, _n| a);
            for<S> [f64, c128 => f64] (0.0; |a, x| a + f64::from(u8::from(x != T::default())); |a, b| a + b; |a, _n| a)
        }
    } else if ord == f64::INFINITY {
        folds! {
            for<S> [f32, f64] (0.0; |a, x| larger(a, x.abs()); |a, b| larger(a, b); |a, _n| a);
            for<S> [c64 => f32] (0.0; |a, z| larger(a, z.norm()); |a, b| larger(a, b); |a, _n| a);
            for<S> [c128 => f64] (0.0; |a, z| larger(a, z.norm()); |a, b| larger(a, b); |a, _n| a)
        }
    } else if ord == f64::NEG_INFINITY {
        folds! {
            for<S> [f32, f64] (A::INFINITY; |a, x| smaller(a, x.abs()); |a, b| smaller(a, b); |a, _n| a);
            for<S> [c64 => f32] (A::INFINITY; |a, z| smaller(a, z.norm()); |a, b| smaller(a, b); |a, _n| a);
            for<S> [c128 => f64] (A::INFINITY; |a, z| smaller(a, z.norm()); |a, b| smaller(a, b); |a, _n| a)
        }
    } else {
        folds! {
            for<S> [f32, f64] (0.0; |a, x; p| a + S::pow(x.abs(), p as T); |a, b| a + b; |a, _n; q| S::pow(a, 1.0 / q as T));
            for<S> [c64 => f32] (0.0; |a, z; p| a + S::pow(z.norm(), p as A); |a, b| a + b; |a, _n; q| S::pow(a, 1.0 / q as A));
            for<S> [c128 => f64] (0.0; |a, z; p| a + S::pow(z.norm(), p); |a, b| a + b; |a, _n; q| S::pow(a, 1.0 / q))
        }
    }
}

/// NaN beats everything.
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

/// torch's choice of formulas: nothing flows through a norm of zero, and magnitudes are divided by the norm before powers.
fn gradient(d: &Derive) -> Expr {
    let p = d.scalar(1).f64();
    let x = || d.input(0);
    let (grad, norm) = (restored(d, d.grad(), 2), restored(d, d.result(), 2));
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
        let count = hit.clone().call(&super::sum::SUM_DIM, [derived_dims(d, 2).into(), true.into()]);
        return x().sgn() * (hit * (grad / count));
    }
    if p < 1.0 {
        let own = x().equals(0i64).choose(0i64, x().sgn() * power(x().abs(), p - 1.0));
        return own * grad * power(norm, 1.0 - p);
    }
    let own = if p < 2.0 { x().sgn() * power(x().abs(), p - 1.0) } else { x() * power(x().abs(), p - 2.0) };
    own * unless_zero(norm.clone(), grad / power(norm, p - 1.0))
}
