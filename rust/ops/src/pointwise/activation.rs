//! Activations of neural networks.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Class, DType, Error, Scalar};
use rushlight_cpu::tiles;

use super::activation_backward::{self, CUBIC, ROOT};
use super::numbers::{Analytic, Narrow};
use super::{UNARY, common};
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::row::{Accepts, DTypes, Out, Row, Run, Traits, Variants};
use crate::value::{Args, Output, Value};

/// What activations have in common: they live in `nn.functional`, and many work in place.
const ACTIVATION: Row = Row {
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, truth inplace=False) -> Tensor",
    dtypes: DTypes::FLOATS,
    samples: &["t(2, 3)", "t(0)", "t()", "t(4, 3).t()"],
    ..Row::BASE
};

pub static RELU: Row = Row {
    name: "relu",
    aliases: &["nn.functional.relu"],
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, truth inplace=False) -> Tensor",
    doc: "Each element, or zero where it is negative.

    out = max(self, 0)

    >>> torch.relu(torch.tensor([-1., 2.]))
    tensor([0., 2.])",
    dtypes: DTypes::REAL,
    refuses: "clamp_min_scalar_cpu",
    run: common(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x| if x < 0 as T { 0 } else { x });
        for<S> [f32, f64] (|x| if x > 0.0 || x.is_nan() { x } else { 0.0 })
    }),
    check: Some(|args| match args.tensor(0)?.dtype() {
        DType::Bool => Err(Error::runtime("Boolean inputs not supported for relu")),
        dtype if dtype.is_complex() => Err(super::clamp::complex()),
        _ => Ok(()),
    }),
    cuda: Some("self > 0 ? self : 0"),
    derivative: Derivative::Formulas(&[formula(0, Saves::RESULT, |d| {
        d.grad().with_numbers(&activation_backward::THRESHOLD_BACKWARD, d.result(), [Scalar::ZERO])
    })]),
    reference: "np.maximum(self, 0)",
    ..UNARY
};

pub static LEAKY_RELU: Row = Row {
    name: "leaky_relu",
    node: "in_place=LeakyReluBackward1",
    signature: "(Tensor self, float negative_slope=0.01, truth inplace=False) -> Tensor",
    doc: "Each element, times `negative_slope` where it is negative.

    >>> torch.nn.functional.leaky_relu(torch.tensor([-1., 2.]), 0.1)
    tensor([-0.1000,  2.0000])",
    run: common(tiles! { for<S> [f32, f64] (|x; slope| if x > 0.0 { x } else { x * slope }) }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        activation_backward::gate(d, &activation_backward::LEAKY_BACKWARD, [d.scalar(1)])
    })]),
    samples: &["t(2, 3)", "t(2, 3), 0.2", "t()"],
    reference: "np.where(np.greater(self, 0), self, self * negative_slope)",
    ..ACTIVATION
};

pub static ELU: Row = Row {
    name: "elu",
    signature: "(Tensor self, float alpha=1.0, truth inplace=False) -> Tensor",
    doc: "Each element, `alpha * (exp(x) - 1)` where it is negative.

    >>> torch.nn.functional.elu(torch.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])",
    run: Run::Defer(|args| scaled_elu(args, |alpha| [alpha, 1.0, 1.0])),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t(2, 3), 0.2", "t()"],
    reference: "np.where(np.greater(self, 0), self, alpha * np.expm1(self))",
    ..ACTIVATION
};

pub static SELU: Row = Row {
    name: "selu",
    namespace: "",
    aliases: &["nn.functional.selu"],
    variants: Variants::FUNCTION,
    doc: "`elu` with the scales that keep mean and variance from layer to layer.

    >>> torch.selu(torch.tensor([-1., 2.]))
    tensor([-1.1113,  2.1014])",
    run: Run::Defer(|args| scaled_elu(args, |_| [1.673_263_242_354_377_2, 1.050_700_987_355_480_5, 1.0])),
    derivative: Derivative::Composed,
    reference: "1.0507009873554805 * np.where(self > 0, self, 1.6732632423543772 * np.expm1(self))",
    ..ACTIVATION
};

pub static CELU: Row = Row {
    name: "celu",
    namespace: "",
    aliases: &["nn.functional.celu"],
    signature: "(Tensor self, float alpha=1.0, truth inplace=False) -> Tensor",
    doc: "Each element, `alpha * (exp(x / alpha) - 1)` where it is negative.

    >>> torch.celu(torch.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])",
    run: Run::Defer(|args| {
        if args.float(1)? == 0.0 {
            return Err(Error::runtime("ZeroDivisionError: alpha cannot be 0 for CELU"));
        }
        Ok(Args { row: &SCALED_CELU, ..scaled_elu(args, |alpha| [alpha, 1.0, 1.0 / alpha])? })
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t(2, 3), 0.2", "t()"],
    reference: "np.where(np.greater(self, 0), self, alpha * np.expm1(self / alpha))",
    ..ACTIVATION
};

fn scaled_elu<'a>(mut args: Args<'a>, numbers: fn(f64) -> [f64; 3]) -> rushlight_core::Result<Args<'a>> {
    let alpha = if args.values.len() > 2 { args.float(1)? } else { 1.0 };
    args.values.truncate(1);
    args.values.extend(numbers(alpha).map(Value::Float));
    args.row = &SCALED_ELU;
    Ok(args)
}

const SCALED: Row = Row {
    namespace: "",
    signature: "(Tensor self, float alpha, float scale, float input_scale) -> Tensor",
    doc: "The three kinds of `elu`.",
    run: common(tiles! {
        for<S> [f32, f64] (|x; alpha, scale, input_scale| {
            if x <= 0.0 { S::expm1(x * input_scale) * (alpha * scale) } else { x * scale }
        })
    }),
    refuses: "elu_cpu",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        activation_backward::gate(d, &activation_backward::ELU_BACKWARD, [d.scalar(1), d.scalar(2), d.scalar(3)])
    })]),
    samples: &["t(2, 3), 1., 1., 1."],
    ..ACTIVATION
};

pub static SCALED_ELU: Row = Row { name: "_elu", node: "EluBackward0 in_place=EluBackward1", ..SCALED };

/// The same under `celu`'s name in graphs.
pub static SCALED_CELU: Row = Row { name: "_celu", node: "CeluBackward0 in_place=CeluBackward1", ..SCALED };

pub static GELU: Row = Row {
    name: "gelu",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, str approximate='none') -> Tensor",
    doc: "Each element times the standard normal distribution function of it; `approximate='tanh'` is an old estimate.

    >>> torch.nn.functional.gelu(torch.tensor([-1., 2.]))
    tensor([-0.1587,  1.9545])",
    run: Run::Defer(|mut args| {
        args.row = match args.str(1)? {
            "none" => &GELU_ERF,
            "tanh" => &GELU_TANH,
            _ => return Err(Error::runtime("approximate argument must be either none or tanh.")),
        };
        args.values.truncate(1);
        Ok(args)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t(2, 3), approximate='tanh'", "t()"],
    errors: &[("t(2), approximate='x'", "RuntimeError", "approximate argument must be either none or tanh.")],
    reference: "0.5 * self * (1 + (np.vectorize(math.erf, otypes=[float])(self / 2 ** 0.5) if approximate == 'none' else np.tanh((2 / np.pi) ** 0.5 * (self + 0.044715 * self ** 3))))",
    ..ACTIVATION
};

pub static GELU_ERF: Row = Row {
    name: "_gelu",
    namespace: "",
    signature: "(Tensor self) -> Tensor",
    doc: "`gelu` by the error function.",
    out: Out::FOUND,
    run: common(tiles! {
        for<S> [f32, f64] (|x| x * S::ndtr(x))
    }),
    refuses: "GeluKernelImpl",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.grad().with(&activation_backward::GELU_BACKWARD, d.input(0))
    })]),
    ..ACTIVATION
};

pub static GELU_TANH: Row = Row {
    name: "_gelu_tanh",
    namespace: "",
    signature: "(Tensor self) -> Tensor",
    doc: "`gelu` by the hyperbolic tangent.",
    out: Out::FOUND,
    run: common(tiles! {
        for<S> [f32, f64] (|x| {
            let inner = ROOT as T * x * (1.0 + CUBIC as T * x * x);
            0.5 * x * (1.0 + S::tanh(inner))
        })
    }),
    refuses: "GeluKernelImpl",
    node: "GeluBackward0",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.grad().with(&activation_backward::GELU_TANH_BACKWARD, d.input(0))
    })]),
    ..ACTIVATION
};

pub static SILU: Row = Row {
    name: "silu",
    doc: "Each element times its logistic function.

    out = self * sigmoid(self)

    >>> torch.nn.functional.silu(torch.tensor([-1., 2.]))
    tensor([-0.2689,  1.7616])",
    dtypes: DTypes::INEXACT,
    run: common(tiles! {
        for<S> [f32, f64] (|x| x / (1.0 + S::exp(-x)));
        for<S> [c64, c128] (|x| (x.wide() * super::analytic::sigmoid(x.wide())).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.grad().with(&activation_backward::SILU_BACKWARD, d.input(0))
    })]),
    reference: "self / (1 + np.exp(-self))",
    ..ACTIVATION
};

pub static MISH: Row = Row {
    name: "mish",
    doc: "Each element times the hyperbolic tangent of its softplus.

    >>> torch.nn.functional.mish(torch.tensor([-1., 2.]))
    tensor([-0.3034,  1.9440])",
    run: common(tiles! { for<S> [f32, f64] (|x| x * S::tanh(S::log1p(S::exp(x)))) }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let (x, s) = (d.input(0), d.input(0).sigmoid());
        let tanh = d.input(0).call(&SOFTPLUS, []).tanh();
        d.grad() * (tanh.clone() + x * s * (1.0 - tanh.clone() * tanh))
    })]),
    reference: "self * np.tanh(np.log1p(np.exp(self)))",
    ..ACTIVATION
};

pub static SOFTPLUS: Row = Row {
    name: "softplus",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, float beta=1, float threshold=20) -> Tensor",
    doc: "A smooth `relu`; linear where `beta * self` is above `threshold`.

    out = log(1 + exp(beta * self)) / beta

    >>> torch.nn.functional.softplus(torch.tensor([-1., 2.]))
    tensor([0.3133, 2.1269])",
    out: Out::FOUND,
    run: common(tiles! {
        for<S> [f32, f64] (|x; beta, threshold| {
            if x * beta > threshold { x } else { S::log1p(S::exp(x * beta)) / beta }
        })
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let (beta, threshold) = (d.scalar(1).f64(), d.scalar(2).f64());
        let z = d.input(0) * beta;
        z.clone().above(threshold).choose(d.grad(), d.grad() * z.sigmoid())
    })]),
    samples: &["t(2, 3)", "t(2, 3), 2., 1.", "t()"],
    reference: "np.where(self * beta > threshold, self, np.log1p(np.exp(self * beta)) / beta)",
    ..ACTIVATION
};

pub static SOFTSIGN: Row = Row {
    name: "softsign",
    signature: "(Tensor self) -> Tensor",
    doc: "`x / (1 + abs(x))`

    >>> torch.nn.functional.softsign(torch.tensor([-1., 3.]))
    tensor([-0.5000,  0.7500])",
    dtypes: DTypes::NUMBERS,
    run: Run::Compose(|args| {
        let x = Expr::from(args.tensor(0)?);
        (x.clone() / (x.abs() + 1i64)).done().map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    reference: "self / (1 + np.abs(self))",
    ..ACTIVATION
};

pub static TANHSHRINK: Row = Row {
    name: "tanhshrink",
    signature: "(Tensor self) -> Tensor",
    doc: "`x - tanh(x)`

    >>> torch.nn.functional.tanhshrink(torch.tensor([-1., 3.]))
    tensor([-0.2384,  2.0049])",
    dtypes: DTypes::NUMBERS,
    run: Run::Compose(|args| {
        let x = Expr::from(args.tensor(0)?);
        (x.clone() - x.tanh()).done().map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    reference: "self - np.tanh(self * 1.0)",
    ..ACTIVATION
};

pub static HARDTANH: Row = Row {
    name: "hardtanh",
    signature: "(Tensor self, Scalar min_val=-1.0, Scalar max_val=1.0, truth inplace=False) -> Tensor",
    doc: "Each element limited to `min_val .. max_val`.

    >>> torch.nn.functional.hardtanh(torch.tensor([-3., 0.5]))
    tensor([-1.0000,  0.5000])",
    dtypes: DTypes::REAL,
    refuses: "clamp_scalar_cpu",
    run: common(tiles! {
        for<S> [i8, i16, i32, i64, u8] (|x; low, high| {
            let x = if x < low { low } else { x };
            if x > high { high } else { x }
        });
        for<S> [f32, f64] (|x; low, high| {
            let y = if x >= low || x.is_nan() { x } else { low };
            if y <= high || y.is_nan() { y } else { high }
        })
    }),
    check: Some(|args| {
        if args.tensor(0)?.dtype() == DType::Bool {
            return Err(Error::runtime("Bool inputs not supported for hardtanh"));
        }
        if args.tensor(0)?.dtype() == DType::U8 && (args.float(1)? < 0.0 || args.float(2)? < 0.0) {
            return Err(Error::runtime("cannot do hardtanh on an unsigned type with negative limits")
                .hint("Give limits from 0 on, or convert the input: x.int()."));
        }
        if args.float(1)? > args.float(2)? {
            return Err(Error::new(Class::Value, "min_val cannot be greater than max_val"));
        }
        super::no_complex(args, super::clamp::complex)
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        activation_backward::gate(d, &activation_backward::WINDOW_BACKWARD, [d.scalar(1), d.scalar(2)])
    })]),
    samples: &["t(2, 3), 0., 0.5", "t(), 0.25, 2."],
    errors: &[(
        "torch.ones(2, dtype=torch.uint8)",
        "RuntimeError",
        "cannot do hardtanh on an unsigned type with negative limits",
    )],
    reference: "np.clip(self, min_val, max_val)",
    ..ACTIVATION
};

pub static RELU6: Row = Row {
    name: "relu6",
    doc: "Each element limited to `0 .. 6`.

    >>> torch.nn.functional.relu6(torch.tensor([-3., 8.]))
    tensor([0., 6.])",
    dtypes: DTypes::REAL,
    run: Run::Defer(|mut args| {
        let inplace = args.bool(1)?;
        args.values.truncate(1);
        args.values.extend([Value::Float(0.0), Value::Float(6.0), Value::Bool(inplace)]);
        args.row = &HARDTANH;
        Ok(args)
    }),
    derivative: Derivative::Composed,
    reference: "np.clip(self, 0, 6)",
    ..ACTIVATION
};

pub static HARDSIGMOID: Row = Row {
    name: "hardsigmoid",
    doc: "A sigmoid of straight lines: `clamp(x / 6 + 1 / 2, 0, 1)`.

    >>> torch.nn.functional.hardsigmoid(torch.tensor([-4., 0., 1.5]))
    tensor([0.0000, 0.5000, 0.7500])",
    run: common(tiles! {
        for<S> [f32, f64] (|x| {
            let y = x + 3.0;
            let y = if y > 0.0 || y.is_nan() { y } else { 0.0 };
            (if y < 6.0 || y.is_nan() { y } else { 6.0 }) / 6.0
        })
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let inside = d.input(0).above(-3.0).and(d.input(0).below(3.0));
        inside.choose(d.grad() * (1.0 / 6.0), 0.0)
    })]),
    reference: "np.clip(self / 6 + 0.5, 0, 1)",
    ..ACTIVATION
};

pub static HARDSWISH: Row = Row {
    name: "hardswish",
    doc: "Each element times its hardsigmoid.

    >>> torch.nn.functional.hardswish(torch.tensor([-4., 1., 4.]))
    tensor([-0.0000, 0.6667, 4.0000])",
    run: common(tiles! {
        for<S> [f32, f64] (|x| {
            let y = x + 3.0;
            let y = if y > 0.0 || y.is_nan() { y } else { 0.0 };
            x * (if y < 6.0 || y.is_nan() { y } else { 6.0 }) / 6.0
        })
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let x = d.input(0);
        let middle = d.grad() * (x.clone() / 3.0 + 0.5);
        x.clone().at_most(-3.0).choose(0.0, x.below(3.0).choose(middle, d.grad()))
    })]),
    reference: "self * np.clip(self + 3, 0, 6) / 6",
    ..ACTIVATION
};

pub static HARDSHRINK: Row = Row {
    name: "hardshrink",
    namespace: "",
    aliases: &["nn.functional.hardshrink"],
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Scalar lambd=0.5) -> Tensor",
    doc: "Each element, or zero where its magnitude is at most `lambd`.

    >>> torch.hardshrink(torch.tensor([-1., 0.25]))
    tensor([-1.,  0.])",
    out: Out::FOUND,
    run: common(tiles! {
        for<S> [f32, f64] (|x; lambd| if x >= -lambd && x <= lambd { 0.0 } else { x })
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        activation_backward::gate(d, &activation_backward::SHRINK_BACKWARD, [d.scalar(1)])
    })]),
    samples: &["t(2, 3)", "t(2, 3), 0.2", "t()"],
    reference: "np.where(np.abs(self) <= lambd, 0, self)",
    ..ACTIVATION
};

pub static SOFTSHRINK: Row = Row {
    name: "softshrink",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, float lambd=0.5) -> Tensor",
    doc: "Each element brought closer to zero by `lambd`.

    >>> torch.nn.functional.softshrink(torch.tensor([-1., 0.25, 2.]))
    tensor([-0.5000,  0.0000,  1.5000])",
    out: Out::FOUND,
    refuses: "softshrink_check",
    run: common(tiles! {
        for<S> [f32, f64] (|x; lambd| if x > lambd { x - lambd } else if x < -lambd { x + lambd } else { x * 0.0 })
    }),
    check: Some(|args| match args.float(1)? {
        lambd if lambd < 0.0 => {
            Err(Error::runtime(format!("lambda must be greater or equal to 0, but found to be {lambd}.")))
        }
        _ => Ok(()),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        activation_backward::gate(d, &activation_backward::SHRINK_BACKWARD, [d.scalar(1)])
    })]),
    samples: &["t(2, 3)", "t(2, 3), 0.2", "t()"],
    reference: "np.where(self > lambd, self - lambd, np.where(self < -lambd, self + lambd, 0))",
    ..ACTIVATION
};

pub static THRESHOLD: Row = Row {
    name: "threshold",
    namespace: "",
    aliases: &["nn.functional.threshold"],
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Scalar threshold, Scalar value, truth inplace=False) -> Tensor",
    doc: "Each element, or `value` where it is at most `threshold`.

    >>> torch.threshold(torch.tensor([-1., 2.]), 0, 9)
    tensor([9., 2.])",
    dtypes: DTypes::REAL,
    run: common(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x; threshold, value| if x <= threshold { value } else { x });
        for<S> [f32, f64] (|x; threshold, value| if x <= threshold { value } else { x })
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        activation_backward::gate(d, &activation_backward::THRESHOLD_BACKWARD, [d.scalar(1)])
    })]),
    samples: &["t(2, 3), 0, 1", "t(2, 3), 0.5, 20", "t(), 0, 0"],
    reference: "np.where(np.greater(self, threshold), self, value)",
    ..ACTIVATION
};

pub static LOGSIGMOID: Row = Row {
    name: "logsigmoid",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self) -> Tensor",
    doc: "The logarithm of the logistic function, without overflow.

    >>> torch.nn.functional.logsigmoid(torch.tensor([-1., 2.]))
    tensor([-1.3133, -0.1269])",
    out: Out::new(Accepts::Same, &["expected scalar type {Result} but found {Out}"]).silently(),
    run: common(tiles! {
        for<S> [f32, f64] (|x| (if x < 0.0 { x } else { 0.0 }) - S::log1p(S::exp(-x.abs())))
    }),
    traits: Traits::ROW_MAJOR,
    refuses: "log_sigmoid_cpu",
    node: "LogSigmoidBackward0",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| d.grad() * (-d.input(0)).sigmoid())]),
    reference: "-np.log1p(np.exp(-self))",
    ..ACTIVATION
};

pub static GLU: Row = Row {
    name: "glu",
    node: "GluBackward0",
    signature: "(Tensor self, int dim=-1) -> Tensor",
    doc: "The first half along `dim` times the logistic function of the second.

    >>> torch.nn.functional.glu(torch.tensor([2., 0.]))
    tensor([1.])",
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        if own.rank() == 0 {
            return Err(Error::runtime("glu does not support scalars because halving size must be even"));
        }
        let dim = rushlight_core::layout::wrap_dim(args.int(1)?, own.rank())?;
        let size = own.sizes()[dim];
        if size % 2 != 0 {
            return Err(Error::runtime(format!("Halving dimension must be even, but dimension {dim} is size {size}")));
        }
        if !own.dtype().is_floating() {
            return Err(Error::unsupported("glu_cpu", own.dtype()));
        }
        let half = |start: isize| crate::view::strided::as_strided(own, &own.layout().slice(dim, start, size / 2, 1));
        (Expr::new(half(0)) * Expr::new(half(size / 2)).sigmoid()).done().map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    errors: &[
        ("t(3)", "RuntimeError", "Halving dimension must be even, but dimension 0 is size 3"),
        ("t()", "RuntimeError", "glu does not support scalars because halving size must be even"),
    ],
    samples: &["t(2, 4)", "t(2, 4), 0", "t(2, 3, 4).transpose(1, 2), 1"],
    reference: "np.split(self, 2, dim)[0] / (1 + np.exp(-np.split(self, 2, dim)[1]))",
    ..ACTIVATION
};
