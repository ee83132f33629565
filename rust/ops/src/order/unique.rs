//! Unique elements.

use rushlight_autograd::Tensor;
use rushlight_core::{Bool, DType, Device, Error, Result, dispatch};
use rushlight_cpu::order::{self, Runs};
use rushlight_dispatch::operator::{
    Args, BatchRule, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Tags, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output};
use rushlight_dispatch::{create, interpreter, op, value, vmap};

use super::on_cuda;
use crate::reduce::one_dim;
use crate::reduce::select_backward::ORDERED;
use crate::view::transpose::MOVEDIM;

/// The operator behind `torch.unique`.
#[operator]
pub static UNIQUE: Operator = Operator {
    name: "_unique2",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    doc: "The unique elements in order, the index of each element among them, and their counts.

    >>> torch._unique2(torch.tensor([3, 1, 1]), True, True, True)
    (tensor([1, 3]), tensor([1, 0, 0]), tensor([2, 1]))",
    dtypes: ORDERED.union(DTypes::WIDE),
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::Unsupported(vmap::dynamic_shape_error),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let input = args.valued(INPUT)?;
        if !args.op.dtypes.has(input.dtype()) {
            return Err(Error::unsupported("unique", input.dtype()));
        }
        let (inverse, counts) = (args.bool(RETURN_INVERSE)?, args.bool(RETURN_COUNTS)?);
        match input.device() {
            Device::Cuda(_) => on_cuda::distinct(input, true, inverse, counts).map(Output::Tuple),
            _ => distinct(input, true, inverse, counts),
        }
    })),
    derivative: Derivative::NotImplemented("_unique2"),
    samples: &["i(4, 9)", "i(4, 3, 4), True, True, True"],
    ..Operator::BASE
};

/// The operator behind `torch.unique_consecutive`.
#[operator]
pub static UNIQUE_CONSECUTIVE: Operator = Operator {
    name: "_unique_consecutive",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)",
    doc: "The elements (along `dim`, the slices) without those that equal the previous one, the index of each element among them, and the lengths of runs.

    >>> torch._unique_consecutive(torch.tensor([3, 1, 1, 3]), True, True)
    (tensor([3, 1, 3]), tensor([0, 1, 1, 2]), tensor([1, 2, 1]))",
    dtypes: ORDERED.union(DTypes::WIDE),
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::Unsupported(vmap::dynamic_shape_error),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let input = args.valued(INPUT)?;
        if !args.op.dtypes.has(input.dtype()) {
            return Err(Error::unsupported(if args.has(DIM) { "unique_dim" } else { "unique" }, input.dtype()));
        }
        let (inverse, counts) = (args.bool(RETURN_INVERSE)?, args.bool(RETURN_COUNTS)?);
        let dim = if args.has(DIM) { Some(slices(args, DIM)?) } else { None };
        match (input.device(), dim) {
            (Device::Cuda(_), Some(dim)) => on_cuda::distinct_slices(input, dim, false).map(Output::Tuple),
            (Device::Cuda(_), None) => on_cuda::distinct(input, false, inverse, counts).map(Output::Tuple),
            (_, Some(dim)) => distinct_slices(input, dim, false),
            (_, None) => distinct(input, false, inverse, counts),
        }
    })),
    derivative: Derivative::NotImplemented("unique_consecutive"),
    samples: &["i(2, 9)", "i(2, 3, 4), True, True", "i(2, 6, 1), dim=0", "i(2, 2, 3, 4), True, True, 1"],
    ..Operator::BASE
};

/// The operator behind `torch.unique` along a dimension.
#[operator]
pub static UNIQUE_DIM: Operator = Operator {
    name: "_unique_dim",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim) -> (Tensor, Tensor, Tensor)",
    doc: "The unique slices along `dim` in order, the index of each slice among them, and their counts.

    >>> torch._unique_dim(torch.tensor([[3, 1], [1, 2], [3, 1]]), 0)
    (tensor([[1, 2],
            [3, 1]]), tensor([1, 0, 1]), tensor([1, 2]))",
    dtypes: ORDERED.union(DTypes::WIDE),
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::Unsupported(vmap::dynamic_shape_error),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let input = args.valued(INPUT)?;
        if !args.op.dtypes.has(input.dtype()) {
            return Err(Error::unsupported("unique_dim", input.dtype()));
        }
        // The error has the name of the public Python function.
        let dim = slices(args, DIM).map_err(|error| error.operator("unique"))?;
        match input.device() {
            Device::Cuda(_) => on_cuda::distinct_slices(input, dim, true).map(Output::Tuple),
            _ => distinct_slices(input, dim, true),
        }
    })),
    derivative: Derivative::NotImplemented("unique_dim"),
    samples: &["i(2, 5, 2), 0", "i(2, 2, 5), 1"],
    ..Operator::BASE
};

/// The dimension along which the first argument has slices to compare, or torch's error if it has none.
fn slices(args: &Args, arg: Arg) -> Result<usize> {
    let input = args.tensor(Arg::FIRST)?;
    if input.rank() == 0 {
        return Err(Error::index(format!("Dimension specified as {} but tensor has no dimensions", args.int(arg)?))
            .hint("Without dim= the only element is the answer."));
    }
    let dim = one_dim(args, arg)?;
    let zeros = input.sizes().iter().filter(|size| **size == 0).count();
    let refused = match input.sizes().get(dim) {
        Some(0) if zeros > 1 => "Number of zero sized dimensions is more than one, so unique cannot be applied ",
        Some(1..) if zeros > 0 => "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied",
        _ => "",
    };
    if !refused.is_empty() {
        return Err(Error::runtime(refused).hint("Slices without elements are all equal."));
    }
    Ok(dim)
}

/// Runs of equal slices, in lexicographic order, or in their order.
fn distinct_slices(input: &Tensor, dim: usize, sorted: bool) -> Result<Output> {
    let line = input.detach();
    let first = op!(MOVEDIM, &line, Ints::from_slice(&[dim as i64]), Ints::from_slice(&[0]))?;
    let flat = crate::convert::contiguous(&first)?;
    let n = line.sizes()[dim] as usize;
    let width = flat.numel().checked_div(n).unwrap_or(0);
    let found = runs(&flat, Search::Slices { n, width, sorted })?;
    let index = create::from_slice(&found.firsts)?;
    let values = op!(crate::index::index_select::INDEX_SELECT, &flat, 0i64, &index)?;
    let values = op!(MOVEDIM, &values, Ints::from_slice(&[0]), Ints::from_slice(&[dim as i64]))?;
    let [places, lengths] = [&found.runs, &found.lengths].map(|list| create::from_slice(list));
    Ok(Output::Tuple(vec![values, places?, lengths?]))
}

/// Runs of equal elements, after sorting or in their order; NaN equals nothing.
fn distinct(input: &Tensor, sorted: bool, inverse: bool, counts: bool) -> Result<Output> {
    let flat = crate::convert::contiguous(&input.detach())?;
    let found = runs(&flat, Search::Elements { sorted, inverse })?;
    let index = create::from_slice(&found.firsts)?;
    let line = crate::view::RESHAPE.tensor([(&flat).into(), value::sizes_value(&[-1])])?;
    let values = op!(crate::index::index_select::INDEX_SELECT, &line, 0i64, &index)?;
    let empty = || create::empty(&[0], DType::I64, input.device());
    let places = if inverse {
        let flat = create::from_slice(&found.runs)?;
        crate::view::RESHAPE.tensor([(&flat).into(), value::sizes_value(input.sizes())])?
    } else {
        empty()?
    };
    let lengths = if counts { create::from_slice(&found.lengths)? } else { empty()? };
    Ok(Output::Tuple(vec![values, places, lengths]))
}

/// The options of a search for runs.
enum Search {
    Elements { sorted: bool, inverse: bool },
    Slices { n: usize, width: usize, sorted: bool },
}

/// The runs in a contiguous tensor.
fn runs(flat: &Tensor, search: Search) -> Result<Runs> {
    let (pin, offset) = (flat.storage().pin()?, flat.layout().offset);
    let mut found = None;
    interpreter::while_detached(flat.numel(), || {
        dispatch!(flat.dtype(), T in [u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, rushlight_core::dtype::f16_, rushlight_core::dtype::bf16_, Bool] => {
            // SAFETY: the tensor is contiguous and lies in the pinned storage.
            found = Some(unsafe {
                let from = pin.as_ptr().cast::<T>().offset(offset);
                match search {
                    Search::Elements { sorted, inverse } => order::distinct(from, flat.numel(), sorted, inverse)?,
                    Search::Slices { n, width, sorted } => order::distinct_slices(from, n, width, sorted)?,
                }
            });
        }, else => ());
        Ok(())
    })?;
    found.ok_or_else(|| Error::unsupported("unique", flat.dtype()))
}
