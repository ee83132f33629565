//! Tensors expanded to one shape, and grids of all combinations.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Dims, Error, Result};
use rushlight_cpu::order::combinations;
use rushlight_dispatch::backcompat::broadcast_with_warnings;
use rushlight_dispatch::operator::{Args, DTypes, Derivative, Implementation, Operator, Tags, Variants, operator};
use rushlight_dispatch::value::{Output, sizes_value};
use rushlight_dispatch::{create, interpreter, op, warn_once};

use super::printed::first_line;
use crate::view::expand::EXPAND;

#[operator]
pub static BROADCAST_TENSORS: Operator = Operator {
    name: "broadcast_tensors",
    variants: Variants::FUNCTION,
    signature: "(Tensor *tensors) -> Tensor[]",
    doc:
        "Views of all tensors, expanded to the shape to which they broadcast. A tensor of this shape is returned itself.

    >>> torch.broadcast_tensors(torch.tensor([[1], [2]]), torch.tensor([3, 4]))
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))",
    dtypes: DTypes::ALL,
    tags: Tags::MIXED_DEVICES,
    implementation: Implementation::CompositeImplicit(|args| {
        let tensors = args.tensors(TENSORS)?;
        let meet = |all: Dims, tensor: &&Tensor| broadcast_with_warnings("broadcast_tensors", &all, tensor.sizes());
        let first = tensors.first().map_or_else(Dims::new, |tensor| tensor.sizes().clone());
        let sizes = tensors.iter().try_fold(first, meet)?;
        let views = tensors.into_iter().map(|tensor| match *tensor.sizes() == sizes {
            true => Ok(tensor.clone()),
            false => op!(EXPAND, tensor, sizes_value(&sizes)),
        });
        views.collect::<Result<Vec<_>>>().map(Output::List)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["[t(2, 1), t(3)]"],
    errors: &[(
        "t(2), t(3)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    )],
    reference: "np.broadcast_arrays(*tensors)",
    ..Operator::BASE
};

#[operator]
pub static MESHGRID: Operator = Operator {
    name: "meshgrid",
    variants: Variants::FUNCTION,
    signature: "(Tensor[] *tensors, *, str? indexing=None) -> Tensor[]",
    doc: "Coordinates of all points of a grid: view `i` holds the values of vector `i`.

    >>> torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]), indexing='ij')
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let indexing = args.optional_str(INDEXING);
        if indexing.is_none() {
            warn_once!("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",)?;
        }
        grid(args, indexing.unwrap_or("ij")).map(Output::List)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["[t(2), t(3)], indexing='ij'", "[t(2), t(3), t()], indexing='xy'"],
    errors: &[(
        "[t(2)], indexing='foo'",
        "RuntimeError",
        "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: foo",
    )],
    reference: "np.meshgrid(*tensors, indexing=indexing)",
    ..Operator::BASE
};

fn grid(args: &Args, indexing: &str) -> Result<Vec<Tensor>> {
    let mut tensors = args.tensors(MESHGRID::TENSORS)?;
    let Some(first) = tensors.first().copied() else {
        return Err(Error::runtime("meshgrid expects a non-empty TensorList"));
    };
    if tensors.iter().any(|tensor| tensor.dtype() != first.dtype()) {
        return Err(Error::runtime("meshgrid expects all tensors to have the same dtype"));
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
    if let Some(other) = tensors.iter().find(|tensor| tensor.rank() > 1) {
        let line = first_line(other)?;
        return Err(Error::runtime(format!(
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {line}"
        )));
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

#[operator]
pub static CARTESIAN_PROD: Operator = Operator {
    name: "cartesian_prod",
    variants: Variants::FUNCTION,
    signature: "(Tensor *tensors) -> Tensor",
    doc: "All combinations of the vectors' elements, a row each.

    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let tensors = args.tensors(TENSORS)?;
        if let Some(tensor) = tensors.iter().find(|tensor| tensor.rank() != 1) {
            return Err(Error::runtime(format!(
                "Expect a 1D vector, but got shape {}",
                rushlight_core::layout::Shape(tensor.sizes())
            )));
        }
        if let [only] = tensors.as_slice() {
            return Ok(Output::Tensor((*only).clone()));
        }
        let columns = grid(args, "ij")?;
        let columns = columns.into_iter().map(|column| op!(crate::view::RESHAPE, column, sizes_value(&[-1])));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        op!(super::STACK, columns, 1i64).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["[t(2), t(3)]", "[t(2)]"],
    errors: &[
        ("t(2, 2)", "RuntimeError", "Expect a 1D vector, but got shape [2, 2]"),
        ("t(2, 2), t(2)", "RuntimeError", "Expect a 1D vector, but got shape [2, 2]"),
    ],
    ..Operator::BASE
};

#[operator]
pub static COMBINATIONS: Operator = Operator {
    name: "combinations",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
    doc: "All combinations of `r` elements of a vector, in order, a row each.

    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, r) = (args.tensor(INPUT)?, args.int(R)?);
        if input.rank() != 1 {
            return Err(Error::runtime(format!(
                "Expect a 1D vector, but got shape {}",
                rushlight_core::layout::Shape(input.sizes())
            )));
        }
        if r < 0 {
            return Err(Error::runtime(format!("Expect a non-negative number, but got {r}")));
        }
        if r == 0 {
            return Ok(Output::Tensor(create::empty(&[0], input.dtype(), input.device())?));
        }
        let (n, again) = (input.numel() as isize, args.bool(WITH_REPLACEMENT)?);
        let rows = choices(n, r as isize, again).ok_or_else(|| {
            Error::runtime(format!("the combinations of {r} out of {n} elements are more than memory can count"))
        })?;
        let places = create::empty(&[rows, r as isize], DType::I64, Device::Cpu)?;
        let pin = places.storage().pin()?;
        interpreter::while_detached(places.numel(), || {
            // SAFETY: the storage is new, contiguous and `rows * r` long, and it is not shared yet.
            unsafe { combinations(pin.as_ptr().cast(), rows as usize, r as usize, n as i64, again) };
            Ok(())
        })?;
        drop(pin);
        let places = crate::convert::to_device(&places, input.device())?;
        let places = op!(crate::view::RESHAPE, places, sizes_value(&[-1]))?;
        let chosen = op!(crate::index::index_select::INDEX_SELECT, input, 0i64, places)?;
        op!(crate::view::RESHAPE, chosen, sizes_value(&[rows, r as isize])).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(4)", "t(3), 2, True", "t(2), 3"],
    errors: &[
        ("t(2, 2)", "RuntimeError", "Expect a 1D vector, but got shape [2, 2]"),
        ("t(3), -1", "RuntimeError", "Expect a non-negative number, but got -1"),
    ],
    reference: "np.array(list((itertools.combinations_with_replacement if with_replacement else itertools.combinations)(self, r))).reshape(-1, r)",
    ..Operator::BASE
};

/// The number of combinations; `None` if `r` times that count does not fit an `isize`.
fn choices(n: isize, r: isize, again: bool) -> Option<isize> {
    let pool = if again && n > 0 { n.checked_add(r - 1)? } else { n };
    if r > pool {
        return Some(0);
    }
    let mut count = 1isize;
    for step in 1..=r.min(pool - r) {
        // Each step gives a binomial coefficient, so the division is exact.
        count = isize::try_from(count as i128 * (pool - step + 1) as i128 / step as i128).ok()?;
    }
    count.checked_mul(r)?;
    Some(count)
}
