//! Activations of neural networks.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Class, DType, Error, Scalar};
use rushlight_cpu::loops;
use rushlight_dispatch::create;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, DTypes, Derivative, GradientFormat, Implementation, Operator, Out, Saves, Sparse, Tags,
    Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Output, Value};

use super::activation_backward::{self, CUBIC, ROOT};
use super::numbers::{Analytic, Narrow};
use super::{UNARY, common, keeping_strides};
use crate::create::c_text;
use crate::expr_ext::ExprExt;

/// Shared by activations: they are in `nn.functional`, and many have in-place forms.
#[operator]
const ACTIVATION: Operator = Operator {
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, truth inplace=False) -> Tensor",
    dtypes: DTypes::FLOATS,
    samples: &["t(2, 3)", "t(0)", "t()", "t(4, 3).t()"],
    ..Operator::BASE
};

#[operator]
pub static RELU: Operator = Operator {
    name: "relu",
    aliases: &["nn.functional.relu"],
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, truth inplace=False) -> Tensor",
    doc: "Each element, or zero where it is negative.

    out = max(self, 0)

    >>> torch.relu(torch.tensor([-1., 2.]))
    tensor([0., 2.])",
    dtypes: DTypes::REAL,
    kernel_name: "clamp_min_scalar_cpu",
    sparse: Sparse::ZeroPreserving,
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x| if x < 0 as T { 0 } else { x });
        for<S> [f32, f64] (|x| if x > 0.0 || x.is_nan() { x } else { 0.0 })
    }),
    check: Some(|args| match args.tensor(INPUT)?.dtype() {
        DType::Bool => Err(Error::runtime("Boolean inputs not supported for relu")),
        dtype if dtype.is_complex() => Err(super::clamp::complex()),
        _ => Ok(()),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| {
        d.grad().with_numbers(&activation_backward::THRESHOLD_BACKWARD, d.result(), [Scalar::ZERO])
    })]),
    reference: "np.maximum(self, 0)",
    ..UNARY
};

#[operator]
pub static LEAKY_RELU: Operator = Operator {
    name: "leaky_relu",
    node: "in_place=LeakyReluBackward1",
    signature: "(Tensor self, Scalar negative_slope=0.01, truth inplace=False) -> Tensor",
    doc: "Each element, times `negative_slope` where it is negative.

    >>> torch.nn.functional.leaky_relu(torch.tensor([-1., 2.]), 0.1)
    tensor([-0.1000,  2.0000])",
    implementation: common(loops! { for<S> [f32, f64] (|x; slope| if x > 0.0 { x } else { x * slope }) }),
    check: Some(numbers_fit),
    errors: &[
        ("t(2), 1j", "RuntimeError", "value cannot be converted to type float without overflow"),
        ("t(2), 1e300", "RuntimeError", "value cannot be converted to type float without overflow"),
        ("t(2), 'a'", "TypeError", "leaky_relu(): argument 'negative_slope' (position 2) must be Number, not str"),
    ],
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        activation_backward::gate(d, &activation_backward::LEAKY_BACKWARD, [d.scalar(NEGATIVE_SLOPE)])
    })]),
    samples: &["t(2, 3)", "t(2, 3), 0.2", "t()"],
    reference: "np.where(np.greater(self, 0), self, self * negative_slope)",
    ..ACTIVATION
};

#[operator]
pub static ELU: Operator = Operator {
    name: "elu",
    signature: "(Tensor self, Scalar alpha=1.0, truth inplace=False) -> Tensor",
    doc: "Each element, `alpha * (exp(x) - 1)` where it is negative.

    >>> torch.nn.functional.elu(torch.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])",
    implementation: Implementation::Delegate(|args| scaled_elu(args, |alpha| [alpha, 1.0, 1.0])),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t(2, 3), 0.2", "t()"],
    reference: "np.where(np.greater(self, 0), self, alpha * np.expm1(self))",
    ..ACTIVATION
};

#[operator]
pub static SELU: Operator = Operator {
    name: "selu",
    namespace: "",
    aliases: &["nn.functional.selu"],
    variants: Variants::FUNCTION,
    doc: "`elu` with the scales that preserve mean and variance from layer to layer.

    >>> torch.selu(torch.tensor([-1., 2.]))
    tensor([-1.1113,  2.1014])",
    implementation: Implementation::Delegate(|args| {
        scaled_elu(args, |_| [1.673_263_242_354_377_2, 1.050_700_987_355_480_5, 1.0])
    }),
    derivative: Derivative::CompositeImplicit,
    reference: "1.0507009873554805 * np.where(self > 0, self, 1.6732632423543772 * np.expm1(self))",
    ..ACTIVATION
};

#[operator]
pub static CELU: Operator = Operator {
    name: "celu",
    namespace: "",
    aliases: &["nn.functional.celu"],
    signature: "(Tensor self, Scalar alpha=1.0, truth inplace=False) -> Tensor",
    doc: "Each element, `alpha * (exp(x / alpha) - 1)` where it is negative.

    >>> torch.celu(torch.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])",
    implementation: Implementation::Delegate(|args| {
        let alpha = args.scalar(ALPHA)?;
        if alpha.is_complex() {
            create::check_fits(alpha, DType::F64)?;
        }
        if alpha.is_zero() {
            return Err(Error::runtime("ZeroDivisionError: alpha cannot be 0 for CELU"));
        }
        Ok(Args { op: &SCALED_CELU, ..scaled_elu(args, |alpha| [alpha, 1.0, 1.0 / alpha])? })
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t(2, 3), 0.2", "t()"],
    reference: "np.where(np.greater(self, 0), self, alpha * np.expm1(self / alpha))",
    ..ACTIVATION
};

/// Returns an error for numbers that cannot be held by the dtype in which a function computes.
fn numbers_fit(args: &Args) -> rushlight_core::Result<()> {
    let dtype = args.tensor(Arg::FIRST)?.dtype().compute();
    let mut numbers = args.values.iter().filter_map(|value| match value {
        Value::Scalar(number) => Some(*number),
        _ => None,
    });
    if dtype.is_floating() { numbers.try_for_each(|number| create::check_fits(number, dtype)) } else { Ok(()) }
}

fn scaled_elu<'a>(mut args: Args<'a>, numbers: fn(f64) -> [f64; 3]) -> rushlight_core::Result<Args<'a>> {
    numbers_fit(&args)?;
    let alpha = args.op.schema().arg("alpha").map_or(Ok(1.0), |alpha| args.float(alpha))?;
    args.values.truncate(1);
    args.values.extend(numbers(alpha).map(Value::Float));
    args.op = &SCALED_ELU;
    Ok(args)
}

#[operator]
const SCALED: Operator = Operator {
    namespace: "",
    signature: "(Tensor self, float alpha, float scale, float input_scale) -> Tensor",
    doc: "The three kinds of `elu`.",
    implementation: common(loops! {
        for<S> [f32, f64] (|x; alpha, scale, input_scale| {
            if x <= 0.0 { S::expm1(x * input_scale) * (alpha * scale) } else { x * scale }
        })
    }),
    kernel_name: "elu_cpu",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        activation_backward::gate(
            d,
            &activation_backward::ELU_BACKWARD,
            [d.scalar(ALPHA), d.scalar(SCALE), d.scalar(INPUT_SCALE)],
        )
    })]),
    samples: &["t(2, 3), 1., 1., 1."],
    ..ACTIVATION
};

#[operator]
pub static SCALED_ELU: Operator = Operator { name: "_elu", node: "EluBackward0 in_place=EluBackward1", ..SCALED };

/// The same with `celu`'s name in graphs.
#[operator]
pub static SCALED_CELU: Operator = Operator { name: "_celu", node: "CeluBackward0 in_place=CeluBackward1", ..SCALED };

#[operator]
pub static GELU: Operator = Operator {
    name: "gelu",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, str approximate='none') -> Tensor",
    doc: "Each element times its standard normal distribution function; `approximate='tanh'` uses a tanh approximation.

    >>> torch.nn.functional.gelu(torch.tensor([-1., 2.]))
    tensor([-0.1587,  1.9545])",
    implementation: Implementation::Delegate(|mut args| {
        args.op = match args.str(APPROXIMATE)? {
            "none" => &GELU_ERF,
            "tanh" => &GELU_TANH,
            _ => return Err(Error::runtime("approximate argument must be either none or tanh.")),
        };
        args.values.truncate(1);
        Ok(args)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t(2, 3), approximate='tanh'", "t()"],
    errors: &[("t(2), approximate='x'", "RuntimeError", "approximate argument must be either none or tanh.")],
    reference: "0.5 * self * (1 + (np.vectorize(math.erf, otypes=[float])(self / 2 ** 0.5) if approximate == 'none' else np.tanh((2 / np.pi) ** 0.5 * (self + 0.044715 * self ** 3))))",
    ..ACTIVATION
};

#[operator]
pub static GELU_ERF: Operator = Operator {
    name: "_gelu",
    namespace: "",
    signature: "(Tensor self) -> Tensor",
    doc: "`gelu` by the error function.",
    out: Out::COMPUTE_DTYPE,
    implementation: common(loops! {
        for<S> [f32, f64] (|x| x * S::ndtr(x))
    }),
    kernel_name: "GeluKernelImpl",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad().with(&activation_backward::GELU_BACKWARD, d.input(INPUT))
    })]),
    ..ACTIVATION
};

#[operator]
pub static GELU_TANH: Operator = Operator {
    name: "_gelu_tanh",
    namespace: "",
    signature: "(Tensor self) -> Tensor",
    doc: "`gelu` by the hyperbolic tangent.",
    out: Out::COMPUTE_DTYPE,
    implementation: common(loops! {
        for<S> [f32, f64] (|x| {
            let inner = ROOT as T * x * (1.0 + CUBIC as T * x * x);
            0.5 * x * (1.0 + S::tanh(inner))
        })
    }),
    kernel_name: "GeluKernelImpl",
    node: "GeluBackward0",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad().with(&activation_backward::GELU_TANH_BACKWARD, d.input(INPUT))
    })]),
    ..ACTIVATION
};

#[operator]
pub static SILU: Operator = Operator {
    name: "silu",
    doc: "Each element times its logistic function.

    out = self * sigmoid(self)

    >>> torch.nn.functional.silu(torch.tensor([-1., 2.]))
    tensor([-0.2689,  1.7616])",
    dtypes: DTypes::INEXACT,
    implementation: common(loops! {
        for<S> [f32, f64] (|x| x / (1.0 + S::exp(-x)));
        for<S> [c64, c128] (|x| (x.wide() * super::analytic::sigmoid(x.wide())).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad().with(&activation_backward::SILU_BACKWARD, d.input(INPUT))
    })]),
    reference: "self / (1 + np.exp(-self))",
    ..ACTIVATION
};

#[operator]
pub static MISH: Operator = Operator {
    name: "mish",
    doc: "Each element times the hyperbolic tangent of its softplus.

    >>> torch.nn.functional.mish(torch.tensor([-1., 2.]))
    tensor([-0.3034,  1.9440])",
    implementation: common(loops! { for<S> [f32, f64] (|x| x * S::tanh(S::log1p(S::exp(x)))) }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let (x, s) = (d.input(INPUT), d.input(INPUT).sigmoid());
        let tanh = d.input(INPUT).call(&SOFTPLUS, []).tanh();
        d.grad() * (tanh.clone() + x * s * (1.0 - tanh.clone() * tanh))
    })]),
    reference: "self * np.tanh(np.log1p(np.exp(self)))",
    ..ACTIVATION
};

#[operator]
pub static SOFTPLUS: Operator = Operator {
    name: "softplus",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    doc: "A smooth `relu`; linear where `beta * self` is above `threshold`.

    out = log(1 + exp(beta * self)) / beta

    >>> torch.nn.functional.softplus(torch.tensor([-1., 2.]))
    tensor([0.3133, 2.1269])",
    out: Out::COMPUTE_DTYPE,
    implementation: common(loops! {
        for<S> [f32, f64] (|x; beta, threshold| {
            if x * beta > threshold { x } else { S::log1p(S::exp(x * beta)) / beta }
        })
    }),
    check: Some(numbers_fit),
    autocast: Autocast::Fp32.on_cuda_alone(),
    errors: &[("t(2), 1, 1e300", "RuntimeError", "value cannot be converted to type float without overflow")],
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let (beta, threshold) = (d.scalar(BETA).f64(), d.scalar(THRESHOLD).f64());
        let z = d.input(INPUT) * beta;
        z.clone().above(threshold).choose(d.grad(), d.grad() * z.sigmoid())
    })]),
    samples: &["t(2, 3)", "t(2, 3), 2., 1.", "t()"],
    reference: "np.where(self * beta > threshold, self, np.log1p(np.exp(self * beta)) / beta)",
    ..ACTIVATION
};

#[operator]
pub static SOFTSIGN: Operator = Operator {
    name: "softsign",
    signature: "(Tensor self) -> Tensor",
    doc: "`x / (1 + abs(x))`

    >>> torch.nn.functional.softsign(torch.tensor([-1., 3.]))
    tensor([-0.5000,  0.7500])",
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        let x = Expr::from(args.tensor(INPUT)?);
        (x.clone() / (x.abs() + 1i64)).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    reference: "self / (1 + np.abs(self))",
    ..ACTIVATION
};

#[operator]
pub static TANHSHRINK: Operator = Operator {
    name: "tanhshrink",
    signature: "(Tensor self) -> Tensor",
    doc: "`x - tanh(x)`

    >>> torch.nn.functional.tanhshrink(torch.tensor([-1., 3.]))
    tensor([-0.2384,  2.0049])",
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        let x = Expr::from(args.tensor(INPUT)?);
        (x.clone() - x.tanh()).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    reference: "self - np.tanh(self * 1.0)",
    ..ACTIVATION
};

#[operator]
pub static HARDTANH: Operator = Operator {
    name: "hardtanh",
    tags: Tags::ROUNDED_PARAMETERS,
    signature: "(Tensor self, Scalar min_val=-1.0, Scalar max_val=1.0, truth inplace=False) -> Tensor",
    doc: "Each element limited to `min_val .. max_val`.

    >>> torch.nn.functional.hardtanh(torch.tensor([-3., 0.5]))
    tensor([-1.0000,  0.5000])",
    dtypes: DTypes::REAL,
    kernel_name: "clamp_scalar_cpu",
    implementation: keeping_strides(
        DTypes::ALL,
        common(loops! {
            for<S> [i8, i16, i32, i64, u8] (|x; low, high| {
                let x = if x < low { low } else { x };
                if x > high { high } else { x }
            });
            for<S> [f32, f64] (|x; low, high| {
                let y = if x >= low || x.is_nan() { x } else { low };
                if y <= high || y.is_nan() { y } else { high }
            })
        }),
    ),
    check: Some(|args| {
        if args.tensor(INPUT)?.dtype() == DType::Bool {
            return Err(Error::runtime("Bool inputs not supported for hardtanh"));
        }
        if args.tensor(INPUT)?.dtype() == DType::U8 && (args.float(MIN_VAL)? < 0.0 || args.float(MAX_VAL)? < 0.0) {
            return Err(Error::runtime("cannot do hardtanh on an unsigned type with negative limits")
                .hint("Use non-negative limits, or convert the input: x.int()."));
        }
        if args.float(MIN_VAL)? > args.float(MAX_VAL)? {
            return Err(Error::new(Class::Value, "min_val cannot be greater than max_val"));
        }
        super::no_complex(args, super::clamp::complex)
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        activation_backward::gate(d, &activation_backward::WINDOW_BACKWARD, [d.scalar(MIN_VAL), d.scalar(MAX_VAL)])
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

#[operator]
pub static RELU6: Operator = Operator {
    name: "relu6",
    doc: "Each element limited to `0 .. 6`.

    >>> torch.nn.functional.relu6(torch.tensor([-3., 8.]))
    tensor([0., 6.])",
    dtypes: DTypes::REAL,
    implementation: Implementation::Delegate(|mut args| {
        let inplace = args.bool(INPLACE)?;
        args.values.truncate(1);
        args.values.extend([Value::Float(0.0), Value::Float(6.0), Value::Bool(inplace)]);
        args.op = &HARDTANH;
        Ok(args)
    }),
    derivative: Derivative::CompositeImplicit,
    reference: "np.clip(self, 0, 6)",
    ..ACTIVATION
};

#[operator]
pub static HARDSIGMOID: Operator = Operator {
    name: "hardsigmoid",
    doc: "A piecewise linear sigmoid: `clamp(x / 6 + 1 / 2, 0, 1)`.

    >>> torch.nn.functional.hardsigmoid(torch.tensor([-4., 0., 1.5]))
    tensor([0.0000, 0.5000, 0.7500])",
    implementation: common(loops! {
        for<S> [f32, f64] (|x| {
            let y = x + 3.0;
            let y = if y > 0.0 || y.is_nan() { y } else { 0.0 };
            (if y < 6.0 || y.is_nan() { y } else { 6.0 }) / 6.0
        })
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let inside = d.input(INPUT).above(-3.0).and(d.input(INPUT).below(3.0));
        inside.choose(d.grad() * (1.0 / 6.0), 0.0)
    })]),
    reference: "np.clip(self / 6 + 0.5, 0, 1)",
    ..ACTIVATION
};

#[operator]
pub static HARDSWISH: Operator = Operator {
    name: "hardswish",
    doc: "Each element times its hardsigmoid.

    >>> torch.nn.functional.hardswish(torch.tensor([-4., 1., 4.]))
    tensor([-0.0000, 0.6667, 4.0000])",
    implementation: common(loops! {
        for<S> [f32, f64] (|x| {
            let y = x + 3.0;
            let y = if y > 0.0 || y.is_nan() { y } else { 0.0 };
            x * (if y < 6.0 || y.is_nan() { y } else { 6.0 }) / 6.0
        })
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let x = d.input(INPUT);
        let middle = d.grad() * (x.clone() / 3.0 + 0.5);
        x.clone().at_most(-3.0).choose(0.0, x.below(3.0).choose(middle, d.grad()))
    })]),
    reference: "self * np.clip(self + 3, 0, 6) / 6",
    ..ACTIVATION
};

#[operator]
pub static HARDSHRINK: Operator = Operator {
    name: "hardshrink",
    tags: Tags::ROUNDED_PARAMETERS,
    namespace: "",
    aliases: &["nn.functional.hardshrink"],
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Scalar lambd=0.5) -> Tensor",
    doc: "Each element, or zero where its magnitude is at most `lambd`.

    >>> torch.hardshrink(torch.tensor([-1., 0.25]))
    tensor([-1.,  0.])",
    out: Out::COMPUTE_DTYPE,
    implementation: common(loops! {
        for<S> [f32, f64] (|x; lambd| if x >= -lambd && x <= lambd { 0.0 } else { x })
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        activation_backward::gate(d, &activation_backward::SHRINK_BACKWARD, [d.scalar(LAMBD)])
    })]),
    samples: &["t(2, 3)", "t(2, 3), 0.2", "t()"],
    reference: "np.where(np.abs(self) <= lambd, 0, self)",
    ..ACTIVATION
};

#[operator]
pub static SOFTSHRINK: Operator = Operator {
    name: "softshrink",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Scalar lambd=0.5) -> Tensor",
    doc: "Each element shrunk towards zero by `lambd`.

    >>> torch.nn.functional.softshrink(torch.tensor([-1., 0.25, 2.]))
    tensor([-0.5000,  0.0000,  1.5000])",
    out: Out::COMPUTE_DTYPE,
    kernel_name: "softshrink_check",
    implementation: common(loops! {
        for<S> [f32, f64] (|x; lambd| if x > lambd { x - lambd } else if x < -lambd { x + lambd } else { x * 0.0 })
    }),
    check: Some(|args| {
        let (lambd, dtype) = (args.scalar(LAMBD)?, args.tensor(INPUT)?.dtype());
        if lambd.is_complex() {
            return create::check_fits(lambd, DType::F64);
        }
        let greatest = if dtype == DType::F64 { Some(f64::MAX) } else { dtype.greatest() };
        match greatest {
            Some(greatest) if !(0.0..=greatest).contains(&lambd.f64()) => Err(Error::runtime(format!(
                "lambda must be in range [0, {}] for input dtype {}, but found {}",
                c_text(greatest),
                dtype.display_name(),
                c_text(lambd.f64())
            ))),
            _ => Ok(()),
        }
    }),
    errors: &[
        (
            "t(2), -2.5",
            "RuntimeError",
            "lambda must be in range [0, 3.40282e+38] for input dtype Float, but found -2.5",
        ),
        ("t(2), nan", "RuntimeError", "lambda must be in range [0, 3.40282e+38] for input dtype Float, but found nan"),
    ],
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        activation_backward::gate(d, &activation_backward::SHRINK_BACKWARD, [d.scalar(LAMBD)])
    })]),
    samples: &["t(2, 3)", "t(2, 3), 0.2", "t()"],
    reference: "np.where(self > lambd, self - lambd, np.where(self < -lambd, self + lambd, 0))",
    ..ACTIVATION
};

#[operator]
pub static THRESHOLD: Operator = Operator {
    name: "threshold",
    namespace: "",
    aliases: &["nn.functional.threshold"],
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Scalar threshold, Scalar value, truth inplace=False) -> Tensor",
    doc: "Each element, or `value` where it is at most `threshold`.

    >>> torch.threshold(torch.tensor([-1., 2.]), 0, 9)
    tensor([9., 2.])",
    dtypes: DTypes::REAL,
    tags: Tags::IDEMPOTENT,
    check: Some(|args| {
        let dtype = args.tensor(INPUT)?.dtype();
        create::check_fits(args.scalar(THRESHOLD)?, dtype.compute())?;
        create::check_fits(args.scalar(VALUE)?, dtype)
    }),
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x; threshold, value| if x <= threshold { value } else { x });
        for<S> [f32, f64] (|x; threshold, value| if x <= threshold { value } else { x })
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        activation_backward::gate(d, &activation_backward::THRESHOLD_BACKWARD, [d.scalar(THRESHOLD)])
    })]),
    samples: &["t(2, 3), 0, 1", "t(2, 3), 0.5, 20", "t(), 0, 0"],
    reference: "np.where(np.greater(self, threshold), self, value)",
    ..ACTIVATION
};

#[operator]
pub static LOGSIGMOID: Operator = Operator {
    name: "logsigmoid",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self) -> Tensor",
    doc: "The logarithm of the logistic function, without overflow.

    >>> torch.nn.functional.logsigmoid(torch.tensor([-1., 2.]))
    tensor([-1.3133, -0.1269])",
    out: Out::new(Accepts::Same, &["expected scalar type {Result} but found {Out}"]).silently(),
    implementation: common(loops! {
        for<S> [f32, f64] (|x| (if x < 0.0 { x } else { 0.0 }) - S::log1p(S::exp(-x.abs())))
    }),
    tags: Tags::ROW_MAJOR,
    kernel_name: "log_sigmoid_cpu",
    node: "LogSigmoidBackward0",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * (-d.input(INPUT)).sigmoid()
    })]),
    reference: "-np.log1p(np.exp(-self))",
    ..ACTIVATION
};

#[operator]
pub static GLU: Operator = Operator {
    name: "glu",
    node: "GluBackward0",
    gradient_format: GradientFormat::Contiguous,
    signature: "(Tensor self, int dim=-1) -> Tensor",
    doc: "The first half along `dim` times the logistic function of the second.

    >>> torch.nn.functional.glu(torch.tensor([2., 0.]))
    tensor([1.])",
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if input.rank() == 0 {
            return Err(Error::runtime("glu does not support scalars because halving size must be even"));
        }
        let dim = rushlight_core::layout::wrap_dim(args.int(DIM)?, input.rank())?;
        let size = input.sizes()[dim];
        if size % 2 != 0 {
            return Err(Error::runtime(format!("Halving dimension must be even, but dimension {dim} is size {size}")));
        }
        if !input.dtype().is_floating() {
            return Err(Error::unsupported("glu_cpu", input.dtype()));
        }
        let half =
            |start: isize| crate::view::strided::as_strided(input, &input.layout().slice(dim, start, size / 2, 1));
        (Expr::new(half(0)) * Expr::new(half(size / 2)).sigmoid()).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    errors: &[
        ("t(3)", "RuntimeError", "Halving dimension must be even, but dimension 0 is size 3"),
        ("t()", "RuntimeError", "glu does not support scalars because halving size must be even"),
    ],
    samples: &["t(2, 4)", "t(2, 4), 0", "t(2, 3, 4).transpose(1, 2), 1"],
    reference: "np.split(self, 2, dim)[0] / (1 + np.exp(-np.split(self, 2, dim)[1]))",
    ..ACTIVATION
};
