//! Elements without their repetitions.

use rushlight_autograd::Tensor;
use rushlight_core::{Bool, DType, Error, Result, dispatch};
use rushlight_cpu::order::{self, Runs};

use crate::derive::Derivative;
use crate::mapped::Mapped;
use crate::reduce::put_back::ORDERED;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::value::{Ints, Output};

/// What `torch.unique` stands on.
pub static UNIQUE: Row = Row {
    name: "_unique2",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    doc: "The different elements in order, where each element went, and how often each occurs.

    >>> torch._unique2(torch.tensor([3, 1, 1]), True, True, True)
    (tensor([1, 3]), tensor([1, 0, 0]), tensor([2, 1]))",
    dtypes: ORDERED.union(DTypes::WIDE),
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::Refused(crate::mapped::no_one_shape),
    run: Run::Body(|args| {
        let own = args.valued(0)?;
        if !args.row.dtypes.has(own.dtype()) {
            return Err(Error::unsupported("unique", own.dtype()));
        }
        distinct(own, true, args.bool(2)?, args.bool(3)?)
    }),
    derivative: Derivative::Missing("_unique2"),
    samples: &["i(4, 9)", "i(4, 3, 4), True, True, True"],
    ..Row::BASE
};

/// What `torch.unique_consecutive` stands on.
pub static UNIQUE_CONSECUTIVE: Row = Row {
    name: "_unique_consecutive",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)",
    doc: "The elements (along `dim`, the slices) without those that equal the one before, where each element went, and how long each run is.

    >>> torch._unique_consecutive(torch.tensor([3, 1, 1, 3]), True, True)
    (tensor([3, 1, 3]), tensor([0, 1, 1, 2]), tensor([1, 2, 1]))",
    dtypes: ORDERED.union(DTypes::WIDE),
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::Refused(crate::mapped::no_one_shape),
    run: Run::Body(|args| {
        let own = args.valued(0)?;
        if !args.row.dtypes.has(own.dtype()) {
            return Err(crate::call::not_implemented(args.row, own.dtype()));
        }
        if args.has(3) {
            return distinct_slices(own, crate::reduce::one_dim(args, 3)?, false);
        }
        distinct(own, false, args.bool(1)?, args.bool(2)?)
    }),
    derivative: Derivative::Missing("unique_consecutive"),
    samples: &["i(2, 9)", "i(2, 3, 4), True, True"],
    ..Row::BASE
};

/// What `torch.unique` along a dimension stands on.
pub static UNIQUE_DIM: Row = Row {
    name: "_unique_dim",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim) -> (Tensor, Tensor, Tensor)",
    doc: "The different slices along `dim` in order, where each slice went, and how often each occurs.

    >>> torch._unique_dim(torch.tensor([[3, 1], [1, 2], [3, 1]]), 0)
    (tensor([[1, 2],
            [3, 1]]), tensor([1, 0, 1]), tensor([1, 2]))",
    dtypes: ORDERED.union(DTypes::WIDE),
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::Refused(crate::mapped::no_one_shape),
    run: Run::Body(|args| {
        let own = args.valued(0)?;
        if !args.row.dtypes.has(own.dtype()) {
            return Err(crate::call::not_implemented(args.row, own.dtype()));
        }
        // Users know it by the name of the function in Python.
        let dim = crate::reduce::one_dim(args, 1).map_err(|error| error.operator("unique"))?;
        distinct_slices(own, dim, true)
    }),
    derivative: Derivative::Missing("unique_dim"),
    samples: &["i(2, 5, 2), 0", "i(2, 2, 5), 1"],
    ..Row::BASE
};

/// Runs of equal slices, ordered by their elements one after the other, or as they stand.
fn distinct_slices(own: &Tensor, dim: usize, sorted: bool) -> Result<Output> {
    let own = own.detach();
    let line = if own.rank() == 0 { crate::op!(crate::view::squeeze::UNSQUEEZE, &own, 0i64)? } else { own };
    let first =
        crate::op!(crate::view::transpose::MOVEDIM, &line, Ints::from_slice(&[dim as i64]), Ints::from_slice(&[0]))?;
    let flat = crate::convert::contiguous(&first)?;
    let n = line.sizes()[dim] as usize;
    let width = flat.numel().checked_div(n).unwrap_or(0);
    let found = runs(&flat, Search::Slices { n, width, sorted })?;
    let index = crate::create::from_slice(&found.firsts)?;
    let values = crate::op!(crate::index::along::INDEX_SELECT, &line, dim, &index)?;
    let [places, lengths] = [&found.runs, &found.lengths].map(|list| crate::create::from_slice(list));
    Ok(Output::Tuple(vec![values, places?, lengths?]))
}

/// Runs of equal elements, after sorting or as they stand; NaN equals nothing.
fn distinct(own: &Tensor, sorted: bool, inverse: bool, counts: bool) -> Result<Output> {
    let flat = crate::convert::contiguous(&own.detach())?;
    let found = runs(&flat, Search::Elements { sorted, inverse })?;
    let index = crate::create::from_slice(&found.firsts)?;
    let line = crate::view::RESHAPE.tensor([(&flat).into(), crate::view::reshape::sizes_value(&[-1])])?;
    let values = crate::op!(crate::index::along::INDEX_SELECT, &line, 0i64, &index)?;
    let empty = || crate::create::empty(&[0], DType::I64, own.device());
    let places = if inverse {
        let flat = crate::create::from_slice(&found.runs)?;
        crate::view::RESHAPE.tensor([(&flat).into(), crate::view::reshape::sizes_value(own.sizes())])?
    } else {
        empty()?
    };
    let lengths = if counts { crate::create::from_slice(&found.lengths)? } else { empty()? };
    Ok(Output::Tuple(vec![values, places, lengths]))
}

/// Among what runs are looked for.
enum Search {
    Elements { sorted: bool, inverse: bool },
    Slices { n: usize, width: usize, sorted: bool },
}

/// The runs in a contiguous tensor.
fn runs(flat: &Tensor, search: Search) -> Result<Runs> {
    let (pin, offset) = (flat.storage().pin()?, flat.layout().offset);
    let mut found = None;
    crate::host::while_detached(flat.numel(), || {
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
