//! Other sizes for the same elements in the same order.

use rushlight_autograd::{Meta, Tensor};
use rushlight_core::layout::{Shape, infer_size};
use rushlight_core::{DType, Error, Layout, Result};

use crate::convert::CLONE;
use crate::derive::{Derivative, Saves, formula};
use crate::mapped::{Batch, Mapped};
use crate::node::is_watched;
use crate::op;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Traits, Variants};
use crate::value::{Args, Ints, Output, Value};

pub static VIEW: Row = Row {
    name: "view",
    variants: Variants::METHOD,
    signature: "(Tensor self, int[] size) -> Tensor",
    doc: "The same elements under another shape, without a copy.

One size may be -1 and is worked out. The strides must allow it: each new dimension has to lie within one old dimension,
or within old ones that follow each other in memory.

    >>> torch.arange(6).view(2, 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])",
    dtypes: DTypes::ALL,
    traits: Traits::SEES_MEMORY,
    run: Run::View(layout),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        d.grad().call(&RESHAPE, [sizes_value(d.sizes(0))])
    })]),
    samples: &["t(2, 3), (3, 2)", "t(2, 3), (-1,)", "t(4), (2, 1, 2)", "t(0, 3), (3, 0)"],
    errors: &[("t(2, 3), (4, 2)", "RuntimeError", "shape '[4, 2]' is invalid for input of size 6")],
    reference: "np.reshape(self, size)",
    ..Row::BASE
};

pub static RESHAPE: Row = Row {
    name: "reshape",
    signature: "(Tensor self, int[] shape) -> Tensor",
    doc: "The same elements under another shape: a view where the strides allow it, else a copy.

    >>> torch.arange(6).reshape(3, -1)
    tensor([[0, 1],
            [2, 3],
            [4, 5]])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let tensor = args.tensor(0)?;
        let sizes = infer_size(args.ints(1)?, tensor.numel())?;
        if tensor.layout().view_strides(&sizes).is_some() {
            return VIEW.call([tensor.into(), sizes_value(&sizes)]);
        }
        // In the parts that torch's graph shows.
        if is_watched(args) && !tensor.is_mapped() {
            let copy = op!(CLONE, tensor, "contiguous_format")?;
            return UNSAFE_VIEW.call([copy.into(), sizes_value(&sizes)]);
        }
        COPIED.call([tensor.into(), sizes_value(&sizes)])
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), (3, 2)", "t(2, 3), (-1,)", "t(2, 3).t(), (6,)"],
    errors: &[("t(2, 3), (4, 2)", "RuntimeError", "shape '[4, 2]' is invalid for input of size 6")],
    reference: "np.reshape(self, shape)",
    ..Row::BASE
};

/// What nobody else reads under another shape.
pub fn reshaped_fresh(fresh: &Tensor, sizes: Ints) -> Result<Tensor> {
    let own = infer_size(&sizes, fresh.numel())?;
    if fresh.layout().view_strides(&own).is_some() {
        op!(UNSAFE_VIEW, fresh, sizes)
    } else {
        op!(RESHAPE, fresh, sizes)
    }
}

/// Another shape over the memory of something that nobody else reads, and so no view of it.
pub static UNSAFE_VIEW: Row = Row {
    name: "_unsafe_view",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] size) -> Tensor",
    doc: "The same memory under another shape, without being a view: nobody follows changes of one in the other.

    >>> torch._unsafe_view(torch.tensor([[1, 2], [3, 4]]), (4,))
    tensor([1, 2, 3, 4])",
    dtypes: DTypes::ALL,
    traits: Traits::SEES_MEMORY,
    run: Run::Body(|args| {
        let own = args.tensor(0)?;
        Ok(Output::Tensor(Tensor::with_meta(own.meta_with(layout(args)?))))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        d.grad().call(&RESHAPE, [sizes_value(d.sizes(0))])
    })]),
    samples: &["t(2, 3), (6,)"],
    reference: "np.reshape(self, size)",
    ..Row::BASE
};

/// `reshape` where the strides allow no view, at once.
pub static COPIED: Row = Row {
    name: "_reshape_copy",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] size) -> Tensor",
    doc: "A row-major copy under another shape.

    >>> torch._reshape_copy(torch.tensor([[1, 2], [3, 4]]).t(), (4,))
    tensor([1, 3, 2, 4])",
    dtypes: DTypes::ALL,
    mapped: Mapped::Rule(reshaped),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            Ok(vec![Spec::new(&infer_size(args.ints(1)?, own.numel())?, own.dtype(), own)])
        },
        cpu: |args, results| {
            let own = args.tensor(0)?;
            crate::copy::copy_to_view(&results[0], &Layout::contiguous(own.sizes()), own)
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        d.grad().call(&RESHAPE, [sizes_value(d.sizes(0))])
    })]),
    samples: &["t(2, 3).t(), (6,)"],
    reference: "np.reshape(self, size)",
    ..Row::BASE
};

pub static VIEW_DTYPE: Row = Row {
    name: "view.dtype",
    variants: Variants::METHOD,
    signature: "(Tensor self, ScalarType dtype) -> Tensor",
    doc: "The same bytes read as another dtype; the last dimension shrinks or grows where the sizes of the elements differ.

    >>> torch.tensor([1., -2.]).view(torch.int32)
    tensor([ 1065353216, -1073741824], dtype=torch.int32)",
    dtypes: DTypes::ALL,
    traits: Traits::SEES_MEMORY,
    run: Run::Retype(|args| {
        let own = args.tensor(0)?;
        let dtype = args.dtype(1).unwrap_or(own.dtype());
        if own.is_mirrored() {
            let kind = if own.dtype().is_complex() { "conjugate view tensors" } else { "tensors with negative bit set" };
            return Err(Error::runtime(format!(
                "torch.Tensor.view is not supported for {kind} when converting to a different dtype."
            ))
            .hint("x.resolve_conj() and x.resolve_neg() give tensors whose bytes are what they show."));
        }
        let layout = retyped(own.layout(), own.dtype().size() as isize, dtype.size() as isize, own.dtype(), dtype)?;
        Ok(Meta { dtype, ..own.meta_with(layout) })
    }),
    derivative: Derivative::NonDifferentiable("other bits are other numbers"),
    samples: &["t(2, 4), torch.uint8"],
    ..Row::BASE
};

/// The geometry of the same bytes in elements of another size.
fn retyped(own: &Layout, old: isize, new: isize, from: DType, to: DType) -> Result<Layout> {
    let mut view = own.clone();
    if old == new {
        return Ok(view);
    }
    let fail = |text: String| Err(Error::runtime(text));
    let Some(last) = own.rank().checked_sub(1) else {
        return fail(format!(
            "self.dim() cannot be 0 to view {} as {} (different element sizes)",
            from.title(),
            to.title()
        ));
    };
    if own.strides[last] != 1 && own.sizes[last] != 1 {
        return fail(format!(
            "self.stride(-1) must be 1 to view {} as {} (different element sizes), but got {}",
            from.title(),
            to.title(),
            own.strides[last]
        ));
    }
    if old > new {
        let factor = old / new;
        view = own.parts(factor);
        view.strides[last] = 1;
        view.sizes[last] = view.sizes[last]
            .checked_mul(factor)
            .ok_or_else(|| Error::runtime("numel: integer multiplication overflow"))?;
        return Ok(view);
    }
    let factor = new / old;
    if own.sizes[last] % factor != 0 {
        return fail(format!(
            "self.size(-1) must be divisible by {factor} to view {} as {} (different element sizes), but got {}",
            from.title(),
            to.title(),
            own.sizes[last]
        ));
    }
    if own.offset % factor != 0 {
        return fail(format!(
            "self.storage_offset() must be divisible by {factor} to view {} as {} (different element sizes), but got {}",
            from.title(),
            to.title(),
            own.offset
        ));
    }
    for dim in 0..last {
        if own.strides[dim] % factor != 0 {
            return fail(format!(
                "self.stride({dim}) must be divisible by {factor} to view {} as {} (different element sizes), but got {}",
                from.title(),
                to.title(),
                own.strides[dim]
            ));
        }
        view.strides[dim] /= factor;
    }
    view.strides[last] = 1;
    view.sizes[last] /= factor;
    view.offset /= factor;
    Ok(view)
}

/// Sizes as an argument.
pub fn sizes_value(sizes: &[isize]) -> Value<'static> {
    Value::Ints(sizes.iter().map(|&size| size as i64).collect::<Ints>())
}

fn layout(args: &Args) -> Result<Layout> {
    let tensor = args.tensor(0)?;
    let sizes = infer_size(args.ints(1)?, tensor.numel())?;
    match tensor.layout().view_strides(&sizes) {
        Some(strides) => Ok(Layout { sizes, strides, offset: tensor.layout().offset }),
        None => Err(Error::runtime(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
        )
        .hint(format!("sizes {}, strides {}, wanted {}", Shape(tensor.sizes()), Shape(&tensor.layout().strides), Shape(&sizes)))),
    }
}

/// An `Output` that is one tensor, for bodies that compose.
pub fn one(tensor: Tensor) -> Result<Output> {
    Ok(Output::Tensor(tensor))
}

/// The same sizes behind those of the batch.
fn reshaped(batch: &Batch) -> Result<Option<Output>> {
    let sizes: Ints = std::iter::once(batch.size as i64).chain(batch.args.ints(1)?.iter().copied()).collect();
    op!(COPIED, batch.tensor(0)?, sizes).map(|tensor| Some(Output::Tensor(tensor)))
}
