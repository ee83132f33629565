//! Losses of margins, distances and counts, composed of other operators.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, Autocast, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Arg, Output};
use rushlight_dispatch::variants::{check_cast, wrong_shape};
use rushlight_dispatch::{create, handled, op, value, vmap};

use super::Reduction;
use super::loss::{check_constant, check_stays, deprecated_at, reduction_at};
use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::pointwise::activation::LOGSIGMOID;
use crate::pointwise::arith::MUL;
use crate::pointwise::clamp::CLAMP_MIN;
use crate::pointwise::compare::NE;

/// Shared by these operators.
const LOSS: Operator = Operator {
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    dtypes: DTypes::FLOATS,
    derivative: Derivative::CompositeImplicit,
    ..Operator::BASE
};

fn reduced(each: Expr, reduction: Reduction) -> Result<Output> {
    reduction.apply(each.done()?).map(Output::Tensor)
}

fn expr(args: &Args, arg: Arg) -> Result<Expr> {
    args.tensor(arg).map(Expr::from)
}

#[operator]
pub static SOFT_MARGIN_LOSS: Operator = Operator {
    name: "soft_margin_loss",
    signature: "(Tensor input, Tensor target, truth? size_average=None, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "The logistic loss of scores whose targets are 1 or -1.

    loss = log(1 + exp(-target * input))

    >>> torch.nn.functional.soft_margin_loss(torch.tensor([0., 2.]), torch.tensor([1., 1.]), reduction='none')
    tensor([0.6931, 0.1269])",
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
        let (input, target) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
        check_constant("soft_margin_loss", "target", target)?;
        if input.dtype() == DType::Bool {
            return Err(Error::runtime(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
            ));
        }
        if input.dtype().is_wide_unsigned() {
            return Err(Error::unsupported("neg_cpu", input.dtype()));
        }
        let sizes = broadcast(input.sizes(), target.sizes())?;
        if sizes != *input.sizes() {
            return Err(wrong_shape(input.sizes(), &sizes));
        }
        check_stays(args)?;
        if input.dtype().is_integral() {
            check_cast(rushlight_core::dtype::default_dtype(), input.dtype())?;
        }
        // As the logarithm of a sigmoid it neither overflows nor cancels.
        let each = -(expr(args, INPUT)? * expr(args, TARGET)?).call(&LOGSIGMOID, []);
        reduction.apply(to_dtype(&each.done()?, input.dtype())?).map(Output::Tensor)
    }),
    samples: &["t(2, 3), t(2, 3)", "t(4), t(4), reduction='none'"],
    errors: &[(
        "t(2), t(3)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    )],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))(np.log1p(np.exp(-target * input)))",
    ..LOSS
};

#[operator]
pub static MARGIN_RANKING_LOSS: Operator = Operator {
    name: "margin_ranking_loss",
    signature: "(Tensor input1, Tensor input2, Tensor target, float margin=0, truth? size_average=None, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "The ranking loss of pairs of scores: the target is 1 if the first should be larger, else -1.

    loss = max(0, -target * (input1 - input2) + margin)

    >>> torch.nn.functional.margin_ranking_loss(torch.tensor([1.]), torch.tensor([3.]), torch.tensor([1.]))
    tensor(2.)",
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
        let (a, b, target) = (args.tensor(INPUT1)?, args.tensor(INPUT2)?, args.tensor(TARGET)?);
        if a.rank() != b.rank() || a.rank() != target.rank() {
            return Err(Error::runtime(format!(
                "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: torch.Size({}), input2: torch.Size({}), target: torch.Size({}) ",
                Shape(a.sizes()),
                Shape(b.sizes()),
                Shape(target.sizes())
            )));
        }
        let apart = (expr(args, INPUT1)? - expr(args, INPUT2)?).done()?;
        reduced((-expr(args, TARGET)? * Expr::from(apart) + args.float(MARGIN)?).at_least_zero(), reduction)
    }),
    samples: &["t(4), t(4), t(4)", "t(2, 3), t(2, 3), t(2, 3), 0.5, reduction='none'"],
    errors: &[(
        "t(2), t(2, 2), t(2)",
        "RuntimeError",
        "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: torch.Size([2]), input2: torch.Size([2, 2]), target: torch.Size([2]) ",
    )],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))(np.maximum(-target * (input1 - input2) + margin, 0))",
    ..LOSS
};

#[operator]
pub static HINGE_EMBEDDING_LOSS: Operator = Operator {
    name: "hinge_embedding_loss",
    signature: "(Tensor input, Tensor target, float margin=1.0, truth? size_average=None, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "The distances of similar pairs (target 1), and the difference to a margin of dissimilar ones (-1).

    >>> torch.nn.functional.hinge_embedding_loss(torch.tensor([0.5, 0.5]), torch.tensor([1., -1.]), 2.0, reduction='none')
    tensor([0.5000, 1.5000])",
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
        let (input, margin) = (args.tensor(INPUT)?, args.float(MARGIN)?);
        // The distance to the margin has the input's dtype, also if that is of integers.
        let apart = op!(crate::create::constant::FULL_LIKE, input, Scalar::Float(margin))?;
        let input = Expr::from(input);
        let apart = (Expr::from(apart) - input.clone()).at_least_zero();
        let apart = expr(args, TARGET)?.with(&NE, 1i64).choose(apart, 0i64);
        let together = expr(args, TARGET)?.with(&NE, -1i64).choose(input, 0i64);
        reduced(apart + together, reduction)
    }),
    samples: &["t(4), t(4)", "t(2, 3), t(2, 3), 0.5, reduction='none'"],
    errors: &[("t(2), t(3)", "RuntimeError", "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0")],
    reference: "(lambda x: {'mean': np.mean, 'sum': np.sum, 'none': np.array}[reduction](x))(np.where(target != 1, np.maximum(margin - input, 0), 0) + np.where(target != -1, input, 0))",
    ..LOSS
};

#[operator]
pub static COSINE_EMBEDDING_LOSS: Operator = Operator {
    name: "cosine_embedding_loss",
    signature: "(Tensor input1, Tensor input2, Tensor target, float margin=0, truth? size_average=None, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "One minus the cosine of similar pairs of vectors (target 1), and the excess of the cosine over a margin of others (-1).

    >>> torch.nn.functional.cosine_embedding_loss(torch.tensor([1., 0.]), torch.tensor([0., 1.]), torch.tensor(1.))
    tensor(1.)",
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
        let (a, b, target) = (args.tensor(INPUT1)?, args.tensor(INPUT2)?, args.tensor(TARGET)?);
        let rank = target.rank();
        if rank > 1 {
            return Err(Error::runtime("0D or 1D target tensor expected, multi-target not supported"));
        }
        if a.rank() != rank + 1 || b.rank() != rank + 1 {
            return Err(Error::runtime(format!(
                "{rank}D target tensor expects {}D input tensors, but found inputs with sizes {} and {}.",
                rank + 1,
                Shape(a.sizes()),
                Shape(b.sizes())
            )));
        }
        /// Avoids 0 / 0 in the cosine of zero vectors.
        const LEAST: f64 = 1e-12;
        let dot = |x: Expr, y: Expr| (x * y).sum_over(rank as i64);
        let (x, y) = (expr(args, INPUT1)?, expr(args, INPUT2)?);
        let lengths = (dot(x.clone(), x.clone()) + LEAST) * (dot(y.clone(), y.clone()) + LEAST);
        let cosine = dot(x, y) / lengths.sqrt();
        let apart = (cosine.clone() - args.float(MARGIN)?).at_least_zero();
        let target = Expr::from(target);
        let together = target.clone().equals(1i64).choose(1.0 - cosine, 0i64);
        reduced(together + target.equals(-1i64).choose(apart, 0i64), reduction)
    }),
    samples: &["real(3, 4), real(3, 4), torch.tensor([1, -1, 1])", "real(4), real(4), torch.tensor(-1), 0.1"],
    errors: &[
        (
            "t(2), t(2), t(2)",
            "RuntimeError",
            "1D target tensor expects 2D input tensors, but found inputs with sizes [2] and [2].",
        ),
        ("t(2, 2), t(2, 2), t(2, 2)", "RuntimeError", "0D or 1D target tensor expected, multi-target not supported"),
    ],
    ..LOSS
};

#[operator]
pub static POISSON_NLL_LOSS: Operator = Operator {
    name: "poisson_nll_loss",
    signature: "(Tensor input, Tensor target, bool log_input=True, bool full=False, truth? size_average=None, float eps=1e-08, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "The negative logarithm of the probability of counts, whose means (or the means' logarithms) the input holds. `full` adds
Stirling's approximation of what does not depend on the input.

    >>> torch.nn.functional.poisson_nll_loss(torch.tensor([0., 1.]), torch.tensor([1., 2.]), reduction='none')
    tensor([1.0000, 0.7183])",
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = match deprecated_at(args, [SIZE_AVERAGE, REDUCE])? {
            Some(reduction) => reduction,
            None => Reduction::parse_or(args.str(REDUCTION)?, "is not a valid value for reduction")?,
        };
        let (input, target) = (expr(args, INPUT)?, expr(args, TARGET)?);
        let mut each = if args.bool(LOG_INPUT)? {
            input.clone().exp() - target.clone() * input
        } else {
            input.clone() - target.clone() * (input + args.float(EPS)?).log()
        };
        if args.bool(FULL)? {
            let logs = target.clone().log();
            let stirling = target.clone() * logs - target.clone() + (target.clone() * std::f64::consts::TAU).log() * 0.5;
            each = each + target.at_most(1i64).choose(0.0, stirling);
        }
        reduced(each, reduction)
    }),
    samples: &["real(4), pos(4)", "real(4).abs() + 0.5, real(4).abs() + 1.5, False, True, reduction='none'"],
    errors: &[("t(2), t(2), reduction='foo'", "ValueError", "foo is not a valid value for reduction")],
    ..LOSS
};

#[operator]
pub static GAUSSIAN_NLL_LOSS: Operator = Operator {
    name: "gaussian_nll_loss",
    signature: "(Tensor input, Tensor target, Tensor|Scalar var, truth full=False, float eps=1e-06, str reduction='mean') -> Tensor",
    doc: "The negative logarithm of the density of targets under normal distributions with means and variances.

    >>> torch.nn.functional.gaussian_nll_loss(torch.tensor([0.]), torch.tensor([2.]), torch.tensor([1.]))
    tensor(2.)",
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, target) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
        let variance = match args.optional_scalar(VAR) {
            Some(number) if number.f64() < 0.0 => {
                return Err(Error::value("var has negative entry/entries")
                    .hint("Variances must be non-negative; use exp() or softplus() of the prediction."));
            }
            Some(number) if number.is_complex() => {
                return Err(Error::type_("'<' not supported between instances of 'complex' and 'int'"));
            }
            Some(Scalar::Float(number)) => {
                op!(MUL, &create::full(input.sizes(), Scalar::ONE, input.dtype(), input.device())?, number)?
            }
            Some(_) => {
                return Err(Error::type_(
                    "any() received an invalid combination of arguments - got (bool), but expected one of:",
                )
                .hint("A variance that is a number must be a float."));
            }
            None => args.tensor(VAR)?.clone(),
        };
        if variance.numel() > 0 && variance.device() != rushlight_core::Device::Meta {
            let every = vmap::samples(&variance)?;
            let negative = Expr::from(every).below(0i64).call(&crate::reduce::all_any::ANY, []).done()?;
            if crate::convert::item(&negative)?.truth() {
                return Err(Error::value("var has negative entry/entries")
                    .hint("Variances must be non-negative; use exp() or softplus() of the prediction."));
            }
        }
        let (sizes, given) = (input.sizes(), variance.sizes());
        let variance = if sizes == given {
            variance
        } else if !sizes.is_empty() && given.as_slice() == &sizes[..sizes.len() - 1] {
            op!(crate::view::squeeze::UNSQUEEZE, &variance, -1i64)?
        } else if sizes.len() == given.len()
            && sizes.iter().zip(given).filter(|(size, input)| size != input).map(|(_, input)| input).sum::<isize>() == 1
        {
            variance
        } else {
            return Err(Error::value("var is of incorrect size")
                .hint("var must have the input's shape, possibly without the last dimension or with size 1 in one."));
        };
        let reduction = Reduction::parse_or(args.str(REDUCTION)?, "is not valid")?;
        if !variance.dtype().is_differentiable() {
            return Err(Error::runtime(format!(
                "result type Float can't be cast to the desired output type {}",
                variance.dtype().c_name()
            )));
        }
        // The limit does not affect the gradient. An infinite variance has no difference from itself.
        let raised = {
            let fixed = Expr::new(handled::detach(&variance));
            let limited = fixed.clone().call(&CLAMP_MIN, [args.float(EPS)?.into()]);
            let shifted = Expr::from(&variance) + (limited.clone() - fixed.clone());
            limited.equals(fixed).choose(&variance, shifted)
        };
        let distance = (Expr::from(input) - Expr::from(target)).square();
        let mut each = (raised.clone().log() + distance / raised) * 0.5;
        if args.bool(FULL)? {
            each = each + std::f64::consts::TAU.ln() * 0.5;
        }
        reduced(each, reduction)
    }),
    samples: &["t(2, 3), t(2, 3), pos(2, 3)", "t(2, 3), t(2, 3), pos(2, 1), True, reduction='none'", "t(4), t(4), 0.5"],
    errors: &[
        ("t(2), t(2), pos(3)", "ValueError", "var is of incorrect size"),
        ("t(2), t(2), -pos(2)", "ValueError", "var has negative entry/entries"),
        ("t(2), t(2), pos(2), reduction='foo'", "ValueError", "foo is not valid"),
    ],
    ..LOSS
};

#[operator]
pub static MULTILABEL_SOFT_MARGIN_LOSS: Operator = Operator {
    name: "multilabel_soft_margin_loss",
    signature: "(Tensor input, Tensor|Scalar target, Tensor? weight=None, truth? size_average=None, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "The binary cross entropy of the scores of several labels, averaged over the labels.

    >>> torch.nn.functional.multilabel_soft_margin_loss(torch.zeros(1, 2), torch.tensor([[1., 0.]]))
    tensor(0.6931)",
    implementation: Implementation::CompositeImplicit(|args| {
        let deprecated = deprecated_at(args, [SIZE_AVERAGE, REDUCE])?;
        let input = expr(args, INPUT)?;
        let target = match args.optional_scalar(TARGET) {
            Some(Scalar::Bool(truth)) => Expr::from(Scalar::Int(i64::from(truth))),
            Some(number) => Expr::from(number),
            None => expr(args, TARGET)?,
        };
        let rank = args.tensor(INPUT)?.rank() as i64;
        let Some(&labels) = args.tensor(INPUT)?.sizes().last() else {
            return Err(Error::index("Dimension specified as -1 but tensor has no dimensions")
                .hint("Use x.reshape(1) to add a dimension."));
        };
        let hit = target.clone() * input.clone().call(&LOGSIGMOID, []);
        let miss = (1.0 - target) * (-input).call(&LOGSIGMOID, []);
        let mut each = -(hit + miss);
        if let Some(weight) = args.optional_tensor(WEIGHT) {
            each = each * Expr::from(weight);
        }
        // A target of a higher rank does not move the labels: the dimension counts from the front, as in torch.
        let each = (each.sum_over(rank - 1) / labels as f64).done()?;
        let reduction = match deprecated {
            Some(reduction) => reduction,
            None => Reduction::parse_or(args.str(REDUCTION)?, "is not valid")?,
        };
        reduction.apply(each).map(Output::Tensor)
    }),
    samples: &["t(2, 3), t(2, 3).sigmoid()", "t(2, 3), t(2, 3).sigmoid(), pos(3), reduction='none'"],
    errors: &[
        (
            "t(2, 3), t(2)",
            "RuntimeError",
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
        ),
        ("t(2, 3), t(2, 3), reduction='foo'", "ValueError", "foo is not valid"),
        ("t(), t()", "IndexError", "Dimension specified as -1 but tensor has no dimensions"),
    ],
    ..LOSS
};

#[operator]
pub static MULTI_MARGIN_LOSS: Operator = Operator {
    name: "multi_margin_loss",
    node: "MultiMarginLossBackward0",
    signature: "(Tensor input, Tensor target, Scalar p=1, Scalar margin=1.0, Tensor? weight=None, truth? size_average=None, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "The margin violations of the scores of other classes than the target's, averaged over the classes.

    loss = sum(max(0, margin - input[target] + input[i]) ** p) / C, over i other than target

    >>> torch.nn.functional.multi_margin_loss(torch.tensor([[1., 0.5]]), torch.tensor([0]))
    tensor(0.2500)",
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
        let kind = if args.tensor(INPUT)?.dtype() == DType::F64 { "double" } else { "float" };
        let (p, margin) = (args.scalar(P)?.f64(), args.real(MARGIN, kind)?);
        if p != 1.0 && p != 2.0 {
            return Err(Error::value("only p == 1 and p == 2 supported"));
        }
        let (input, target) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
        if let Some(weight) = args.optional_tensor(WEIGHT) {
            check_constant("multi_margin_loss", "weight", weight)?;
        }
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
        let batch = if input.rank() < 2 { 1 } else { input.sizes()[0] };
        if target.rank() > 1 || target.numel() as isize != batch {
            return Err(Error::runtime(format!(
                "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target size [{batch}], but got {}. Input has shape {}.",
                Shape(target.sizes()),
                Shape(input.sizes())
            )));
        }
        let kernel = "multi_margin_loss_cpu_kernel";
        if !input.dtype().is_floating() {
            return Err(Error::unsupported(kernel, input.dtype()));
        }
        // torch's kernel lacks half types, so that its later errors are not theirs.
        let in_kernel =
            |error: Error| if input.dtype().is_half() { Error::unsupported(kernel, input.dtype()) } else { error };
        if let Some(weight) = args.optional_tensor(WEIGHT).filter(|weight| weight.dtype() != input.dtype()) {
            let (wanted, found) = (input.dtype().display_name(), weight.dtype().display_name());
            return Err(in_kernel(Error::runtime(format!("expected scalar type {wanted} but found {found}"))));
        }
        if target.dtype() != DType::I64 {
            return Err(in_kernel(Error::runtime(format!(
                "expected scalar type Long but found {}",
                target.dtype().display_name()
            ))));
        }
        let shape = value::sizes_value;
        let rows = op!(crate::view::RESHAPE, input, shape(&[batch, classes]))?;
        let places = op!(crate::view::RESHAPE, target, shape(&[batch, 1]))?;
        if places.device() != rushlight_core::Device::Meta {
            let inside = |place: &i64| (0..classes as i64).contains(place);
            if !crate::convert::to_vec::<i64>(&vmap::samples(&places)?)?.iter().all(inside) {
                return Err(in_kernel(Error::runtime("target out of range")));
            }
        }
        let hit = op!(crate::index::gather::GATHER, &rows, 1i64, &places)?;
        let mut each = (Expr::from(&rows) - Expr::from(hit) + margin).at_least_zero();
        if p == 2.0 {
            each = each.clone() * each;
        }
        if let Some(weight) = args.optional_tensor(WEIGHT) {
            if weight.rank() != 1 {
                return Err(Error::value("weight must be one-dimensional"));
            }
            if weight.sizes().as_slice() != [classes] {
                return Err(Error::runtime(format!(
                    "inconsistent weight size, expected {classes} but got {}",
                    Shape(weight.sizes())
                )));
            }
            let flat = op!(crate::view::RESHAPE, &places, shape(&[-1]))?;
            let chosen = op!(crate::index::index_select::INDEX_SELECT, weight, 0i64, &flat)?;
            each = each * Expr::from(op!(crate::view::RESHAPE, &chosen, shape(&[batch, 1]))?);
        }
        // The target's own class is excluded.
        let others = op!(crate::index::scatter::SCATTER_VALUE, each.done()?, 1i64, &places, 0i64)?;
        let each = Expr::from(others).sum_over(1) / classes as f64;
        let alone = input.rank() < 2 && target.rank() == 0;
        reduced(if alone { each.call(&crate::view::RESHAPE, [shape(&[])]) } else { each }, reduction)
    }),
    samples: &["t(3, 4), i(4, 3)", "t(3, 4), i(4, 3), 2, 0.5, pos(4), reduction='none'", "t(4), torch.tensor(1)"],
    errors: &[
        ("t(2, 3), i(3, 2), p=3", "ValueError", "only p == 1 and p == 2 supported"),
        (
            "t(2, 3), i(2, 3)",
            "RuntimeError",
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target size [2], but got [3]. Input has shape [2, 3].",
        ),
        ("t(2, 3), torch.tensor([0, 5])", "RuntimeError", "target out of range"),
        ("t(2, 3), i(3, 2), weight=t(2)", "RuntimeError", "inconsistent weight size, expected 3 but got [2]"),
    ],
    ..LOSS
};

/// The norm of differences along the last dimension; `eps` is added to each difference.
fn distance(a: &Tensor, b: &Tensor, p: f64, eps: f64) -> Result<Tensor> {
    op!(super::distance::PAIRWISE_DISTANCE, a, b, p, eps)
}

#[operator]
pub static TRIPLET_MARGIN_LOSS: Operator = Operator {
    name: "triplet_margin_loss",
    signature: "(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float eps=1e-06, bool swap=False, truth? size_average=None, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "The violation of a margin between the anchor's distances to the negative and to the positive.

    loss = max(0, d(anchor, positive) - d(anchor, negative) + margin)

    >>> torch.nn.functional.triplet_margin_loss(torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2))
    tensor(1.)",
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
        let (margin, p, eps) = (args.float(MARGIN)?, args.float(P)?, args.float(EPS)?);
        if margin <= 0.0 {
            return Err(Error::value(format!("margin must be greater than 0, got {margin}")));
        }
        let (anchor, positive, negative) = (args.tensor(ANCHOR)?, args.tensor(POSITIVE)?, args.tensor(NEGATIVE)?);
        if anchor.rank() != positive.rank() || anchor.rank() != negative.rank() {
            return Err(Error::runtime(format!(
                "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {}D, positive {}D, and negative {}D inputs",
                anchor.rank(),
                positive.rank(),
                negative.rank()
            )));
        }
        let near = distance(anchor, positive, p, eps)?;
        let mut far = distance(anchor, negative, p, eps)?;
        if args.bool(SWAP)? {
            far = op!(crate::pointwise::compare::MINIMUM, &far, &distance(positive, negative, p, eps)?)?;
        }
        reduced((Expr::from(near) - Expr::from(far) + margin).at_least_zero(), reduction)
    }),
    samples: &[
        "real(3, 4), real(3, 4), real(3, 4)",
        "real(3, 4), real(3, 4), real(3, 4), 0.5, 1.0, 1e-06, True, reduction='none'",
    ],
    errors: &[
        (
            "t(2), t(2, 2), t(2)",
            "RuntimeError",
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor 1D, positive 2D, and negative 1D inputs",
        ),
        ("t(2, 3), t(2, 3), t(2, 3), margin=-1", "ValueError", "margin must be greater than 0, got -1"),
    ],
    ..LOSS
};
