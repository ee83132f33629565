//! The cross entropy of scores, against class indices or class probabilities.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, Autocast, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Ints, Output};

use super::Reduction;
use super::loss::reduction_at;
use super::nll::loss_and_weight;
use crate::create::c_text;
use crate::expr_ext::ExprExt;
use crate::pointwise::compare::EQ;
use crate::reduce::softmax::LOG_SOFTMAX;
use crate::reduce::sum::SUM_DIM;

#[operator]
pub static CROSS_ENTROPY: Operator = Operator {
    name: "cross_entropy",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, Tensor? weight=None, truth? size_average=None, int ignore_index=-100, truth? reduce=None, str reduction='mean', float label_smoothing=0.0) -> Tensor",
    doc: "The cross entropy between the softmax of scores and the target classes, or their probabilities.

Shapes: scores `(C)`, `(N, C)` or `(N, C, d1, ...)`; target the same without `C` for class indices, the same shape for
probabilities.

    >>> torch.nn.functional.cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| cross_entropy(args).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(3, 4), i(4, 3)",
        "t(4), i(4)",
        "t(3, 4), i(4, 3), pos(4), reduction='sum'",
        "t(2, 4, 3), i(4, 2, 3), reduction='none', ignore_index=1",
        "t(3, 4), pos(3, 4)",
        "t(3, 4), pos(3, 4), pos(4), reduction='none', label_smoothing=0.1",
        "t(3, 4), i(4, 3), label_smoothing=0.2",
    ],
    errors: &[
        ("t(3, 4), torch.tensor([0, 1, 5])", "IndexError", "Target 5 is out of bounds."),
        (
            "t(3, 4), i(4, 3), label_smoothing=1.5",
            "RuntimeError",
            "label_smoothing must be between 0.0 and 1.0. Got: 1.5",
        ),
    ],
    reference: "",
    ..Operator::BASE
};

fn cross_entropy(args: &Args) -> Result<Tensor> {
    use CROSS_ENTROPY::*;

    let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
    let (scores, target) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
    let smoothing = args.float(LABEL_SMOOTHING)?;
    if smoothing > 1.0 {
        let smoothing = c_text(smoothing);
        return Err(Error::runtime(format!("label_smoothing must be between 0.0 and 1.0. Got: {smoothing}")));
    }
    // Like torch, numbers below zero and NaN smooth nothing.
    let smoothing = smoothing.max(0.0);
    let dim = i64::from(scores.rank() != 1);
    if scores.sizes() == target.sizes() {
        return of_probabilities(args, reduction, dim, smoothing);
    }
    let logs = LOG_SOFTMAX.tensor([scores.into(), dim.into()])?;
    let weight = args.optional_tensor(WEIGHT);
    let [loss, total] = loss_and_weight(&logs, target, weight, reduction, args.int(IGNORE_INDEX)?)?;
    if smoothing == 0.0 {
        return Ok(loss);
    }
    // Every class has the same share.
    let share = smoothing / scores.sizes()[dim as usize] as f64;
    let each =
        -weighted(Expr::from(&logs), weight, dim, scores.rank()).call(&SUM_DIM, [Ints::from_slice(&[dim]).into()]);
    let ignored = Expr::from(target).with(&EQ, Expr::from(args.int(IGNORE_INDEX)?));
    let each = ignored.choose(0.0, each);
    let spread = match reduction {
        Reduction::None => each,
        Reduction::Sum => each.call(&crate::reduce::SUM, []),
        Reduction::Mean => each.call(&crate::reduce::SUM, []) / Expr::from(total),
    };
    (Expr::from(loss) * (1.0 - smoothing) + spread * share).done()
}

/// Multiplies by the weight of each class.
fn weighted(each: Expr, weight: Option<&Tensor>, dim: i64, rank: usize) -> Expr {
    let Some(weight) = weight else { return each };
    let mut shape = Ints::from_elem(1, rank);
    let Some(classes) = shape.get_mut(dim as usize) else { return each }; // scores without classes are rejected before
    *classes = weight.numel() as i64;
    each * Expr::from(weight).call(&crate::view::RESHAPE, [shape.into()])
}

fn of_probabilities(args: &Args, reduction: Reduction, dim: i64, smoothing: f64) -> Result<Tensor> {
    use CROSS_ENTROPY::*;

    let (scores, target, weight) = (args.tensor(INPUT)?, args.tensor(TARGET)?, args.optional_tensor(WEIGHT));
    if !target.dtype().is_floating() {
        return Err(Error::runtime(format!(
            "Expected floating point type for target with class probabilities, got {}",
            target.dtype().display_name()
        )));
    }
    if args.int(IGNORE_INDEX)? >= 0 {
        return Err(Error::runtime("ignore_index is not supported for floating point target"));
    }
    let classes = scores.sizes().get(dim as usize).copied().unwrap_or(1);
    if let Some(weight) = weight
        && weight.sizes().as_slice() != [classes]
    {
        return Err(Error::runtime(format!(
            "cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {}",
            Shape(weight.sizes())
        )));
    }
    let mut target = Expr::from(target);
    if smoothing > 0.0 {
        target = target * (1.0 - smoothing) + Expr::from(Scalar::Float(smoothing / classes as f64));
    }
    let logs = Expr::from(scores).call(&LOG_SOFTMAX, [dim.into()]);
    let each = weighted(logs * target, weight, dim, scores.rank());
    let loss = match reduction {
        Reduction::None => -each.call(&SUM_DIM, [Ints::from_slice(&[dim]).into()]),
        Reduction::Sum => -each.call(&crate::reduce::SUM, []),
        Reduction::Mean => -each.call(&crate::reduce::SUM, []) / (scores.numel() as f64 / classes as f64),
    };
    loss.done()
}
