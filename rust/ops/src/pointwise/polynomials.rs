//! Orthogonal polynomials, by their recurrences. `n` counts the degree; a negative one gives zero.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_cpu::tiles;

use super::float;
use crate::derive::Derivative;
use crate::row::{DTypes, Row, Variants};

/// The polynomial of a degree, from those of degrees zero (one) and one: `next(k, last, before)` is that of degree `k + 1`.
/// Beyond `MANY` degrees nothing is left of the digits.
fn recur(n: i64, first: f64, next: impl Fn(f64, f64, f64) -> f64) -> f64 {
    const MANY: i64 = 1 << 24;
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
    }
    last
}

fn is_even(n: i64) -> bool {
    n % 2 == 0
}

/// The four kinds differ in what stands for degree one, and in their values at the ends.
#[derive(Clone, Copy)]
enum Kind {
    T,
    U,
    V,
    W,
}

fn chebyshev(kind: Kind, x: f64, n: i64) -> f64 {
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
    recur(n, first, |_, last, before| 2.0 * x * last - before)
}

fn shifted(kind: Kind, x: f64, n: i64) -> f64 {
    chebyshev(kind, 2.0 * x - 1.0, n)
}

fn hermite_h(x: f64, n: i64) -> f64 {
    recur(n, 2.0 * x, |k, last, before| 2.0 * (x * last - k * before))
}

fn hermite_he(x: f64, n: i64) -> f64 {
    recur(n, x, |k, last, before| x * last - k * before)
}

fn laguerre(x: f64, n: i64) -> f64 {
    if x == 0.0 && n >= 0 {
        return 1.0;
    }
    recur(n, 1.0 - x, |k, last, before| ((2.0 * k + 1.0 - x) * last - k * before) / (k + 1.0))
}

fn legendre(x: f64, n: i64) -> f64 {
    if x.abs() == 1.0 && n >= 0 {
        return if x > 0.0 || is_even(n) { 1.0 } else { -1.0 };
    }
    recur(n, x, |k, last, before| ((2.0 * k + 1.0) * x * last - k * before) / (k + 1.0))
}

macro_rules! polynomials {
    ($($row:ident $name:literal |$x:ident, $n:ident| $value:expr, $doc:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            namespace: "special",
            variants: Variants::FUNCTION.union(Variants::OUT),
            signature: "(Tensor|Scalar x, Tensor|Scalar n) -> Tensor",
            doc: $doc,
            dtypes: DTypes::REAL.union(DTypes::BOOL).without(DTypes::HALVES),
            check: Some(super::some_tensor),
            run: float(tiles! {
                for<S> [f32, f64] (|x, n| {
                    let ($x, $n) = (f64::from(x), f64::from(n) as i64);
                    $value as T
                })
            }),
            derivative: Derivative::NonDifferentiable("it is not implemented, as in torch"),
            samples: &["unit(2, 3), 3", "t(3), i(9, 3)", "0.5, i(12, 2, 2)"],
            errors: &[super::MISMATCH],
            ..Row::BASE
        };
    )*};
}

polynomials! {
    CHEBYSHEV_T "chebyshev_polynomial_t" |x, n| chebyshev(Kind::T, x, n), "The Chebyshev polynomial of the first kind.

    >>> torch.special.chebyshev_polynomial_t(torch.tensor([0.5, 2.]), 3)
    tensor([-1., 26.])";
    CHEBYSHEV_U "chebyshev_polynomial_u" |x, n| chebyshev(Kind::U, x, n), "The Chebyshev polynomial of the second kind.

    >>> torch.special.chebyshev_polynomial_u(torch.tensor([0.5, 2.]), 3)
    tensor([-1., 56.])";
    CHEBYSHEV_V "chebyshev_polynomial_v" |x, n| chebyshev(Kind::V, x, n), "The Chebyshev polynomial of the third kind.

    >>> torch.special.chebyshev_polynomial_v(torch.tensor([0.5, 2.]), 3)
    tensor([-1., 41.])";
    CHEBYSHEV_W "chebyshev_polynomial_w" |x, n| chebyshev(Kind::W, x, n), "The Chebyshev polynomial of the fourth kind.

    >>> torch.special.chebyshev_polynomial_w(torch.tensor([0.5, 2.]), 3)
    tensor([-1., 71.])";
    SHIFTED_T "shifted_chebyshev_polynomial_t" |x, n| shifted(Kind::T, x, n), "The Chebyshev polynomial of the first kind at `2 * x - 1`.

    >>> torch.special.shifted_chebyshev_polynomial_t(torch.tensor([0.5, 2.]), 3)
    tensor([-0., 99.])";
    SHIFTED_U "shifted_chebyshev_polynomial_u" |x, n| shifted(Kind::U, x, n), "The Chebyshev polynomial of the second kind at `2 * x - 1`.

    >>> torch.special.shifted_chebyshev_polynomial_u(torch.tensor([0.5, 2.]), 3)
    tensor([ -0., 204.])";
    SHIFTED_V "shifted_chebyshev_polynomial_v" |x, n| shifted(Kind::V, x, n), "The Chebyshev polynomial of the third kind at `2 * x - 1`.

    >>> torch.special.shifted_chebyshev_polynomial_v(torch.tensor([0.5, 2.]), 3)
    tensor([  1., 169.])";
    SHIFTED_W "shifted_chebyshev_polynomial_w" |x, n| shifted(Kind::W, x, n), "The Chebyshev polynomial of the fourth kind at `2 * x - 1`.

    >>> torch.special.shifted_chebyshev_polynomial_w(torch.tensor([0.5, 2.]), 3)
    tensor([ -1., 239.])";
    HERMITE_H "hermite_polynomial_h" |x, n| hermite_h(x, n), "The Hermite polynomial of the physicists.

    >>> torch.special.hermite_polynomial_h(torch.tensor([0.5, 2.]), 3)
    tensor([-5., 40.])";
    HERMITE_HE "hermite_polynomial_he" |x, n| hermite_he(x, n), "The Hermite polynomial of probability.

    >>> torch.special.hermite_polynomial_he(torch.tensor([0.5, 2.]), 3)
    tensor([-1.3750,  2.0000])";
    LAGUERRE "laguerre_polynomial_l" |x, n| laguerre(x, n), "The Laguerre polynomial.

    >>> torch.special.laguerre_polynomial_l(torch.tensor([0.5, 2.]), 3)
    tensor([-0.1458, -0.3333])";
    LEGENDRE "legendre_polynomial_p" |x, n| legendre(x, n), "The Legendre polynomial.

    >>> torch.special.legendre_polynomial_p(torch.tensor([0.5, 2.]), 3)
    tensor([-0.4375, 17.0000])";
}
