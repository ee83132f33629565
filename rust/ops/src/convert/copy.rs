//! Copies into existing memory and into row-major memory: `copy_` and `contiguous`.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::{broadcast, can_expand, hint, transposed, unsqueezed};
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};
use rushlight_dispatch::operator::{
    Args, BatchRule, DTypes, Derivative, Implementation, OnCuda, Operator, Saves, Sparse, Tags, Update, Variants,
    formula, operator,
};
use rushlight_dispatch::value::{Output, Target};
use rushlight_dispatch::{copy, create};

use super::{CLONE, captured};

/// `Tensor.copy_`, which the engine and assignment also use.
#[operator]
pub static COPY: Operator = Operator {
    name: "copy",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Tensor|Scalar other, bool non_blocking=False) -> Tensor",
    doc: "Overwrites the elements with those of `other`, broadcast and cast.

    >>> torch.zeros(2).copy_(torch.tensor([3, 4]))
    tensor([3., 4.])",
    dtypes: DTypes::ALL,
    tags: Tags::MIXED_DEVICES,
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::Broadcast,
    implementation: Implementation::Update(Update {
        check: |args| {
            let input = args.tensor(INPUT)?;
            let from = match args.optional_tensor(OTHER) {
                Some(from) => from,
                None => return crate::convert::note_dropped(args.scalar(OTHER)?.dtype(), input.dtype()),
            };
            // Checked first as two operands, whose error names the target before the source.
            let whole = broadcast(input.sizes(), from.sizes()).map_err(|error| with_hint(error, input, from))?;
            crate::convert::note_dropped(from.dtype(), input.dtype())?;
            if can_expand(from.sizes(), input.sizes()) {
                return Ok(());
            }
            let error = Error::runtime(format!(
                "output with shape {} doesn't match the broadcast shape {}",
                Shape(input.sizes()),
                Shape(&whole)
            ));
            Err(with_hint(error, input, from))
        },
        cpu: overwrite,
        cuda: OnCuda::Own(overwrite),
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, crate::create::fill::nothing),
        formula(OTHER, Saves::NOTHING, |d| super::back_home(d, OTHER)),
    ]),
    node: "torch::autograd::CopyBackwards",
    samples: &["t(2, 3), t(3)", "t(2, 3), 2"],
    errors: &[(
        "t(2, 3), t(4)",
        "RuntimeError",
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    )],
    reference: "np.broadcast_to(other, self.shape)",
    ..Operator::BASE
};

fn overwrite(args: &Args, target: &Tensor) -> Result<()> {
    if let Some(from) = args.optional_tensor(COPY::OTHER) {
        captured::check(target, from)?;
    }
    match args.optional_tensor(COPY::OTHER) {
        Some(from) if args.optional_bool(COPY::NON_BLOCKING) == Some(true) => copy::copy_later(target, from),
        Some(from) => copy::copy(target, from),
        None => create::fill(target, args.scalar(COPY::OTHER)?),
    }
}

/// A hint that makes the source fit; the target is unchanged.
#[cold]
fn with_hint(error: Error, input: &Tensor, from: &Tensor) -> Error {
    let takes = |sizes: &[isize], other: &[isize]| sizes == input.sizes().as_slice() && can_expand(other, sizes);
    let extra = from.rank().saturating_sub(input.rank());
    error.fit(if input.numel() == from.numel() && input.rank() != from.rank() {
        "They have the same number of elements: src.reshape(self.shape) makes the shapes equal.".into()
    } else if let Some(way) = hint([unsqueezed, transposed], [input.sizes(), from.sizes()], ["self", "src"], takes) {
        way
    } else if extra > 0 && can_expand(&from.sizes()[extra..], input.sizes()) {
        "copy_ never changes its tensor's shape: take one part of the source, such as src[0].".into()
    } else {
        "copy_ keeps the shape of its tensor; the source must broadcast to it.".into()
    })
}

/// Overwrites `to` with `from`; recorded.
pub fn copy_(to: &Tensor, from: &Tensor) -> Result<()> {
    overwrite_with(to, from, false)
}

/// `copy_`, which may return before the elements have arrived.
pub fn copy_later_(to: &Tensor, from: &Tensor) -> Result<()> {
    overwrite_with(to, from, true)
}

fn overwrite_with(to: &Tensor, from: &Tensor, non_blocking: bool) -> Result<()> {
    let args = Args::new(&COPY, [to.into(), from.into(), non_blocking.into()]);
    args.call_into(Target::InPlace).map(drop)
}

#[operator]
pub static CONTIGUOUS: Operator = Operator {
    name: "contiguous",
    variants: Variants::METHOD,
    signature: "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "The tensor in row-major memory: itself if it already is, else a copy.

    >>> torch.zeros(2, 3).t().contiguous().stride()
    (2, 1)",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, format) = (args.tensor(INPUT)?, args.optional_str(MEMORY_FORMAT).unwrap_or("contiguous_format"));
        if rushlight_core::memory_format::is_contiguous(input.layout(), Some(format))? {
            return Ok(Output::Tensor(input.clone()));
        }
        CLONE.call([input.into(), format.into()])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t(2, 3).t()"],
    reference: "np.ascontiguousarray(self) if self.ndim else self",
    ..Operator::BASE
};
