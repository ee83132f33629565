//! Operands in the form of kernels, and memory for results: row-major, in one dtype. Nothing here is recorded.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Result};
use rushlight_cpu::reduce::cumulative::Lines;

/// The tensor in row-major memory and in a dtype; itself if it already is.
pub fn plain(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype && tensor.layout().is_contiguous() {
        return Ok(tensor.clone());
    }
    let copied = crate::create::empty(tensor.sizes(), dtype, tensor.device())?;
    crate::copy::copy(&copied, tensor)?;
    Ok(copied)
}

/// A tensor's indices as row-major integers of 64 bits, broadcast to these sizes.
pub fn integers(index: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    if index.sizes().as_slice() == sizes {
        return plain(index, DType::I64);
    }
    let stretched = crate::create::empty(sizes, DType::I64, index.device())?;
    crate::copy::copy(&stretched, index)?;
    Ok(stretched)
}

/// The result itself if it has the compute dtype, else a temporary tensor that is cast afterwards.
pub fn workplace(result: &Tensor, dtype: DType) -> Result<Tensor> {
    if result.dtype() == dtype {
        Ok(result.clone())
    } else {
        crate::create::empty(result.sizes(), dtype, result.device())
    }
}

/// The same in row-major memory, for results that may have another layout.
pub fn plain_workplace(result: &Tensor, dtype: DType) -> Result<Tensor> {
    if result.layout().is_contiguous() {
        return workplace(result, dtype);
    }
    crate::create::empty(result.sizes(), dtype, result.device())
}

/// Casts the temporary tensor `place` into the result.
pub fn settle(place: &Tensor, result: &Tensor) -> Result<()> {
    if place.ptr_eq(result) { Ok(()) } else { crate::copy::copy(result, place) }
}

/// A tensor's shape as lines along `dim`.
pub fn lines(tensor: &Tensor, dim: usize) -> Lines {
    let sizes = tensor.sizes();
    let product = |part: &[isize]| part.iter().product::<isize>() as usize;
    if sizes.is_empty() {
        return Lines { outer: 1, n: 1, inner: 1 };
    }
    Lines { outer: product(&sizes[..dim]), n: sizes[dim] as usize, inner: product(&sizes[dim + 1..]) }
}
