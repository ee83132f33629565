//! The loss of connectionist temporal classification.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::collected;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::float::Float;
use rushlight_cpu::nn::ctc::Sequence;
use rushlight_par::Address;

use super::Reduction;
use crate::autocast::Autocast;
use crate::convert::{to_dtype, to_vec};
use crate::create::{from_slice, rejection::unknown};
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::op;
use crate::operands::plain;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Traits, Variants};
use crate::value::{Args, Ints, Output, Value};
use crate::view::squeeze::{SQUEEZE_DIM, UNSQUEEZE};

const FLOATS: DTypes = DTypes::of(&[DType::F32, DType::F64]);

/// Labels and lengths of a batch, read and checked.
struct Batch {
    labels: Vec<i64>,
    /// Where each sequence's labels begin.
    starts: Vec<usize>,
    steps: Vec<usize>,
    counts: Vec<usize>,
    blank: i64,
    classes: usize,
}

impl Batch {
    /// From the arguments from `place` on: targets, lengths of inputs and of targets, blank.
    fn read(args: &Args, logs: &Tensor, place: usize) -> Result<Batch> {
        let targets = args.valued(place)?;
        let (steps, counts, blank) = (args.ints(place + 1)?, args.ints(place + 2)?, args.int(place + 3)?);
        let [time, batch, classes] = logs.sizes()[..] else {
            return Err(Error::runtime("log_probs must be (T, N, C)"));
        };
        if logs.numel() == 0 {
            return Err(Error::runtime("log_probs tensor must not be empty"));
        }
        let name = "(while checking arguments for ctc_loss_allocate_outputs)";
        if !matches!(targets.dtype(), DType::I64 | DType::I32) {
            return Err(Error::runtime(format!(
                "Expected tensor for argument #2 'targets' to have one of the following scalar types: Int, Long; but got torch.{}Tensor instead (while checking arguments for ctc_loss_cpu)",
                targets.dtype().title()
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
        if let Some(bad) = counts.iter().find(|&&n| n < 0) {
            return Err(Error::runtime(format!(
                "Expected target_lengths to have value at least 0, but got value {bad} {name}"
            )));
        }
        if let Some(bad) = steps.iter().find(|&&n| n < 0) {
            return Err(Error::runtime(format!(
                "Expected input_lengths to have value at least 0, but got value {bad} {name}"
            )));
        }
        if let Some(bad) = steps.iter().find(|&&n| n > time as i64) {
            return Err(Error::runtime(format!(
                "Expected input_lengths to have value at most {time}, but got value {bad} {name}"
            )));
        }
        let longest = counts.iter().max().copied().unwrap_or(0);
        let starts: Vec<usize> = match targets.sizes()[..] {
            [total] => {
                let wanted = counts.iter().fold(0i64, |sum, &n| sum.saturating_add(n));
                if wanted != total as i64 {
                    return Err(Error::runtime(format!(
                        "Expected tensor to have size {wanted} at dimension 0, but got size {total} for argument #2 'targets' {name}"
                    )));
                }
                let mut end = 0;
                collected(counts.iter().map(|&n| {
                    end += n as usize;
                    end - n as usize
                }))?
            }
            [rows, width] if rows == batch => {
                if longest > width as i64 {
                    return Err(Error::runtime(format!(
                        "Expected tensor to have size at least {longest} at dimension 1, but got size {width} for argument #2 'targets' {name}"
                    )));
                }
                collected((0..batch as usize).map(|item| item * width as usize))?
            }
            [rows, _] => {
                return Err(Error::runtime(format!(
                    "Expected tensor to have size {batch} at dimension 0, but got size {rows} for argument #2 'targets' {name}"
                )));
            }
            _ => return Err(Error::runtime("targets must be (N, S) or (sum of target_lengths)")),
        };
        let labels = to_vec::<i64>(targets)?;
        let own = starts.iter().zip(counts).flat_map(|(&start, &n)| &labels[start..start + n as usize]);
        if let Some(bad) = own.copied().find(|&label| label < 0 || label >= classes as i64) {
            return Err(Error::runtime(format!("targets must be classes below {classes}, but one is {bad}")));
        }
        Ok(Batch {
            labels,
            starts,
            steps: collected(steps.iter().map(|&n| n as usize))?,
            counts: collected(counts.iter().map(|&n| n as usize))?,
            blank,
            classes: classes as usize,
        })
    }

    fn sequence(&self, item: usize) -> Sequence<'_> {
        Sequence {
            labels: &self.labels[self.starts[item]..self.starts[item] + self.counts[item]],
            steps: self.steps[item],
            blank: self.blank,
            classes: self.classes,
        }
    }

    /// Places of the longest labelling.
    fn width(&self) -> usize {
        2 * self.counts.iter().max().copied().unwrap_or(0) + 1
    }
}

fn first<T>(pin: &rushlight_core::storage::Pin, tensor: &Tensor) -> Address<T> {
    Address(pin.as_ptr().cast::<T>().wrapping_offset(tensor.layout().offset))
}

fn forward<T: Float>(args: &Args, results: &[Tensor]) -> Result<()> {
    let logs = plain(args.tensor(0)?, T::DTYPE)?;
    let batch = Batch::read(args, &logs, 1)?;
    let (time, items, width) = (logs.sizes()[0] as usize, logs.sizes()[1] as usize, batch.width());
    let pins = (logs.storage().pin()?, results[0].storage().pin()?, results[1].storage().pin()?);
    let (from, losses, alphas) =
        (first::<T>(&pins.0, &logs), first::<T>(&pins.1, &results[0]), first::<T>(&pins.2, &results[1]));
    rushlight_par::parallel_for(items, 1, |range| {
        for item in range {
            let sequence = batch.sequence(item);
            // SAFETY: row-major operands of these sizes; an item's numbers are its task's, and its labels were checked.
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
    let (grad, logs) = (plain(args.tensor(0)?, T::DTYPE)?, plain(args.tensor(1)?, T::DTYPE)?);
    let batch = Batch::read(args, &logs, 2)?;
    let (losses, alphas) = (plain(args.tensor(6)?, T::DTYPE)?, plain(args.tensor(7)?, T::DTYPE)?);
    let (time, items, width) = (logs.sizes()[0] as usize, logs.sizes()[1] as usize, batch.width());
    if grad.numel() != items || losses.numel() != items || alphas.numel() != items * time * width {
        return Err(Error::runtime("gradient and losses are not those of the batch"));
    }
    let forgives = args.bool(8)?;
    crate::create::fill(result, rushlight_core::Scalar::ZERO)?;
    let pins = (grad.storage().pin()?, logs.storage().pin()?, losses.storage().pin()?, alphas.storage().pin()?);
    let to = result.storage().pin()?;
    let (grads, from) = (first::<T>(&pins.0, &grad), first::<T>(&pins.1, &logs));
    let (losses, alphas, out) = (first::<T>(&pins.2, &losses), first::<T>(&pins.3, &alphas), first::<T>(&to, result));
    rushlight_par::try_parallel_for(items, 1, |range| {
        for item in range {
            let sequence = batch.sequence(item);
            let (stride, place) = (items * batch.classes, item * batch.classes);
            // SAFETY: row-major operands of these sizes; an item's numbers are its task's, and its labels were checked.
            unsafe {
                let loss = *losses.at(item);
                if forgives && loss.wide() == f64::INFINITY {
                    continue;
                }
                let alpha = std::slice::from_raw_parts(alphas.at(item * time * width), sequence.steps * width);
                sequence.backward(from.at(place), stride, alpha, loss, *grads.at(item), out.at(place))?;
            }
        }
        Ok(())
    })
}

pub static CTC: Row = Row {
    name: "_ctc_loss",
    variants: Variants::FUNCTION,
    signature: "(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
    doc: "The losses of `(T, N, C)` logarithms of probabilities, and the sums over paths from the start, for each step and place.

    >>> torch._ctc_loss(torch.zeros(1, 1, 2), torch.tensor([[1]]), (1,), (1,))[0] == 0
    tensor([True])",
    dtypes: FLOATS,
    traits: Traits::NEEDS_VALUES,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let logs = args.tensor(0)?;
            if !FLOATS.has(logs.dtype()) {
                return Err(Error::unsupported("ctc_loss_cpu", logs.dtype()));
            }
            let batch = Batch::read(args, logs, 1)?;
            let sizes = [logs.sizes()[1], logs.sizes()[0], batch.width() as isize];
            Ok(vec![Spec::new(&sizes[..1], logs.dtype(), logs), Spec::new(&sizes, logs.dtype(), logs)])
        },
        cpu: |args, results| match results[0].dtype() {
            DType::F64 => forward::<f64>(args, results),
            _ => forward::<f32>(args, results),
        },
    }),
    derivative: Derivative::Formulas(&[formula(
        0,
        Saves::input(0).union(Saves::input(1)).union(Saves::result(0)).union(Saves::result(1)),
        |d| {
            let kept = || -> Result<[Value<'static>; 4]> {
                Ok([
                    d.input(0).done()?.into(),
                    d.input(1).done()?.into(),
                    d.result_of(0).done()?.into(),
                    d.result_of(1).done()?.into(),
                ])
            };
            let ints = |place: usize| Value::from(Ints::from_slice(d.ints(place)));
            match kept() {
                Ok([logs, targets, losses, alpha]) => d.grad().call(
                    &CTC_BACKWARD,
                    [logs, targets, ints(2), ints(3), d.int(4).into(), losses, alpha, d.flag(5).into()],
                ),
                Err(error) => Expr::Failed(error),
            }
        },
    )]),
    // The gradient is that of normalised logarithms, as torch's: finite differences of any others see another.
    samples: &["torch.zeros(4, 2, 3).log_softmax(-1), torch.tensor([[1, 2], [2, 2]]), (4, 3), (2, 1)"],
    reference: "",
    ..Row::BASE
};

pub static CTC_BACKWARD: Row = Row {
    name: "_ctc_loss_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank, Tensor neg_log_likelihood, Tensor log_alpha, bool zero_infinity=False) -> Tensor",
    doc: "The gradient of `_ctc_loss` in normalised logarithms.

    >>> logs, targets = torch.zeros(1, 1, 2).log_softmax(-1), torch.tensor([[1]])
    >>> loss, alpha = torch._ctc_loss(logs, targets, (1,), (1,))
    >>> torch._ctc_loss_backward(torch.ones(1), logs, targets, (1,), (1,), 0, loss, alpha)
    tensor([[[ 0.5000, -0.5000]]])",
    dtypes: FLOATS,
    traits: Traits::NEEDS_VALUES,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let logs = args.tensor(1)?;
            if !FLOATS.has(logs.dtype()) {
                return Err(Error::unsupported("ctc_loss_backward_cpu", logs.dtype()));
            }
            Ok(vec![Spec::new(logs.sizes(), logs.dtype(), logs)])
        },
        cpu: |args, results| match results[0].dtype() {
            DType::F64 => backward::<f64>(args, &results[0]),
            _ => backward::<f32>(args, &results[0]),
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |_| unknown("_ctc_loss_backward")),
        formula(1, Saves::NOTHING, |_| unknown("_ctc_loss_backward")),
        formula(6, Saves::NOTHING, |_| unknown("_ctc_loss_backward")),
        formula(7, Saves::NOTHING, |_| unknown("_ctc_loss_backward")),
    ]),
    samples: &[
        "torch.ones(1), torch.zeros(1, 1, 2), torch.tensor([[1]]), (1,), (1,), 0, torch.ones(1), torch.zeros(1, 1, 3)",
    ],
    reference: "",
    ..Row::BASE
};

/// A list of lengths, whichever way it was given.
fn lengths(args: &Args, place: usize, name: &str) -> Result<Ints> {
    match args.optional_tensor(place) {
        None => Ok(Ints::from_slice(args.ints(place)?)),
        Some(tensor) if !tensor.dtype().is_integral() => Err(Error::runtime(format!("{name} must be integral"))),
        Some(_) => Ok(to_vec::<i64>(args.valued(place)?)?.into()),
    }
}

fn ctc_loss(args: &Args) -> Result<Output> {
    let (logs, reduction) = (args.tensor(0)?, Reduction::of_code(args.int(5)?));
    let (steps, counts) = (lengths(args, 2, "input_lengths")?, lengths(args, 3, "target_lengths")?);
    let alone = logs.rank() == 2;
    let logs = if alone { op!(UNSQUEEZE, logs, 1i64)? } else { logs.clone() };
    let forgives = args.bool(6)?;
    let both = CTC.call([
        (&logs).into(),
        args.tensor(1)?.into(),
        steps.into(),
        counts.clone().into(),
        args.int(4)?.into(),
        forgives.into(),
    ])?;
    let Some(losses) = both.into_tensors().into_iter().next() else {
        return Err(Error::runtime("the losses are missing"));
    };
    let mut losses = losses;
    if forgives {
        let infinite = Expr::from(losses.detach()).equals(f64::INFINITY);
        losses = infinite.choose(0.0, Expr::from(losses)).done()?;
    }
    if reduction == Reduction::Mean {
        let lengths = collected(counts.iter().map(|&n| n.max(1)))?;
        losses = (Expr::from(&losses) / Expr::from(to_dtype(&from_slice(&lengths)?, losses.dtype())?)).done()?;
    }
    if alone && reduction == Reduction::None {
        losses = op!(SQUEEZE_DIM, &losses, 0i64)?;
    }
    reduction.apply(losses).map(Output::Tensor)
}

const PUBLIC: Row = Row {
    variants: Variants::FUNCTION,
    dtypes: FLOATS,
    autocast: Autocast::Single,
    traits: Traits::NEEDS_VALUES,
    run: Run::Compose(ctc_loss),
    derivative: Derivative::Composed,
    ..Row::BASE
};

pub static CTC_LOSS_LISTS: Row = Row {
    name: "ctc_loss.IntList",
    signature: "(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
    doc: "The negative logarithms of the labellings' probabilities, summed over all ways to spread labels and blanks over time.

Shapes: log_probs `(T, N, C)` or `(T, C)`, logarithms that are normalised; targets `(N, S)`, or all behind one another. The
reduction is 0 for none, 1 for the mean of losses by target length, 2 for their sum; `zero_infinity` counts impossible
labellings as zero.

    >>> torch.ctc_loss(torch.zeros(2, 1, 2).log_softmax(-1), torch.tensor([[1]]), (2,), (1,))
    tensor(0.2877)",
    mapped: Mapped::EachIf(&[0, 1]),
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

pub static CTC_LOSS: Row = Row {
    name: "ctc_loss.Tensor",
    signature: "(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
    doc: "The same with lengths in tensors.

    >>> n = torch.tensor([2])
    >>> torch.ctc_loss(torch.zeros(2, 1, 2).log_softmax(-1), torch.tensor([[1]]), n, torch.tensor([1]))
    tensor(0.2877)",
    mapped: Mapped::EachIf(&[0, 1, 2, 3]),
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
