//! Other sizes for the same elements in the same order.

use rushlight_autograd::{Tensor, TensorMeta};
use rushlight_core::layout::{Shape, infer_size};
use rushlight_core::{DType, Error, Layout, Result};
use rushlight_dispatch::node::is_tracked;
use rushlight_dispatch::operator::{
    Args, BatchRule, BatchedCall, DTypes, Derivative, ExplicitAutograd, Implementation, Kernel, Operator, Saves, Tags,
    TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Ints, Output, sizes_value};
use rushlight_dispatch::{copy, op};

use crate::convert::CLONE;

#[operator]
pub static VIEW: Operator = Operator {
    name: "view",
    variants: Variants::METHOD,
    signature: "(Tensor self, int[] size) -> Tensor",
    doc: "The same elements with another shape, without a copy.

One size may be -1 and is inferred. The strides must allow it: each new dimension must lie within one old dimension,
or within old ones that are contiguous in memory.

    >>> torch.arange(6).view(2, 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])",
    dtypes: DTypes::ALL,
    tags: Tags::STRIDE_DEPENDENT.union(Tags::KEEPS_CHANNELS),
    implementation: Implementation::View(layout),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        d.grad().call(&RESHAPE, [sizes_value(d.sizes(INPUT))])
    })]),
    samples: &["t(2, 3), (3, 2)", "t(2, 3), (-1,)", "t(4), (2, 1, 2)", "t(0, 3), (3, 0)"],
    errors: &[("t(2, 3), (4, 2)", "RuntimeError", "shape '[4, 2]' is invalid for input of size 6")],
    reference: "np.reshape(self, size)",
    ..Operator::BASE
};

#[operator]
pub static RESHAPE: Operator = Operator {
    name: "reshape",
    signature: "(Tensor self, int[] shape) -> Tensor",
    doc: "The same elements with another shape: a view if the strides allow it, else a copy.

    >>> torch.arange(6).reshape(3, -1)
    tensor([[0, 1],
            [2, 3],
            [4, 5]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let tensor = args.tensor(INPUT)?;
        if tensor.is_sparse() && tensor.compressed_parts().is_none() {
            return Err(Error::runtime("reshape is not implemented for sparse tensors").hint("Use x.to_dense() first."));
        }
        let sizes = infer_size(args.ints(SHAPE)?, tensor.numel())?;
        if tensor.layout().view_strides(&sizes).is_some() {
            return VIEW.call([tensor.into(), sizes_value(&sizes)]);
        }
        // Composed of the parts that torch's graph shows.
        if is_tracked(args) && !tensor.is_batched() {
            let copy = op!(CLONE, tensor, "contiguous_format")?;
            return UNSAFE_VIEW.call([copy.into(), sizes_value(&sizes)]);
        }
        COPIED.call([tensor.into(), sizes_value(&sizes)])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), (3, 2)", "t(2, 3), (-1,)", "t(2, 3).t(), (6,)"],
    errors: &[("t(2, 3), (4, 2)", "RuntimeError", "shape '[4, 2]' is invalid for input of size 6")],
    reference: "np.reshape(self, shape)",
    ..Operator::BASE
};

/// Reshapes a tensor that is not shared.
pub fn reshaped_fresh(fresh: &Tensor, sizes: Ints) -> Result<Tensor> {
    let own = infer_size(&sizes, fresh.numel())?;
    if fresh.layout().view_strides(&own).is_some() {
        op!(UNSAFE_VIEW, fresh, sizes)
    } else {
        op!(RESHAPE, fresh, sizes)
    }
}

/// Another shape over the memory of a tensor that is not shared, so the result is not a view of it.
#[operator]
pub static UNSAFE_VIEW: Operator = Operator {
    name: "_unsafe_view",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] size) -> Tensor",
    doc: "The same memory with another shape, not recorded as a view: autograd does not track in-place changes across the two.

    >>> torch._unsafe_view(torch.tensor([[1, 2], [3, 4]]), (4,))
    tensor([1, 2, 3, 4])",
    dtypes: DTypes::ALL,
    tags: Tags::STRIDE_DEPENDENT,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let input = args.tensor(INPUT)?;
        Ok(Output::Tensor(Tensor::with_meta(input.meta_with(layout(args)?))))
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        d.grad().call(&RESHAPE, [sizes_value(d.sizes(INPUT))])
    })]),
    samples: &["t(2, 3), (6,)"],
    reference: "np.reshape(self, size)",
    ..Operator::BASE
};

/// `reshape` for strides that allow no view, as one operator.
#[operator]
pub static COPIED: Operator = Operator {
    name: "_reshape_copy",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] size) -> Tensor",
    doc: "A row-major copy with another shape.

    >>> torch._reshape_copy(torch.tensor([[1, 2], [3, 4]]).t(), (4,))
    tensor([1, 3, 2, 4])",
    dtypes: DTypes::ALL,
    batch_rule: BatchRule::Custom(reshaped),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            Ok(vec![TensorSpec::new(&infer_size(args.ints(SIZE)?, input.numel())?, input.dtype(), input)])
        },
        |args, results| {
            let input = args.tensor(INPUT)?;
            copy::copy_to_view(&results[0], &Layout::contiguous(input.sizes()), input)
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        d.grad().call(&RESHAPE, [sizes_value(d.sizes(INPUT))])
    })]),
    samples: &["t(2, 3).t(), (6,)"],
    reference: "np.reshape(self, size)",
    ..Operator::BASE
};

#[operator]
pub static VIEW_DTYPE: Operator = Operator {
    name: "view.dtype",
    variants: Variants::METHOD,
    signature: "(Tensor self, ScalarType dtype) -> Tensor",
    doc: "The same bytes interpreted as another dtype; the last dimension shrinks or grows if the element sizes differ.

    >>> torch.tensor([1., -2.]).view(torch.int32)
    tensor([ 1065353216, -1073741824], dtype=torch.int32)",
    dtypes: DTypes::ALL,
    tags: Tags::STRIDE_DEPENDENT,
    implementation: Implementation::ViewDtype(|args| {
        let input = args.tensor(INPUT)?;
        let dtype = args.dtype(DTYPE).unwrap_or(input.dtype());
        if input.is_lazy_conj() {
            let kind =
                if input.dtype().is_complex() { "conjugate view tensors" } else { "tensors with negative bit set" };
            return Err(Error::runtime(format!(
                "torch.Tensor.view is not supported for {kind} when converting to a different dtype."
            ))
            .hint("Use x.resolve_conj() or x.resolve_neg() to get a tensor that stores its elements."));
        }
        let layout =
            retyped(input.layout(), input.dtype().size() as isize, dtype.size() as isize, input.dtype(), dtype)?;
        Ok(TensorMeta { dtype, ..input.meta_with(layout) })
    }),
    derivative: Derivative::NonDifferentiable("its result has the bits of another dtype"),
    samples: &["t(2, 4), torch.uint8"],
    ..Operator::BASE
};

/// The geometry of the same bytes with elements of another size.
fn retyped(own: &Layout, old: isize, new: isize, from: DType, to: DType) -> Result<Layout> {
    let mut view = own.clone();
    if old == new {
        return Ok(view);
    }
    let fail = |text: String| Err(Error::runtime(text));
    let Some(last) = own.rank().checked_sub(1) else {
        return fail(format!(
            "self.dim() cannot be 0 to view {} as {} (different element sizes)",
            from.display_name(),
            to.display_name()
        ));
    };
    if own.strides[last] != 1 && own.sizes[last] != 1 {
        return fail(format!(
            "self.stride(-1) must be 1 to view {} as {} (different element sizes), but got {}",
            from.display_name(),
            to.display_name(),
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
            from.display_name(),
            to.display_name(),
            own.sizes[last]
        ));
    }
    if own.offset % factor != 0 {
        return fail(format!(
            "self.storage_offset() must be divisible by {factor} to view {} as {} (different element sizes), but got {}",
            from.display_name(),
            to.display_name(),
            own.offset
        ));
    }
    for dim in 0..last {
        if own.strides[dim] % factor != 0 {
            return fail(format!(
                "self.stride({dim}) must be divisible by {factor} to view {} as {} (different element sizes), but got {}",
                from.display_name(),
                to.display_name(),
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

fn layout(args: &Args) -> Result<Layout> {
    let tensor = args.tensor(VIEW::INPUT)?;
    let sizes = infer_size(args.ints(VIEW::SIZE)?, tensor.numel())?;
    match tensor.layout().view_strides(&sizes) {
        Some(strides) => Ok(Layout { sizes, strides, offset: tensor.layout().offset }),
        None => Err(Error::runtime(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
        )
        .hint(format!("sizes {}, strides {}, requested sizes {}", Shape(tensor.sizes()), Shape(&tensor.layout().strides), Shape(&sizes)))),
    }
}

/// A single tensor as an `Output`, for composite operators.
pub fn one(tensor: Tensor) -> Result<Output> {
    Ok(Output::Tensor(tensor))
}

/// The same sizes after those of the batch.
fn reshaped(batch: &BatchedCall) -> Result<Option<Output>> {
    use COPIED::*;

    let sizes: Ints = std::iter::once(batch.size as i64).chain(batch.args.ints(SIZE)?.iter().copied()).collect();
    op!(COPIED, batch.tensor(INPUT)?, sizes).map(|tensor| Some(Output::Tensor(tensor)))
}
