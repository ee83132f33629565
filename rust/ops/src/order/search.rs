//! Where values belong in a sorted line.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::order;

use crate::derive::Derivative;
use crate::mapped::Mapped;
use crate::operands::{plain, settle, workplace};
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::Args;

const POSITIONS: Out = Out::new(
    Accepts::Same,
    &[
        "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 flag is True, but we got output tensor's dtype {Out}",
    ],
);
const WHY: Derivative = Derivative::NonDifferentiable("its result is a place");

/// A row whose search a function reads out of the arguments.
macro_rules! search {
    ($read:ident) => {
        Run::Kernel(Kernel {
            infer: |args| Search::$read(args)?.infer(),
            cpu: |args, results| Search::$read(args)?.run(&results[0]),
        })
    };
}

pub static SEARCHSORTED: Row = Row {
    name: "searchsorted",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    doc: "The places where elements of `input` would go into sorted lines so that these stay sorted; before equal elements, or with `right` behind them.

    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
    tensor([1, 3])",
    out: POSITIONS,
    dtypes: DTypes::REAL,
    mapped: Mapped::Rule(super::mapped::searchsorted),
    run: search!(searchsorted),
    derivative: WHY,
    samples: &["torch.tensor([1., 3., 5.]), t(2, 3)", "torch.tensor([[1., 3.], [2., 2.]]), t(2, 5), right=True"],
    errors: &[("t(), t(2)", "RuntimeError", "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"), ("t(2, 3), t(3, 3)", "RuntimeError", "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor [2, 3] and input value tensor [3, 3]"), ("t(2, 3), t(2, 3), side='middle'", "RuntimeError", "torch.searchsorted(): side can only be 'left' or 'right' but got middle"), ("t(3), t(2), right=True, side='left'", "RuntimeError", "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True")],
    reference: "np.searchsorted(sorted_sequence, self, 'right' if right else 'left') if sorted_sequence.ndim == 1 else None",
    ..Row::BASE
};

pub static SEARCHSORTED_SCALAR: Row = Row {
    name: "searchsorted.Scalar",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    doc: "The place where a number would go into a sorted line.

    >>> torch.searchsorted(torch.tensor([1, 3, 5]), 4)
    tensor(2)",
    out: POSITIONS,
    dtypes: DTypes::REAL,
    mapped: Mapped::Rule(super::mapped::searchsorted),
    run: search!(searchsorted),
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
    ..Row::BASE
};

pub static BUCKETIZE: Row = Row {
    name: "bucketize",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    doc: "The number of the interval between `boundaries` in which each element lies.

    >>> torch.bucketize(torch.tensor([3., 6.]), torch.tensor([1., 3., 5.]))
    tensor([1, 3])",
    out: POSITIONS,
    dtypes: DTypes::REAL,
    mapped: Mapped::Rule(super::mapped::bucketize),
    run: search!(bucketize),
    derivative: WHY,
    samples: &["t(2, 3), torch.tensor([-1., 0., 1.])"],
    errors: &[("t(3), t(2, 2)", "RuntimeError", "boundaries tensor must be 1 dimension, but got dim(2)")],
    reference: "np.searchsorted(boundaries, self, 'right' if right else 'left')",
    ..Row::BASE
};

pub static BUCKETIZE_SCALAR: Row = Row {
    name: "bucketize.Scalar",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    doc: "The number of the interval between `boundaries` in which a number lies.

    >>> torch.bucketize(3, torch.tensor([1, 3, 5]))
    tensor(1)",
    out: POSITIONS,
    dtypes: DTypes::REAL,
    mapped: Mapped::Rule(super::mapped::bucketize),
    run: search!(bucketize),
    derivative: WHY,
    samples: &["3, torch.tensor([1, 3, 5])"],
    reference: "np.searchsorted(boundaries, self, 'right' if right else 'left')",
    ..Row::BASE
};

/// What is searched, where, and how.
struct Search {
    sorted: Tensor,
    values: Tensor,
    /// Behind equal elements.
    right: bool,
    int32: bool,
    sorter: Option<Tensor>,
}

/// The tensor at `place`, or the number there in a dtype that fits beside `other`: floats among integers stay floats.
pub fn value(args: &Args, place: usize, other: &Tensor) -> Result<Tensor> {
    if let Some(tensor) = args.optional_tensor(place) {
        return Ok(tensor.clone());
    }
    let number = args.scalar(place)?;
    let mut state = crate::promote::State::default();
    state.tensor(other.dtype(), 1)?;
    state.number(number)?;
    crate::create::scalar_of(number, state.result()?, other.device())
}

impl Search {
    fn searchsorted(args: &Args) -> Result<Search> {
        let sorted = args.tensor(0)?;
        let right = match (args.bool(3)?, args.optional_str(4)) {
            (right, None) => right,
            (_, Some("right")) => true,
            (false, Some("left")) => false,
            (true, Some("left")) => {
                return Err(Error::runtime(
                    "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True",
                ).hint("Leave one of them out: side='right' is right=True."));
            }
            (_, Some(other)) => {
                return Err(Error::runtime(format!(
                    "torch.searchsorted(): side can only be 'left' or 'right' but got {other}"
                )));
            }
        };
        Ok(Search {
            sorted: sorted.clone(),
            values: value(args, 1, sorted)?,
            right,
            int32: args.bool(2)?,
            sorter: args.optional_tensor(5).cloned(),
        })
    }

    fn bucketize(args: &Args) -> Result<Search> {
        let boundaries = args.tensor(1)?;
        if boundaries.rank() != 1 {
            return Err(Error::runtime(format!(
                "boundaries tensor must be 1 dimension, but got dim({})",
                boundaries.rank()
            )));
        }
        Ok(Search {
            sorted: boundaries.clone(),
            values: value(args, 0, boundaries)?,
            right: args.bool(3)?,
            int32: args.bool(2)?,
            sorter: None,
        })
    }

    fn infer(&self) -> Result<Vec<Spec>> {
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
                    sorter.dtype().title()
                )));
            }
        }
        let dtype = if self.int32 { DType::I32 } else { DType::I64 };
        Ok(vec![Spec::new(own, dtype, &self.values)])
    }

    /// Tells of operands that are copied before the search.
    fn note_copies(&self) -> Result<()> {
        macro_rules! note {
            ($operand:literal, $tensor:expr) => {
                if !$tensor.layout().is_contiguous() {
                    crate::warn_once!(concat!(
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
            sorted = crate::op!(crate::index::gather::GATHER, &sorted.detach(), -1i64, sorter)?;
        }
        let values = plain(&self.values, common)?;
        let places = workplace(result, DType::I64)?;
        let (lines, own) = (sorted.sizes(), values.sizes());
        let (line, many) = (lines[lines.len() - 1] as usize, lines.len() > 1);
        let per_line = if many { own[own.len() - 1] as usize } else { values.numel() };
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
