//! Reading with an index for every element, along one dimension.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{DType, Device, Error, Layout, Result};
use rushlight_cpu::index::OutOfBounds;
use rushlight_cpu::index::gather::IndexedOperand;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::integers;
use rushlight_dispatch::operator::{
    BatchRule, DTypes, Derivative, Implementation, Kernel, Operator, Out, Saves, TensorSpec, Variants, formula,
    operator,
};
use rushlight_dispatch::value::{Output, sizes_value};
use rushlight_dispatch::{create, op};

use super::on_cuda;
use crate::expr_ext::ExprExt;
use crate::view::expand::EXPAND;

#[operator]
pub static GATHER: Operator = Operator {
    name: "gather",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    doc: "Reads along `dim` with an index for each element of the result.

    out[i][j] = self[i][index[i][j]]   for dim=1

    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])",
    out: Out::STRICT,
    dtypes: DTypes::COMPUTED,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (input, index) = (args.tensor(INPUT)?, args.tensor(INDEX)?);
            let dim = wrap_dim(args.int(DIM)?, input.rank())?;
            check_index("gather", index)?;
            check_within(input, index, dim)?;
            Ok(vec![TensorSpec::new(index.sizes(), input.dtype(), input)])
        },
        |args, results| {
            let (input, index, out) = (args.tensor(INPUT)?, args.tensor(INDEX)?, &results[0]);
            let dim = wrap_dim(args.int(DIM)?, input.rank())?;
            if out.numel() == 0 {
                return Ok(());
            }
            let index = long(index)?;
            let (own_layout, index_layout) = (at_least_1d(input.layout()), at_least_1d(index.layout()));
            let out_layout = at_least_1d(out.layout());
            if let Device::Cuda(_) = input.device() {
                if let Some(bad) = on_cuda::first_outside(&index, own_layout.sizes[dim])? {
                    return Err(not_within(bad, own_layout.sizes[dim], dim));
                }
                // Along the dimension an index takes the place of the element's own.
                let mut source = Layout { sizes: index_layout.sizes.clone(), ..own_layout };
                let scale = std::mem::take(&mut source.strides[dim]) * input.dtype().size() as isize;
                return on_cuda::read((out, &out_layout), (input, &source), (&index, &index_layout), scale);
            }
            let (to, from, places) = (out.storage().pin()?, input.storage().pin()?, index.storage().pin()?);
            // SAFETY: sizes were checked, and layouts stay within their storages.
            unsafe {
                rushlight_cpu::index::gather::gather(
                    IndexedOperand { pointer: to.as_ptr(), layout: &out_layout },
                    IndexedOperand { pointer: from.as_ptr(), layout: &own_layout },
                    IndexedOperand { pointer: places.as_ptr(), layout: &index_layout },
                    dim,
                    input.dtype().size(),
                )
            }
            .map_err(|bad| not_within(bad, own_layout.sizes[dim], dim))
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INDEX), |d| {
        let Some(meta) = d.meta(INPUT) else { return Expr::Nothing };
        match (create::zeros(&meta.sizes, meta.dtype, meta.device), d.input(INDEX), d.grad()) {
            (Ok(zeros), Expr::Tensor(index), Expr::Tensor(grad)) => {
                Expr::from(zeros).scatter_add(d.int(DIM), index, grad)
            }
            (Err(error), ..) | (_, Expr::Failed(error), _) => Expr::failed(error),
            (_, _, grad) => grad,
        }
    })]),
    samples: &["t(3, 4), 1, i(4, 3, 2)", "t(3, 4), 0, i(3, 2, 4)", "t(3), -1, i(3, 5)", "t(3, 4).t(), 1, i(3, 4, 2)"],
    errors: &[
        ("t(3), 0, torch.tensor([5])", "RuntimeError", "index 5 is out of bounds for dimension 0 with size 3"),
        ("t(3), 0, torch.tensor([-1])", "RuntimeError", "index -1 is out of bounds for dimension 0 with size 3"),
        (
            "t(3, 4), 0, torch.tensor([0])",
            "RuntimeError",
            "Index tensor must have the same number of dimensions as input tensor",
        ),
        (
            "t(3, 4), 0, i(3, 5, 5)",
            "RuntimeError",
            "Size does not match at dimension 1 expected index [5, 5] to be no larger than self [3, 4] apart from dimension 0",
        ),
    ],
    reference: "np.take_along_axis(self, index, dim) if all(a == b or at == dim % self.ndim for at, (a, b) in enumerate(zip(self.shape, index.shape))) else None",
    kernel_name: "scatter_gather_tensor_cpu",
    ..Operator::BASE
};

/// Returns an error for an argument that is not a tensor of indices.
pub fn check_index(name: &str, index: &Tensor) -> Result<()> {
    if matches!(index.dtype(), DType::I64 | DType::I32) || index.numel() == 0 {
        return Ok(());
    }
    Err(Error::runtime(format!("{name}(): Expected dtype int32/int64 for index")))
}

fn check_within(input: &Tensor, index: &Tensor, dim: usize) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    if index.rank().max(1) != input.rank().max(1) {
        return Err(Error::runtime("Index tensor must have the same number of dimensions as input tensor"));
    }
    for other in (0..input.rank().min(index.rank())).filter(|&other| other != dim) {
        if index.sizes()[other] > input.sizes()[other] {
            return Err(Error::runtime(format!(
                "Size does not match at dimension {other} expected index {} to be no larger than self {} apart from dimension {dim}",
                Shape(index.sizes()),
                Shape(input.sizes())
            )));
        }
    }
    Ok(())
}

/// Indices as int64; copies only narrower ones.
pub fn long(index: &Tensor) -> Result<Tensor> {
    if index.dtype() == DType::I64 { Ok(index.clone()) } else { integers(index, index.sizes()) }
}

/// A number counts as a vector of one element.
pub fn at_least_1d(layout: &Layout) -> Layout {
    if layout.rank() == 0 { layout.unsqueeze(0) } else { layout.clone() }
}

/// Returns an error for an index outside the dimension, before anything is read or written.
pub fn check_values(index: &Tensor, layout: &Layout, size: isize, dim: usize) -> Result<()> {
    if layout.numel() == 0 {
        return Ok(());
    }
    if let Device::Cuda(_) = index.device() {
        let outside = on_cuda::first_outside(index, size)?;
        return outside.map_or(Ok(()), |bad| Err(not_within(bad, size, dim)));
    }
    let pin = index.storage().pin()?;
    // SAFETY: the layout stays within the pinned storage, which holds 64-bit integers.
    let outside = unsafe {
        rushlight_cpu::index::gather::first_out_of_bounds(IndexedOperand { pointer: pin.as_ptr(), layout }, size)
    };
    outside.map_or(Ok(()), |bad| Err(not_within(bad, size, dim)))
}

#[cold]
pub fn not_within(bad: OutOfBounds, size: isize, dim: usize) -> Error {
    Error::runtime(format!("index {} is out of bounds for dimension {dim} with size {size}", bad.value))
        .hint("Indices must be at least 0 and less than the size; negative indices are not supported here.")
}

#[operator]
pub static TAKE_ALONG_DIM: Operator = Operator {
    name: "take_along_dim",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor indices, int? dim=None) -> Tensor",
    doc: "`gather` whose operands broadcast except along `dim`; without `dim` over the flattened tensor.

    >>> torch.take_along_dim(torch.tensor([[3, 1], [2, 4]]), torch.tensor([[1], [0]]), dim=1)
    tensor([[1],
            [2]])",
    out: Out::STRICT,
    dtypes: DTypes::COMPUTED,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, indices) = (args.tensor(INPUT)?, args.tensor(INDICES)?);
        let Some(dim) = args.optional_int(DIM) else {
            if !matches!(indices.dtype(), DType::I32 | DType::I64) {
                return Err(Error::runtime("gather(): Expected dtype int32/int64 for index"));
            }
            let flat = op!(crate::view::RESHAPE, input, sizes_value(&[-1]))?;
            let places = op!(crate::view::RESHAPE, indices, sizes_value(&[-1]))?;
            return op!(GATHER, flat, 0i64, places).map(Output::Tensor);
        };
        if input.rank() != indices.rank() {
            return Err(Error::runtime(format!(
                "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions for input, and {} dimensions for indices",
                input.rank(),
                indices.rank()
            )));
        }
        if indices.dtype() != DType::I64 {
            return Err(Error::runtime(format!(
                "torch.take_along_dim(): dtype of indices should be Long but got {}",
                indices.dtype().display_name()
            )));
        }
        let dim = wrap_dim(dim, input.rank())?;
        let stretched = |tensor: &Tensor, other: &Tensor| {
            let mut beside = other.sizes().clone();
            if let (Some(size), Some(&input)) = (beside.get_mut(dim), tensor.sizes().get(dim)) {
                *size = input;
            }
            let sizes = rushlight_core::broadcast::broadcast(tensor.sizes(), &beside)?;
            op!(EXPAND, tensor, sizes_value(&sizes))
        };
        let (source, places) = (stretched(input, indices)?, stretched(indices, input)?);
        // Unlike in `gather`, negative indices count from the end here.
        let size = source.sizes().get(dim).copied().unwrap_or(1) as i64;
        let places = Expr::from(places);
        let places = places.clone().below(0i64).choose(places.clone() + size, places).done()?;
        op!(GATHER, source, dim, places).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 4), i(4, 3, 2), 1", "t(3, 4), i(3, 1, 4), 0", "t(3, 4), i(12, 5)"],
    errors: &[(
        "t(3, 4), torch.tensor([0]), 1",
        "RuntimeError",
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got 2 dimensions for input, and 1 dimensions for indices",
    )],
    reference: "np.take_along_axis(self, indices, dim)",
    ..Operator::BASE
};

/// Returns an error for an index that is not in `0..size`; negative ones are not allowed here.
pub fn refuse_outside(index: &Tensor, size: isize, error: impl Fn(i64) -> Error) -> Result<()> {
    let index = long(index)?;
    if index.numel() == 0 {
        return Ok(());
    }
    if let Device::Cuda(_) = index.device() {
        return on_cuda::first_outside(&index, size)?.map_or(Ok(()), |bad| Err(error(bad.value)));
    }
    let pin = index.storage().pin()?;
    let side = IndexedOperand { pointer: pin.as_ptr(), layout: index.layout() };
    // SAFETY: the layout stays within the pinned storage, which holds 64-bit integers.
    match unsafe { rushlight_cpu::index::gather::first_out_of_bounds(side, size) } {
        Some(bad) => Err(error(bad.value)),
        None => Ok(()),
    }
}
