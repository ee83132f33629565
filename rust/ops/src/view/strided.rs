//! Any geometry over a tensor's storage.

use rushlight_autograd::Tensor;
use rushlight_core::layout::to_dims;
use rushlight_core::{Error, Layout, Result};

use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Row, Run};
use crate::value::{Args, Ints, Value};

pub static AS_STRIDED: Row = Row {
    name: "as_strided",
    signature: "(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
    doc: "A view of the storage with any sizes and strides (counted in elements, possibly negative).

The view must stay within the storage. Elements that several indices name are summed in backward.

    >>> torch.as_strided(torch.arange(4), (3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])",
    dtypes: DTypes::ALL,
    run: Run::View(layout),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, scatter)]),
    samples: &["t(6), (2, 3), (3, 1)", "t(6), (3,), (2,), 1", "t(4), (3, 2), (1, 1)"],
    errors: &[("t(4), (5,), (1,)", "RuntimeError", "setStorage: sizes [5], strides [1], storage offset 0")],
    reference: "",
    ..Row::BASE
};

fn layout(args: &Args) -> Result<Layout> {
    let own = args.tensor(0)?;
    let (sizes, strides) = (to_dims(args.ints(1)?), to_dims(args.ints(2)?));
    let offset = args.optional_int(3).map_or(own.layout().offset, |offset| offset as isize);
    check(own, Layout { sizes, strides, offset })
}

/// Refuses a geometry that leaves the storage.
fn check(own: &Tensor, layout: Layout) -> Result<Layout> {
    use rushlight_core::layout::Shape;
    if layout.sizes.len() != layout.strides.len() {
        return Err(Error::runtime(format!(
            "mismatch in length of strides and shape: {} sizes and {} strides",
            layout.sizes.len(),
            layout.strides.len()
        )));
    }
    rushlight_core::layout::checked_numel(&layout.sizes)?;
    let bytes = own.storage().len();
    let held = (bytes / own.dtype().size()) as isize;
    let fits = match layout.checked_span() {
        Some(Some((low, high))) => low >= 0 && high < held,
        Some(None) => layout.offset >= 0,
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
        layout.checked_span().flatten().map_or(0, |(_, high)| high.saturating_add(1).saturating_mul(own.dtype().size() as isize)),
    )))
}

/// The same view of another tensor whose storage the geometry fits.
pub fn as_strided(tensor: &Tensor, layout: &Layout) -> Result<Tensor> {
    let ints = |dims: &[isize]| Value::Ints(dims.iter().map(|&n| n as i64).collect::<Ints>());
    AS_STRIDED.tensor([tensor.into(), ints(&layout.sizes), ints(&layout.strides), Value::Int(layout.offset as i64)])
}

/// The gradient of a view: each element goes back to its place in a tensor like the input, and meets there what other
/// indices of the same place bring.
fn scatter(_d: &Derive) -> Expr {
    Expr::failed(Error::runtime("as_strided: the gradient needs index_put"))
}
