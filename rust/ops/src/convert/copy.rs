//! Elements into memory that is there, or into row-major memory: `copy_` and `contiguous`.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::{broadcast, expands, stretched, turned, way_out};
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};

use super::CLONE;
use crate::call::Target;
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::row::{DTypes, Row, Run, Traits, Update, Variants};
use crate::sparse::Sparse;
use crate::value::{Args, Output};

/// `Tensor.copy_`, which also serves the engine and assignment.
pub static COPY: Row = Row {
    name: "copy",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Tensor|Scalar other, bool non_blocking=False) -> Tensor",
    doc: "Overwrites the elements with those of `other`, broadcast and cast.

    >>> torch.zeros(2).copy_(torch.tensor([3, 4]))
    tensor([3., 4.])",
    dtypes: DTypes::ALL,
    traits: Traits::ACROSS_DEVICES,
    sparse: Sparse::Body(crate::sparse::convert::copied),
    mapped: Mapped::Aligned,
    run: Run::Update(Update {
        check: |args| {
            let own = args.tensor(0)?;
            let from = match args.optional_tensor(1) {
                Some(from) => from,
                None => return crate::convert::note_dropped(args.scalar(1)?.dtype(), own.dtype()),
            };
            // First as two operands, whose sentence names the target before the source.
            let whole = broadcast(own.sizes(), from.sizes()).map_err(|error| with_way_out(error, own, from))?;
            crate::convert::note_dropped(from.dtype(), own.dtype())?;
            if expands(from.sizes(), own.sizes()) {
                return Ok(());
            }
            let told = Error::runtime(format!(
                "output with shape {} doesn't match the broadcast shape {}",
                Shape(own.sizes()),
                Shape(&whole)
            ));
            Err(with_way_out(told, own, from))
        },
        cpu: |args, target| match args.optional_tensor(1) {
            Some(from) => crate::copy::copy(target, from),
            None => crate::create::fill(target, args.scalar(1)?),
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |_| Expr::Nothing),
        formula(1, Saves::NOTHING, |d| d.grad()),
    ]),
    node: "torch::autograd::CopyBackwards",
    samples: &["t(2, 3), t(3)", "t(2, 3), 2"],
    errors: &[(
        "t(2, 3), t(4)",
        "RuntimeError",
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    )],
    reference: "np.broadcast_to(other, self.shape)",
    ..Row::BASE
};

/// What lets the source be copied; the target stays as it is.
#[cold]
fn with_way_out(error: Error, own: &Tensor, from: &Tensor) -> Error {
    let takes = |sizes: &[isize], other: &[isize]| sizes == own.sizes().as_slice() && expands(other, sizes);
    let extra = from.rank().saturating_sub(own.rank());
    error.fit(if own.numel() == from.numel() && own.rank() != from.rank() {
        "They have the same number of elements: src.reshape(self.shape) makes the shapes equal.".into()
    } else if let Some(way) = way_out([stretched, turned], [own.sizes(), from.sizes()], ["self", "src"], takes) {
        way
    } else if extra > 0 && expands(&from.sizes()[extra..], own.sizes()) {
        "copy_ never changes its tensor's shape: take one part of the source, such as src[0].".into()
    } else {
        "copy_ keeps the shape of its tensor, to which the source broadcasts.".into()
    })
}

/// Overwrites `to` with `from`, recorded.
pub fn copy_(to: &Tensor, from: &Tensor) -> Result<()> {
    let args = Args::new(&COPY, [to.into(), from.into(), false.into()]);
    crate::call::call_into(args, Target::InPlace).map(drop)
}

pub static CONTIGUOUS: Row = Row {
    name: "contiguous",
    variants: Variants::METHOD,
    signature: "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "The tensor in row-major memory: itself if it already is, else a copy.

    >>> torch.zeros(2, 3).t().contiguous().stride()
    (2, 1)",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let (own, format) = (args.tensor(0)?, args.optional_str(1).unwrap_or("contiguous_format"));
        if rushlight_core::memory_format::is_contiguous(own.layout(), Some(format))? {
            return Ok(Output::Tensor(own.clone()));
        }
        CLONE.call([own.into(), format.into()])
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t(2, 3).t()"],
    reference: "np.ascontiguousarray(self) if self.ndim else self",
    ..Row::BASE
};
