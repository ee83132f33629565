//! Any geometry over a tensor's storage.

use rushlight_autograd::Tensor;
use rushlight_core::layout::to_dims;
use rushlight_core::{Error, Layout, Result};

use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::value::{Args, Ints, Value};
use crate::view::embed::embed_at;

pub static AS_STRIDED: Row = Row {
    name: "as_strided",
    node: "in_place=AsStridedBackward1",
    variants: Variants::BOTH.union(Variants::INPLACE).union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
    doc: "A view of the storage with any sizes and strides (counted in elements, possibly negative).

The view must stay within the storage. Elements that several indices name are summed in backward.

    >>> torch.as_strided(torch.arange(4), (3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])",
    dtypes: DTypes::ALL,
    traits: Traits::SEES_MEMORY,
    run: Run::View(layout),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, scatter)]),
    samples: &["t(6), (2, 3), (3, 1)", "t(6), (3,), (2,), 1", "t(4), (3, 2), (1, 1)", "t(2, 3).t(), (2,), (2,)"],
    errors: &[
        ("t(4), (2,), (1, 1)", "RuntimeError", "mismatch in length of strides and shape"),
        ("t(4), (2,), (1,), -1", "RuntimeError", "Tensor: invalid storage offset -1"),
        ("t(4), (5,), (1,)", "RuntimeError", "setStorage: sizes [5], strides [1], storage offset 0"),
    ],
    reference: "np.lib.stride_tricks.as_strided(self.ravel()[storage_offset or 0:], size, [step * self.itemsize for step in stride]) if stride[0] > 0 and self.ndim == 1 else None",
    ..Row::BASE
};

fn layout(args: &Args) -> Result<Layout> {
    let own = args.tensor(0)?;
    let (sizes, strides) = (to_dims(args.ints(1)?), to_dims(args.ints(2)?));
    let offset = args.optional_int(3).map_or(own.layout().offset, |offset| offset as isize);
    check(own, Layout { sizes, strides, offset })
}

/// Refuses a geometry that leaves the storage.
pub fn check(own: &Tensor, layout: Layout) -> Result<Layout> {
    use rushlight_core::layout::Shape;
    if layout.sizes.len() != layout.strides.len() {
        return Err(Error::runtime("mismatch in length of strides and shape").hint(format!(
            "There are {} sizes and {} strides.",
            layout.sizes.len(),
            layout.strides.len()
        )));
    }
    if layout.offset < 0 {
        return Err(Error::runtime(format!("Tensor: invalid storage offset {}", layout.offset))
            .hint("The offset counts elements from the beginning of the storage, from 0 on."));
    }
    rushlight_core::layout::checked_numel(&layout.sizes)?;
    let bytes = own.storage().len();
    let held = (bytes / own.dtype().size()) as isize;
    // The last sample of a mapped tensor has to fit too.
    let steps = own.axes().iter().map(|axis| axis.stride.saturating_mul(axis.size - 1));
    let (before, behind) = steps.fold((0isize, 0isize), |(low, high), step| {
        (low.saturating_add(step.min(0)), high.saturating_add(step.max(0)))
    });
    let fits = match layout.checked_span() {
        Some(Some((low, high))) => low.saturating_add(before) >= 0 && high.saturating_add(behind) < held,
        Some(None) => true,
        None => false,
    };
    if fits {
        return Ok(layout);
    }
    Err(Error::runtime(format!(
        "setStorage: sizes {}, strides {}, storage offset {}, and itemsize {} requiring a storage size of {} are out of bounds for storage of size {bytes}",
        Shape(&layout.sizes),
        Shape(&layout.strides),
        layout.offset,
        own.dtype().size(),
        layout
            .checked_span()
            .flatten()
            .map_or(0, |(_, high)| high.saturating_add(1).saturating_mul(own.dtype().size() as isize)),
    )).hint("Take fewer elements, smaller strides or a smaller offset: the last element must lie within the storage."))
}

/// The same view of another tensor whose storage the geometry fits.
pub fn as_strided(tensor: &Tensor, layout: &Layout) -> Result<Tensor> {
    let ints = |dims: &[isize]| Value::Ints(dims.iter().map(|&n| n as i64).collect::<Ints>());
    AS_STRIDED.tensor([tensor.into(), ints(&layout.sizes), ints(&layout.strides), Value::Int(layout.offset as i64)])
}

/// Each element goes back to its place in the storage, meets there what other indices of the same place bring, and the
/// input's own geometry reads it. Where several of the input's indices share a place they share its gradient.
fn scatter(d: &Derive) -> Expr {
    let Some(facts) = d.facts(0) else { return Expr::Nothing };
    let own = facts.layout();
    let (sizes, strides) = (to_dims(d.ints(1)), to_dims(d.ints(2)));
    let view = Layout { sizes, strides, offset: d.args.optional_int(3).map_or(own.offset, |offset| offset as isize) };
    let reach = |layout: &Layout| layout.span().unwrap_or((layout.offset, layout.offset));
    let ((a, b), (c, e)) = (reach(&own), reach(&view));
    let (low, high) = (a.min(c), b.max(e));
    let moved = |layout: &Layout| Layout { offset: layout.offset - low, ..layout.clone() };
    let held = [high - low + 1];
    let mut flat = embed_at(d.grad(), &held, &moved(&view));
    if own.overlaps() {
        let one = crate::create::full(&own.sizes, rushlight_core::Scalar::ONE, facts.dtype, facts.device);
        flat = flat / embed_at(Expr::new(one), &held, &moved(&own));
    }
    match flat.done().and_then(|flat| as_strided(&flat, &moved(&own))) {
        Ok(grad) => Expr::from(grad),
        Err(error) => Expr::failed(error),
    }
}
