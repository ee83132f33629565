//! The negative log-likelihood of the target classes.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::layout::Shape;
use rushlight_core::storage::Pin;
use rushlight_core::{DType, Element, Error, Result, Scalar, dispatch};
use rushlight_cpu::nn::nll::NllOperands;
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::operator::{
    Args, Autocast, BatchRule, BatchedCall, DTypes, Derivative, Formula, Implementation, Kernel, OnCuda, Operator,
    Saves, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Value, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, merge_batch, one_result, split_batch, unsqueeze_to_rank};
use rushlight_dispatch::{autocast, copy, create, op};

use super::Reduction;
use super::loss::{check_constant, reduction_at};
use super::nll_on_cuda::Targets;
use crate::pointwise::divide::DIV;
use crate::reduce::sum::SUM_DIM;
use crate::view::RESHAPE;
use crate::view::expand::EXPAND;

#[operator]
pub static NLL_LOSS: Operator = Operator {
    name: "nll_loss",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, Tensor? weight=None, truth? size_average=None, int ignore_index=-100, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "Minus the log-probability of the target class, times its weight; the mean divides by the weights.

Shapes: input `(C)`, `(N, C)` or `(N, C, d1, ...)`, target the same without `C`.

    >>> torch.nn.functional.nll_loss(torch.tensor([[-0.5, -1.0]]), torch.tensor([1]))
    tensor(1.)",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Fp32.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let reduction = reduction_at(args, [SIZE_AVERAGE, REDUCE, REDUCTION])?;
        let (input, target, weight) = (args.tensor(INPUT)?, args.tensor(TARGET)?, args.optional_tensor(WEIGHT));
        let [loss, _] = loss_and_weight(input, target, weight, reduction, args.int(IGNORE_INDEX)?)?;
        Ok(Output::Tensor(loss))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(3, 4), i(4, 3)",
        "t(4), i(4)",
        "t(3, 4), i(4, 3), pos(4), reduction='sum'",
        "t(2, 4, 3), i(4, 2, 3), reduction='none'",
        "t(2, 4, 3, 2), i(4, 2, 3, 2), pos(4), ignore_index=1",
    ],
    errors: &[
        ("t(3, 4), torch.tensor([0, 1, 5])", "IndexError", "Target 5 is out of bounds."),
        ("t(3, 4), i(4, 2)", "ValueError", "Expected input batch_size (3) to match target batch_size (2)."),
        ("t(3, 4), i(4, 3), reduction='foo'", "ValueError", "foo is not a valid value for reduction"),
    ],
    reference: "",
    ..Operator::BASE
};

/// The loss, and the sum of the weights of the classes.
pub fn loss_and_weight(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
    ignored: i64,
) -> Result<[Tensor; 2]> {
    let (op, name) = if input.rank() > 2 { (&NLL_SPOTS, "nll_loss2d_forward") } else { (&NLL, "nll_loss_forward") };
    if let Some(weight) = weight {
        check_constant(name, "weight", weight)?;
    }
    let outputs = op.call([input.into(), target.into(), weight.into(), reduction.code().into(), ignored.into()])?;
    <[Tensor; 2]>::try_from(outputs.into_tensors()).map_err(|_| Error::runtime("the loss has two results"))
}

const OF_SCORES: &[Formula] = &[formula(
    FORWARD::INPUT,
    Saves::input(FORWARD::INPUT)
        .union(Saves::input(FORWARD::TARGET))
        .union(Saves::input(FORWARD::WEIGHT))
        .union(Saves::result(1)),
    |d| {
        use FORWARD::*;

        let gradient = || {
            let weight = if d.is_tensor(WEIGHT) { Some(d.input(WEIGHT).done()?) } else { None };
            NLL_BACKWARD.tensor([
                d.grad().done()?.into(),
                d.input(TARGET).done()?.into(),
                weight.into(),
                d.int(REDUCTION).into(),
                d.int(IGNORE_INDEX).into(),
                d.result_of(1).done()?.into(),
                d.input(INPUT).done()?.into(),
            ])
        };
        Expr::new(gradient())
    },
)];

/// The part that `_nll_loss` shares with its form for input of more than two dimensions, whose node has another name in
/// torch.
#[operator]
const FORWARD: Operator = Operator {
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> (Tensor output, Tensor total_weight)",
    doc: "The loss and the sum of the weights that it divides by; the reduction is 0 for none, 1 for mean, 2 for sum.",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Custom(batched_nll),
    implementation: Implementation::Kernel(Kernel { infer, cpu, cuda: OnCuda::Own(cuda) }),
    derivative: Derivative::Formulas(OF_SCORES),
    reference: "",
    ..Operator::BASE
};

/// The operator behind `nll_loss`.
#[operator]
pub static NLL: Operator = Operator {
    name: "_nll_loss",
    samples: &["t(3, 4), i(4, 3), None, 1, -100", "t(3, 4), i(4, 3), pos(4), 0, 1"],
    ..FORWARD
};

#[operator]
pub static NLL_SPOTS: Operator =
    Operator { name: "_nll_loss2d", samples: &["t(2, 4, 3), i(4, 2, 3), pos(4), 1, 2"], ..FORWARD };

/// The gradient of the scores. It is linear in the incoming gradient, and so is the loss in the scores: each is the
/// other's derivative.
#[operator]
pub static NLL_BACKWARD: Operator = Operator {
    name: "_nll_loss_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor target, Tensor? weight, int reduction, int ignore_index, Tensor total_weight, Tensor like) -> Tensor",
    doc: "The gradient of `_nll_loss` with respect to scores like `like`, whose values do not matter.",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Custom(batched_nll_backward),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (grad, target, like) = (args.tensor(GRAD)?, args.tensor(TARGET)?, args.tensor(LIKE)?);
            let [n, classes, spots] = three(like.sizes()).map(|size| size as usize);
            let each = Reduction::of_code(args.int(REDUCTION)?) == Reduction::None;
            let weighs = args.optional_tensor(WEIGHT).is_none_or(|weight| weight.numel() == classes);
            if target.numel() != n * spots || grad.numel() != if each { n * spots } else { 1 } || !weighs {
                return Err(Error::runtime(format!(
                    "a gradient of {} does not belong to scores of {}",
                    Shape(grad.sizes()),
                    Shape(like.sizes())
                )));
            }
            Ok(vec![TensorSpec::new(like.sizes(), grad.dtype(), grad)])
        },
        cpu: backward,
        cuda: OnCuda::Own(backward_on_cuda),
    }),
    derivative: Derivative::Formulas(&[
        formula(GRAD, Saves::input(TARGET).union(Saves::input(WEIGHT)), |d| {
            let loss = || -> Result<Tensor> {
                let weight = if d.is_tensor(WEIGHT) { Some(d.input(WEIGHT).done()?) } else { None };
                let op = if d.rank(LIKE) > 2 { &NLL_SPOTS } else { &NLL };
                let outputs = op.call([
                    d.grad().done()?.into(),
                    d.input(TARGET).done()?.into(),
                    weight.into(),
                    d.int(REDUCTION).into(),
                    d.int(IGNORE_INDEX).into(),
                ])?;
                outputs.into_tensors().into_iter().next().ok_or_else(|| Error::runtime("no loss"))
            };
            Expr::new(loss())
        }),
        formula(LIKE, Saves::NOTHING, |d| super::zeros_like_input(d, LIKE)),
    ]),
    samples: &["t(), i(4, 3), None, 2, -100, t(), t(3, 4)", "t(2, 3), i(4, 2, 3), pos(4), 0, 1, t(), t(2, 4, 3)"],
    reference: "",
    ..Operator::BASE
};

/// Checks shapes with torch's messages.
fn infer(args: &Args) -> Result<Vec<TensorSpec>> {
    use FORWARD::*;

    let (input, target) = (args.tensor(INPUT)?, args.tensor(TARGET)?);
    let (own, to) = (input.sizes(), target.sizes());
    if own.is_empty() {
        return Err(Error::value(format!("Expected 1 or more dimensions (got {})", own.len())));
    }
    let classes = own[usize::from(own.len() > 1)];
    if own.len() == 1 && to.len() == 1 && to[0] != 1 {
        return Err(Error::value(format!("For 1D input, 1D target must have size 1, but got target size: {}", to[0])));
    }
    let batch = to.first().copied().unwrap_or(0);
    if own.len() > 1 && batch != own[0] {
        return Err(Error::value(format!(
            "Expected input batch_size ({}) to match target batch_size ({batch}).",
            own[0]
        ))
        .shapes([own.as_slice(), to.as_slice()]));
    }
    if own.len() <= 2 && to.len() > 1 {
        return Err(Error::runtime("0D or 1D target tensor expected, multi-target not supported"));
    }
    if own.len() == 4 && to.len() != 3 {
        return Err(Error::runtime(format!(
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
            to.len()
        )));
    }
    if own.len() > 2 && (own.len() != to.len() + 1 || own[2..] != to[1..]) {
        if own.len() == 4 {
            return Err(Error::runtime(format!("size mismatch (got input: {} , target: {}", Shape(own), Shape(to))));
        }
        let mut wanted = own.clone();
        wanted.remove(1);
        return Err(Error::runtime(format!("Expected target size {}, got {}", Shape(&wanted), Shape(to))));
    }
    if target.dtype() != DType::I64 && target.dtype() != DType::U8 {
        return Err(Error::runtime(format!(
            "expected target dtype to be Long or Byte, but got {}",
            target.dtype().display_name()
        ))
        .hint("Class indices must be integers: use target.long()."));
    }
    if let Some(weight) = args.optional_tensor(WEIGHT) {
        let flat = own.len() <= 2;
        if weight.numel() != classes as usize || flat && weight.rank() != 1 {
            let sentence = if flat {
                format!(
                    "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {}",
                    Shape(weight.sizes())
                )
            } else {
                "weight tensor should be defined either for all or no classes".into()
            };
            return Err(Error::runtime(sentence).shapes([own.as_slice(), weight.sizes().as_slice()]));
        }
    }
    if !input.dtype().is_floating() {
        let kernel = if own.len() > 2 { "nll_loss2d_forward_out_frame" } else { "nll_loss_out_frame" };
        return Err(Error::unsupported(kernel, input.dtype()));
    }
    if let Some(weight) = args.optional_tensor(WEIGHT).filter(|weight| weight.dtype() != input.dtype()) {
        return Err(Error::runtime(format!(
            "expected scalar type {} but found {}",
            input.dtype().display_name(),
            weight.dtype().display_name()
        )));
    }
    let each = Reduction::of_code(args.int(REDUCTION)?) == Reduction::None && own.len() > 1;
    let shape: &[isize] = if each { to } else { &[] };
    Ok(vec![TensorSpec::new(shape, input.dtype(), input), TensorSpec::new(&[], input.dtype(), input)])
}

/// Scores of `sizes` as `(n, classes, spots)`.
fn three(sizes: &[isize]) -> [isize; 3] {
    match sizes {
        [classes] => [1, *classes, 1],
        [n, classes, spots @ ..] => [*n, *classes, spots.iter().product()],
        [] => [1, 1, 1],
    }
}

/// Targets and weights in row-major memory, and their description for the kernel.
struct Prepared {
    targets: Tensor,
    weights: Option<Tensor>,
}

impl Prepared {
    fn new(args: &Args) -> Result<Prepared> {
        use FORWARD::*;

        let weights = args.optional_tensor(WEIGHT).map(|weight| plain(weight, weight.dtype())).transpose()?;
        Ok(Prepared { targets: plain(args.tensor(TARGET)?, DType::I64)?, weights })
    }

    /// Pins both for `operands`.
    fn pin(&self) -> Result<(Pin<'_>, Option<Pin<'_>>)> {
        Ok((self.targets.storage().pin()?, self.weights.as_ref().map(|w| w.storage().pin()).transpose()?))
    }

    fn operands<T: Element>(
        &self,
        (targets, weights): &(Pin, Option<Pin>),
        sizes: [isize; 3],
        scores: *const T,
        strides: [isize; 3],
        ignored: i64,
    ) -> NllOperands<T> {
        NllOperands {
            scores,
            strides,
            targets: element(targets, &self.targets),
            weights: weights.as_ref().zip(self.weights.as_ref()).map(|(pin, weights)| element(pin, weights)),
            n: sizes[0] as usize,
            classes: sizes[1] as usize,
            spots: sizes[2] as usize,
            ignored,
        }
    }
}

/// The address of a tensor's first element.
fn element<T>(pin: &Pin, tensor: &Tensor) -> *const T {
    pin.as_ptr().cast::<T>().wrapping_offset(tensor.layout().offset).cast_const()
}

#[cold]
fn out_of_bounds(target: i64) -> Error {
    Error::index(format!("Target {target} is out of bounds."))
        .hint("Class indices must be at least 0 and less than the number of scores, or ignore_index.")
}

fn cpu(args: &Args, results: &[Tensor]) -> Result<()> {
    use FORWARD::*;

    let input = args.tensor(INPUT)?;
    let reduction = Reduction::of_code(args.int(REDUCTION)?);
    let sizes = three(input.sizes());
    let source = plain(input, input.dtype())?;
    let strides = [sizes[1] * sizes[2], sizes[2], 1];
    let prepared = Prepared::new(args)?;
    let (scores, pins) = (source.storage().pin()?, prepared.pin()?);
    let (out, total) = (results[0].storage().pin()?, results[1].storage().pin()?);
    dispatch!(input.dtype(), T in [f32, f64, f16_, bf16_] => {
        let operands = prepared.operands::<T>(&pins, sizes, element(&scores, &source), strides, args.int(IGNORE_INDEX)?);
        let each = (reduction == Reduction::None).then(|| out.as_ptr().cast::<T>());
        // SAFETY: operands are pinned, contiguous and of the sizes that `infer` checked; results are new.
        unsafe {
            let sums = operands.losses(each).map_err(out_of_bounds)?;
            total.as_ptr().cast::<T>().write(T::from_scalar(sums.weights.into()));
            match reduction {
                Reduction::None => {}
                Reduction::Sum => out.as_ptr().cast::<T>().write(T::from_scalar(sums.losses.into())),
                Reduction::Mean => out.as_ptr().cast::<T>().write(T::from_scalar((sums.losses / sums.weights).into())),
            }
        }
        Ok(())
    }, else => Err(not_implemented(args.op, input.dtype())))
}

fn cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use FORWARD::*;

    let _off = autocast::disable();
    let input = args.tensor(INPUT)?;
    let reduction = Reduction::of_code(args.int(REDUCTION)?);
    let own = Targets {
        targets: args.tensor(TARGET)?,
        weights: args.optional_tensor(WEIGHT),
        sizes: three(input.sizes()),
        ignored: args.int(IGNORE_INDEX)?,
    };
    let outcome = own.losses(input, |losses, weights| {
        let all = |tensor: Tensor| Expr::from(tensor).call(&crate::reduce::SUM, []);
        let total = all(weights).done()?;
        let loss = match reduction {
            Reduction::None => op!(RESHAPE, losses, sizes_value(results[0].sizes()))?,
            Reduction::Sum => all(losses).done()?,
            Reduction::Mean => (all(losses) / Expr::from(&total)).done()?,
        };
        copy::copy(&results[0], &loss)?;
        copy::copy(&results[1], &total)
    })?;
    outcome.map_err(out_of_bounds)
}

fn backward_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use NLL_BACKWARD::*;

    let _off = autocast::disable();
    let out = &results[0];
    let own = Targets {
        targets: args.tensor(TARGET)?,
        weights: args.optional_tensor(WEIGHT),
        sizes: three(out.sizes()),
        ignored: args.int(IGNORE_INDEX)?,
    };
    let reduction = Reduction::of_code(args.int(REDUCTION)?);
    let total = if reduction == Reduction::Mean { Some(args.tensor(TOTAL_WEIGHT)?) } else { None };
    own.gradients(out, args.tensor(GRAD)?, reduction == Reduction::None, total)
}

fn backward(args: &Args, results: &[Tensor]) -> Result<()> {
    use NLL_BACKWARD::*;

    let out = &results[0];
    create::fill(out, rushlight_core::Scalar::ZERO)?;
    let reduction = Reduction::of_code(args.int(REDUCTION)?);
    let sizes = three(out.sizes());
    let prepared = Prepared::new(args)?;
    let grads = plain(args.tensor(GRAD)?, out.dtype())?;
    let total = crate::convert::item(args.tensor(TOTAL_WEIGHT)?)?.f64();
    let (pin, pins, target) = (grads.storage().pin()?, prepared.pin()?, out.storage().pin()?);
    dispatch!(out.dtype(), T in [f32, f64, f16_, bf16_] => {
        let operands = prepared.operands::<T>(&pins, sizes, std::ptr::null(), [0; 3], args.int(IGNORE_INDEX)?);
        let grads = element::<T>(&pin, &grads) as usize;
        // SAFETY: as in the forward; a gradient for each target, or one for all.
        let grad = |index: usize| unsafe { (*(grads as *const T).add(index)).to_scalar().f64() };
        // SAFETY: see above.
        unsafe {
            match reduction {
                Reduction::None => operands.scatter(target.as_ptr().cast(), grad),
                Reduction::Sum => operands.scatter(target.as_ptr().cast(), |_| grad(0)),
                Reduction::Mean => operands.scatter(target.as_ptr().cast(), |_| grad(0) / total),
            }
        }
        .map_err(out_of_bounds)
    }, else => Err(not_implemented(args.op, out.dtype())))
}

/// The items of all samples, which have several each or are one, as one batch.
struct Items {
    scores: Tensor,
    targets: Tensor,
    size: isize,
    single: bool,
}

impl Items {
    fn of(batch: &BatchedCall, scores: Arg, targets: Arg) -> Result<Option<Items>> {
        if batch.size == 0 || batch.differs_at(NLL::WEIGHT) {
            return Ok(None);
        }
        let single = batch.args.tensor(scores)?.rank() == 1;
        let all = Items { scores: batch.tensor(scores)?, targets: batch.tensor(targets)?, size: batch.size, single };
        Ok(Some(Items { scores: all.whole(all.scores.clone())?, targets: all.whole(all.targets.clone())?, ..all }))
    }

    /// A batched tensor as one batch of items.
    fn whole(&self, shown: Tensor) -> Result<Tensor> {
        if self.single { Ok(shown) } else { merge_batch(&shown) }
    }

    /// The inverse of `whole`.
    fn apart(&self, whole: &Tensor) -> Result<Tensor> {
        if self.single { Ok(whole.clone()) } else { split_batch(whole, self.size) }
    }
}

fn shared_weight(batch: &BatchedCall) -> Result<Value<'static>> {
    use NLL::*;

    Ok(if batch.args.has_tensor(WEIGHT) { batch.one(WEIGHT)?.into() } else { Value::None })
}

/// The loss of each item, for all samples; summed for each sample if requested.
fn batched_nll(batch: &BatchedCall) -> RuleResult {
    use NLL::*;

    let Some(items) = Items::of(batch, INPUT, TARGET)? else { return Ok(None) };
    let (scores, targets) = (&items.scores, &items.targets);
    let each = |scores: &Tensor| -> Result<Tensor> {
        let values =
            [scores.into(), targets.into(), shared_weight(batch)?, 0i64.into(), batch.args.int(IGNORE_INDEX)?.into()];
        let results = batch.args.op.call(values)?.into_tensors();
        items.apart(results.first().ok_or_else(|| Error::runtime("no loss"))?)
    };
    let sum = |each: &Tensor| {
        if items.single {
            return Ok(each.clone());
        }
        let dims: Ints = (1..each.rank() as i64).collect();
        op!(SUM_DIM, each, dims)
    };
    let losses = each(scores)?;
    // The loss of scores of minus one is the weight.
    let weights = create::full(scores.sizes(), Scalar::Int(-1), scores.dtype(), scores.device())?;
    let total = sum(&each(&weights)?)?;
    let loss = match Reduction::of_code(batch.args.int(REDUCTION)?) {
        Reduction::None => losses,
        Reduction::Sum => sum(&losses)?,
        Reduction::Mean => op!(DIV, sum(&losses)?, &total)?,
    };
    Ok(Some(Output::Tuple(vec![loss, total])))
}

fn batched_nll_backward(batch: &BatchedCall) -> RuleResult {
    use NLL_BACKWARD::*;

    let Some(items) = Items::of(batch, LIKE, TARGET)? else { return Ok(None) };
    let grad = batch.tensor(GRAD)?;
    let grad = match Reduction::of_code(batch.args.int(REDUCTION)?) {
        Reduction::None => items.whole(grad)?,
        summed => {
            let grad = op!(RESHAPE, grad, sizes_value(&[batch.size]))?;
            let grad = match summed {
                Reduction::Mean => {
                    op!(DIV, grad, op!(RESHAPE, batch.tensor(TOTAL_WEIGHT)?, sizes_value(&[batch.size]))?)?
                }
                _ => grad,
            };
            let mut every = vec![batch.size];
            every.extend_from_slice(batch.args.tensor(TARGET)?.sizes());
            items.whole(op!(EXPAND, unsqueeze_to_rank(&grad, every.len() - 1), sizes_value(&every))?)?
        }
    };
    let total = create::full(&[], Scalar::Int(1), grad.dtype(), grad.device())?;
    let values: [Value; 7] = [
        grad.into(),
        (&items.targets).into(),
        shared_weight(batch)?,
        0i64.into(),
        batch.args.int(IGNORE_INDEX)?.into(),
        total.into(),
        (&items.scores).into(),
    ];
    one_result(items.apart(&batch.args.op.tensor(values)?))
}
