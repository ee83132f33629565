//! `resize_`: other sizes for the tensor itself.

use rushlight_core::{Error, Result};

use super::sizes;
use crate::derive::Derivative;
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::{Args, Output};

const BASE: Row = Row {
    variants: Variants::METHOD,
    dtypes: DTypes::ALL,
    derivative: Derivative::NonDifferentiable("it changes the tensor itself, which must not require a gradient"),
    ..Row::BASE
};

fn resize(args: &Args, sizes: &[isize]) -> Result<Output> {
    let own = args.tensor(0)?;
    if own.requires_grad() {
        return Err(Error::runtime("cannot resize variables that require grad"));
    }
    if own.sizes().as_slice() != sizes {
        crate::variants::resize(own, sizes)?;
    }
    Ok(Output::Tensor(own.clone()))
}

pub static RESIZE_: Row = Row {
    name: "resize_",
    signature: "(Tensor self, int[] size, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "Gives the tensor another size, row-major, in place; its storage grows where it must.

    >>> x = torch.arange(4)
    >>> x.resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])",
    run: Run::Compose(|args| resize(args, &sizes(args, 1)?)),
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
    run: Run::Compose(|args| resize(args, args.tensor(1)?.sizes())),
    ..BASE
};
