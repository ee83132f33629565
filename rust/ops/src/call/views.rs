//! The calls whose results are the operand's own memory, seen otherwise.

use rushlight_autograd::{Meta, Tensor};
use rushlight_core::{Error, Layout, Result};

use super::call;
use crate::derive::Derivative;
use crate::node;
use crate::value::{Args, Output, Value};

pub fn view(layout: fn(&Args) -> Result<Layout>, args: &Args) -> Result<Output> {
    let base = args.tensor(0)?;
    let layout = layout(args)?;
    layout.checked_bytes(base.dtype().size())?;
    let view = Tensor::view_of(base, layout);
    node::record(args, Output::Tensor(view))
}

/// The tensor itself takes another geometry (`t_`, `squeeze_`).
pub fn reshape_in_place(layout: fn(&Args) -> Result<Layout>, args: &Args) -> Result<Output> {
    let own = args.tensor(0)?;
    let layout = layout(args)?;
    layout.checked_bytes(own.dtype().size())?;
    let change = node::Change::begin_geometry(args)?;
    let meta = own.meta_with(layout);
    crate::host::replace_meta(own, meta);
    match change {
        Some(change) => change.finish(),
        // A view's history is made anew from its base's, by geometry, once the version has moved on.
        None => {
            own.bump_version();
            Ok(Output::Tensor(own.clone()))
        }
    }
}

pub fn retype(form: fn(&Args) -> Result<Meta>, args: &Args) -> Result<Output> {
    let base = args.tensor(0)?;
    let mut meta = form(args)?;
    meta.layout.checked_bytes(meta.dtype.size())?;
    if base.is_mapped() && meta.dtype.size() != base.dtype().size() {
        meta = restepped(meta, base)?;
    }
    if let Derivative::NonDifferentiable(_) = args.row.derivative {
        return Ok(Output::Tensor(base.detach_as(meta)));
    }
    let kept = args.keep();
    let replay = move |base: &Tensor| {
        let mut args = kept.clone();
        args.values[0] = Value::Own(base.clone());
        call(args)?.into_tensor()
    };
    let view = Tensor::view_with(base, meta, std::sync::Arc::new(replay));
    node::record(args, Output::Tensor(view))
}

/// The distances between samples, counted in elements of another size.
#[cold]
fn restepped(meta: Meta, base: &Tensor) -> Result<Meta> {
    let (before, now) = (base.dtype().size() as isize, meta.dtype.size() as isize);
    let mut axes = base.axes().to_vec();
    for axis in &mut axes {
        let bytes = axis.stride * before;
        if bytes % now != 0 {
            return Err(Error::runtime(format!(
                "self.storage_offset() must be divisible by {} to view {} as {} (different element sizes), but samples lie {} apart",
                now / before,
                base.dtype().title(),
                meta.dtype.title(),
                axis.stride
            )));
        }
        axis.stride = bytes / now;
    }
    Ok(meta.with_axes(axes))
}

pub fn views(layouts: fn(&Args) -> Result<Vec<Layout>>, args: &Args) -> Result<Output> {
    let base = args.tensor(0)?;
    let layouts = layouts(args)?;
    for layout in &layouts {
        layout.checked_bytes(base.dtype().size())?;
    }
    let views = layouts.into_iter().map(|layout| Tensor::view_of_many(base, layout)).collect();
    node::record(args, Output::List(views))
}
