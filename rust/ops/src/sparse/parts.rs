//! The indices and values of sparse tensors: how a sparse tensor is built from them, and the elements of a dense tensor
//! at the indices.

use std::sync::Arc;

use rushlight_autograd::{CompressedFormat, SparseParts, Tensor};
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Dims, Error, Result, Storage};
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::sparse::unsupported;
use rushlight_dispatch::value::{Ints, Target, Value};
use rushlight_dispatch::{create, op};

use super::compressed;
use super::indices::each_index;
use crate::convert::to_device;

/// The parts of a tensor that must be sparse, with coordinates; `name` is the caller in the error.
pub fn parts(tensor: &Tensor, name: &str) -> Result<Arc<SparseParts>> {
    tensor.parts().ok_or_else(|| match tensor.compressed_parts() {
        Some(_) => unsupported(name, tensor),
        None => Error::runtime(format!("{name} expected sparse coordinate tensor layout but got Strided")),
    })
}

/// The coordinates and values of a tensor that must be sparse, in any format.
pub fn entries(tensor: &Tensor, name: &str) -> Result<Arc<SparseParts>> {
    match tensor.compressed_parts() {
        Some(own) => compressed::parts::expanded(&own, tensor.sizes()).map(Arc::new),
        None => parts(tensor, name),
    }
}

/// The stored values of a sparse tensor.
pub fn stored_values(tensor: &Tensor, name: &str) -> Result<Tensor> {
    match tensor.compressed_parts() {
        Some(own) => Ok(own.values.detach()),
        None => Ok(parts(tensor, name)?.values.detach()),
    }
}

/// A sparse tensor of valid parts.
pub fn build(sizes: &[isize], parts: SparseParts) -> Result<Tensor> {
    let storage = Storage::heap(16)?;
    // SAFETY: the storage is new and has sixteen bytes, the widest element.
    unsafe { storage.pin()?.as_ptr().write_bytes(0, 16) };
    Ok(Tensor::sparse(storage, Dims::from_slice(sizes), parts))
}

/// The sparse tensor with other values for its entries, `parts`.
pub fn with_values(tensor: &Tensor, parts: &SparseParts, values: Tensor) -> Result<Tensor> {
    if let Some(own) = tensor.compressed_parts() {
        return compressed::parts::with_values(tensor, &own, &values);
    }
    build(tensor.sizes(), SparseParts { values, ..parts.clone() })
}

/// A copy of a sparse tensor in a dtype, on a device. On the tensor's own device it shares the indices.
pub fn moved(tensor: &Tensor, dtype: DType, device: Device) -> Result<Tensor> {
    if let Some(own) = tensor.compressed_parts() {
        return compressed::parts::moved(tensor, &own, dtype, device);
    }
    let own = parts(tensor, "to")?;
    let indices = to_device(&own.indices.detach(), device)?;
    build(
        tensor.sizes(),
        SparseParts { indices, values: compressed::parts::copied_as(&own.values, dtype, device)?, ..(*own).clone() },
    )
}

/// The sparse tensor of these entries, in the format and sizes of `tensor`.
pub fn in_format_of(tensor: &Tensor, entries: SparseParts) -> Result<Tensor> {
    let Some(own) = tensor.compressed_parts() else { return build(tensor.sizes(), entries) };
    let parts = compressed::parts::compress(&entries, tensor.sizes(), own.format, own.batch_dims(), own.block())?;
    compressed::parts::build(tensor.sizes(), parts)
}

/// A sparse tensor without elements.
pub fn empty(sizes: &[isize], sparse_dims: usize, dtype: DType, device: Device) -> Result<Tensor> {
    let indices = create::empty(&[sparse_dims as isize, 0], DType::I64, device)?;
    let mut of_values = Dims::from_slice(&[0]);
    of_values.extend_from_slice(sizes.get(sparse_dims..).unwrap_or(&[]));
    let values = create::empty(&of_values, dtype, device)?;
    build(sizes, SparseParts { indices, values, coalesced: true })
}

/// A sparse tensor without elements in the layout of a name.
pub fn empty_in(layout: &str, sizes: &[isize], dtype: DType, device: Device) -> Result<Tensor> {
    rushlight_core::layout::checked_numel(sizes)?;
    match CompressedFormat::named(layout) {
        None => empty(sizes, sizes.len(), dtype, device),
        Some(format) if format.blocks => Err(Error::runtime(format!(
            "zeros_sparse_compressed expected sparse compressed (non-block) tensor layout but got {}",
            format.layout_name()
        ))),
        Some(_) if sizes.len() < 2 => Err(Error::runtime(format!(
            "torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size {}",
            Shape(sizes)
        ))),
        Some(format) => compressed::parts::empty(sizes, format, sizes.len() - 2, dtype, device),
    }
}

/// The elements of a dense tensor at `indices`, or blocks of them.
pub fn taken(dense: &Tensor, indices: &Tensor) -> Result<Tensor> {
    let count = indices.sizes()[1];
    let indices = each_index(indices)?;
    match &*indices {
        [] => {
            let one = op!(crate::view::squeeze::UNSQUEEZE, dense, 0i64)?;
            let first = create::zeros(&[count], DType::I64, dense.device())?;
            op!(crate::index::index_select::INDEX_SELECT, &one, 0i64, &first)
        }
        [index] => op!(crate::index::index_select::INDEX_SELECT, dense, 0i64, index),
        _ => {
            let dims: Vec<i64> = (0..indices.len() as i64).collect();
            op!(crate::index::INDEX, dense, indices, &*dims)
        }
    }
}

/// Adds values at their indices to a dense tensor of their dtype, and changes nothing else.
pub fn scatter(dense: &Tensor, indices: &Tensor, values: &Tensor) -> Result<()> {
    use crate::index::index_select::INDEX_ADD;
    let indices = each_index(indices)?;
    let args = match &*indices {
        [] => {
            let whole = op!(crate::reduce::sum::SUM_DIM, values, &[0i64][..], false, values.dtype())?;
            let args = Args::new(&crate::pointwise::arith::ADD, [dense.into(), Value::Own(whole)]);
            return args.call_into(Target::InPlace).map(drop);
        }
        [index] => Args::new(&INDEX_ADD, [dense.into(), 0i64.into(), Value::Own(index.clone()), values.into()]),
        _ => {
            let dims: Vec<i64> = (0..indices.len() as i64).collect();
            let dims = Value::Ints(Ints::from_slice(&dims));
            Args::new(&crate::index::INDEX_PUT_DIMS, [dense.into(), indices.into(), dims, values.into(), true.into()])
        }
    };
    args.call_into(Target::InPlace).map(drop)
}
