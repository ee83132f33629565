//! Losses that compare element by element.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast;
use rushlight_core::dtype::promote;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Result};

use super::Reduction;
use crate::autocast::Autocast;
use crate::convert::to_dtype;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::op;
use crate::pointwise::arith::{MUL, SUB};
use crate::pointwise::divide::DIV;
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::{Args, Output};

pub static MSE_LOSS: Row = Row {
    name: "mse_loss",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, truth? size_average=None, truth? reduce=None, str reduction='mean', Tensor? weight=None) -> Tensor",
    doc: "The squared differences, as mean, sum or (`\"none\"`) each; with `weight`, which has the input's shape, weighted.

    >>> torch.nn.functional.mse_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(2.5000)",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let reduction = reduction_at(args, [2, 3, 4])?;
        warn_of_broadcasting(args.tensor(0)?, args.tensor(1)?)?;
        let (input, target) = alike(args, "mse_cpu")?;
        let mse = |reduction: Reduction| op!(MSE, &input, &target, reduction.code());
        match args.optional_tensor(5) {
            Some(weight) => weighed(mse(Reduction::None)?, weight, reduction),
            None => mse(reduction),
        }
        .map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

pub static L1_LOSS: Row = Row {
    name: "l1_loss",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, truth? size_average=None, truth? reduce=None, str reduction='mean', Tensor? weight=None) -> Tensor",
    doc: "The absolute differences, as mean, sum or (`\"none\"`) each; with `weight`, which has the input's shape, weighted.

    >>> torch.nn.functional.l1_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(1.5000)",
    dtypes: DTypes::INEXACT,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let reduction = reduction_at(args, [2, 3, 4])?;
        let (input, target) = (args.tensor(0)?, args.tensor(1)?);
        warn_of_broadcasting(input, target)?;
        let each = (Expr::from(input) - Expr::from(target)).abs().done()?;
        match args.optional_tensor(5) {
            Some(weight) => weighed(each, weight, reduction),
            None => reduction.apply(each),
        }
        .map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

/// The losses of the elements, each with its weight; the mean divides by the weights.
fn weighed(each: Tensor, weight: &Tensor, reduction: Reduction) -> Result<Tensor> {
    if weight.sizes() != each.sizes() {
        return Err(Error::value("Weights and input must have the same size."));
    }
    let each = op!(MUL, &each, weight)?;
    match reduction {
        Reduction::Mean => op!(DIV, Reduction::Sum.apply(each)?, Reduction::Sum.apply(weight.clone())?),
        _ => reduction.apply(each),
    }
}

/// Both operands in their common dtype.
fn alike(args: &Args, kernel: &str) -> Result<(Tensor, Tensor)> {
    let (input, target) = (args.tensor(0)?, args.tensor(1)?);
    let dtype = promote(input.dtype(), target.dtype())?;
    if !dtype.is_floating() {
        return Err(Error::unsupported(kernel, dtype));
    }
    Ok((to_dtype(input, dtype)?, to_dtype(target, dtype)?))
}

/// Refuses a target of a wider kind than the scores, whose dtype the loss has.
pub fn check_stays(args: &Args) -> Result<()> {
    let (input, target) = (args.tensor(0)?.dtype(), args.tensor(1)?.dtype());
    crate::variants::check_cast(promote(input, target)?, input)
}

/// A gradient for each element: the incoming one, divided by their number where the loss is the mean.
fn each_gradient(d: &Derive, reduction: usize) -> Expr {
    match Reduction::of_code(d.int(reduction)) {
        Reduction::Mean => match broadcast(d.sizes(0), d.sizes(1)) {
            Ok(sizes) => d.grad() * (1.0 / sizes.iter().product::<isize>() as f64),
            Err(error) => Expr::Failed(error),
        },
        _ => d.grad(),
    }
}

pub static MSE: Row = Row {
    name: "_mse_loss",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor target, int reduction) -> Tensor",
    doc: "The squared differences; the reduction is 0 for none, 1 for mean, 2 for sum.

    >>> torch._mse_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]), 2)
    tensor(5.)",
    dtypes: DTypes::FLOATS,
    run: Run::Body(|args| {
        let difference = op!(SUB, args.tensor(0)?, args.tensor(1)?)?;
        let squares = op!(MUL, &difference, &difference)?;
        Reduction::of_code(args.int(2)?).apply(squares).map(Output::Tensor)
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(0).union(Saves::input(1)), mse_gradient),
        formula(1, Saves::input(0).union(Saves::input(1)), |d| -mse_gradient(d)),
    ]),
    samples: &["t(2, 3), t(2, 3), 0", "t(2, 3), t(2, 3), 1", "t(2, 3), t(3), 2", "t(3), t(2, 3), 1"],
    reference: "",
    ..Row::BASE
};

fn mse_gradient(d: &Derive) -> Expr {
    (d.input(0) - d.input(1)) * (each_gradient(d, 2) * 2.0)
}

/// The reduction, or the one that `size_average` and `reduce` mean, its older spelling; the three stand at these places.
pub fn reduction_at(args: &Args, [average, reduce, word]: [usize; 3]) -> Result<Reduction> {
    match deprecated_at(args, [average, reduce])? {
        Some(reduction) => Ok(reduction),
        None => Reduction::parse(args.str(word)?),
    }
}

/// What the two older arguments mean, if one of them is given.
pub fn deprecated_at(args: &Args, [average, reduce]: [usize; 2]) -> Result<Option<Reduction>> {
    let (reduction, word) = match (args.optional_bool(average), args.optional_bool(reduce)) {
        (None, None) => return Ok(None),
        (_, Some(false)) => (Reduction::None, "none"),
        (Some(false), _) => (Reduction::Sum, "sum"),
        _ => (Reduction::Mean, "mean"),
    };
    crate::host::warn(&format!(
        "size_average and reduce args will be deprecated, please use reduction='{word}' instead."
    ))?;
    Ok(Some(reduction))
}

fn warn_of_broadcasting(input: &Tensor, target: &Tensor) -> Result<()> {
    if input.sizes() == target.sizes() {
        return Ok(());
    }
    crate::host::warn(&format!(
        "Using a target size (torch.Size({})) that is different to the input size (torch.Size({})). This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        Shape(target.sizes()),
        Shape(input.sizes())
    ))
}

/// A loss out of the absolute differences: quadratic below a limit, linear above.
fn bent(args: &Args, kernel: &str, loss: impl FnOnce(Expr) -> Expr) -> Result<Output> {
    let reduction = reduction_at(args, [2, 3, 4])?;
    warn_of_broadcasting(args.tensor(0)?, args.tensor(1)?)?;
    let (input, target) = alike(args, kernel)?;
    let distance = (Expr::from(input) - Expr::from(target)).abs();
    reduction.apply(loss(distance).done()?).map(Output::Tensor)
}

pub static SMOOTH_L1_LOSS: Row = Row {
    name: "smooth_l1_loss",
    node: "SmoothL1LossBackward0",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, truth? size_average=None, truth? reduce=None, str reduction='mean', float beta=1.0) -> Tensor",
    doc: "The absolute differences, rounded off below `beta`.

    loss = 0.5 * d ** 2 / beta if d < beta else d - 0.5 * beta

    >>> torch.nn.functional.smooth_l1_loss(torch.tensor([1., 2.]), torch.tensor([0.5, 4.]), reduction='none')
    tensor([0.1250, 1.5000])",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let beta = args.float(5)?;
        if beta < 0.0 {
            return Err(Error::runtime("smooth_l1_loss does not support negative values for beta."));
        }
        bent(args, "smooth_l1_cpu", |d| {
            if beta == 0.0 {
                return d;
            }
            d.clone().below(beta).choose(d.clone() * d.clone() * (0.5 / beta), d - Expr::from(0.5 * beta))
        })
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), t(2, 3)", "t(2, 3), t(2, 3), reduction='none', beta=0.5", "t(2, 3), t(2, 3), beta=0.0"],
    errors: &[("t(3), t(3), beta=-1.0", "RuntimeError", "smooth_l1_loss does not support negative values for beta.")],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))((lambda d: np.where(d < beta, 0.5 * d * d / (beta or 1), d - 0.5 * beta))(np.abs(input - target)))",
    ..Row::BASE
};

pub static HUBER_LOSS: Row = Row {
    name: "huber_loss",
    node: "HuberLossBackward0",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? weight=None) -> Tensor",
    doc: "The squared differences, continued by a straight line above `delta`.

    loss = 0.5 * d ** 2 if d <= delta else delta * (d - 0.5 * delta)

    >>> torch.nn.functional.huber_loss(torch.tensor([1., 2.]), torch.tensor([0.5, 4.]), reduction='none')
    tensor([0.1250, 1.5000])",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let (reduction, delta) = (Reduction::parse(args.str(2)?)?, args.float(3)?);
        if delta <= 0.0 {
            return Err(Error::runtime("huber_loss does not support non-positive values for delta."));
        }
        warn_of_broadcasting(args.tensor(0)?, args.tensor(1)?)?;
        let (input, target) = alike(args, "huber_cpu")?;
        check_stays(args)?;
        let d = (Expr::from(input) - Expr::from(target)).abs();
        let each = d.clone().at_most(delta).choose(d.clone() * d.clone() * 0.5, (d - Expr::from(0.5 * delta)) * delta);
        let each = each.done()?;
        match args.optional_tensor(4) {
            Some(weight) => weighed(each, weight, reduction),
            None => reduction.apply(each),
        }
        .map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), t(2, 3)", "t(2, 3), t(2, 3), reduction='none', delta=0.5"],
    errors: &[("t(3), t(3), delta=0.0", "RuntimeError", "huber_loss does not support non-positive values for delta.")],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))((lambda d: np.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta)))(np.abs(input - target)))",
    ..Row::BASE
};

pub static BINARY_CROSS_ENTROPY: Row = Row {
    name: "binary_cross_entropy",
    node: "BinaryCrossEntropyBackward0",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, Tensor? weight=None, truth? size_average=None, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "The cross entropy between probabilities and the targets' probabilities; logarithms end at -100.

    >>> torch.nn.functional.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.]))
    tensor(0.6931)",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let reduction = reduction_at(args, [3, 4, 5])?;
        let (input, target) = (args.tensor(0)?, args.tensor(1)?);
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
                target.dtype().title(),
                input.dtype().title()
            )));
        }
        if !input.dtype().is_floating() {
            return Err(Error::unsupported("binary_cross_entropy", input.dtype()));
        }
        let each = BCE.tensor([input.into(), target.into()])?;
        let each = match args.optional_tensor(2) {
            Some(weight) => op!(MUL, &each, &broadcast_weight(weight, input)?)?,
            None => each,
        };
        reduction.apply(each).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &[
        "t(2, 3).sigmoid(), t(2, 3).sigmoid()",
        "t(2, 3).sigmoid(), t(2, 3).sigmoid(), pos(3), reduction='none'",
    ],
    errors: &[("pos(3) + 2, pos(3)", "RuntimeError", "all elements of input should be between 0 and 1")],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))(-(target * np.log(input) + (1 - target) * np.log(1 - input)) * (1 if weight is None else weight))",
    ..Row::BASE
};

fn broadcast_weight(weight: &Tensor, like: &Tensor) -> Result<Tensor> {
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

/// The smallest logarithm that counts, so that a certain mistake costs much but not everything.
const LEAST: f64 = -100.0;

fn bounded_log(of: Expr) -> Expr {
    of.log().call(&crate::pointwise::clamp::CLAMP, [LEAST.into()])
}

pub static BCE: Row = Row {
    name: "_binary_cross_entropy",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor target) -> Tensor",
    doc: "The binary cross entropy of each element.

    >>> torch._binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.]))
    tensor([0.6931])",
    dtypes: DTypes::FLOATS,
    run: Run::Body(|args| {
        let (x, y) = (args.tensor(0)?, args.tensor(1)?);
        for (name, tensor) in [("input", x), ("target", y)] {
            let inside = Expr::from(tensor).at_least(0.0).and(Expr::from(tensor).at_most(1.0)).done()?;
            if tensor.device() != Device::Meta
                && !crate::convert::item(&op!(crate::reduce::truth::ALL, &crate::mapped::samples(&inside))?)?.truth()
            {
                return Err(Error::runtime(format!("all elements of {name} should be between 0 and 1"))
                    .hint("They are probabilities; binary_cross_entropy_with_logits takes scores."));
            }
        }
        let (x, y) = (Expr::from(x), Expr::from(y));
        let miss = bounded_log(1.0 - x.clone());
        (-(y.clone() * bounded_log(x) + (1.0 - y) * miss)).done().map(Output::Tensor)
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(0).union(Saves::input(1)), |d| {
            let (x, y) = (d.input(0), d.input(1));
            let slope = (x.clone() * (1.0 - x.clone())).call(&crate::pointwise::clamp::CLAMP, [1e-12.into()]);
            d.grad() * ((x - y) / slope)
        }),
        formula(1, Saves::input(0), |d| d.grad() * ((1.0 - d.input(0)).log() - d.input(0).log())),
    ]),
    samples: &["t(2, 3).sigmoid(), t(2, 3).sigmoid()"],
    reference: "",
    ..Row::BASE
};

pub static BCE_WITH_LOGITS: Row = Row {
    name: "binary_cross_entropy_with_logits",
    node: "BinaryCrossEntropyWithLogitsBackward0",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, Tensor? weight=None, truth? size_average=None, truth? reduce=None, str reduction='mean', Tensor? pos_weight=None) -> Tensor",
    doc: "The binary cross entropy of the sigmoid of scores, computed without overflow; `pos_weight` weighs the positive targets.

    >>> torch.nn.functional.binary_cross_entropy_with_logits(torch.zeros(1), torch.ones(1))
    tensor(0.6931)",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let reduction = reduction_at(args, [3, 4, 5])?;
        let (input, target) = (args.tensor(0)?, args.tensor(1)?);
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
                common.title(),
                target.dtype().title()
            ))
            .hint("target.float() turns integers into floats."));
        }
        let (x, y) = (Expr::from(input), Expr::from(target));
        let logs = x.clone().call(&crate::pointwise::activation::LOGSIGMOID, []);
        let logs = match args.optional_tensor(6) {
            Some(weight) => logs * ((Expr::from(weight) - Expr::from(1.0)) * y.clone() + Expr::from(1.0)),
            None => logs,
        };
        let each = (1.0 - y) * x - logs;
        let each = args.optional_tensor(2).map_or_else(|| each.clone(), |weight| each.clone() * Expr::from(weight));
        reduction.apply(each.done()?).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), t(2, 3).sigmoid()", "t(2, 3), t(2, 3).sigmoid(), pos(3), reduction='none', pos_weight=pos(3)"],
    errors: &[(
        "t(3), t(4)",
        "ValueError",
        "Target size (torch.Size([4])) must be the same as input size (torch.Size([3]))",
    )],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))((np.log1p(np.exp(-input)) * (target * (1 if pos_weight is None else pos_weight) + 1 - target) + (1 - target) * input) * (1 if weight is None else weight))",
    ..Row::BASE
};

pub static KL_DIV: Row = Row {
    name: "kl_div",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, truth? size_average=None, truth? reduce=None, str reduction='mean', bool log_target=False) -> Tensor",
    doc: "The Kullback-Leibler divergence of log-probabilities from the target's probabilities, element by element before the reduction.

`\"batchmean\"` divides the sum by the size of the batch, which is the mathematical definition.

    >>> torch.nn.functional.kl_div(torch.zeros(1, 2), torch.tensor([[0.5, 0.5]]), reduction='batchmean')
    tensor(-0.6931)",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let (input, target) = (args.tensor(0)?, args.tensor(1)?);
        let integral = |tensor: &Tensor| !tensor.dtype().is_differentiable();
        if integral(input) || integral(target) {
            return Err(Error::runtime("kl_div: Integral inputs not supported."));
        }
        if input.dtype().is_complex() || target.dtype().is_complex() {
            return Err(Error::runtime("kl_div: Complex inputs not supported."));
        }
        let batchmean = args.optional_str(4) == Some("batchmean");
        let deprecated = deprecated_at(args, [2, 3])?;
        let batchmean = batchmean && deprecated.is_none();
        let reduction = match deprecated {
            Some(reduction) => reduction,
            None if batchmean => Reduction::Sum,
            None => Reduction::parse(args.str(4)?)?,
        };
        if deprecated.is_none() && reduction == Reduction::Mean {
            crate::host::warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            )?;
        }
        let (x, y) = (Expr::from(input), Expr::from(target));
        let each = if args.bool(5)? {
            y.clone().exp() * (y - x)
        } else {
            y.clone().with(&crate::pointwise::special::XLOGY, y.clone()) - y * x
        };
        let loss = reduction.apply(each.done()?)?;
        match (batchmean, input.sizes().first()) {
            (true, Some(&batch)) => op!(crate::pointwise::divide::DIV, &loss, batch as f64),
            _ => Ok(loss),
        }
        .map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), pos(2, 3)", "t(2, 3), t(2, 3), log_target=True, reduction='batchmean'"],
    errors: &[("t(2, 3), t(4)", "RuntimeError", "The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 1"), ("t(2), t(3)", "RuntimeError", "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0")],
    reference: "",
    ..Row::BASE
};
