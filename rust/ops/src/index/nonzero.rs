//! The indices of non-zero elements.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Layout, Result};
use rushlight_dispatch::operator::{
    Accepts, BatchRule, DTypes, Derivative, Implementation, Operator, Out, Tags, Variants, operator,
};
use rushlight_dispatch::value::Output;
use rushlight_dispatch::{copy, create, vmap};

use super::nonzero_on_cuda as on_cuda;
use crate::view::narrow::selected;

/// A tensor's elements as contiguous booleans.
pub fn truths(tensor: &Tensor) -> Result<Tensor> {
    if tensor.device() == Device::Meta {
        return Err(Error::not_implemented(
            "The register_meta function for torch.nonzero() raises unimplemented by default, as a correct data-independent implementation does not exist.",
        )
        .hint("The number of non-zero elements depends on values, and a meta tensor has none."));
    }
    if tensor.dtype() == DType::Bool && tensor.layout().is_contiguous() {
        return Ok(tensor.clone());
    }
    let plain = create::empty(tensor.sizes(), DType::Bool, tensor.device())?;
    copy::copy(&plain, tensor)?;
    Ok(plain)
}

/// The row-major indices of the true elements, on the device of the mask. A device is waited for, because the host needs their
/// number.
pub fn positions(mask: &Tensor) -> Result<Tensor> {
    let mask = truths(mask)?;
    if let Device::Cuda(_) = mask.device() {
        return on_cuda::positions(&mask);
    }
    let pin = mask.storage().pin()?;
    let first = super::geometry::first(&pin, mask.layout(), DType::Bool);
    // SAFETY: the mask is contiguous.
    create::from_slice(&unsafe { rushlight_cpu::index::positions(first, mask.numel()) }?)
}

/// One index tensor for each dimension of a mask, on its device.
pub fn coordinates(mask: &Tensor) -> Result<Vec<Tensor>> {
    let places = positions(mask)?;
    if mask.rank() == 1 {
        return Ok(vec![places]);
    }
    if places.numel() == 0 {
        return (0..mask.rank()).map(|_| create::empty(&[0], DType::I64, mask.device())).collect();
    }
    let whole = spread(&places, mask.layout())?;
    (0..mask.rank()).map(|dim| selected(&whole, 0, dim as isize)).collect()
}

/// Row-major indices as coordinates: one row for each dimension.
fn spread(places: &Tensor, layout: &Layout) -> Result<Tensor> {
    let n = places.numel();
    let whole = create::empty(&[layout.rank() as isize, n as isize], DType::I64, places.device())?;
    if let Device::Cuda(_) = places.device() {
        on_cuda::coordinates(places, layout, &whole)?;
        return Ok(whole);
    }
    let (from, to) = (places.storage().pin()?, whole.storage().pin()?);
    // SAFETY: both are new and contiguous.
    unsafe { rushlight_cpu::index::coordinates(from.as_ptr().cast(), n, &layout.sizes, to.as_ptr().cast()) };
    drop((from, to));
    Ok(whole)
}

/// The coordinates in torch's form: a row for each element.
fn nonzero(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dtype().is_float8() {
        return Err(Error::unsupported("nonzero_count_cpu", tensor.dtype()));
    }
    let positions = positions(tensor)?;
    let rows = spread(&positions, tensor.layout())?;
    let mut layout = rows.layout().transpose(0, 1);
    if positions.numel() == 0 {
        // torch writes the columns next to each other: without rows they are no elements apart.
        layout.strides[1] = 0;
    }
    Ok(Tensor::new(rows.storage().clone(), layout, DType::I64, rows.device()))
}

#[operator]
pub static NONZERO: Operator = Operator {
    name: "nonzero",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, bool as_tuple=False) -> Tensor",
    doc: "The coordinates of the non-zero elements, one row each, in row-major order.

With `as_tuple=True` one tensor of indices for each dimension, which can be used as an index.

    >>> torch.nonzero(torch.tensor([0, 5, 0, 6]))
    tensor([[1],
            [3]])
    >>> torch.nonzero(torch.tensor([[0, 1], [1, 0]]), as_tuple=True)
    (tensor([0, 1]), tensor([1, 0]))",
    out: Out::new(
        Accepts::Same,
        &["{name}: Expected out tensor to have scalar type {Result} but got scalar type{Out}"],
    )
    .no_alias(),
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32),
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::Unsupported(vmap::dynamic_shape_error),
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if args.bool(AS_TUPLE)? { split(input).map(Output::List) } else { nonzero(input).map(Output::Tensor) }
    }),
    derivative: Derivative::NonDifferentiable("its results are indices"),
    samples: &["t(2, 3)", "b(4)", "t(0, 3)", "t()"],
    reference: "np.argwhere(self) if self.ndim else np.zeros((int(bool(self)), 0), dtype=np.int64)",
    ..Operator::BASE
};

/// One tensor of indices for each dimension; a 0-d tensor counts as a vector of one.
fn split(tensor: &Tensor) -> Result<Vec<Tensor>> {
    let flat;
    let tensor = if tensor.rank() == 0 {
        flat = crate::view::flatten::atleast_1d(tensor)?;
        &flat
    } else {
        tensor
    };
    coordinates(tensor)
}

#[operator]
pub static ARGWHERE: Operator = Operator {
    name: "argwhere",
    signature: "(Tensor self) -> Tensor",
    doc: "The coordinates of the non-zero elements, one row each.

    >>> torch.argwhere(torch.tensor([0, 5]))
    tensor([[1]])",
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32),
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::Unsupported(vmap::dynamic_shape_error),
    implementation: Implementation::CompositeImplicit(|args| nonzero(args.tensor(INPUT)?).map(Output::Tensor)),
    derivative: Derivative::NonDifferentiable("its results are indices"),
    samples: &["t(2, 3)", "b(4)"],
    reference: "np.argwhere(self)",
    ..Operator::BASE
};

#[operator]
pub static WHERE_NONZERO: Operator = Operator {
    name: "where.condition",
    variants: Variants::FUNCTION,
    signature: "(Tensor condition) -> Tensor[]",
    doc: "The coordinates of the true elements, one tensor for each dimension.

    >>> torch.where(torch.tensor([[0, 1], [1, 0]]))
    (tensor([0, 1]), tensor([1, 0]))",
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32),
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::Unsupported(vmap::dynamic_shape_error),
    implementation: Implementation::CompositeImplicit(|args| split(args.tensor(CONDITION)?).map(Output::List)),
    derivative: Derivative::NonDifferentiable("its results are indices"),
    samples: &["b(2, 3)"],
    reference: "np.where(condition)",
    ..Operator::BASE
};

#[operator]
pub static NONZERO_STATIC: Operator = Operator {
    name: "nonzero_static",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, int size, int fill_value=-1) -> Tensor",
    doc: "`nonzero` with a fixed number of rows: the result is truncated, or padded with `fill_value`.

    >>> torch.nonzero_static(torch.tensor([0, 5]), size=2)
    tensor([[ 1],
            [-1]])",
    out: Out::new(
        Accepts::Same,
        &["{name}: Expected out tensor to have scalar type {Result} but got scalar type{Out}"],
    )
    .no_alias(),
    dtypes: DTypes::ALL,
    batch_rule: BatchRule::Fallback,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, size) = (args.tensor(INPUT)?, args.int(SIZE)?);
        if size < 0 {
            return Err(Error::runtime("nonzero_static: 'size' must be an non-negative integer"));
        }
        let fill = rushlight_core::Scalar::Int(args.int(FILL_VALUE)?);
        let whole = create::full(&[size as isize, input.rank() as isize], fill, DType::I64, input.device())?;
        if input.device() == Device::Meta {
            return Ok(Output::Tensor(whole));
        }
        let found = nonzero(input)?;
        let rows = (size as isize).min(found.sizes()[0]);
        let (target, source) = (whole.layout().slice(0, 0, rows, 1), found.layout().slice(0, 0, rows, 1));
        copy::copy_views(&whole, &target, &found, &source)?;
        Ok(Output::Tensor(whole))
    }),
    derivative: Derivative::NonDifferentiable("the result counts"),
    samples: &["t(2, 3), size=3", "b(4), size=5, fill_value=7"],
    errors: &[
        ("t(3), size=-1", "RuntimeError", "nonzero_static: 'size' must be an non-negative integer"),
        ("t(3), size=2, fill_value=0.5", "TypeError", "nonzero_static(): argument 'fill_value' must be int, not float"),
    ],
    ..Operator::BASE
};
