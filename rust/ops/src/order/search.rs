//! Positions of values in a sorted line.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_cpu::order;
use rushlight_cuda::search::Search as Positions;
use rushlight_dispatch::operands::{plain, settle, workplace};
use rushlight_dispatch::operator::{
    Accepts, Args, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, Operator, Out, TensorSpec,
    Variants, operator,
};
use rushlight_dispatch::promote::PromotionState;
use rushlight_dispatch::value::{Arg, Output, Value, sizes_value};
use rushlight_dispatch::vmap::RuleResult;
use rushlight_dispatch::{create, op, warn_once};

use super::on_cuda;
use crate::convert::copy::CONTIGUOUS;
use crate::index::on_cuda::first_outside;
use crate::view::RESHAPE;
use crate::view::expand::EXPAND;

const POSITIONS: Out = Out::new(
    Accepts::Same,
    &[
        "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 flag is True, but we got output tensor's dtype {Out} and out_int32 flag is {Int}",
    ],
);
const WHY: Derivative = Derivative::NonDifferentiable("its result is an index");

/// An operator whose search a function reads from the arguments.
macro_rules! search {
    ($read:ident) => {
        Implementation::Kernel(Kernel::on_any_device(
            |args| Search::$read(args)?.infer(),
            |args, results| Search::$read(args)?.run(&results[0]),
        ))
    };
}

#[operator]
pub static SEARCHSORTED: Operator = Operator {
    name: "searchsorted",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    doc: "The indices at which elements of `input` would be inserted into sorted lines to keep them sorted; before equal elements, or with `right` after them.

    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
    tensor([1, 3])",
    out: POSITIONS,
    dtypes: DTypes::REAL,
    batch_rule: BatchRule::Custom(batched_searchsorted),
    implementation: search!(searchsorted),
    derivative: WHY,
    samples: &["torch.tensor([1., 3., 5.]), t(2, 3)", "torch.tensor([[1., 3.], [2., 2.]]), t(2, 5), right=True"],
    errors: &[("t(), t(2)", "RuntimeError", "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"), ("t(2, 3), t(3, 3)", "RuntimeError", "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor [2, 3] and input value tensor [3, 3]"), ("t(2, 3), t(2, 3), side='middle'", "RuntimeError", "torch.searchsorted(): side can only be 'left' or 'right' but got middle"), ("t(3), t(2), right=True, side='left'", "RuntimeError", "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True")],
    reference: "np.searchsorted(sorted_sequence, self, 'right' if right else 'left') if sorted_sequence.ndim == 1 else None",
    ..Operator::BASE
};

#[operator]
pub static SEARCHSORTED_SCALAR: Operator = Operator {
    name: "searchsorted.Scalar",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    doc: "The index at which a number would be inserted into a sorted line.

    >>> torch.searchsorted(torch.tensor([1, 3, 5]), 4)
    tensor(2)",
    out: POSITIONS,
    dtypes: DTypes::REAL,
    batch_rule: BatchRule::Custom(batched_searchsorted),
    implementation: search!(searchsorted),
    derivative: WHY,
    samples: &["torch.tensor([1., 3., 5.]), 3"],
    errors: &[
        (
            "t(2, 3), 1",
            "RuntimeError",
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim(2) and input value's dim(0) numel(1)",
        ),
        (
            "t(3), 1, side='middle'",
            "RuntimeError",
            "torch.searchsorted(): side can only be 'left' or 'right' but got middle",
        ),
    ],
    reference: "np.searchsorted(sorted_sequence, self, 'right' if right else 'left')",
    ..Operator::BASE
};

#[operator]
pub static BUCKETIZE: Operator = Operator {
    name: "bucketize",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    doc: "The index of the interval between `boundaries` in which each element lies.

    >>> torch.bucketize(torch.tensor([3., 6.]), torch.tensor([1., 3., 5.]))
    tensor([1, 3])",
    out: POSITIONS,
    dtypes: DTypes::REAL,
    batch_rule: BatchRule::Custom(batched_bucketize),
    implementation: search!(bucketize),
    derivative: WHY,
    samples: &["t(2, 3), torch.tensor([-1., 0., 1.])"],
    errors: &[("t(3), t(2, 2)", "RuntimeError", "boundaries tensor must be 1 dimension, but got dim(2)")],
    reference: "np.searchsorted(boundaries, self, 'right' if right else 'left')",
    ..Operator::BASE
};

#[operator]
pub static BUCKETIZE_SCALAR: Operator = Operator {
    name: "bucketize.Scalar",
    variants: Variants::FUNCTION,
    signature: "(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    doc: "The index of the interval between `boundaries` in which a number lies.

    >>> torch.bucketize(3, torch.tensor([1, 3, 5]))
    tensor(1)",
    dtypes: DTypes::REAL,
    batch_rule: BatchRule::Custom(batched_bucketize),
    implementation: search!(bucketize),
    derivative: WHY,
    samples: &["3, torch.tensor([1, 3, 5])"],
    reference: "np.searchsorted(boundaries, self, 'right' if right else 'left')",
    ..Operator::BASE
};

/// The operands and options of a search.
struct Search {
    sorted: Tensor,
    values: Tensor,
    /// After equal elements.
    right: bool,
    int32: bool,
    sorter: Option<Tensor>,
}

/// A tensor argument, or a number in a dtype that matches `other`: floats with integers stay floats.
fn value(args: &Args, arg: Arg, other: &Tensor) -> Result<Tensor> {
    if let Some(tensor) = args.optional_tensor(arg) {
        return Ok(tensor.clone());
    }
    let number = args.scalar(arg)?;
    let mut state = PromotionState::default();
    state.tensor(other.dtype(), 1)?;
    state.number(number)?;
    create::scalar_of(number, state.result()?, other.device())
}

impl Search {
    fn searchsorted(args: &Args) -> Result<Search> {
        use SEARCHSORTED::*;

        let sorted = args.tensor(SORTED_SEQUENCE)?;
        let right = match (args.bool(RIGHT)?, args.optional_str(SIDE)) {
            (right, None) => right,
            (_, Some("right")) => true,
            (false, Some("left")) => false,
            (true, Some("left")) => {
                return Err(Error::runtime(
                    "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True",
                ).hint("Omit one of them: side='right' is the same as right=True."));
            }
            (_, Some(other)) => {
                return Err(Error::runtime(format!(
                    "torch.searchsorted(): side can only be 'left' or 'right' but got {other}"
                )));
            }
        };
        Ok(Search {
            sorted: sorted.clone(),
            values: value(args, INPUT, sorted)?,
            right,
            int32: args.bool(OUT_INT32)?,
            sorter: args.optional_tensor(SORTER).cloned(),
        })
    }

    fn bucketize(args: &Args) -> Result<Search> {
        use BUCKETIZE::*;

        let boundaries = args.tensor(BOUNDARIES)?;
        if boundaries.rank() != 1 {
            return Err(Error::runtime(format!(
                "boundaries tensor must be 1 dimension, but got dim({})",
                boundaries.rank()
            )));
        }
        Ok(Search {
            sorted: boundaries.clone(),
            values: value(args, INPUT, boundaries)?,
            right: args.bool(RIGHT)?,
            int32: args.bool(OUT_INT32)?,
            sorter: None,
        })
    }

    fn infer(&self) -> Result<Vec<TensorSpec>> {
        let (lines, own) = (self.sorted.sizes(), self.values.sizes());
        if own.is_empty() && lines.len() != 1 {
            return Err(Error::runtime(format!(
                "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim({}) and input value's dim(0) numel(1)",
                lines.len()
            )));
        }
        if lines.is_empty() {
            return Err(Error::runtime(
                "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension",
            ));
        }
        let head = |sizes: &rushlight_core::Dims| sizes.len().saturating_sub(1);
        if lines.len() > 1 && (lines.len() != own.len() || lines[..head(lines)] != own[..head(own)]) {
            return Err(Error::runtime(format!(
                "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor {} and input value tensor {}",
                Shape(lines),
                Shape(own)
            )));
        }
        if let Some(sorter) = &self.sorter {
            if sorter.sizes() != lines {
                return Err(Error::runtime(format!(
                    "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {}and got sorter tensor {}",
                    Shape(lines),
                    Shape(sorter.sizes())
                )));
            }
            if sorter.dtype() != DType::I64 {
                return Err(Error::runtime(format!(
                    "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
                    sorter.dtype().display_name()
                )));
            }
        }
        let dtype = if self.int32 { DType::I32 } else { DType::I64 };
        Ok(vec![TensorSpec::new(own, dtype, &self.values)])
    }

    /// Warns about operands that are copied before the search.
    fn note_copies(&self) -> Result<()> {
        macro_rules! note {
            ($operand:literal, $tensor:expr) => {
                if !$tensor.layout().is_contiguous() {
                    warn_once!(concat!(
                        "torch.searchsorted(): ",
                        $operand,
                        " tensor is non-contiguous, this will lower the performance due to extra data copy when converting non-contiguous tensor to contiguous, please use contiguous ",
                        $operand,
                        " tensor if possible. This message will only appear once per program."
                    ))?;
                }
            };
        }
        note!("input value", self.values);
        note!("boundary", self.sorted);
        if let Some(sorter) = &self.sorter {
            note!("sorter", sorter);
        }
        Ok(())
    }

    fn run(&self, result: &Tensor) -> Result<()> {
        self.note_copies()?;
        let common = rushlight_core::dtype::promote(self.sorted.dtype(), self.values.dtype())?;
        let mut sorted = plain(&self.sorted, common)?;
        if let Some(sorter) = &self.sorter {
            let size = self.sorted.sizes().last().copied().unwrap_or(0) as i64;
            let outside = match sorter.device() {
                Device::Cuda(_) => first_outside(&plain(sorter, DType::I64)?, size as isize)?.is_some(),
                _ => crate::convert::to_vec::<i64>(sorter)?.iter().any(|place| !(0..size).contains(place)),
            };
            if outside {
                return Err(Error::runtime("torch.searchsorted(): sorter index out of range"));
            }
            sorted = op!(crate::index::gather::GATHER, &sorted.detach(), -1i64, sorter)?;
        }
        let values = plain(&self.values, common)?;
        let places = workplace(result, DType::I64)?;
        let (lines, own) = (sorted.sizes(), values.sizes());
        let (line, many) = (lines[lines.len() - 1] as usize, lines.len() > 1);
        let per_line = if many { own[own.len() - 1] as usize } else { values.numel() };
        if let Device::Cuda(_) = values.device() {
            if !DTypes::REAL.has(common) {
                return Err(Error::unsupported("searchsorted_out_cpu", common));
            }
            let what = Positions { count: values.numel(), length: line, per_line, right: self.right };
            on_cuda::positions(&sorted, &values, &places, what)?;
            return settle(&places, result);
        }
        let (from, at, target) = (sorted.storage().pin()?, values.storage().pin()?, places.storage().pin()?);
        let first = |pin: &rushlight_core::storage::Pin, tensor: &Tensor| {
            pin.as_ptr().wrapping_offset(tensor.layout().offset * common.size() as isize).cast_const()
        };
        let how = order::Search { line, per_line, right: self.right };
        // SAFETY: all are contiguous and of these lengths.
        let ordered = unsafe {
            order::search(
                common,
                first(&from, &sorted),
                first(&at, &values),
                target.as_ptr().cast(),
                values.numel(),
                &how,
            )
        };
        if !ordered {
            return Err(Error::unsupported("searchsorted_out_cpu", common));
        }
        settle(&places, result)
    }
}

/// The elements of each sample in a line; a number, or a tensor that is not batched, is repeated in every line.
pub fn lines(shown: &Tensor, size: isize) -> Result<Tensor> {
    let whole = if shown.rank() == 0 { op!(EXPAND, shown, sizes_value(&[size]))? } else { shown.clone() };
    op!(CONTIGUOUS, op!(RESHAPE, whole, sizes_value(&[size, -1]))?)
}

/// A result of lines in the shape of a sample's operand.
pub fn shaped(batch: &BatchedCall, lines: Tensor, arg: Arg) -> RuleResult {
    let mut sizes = vec![batch.size];
    sizes.extend_from_slice(batch.args.optional_tensor(arg).map_or(&[][..], |own| own.sizes()));
    op!(RESHAPE, lines, sizes_value(&sizes)).map(|found| Some(Output::Tensor(found)))
}

/// One shared line accepts values of any shape; otherwise each sample has its own lines.
fn batched_searchsorted(batch: &BatchedCall) -> RuleResult {
    use SEARCHSORTED::*;

    let args = batch.args;
    let own = args.tensor(SORTED_SEQUENCE)?;
    let shared = own.rank() == 1 && !batch.differs_at(SORTED_SEQUENCE) && !batch.differs_at(SORTER);
    if batch.size == 0 || (shared && !args.has_tensor(INPUT)) {
        return Ok(None);
    }
    let mut shown = args.clone();
    if shared {
        for arg in [SORTED_SEQUENCE, SORTER].into_iter().filter(|&arg| args.has_tensor(arg)) {
            shown.set(arg, Value::Own(batch.one(arg)?));
        }
        shown.set(INPUT, Value::Own(batch.tensor(INPUT)?));
        return shown.call().map(Some);
    }
    let dense = |tensor: Tensor| op!(CONTIGUOUS, tensor).map(Value::Own);
    let values = value(args, INPUT, own)?;
    shown.op = &SEARCHSORTED;
    shown.set(SORTED_SEQUENCE, dense(batch.tensor(SORTED_SEQUENCE)?)?);
    if args.has_tensor(SORTER) {
        shown.set(SORTER, dense(batch.tensor(SORTER)?)?);
    }
    let values = match own.rank() {
        1 => Value::Own(lines(&if args.has_tensor(INPUT) { batch.physical(&values) } else { values }, batch.size)?),
        _ => dense(batch.physical(&values))?,
    };
    shown.set(INPUT, values);
    shaped(batch, shown.call()?.into_tensor()?, INPUT)
}

/// The same with the operands exchanged.
fn batched_bucketize(batch: &BatchedCall) -> RuleResult {
    use BUCKETIZE::*;

    let args = batch.args;
    let shared = !batch.differs_at(BOUNDARIES);
    if batch.size == 0 || (shared && !args.has_tensor(INPUT)) {
        return Ok(None);
    }
    if shared {
        let mut shown = args.clone();
        shown.set(INPUT, Value::Own(batch.tensor(INPUT)?));
        shown.set(BOUNDARIES, Value::Own(batch.one(BOUNDARIES)?));
        return shown.call().map(Some);
    }
    let values = value(args, INPUT, args.tensor(BOUNDARIES)?)?;
    let values = lines(&if args.has_tensor(INPUT) { batch.physical(&values) } else { values }, batch.size)?;
    let lines = op!(CONTIGUOUS, batch.tensor(BOUNDARIES)?)?;
    shaped(batch, op!(SEARCHSORTED, lines, values, args.bool(OUT_INT32)?, args.bool(RIGHT)?)?, INPUT)
}
