//! Where gradients of views come from: elements put back at their places in a tensor of zeros.

use rushlight_core::layout::to_dims;
use rushlight_core::{Error, Layout, Result};

use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::{Batch, Mapped};
use crate::op;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Output, Value};
use crate::view::reshape::sizes_value;
use crate::view::strided::AS_STRIDED;

/// Zeros, to the view of which the gradient is added. It serves every view whose elements are some of its input's.
pub static EMBED: Row = Row {
    name: "_embed",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] size, int[] stride, int storage_offset) -> Tensor",
    doc: "Zeros of shape `size`, in which the elements of `self` are added at the places that `stride` and `storage_offset` name.

    >>> torch._embed(torch.tensor([1., 2.]), (2, 2), (3,), 0)
    tensor([[1., 0.],
            [0., 2.]])",
    dtypes: DTypes::ALL,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, whole) = (args.tensor(0)?, to_dims(args.ints(1)?));
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
            Ok(vec![Spec::new(&whole, own.dtype(), own)])
        },
        cpu: |args, results| {
            let (own, whole) = (args.tensor(0)?, &results[0]);
            crate::create::fill(whole, rushlight_core::Scalar::ZERO)?;
            let place = place(args)?;
            if place.overlaps() {
                crate::copy::accumulate(whole, &place, own)
            } else {
                crate::copy::copy_to_view(whole, &place, own)
            }
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        let grad = match d.grad().done().and_then(|grad| crate::convert::contiguous(&grad)) {
            Ok(grad) => grad,
            Err(error) => return Expr::failed(error),
        };
        let offset = grad.layout().offset as i64 + d.int(3);
        let strides = Value::Ints(d.ints(2).into());
        Expr::from(grad).call(&AS_STRIDED, [sizes_value(d.sizes(0)), strides, Value::Int(offset)])
    })]),
    mapped: Mapped::Rule(in_each),
    samples: &["t(2), (2, 2), (3,), 0", "t(3, 2), (4,), (1, 1), 0"],
    ..Row::BASE
};

/// The samples are zeros one behind the other.
fn in_each(batch: &Batch) -> Result<Option<Output>> {
    let (size, stride) = (batch.args.ints(1)?, batch.args.ints(2)?);
    let held: i64 = size.iter().product();
    if batch.size == 0 || held == 0 {
        return Ok(None);
    }
    let (sizes, strides) = ([&[batch.size as i64], size].concat(), [&[held], stride].concat());
    op!(EMBED, batch.tensor(0)?, &sizes[..], &strides[..], batch.args.int(3)?).map(|all| Some(Output::Tensor(all)))
}

/// Where the elements go, in elements of a row-major result.
fn place(args: &Args) -> Result<Layout> {
    let (sizes, strides) = (args.tensor(0)?.sizes().clone(), to_dims(args.ints(2)?));
    Ok(Layout { sizes, strides, offset: args.int(3)? as isize })
}

/// The gradient of a view: `geometry` says where the view lies in its input.
pub fn embed(d: &Derive, geometry: fn(&Layout, &Args) -> Result<Layout>) -> Expr {
    match geometry(&Layout::contiguous(d.sizes(0)), d.args) {
        Ok(place) => {
            // The part of a sparse tensor may have a sparse gradient.
            let grad = Expr::new(d.grad().done().and_then(|grad| crate::sparse::convert::dense(&grad)));
            embed_at(grad, d.sizes(0), &place)
        }
        Err(error) => Expr::failed(error),
    }
}

/// A gradient's elements at `place` in row-major zeros of `sizes`.
pub fn embed_at(grad: Expr, sizes: &[isize], place: &Layout) -> Expr {
    grad.call(&EMBED, [sizes_value(sizes), sizes_value(&place.strides), Value::Int(place.offset as i64)])
}
