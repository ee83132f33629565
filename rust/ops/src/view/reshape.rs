//! Other sizes for the same elements in the same order.

use rushlight_core::layout::{Shape, infer_size};
use rushlight_core::{Error, Layout, Result};

use crate::derive::{Derivative, Saves, formula};
use crate::row::{DTypes, Row, Run, Variants};
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
    run: Run::View(layout),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        d.grad().call(&RESHAPE, [sizes_value(d.sizes(0))])
    })]),
    samples: &["t(2, 3), (3, 2)", "t(2, 3), -1", "t(4), (2, 1, 2)", "t(0, 3), (3, 0)"],
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
        let source;
        let tensor = match tensor.layout().view_strides(&sizes) {
            Some(_) => tensor,
            None => {
                source = crate::convert::contiguous(tensor)?;
                &source
            }
        };
        VIEW.call([tensor.into(), sizes_value(&sizes)])
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), (3, 2)", "t(2, 3), -1", "t(2, 3).t(), (6,)"],
    errors: &[("t(2, 3), (4, 2)", "RuntimeError", "shape '[4, 2]' is invalid for input of size 6")],
    reference: "np.reshape(self, shape)",
    ..Row::BASE
};

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
pub fn one(tensor: rushlight_autograd::Tensor) -> Result<Output> {
    Ok(Output::Tensor(tensor))
}
