//! `resize_`: other sizes for the tensor itself.

use rushlight_core::memory_format::{is_contiguous, strides};
use rushlight_core::{Error, Layout, Result};

use super::sizes;
use crate::derive::Derivative;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::value::{Args, Output};

const BASE: Row = Row {
    variants: Variants::METHOD,
    dtypes: DTypes::ALL,
    derivative: Derivative::NonDifferentiable("it changes the tensor itself, which must not require a gradient"),
    ..Row::BASE
};

fn resize(args: &Args, sizes: &[isize], format: Option<&str>) -> Result<Output> {
    let own = args.tensor(0)?;
    if own.is_sparse() {
        return Err(crate::sparse::refused("resize_"));
    }
    if own.requires_grad() {
        return Err(Error::runtime("cannot resize variables that require grad"));
    }
    if own.sizes().as_slice() != sizes {
        crate::variants::resize(own, sizes)?;
    }
    if format.is_some() {
        let layout = Layout { strides: strides(sizes, format, None)?, ..own.layout().clone() };
        let meta = own.meta_with(layout);
        // The strides are dense, so that the layout reaches as far as before.
        crate::host::replace_meta(own, meta);
    }
    own.bump_version();
    Ok(Output::Tensor(own.clone()))
}

/// The memory format whose order the elements have, if it is not the row-major one.
pub fn format_of(layout: &Layout) -> Option<&'static str> {
    let ordered = |format: &&str| is_contiguous(layout, Some(format)).unwrap_or(false);
    ["channels_last", "channels_last_3d"].into_iter().find(|format| !layout.is_contiguous() && ordered(format))
}

pub static RESIZE_: Row = Row {
    name: "resize_",
    signature: "(Tensor self, int[] size, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "Gives the tensor another size, row-major, in place; its storage grows where it must.

    >>> x = torch.arange(4)
    >>> x.resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])",
    traits: Traits::SEES_MEMORY,
    run: Run::Compose(|args| match args.optional_str(2) {
        Some("preserve_format") => Err(Error::runtime("Unsupported memory formatPreserve")
            .hint("Leave memory_format out, or say torch.contiguous_format or torch.channels_last.")),
        format => resize(args, &sizes(args, 1)?, format),
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

pub static RESIZE_AS_: Row = Row {
    name: "resize_as_",
    variants: Variants::BOTH,
    signature: "(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "Gives the tensor the size of another one, in place.

    >>> torch.arange(4).resize_as_(torch.ones(2, 2))
    tensor([[0, 1],
            [2, 3]])",
    traits: Traits::SEES_MEMORY,
    run: Run::Compose(|args| {
        let template = args.tensor(1)?;
        match args.optional_str(2) {
            Some("preserve_format") => resize(args, template.sizes(), format_of(template.layout())),
            format => resize(args, template.sizes(), format),
        }
    }),
    samples: &["t(2, 3), t(3, 2)", "t(6), t(2, 2)"],
    errors: &[("torch.ones(2, requires_grad=True), t(3)", "RuntimeError", "cannot resize variables that require grad")],
    reference: "np.resize(self, the_template.shape)",
    ..BASE
};
