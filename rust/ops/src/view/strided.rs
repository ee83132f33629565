//! Views of any geometry over a tensor's storage, and the gradients of all views: elements written back to their positions
//! in a tensor of zeros.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::{Device, Error, Layout, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, Operator, Saves, Tags,
    TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::sparse::dense;
use rushlight_dispatch::value::{Arg, Ints, Output, Value, sizes_value};
use rushlight_dispatch::{copy, create, op};

use crate::expr_ext::ExprExt;

#[operator]
pub static AS_STRIDED: Operator = Operator {
    name: "as_strided",
    node: "in_place=AsStridedBackward1",
    variants: Variants::BOTH.union(Variants::INPLACE).union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
    doc: "A view of the storage with any sizes and strides (counted in elements, possibly negative).

The view must stay within the storage. In backward the gradients of indices that share an element are summed.

    >>> torch.as_strided(torch.arange(4), (3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])",
    dtypes: DTypes::ALL,
    tags: Tags::STRIDE_DEPENDENT,
    implementation: Implementation::View(layout),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, scatter)]),
    samples: &["t(6), (2, 3), (3, 1)", "t(6), (3,), (2,), 1", "t(4), (3, 2), (1, 1)", "t(2, 3).t(), (2,), (2,)"],
    errors: &[
        ("t(4), (2,), (1, 1)", "RuntimeError", "mismatch in length of strides and shape"),
        ("t(4), (2,), (1,), -1", "RuntimeError", "Tensor: invalid storage offset -1"),
        ("t(4), (5,), (1,)", "RuntimeError", "setStorage: sizes [5], strides [1], storage offset 0"),
    ],
    reference: "np.lib.stride_tricks.as_strided(self.ravel()[storage_offset or 0:], size, [step * self.itemsize for step in stride]) if stride[0] > 0 and self.ndim == 1 else None",
    ..Operator::BASE
};

fn layout(args: &Args) -> Result<Layout> {
    use AS_STRIDED::*;

    let input = args.tensor(INPUT)?;
    let (sizes, strides) = (to_dims(args.ints(SIZE)?), to_dims(args.ints(STRIDE)?));
    let offset = args.optional_int(STORAGE_OFFSET).map_or(input.layout().offset, |offset| offset as isize);
    if sizes.len() == strides.len() && sizes.iter().any(|&size| size < 0) {
        return Err(Error::runtime(format!(
            "Storage size calculation overflowed with sizes={} and strides={}",
            Shape(&sizes),
            Shape(&strides)
        )));
    }
    let layout = Layout { sizes, strides, offset };
    // The last sample of a batched tensor must fit too.
    let samples = input.batch_dims().iter().map(|axis| (axis.size, axis.stride));
    layout.check_within(input.storage().len(), input.dtype().size(), samples).map_err(|error| {
        // torch has no negative strides at all.
        match layout.sizes.len() == layout.strides.len() && layout.strides.iter().any(|&stride| stride < 0) {
            true => Error::runtime(format!(
                "as_strided: Negative strides are not supported at the moment, got strides: {}",
                Shape(&layout.strides)
            ))
            .hint("Here they are, as long as the view stays within the storage."),
            false => error,
        }
    })?;
    Ok(layout)
}

/// The same view of another tensor whose storage the geometry fits.
pub fn as_strided(tensor: &Tensor, layout: &Layout) -> Result<Tensor> {
    let ints = |dims: &[isize]| Value::Ints(dims.iter().map(|&n| n as i64).collect::<Ints>());
    AS_STRIDED.tensor([tensor.into(), ints(&layout.sizes), ints(&layout.strides), Value::Int(layout.offset as i64)])
}

/// Each element is added at its position in the storage, together with those of other indices of the same position, and
/// is read by the input's own geometry. If several of the input's indices share a position they share its gradient.
fn scatter(d: &BackwardContext) -> Expr {
    use AS_STRIDED::*;

    let Some(meta) = d.meta(INPUT) else { return Expr::Nothing };
    let own = meta.layout();
    let (sizes, strides) = (to_dims(d.ints(SIZE)), to_dims(d.ints(STRIDE)));
    let view = Layout {
        sizes,
        strides,
        offset: d.args.optional_int(STORAGE_OFFSET).map_or(own.offset, |offset| offset as isize),
    };
    let reach = |layout: &Layout| layout.span().unwrap_or((layout.offset, layout.offset));
    let ((a, b), (c, e)) = (reach(&own), reach(&view));
    let (low, high) = (a.min(c), b.max(e));
    let moved = |layout: &Layout| Layout { offset: layout.offset - low, ..layout.clone() };
    let held = [high - low + 1];
    let mut flat = embed_at(d.grad(), &held, &moved(&view));
    if own.overlaps() {
        let one = create::full(&own.sizes, rushlight_core::Scalar::ONE, meta.dtype, meta.device);
        flat = flat / embed_at(Expr::new(one), &held, &moved(&own));
    }
    match flat.done().and_then(|flat| as_strided(&flat, &moved(&own))) {
        Ok(grad) => Expr::from(grad),
        Err(error) => Expr::failed(error),
    }
}

/// Zeros, with the gradient added to a view of them. It serves every view whose elements are some of its input's.
#[operator]
pub static EMBED: Operator = Operator {
    name: "_embed",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] size, int[] stride, int storage_offset) -> Tensor",
    doc: "Zeros of shape `size`, with the elements of `self` added to the view with `stride` and `storage_offset`.

    >>> torch._embed(torch.tensor([1., 2.]), (2, 2), (3,), 0)
    tensor([[1., 0.],
            [0., 2.]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (input, whole) = (args.tensor(INPUT)?, to_dims(args.ints(SIZE)?));
            let held = rushlight_core::layout::checked_numel(&whole)? as isize;
            let place = place(args)?;
            let fits = place.sizes.len() == place.strides.len()
                && match place.checked_span() {
                    Some(Some((low, high))) => low >= 0 && high < held,
                    Some(None) => true,
                    None => false,
                };
            if !fits {
                return Err(Error::runtime(format!("_embed: places outside of a tensor of {held} elements")));
            }
            Ok(vec![TensorSpec::new(&whole, input.dtype(), input)])
        },
        |args, results| {
            let (input, whole) = (args.tensor(INPUT)?, &results[0]);
            create::fill(whole, rushlight_core::Scalar::ZERO)?;
            let place = place(args)?;
            if place.overlaps() && matches!(input.device(), Device::Cuda(_)) {
                return add_at(whole, &place, input);
            }
            if place.overlaps() {
                copy::accumulate(whole, &place, input)
            } else {
                copy::copy_to_view(whole, &place, input)
            }
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        let grad = match d.grad().done().and_then(|grad| crate::convert::contiguous(&grad)) {
            Ok(grad) => grad,
            Err(error) => return Expr::failed(error),
        };
        let offset = grad.layout().offset as i64 + d.int(STORAGE_OFFSET);
        let strides = Value::Ints(d.ints(STRIDE).into());
        Expr::from(grad).call(&AS_STRIDED, [sizes_value(d.sizes(INPUT)), strides, Value::Int(offset)])
    })]),
    batch_rule: BatchRule::Custom(in_each),
    samples: &["t(2), (2, 2), (3,), 0", "t(3, 2), (4,), (1, 1), 0"],
    ..Operator::BASE
};

/// Adds elements to a view of a row-major tensor, in which elements may repeat, at the numbers of the view's elements.
fn add_at(whole: &Tensor, place: &Layout, input: &Tensor) -> Result<()> {
    let numbers = create::from_slice(&(0..whole.numel() as i64).collect::<Vec<_>>())?;
    let numbers = crate::convert::to_device(&numbers, whole.device())?;
    let numbers = crate::convert::contiguous(&Tensor::view_of(&numbers, place.clone()))?;
    let flat = |tensor: &Tensor| op!(super::RESHAPE, tensor.detach(), sizes_value(&[-1]));
    let sum =
        Expr::from(flat(whole)?).index_put_add(vec![flat(&numbers)?], Ints::from_slice(&[0]), flat(input)?).done()?;
    copy::copy(&flat(whole)?, &sum)
}

/// The zeros of the samples are contiguous.
fn in_each(batch: &BatchedCall) -> Result<Option<Output>> {
    use EMBED::*;

    let (size, stride) = (batch.args.ints(SIZE)?, batch.args.ints(STRIDE)?);
    let held: i64 = size.iter().product();
    if batch.size == 0 || held == 0 {
        return Ok(None);
    }
    let (sizes, strides) = ([&[batch.size as i64], size].concat(), [&[held], stride].concat());
    op!(EMBED, batch.tensor(INPUT)?, &sizes[..], &strides[..], batch.args.int(STORAGE_OFFSET)?)
        .map(|all| Some(Output::Tensor(all)))
}

/// The view of the elements in a row-major result.
fn place(args: &Args) -> Result<Layout> {
    let (sizes, strides) = (args.tensor(EMBED::INPUT)?.sizes().clone(), to_dims(args.ints(EMBED::STRIDE)?));
    Ok(Layout { sizes, strides, offset: args.int(EMBED::STORAGE_OFFSET)? as isize })
}

/// The gradient of a view: `geometry` gives the view within its input.
pub fn embed(d: &BackwardContext, geometry: fn(&Layout, &Args) -> Result<Layout>) -> Expr {
    match geometry(&Layout::contiguous(d.sizes(Arg::FIRST)), d.args) {
        Ok(place) => {
            // A slice of a sparse tensor may have a sparse gradient.
            let grad = Expr::new(d.grad().done().and_then(|grad| dense(&grad)));
            embed_at(grad, d.sizes(Arg::FIRST), &place)
        }
        Err(error) => Expr::failed(error),
    }
}

/// A gradient's elements at `place` in row-major zeros of `sizes`.
pub fn embed_at(grad: Expr, sizes: &[isize], place: &Layout) -> Expr {
    grad.call(&EMBED, [sizes_value(sizes), sizes_value(&place.strides), Value::Int(place.offset as i64)])
}
