//! Calls whose results are views of the operand's memory.

use rushlight_autograd::{Tensor, TensorMeta};
use rushlight_core::{Error, Layout, Result};

use super::errors::named_in_place;
use crate::node;
use crate::operator::{Args, Derivative};
use crate::value::{Arg, Output, Value};

pub fn view(layout: fn(&Args) -> Result<Layout>, args: &Args) -> Result<Output> {
    let base = args.tensor(Arg::FIRST)?;
    let layout = layout(args)?;
    layout.checked_bytes(base.dtype().size())?;
    let view = Tensor::view_of(base, layout);
    node::record(args, Output::Tensor(view))
}

/// Changes the geometry of the tensor itself (`t_`, `squeeze_`).
pub fn reshape_in_place(layout: fn(&Args) -> Result<Layout>, args: &Args) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    let layout = layout(args).map_err(|error| named_in_place(error, args.op))?;
    layout.checked_bytes(input.dtype().size())?;
    let change = node::InPlaceCall::begin_geometry(args)?;
    let meta = input.meta_with(layout);
    crate::interpreter::replace_meta(input, meta);
    match change {
        Some(change) => change.finish(),
        // Once the version has changed, a view's history is derived again from its base's, by geometry.
        None => {
            input.bump_version();
            Ok(Output::Tensor(input.clone()))
        }
    }
}

pub fn retype(form: fn(&Args) -> Result<TensorMeta>, args: &Args) -> Result<Output> {
    let base = args.tensor(Arg::FIRST)?;
    let mut meta = form(args)?;
    meta.layout.checked_bytes(meta.dtype.size())?;
    if base.is_batched() && meta.dtype.size() != base.dtype().size() {
        meta = restepped(meta, base)?;
    }
    if let Derivative::NonDifferentiable(_) = args.op.derivative {
        return Ok(Output::Tensor(base.detach_as(meta)));
    }
    let stored = args.stored();
    let replay = move |base: &Tensor| {
        let mut args = stored.clone();
        args.set(Arg::FIRST, Value::Own(base.clone()));
        args.call()?.into_tensor()
    };
    let view = Tensor::view_with(base, meta, std::sync::Arc::new(replay));
    node::record(args, Output::Tensor(view))
}

/// The distances between samples, in elements of another size.
#[cold]
fn restepped(meta: TensorMeta, base: &Tensor) -> Result<TensorMeta> {
    let (before, now) = (base.dtype().size() as isize, meta.dtype.size() as isize);
    let mut batch_dims = base.batch_dims().to_vec();
    for axis in &mut batch_dims {
        let bytes = axis.stride * before;
        if bytes % now != 0 {
            return Err(Error::runtime(format!(
                "self.storage_offset() must be divisible by {} to view {} as {} (different element sizes), but samples lie {} apart",
                now / before,
                base.dtype().display_name(),
                meta.dtype.display_name(),
                axis.stride
            )));
        }
        axis.stride = bytes / now;
    }
    Ok(meta.with_batch_dims(batch_dims))
}

pub fn views(layouts: fn(&Args) -> Result<Vec<Layout>>, args: &Args) -> Result<Output> {
    let base = args.tensor(Arg::FIRST)?;
    let layouts = layouts(args)?;
    for layout in &layouts {
        layout.checked_bytes(base.dtype().size())?;
    }
    let views = layouts.into_iter().map(|layout| Tensor::view_of_many(base, layout)).collect();
    node::record(args, Output::List(views))
}
