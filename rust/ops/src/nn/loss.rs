//! Elementwise losses.

use rushlight_autograd::{Tensor, modes};
use rushlight_core::broadcast::broadcast;
use rushlight_core::dtype::promote;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, Autocast, Autocasts, BackwardContext, DTypes, Derivative, ExplicitAutograd, GradientFormat, Implementation,
    Operator, Saves, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Output, Target, sizes_value};
use rushlight_dispatch::variants::{check_cast, wrong_shape};
use rushlight_dispatch::{interpreter, op, variants, vmap};

use super::Reduction;
use crate::convert::{contiguous, to_dtype};
use crate::expr_ext::ExprExt;
use crate::pointwise::arith::{MUL, SUB};
use crate::pointwise::divide::DIV;
use crate::view::expand::EXPAND;

#[operator]
pub static MSE_LOSS: Operator = Operator {
    name: "mse_loss",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, truth? size_average=None, truth? reduce=None, str reduction='mean', Tensor? weight=None) -> Tensor",
    doc:
        "The squared differences, as mean, sum or (`\"none\"`) each; weighted by `weight`, which has the input's shape.

`input` and `target` broadcast together, with a warning if their shapes differ.

    >>> torch.nn.functional.mse_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(2.5000)",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = prepared(args, [SIZE_AVERAGE, REDUCE, REDUCTION], args.optional_tensor(WEIGHT))?;
        if let Some(weight) = args.optional_tensor(WEIGHT) {
            // As in torch, integers have weighted losses alone.
            let error = Expr::from(args.tensor(INPUT)?) - Expr::from(args.tensor(TARGET)?);
            return weighed((error.clone() * error).done()?, weight, reduction).map(Output::Tensor);
        }
        let (input, target) = alike(args, "mse_cpu")?;
        op!(MSE, &input, &target, reduction.code()).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(2, 3), t(2, 3)",
        "t(2, 3), t(2, 3), reduction='sum'",
        "t(2, 3), t(2, 3), reduction='none'",
        "t(2, 3), t(2, 3), weight=pos(2, 3)",
    ],
    errors: &[
        ("t(3), t(3), reduction='foo'", "ValueError", "foo is not a valid value for reduction"),
        ("t(3), t(3), weight=t(2)", "ValueError", "Weights and input must have the same size."),
    ],
    reference: "(lambda x, w: {'none': x * w, 'sum': (x * w).sum(), 'mean': (x * w).sum() / w.sum()}[reduction])((input - target) ** 2, np.ones(input.shape) * (1 if weight is None else weight))",
    ..Operator::BASE
};

#[operator]
pub static L1_LOSS: Operator = Operator {
    name: "l1_loss",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, truth? size_average=None, truth? reduce=None, str reduction='mean', Tensor? weight=None) -> Tensor",
    doc:
        "The absolute differences, as mean, sum or (`\"none\"`) each; weighted by `weight`, which has the input's shape.

    >>> torch.nn.functional.l1_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(1.5000)",
    dtypes: DTypes::INEXACT,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = prepared(args, [SIZE_AVERAGE, REDUCE, REDUCTION], args.optional_tensor(WEIGHT))?;
        let (input, target) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
        let each = (Expr::from(input) - Expr::from(target)).abs().done()?;
        match args.optional_tensor(WEIGHT) {
            Some(weight) => weighed(each, weight, reduction),
            None => reduction.apply(each),
        }
        .map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(2, 3), t(2, 3)",
        "t(2, 3), t(2, 3), reduction='sum'",
        "t(2, 3), t(2, 3), reduction='none'",
        "t(2, 3), t(2, 3), weight=pos(2, 3)",
    ],
    errors: &[
        ("t(3), t(3), reduction='foo'", "ValueError", "foo is not a valid value for reduction"),
        ("t(3), t(3), weight=t(2)", "ValueError", "Weights and input must have the same size."),
    ],
    reference: "",
    ..Operator::BASE
};

/// The reduction, after the checks of the shapes that torch makes before it reads the word.
fn prepared(args: &Args, [average, reduce, word]: [Arg; 3], weight: Option<&Tensor>) -> Result<Reduction> {
    use MSE_LOSS::*;

    check_shapes(args.tensor(INPUT)?, args.tensor(TARGET)?)?;
    match deprecated_at(args, [average, reduce])? {
        Some(reduction) => check_weight(args.tensor(INPUT)?, weight).map(|()| reduction),
        None => reduction_named(args.str(word)?, args.tensor(INPUT)?, weight),
    }
}

/// Warns about a target of another shape than the input's, which must broadcast.
fn check_shapes(input: &Tensor, target: &Tensor) -> Result<()> {
    warn_of_broadcasting(input, target)?;
    broadcast(input.sizes(), target.sizes()).map(drop)
}

fn check_weight(input: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    match weight {
        Some(weight) if weight.sizes() != input.sizes() => {
            Err(Error::value("Weights and input must have the same size."))
        }
        _ => Ok(()),
    }
}

/// The reduction of a loss with weights, whose shape is checked first, or without.
fn reduction_named(word: &str, input: &Tensor, weight: Option<&Tensor>) -> Result<Reduction> {
    check_weight(input, weight)?;
    match weight {
        None => Reduction::parse(word),
        Some(_) => Reduction::parse_or(word, "").map_err(|_| {
            Error::value(format!("Invalid reduction mode: {word}. Expected one of 'none', 'mean', 'sum'."))
        }),
    }
}

/// The weighted losses of the elements; the mean divides by the weights.
fn weighed(each: Tensor, weight: &Tensor, reduction: Reduction) -> Result<Tensor> {
    let each = op!(MUL, &each, weight)?;
    match reduction {
        Reduction::Mean => op!(DIV, Reduction::Sum.apply(each)?, Reduction::Sum.apply(weight.clone())?),
        _ => reduction.apply(each),
    }
}

/// Both operands in their common dtype.
fn alike(args: &Args, kernel: &str) -> Result<(Tensor, Tensor)> {
    use MSE_LOSS::*;

    let (input, target) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
    let dtype = promote(input.dtype(), target.dtype())?;
    if !dtype.is_floating() {
        return Err(Error::unsupported(kernel, dtype));
    }
    Ok((to_dtype(input, dtype)?, to_dtype(target, dtype)?))
}

/// Returns an error for a target whose dtype has a higher category than the scores', which is the loss's.
pub fn check_stays(args: &Args) -> Result<()> {
    use HUBER_LOSS::*;

    let (input, target) = (args.tensor(INPUT)?.dtype(), args.tensor(TARGET)?.dtype());
    variants::check_cast(promote(input, target)?, input)
}

/// A gradient for each element: the incoming one, divided by the number of elements if the loss is the mean.
fn each_gradient(d: &BackwardContext) -> Expr {
    use MSE::*;

    match Reduction::of_code(d.int(REDUCTION)) {
        Reduction::Mean => match broadcast(d.sizes(INPUT), d.sizes(TARGET)) {
            Ok(sizes) => d.grad() * (1.0 / sizes.iter().product::<isize>() as f64),
            Err(error) => Expr::Failed(error),
        },
        _ => d.grad(),
    }
}

#[operator]
pub static MSE: Operator = Operator {
    name: "_mse_loss",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor target, int reduction) -> Tensor",
    doc: "The squared differences; the reduction is 0 for none, 1 for mean, 2 for sum.

    >>> torch._mse_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]), 2)
    tensor(5.)",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let difference = op!(SUB, args.tensor(INPUT)?, args.tensor(TARGET)?)?;
        let squares = op!(MUL, &difference, &difference)?;
        Reduction::of_code(args.int(REDUCTION)?).apply(squares).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(TARGET)), mse_gradient),
        formula(TARGET, Saves::input(INPUT).union(Saves::input(TARGET)), |d| -mse_gradient(d)),
    ]),
    samples: &["t(2, 3), t(2, 3), 0", "t(2, 3), t(2, 3), 1", "t(2, 3), t(3), 2", "t(3), t(2, 3), 1"],
    reference: "",
    ..Operator::BASE
};

fn mse_gradient(d: &BackwardContext) -> Expr {
    use MSE::*;

    let gradient = (d.input(INPUT) - d.input(TARGET)) * (each_gradient(d) * 2.0);
    Expr::new(gradient.done().and_then(|gradient| contiguous(&gradient)))
}

/// The reduction. The deprecated arguments `size_average` and `reduce` take precedence over it.
pub fn reduction_at(args: &Args, [average, reduce, word]: [Arg; 3]) -> Result<Reduction> {
    match deprecated_at(args, [average, reduce])? {
        Some(reduction) => Ok(reduction),
        None => Reduction::parse(args.str(word)?),
    }
}

/// The reduction given by the two older arguments, if one of them is given.
pub fn deprecated_at(args: &Args, [average, reduce]: [Arg; 2]) -> Result<Option<Reduction>> {
    let (reduction, word) = match (args.optional_bool(average), args.optional_bool(reduce)) {
        (None, None) => return Ok(None),
        (_, Some(false)) => (Reduction::None, "none"),
        (Some(false), _) => (Reduction::Sum, "sum"),
        _ => (Reduction::Mean, "mean"),
    };
    interpreter::warn(&format!(
        "size_average and reduce args will be deprecated, please use reduction='{word}' instead."
    ))?;
    Ok(Some(reduction))
}

fn warn_of_broadcasting(input: &Tensor, target: &Tensor) -> Result<()> {
    if input.sizes() == target.sizes() {
        return Ok(());
    }
    interpreter::warn(&format!(
        "Using a target size (torch.Size({})) that is different to the input size (torch.Size({})). This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        Shape(target.sizes()),
        Shape(input.sizes())
    ))
}

#[operator]
pub static SMOOTH_L1_LOSS: Operator = Operator {
    name: "smooth_l1_loss",
    node: "SmoothL1LossBackward0",
    gradient_format: GradientFormat::Contiguous,
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, truth? size_average=None, truth? reduce=None, str reduction='mean', float beta=1.0) -> Tensor",
    doc: "The absolute differences, quadratic below `beta`.

    loss = 0.5 * d ** 2 / beta if d < beta else d - 0.5 * beta

    >>> torch.nn.functional.smooth_l1_loss(torch.tensor([1., 2.]), torch.tensor([0.5, 4.]), reduction='none')
    tensor([0.1250, 1.5000])",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = prepared(args, [SIZE_AVERAGE, REDUCE, REDUCTION], None)?;
        let beta = args.float(BETA)?;
        if beta < 0.0 || beta.is_nan() {
            return Err(Error::runtime("smooth_l1_loss does not support negative values for beta."));
        }
        if beta == 0.0 {
            let each = (Expr::from(args.tensor(INPUT)?) - Expr::from(args.tensor(TARGET)?)).abs();
            return reduction.apply(each.done()?).map(Output::Tensor);
        }
        let (input, target) = alike(args, "smooth_l1_cpu")?;
        let d = (Expr::from(input) - Expr::from(target)).abs();
        let each = d.clone().below(beta).choose(d.clone() * d.clone() * (0.5 / beta), d - Expr::from(0.5 * beta));
        reduction.apply(each.done()?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), t(2, 3)", "t(2, 3), t(2, 3), reduction='none', beta=0.5", "t(2, 3), t(2, 3), beta=0.0"],
    errors: &[("t(3), t(3), beta=-1.0", "RuntimeError", "smooth_l1_loss does not support negative values for beta.")],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))((lambda d: np.where(d < beta, 0.5 * d * d / (beta or 1), d - 0.5 * beta))(np.abs(input - target)))",
    ..Operator::BASE
};

#[operator]
pub static HUBER_LOSS: Operator = Operator {
    name: "huber_loss",
    node: "HuberLossBackward0",
    gradient_format: GradientFormat::Contiguous,
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? weight=None) -> Tensor",
    doc: "The squared differences, linear above `delta`.

    loss = 0.5 * d ** 2 if d <= delta else delta * (d - 0.5 * delta)

    >>> torch.nn.functional.huber_loss(torch.tensor([1., 2.]), torch.tensor([0.5, 4.]), reduction='none')
    tensor([0.1250, 1.5000])",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (weight, delta) = (args.optional_tensor(WEIGHT), args.float(DELTA)?);
        check_shapes(args.tensor(INPUT)?, args.tensor(TARGET)?)?;
        let reduction = reduction_named(args.str(REDUCTION)?, args.tensor(INPUT)?, weight)?;
        if delta <= 0.0 || delta.is_nan() {
            return Err(Error::runtime("huber_loss does not support non-positive values for delta."));
        }
        check_stays(args)?;
        let (input, target) = alike(args, "huber_cpu")?;
        let d = (Expr::from(input) - Expr::from(target)).abs();
        let each = d.clone().at_most(delta).choose(d.clone() * d.clone() * 0.5, (d - Expr::from(0.5 * delta)) * delta);
        // torch rounds each loss to the input's dtype, whatever the target's is.
        let each = crate::convert::to_dtype(&each.done()?, args.tensor(INPUT)?.dtype())?;
        let each = match weight {
            Some(weight) => op!(MUL, &each, weight)?,
            None => each,
        };
        reduction.apply(each).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), t(2, 3)", "t(2, 3), t(2, 3), reduction='none', delta=0.5"],
    errors: &[("t(3), t(3), delta=0.0", "RuntimeError", "huber_loss does not support non-positive values for delta.")],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))((lambda d: np.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta)))(np.abs(input - target)))",
    ..Operator::BASE
};

/// Half precision has too few numbers near one for its logarithms.
const UNSAFE_TO_AUTOCAST: [&str; 2] = [
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.",
    "Most models use a sigmoid layer right before the loss: binary_cross_entropy_with_logits or BCEWithLogitsLoss contain it and are \
     safe.",
];

#[operator]
pub static BINARY_CROSS_ENTROPY: Operator = Operator {
    name: "binary_cross_entropy",
    node: "BinaryCrossEntropyBackward0",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, Tensor? weight=None, truth? size_average=None, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "The cross entropy between probabilities and the targets' probabilities; logarithms are limited to -100.

    >>> torch.nn.functional.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.]))
    tensor(0.6931)",
    dtypes: DTypes::FLOATS,
    autocast: Autocasts { cpu: Autocast::Fp32, cuda: Autocast::Refused(&UNSAFE_TO_AUTOCAST) },
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
        let (input, target) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
        if input.sizes() != target.sizes() {
            return Err(Error::value(format!(
                "Using a target size (torch.Size({})) that is different to the input size (torch.Size({})) is deprecated. Please ensure they have the same size.",
                Shape(target.sizes()),
                Shape(input.sizes())
            )));
        }
        if input.dtype() != target.dtype() {
            return Err(Error::runtime(format!(
                "Found dtype {} but expected {}",
                target.dtype().display_name(),
                input.dtype().display_name()
            )));
        }
        if !input.dtype().is_floating() {
            return Err(Error::unsupported("binary_cross_entropy", input.dtype()));
        }
        let each = BCE.tensor([input.into(), target.into()])?;
        let each = match args.optional_tensor(WEIGHT) {
            Some(weight) => {
                check_constant("binary_cross_entropy", "weight", weight)?;
                weighted(each, &broadcast_weight(weight, input)?)?
            }
            None => each,
        };
        reduction.apply(each).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(2, 3).sigmoid(), t(2, 3).sigmoid()",
        "t(2, 3).sigmoid(), t(2, 3).sigmoid(), pos(3), reduction='none'",
    ],
    errors: &[("pos(3) + 2, pos(3)", "RuntimeError", "all elements of input should be between 0 and 1")],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))(-(target * np.log(input) + (1 - target) * np.log(1 - input)) * (1 if weight is None else weight))",
    ..Operator::BASE
};

/// The losses times weights. As in torch their shape and dtype stay.
fn weighted(losses: Tensor, weight: &Tensor) -> Result<Tensor> {
    check_cast(promote(losses.dtype(), weight.dtype())?, losses.dtype())?;
    let product = op!(MUL, &losses, weight)?;
    if product.sizes() != losses.sizes() {
        return Err(wrong_shape(losses.sizes(), product.sizes()));
    }
    to_dtype(&product, losses.dtype())
}

/// Returns an error for an operand that needs a gradient that torch does not compute.
pub fn check_constant(function: &str, name: &str, operand: &Tensor) -> Result<()> {
    if operand.is_tracked() && modes::recording() {
        return Err(Error::runtime(format!(
            "The function '{function}' is not differentiable with respect to argument '{name}'. This input cannot have requires_grad True."
        ))
        .hint(format!("Use {name}.detach().")));
    }
    Ok(())
}

fn broadcast_weight(weight: &Tensor, like: &Tensor) -> Result<Tensor> {
    if weight.is_sparse() {
        // As in torch, whose function expands its weight: the error of that.
        return op!(EXPAND, weight, sizes_value(like.sizes()));
    }
    if weight.layout().broadcast_to(like.sizes()).is_ok() {
        return Ok(weight.clone());
    }
    Err(Error::runtime(format!(
        "Attempting to broadcast a dimension of length {} at -1! Mismatching argument at index 1 had torch.Size({}); but expected shape should be broadcastable to {}",
        weight.sizes().last().copied().unwrap_or(1),
        Shape(weight.sizes()),
        Shape(like.sizes())
    )))
}

/// The lower limit of logarithms, so that a confident mistake has a large but finite loss.
const LEAST: f64 = -100.0;

fn bounded_log(of: Expr) -> Expr {
    of.log().call(&crate::pointwise::clamp::CLAMP, [LEAST.into()])
}

#[operator]
pub static BCE: Operator = Operator {
    name: "_binary_cross_entropy",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor target) -> Tensor",
    doc: "The binary cross entropy of each element.

    >>> torch._binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.]))
    tensor([0.6931])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let (x, y) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
        for (name, tensor) in [("input", x), ("target", y)] {
            let inside = Expr::from(tensor).at_least(0.0).and(Expr::from(tensor).at_most(1.0)).done()?;
            if tensor.device() != Device::Meta
                && !crate::convert::item(&op!(crate::reduce::all_any::ALL, &vmap::samples(&inside)?)?)?.truth()
            {
                return Err(Error::runtime(format!("all elements of {name} should be between 0 and 1"))
                    .hint("The input must be probabilities; use binary_cross_entropy_with_logits for scores."));
            }
        }
        let (x, y) = (Expr::from(x), Expr::from(y));
        let miss = bounded_log(1.0 - x.clone());
        // The result has the strides of `x`.
        (-(bounded_log(x) * y.clone() + miss * (1.0 - y))).done().map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(TARGET)), |d| {
            let (x, y) = (d.input(INPUT), d.input(TARGET));
            let slope = (x.clone() * (1.0 - x.clone())).call(&crate::pointwise::clamp::CLAMP, [1e-12.into()]);
            (x - y) / slope * d.grad()
        }),
        formula(TARGET, Saves::input(INPUT), |d| d.grad() * ((1.0 - d.input(INPUT)).log() - d.input(INPUT).log())),
    ]),
    samples: &["t(2, 3).sigmoid(), t(2, 3).sigmoid()"],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static BCE_WITH_LOGITS: Operator = Operator {
    name: "binary_cross_entropy_with_logits",
    node: "BinaryCrossEntropyWithLogitsBackward0",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, Tensor? weight=None, truth? size_average=None, truth? reduce=None, str reduction='mean', Tensor? pos_weight=None) -> Tensor",
    doc: "The binary cross entropy of the sigmoid of scores, computed without overflow; `pos_weight` weighs the positive targets.

    >>> torch.nn.functional.binary_cross_entropy_with_logits(torch.zeros(1), torch.ones(1))
    tensor(0.6931)",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
        let (input, target) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
        if input.sizes() != target.sizes() {
            return Err(Error::value(format!(
                "Target size (torch.Size({})) must be the same as input size (torch.Size({}))",
                Shape(target.sizes()),
                Shape(input.sizes())
            )));
        }
        let common = rushlight_core::dtype::promote(input.dtype(), target.dtype())?;
        if target.dtype().is_integral() && target.dtype() != DType::Bool && !common.is_integral() {
            return Err(Error::runtime(format!(
                "result type {} can't be cast to the desired output type {}",
                common.display_name(),
                target.dtype().display_name()
            ))
            .hint("Use target.float() to convert integers to floats."));
        }
        let (x, y) = (Expr::from(input), Expr::from(target));
        let logs = x.clone().call(&crate::pointwise::activation::LOGSIGMOID, []);
        for (name, operand) in [("pos_weight", POS_WEIGHT), ("weight", WEIGHT)] {
            if let Some(operand) = args.optional_tensor(operand) {
                check_constant("binary_cross_entropy_with_logits", name, operand)?;
                check_cast(promote(common, operand.dtype())?, common)?;
                let sizes = match name {
                    "weight" => broadcast(input.sizes(), operand.sizes()),
                    _ => broadcast(operand.sizes(), target.sizes()),
                }?;
                if sizes != *input.sizes() {
                    return Err(wrong_shape(input.sizes(), &sizes));
                }
            }
        }
        let logs = match args.optional_tensor(POS_WEIGHT) {
            Some(weight) => logs * ((Expr::from(weight) - Expr::from(1.0)) * y.clone() + Expr::from(1.0)),
            None => logs,
        };
        let each = ((1.0 - y) * x - logs).done()?;
        let each = match args.optional_tensor(WEIGHT) {
            None => each,
            // torch multiplies in place, which keeps the loss dense.
            Some(weight) if weight.is_sparse() => {
                Args::new(&MUL, [(&each).into(), weight.into()]).call_into(Target::InPlace)?.into_tensor()?
            }
            Some(weight) => op!(MUL, &each, weight)?,
        };
        // torch accumulates in a tensor that begins as `1 - target`.
        let dtype = if target.dtype().is_floating() { target.dtype() } else { common };
        reduction.apply(to_dtype(&each, dtype)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), t(2, 3).sigmoid()", "t(2, 3), t(2, 3).sigmoid(), pos(3), reduction='none', pos_weight=pos(3)"],
    errors: &[(
        "t(3), t(4)",
        "ValueError",
        "Target size (torch.Size([4])) must be the same as input size (torch.Size([3]))",
    )],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))((np.log1p(np.exp(-input)) * (target * (1 if pos_weight is None else pos_weight) + 1 - target) + (1 - target) * input) * (1 if weight is None else weight))",
    ..Operator::BASE
};

#[operator]
pub static KL_DIV: Operator = Operator {
    name: "kl_div",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, truth? size_average=None, truth? reduce=None, str reduction='mean', bool log_target=False) -> Tensor",
    doc: "The Kullback-Leibler divergence of log-probabilities from the target's probabilities, element by element before the reduction.

`\"batchmean\"` divides the sum by the size of the batch, which is the mathematical definition.

    >>> torch.nn.functional.kl_div(torch.zeros(1, 2), torch.tensor([[0.5, 0.5]]), reduction='batchmean')
    tensor(-0.6931)",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, target) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
        let integral = |tensor: &Tensor| !tensor.dtype().is_differentiable();
        if integral(input) || integral(target) {
            return Err(Error::runtime("kl_div: Integral inputs not supported."));
        }
        if input.dtype().is_complex() || target.dtype().is_complex() {
            return Err(Error::runtime("kl_div: Complex inputs not supported."));
        }
        let batchmean = args.optional_str(REDUCTION) == Some("batchmean");
        let deprecated = deprecated_at(args, [SIZE_AVERAGE, REDUCE])?;
        let reduction = match deprecated {
            Some(reduction) => reduction,
            None if batchmean => Reduction::Sum,
            None => Reduction::parse(args.str(REDUCTION)?)?,
        };
        if deprecated.is_none() && reduction == Reduction::Mean {
            interpreter::warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            )?;
        }
        let (x, y) = (Expr::from(input), Expr::from(target));
        let each = if args.bool(LOG_TARGET)? {
            y.clone().exp() * (y - x)
        } else {
            y.clone().with(&crate::pointwise::special::XLOGY, y.clone()) - y * x
        };
        let loss = reduction.apply(each.done()?)?;
        match (batchmean, input.sizes().first()) {
            // torch also divides what the deprecated arguments reduce.
            (true, Some(&batch)) => op!(crate::pointwise::divide::DIV, &loss, batch as f64),
            _ => Ok(loss),
        }
        .map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), pos(2, 3)", "t(2, 3), t(2, 3), log_target=True, reduction='batchmean'"],
    errors: &[("t(2, 3), t(4)", "RuntimeError", "The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 1"), ("t(2), t(3)", "RuntimeError", "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0")],
    reference: "",
    ..Operator::BASE
};
