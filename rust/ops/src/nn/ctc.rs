//! The loss of connectionist temporal classification.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::collected;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::float::Float;
use rushlight_cpu::nn::ctc::Sequence;
use rushlight_dispatch::create::from_slice;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::operator::{
    Args, Autocast, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves, Tags, TensorSpec,
    Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Value};
use rushlight_dispatch::{create, handled, op};
use rushlight_par::Address;

use super::{Reduction, ctc_on_cuda};
use crate::convert::{to_dtype, to_vec};
use crate::create::rejection::unknown;
use crate::expr_ext::ExprExt;
use crate::view::squeeze::{SQUEEZE_DIM, UNSQUEEZE};

const FLOATS: DTypes = DTypes::of(&[DType::F32, DType::F64]);

/// The end of torch's sentences about lengths.
const CHECKING: &str = "(while checking arguments for ctc_loss_allocate_outputs)";

/// The index of each sequence's first label, from the sizes of the targets: sequences behind each other, or a row for each.
fn starts(targets: &[isize], counts: &[i64]) -> Result<Vec<usize>> {
    let of_targets = |expected: String, found: isize| {
        Error::runtime(format!(
            "Expected tensor to have size {expected}, but got size {found} for argument #2 'targets' {CHECKING}"
        ))
    };
    match *targets {
        [total] => {
            let wanted = counts.iter().fold(0i64, |sum, &n| sum.saturating_add(n));
            if wanted != total as i64 {
                return Err(of_targets(format!("{wanted} at dimension 0"), total));
            }
            let mut end = 0;
            collected(counts.iter().map(|&n| {
                end += n as usize;
                end - n as usize
            }))
        }
        [rows, width] if rows == counts.len() as isize => {
            let longest = counts.iter().max().copied().unwrap_or(0);
            if longest > width as i64 {
                return Err(of_targets(format!("at least {longest} at dimension 1"), width));
            }
            collected((0..counts.len()).map(|item| item * width as usize))
        }
        _ => Err(of_targets(format!("{} at dimension 0", counts.len()), targets[0])),
    }
}

/// The lengths of a batch, checked.
struct Batch {
    /// The index of each sequence's first label.
    starts: Vec<usize>,
    steps: Vec<usize>,
    counts: Vec<usize>,
    blank: i64,
    classes: usize,
}

impl Batch {
    fn read(args: &Args, logs: &Tensor, [targets, steps, counts, blank]: [Arg; 4]) -> Result<Batch> {
        let targets = args.valued(targets)?;
        let (steps, counts, blank) = (args.ints(steps)?, args.ints(counts)?, args.int(blank)?);
        // In torch's order.
        if logs.numel() == 0 {
            return Err(Error::runtime("log_probs tensor must not be empty"));
        }
        if !matches!(targets.dtype(), DType::I64 | DType::I32) {
            return Err(Error::runtime(format!(
                "Expected tensor for argument #2 'targets' to have scalar type Int; but got {} instead {CHECKING}",
                targets.dtype().class_name(targets.device())
            )));
        }
        let [time, batch, classes] = logs.sizes()[..] else {
            return Err(Error::runtime(format!(
                "Expected 3-dimensional tensor, but got {}-dimensional tensor for argument #1 'log_probs' {CHECKING}",
                logs.rank()
            )));
        };
        if !matches!(targets.rank(), 1 | 2) {
            return Err(Error::runtime(format!(
                "Expected 1 to 2 dimensions, but got {}-dimensional tensor for argument #2 'targets' {CHECKING}",
                targets.rank()
            )));
        }
        if blank < 0 || blank >= classes as i64 {
            return Err(Error::runtime("blank must be in label range"));
        }
        if steps.len() != batch as usize {
            return Err(Error::runtime("input_lengths must be of size batch_size"));
        }
        if counts.len() != batch as usize {
            return Err(Error::runtime("target_lengths must be of size batch_size"));
        }
        let at_least_0 = |name: &str, lengths: &[i64]| match lengths.iter().find(|&&n| n < 0) {
            Some(bad) => {
                Err(Error::runtime(format!("Expected {name} to have value at least 0, but got value {bad} {CHECKING}")))
            }
            None => Ok(()),
        };
        at_least_0("target_lengths", counts)?;
        let starts = starts(targets.sizes(), counts)?;
        at_least_0("input_lengths", steps)?;
        if let Some(bad) = steps.iter().find(|&&n| n > time as i64) {
            return Err(Error::runtime(format!(
                "Expected input_lengths to have value at most {time}, but got value {bad} {CHECKING}"
            )));
        }
        Ok(Batch {
            starts,
            steps: collected(steps.iter().map(|&n| n as usize))?,
            counts: collected(counts.iter().map(|&n| n as usize))?,
            blank,
            classes: classes as usize,
        })
    }

    /// All labels; those of the sequences are checked.
    fn labels(&self, targets: &Tensor) -> Result<Vec<i64>> {
        let labels = to_vec::<i64>(targets)?;
        let own = self.starts.iter().zip(&self.counts).flat_map(|(&start, &n)| &labels[start..start + n]);
        match own.copied().find(|&label| label < 0 || label >= self.classes as i64) {
            Some(bad) => Err(self.no_class(bad)),
            None => Ok(labels),
        }
    }

    #[cold]
    fn no_class(&self, label: i64) -> Error {
        Error::runtime(format!("targets must be classes below {}, but one is {label}", self.classes))
    }

    fn sequence<'a>(&self, labels: &'a [i64], item: usize) -> Sequence<'a> {
        Sequence {
            labels: &labels[self.starts[item]..self.starts[item] + self.counts[item]],
            steps: self.steps[item],
            blank: self.blank,
            classes: self.classes,
        }
    }

    fn on_cuda(&self) -> ctc_on_cuda::Batch<'_> {
        let Batch { starts, steps, counts, blank, classes } = self;
        ctc_on_cuda::Batch { starts, steps, counts, classes: *classes, width: self.width(), blank: *blank }
    }

    /// Checks the sizes of what a gradient reads: gradients and losses, one for each sequence, and sums.
    fn check_sums(&self, logs: &Tensor, [grad, losses, alphas]: [&Tensor; 3]) -> Result<()> {
        let (time, items) = (logs.sizes()[0] as usize, logs.sizes()[1] as usize);
        if grad.numel() != items || losses.numel() != items || alphas.numel() != items * time * self.width() {
            return Err(Error::runtime("gradient and losses are not those of the batch"));
        }
        Ok(())
    }

    /// The number of positions of the longest labelling.
    fn width(&self) -> usize {
        2 * self.counts.iter().max().copied().unwrap_or(0) + 1
    }
}

/// The same on a CUDA device, for losses and for gradients.
fn forward_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use CTC::*;

    let (logs, targets) = (args.tensor(LOG_PROBS)?, args.tensor(TARGETS)?);
    let batch = Batch::read(args, logs, [TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, BLANK])?;
    match ctc_on_cuda::losses(logs, targets, &batch.on_cuda(), results)? {
        Some(bad) => Err(batch.no_class(bad)),
        None => Ok(()),
    }
}

fn backward_on_cuda(args: &Args, results: &[Tensor]) -> Result<()> {
    use CTC_BACKWARD::*;

    let (logs, targets) = (args.tensor(LOG_PROBS)?, args.tensor(TARGETS)?);
    let batch = Batch::read(args, logs, [TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, BLANK])?;
    let known = [args.tensor(GRAD)?, args.tensor(NEG_LOG_LIKELIHOOD)?, args.tensor(LOG_ALPHA)?];
    batch.check_sums(logs, known)?;
    ctc_on_cuda::gradients(logs, targets, &batch.on_cuda(), known, &results[0], args.bool(ZERO_INFINITY)?)
}

fn first<T>(pin: &rushlight_core::storage::Pin, tensor: &Tensor) -> Address<T> {
    Address(pin.as_ptr().cast::<T>().wrapping_offset(tensor.layout().offset))
}

fn forward<T: Float>(args: &Args, results: &[Tensor]) -> Result<()> {
    use CTC::*;

    let logs = plain(args.tensor(LOG_PROBS)?, T::DTYPE)?;
    let batch = Batch::read(args, &logs, [TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, BLANK])?;
    let labels = batch.labels(args.tensor(TARGETS)?)?;
    let (time, items, width) = (logs.sizes()[0] as usize, logs.sizes()[1] as usize, batch.width());
    let pins = (logs.storage().pin()?, results[0].storage().pin()?, results[1].storage().pin()?);
    let (from, losses, alphas) =
        (first::<T>(&pins.0, &logs), first::<T>(&pins.1, &results[0]), first::<T>(&pins.2, &results[1]));
    rushlight_par::parallel_for(items, 1, |range| {
        for item in range {
            let sequence = batch.sequence(&labels, item);
            // SAFETY: row-major operands of these sizes; each task accesses the data of its own item, whose labels were
            // checked.
            unsafe {
                let alpha = std::slice::from_raw_parts_mut(alphas.at(item * time * width), time * width);
                let (alpha, beyond) = alpha.split_at_mut(sequence.steps * width);
                beyond.fill(<T as Float>::narrow(f64::NEG_INFINITY));
                let stride = items * batch.classes;
                losses.at(item).write(sequence.forward(from.at(item * batch.classes), stride, alpha));
            }
        }
    });
    Ok(())
}

fn backward<T: Float>(args: &Args, result: &Tensor) -> Result<()> {
    use CTC_BACKWARD::*;

    let (grad, logs) = (plain(args.tensor(GRAD)?, T::DTYPE)?, plain(args.tensor(LOG_PROBS)?, T::DTYPE)?);
    let batch = Batch::read(args, &logs, [TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, BLANK])?;
    let labels = batch.labels(args.tensor(TARGETS)?)?;
    let (losses, alphas) =
        (plain(args.tensor(NEG_LOG_LIKELIHOOD)?, T::DTYPE)?, plain(args.tensor(LOG_ALPHA)?, T::DTYPE)?);
    let (time, items, width) = (logs.sizes()[0] as usize, logs.sizes()[1] as usize, batch.width());
    batch.check_sums(&logs, [&grad, &losses, &alphas])?;
    let zero_infinity = args.bool(ZERO_INFINITY)?;
    create::fill(result, rushlight_core::Scalar::ZERO)?;
    let pins = (grad.storage().pin()?, logs.storage().pin()?, losses.storage().pin()?, alphas.storage().pin()?);
    let to = result.storage().pin()?;
    let (grads, from) = (first::<T>(&pins.0, &grad), first::<T>(&pins.1, &logs));
    let (losses, alphas, out) = (first::<T>(&pins.2, &losses), first::<T>(&pins.3, &alphas), first::<T>(&to, result));
    rushlight_par::try_parallel_for(items, 1, |range| {
        for item in range {
            let sequence = batch.sequence(&labels, item);
            let (stride, place) = (items * batch.classes, item * batch.classes);
            // SAFETY: row-major operands of these sizes; each task accesses the data of its own item, whose labels were
            // checked.
            unsafe {
                let loss = *losses.at(item);
                if zero_infinity && loss.wide() == f64::INFINITY {
                    continue;
                }
                let alpha = std::slice::from_raw_parts(alphas.at(item * time * width), sequence.steps * width);
                sequence.backward(from.at(place), stride, alpha, loss, *grads.at(item), out.at(place))?;
            }
        }
        Ok(())
    })
}

#[operator]
pub static CTC: Operator = Operator {
    name: "_ctc_loss",
    variants: Variants::FUNCTION,
    signature: "(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
    doc: "The losses of `(T, N, C)` log-probabilities, and the sums over paths from the start, for each step and position.

    >>> torch._ctc_loss(torch.zeros(1, 1, 2), torch.tensor([[1]]), (1,), (1,))[0] == 0
    tensor([True])",
    dtypes: FLOATS,
    tags: Tags::DATA_DEPENDENT,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let logs = args.tensor(LOG_PROBS)?;
            if !FLOATS.has(logs.dtype()) {
                return Err(Error::unsupported("ctc_loss_cpu", logs.dtype()));
            }
            let batch = Batch::read(args, logs, [TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, BLANK])?;
            let sizes = [logs.sizes()[1], logs.sizes()[0], batch.width() as isize];
            Ok(vec![TensorSpec::new(&sizes[..1], logs.dtype(), logs), TensorSpec::new(&sizes, logs.dtype(), logs)])
        },
        cpu: |args, results| match results[0].dtype() {
            DType::F64 => forward::<f64>(args, results),
            _ => forward::<f32>(args, results),
        },
        cuda: OnCuda::Own(forward_on_cuda),
    }),
    derivative: Derivative::Formulas(&[formula(
        LOG_PROBS,
        Saves::input(LOG_PROBS).union(Saves::input(TARGETS)).union(Saves::result(0)).union(Saves::result(1)),
        |d| {
            let kept = || -> Result<[Value<'static>; 4]> {
                Ok([
                    d.input(LOG_PROBS).done()?.into(),
                    d.input(TARGETS).done()?.into(),
                    d.result_of(0).done()?.into(),
                    d.result_of(1).done()?.into(),
                ])
            };
            let ints = |arg| Value::from(Ints::from_slice(d.ints(arg)));
            match kept() {
                Ok([logs, targets, losses, alpha]) => d.grad().call(
                    &CTC_BACKWARD,
                    [logs, targets, ints(INPUT_LENGTHS), ints(TARGET_LENGTHS), d.int(BLANK).into(), losses, alpha, d.flag(ZERO_INFINITY).into()],
                ),
                Err(error) => Expr::Failed(error),
            }
        },
    )]),
    // The gradient assumes normalised log-probabilities, as torch's does; finite differences of any others differ.
    samples: &["torch.zeros(4, 2, 3).log_softmax(-1), torch.tensor([[1, 2], [2, 2]]), (4, 3), (2, 1)"],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static CTC_BACKWARD: Operator = Operator {
    name: "_ctc_loss_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank, Tensor neg_log_likelihood, Tensor log_alpha, bool zero_infinity=False) -> Tensor",
    doc: "The gradient of `_ctc_loss` in normalised logarithms.

    >>> logs, targets = torch.zeros(1, 1, 2).log_softmax(-1), torch.tensor([[1]])
    >>> loss, alpha = torch._ctc_loss(logs, targets, (1,), (1,))
    >>> torch._ctc_loss_backward(torch.ones(1), logs, targets, (1,), (1,), 0, loss, alpha)
    tensor([[[ 0.5000, -0.5000]]])",
    dtypes: FLOATS,
    tags: Tags::DATA_DEPENDENT,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let logs = args.tensor(LOG_PROBS)?;
            if !FLOATS.has(logs.dtype()) {
                return Err(Error::unsupported("ctc_loss_backward_cpu", logs.dtype()));
            }
            Ok(vec![TensorSpec::new(logs.sizes(), logs.dtype(), logs)])
        },
        cpu: |args, results| match results[0].dtype() {
            DType::F64 => backward::<f64>(args, &results[0]),
            _ => backward::<f32>(args, &results[0]),
        },
        cuda: OnCuda::Own(backward_on_cuda),
    }),
    derivative: Derivative::Formulas(&[
        formula(GRAD, Saves::NOTHING, |_| unknown("_ctc_loss_backward")),
        formula(LOG_PROBS, Saves::NOTHING, |_| unknown("_ctc_loss_backward")),
        formula(NEG_LOG_LIKELIHOOD, Saves::NOTHING, |_| unknown("_ctc_loss_backward")),
        formula(LOG_ALPHA, Saves::NOTHING, |_| unknown("_ctc_loss_backward")),
    ]),
    samples: &[
        "torch.ones(1), torch.zeros(1, 1, 2), torch.tensor([[1]]), (1,), (1,), 0, torch.ones(1), torch.zeros(1, 1, 3)",
    ],
    reference: "",
    ..Operator::BASE
};

/// A list of lengths, given as a list or as a tensor.
fn lengths(args: &Args, arg: Arg, name: &str) -> Result<Ints> {
    match args.optional_tensor(arg) {
        None => Ok(Ints::from_slice(args.ints(arg)?)),
        Some(tensor) if !tensor.dtype().is_integral() => Err(Error::runtime(format!("{name} must be integral"))),
        Some(_) => Ok(to_vec::<i64>(args.valued(arg)?)?.into()),
    }
}

fn ctc_loss(args: &Args) -> Result<Output> {
    use CTC_LOSS_LISTS::*;

    let (logs, reduction) = (args.tensor(LOG_PROBS)?, Reduction::of_code(args.int(REDUCTION)?));
    let (steps, counts) =
        (lengths(args, INPUT_LENGTHS, "input_lengths")?, lengths(args, TARGET_LENGTHS, "target_lengths")?);
    let alone = logs.rank() != 3;
    let logs = if alone { op!(UNSQUEEZE, logs, 1i64)? } else { logs.clone() };
    let zero_infinity = args.bool(ZERO_INFINITY)?;
    let both = CTC.call([
        (&logs).into(),
        (&to_dtype(args.tensor(TARGETS)?, DType::I64)?).into(),
        steps.into(),
        counts.clone().into(),
        args.int(BLANK)?.into(),
        zero_infinity.into(),
    ])?;
    let Some(losses) = both.into_tensors().into_iter().next() else {
        return Err(Error::runtime("the losses are missing"));
    };
    let mut losses = losses;
    if zero_infinity {
        let infinite = Expr::new(handled::detach(&losses)).equals(f64::INFINITY);
        losses = infinite.choose(0.0, Expr::from(losses)).done()?;
    }
    if reduction == Reduction::Mean {
        let lengths = collected(counts.iter().map(|&n| n.max(1)))?;
        let lengths = crate::convert::to_device(&to_dtype(&from_slice(&lengths)?, losses.dtype())?, losses.device())?;
        losses = (Expr::from(&losses) / Expr::from(lengths)).done()?;
    }
    if alone && reduction == Reduction::None {
        losses = op!(SQUEEZE_DIM, &losses, 0i64)?;
    }
    reduction.apply(losses).map(Output::Tensor)
}

const PUBLIC: Operator = Operator {
    variants: Variants::FUNCTION,
    dtypes: FLOATS,
    autocast: Autocast::Fp32.on_cpu_alone(),
    tags: Tags::DATA_DEPENDENT,
    implementation: Implementation::CompositeImplicit(ctc_loss),
    derivative: Derivative::CompositeImplicit,
    ..Operator::BASE
};

#[operator]
pub static CTC_LOSS_LISTS: Operator = Operator {
    name: "ctc_loss.IntList",
    signature: "(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, int reduction=0, bool zero_infinity=False) -> Tensor",
    doc: "The negative logarithms of the labellings' probabilities, summed over all alignments of labels and blanks with time.

Shapes: log_probs `(T, N, C)` or `(T, C)`, logarithms that are normalised; targets `(N, S)`, or all concatenated. The
reduction is 0 for none, the default, 1 for the mean of losses by target length, 2 for their sum; `zero_infinity` counts impossible
labellings as zero.

    >>> torch.ctc_loss(torch.zeros(2, 1, 2).log_softmax(-1), torch.tensor([[1]]), (2,), (1,))
    tensor([0.2877])",
    batch_rule: BatchRule::FallbackIf(&[LOG_PROBS, TARGETS]),
    samples: &["torch.zeros(4, 2, 3).log_softmax(-1), torch.tensor([[1, 2], [2, 2]]), (4, 3), (2, 1)"],
    errors: &[
        (
            "t(5, 2, 4), torch.tensor([[1, 2], [1, 3]]), (5, 6), (2, 2)",
            "RuntimeError",
            "Expected input_lengths to have value at most 5, but got value 6 (while checking arguments for ctc_loss_allocate_outputs)",
        ),
        (
            "t(5, 2, 4), torch.tensor([[1, 2], [1, 3]]), (5,), (2, 2)",
            "RuntimeError",
            "input_lengths must be of size batch_size",
        ),
        (
            "t(5, 2, 4), torch.tensor([[1, 2], [1, 3]]), (5, 5), (2, 2), 4",
            "RuntimeError",
            "blank must be in label range",
        ),
    ],
    ..PUBLIC
};

#[operator]
pub static CTC_LOSS: Operator = Operator {
    name: "ctc_loss.Tensor",
    signature: "(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=0, bool zero_infinity=False) -> Tensor",
    doc: "The same with lengths in tensors.

    >>> n = torch.tensor([2])
    >>> torch.ctc_loss(torch.zeros(2, 1, 2).log_softmax(-1), torch.tensor([[1]]), n, torch.tensor([1]))
    tensor([0.2877])",
    // Lengths may lie on the host.
    tags: Tags::DATA_DEPENDENT.union(Tags::MIXED_DEVICES),
    batch_rule: BatchRule::FallbackIf(&[LOG_PROBS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS]),
    samples: &[
        "torch.zeros(4, 2, 3).log_softmax(-1), torch.tensor([1, 2, 2]), torch.tensor([4, 3]), torch.tensor([2, 1]), 0, 0",
    ],
    errors: &[(
        "t(5, 2, 4), torch.tensor([[1, 2], [1, 3]]), torch.tensor([5., 5.]), torch.tensor([2, 2])",
        "RuntimeError",
        "input_lengths must be integral",
    )],
    ..PUBLIC
};
