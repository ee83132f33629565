//! The derivatives of activations, fused: one pass over memory instead of three or four.

use rushlight_core::Scalar;
use rushlight_core::dtype::{c64, c128};
use rushlight_cpu::tiles;

use super::common;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Row, Variants};

/// What the rows have in common: the gradient comes first.
const GATE: Row = Row { variants: Variants::FUNCTION, dtypes: DTypes::FLOATS, ..Row::BASE };

/// What passes a gate made of the first argument and numbers.
pub(super) fn gate<const N: usize>(d: &Derive, row: &'static Row, numbers: [Scalar; N]) -> Expr {
    d.grad().with_numbers(row, d.input(0), numbers)
}

/// The derivative of a gate that is straight on both sides: the gradient passes it once more.
macro_rules! straight {
    ($row:ident $(, $place:literal)*) => { Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad().with_numbers(&$row, d.input(1), [$(d.scalar($place)),*])),
        formula(1, Saves::NOTHING, |d| d.grad().zeros_like()),
    ]) };
}

const BOTH: Saves = Saves::input(0).union(Saves::input(1));

pub static SIGMOID_BACKWARD: Row = Row {
    name: "sigmoid_backward",
    signature: "(Tensor grad_output, Tensor output) -> Tensor",
    doc: "The gradient of `sigmoid` from its result.

    >>> torch.sigmoid_backward(torch.tensor([1.]), torch.tensor([0.5]))
    tensor([0.2500])",
    dtypes: DTypes::INEXACT,
    run: common(tiles! {
        for<S> [f32, f64] (|grad, y| grad * ((1.0 - y) * y));
        for<S> [c64, c128] (|grad, y| grad * ((T::new(1.0, 0.0) - y) * y).conj())
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad() * ((1.0 - d.input(1)) * d.input(1))),
        formula(1, BOTH, |d| d.grad().conj() * d.input(0) * (1.0 - d.input(1) * 2.0).conj()),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)"],
    reference: "grad_output * np.conj((1 - output) * output)",
    ..GATE
};

pub static TANH_BACKWARD: Row = Row {
    name: "tanh_backward",
    signature: "(Tensor grad_output, Tensor output) -> Tensor",
    doc: "The gradient of `tanh` from its result.

    >>> torch.tanh_backward(torch.tensor([1.]), torch.tensor([0.5]))
    tensor([0.7500])",
    dtypes: DTypes::INEXACT,
    run: common(tiles! {
        for<S> [f32, f64] (|grad, y| grad * (1.0 - y * y));
        for<S> [c64, c128] (|grad, y| grad * (T::new(1.0, 0.0) - y * y).conj())
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad() * (1.0 - d.input(1) * d.input(1))),
        formula(1, BOTH, |d| d.grad().conj() * d.input(0) * (d.input(1) * -2.0).conj()),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)"],
    reference: "grad_output * np.conj(1 - output * output)",
    ..GATE
};

pub static THRESHOLD_BACKWARD: Row = Row {
    name: "threshold_backward",
    signature: "(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
    doc: "The gradient where `self` is above `threshold`, else zero.

    >>> torch.threshold_backward(torch.tensor([5., 5.]), torch.tensor([-1., 1.]), 0)
    tensor([0., 5.])",
    run: common(tiles! {
        for<S> [f32, f64] (|grad, x; threshold| if x <= threshold { 0.0 } else { grad });
        for<S> [u8, i8, i16, i32, i64] (|grad, x; threshold| if x <= threshold { 0 } else { grad })
    }),
    dtypes: DTypes::REAL,
    derivative: straight!(THRESHOLD_BACKWARD, 2),
    errors: &[(
        "t(2), t(3), 0",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    )],
    samples: &["t(2, 3), t(2, 3), 0"],
    reference: "np.where(np.greater(self, threshold), grad_output, 0)",
    ..GATE
};

pub static LEAKY_BACKWARD: Row = Row {
    name: "_leaky_relu_backward",
    signature: "(Tensor grad_output, Tensor self, Scalar negative_slope) -> Tensor",
    doc: "The gradient, times `negative_slope` where `self` is negative.",
    run: common(tiles! { for<S> [f32, f64] (|grad, x; slope| if x > 0.0 { grad } else { grad * slope }) }),
    derivative: straight!(LEAKY_BACKWARD, 2),
    samples: &["t(2, 3), t(2, 3), 0.5"],
    reference: "np.where(np.greater(self, 0), grad_output, grad_output * negative_slope)",
    ..GATE
};

pub static WINDOW_BACKWARD: Row = Row {
    name: "_hardtanh_backward",
    signature: "(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
    doc: "The gradient where `self` is strictly between two numbers, else zero.",
    run: common(tiles! {
        for<S> [f32, f64] (|grad, x; low, high| if x <= low || x >= high { 0.0 } else { grad })
    }),
    derivative: straight!(WINDOW_BACKWARD, 2, 3),
    samples: &["t(2, 3), t(2, 3), -1., 1."],
    ..GATE
};

pub static SHRINK_BACKWARD: Row = Row {
    name: "_shrink_backward",
    signature: "(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
    doc: "The gradient, or zero where the magnitude of `self` is at most `lambd`.",
    run: common(tiles! {
        for<S> [f32, f64] (|grad, x; lambd| if x >= -lambd && x <= lambd { 0.0 } else { grad })
    }),
    derivative: straight!(SHRINK_BACKWARD, 2),
    samples: &["t(2, 3), t(2, 3), 0.5"],
    ..GATE
};

pub static SILU_BACKWARD: Row = Row {
    name: "_silu_backward",
    signature: "(Tensor grad_output, Tensor self) -> Tensor",
    doc: "The gradient of `silu`.",
    dtypes: DTypes::INEXACT,
    run: common(tiles! {
        for<S> [f32, f64] (|grad, x| {
            let s = S::sigmoid(x);
            grad * s * (1.0 + x * (1.0 - s))
        });
        for<S> [c64, c128] (|grad, x| {
            use super::numbers::{Analytic, Narrow};
            let s: T = super::analytic::sigmoid(x.wide()).narrow();
            let one = T::new(1.0, 0.0);
            grad * (s * (one + x * (one - s))).conj()
        })
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| {
            let (x, s) = (d.input(1), d.input(1).sigmoid());
            d.grad() * (s.clone() * (x * (1.0 - s) + 1.0))
        }),
        formula(1, BOTH, |d| {
            let (x, s) = (d.input(1), d.input(1).sigmoid());
            let slope = s.clone() * (1.0 - s.clone()) * (x * (1.0 - s * 2.0) + 2.0);
            d.grad().conj() * d.input(0) * slope.conj()
        }),
    ]),
    samples: &["t(2, 3), t(2, 3)"],
    ..GATE
};

/// `1 / sqrt(2 pi)`
const DENSITY: f64 = 0.398_942_280_401_432_7;

pub static GELU_BACKWARD: Row = Row {
    name: "_gelu_backward",
    signature: "(Tensor grad_output, Tensor self) -> Tensor",
    doc: "The gradient of `gelu`.",
    run: common(tiles! {
        for<S> [f32, f64] (|grad, x| grad * (S::ndtr(x) + x * S::exp(-0.5 * x * x) * DENSITY as T))
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad().with(&GELU_BACKWARD, d.input(1))),
        formula(1, BOTH, |d| {
            let square = d.input(1) * d.input(1);
            d.grad() * d.input(0) * (square.clone() * -0.5).exp() * DENSITY * (2.0 - square)
        }),
    ]),
    samples: &["t(2, 3), t(2, 3)"],
    ..GATE
};

/// `sqrt(2 / pi)`
pub(super) const ROOT: f64 = 0.797_884_560_802_865_4;
pub(super) const CUBIC: f64 = 0.044715;

pub static GELU_TANH_BACKWARD: Row = Row {
    name: "_gelu_tanh_backward",
    signature: "(Tensor grad_output, Tensor self) -> Tensor",
    doc: "The gradient of `gelu` by the hyperbolic tangent.",
    run: common(tiles! {
        for<S> [f32, f64] (|grad, x| {
            let square = x * x;
            let inner = ROOT as T * x * (1.0 + CUBIC as T * square);
            let tanh = S::tanh(inner);
            let slope = ROOT as T * (1.0 + 3.0 * CUBIC as T * square);
            grad * (0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope)
        })
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad().with(&GELU_TANH_BACKWARD, d.input(1))),
        formula(1, BOTH, |d| {
            let x = d.input(1);
            let square = x.clone() * x.clone();
            let tanh = ((square.clone() * CUBIC + 1.0) * x.clone() * ROOT).tanh();
            let slope = (square * (3.0 * CUBIC) + 1.0) * ROOT;
            let falls = 1.0 - tanh.clone() * tanh.clone();
            let curve = x.clone() * (6.0 * CUBIC * ROOT);
            let second = slope.clone() * 2.0 + x.clone() * curve - x * slope.clone() * slope * tanh * 2.0;
            d.grad() * d.input(0) * falls * second * 0.5
        }),
    ]),
    samples: &["t(2, 3), t(2, 3)"],
    ..GATE
};

pub static ELU_BACKWARD: Row = Row {
    name: "_elu_backward",
    signature: "(Tensor grad_output, Tensor self, Scalar alpha, Scalar scale, Scalar input_scale) -> Tensor",
    doc: "The gradient of `elu`.",
    run: common(tiles! {
        for<S> [f32, f64] (|grad, x; alpha, scale, input_scale| {
            if x <= 0.0 { grad * (input_scale * alpha * scale) * S::exp(x * input_scale) } else { grad * scale }
        })
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| {
            d.grad().with_numbers(&ELU_BACKWARD, d.input(1), [d.scalar(2), d.scalar(3), d.scalar(4)])
        }),
        formula(1, BOTH, |d| {
            let [alpha, scale, input_scale] = [2, 3, 4].map(|place| d.scalar(place).f64());
            let curve = (d.input(1) * input_scale).exp() * (alpha * scale * input_scale * input_scale);
            d.input(1).at_most(0.0).choose(d.grad() * d.input(0) * curve, 0.0)
        }),
    ]),
    samples: &["t(2, 3), t(2, 3), 1., 1., 1."],
    ..GATE
};
