//! The derivatives of activations, fused: one pass over memory instead of three or four.

use rushlight_core::Scalar;
use rushlight_core::dtype::{c64, c128};
use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    BackwardContext, DTypes, Derivative, Operator, Saves, Sparse, Tags, Variants, formula, operator,
};

use super::common;
use super::numbers::{Analytic, Narrow};
use crate::expr_ext::ExprExt;
use rushlight_dispatch::value::Arg;

/// Shared by these operators: the gradient is the first argument.
const GATE: Operator = Operator { variants: Variants::FUNCTION, dtypes: DTypes::FLOATS, ..Operator::BASE };

/// The gradient through a gate that depends on the first argument and numbers.
pub(super) fn gate<const N: usize>(d: &BackwardContext, op: &'static Operator, numbers: [Scalar; N]) -> Expr {
    d.grad().with_numbers(op, d.input(Arg::FIRST), numbers)
}

/// The derivative of a gate that is linear on both sides: the gradient passes through it once more.
macro_rules! straight {
    ($op:ident $(, $number:ident)*) => { Derivative::Formulas(&[
        formula(GRAD_OUTPUT, Saves::input(INPUT), |d| d.grad().with_numbers(&$op, d.input(INPUT), [$(d.scalar($number)),*])),
        formula(INPUT, Saves::NOTHING, |d| d.grad().zeros_like()),
    ]) };
}

const BOTH: Saves = {
    use ELU_BACKWARD::*;
    Saves::input(GRAD_OUTPUT).union(Saves::input(INPUT))
};

#[operator]
pub static SIGMOID_BACKWARD: Operator = Operator {
    name: "sigmoid_backward",
    signature: "(Tensor grad_output, Tensor output) -> Tensor",
    doc: "The gradient of `sigmoid` from its result.

    >>> torch.sigmoid_backward(torch.tensor([1.]), torch.tensor([0.5]))
    tensor([0.2500])",
    dtypes: DTypes::INEXACT,
    implementation: common(loops! {
        for<S> [f32, f64] (|grad, y| grad * ((1.0 - y) * y));
        for<S> [c64, c128] (|grad, y| grad * ((T::new(1.0, 0.0) - y) * y).conj())
    }),
    derivative: Derivative::Formulas(&[
        formula(GRAD_OUTPUT, Saves::input(OUTPUT), |d| d.grad() * ((1.0 - d.input(OUTPUT)) * d.input(OUTPUT))),
        formula(OUTPUT, BOTH, |d| d.grad().conj() * d.input(GRAD_OUTPUT) * (1.0 - d.input(OUTPUT) * 2.0).conj()),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)"],
    reference: "grad_output * np.conj((1 - output) * output)",
    ..GATE
};

#[operator]
pub static TANH_BACKWARD: Operator = Operator {
    name: "tanh_backward",
    signature: "(Tensor grad_output, Tensor output) -> Tensor",
    doc: "The gradient of `tanh` from its result.

    >>> torch.tanh_backward(torch.tensor([1.]), torch.tensor([0.5]))
    tensor([0.7500])",
    dtypes: DTypes::INEXACT,
    implementation: common(loops! {
        for<S> [f32, f64] (|grad, y| grad * (1.0 - y * y));
        for<S> [c64, c128] (|grad, y| grad * (T::new(1.0, 0.0) - y * y).conj())
    }),
    derivative: Derivative::Formulas(&[
        formula(GRAD_OUTPUT, Saves::input(OUTPUT), |d| d.grad() * (1.0 - d.input(OUTPUT) * d.input(OUTPUT))),
        formula(OUTPUT, BOTH, |d| d.grad().conj() * d.input(GRAD_OUTPUT) * (d.input(OUTPUT) * -2.0).conj()),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)"],
    reference: "grad_output * np.conj(1 - output * output)",
    ..GATE
};

#[operator]
pub static THRESHOLD_BACKWARD: Operator = Operator {
    name: "threshold_backward",
    signature: "(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
    doc: "The gradient where `self` is above `threshold`, else zero.

    >>> torch.threshold_backward(torch.tensor([5., 5.]), torch.tensor([-1., 1.]), 0)
    tensor([0., 5.])",
    implementation: common(loops! {
        for<S> [f32, f64] (|grad, x; threshold| if x <= threshold { 0.0 } else { grad });
        for<S> [u8, i8, i16, i32, i64] (|grad, x; threshold| if x <= threshold { 0 } else { grad })
    }),
    dtypes: DTypes::REAL,
    sparse: Sparse::CompositeImplicit,
    derivative: straight!(THRESHOLD_BACKWARD, THRESHOLD),
    errors: &[(
        "t(2), t(3), 0",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    )],
    samples: &["t(2, 3), t(2, 3), 0"],
    reference: "np.where(np.greater(self, threshold), grad_output, 0)",
    ..GATE
};

#[operator]
pub static LEAKY_BACKWARD: Operator = Operator {
    name: "_leaky_relu_backward",
    signature: "(Tensor grad_output, Tensor self, Scalar negative_slope) -> Tensor",
    doc: "The gradient, times `negative_slope` where `self` is negative.",
    implementation: common(loops! { for<S> [f32, f64] (|grad, x; slope| if x > 0.0 { grad } else { grad * slope }) }),
    derivative: straight!(LEAKY_BACKWARD, NEGATIVE_SLOPE),
    samples: &["t(2, 3), t(2, 3), 0.5"],
    reference: "np.where(np.greater(self, 0), grad_output, grad_output * negative_slope)",
    ..GATE
};

#[operator]
pub static WINDOW_BACKWARD: Operator = Operator {
    name: "_hardtanh_backward",
    signature: "(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
    doc: "The gradient where `self` is strictly between two numbers, else zero.",
    implementation: common(loops! {
        for<S> [f32, f64] (|grad, x; low, high| if x <= low || x >= high { 0.0 } else { grad })
    }),
    derivative: straight!(WINDOW_BACKWARD, MIN_VAL, MAX_VAL),
    samples: &["t(2, 3), t(2, 3), -1., 1."],
    ..GATE
};

#[operator]
pub static SHRINK_BACKWARD: Operator = Operator {
    name: "_shrink_backward",
    tags: Tags::ROUNDED_PARAMETERS,
    signature: "(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
    doc: "The gradient, or zero where the magnitude of `self` is at most `lambd`.",
    implementation: common(loops! {
        for<S> [f32, f64] (|grad, x; lambd| if x >= -lambd && x <= lambd { 0.0 } else { grad })
    }),
    derivative: straight!(SHRINK_BACKWARD, LAMBD),
    samples: &["t(2, 3), t(2, 3), 0.5"],
    ..GATE
};

#[operator]
pub static SILU_BACKWARD: Operator = Operator {
    name: "_silu_backward",
    signature: "(Tensor grad_output, Tensor self) -> Tensor",
    doc: "The gradient of `silu`.",
    dtypes: DTypes::INEXACT,
    implementation: common(loops! {
        for<S> [f32, f64] (|grad, x| {
            let s = S::sigmoid(x);
            grad * s * (1.0 + x * (1.0 - s))
        });
        for<S> [c64, c128] (|grad, x| {
            let s: T = super::analytic::sigmoid(x.wide()).narrow();
            let one = T::new(1.0, 0.0);
            grad * (s * (one + x * (one - s))).conj()
        })
    }),
    derivative: Derivative::Formulas(&[
        formula(GRAD_OUTPUT, Saves::input(INPUT), |d| {
            let (x, s) = (d.input(INPUT), d.input(INPUT).sigmoid());
            d.grad() * (s.clone() * (x * (1.0 - s) + 1.0))
        }),
        formula(INPUT, BOTH, |d| {
            let (x, s) = (d.input(INPUT), d.input(INPUT).sigmoid());
            let slope = s.clone() * (1.0 - s.clone()) * (x * (1.0 - s * 2.0) + 2.0);
            d.grad().conj() * d.input(GRAD_OUTPUT) * slope.conj()
        }),
    ]),
    samples: &["t(2, 3), t(2, 3)"],
    ..GATE
};

/// `1 / sqrt(2 pi)`
const DENSITY: f64 = 0.398_942_280_401_432_7;

#[operator]
pub static GELU_BACKWARD: Operator = Operator {
    name: "_gelu_backward",
    signature: "(Tensor grad_output, Tensor self) -> Tensor",
    doc: "The gradient of `gelu`.",
    implementation: common(loops! {
        for<S> [f32, f64] (|grad, x| grad * (S::ndtr(x) + x * S::exp(-0.5 * x * x) * DENSITY as T))
    }),
    derivative: Derivative::Formulas(&[
        formula(GRAD_OUTPUT, Saves::input(INPUT), |d| d.grad().with(&GELU_BACKWARD, d.input(INPUT))),
        formula(INPUT, BOTH, |d| {
            let square = d.input(INPUT) * d.input(INPUT);
            d.grad() * d.input(GRAD_OUTPUT) * (square.clone() * -0.5).exp() * DENSITY * (2.0 - square)
        }),
    ]),
    samples: &["t(2, 3), t(2, 3)"],
    ..GATE
};

/// `sqrt(2 / pi)`
pub(super) const ROOT: f64 = 0.797_884_560_802_865_4;
pub(super) const CUBIC: f64 = 0.044715;

#[operator]
pub static GELU_TANH_BACKWARD: Operator = Operator {
    name: "_gelu_tanh_backward",
    signature: "(Tensor grad_output, Tensor self) -> Tensor",
    doc: "The gradient of `gelu` by the hyperbolic tangent.",
    implementation: common(loops! {
        for<S> [f32, f64] (|grad, x| {
            let square = x * x;
            let inner = ROOT as T * x * (1.0 + CUBIC as T * square);
            let tanh = S::tanh(inner);
            let slope = ROOT as T * (1.0 + 3.0 * CUBIC as T * square);
            grad * (0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope)
        })
    }),
    derivative: Derivative::Formulas(&[
        formula(GRAD_OUTPUT, Saves::input(INPUT), |d| d.grad().with(&GELU_TANH_BACKWARD, d.input(INPUT))),
        formula(INPUT, BOTH, |d| {
            let x = d.input(INPUT);
            let square = x.clone() * x.clone();
            let tanh = ((square.clone() * CUBIC + 1.0) * x.clone() * ROOT).tanh();
            let slope = (square * (3.0 * CUBIC) + 1.0) * ROOT;
            let falls = 1.0 - tanh.clone() * tanh.clone();
            let curve = x.clone() * (6.0 * CUBIC * ROOT);
            let second = slope.clone() * 2.0 + x.clone() * curve - x * slope.clone() * slope * tanh * 2.0;
            d.grad() * d.input(GRAD_OUTPUT) * falls * second * 0.5
        }),
    ]),
    samples: &["t(2, 3), t(2, 3)"],
    ..GATE
};

#[operator]
pub static ELU_BACKWARD: Operator = Operator {
    name: "_elu_backward",
    signature: "(Tensor grad_output, Tensor self, Scalar alpha, Scalar scale, Scalar input_scale) -> Tensor",
    doc: "The gradient of `elu`.",
    implementation: common(loops! {
        for<S> [f32, f64] (|grad, x; alpha, scale, input_scale| {
            if x <= 0.0 { grad * (input_scale * alpha * scale) * S::exp(x * input_scale) } else { grad * scale }
        })
    }),
    derivative: Derivative::Formulas(&[
        formula(GRAD_OUTPUT, Saves::input(INPUT), |d| {
            d.grad().with_numbers(
                &ELU_BACKWARD,
                d.input(INPUT),
                [d.scalar(ALPHA), d.scalar(SCALE), d.scalar(INPUT_SCALE)],
            )
        }),
        formula(INPUT, BOTH, |d| {
            let [alpha, scale, input_scale] = [ALPHA, SCALE, INPUT_SCALE].map(|arg| d.scalar(arg).f64());
            let curve = (d.input(INPUT) * input_scale).exp() * (alpha * scale * input_scale * input_scale);
            d.input(INPUT).at_most(0.0).choose(d.grad() * d.input(GRAD_OUTPUT) * curve, 0.0)
        }),
    ]),
    samples: &["t(2, 3), t(2, 3), 1., 1., 1."],
    ..GATE
};
