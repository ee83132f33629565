//! Reductions of sparse tensors over all elements, or along dimensions.

use rushlight_autograd::{SparseParts, Tensor};
use rushlight_core::{DType, Dims, Error, Result};
use rushlight_dispatch::create::zeros;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::value::{Output, Value, sizes_value};

use super::compressed;
use super::indices::placed;
use super::parts::{build, entries, stored_values};
use crate::convert::TO_DTYPE;
use crate::index::index_select::INDEX_SELECT;
use crate::join::CAT;
use crate::reduce::ReduceDims;
use crate::reduce::sum::{SUM, SUM_DIM};
use crate::view::reshape::RESHAPE;

/// The sum of all elements.
pub fn total(args: &Args) -> Result<Output> {
    let mut inner = args.clone();
    inner.set(SUM::INPUT, Value::Own(stored_values(args.tensor(SUM::INPUT)?, "sum")?));
    inner.call()
}

/// Whether any element is true.
pub fn any(args: &Args) -> Result<Output> {
    use crate::reduce::all_any::ANY::*;

    let mut inner = args.clone();
    inner.set(INPUT, Value::Own(stored_values(args.tensor(INPUT)?, "any")?));
    inner.call()
}

/// The sums along dimensions: dense if no sparse dimension is left.
pub fn along(args: &Args) -> Result<Output> {
    use SUM_DIM::*;

    let input = args.tensor(INPUT)?;
    let over = ReduceDims::of(args, DIM, KEEPDIM)?;
    let dtype = args.dtype(DTYPE).map_or(Value::None, Value::from);
    if let Some(held) = input.compressed_parts() {
        let format = held.format;
        if format.columns || format.blocks {
            return Err(Error::runtime(format!(
                "Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout {}",
                format.layout_name()
            )));
        }
        if !over.keepdim {
            return Err(Error::runtime("reduction operations on CSR tensors with keepdim=False is unsupported"));
        }
        let sums = reduced(input, &*entries(input, "sum")?, over, dtype)?;
        let sizes = over.sizes(input.sizes());
        let parts = compressed::parts::compress(&sums, &sizes, format, held.batch_dims(), [1, 1])?;
        return compressed::parts::build(&sizes, parts).map(Output::Tensor);
    }
    // No dimensions are none here, and all of a dense tensor.
    if args.optional_ints(DIM).is_some_and(<[i64]>::is_empty) {
        let dtype = args.dtype(DTYPE).unwrap_or(if input.dtype().is_floating() || input.dtype().is_complex() {
            input.dtype()
        } else {
            DType::I64
        });
        return op!(TO_DTYPE, input, dtype).map(Output::Tensor);
    }
    let held = entries(input, "sum")?;
    let sparse_dims = held.indices.sizes()[0] as usize;
    let sizes = over.sizes(input.sizes());
    if (0..sparse_dims).all(|dim| over.has(dim)) {
        let along: Vec<i64> = [0]
            .into_iter()
            .chain((sparse_dims..input.rank()).filter(|&dim| over.has(dim)).map(|dim| (dim - sparse_dims + 1) as i64))
            .collect();
        let whole = op!(SUM_DIM, &held.values.detach(), &*along, false, dtype)?;
        return op!(RESHAPE, &whole, sizes_value(&sizes)).map(Output::Tensor);
    }
    let sums = reduced(input, &held, over, dtype)?;
    build(&sizes, super::coalesce::coalesced(&sums, &sizes)?).map(Output::Tensor)
}

/// The entries with their reduced dimensions dropped, or zero if these are kept; the indices repeat.
fn reduced(input: &Tensor, held: &SparseParts, over: ReduceDims, dtype: Value) -> Result<SparseParts> {
    let (sparse_dims, count) = (held.indices.sizes()[0] as usize, held.indices.sizes()[1]);
    // The dtype of a sum, also if no dense dimension is summed: a dimension of size one is.
    let of_values: Dims = held.values.sizes().iter().copied().chain([1]).collect();
    let along: Vec<i64> = (sparse_dims..input.rank())
        .filter(|&dim| over.has(dim))
        .map(|dim| (dim - sparse_dims + 1) as i64)
        .chain([held.values.rank() as i64])
        .collect();
    let values = op!(RESHAPE, &held.values.detach(), sizes_value(&of_values))?;
    let values = op!(SUM_DIM, &values, &*along, false, dtype)?;
    let mut shape = Dims::from_slice(&[count]);
    shape.extend((sparse_dims..input.rank()).filter_map(|dim| match (over.has(dim), over.keepdim) {
        (true, true) => Some(1),
        (true, false) => None,
        (false, _) => Some(input.sizes()[dim]),
    }));
    let values = op!(RESHAPE, &values, sizes_value(&shape))?;
    let none = zeros(&[1, count], held.indices.dtype(), held.indices.device())?;
    let with_none = op!(CAT, vec![held.indices.detach(), none], 0i64)?;
    let rows: Vec<i64> = (0..sparse_dims)
        .filter_map(|dim| match (over.has(dim), over.keepdim) {
            (true, true) => Some(sparse_dims as i64),
            (true, false) => None,
            (false, _) => Some(dim as i64),
        })
        .collect();
    let indices = op!(INDEX_SELECT, &with_none, 0i64, &placed(&rows, held.indices.device())?)?;
    Ok(SparseParts { indices, values, coalesced: false })
}
