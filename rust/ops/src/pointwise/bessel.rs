//! Bessel functions, modified Bessel functions, and Airy's function. `simd` computes them in double precision.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{BackwardContext, DTypes, Derivative, Operator, Saves, Variants, formula, operator};
use rushlight_simd::math::bessel;

use super::{UNARY, float};
use crate::expr_ext::ExprExt;

const REAL: DTypes = DTypes::COMPUTED.without(DTypes::COMPLEX);
/// Without half types, which torch does not support here.
const WHOLE_OR_DOUBLE: DTypes = REAL.without(DTypes::HALVES);

#[operator]
pub static I0: Operator = Operator {
    name: "i0",
    aliases: &["special.i0"],
    doc: "The modified Bessel function of the first kind, of order zero.

    >>> torch.i0(torch.tensor([0., 1.]))
    tensor([1.0000, 1.2661])",
    dtypes: REAL,
    kernel_name: "i0_vml_cpu",
    implementation: float(loops! { for<S> [f32, f64] (|x| bessel::i0(f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * d.input(INPUT).call(&I1, [])
    })]),
    reference: "np.i0(self)",
    ..UNARY
};

/// Shared by the operators of `torch.special`, which are not methods.
#[operator]
const SPECIAL: Operator = Operator { namespace: "special", variants: Variants::FUNCTION.union(Variants::OUT), ..UNARY };

#[operator]
pub static I0E: Operator = Operator {
    name: "i0e",
    doc: "`i0(self) * exp(-abs(self))`, which does not overflow.

    >>> torch.special.i0e(torch.tensor([0., 1.]))
    tensor([1.0000, 0.4658])",
    dtypes: REAL,
    implementation: float(loops! { for<S> [f32, f64] (|x| bessel::i0e(f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        d.grad() * (d.input(INPUT).call(&I1E, []) - d.input(INPUT).sgn() * d.result())
    })]),
    reference: "np.i0(self) * np.exp(-np.abs(self))",
    ..SPECIAL
};

#[operator]
pub static I1: Operator = Operator {
    name: "i1",
    doc: "The modified Bessel function of the first kind, of order one.

    >>> torch.special.i1(torch.tensor([0., 1.]))
    tensor([0.0000, 0.5652])",
    dtypes: REAL,
    implementation: float(loops! { for<S> [f32, f64] (|x| bessel::i1(f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        let slope = |x: Expr| x.clone().call(&I0, []) - d.result() / x;
        d.grad() * away_from_zero(d, slope)
    })]),
    ..SPECIAL
};

/// A derivative that divides by the argument; at zero it is one half.
fn away_from_zero(d: &BackwardContext, slope: impl FnOnce(Expr) -> Expr) -> Expr {
    use I1::*;

    let zero = d.input(INPUT).equals(0.0);
    let divisor = zero.clone().choose(1.0, d.input(INPUT));
    zero.choose(0.5, slope(divisor))
}

#[operator]
pub static I1E: Operator = Operator {
    name: "i1e",
    doc: "`i1(self) * exp(-abs(self))`, which does not overflow.

    >>> torch.special.i1e(torch.tensor([0., 1.]))
    tensor([0.0000, 0.2079])",
    dtypes: REAL,
    implementation: float(loops! { for<S> [f32, f64] (|x| bessel::i1e(f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        let slope = |x: Expr| x.clone().call(&I0E, []) - d.result() * (x.clone().sgn() + x.reciprocal());
        d.grad() * away_from_zero(d, slope)
    })]),
    ..SPECIAL
};

/// Functions without a derivative, as in torch.
macro_rules! plain {
    ($($op:ident $name:literal $parameter:literal $function:ident $samples:expr, $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            signature: concat!("(Tensor ", $parameter, ") -> Tensor"),
            doc: $doc,
            dtypes: WHOLE_OR_DOUBLE,
            implementation: float(loops! { for<S> [f32, f64] (|x| bessel::$function(f64::from(x)) as T) }),
            derivative: Derivative::NonDifferentiable("it is not implemented, as in torch"),
            samples: $samples,
            ..SPECIAL
        };
    )*};
}

/// All numbers.
const ANY: &[&str] = &["t(2, 3)", "t(3, 2).t()", "t()"];
/// Positive ones.
const POSITIVE: &[&str] = &["pos(2, 3)", "pos(3, 2).t()", "pos()"];

plain! {
    AIRY_AI "airy_ai" "x" airy_ai ANY, "Airy's function of the first kind.

    >>> torch.special.airy_ai(torch.tensor([0., 1.]))
    tensor([0.3550, 0.1353])";
    BESSEL_J0 "bessel_j0" "self" j0 ANY, "The Bessel function of the first kind, of order zero.

    >>> torch.special.bessel_j0(torch.tensor([0., 1.]))
    tensor([1.0000, 0.7652])";
    BESSEL_J1 "bessel_j1" "self" j1 ANY, "The Bessel function of the first kind, of order one.

    >>> torch.special.bessel_j1(torch.tensor([0., 1.]))
    tensor([0.0000, 0.4401])";
    BESSEL_Y0 "bessel_y0" "self" y0 POSITIVE, "The Bessel function of the second kind, of order zero; NaN for negative numbers.

    >>> torch.special.bessel_y0(torch.tensor([1., 2.]))
    tensor([0.0883, 0.5104])";
    BESSEL_Y1 "bessel_y1" "self" y1 POSITIVE, "The Bessel function of the second kind, of order one; NaN for negative numbers.

    >>> torch.special.bessel_y1(torch.tensor([1., 2.]))
    tensor([-0.7812, -0.1070])";
    MODIFIED_BESSEL_I0 "modified_bessel_i0" "self" i0 ANY, "The modified Bessel function of the first kind, of order zero.

    >>> torch.special.modified_bessel_i0(torch.tensor([0., 1.]))
    tensor([1.0000, 1.2661])";
    MODIFIED_BESSEL_I1 "modified_bessel_i1" "self" i1 ANY, "The modified Bessel function of the first kind, of order one.

    >>> torch.special.modified_bessel_i1(torch.tensor([0., 1.]))
    tensor([0.0000, 0.5652])";
    MODIFIED_BESSEL_K0 "modified_bessel_k0" "self" k0 POSITIVE, "The modified Bessel function of the second kind, of order zero; NaN for negative numbers.

    >>> torch.special.modified_bessel_k0(torch.tensor([1., 2.]))
    tensor([0.4210, 0.1139])";
    MODIFIED_BESSEL_K1 "modified_bessel_k1" "self" k1 POSITIVE, "The modified Bessel function of the second kind, of order one; NaN for negative numbers.

    >>> torch.special.modified_bessel_k1(torch.tensor([1., 2.]))
    tensor([0.6019, 0.1399])";
    SCALED_MODIFIED_BESSEL_K0 "scaled_modified_bessel_k0" "x" k0e POSITIVE, "`modified_bessel_k0(x) * exp(x)`, which does not underflow.

    >>> torch.special.scaled_modified_bessel_k0(torch.tensor([1., 2.]))
    tensor([1.1445, 0.8416])";
    SCALED_MODIFIED_BESSEL_K1 "scaled_modified_bessel_k1" "x" k1e POSITIVE, "`modified_bessel_k1(x) * exp(x)`, which does not underflow.

    >>> torch.special.scaled_modified_bessel_k1(torch.tensor([1., 2.]))
    tensor([1.6362, 1.0335])";
    SPHERICAL_BESSEL_J0 "spherical_bessel_j0" "x" spherical_j0 ANY, "The spherical Bessel function of the first kind, of order zero: `sin(x) / x`.

    >>> torch.special.spherical_bessel_j0(torch.tensor([0., 1.]))
    tensor([1.0000, 0.8415])";
}
