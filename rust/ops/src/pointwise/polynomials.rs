//! Orthogonal polynomials, by their recurrences. `n` counts the degree; a negative one gives zero, as does one that no `i64`
//! holds. The recurrences run in `f64`, and leave the range of the result's dtype where that dtype's own arithmetic would:
//! after an infinite polynomial the next is the difference of two.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_cpu::loops;
use rushlight_dispatch::operator::{DTypes, Derivative, Operator, Variants, operator};

use super::float;

/// The degree as an integer: the least one for what no integer holds, as the processor's conversion gives it.
fn degree(n: f64) -> i64 {
    if n.abs() < 9223372036854775808.0 { n as i64 } else { i64::MIN }
}

/// The polynomial of a degree, from those of degrees zero (one) and one: `next(k, last, before)` is that of degree `k +
/// 1`. What exceeds `largest` is infinite. `MANY` degrees take seconds, and no program waits for more.
fn recur(n: i64, largest: f64, first: f64, next: impl Fn(f64, f64, f64) -> f64) -> f64 {
    const MANY: i64 = 1 << 30;
    if n <= 0 {
        return if n == 0 { 1.0 } else { 0.0 };
    }
    if n > MANY {
        return f64::NAN;
    }
    let (mut before, mut last) = (1.0, first);
    for k in 1..n {
        if last.is_nan() {
            break;
        }
        (before, last) = (last, next(k as f64, last, before));
        if last.abs() > largest {
            last = f64::INFINITY.copysign(last);
        }
    }
    last
}

fn is_even(n: i64) -> bool {
    n % 2 == 0
}

/// The four kinds differ in the polynomial of degree one, and in their values at the ends.
#[derive(Clone, Copy)]
enum Kind {
    T,
    U,
    V,
    W,
}

fn chebyshev(kind: Kind, x: f64, n: i64, largest: f64) -> f64 {
    if n < 0 {
        return 0.0;
    }
    let (degree, wide) = (n as f64, 2.0 * n as f64 + 1.0);
    let sign = if is_even(n) { 1.0 } else { -1.0 };
    if x == 1.0 {
        return match kind {
            Kind::T | Kind::V => 1.0,
            Kind::U => degree + 1.0,
            Kind::W => wide,
        };
    }
    if x == -1.0 {
        return match kind {
            Kind::T | Kind::W => sign,
            Kind::U => sign * (degree + 1.0),
            Kind::V => sign * wide,
        };
    }
    if n > 6 && x.abs() < 1.0 {
        let angle = x.acos();
        return match kind {
            Kind::T => (degree * angle).cos(),
            Kind::U => ((degree + 1.0) * angle).sin() / angle.sin(),
            Kind::V => ((degree + 0.5) * angle).cos() / (angle / 2.0).cos(),
            Kind::W => ((degree + 0.5) * angle).sin() / (angle / 2.0).sin(),
        };
    }
    let first = match kind {
        Kind::T => x,
        Kind::U => 2.0 * x,
        Kind::V => 2.0 * x - 1.0,
        Kind::W => 2.0 * x + 1.0,
    };
    recur(n, largest, first, |_, last, before| 2.0 * x * last - before)
}

fn shifted(kind: Kind, x: f64, n: i64, largest: f64) -> f64 {
    chebyshev(kind, 2.0 * x - 1.0, n, largest)
}

fn hermite_h(x: f64, n: i64, largest: f64) -> f64 {
    recur(n, largest, 2.0 * x, |k, last, before| 2.0 * (x * last - k * before))
}

fn hermite_he(x: f64, n: i64, largest: f64) -> f64 {
    recur(n, largest, x, |k, last, before| x * last - k * before)
}

fn laguerre(x: f64, n: i64, largest: f64) -> f64 {
    if x == 0.0 && n >= 0 {
        return 1.0;
    }
    recur(n, largest, 1.0 - x, |k, last, before| ((2.0 * k + 1.0 - x) * last - k * before) / (k + 1.0))
}

fn legendre(x: f64, n: i64, largest: f64) -> f64 {
    if x.abs() == 1.0 && n >= 0 {
        return if x > 0.0 || is_even(n) { 1.0 } else { -1.0 };
    }
    recur(n, largest, x, |k, last, before| ((2.0 * k + 1.0) * x * last - k * before) / (k + 1.0))
}

macro_rules! polynomials {
    ($($op:ident $name:literal $function:ident($($kind:path)?), $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            namespace: "special",
            variants: Variants::FUNCTION.union(Variants::OUT),
            signature: "(Tensor|Scalar x, Tensor|Scalar n) -> Tensor",
            doc: $doc,
            dtypes: DTypes::REAL.union(DTypes::BOOL).without(DTypes::HALVES),
            check: Some(super::some_tensor),
            implementation: float(loops! {
                for<S> [f32, f64] (|x, n| $function($($kind,)? f64::from(x), degree(f64::from(n)), f64::from(T::MAX)) as T)
            }),
            derivative: Derivative::NonDifferentiable("it is not implemented, as in torch"),
            samples: &["unit(2, 3), 3", "t(3), i(9, 3)", "0.5, i(12, 2, 2)"],
            errors: &[super::MISMATCH],
            ..Operator::BASE
        };
    )*};
}

polynomials! {
    CHEBYSHEV_T "chebyshev_polynomial_t" chebyshev(Kind::T), "The Chebyshev polynomial of the first kind.

    >>> torch.special.chebyshev_polynomial_t(torch.tensor([0.5, 2.]), 3)
    tensor([-1., 26.])";
    CHEBYSHEV_U "chebyshev_polynomial_u" chebyshev(Kind::U), "The Chebyshev polynomial of the second kind.

    >>> torch.special.chebyshev_polynomial_u(torch.tensor([0.5, 2.]), 3)
    tensor([-1., 56.])";
    CHEBYSHEV_V "chebyshev_polynomial_v" chebyshev(Kind::V), "The Chebyshev polynomial of the third kind.

    >>> torch.special.chebyshev_polynomial_v(torch.tensor([0.5, 2.]), 3)
    tensor([-1., 41.])";
    CHEBYSHEV_W "chebyshev_polynomial_w" chebyshev(Kind::W), "The Chebyshev polynomial of the fourth kind.

    >>> torch.special.chebyshev_polynomial_w(torch.tensor([0.5, 2.]), 3)
    tensor([-1., 71.])";
    SHIFTED_T "shifted_chebyshev_polynomial_t" shifted(Kind::T), "The Chebyshev polynomial of the first kind at `2 * x - 1`.

    >>> torch.special.shifted_chebyshev_polynomial_t(torch.tensor([0.5, 2.]), 3)
    tensor([-0., 99.])";
    SHIFTED_U "shifted_chebyshev_polynomial_u" shifted(Kind::U), "The Chebyshev polynomial of the second kind at `2 * x - 1`.

    >>> torch.special.shifted_chebyshev_polynomial_u(torch.tensor([0.5, 2.]), 3)
    tensor([ -0., 204.])";
    SHIFTED_V "shifted_chebyshev_polynomial_v" shifted(Kind::V), "The Chebyshev polynomial of the third kind at `2 * x - 1`.

    >>> torch.special.shifted_chebyshev_polynomial_v(torch.tensor([0.5, 2.]), 3)
    tensor([  1., 169.])";
    SHIFTED_W "shifted_chebyshev_polynomial_w" shifted(Kind::W), "The Chebyshev polynomial of the fourth kind at `2 * x - 1`.

    >>> torch.special.shifted_chebyshev_polynomial_w(torch.tensor([0.5, 2.]), 3)
    tensor([ -1., 239.])";
    HERMITE_H "hermite_polynomial_h" hermite_h(), "The physicists' Hermite polynomial.

    >>> torch.special.hermite_polynomial_h(torch.tensor([0.5, 2.]), 3)
    tensor([-5., 40.])";
    HERMITE_HE "hermite_polynomial_he" hermite_he(), "The probabilists' Hermite polynomial.

    >>> torch.special.hermite_polynomial_he(torch.tensor([0.5, 2.]), 3)
    tensor([-1.3750,  2.0000])";
    LAGUERRE "laguerre_polynomial_l" laguerre(), "The Laguerre polynomial.

    >>> torch.special.laguerre_polynomial_l(torch.tensor([0.5, 2.]), 3)
    tensor([-0.1458, -0.3333])";
    LEGENDRE "legendre_polynomial_p" legendre(), "The Legendre polynomial.

    >>> torch.special.legendre_polynomial_p(torch.tensor([0.5, 2.]), 3)
    tensor([-0.4375, 17.0000])";
}
