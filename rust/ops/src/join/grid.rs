//! Tensors stretched to one shape, and grids of all combinations.

use rushlight_core::broadcast::broadcast_all;
use rushlight_core::{Error, Result};

use crate::derive::Derivative;
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::{Args, Output};
use crate::view::expand::EXPAND;
use crate::view::reshape::sizes_value;
use crate::{Tensor, op};

pub static BROADCAST_TENSORS: Row = Row {
    name: "broadcast_tensors",
    variants: Variants::FUNCTION,
    signature: "(Tensor[] tensors) -> Tensor[]",
    doc: "Views of all tensors in the shape to which they broadcast.

    >>> torch.broadcast_tensors(torch.tensor([[1], [2]]), torch.tensor([3, 4]))
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let tensors = args.tensors(0)?;
        let sizes = broadcast_all(tensors.iter().map(|tensor| tensor.sizes().as_slice()))?;
        let views = tensors.into_iter().map(|tensor| op!(EXPAND, tensor, sizes_value(&sizes)));
        views.collect::<Result<Vec<_>>>().map(Output::List)
    }),
    derivative: Derivative::Composed,
    samples: &["[t(2, 1), t(3)]"],
    errors: &[(
        "[t(2), t(3)]",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    )],
    reference: "np.broadcast_arrays(*tensors)",
    ..Row::BASE
};

pub static MESHGRID: Row = Row {
    name: "meshgrid",
    variants: Variants::FUNCTION,
    signature: "(Tensor[] tensors, *, str? indexing=None) -> Tensor[]",
    doc: "Coordinates of all points of a grid: view `i` holds the values of vector `i`.

    >>> torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]), indexing='ij')
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let indexing = args.optional_str(1);
        if indexing.is_none() {
            crate::host::warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")?;
        }
        grid(args, indexing.unwrap_or("ij")).map(Output::List)
    }),
    derivative: Derivative::Composed,
    samples: &["[t(2), t(3)], indexing='ij'", "[t(2), t(3), t()], indexing='xy'"],
    errors: &[("[t(2)], indexing='foo'", "RuntimeError", "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: foo")],
    reference: "np.meshgrid(*tensors, indexing=indexing)",
    ..Row::BASE
};

fn grid(args: &Args, indexing: &str) -> Result<Vec<Tensor>> {
    let mut tensors = args.tensors(0)?;
    let Some(first) = tensors.first().copied() else { return Err(Error::runtime("meshgrid expects a non-empty TensorList")) };
    for tensor in &tensors {
        if tensor.dtype() != first.dtype() {
            return Err(Error::runtime("meshgrid expects all tensors to have the same dtype"));
        }
        if tensor.rank() > 1 {
            return Err(Error::runtime(format!(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: one of {} dimensions",
                tensor.rank()
            )));
        }
    }
    let swapped = match indexing {
        "ij" => false,
        "xy" => tensors.len() >= 2,
        other => {
            return Err(Error::runtime(format!(
                "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {other}"
            )));
        }
    };
    if swapped {
        tensors.swap(0, 1);
    }
    let sizes: Vec<isize> = tensors.iter().map(|tensor| tensor.numel() as isize).collect();
    let view = |(dim, tensor): (usize, &Tensor)| {
        let mut line = vec![1; sizes.len()];
        line[dim] = sizes[dim];
        op!(EXPAND, op!(crate::view::reshape::VIEW, tensor, sizes_value(&line))?, sizes_value(&sizes))
    };
    let mut views = tensors.into_iter().enumerate().map(view).collect::<Result<Vec<_>>>()?;
    if swapped {
        views.swap(0, 1);
    }
    Ok(views)
}

pub static CARTESIAN_PROD: Row = Row {
    name: "cartesian_prod",
    variants: Variants::FUNCTION,
    signature: "(Tensor[] tensors) -> Tensor",
    doc: "All combinations of the vectors' elements, a row each.

    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let tensors = args.tensors(0)?;
        if let Some(tensor) = tensors.iter().find(|tensor| tensor.rank() != 1) {
            return Err(Error::runtime(format!("Expect a 1D vector, but got shape {}", rushlight_core::layout::Shape(tensor.sizes()))));
        }
        if let [only] = tensors.as_slice() {
            return Ok(Output::Tensor((*only).clone()));
        }
        let columns = grid(args, "ij")?;
        let columns = columns.into_iter().map(|column| op!(crate::view::RESHAPE, column, sizes_value(&[-1])));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        op!(super::STACK, columns, 1i64).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["[t(2), t(3)]", "[t(2)]"],
    ..Row::BASE
};
