//! The negative log-likelihood of the right classes.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::layout::Shape;
use rushlight_core::storage::Pin;
use rushlight_core::{DType, Element, Error, Result, dispatch};
use rushlight_cpu::nn::loss::Picks;

use super::Reduction;
use super::loss::reduction_at;
use crate::autocast::Autocast;
use crate::create;
use crate::derive::{Derivative, Formula, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::operands::plain;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Output};

pub static NLL_LOSS: Row = Row {
    name: "nll_loss",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor target, Tensor? weight=None, truth? size_average=None, int ignore_index=-100, truth? reduce=None, str reduction='mean') -> Tensor",
    doc: "Minus the log-probability of the right class, times its weight; the mean divides by the weights.

Shapes: input `(C)`, `(N, C)` or `(N, C, d1, ...)`, target the same without `C`.

    >>> torch.nn.functional.nll_loss(torch.tensor([[-0.5, -1.0]]), torch.tensor([1]))
    tensor(1.)",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Single,
    run: Run::Compose(|args| {
        let reduction = reduction_at(args, [3, 5, 6])?;
        let weight = args.optional_tensor(2).into();
        let (input, target) = (args.tensor(0)?, args.tensor(1)?);
        let row = if input.rank() > 2 { &NLL_SPOTS } else { &NLL };
        let outputs = row.call([input.into(), target.into(), weight, reduction.code().into(), args.int(4)?.into()])?;
        outputs.into_tensors().into_iter().next().map(Output::Tensor).ok_or_else(|| Error::runtime("no loss"))
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

const SCATTERED: &[Formula] =
    &[formula(0, Saves::input(0).union(Saves::input(1)).union(Saves::input(2)).union(Saves::result(1)), |d| {
        let gradient = || {
            let weight = if d.is_tensor(2) { Some(d.input(2).done()?) } else { None };
            NLL_BACKWARD.tensor([
                d.grad().done()?.into(),
                d.input(1).done()?.into(),
                weight.into(),
                d.int(3).into(),
                d.int(4).into(),
                d.result_of(1).done()?.into(),
                d.input(0).done()?.into(),
            ])
        };
        Expr::new(gradient())
    })];

/// The row behind `nll_loss`, and the same for input of more than two dimensions, whose node torch names otherwise.
const fn forward(name: &'static str, sample: &'static [&'static str]) -> Row {
    Row {
        name,
        variants: Variants::FUNCTION,
        signature: "(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> (Tensor output, Tensor total_weight)",
        doc: "The loss and the sum of the weights that it divides by; the reduction is 0 for none, 1 for mean, 2 for sum.",
        dtypes: DTypes::FLOATS,
        mapped: Mapped::Rule(crate::nn::mapped::nll),
        run: Run::Kernel(Kernel { infer, cpu }),
        derivative: Derivative::Formulas(SCATTERED),
        samples: sample,
        reference: "",
        ..Row::BASE
    }
}

pub static NLL: Row = forward("_nll_loss", &["t(3, 4), i(4, 3), None, 1, -100", "t(3, 4), i(4, 3), pos(4), 0, 1"]);
pub static NLL_SPOTS: Row = forward("_nll_loss2d", &["t(2, 4, 3), i(4, 2, 3), pos(4), 1, 2"]);

/// The gradient of the scores. It is linear in the incoming gradient, and so is the loss in the scores: each is the other's
/// derivative.
pub static NLL_BACKWARD: Row = Row {
    name: "_nll_loss_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor target, Tensor? weight, int reduction, int ignore_index, Tensor total_weight, Tensor like) -> Tensor",
    doc: "The gradient of `_nll_loss` with respect to scores like `like`, whose values do not matter.",
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Rule(crate::nn::mapped::nll_backward),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (grad, target, like) = (args.tensor(0)?, args.tensor(1)?, args.tensor(6)?);
            let [n, classes, spots] = three(like.sizes()).map(|size| size as usize);
            let each = Reduction::of_code(args.int(3)?) == Reduction::None;
            let weighs = args.optional_tensor(2).is_none_or(|weight| weight.numel() == classes);
            if target.numel() != n * spots || grad.numel() != if each { n * spots } else { 1 } || !weighs {
                return Err(Error::runtime(format!(
                    "a gradient of {} does not belong to scores of {}",
                    Shape(grad.sizes()),
                    Shape(like.sizes())
                )));
            }
            Ok(vec![Spec::new(like.sizes(), grad.dtype(), grad)])
        },
        cpu: backward,
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1).union(Saves::input(2)), |d| {
            let loss = || -> Result<Tensor> {
                let weight = if d.is_tensor(2) { Some(d.input(2).done()?) } else { None };
                let row = if d.rank(6) > 2 { &NLL_SPOTS } else { &NLL };
                let outputs = row.call([
                    d.grad().done()?.into(),
                    d.input(1).done()?.into(),
                    weight.into(),
                    d.int(3).into(),
                    d.int(4).into(),
                ])?;
                outputs.into_tensors().into_iter().next().ok_or_else(|| Error::runtime("no loss"))
            };
            Expr::new(loss())
        }),
        formula(6, Saves::NOTHING, |d| super::zeros_like_input(d, 6)),
    ]),
    samples: &["t(), i(4, 3), None, 2, -100, t(), t(3, 4)", "t(2, 3), i(4, 2, 3), pos(4), 0, 1, t(), t(2, 4, 3)"],
    reference: "",
    ..Row::BASE
};

/// Checks shapes in torch's words.
fn infer(args: &Args) -> Result<Vec<Spec>> {
    let (input, target) = (args.tensor(0)?, args.tensor(1)?);
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
            target.dtype().title()
        ))
        .hint("Class numbers are integers: target.long()."));
    }
    if let Some(weight) = args.optional_tensor(2) {
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
        if weight.dtype() != input.dtype() {
            return Err(Error::runtime(format!(
                "expected scalar type {} but found {}",
                input.dtype().title(),
                weight.dtype().title()
            )));
        }
    }
    if !input.dtype().is_floating() {
        let kernel = if own.len() > 2 { "nll_loss2d_forward_out_frame" } else { "nll_loss_out_frame" };
        return Err(Error::unsupported(kernel, input.dtype()));
    }
    let each = Reduction::of_code(args.int(3)?) == Reduction::None && own.len() > 1;
    let shape: &[isize] = if each { to } else { &[] };
    Ok(vec![Spec::new(shape, input.dtype(), input), Spec::new(&[], input.dtype(), input)])
}

/// Scores of `sizes` as `(n, classes, spots)`.
fn three(sizes: &[isize]) -> [isize; 3] {
    match sizes {
        [classes] => [1, *classes, 1],
        [n, classes, spots @ ..] => [*n, *classes, spots.iter().product()],
        [] => [1, 1, 1],
    }
}

/// Targets and weights in row-major memory, and what describes them to the kernel.
struct Prepared {
    targets: Tensor,
    weights: Option<Tensor>,
}

impl Prepared {
    fn new(args: &Args) -> Result<Prepared> {
        let weights = args.optional_tensor(2).map(|weight| plain(weight, weight.dtype())).transpose()?;
        Ok(Prepared { targets: plain(args.tensor(1)?, DType::I64)?, weights })
    }

    /// Holds both in place for `picks`.
    fn pin(&self) -> Result<(Pin<'_>, Option<Pin<'_>>)> {
        Ok((self.targets.storage().pin()?, self.weights.as_ref().map(|w| w.storage().pin()).transpose()?))
    }

    fn picks<T: Element>(
        &self,
        (targets, weights): &(Pin, Option<Pin>),
        sizes: [isize; 3],
        scores: *const T,
        strides: [isize; 3],
        ignored: i64,
    ) -> Picks<T> {
        Picks {
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
        .hint("Classes count from zero and are as many as the scores; ignore_index leaves one value out.")
}

fn cpu(args: &Args, results: &[Tensor]) -> Result<()> {
    let input = args.tensor(0)?;
    let reduction = Reduction::of_code(args.int(3)?);
    let sizes = three(input.sizes());
    let source = plain(input, input.dtype())?;
    let strides = [sizes[1] * sizes[2], sizes[2], 1];
    let prepared = Prepared::new(args)?;
    let (scores, pins) = (source.storage().pin()?, prepared.pin()?);
    let (out, total) = (results[0].storage().pin()?, results[1].storage().pin()?);
    dispatch!(input.dtype(), T in [f32, f64, f16_, bf16_] => {
        let picks = prepared.picks::<T>(&pins, sizes, element(&scores, &source), strides, args.int(4)?);
        let each = (reduction == Reduction::None).then(|| out.as_ptr().cast::<T>());
        // SAFETY: operands are pinned, contiguous and of the sizes that `infer` checked; results are fresh.
        unsafe {
            let sums = picks.losses(each).map_err(out_of_bounds)?;
            total.as_ptr().cast::<T>().write(T::from_scalar(sums.weights.into()));
            match reduction {
                Reduction::None => {}
                Reduction::Sum => out.as_ptr().cast::<T>().write(T::from_scalar(sums.losses.into())),
                Reduction::Mean => out.as_ptr().cast::<T>().write(T::from_scalar((sums.losses / sums.weights).into())),
            }
        }
        Ok(())
    }, else => Err(crate::call::not_implemented(args.row, input.dtype())))
}

fn backward(args: &Args, results: &[Tensor]) -> Result<()> {
    let out = &results[0];
    create::fill(out, rushlight_core::Scalar::ZERO)?;
    let reduction = Reduction::of_code(args.int(3)?);
    let sizes = three(out.sizes());
    let prepared = Prepared::new(args)?;
    let grads = plain(args.tensor(0)?, out.dtype())?;
    let total = crate::convert::item(args.tensor(5)?)?.f64();
    let (pin, pins, target) = (grads.storage().pin()?, prepared.pin()?, out.storage().pin()?);
    dispatch!(out.dtype(), T in [f32, f64, f16_, bf16_] => {
        let picks = prepared.picks::<T>(&pins, sizes, std::ptr::null(), [0; 3], args.int(4)?);
        let grads = element::<T>(&pin, &grads) as usize;
        // SAFETY: as in the forward; a gradient for each target, or one for all.
        let grad = |index: usize| unsafe { (*(grads as *const T).add(index)).to_scalar().f64() };
        // SAFETY: see above.
        unsafe {
            match reduction {
                Reduction::None => picks.scatter(target.as_ptr().cast(), grad),
                Reduction::Sum => picks.scatter(target.as_ptr().cast(), |_| grad(0)),
                Reduction::Mean => picks.scatter(target.as_ptr().cast(), |_| grad(0) / total),
            }
        }
        .map_err(out_of_bounds)
    }, else => Err(crate::call::not_implemented(args.row, out.dtype())))
}
