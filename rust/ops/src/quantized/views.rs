//! Parts of a quantised tensor with a scale for each channel: the quantizer of the part.

use std::sync::Arc;

use rushlight_autograd::{Form, Quantizer, Tensor};
use rushlight_core::layout::wrap_dim;
use rushlight_core::{Layout, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{Args, Implementation};
use rushlight_dispatch::quantized::{unsupported, view_with};
use rushlight_dispatch::value::{Arg, Output};

use crate::convert::item;
use crate::view::narrow::{SELECT, SLICE};
use crate::view::split::UNBIND;

/// The layout of the call's view.
fn layout_of(args: &Args) -> Result<Layout> {
    match args.op.implementation {
        Implementation::View(layout) => layout(args),
        _ => Err(unsupported(args)),
    }
}

/// `select`: of a channel the tensor has one scale.
pub fn select(args: &Args) -> Result<Output> {
    let (input, layout) = (args.tensor(SELECT::INPUT)?, layout_of(args)?);
    let Some((scales, zero_points, axis)) = channels(input) else {
        return view_with(args, layout, input.meta().form.clone());
    };
    let dim = wrap_dim(args.int(SELECT::DIM)?, input.rank())?;
    let quantizer = if dim == axis {
        let one = |list: &Tensor| item(&op!(SELECT, list, 0i64, args.int(SELECT::INDEX)?)?);
        Quantizer::PerTensor { scale: one(scales)?.f64(), zero_point: one(zero_points)?.f64() as i64 }
    } else {
        let axis = if dim < axis { axis - 1 } else { axis };
        Quantizer::PerChannel { scales: scales.clone(), zero_points: zero_points.clone(), axis }
    };
    view_with(args, layout, Form::Quantized(Arc::new(quantizer)))
}

/// `x[a:b]`: of some channels the tensor has their scales.
pub fn slice(args: &Args) -> Result<Output> {
    let (input, layout) = (args.tensor(SLICE::INPUT)?, layout_of(args)?);
    let Some((scales, zero_points, axis)) = channels(input) else {
        return view_with(args, layout, input.meta().form.clone());
    };
    if wrap_dim(args.int(SLICE::DIM)?, input.rank())? != axis {
        return view_with(args, layout, input.meta().form.clone());
    }
    let (start, length, step) = (args.int(SLICE::START)?, args.int(SLICE::LENGTH)?, args.int(SLICE::STEP)?);
    let some = |list: &Tensor| op!(SLICE, list, 0i64, start, length, step);
    let quantizer = Quantizer::PerChannel { scales: some(scales)?, zero_points: some(zero_points)?, axis };
    view_with(args, layout, Form::Quantized(Arc::new(quantizer)))
}

/// `unbind`: of each channel the tensor has one scale.
pub fn unbind(args: &Args) -> Result<Output> {
    let input = args.tensor(UNBIND::INPUT)?;
    let dim = wrap_dim(args.int(UNBIND::DIM)?, input.rank())?;
    let one = |index| op!(SELECT, input, dim as i64, index as i64);
    (0..input.sizes()[dim]).map(one).collect::<Result<_>>().map(Output::List)
}

/// Consecutive parts along a dimension.
pub fn split(args: &Args, dim: Arg) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    let Implementation::MultiView(layouts) = args.op.implementation else { return Err(unsupported(args)) };
    let dim = wrap_dim(args.int(dim)?, input.rank())?;
    let mut start = 0;
    let parts = layouts(args)?.into_iter().map(|layout| {
        let length = layout.sizes[dim];
        start += length;
        op!(SLICE, input, dim as i64, (start - length) as i64, length as i64, 1i64)
    });
    parts.collect::<Result<_>>().map(Output::List)
}

fn channels(input: &Tensor) -> Option<(&Tensor, &Tensor, usize)> {
    match &**input.quantizer()? {
        Quantizer::PerChannel { scales, zero_points, axis } => Some((scales, zero_points, *axis)),
        Quantizer::PerTensor { .. } => None,
    }
}
