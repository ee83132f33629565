//! `resize_`: changes the sizes of the tensor itself.

use rushlight_core::layout::{checked_numel, numel_overflow};
use rushlight_core::memory_format::{channels_last_format, strides};
use rushlight_core::{Error, Layout, Result};
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, Implementation, Operator, Sparse, Tags, Variants, operator,
};
use rushlight_dispatch::value::Output;
use rushlight_dispatch::{deterministic, interpreter, variants};

const BASE: Operator = Operator {
    variants: Variants::METHOD,
    dtypes: DTypes::ALL,
    sparse: Sparse::CompositeImplicit,
    derivative: Derivative::NonDifferentiable("it changes the tensor itself, which must not require a gradient"),
    ..Operator::BASE
};

fn resize(args: &Args, sizes: &[isize], format: Option<&str>) -> Result<Output> {
    let input = args.tensor(RESIZE_::INPUT)?;
    if input.requires_grad() && !rushlight_autograd::modes::inference_enabled() {
        return Err(variants::resized_history());
    }
    if input.sizes().as_slice() != sizes {
        checked_numel(sizes)?;
        let before = input.storage().len();
        variants::resize(input, Layout::contiguous(sizes))?;
        if input.storage().len() > before {
            deterministic::fill_grown(input, before)?;
        }
    } else if format.is_none() {
        return Ok(Output::Tensor(input.clone()));
    }
    if format.is_some() {
        let layout = Layout { strides: strides(sizes, format, None)?, ..input.layout().clone() };
        let meta = input.meta_with(layout);
        // The strides are dense, so the layout reaches as far as before.
        interpreter::replace_meta(input, meta);
    }
    input.bump_version();
    Ok(Output::Tensor(input.clone()))
}

#[operator]
pub static RESIZE_: Operator = Operator {
    name: "resize_",
    signature: "(Tensor self, int[] size, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "Changes the tensor's size in place, row-major; its storage grows if necessary.

    >>> x = torch.arange(4)
    >>> x.resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])",
    tags: Tags::STRIDE_DEPENDENT,
    implementation: Implementation::CompositeImplicit(|args| match args.optional_str(MEMORY_FORMAT) {
        Some("preserve_format") => Err(Error::runtime("Unsupported memory formatPreserve")
            .hint("Omit memory_format, or use torch.contiguous_format or torch.channels_last.")),
        format => {
            let sizes: Vec<isize> = args.ints(SIZE)?.iter().map(|&size| size as isize).collect();
            if sizes.iter().any(|size| *size < 0) && !sizes.contains(&0) {
                return Err(numel_overflow(&sizes));
            }
            resize(args, &sizes, format)
        }
    }),
    samples: &[
        "t(2, 3), (3, 2)",
        "t(6), (2, 2)",
        "t(2, 3), (0,)",
        "t(2, 3, 1, 2), (1, 3, 2, 2), memory_format=torch.channels_last",
    ],
    errors: &[
        ("torch.ones(2, requires_grad=True), (3,)", "RuntimeError", "cannot resize variables that require grad"),
        (
            "torch.empty(2), (3,), memory_format=torch.channels_last",
            "RuntimeError",
            "required rank 4 tensor to use channels_last format",
        ),
        (
            "torch.empty(2), (2,), memory_format=torch.preserve_format",
            "RuntimeError",
            "Unsupported memory formatPreserve",
        ),
    ],
    reference: "np.resize(self, size) if memory_format is None else np.resize(self, [size[d] for d in (0, 2, 3, 1)]).transpose(0, 3, 1, 2)",
    ..BASE
};

#[operator]
pub static RESIZE_AS_: Operator = Operator {
    name: "resize_as_",
    variants: Variants::BOTH,
    signature: "(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "Changes the tensor's size to that of another one, in place.

    >>> torch.arange(4).resize_as_(torch.ones(2, 2))
    tensor([[0, 1],
            [2, 3]])",
    tags: Tags::STRIDE_DEPENDENT.union(Tags::MIXED_DEVICES),
    implementation: Implementation::CompositeImplicit(|args| {
        let template = args.tensor(THE_TEMPLATE)?;
        match args.optional_str(MEMORY_FORMAT) {
            Some("preserve_format") => resize(args, template.sizes(), channels_last_format(template.layout())),
            format => resize(args, template.sizes(), format),
        }
    }),
    samples: &["t(2, 3), t(3, 2)", "t(6), t(2, 2)"],
    errors: &[("torch.ones(2, requires_grad=True), t(3)", "RuntimeError", "cannot resize variables that require grad")],
    reference: "np.resize(self, the_template.shape)",
    ..BASE
};
