//! The multi-label margin loss.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{collected, filled};
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_dispatch::create::from_slice;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, Autocast, BatchRule, DTypes, Derivative, Implementation, Operator, Tags, Variants, operator,
};
use rushlight_dispatch::value::{Ints, Output, sizes_value};

use super::loss::reduction_at;
use crate::convert::to_vec;
use crate::expr_ext::ExprExt;
use crate::index::gather::GATHER;
use crate::pointwise::clamp::CLAMP_MIN;
use crate::reduce::sum::SUM_DIM;
use crate::view::squeeze::UNSQUEEZE;

#[operator]
pub static MULTILABEL_MARGIN_LOSS: Operator = Operator {
    name: "multilabel_margin_loss",
    node: "MultilabelMarginLossBackward0",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, truth? size_average=None, truth? reduce=None, str reduction='mean') -> Tensor",
    doc:
        "The violations of a margin of 1 between the scores of target classes and of others, averaged over the classes.

    loss = sum(max(0, 1 - (input[right] - input[wrong]))) / C

Shapes: input and target `(N, C)` or `(C)`; each row of the target lists the target classes, up to the first -1.

    >>> torch.nn.functional.multilabel_margin_loss(torch.tensor([0.5, 0.25]), torch.tensor([0, -1]))
    tensor(0.3750)",
    dtypes: DTypes::of(&[DType::F32, DType::F64]),
    autocast: Autocast::Fp32.everywhere(),
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::FallbackIf(&[TARGET]),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
        reduction.apply(losses(args)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(2, 3), torch.tensor([[1, -1, 0], [0, 2, -1]])",
        "t(3), torch.tensor([2, -1, 0]), reduction='none'",
        "t(2, 3), torch.tensor([[-1, 1, 0], [0, 1, 2]]), reduction='sum'",
    ],
    errors: &[
        ("t(5, 4), i(2, 5, 4), reduction='abc'", "ValueError", "abc is not a valid value for reduction"),
        (
            "t(5, 0), i(2, 5, 0)",
            "RuntimeError",
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: [5, 0]",
        ),
        ("t(5, 4), i(2, 4)", "RuntimeError", "inconsistent target size: [4] for input of size: [5, 4]"),
    ],
    reference: "",
    ..Operator::BASE
};

fn losses(args: &Args) -> Result<Tensor> {
    use MULTILABEL_MARGIN_LOSS::*;

    let (input, target) = (args.tensor(INPUT)?, args.valued(TARGET)?);
    let classes = match input.sizes().as_slice() {
        [] => 1,
        [classes] | [_, classes] if *classes > 0 => *classes,
        sizes => {
            return Err(Error::runtime(format!(
                "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {}",
                Shape(sizes)
            )));
        }
    };
    if input.sizes() != target.sizes() && !(input.rank() < 2 && target.rank() < 2 && input.numel() == target.numel()) {
        return Err(Error::runtime(format!(
            "inconsistent target size: {} for input of size: {}",
            Shape(target.sizes()),
            Shape(input.sizes())
        ))
        .hint("target must have the input's shape."));
    }
    if !matches!(input.dtype(), DType::F32 | DType::F64) {
        return Err(Error::unsupported("multilabel_margin_loss_forward_out_frame", input.dtype()));
    }
    if target.dtype() != DType::I64 {
        return Err(Error::runtime(format!("expected scalar type Long but found {}", target.dtype().display_name())));
    }
    let batch = input.numel() as isize / classes;
    let list = to_vec::<i64>(target)?;
    if list.iter().any(|&class| class < -1 || class >= classes as i64) {
        return Err(Error::runtime("argument #2 'target' is out of range"));
    }
    // Masks as numbers: each listed class, and each class that is not listed.
    let width = classes as usize;
    let (mut listed, mut wrong) = (filled(0i64, list.len())?, filled(1i64, list.len())?);
    for (row, classes) in list.chunks(width).enumerate() {
        for (at, &class) in classes.iter().take_while(|&&class| class >= 0).enumerate() {
            listed[row * width + at] = 1;
            wrong[row * width + class as usize] = 0;
        }
    }
    let places = collected(list.iter().map(|&class| class.max(0)))?;
    let matrix = |numbers: &[i64]| {
        let numbers = crate::convert::to_device(&from_slice(numbers)?, input.device())?;
        op!(crate::view::RESHAPE, &numbers, sizes_value(&[batch, classes]))
    };
    let rows = op!(crate::view::RESHAPE, input, sizes_value(&[batch, classes]))?;
    let right = op!(GATHER, &rows, 1i64, &matrix(&places)?)?;
    let across = |tensor: &Tensor, dim: i64| op!(UNSQUEEZE, tensor, dim).map(Expr::from);
    let apart = across(&right, 2)? - across(&rows, 1)?;
    let counts = across(&matrix(&listed)?, 2)?.above(0i64).and(across(&matrix(&wrong)?, 1)?.above(0i64));
    let each = counts.choose((1.0 - apart).call(&CLAMP_MIN, [Scalar::Int(0).into()]), 0.0);
    let sums = (each.call(&SUM_DIM, [Ints::from_slice(&[1, 2]).into()]) / classes as f64).done()?;
    if input.rank() < 2 { op!(crate::view::RESHAPE, &sums, sizes_value(&[])) } else { Ok(sums) }
}
