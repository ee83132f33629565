//! The checks of a compressed tensor's parts, in torch's words.

use rushlight_autograd::{CompressedFormat, CompressedParts, Tensor};
use rushlight_core::layout::{Shape, checked_numel};
use rushlight_core::{DType, Device, Dims, Error, Result};

use crate::convert::{to_dtype, to_vec};

fn failed<T>(message: String) -> Result<T> {
    Err(Error::runtime(message))
}

/// torch's name of an index's dtype.
fn dtype_name(tensor: &Tensor) -> &'static str {
    tensor.dtype().display_name()
}

/// Checks the parts and the sizes; without sizes, they are the smallest that contain the indices. The order of the
/// indices within a row is checked only on request: products of SciPy's have any.
pub fn checked(
    format: CompressedFormat,
    compressed: &Tensor,
    plain: &Tensor,
    values: &Tensor,
    sizes: Option<&[isize]>,
    ordered: bool,
) -> Result<(CompressedParts, Dims)> {
    check_ranks(format, compressed, plain, values)?;
    let without_data = values.device() == Device::Meta;
    let parts =
        CompressedParts { format, compressed: compressed.detach(), plain: plain.detach(), values: values.detach() };
    let sizes = match sizes {
        Some(sizes) => Dims::from_slice(sizes),
        None if without_data => return failed("Tensor.item() cannot be called on meta tensors".into()),
        None => smallest(&parts)?,
    };
    check_sizes(&parts, &sizes)?;
    check_lengths(&parts, &sizes)?;
    check_dtypes(&parts)?;
    if let Some(negative) = sizes.iter().find(|&&size| size < 0) {
        return failed(format!("Trying to create tensor with negative dimension {negative}: {}", Shape(&sizes)));
    }
    checked_numel(&sizes)?;
    let dense = &sizes[parts.batch_dims() + 2..];
    let own = &parts.values.sizes()[values.rank() - parts.dense_dims()..];
    if own != dense {
        return failed(format!(
            "values dense dimensions (={}) must be equal to the tensor's (={})",
            Shape(own),
            Shape(dense)
        ));
    }
    if !without_data {
        check_indices(&parts, &sizes, ordered)?;
    }
    Ok((parts, sizes))
}

/// The numbers of dimensions, which those of the parts follow from.
fn check_ranks(format: CompressedFormat, compressed: &Tensor, plain: &Tensor, values: &Tensor) -> Result<()> {
    let [compressed_name, plain_name] = format.index_names();
    for (name, tensor) in [(compressed_name, compressed), (plain_name, plain), ("values", values)] {
        if tensor.is_sparse() {
            return failed(format!("expected {name} to be a strided tensor but got {} tensor", tensor.layout_name()));
        }
    }
    if compressed.rank() == 0 {
        return failed(format!("{compressed_name} must have dimensionality >= 1 but got 0"));
    }
    if compressed.rank() != plain.rank() {
        return failed(format!(
            "{compressed_name} and {plain_name} dimensionalities must be equal but got {} and {}, respectively",
            compressed.rank(),
            plain.rank()
        ));
    }
    let (batch_dims, block_dims) = (compressed.rank() - 1, if format.blocks { 2 } else { 0 });
    if values.rank() <= batch_dims + block_dims {
        return failed(format!(
            "values must have dimensionality > sum of batch and block dimensionalities (={batch_dims} + {block_dims}) but got {}",
            values.rank()
        ));
    }
    Ok(())
}

/// The batch dimensions and the blocks, against the sizes.
fn check_sizes(parts: &CompressedParts, sizes: &[isize]) -> Result<()> {
    let [compressed_name, plain_name] = parts.format.index_names();
    let CompressedParts { compressed, plain, values, .. } = parts;
    let (batch_dims, dense_dims) = (parts.batch_dims(), parts.dense_dims());
    if sizes.len() != batch_dims + 2 + dense_dims {
        return failed(format!(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities (={batch_dims} + 2 + {dense_dims}) but got {}",
            sizes.len()
        ));
    }
    let batch = &sizes[..batch_dims];
    let of = |tensor: &Tensor| Dims::from_slice(&tensor.sizes()[..batch_dims]);
    if [compressed, plain, values].into_iter().any(|tensor| of(tensor)[..] != *batch) {
        return failed(format!(
            "all batch dimensions of {compressed_name} (={}), {plain_name} (={}), and values (={}) must be equal to tensor batch dimensions (={})",
            Shape(&of(compressed)),
            Shape(&of(plain)),
            Shape(&of(values)),
            Shape(batch)
        ));
    }
    for (dim, length) in parts.block().into_iter().enumerate() {
        let size = sizes[batch_dims + dim];
        if length <= 0 || size % length != 0 {
            return failed(format!(
                "tensor shape[{dim}] (={size}) must be divisible with blocksize[{dim}] (={length}) as defined by values shape"
            ));
        }
    }
    Ok(())
}

fn check_dtypes(CompressedParts { format, compressed, plain, .. }: &CompressedParts) -> Result<()> {
    let [compressed_name, plain_name] = format.index_names();
    if compressed.dtype() != plain.dtype() {
        return failed(format!(
            "{compressed_name} and {plain_name} must have the same dtype, bot got {} and {}, respectively",
            dtype_name(compressed),
            dtype_name(plain)
        ));
    }
    if !matches!(compressed.dtype(), DType::I32 | DType::I64) {
        return failed(format!(
            "{compressed_name} and {plain_name} dtype must be Int or Long, but got {}",
            dtype_name(compressed)
        ));
    }
    Ok(())
}

fn check_lengths(parts: &CompressedParts, sizes: &[isize]) -> Result<()> {
    let [compressed_name, plain_name] = parts.format.index_names();
    let batch_dims = parts.batch_dims();
    let line = usize::from(parts.format.columns);
    let lines = (sizes[batch_dims + line] / parts.block()[line]).saturating_add(1);
    let length = parts.compressed.sizes()[batch_dims];
    if length != lines {
        let names = match (parts.format.columns, parts.format.blocks) {
            (false, false) => "rows",
            (true, false) => "columns",
            (false, true) => "row blocks",
            (true, true) => "column blocks",
        };
        return failed(format!(
            "{compressed_name}.shape[-1] must be equal to the number of {names} + 1 (={lines}), but got {length}"
        ));
    }
    let (count, stored) = (parts.count(), parts.values.sizes()[batch_dims]);
    if count != stored {
        return failed(format!(
            "{plain_name}.shape[-1] must be equal to nnz (={stored}) as defined by values.shape[{batch_dims}], but got {count}"
        ));
    }
    Ok(())
}

/// The smallest sizes that contain the indices.
fn smallest(parts: &CompressedParts) -> Result<Dims> {
    let batch_dims = parts.batch_dims();
    let most = to_vec::<i64>(&to_dtype(&parts.plain, DType::I64)?)?.into_iter().max();
    let across = most.map_or(0, |most| (most as isize).saturating_add(1).max(0));
    let lines = parts.compressed.sizes()[batch_dims] - 1;
    let [height, width] = parts.block();
    let (rows, columns) = if parts.format.columns { (across, lines) } else { (lines, across) };
    let mut sizes = Dims::from_slice(&parts.compressed.sizes()[..batch_dims]);
    sizes.extend_from_slice(&[rows.saturating_mul(height), columns.saturating_mul(width)]);
    sizes.extend_from_slice(&parts.values.sizes()[parts.values.rank() - parts.dense_dims()..]);
    Ok(sizes)
}

fn check_indices(parts: &CompressedParts, sizes: &[isize], ordered: bool) -> Result<()> {
    let [compressed, plain] = parts.format.index_names();
    let batch_dims = parts.batch_dims();
    let [lines, across] = if parts.format.columns { ["ncols", "nrows"] } else { ["nrows", "ncols"] };
    let unsatisfied = |text: String| failed(format!("`{text}` is not satisfied."));
    let dim = usize::from(!parts.format.columns);
    let places = (sizes[batch_dims + dim] / parts.block()[dim]) as i64;
    let count = parts.count() as usize;
    let starts = to_vec::<i64>(&to_dtype(&parts.compressed, DType::I64)?)?;
    let stored = to_vec::<i64>(&to_dtype(&parts.plain, DType::I64)?)?;
    let length = parts.compressed.sizes()[batch_dims] as usize;
    if stored.iter().any(|place| !(0..places).contains(place)) {
        return unsatisfied(format!("0 <= {plain} < {across}"));
    }
    for (number, starts) in starts.chunks(length).enumerate() {
        if starts[0] != 0 {
            return unsatisfied(format!("{compressed}[..., 0] == 0"));
        }
        if starts[length - 1] != count as i64 {
            return unsatisfied(format!("{compressed}[..., -1] == nnz"));
        }
        let in_range = |steps: i64| (0..=places).contains(&steps);
        if !starts.windows(2).all(|ends| ends[1].checked_sub(ends[0]).is_some_and(in_range)) {
            return unsatisfied(format!("0 <= {compressed}[..., 1:] - {compressed}[..., :-1] <= {across}"));
        }
        let own = &stored[number * count..(number + 1) * count];
        let sorted = |ends: &[i64]| own[ends[0] as usize..ends[1] as usize].is_sorted_by(|a, b| a < b);
        if ordered && !starts.windows(2).all(sorted) {
            return unsatisfied(format!(
                "{plain}[..., {compressed}[..., i - 1]:{compressed}[..., i]] for all i = 1, ..., {lines} are sorted and distinct along the last dimension values"
            ));
        }
    }
    Ok(())
}
