//! Shared by all operators over dense matrices: checks with torch's messages, matrices in memory, and short names for
//! derivatives.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast;
use rushlight_core::storage::Pin;
use rushlight_core::{Class, DType, Dims, Error, Layout, Result};
use rushlight_cpu::linalg::{Matrices, PerMatrix};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::operator::{DTypes, TensorSpec};
use rushlight_dispatch::value::{Output, sizes_value};
use rushlight_dispatch::{copy, create, vmap};

/// Runs a kernel with `$T` as the dtype's type.
macro_rules! dense {
    ($dtype:expr, $T:ident => $body:expr) => {
        rushlight_core::dispatch!($dtype, $T in [f32, f64, rushlight_core::dtype::c64, rushlight_core::dtype::c128] => {
            $body
        }, else => Err(rushlight_core::Error::not_implemented("matrices are factorised in floats alone")))
    };
}
pub(crate) use dense;

/// Returns an error for a tensor that is not a matrix.
pub fn check_matrix(name: &str, argument: &str, a: &Tensor) -> Result<()> {
    if a.rank() < 2 {
        return Err(Error::runtime(format!("{name}: The input tensor {argument} must have at least 2 dimensions."))
            .shapes([a.sizes().as_slice()]));
    }
    Ok(())
}

/// Returns an error for matrices that are not square.
pub fn check_square(name: &str, a: &Tensor) -> Result<()> {
    check_square_as(name, "A", a)
}

/// The same with another name of the argument.
pub fn check_square_as(name: &str, argument: &str, a: &Tensor) -> Result<()> {
    check_matrix(name, argument, a)?;
    let [rows, cols] = matrix_sizes(a);
    if rows != cols {
        return Err(Error::runtime(format!(
            "{name}: {argument} must be batches of square matrices, but they are {rows} by {cols} matrices"
        ))
        .shapes([a.sizes().as_slice()]));
    }
    Ok(())
}

/// Returns an error for integers.
pub fn check_inexact(name: &str, a: &Tensor) -> Result<()> {
    if a.dtype().is_differentiable() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        a.dtype().display_name()
    ))
    .hint("Use x.float() to convert integers to floats."))
}

/// Returns an error for half types, with the name of torch's kernel, which matrices without elements do not need.
pub fn check_filled(kernel: &str, a: &Tensor) -> Result<()> {
    if a.numel() == 0 { Ok(()) } else { check_kernel(kernel, a) }
}

/// Returns an error for half types, with the name of torch's kernel.
pub fn check_kernel(kernel: &str, a: &Tensor) -> Result<()> {
    if DTypes::DENSE.has(a.dtype()) {
        return Ok(());
    }
    Err(Error::unsupported(kernel, a.dtype()).hint("It accepts float32, float64, complex64, complex128."))
}

/// Returns an error for integers and half types.
pub fn check_dense(name: &str, a: &Tensor) -> Result<()> {
    check_inexact(name, a)?;
    if a.dtype().is_half() {
        return Err(Error::runtime(format!(
            "{name}: Low precision dtypes not supported. Got {}",
            a.dtype().display_name()
        ))
        .hint("It accepts float32, float64, complex64, complex128."));
    }
    Ok(())
}

/// Rows and columns of a tensor of matrices.
pub fn matrix_sizes(a: &Tensor) -> [isize; 2] {
    let rank = a.rank();
    [a.sizes()[rank - 2], a.sizes()[rank - 1]]
}

/// The sizes before the last two.
pub fn batch_sizes(a: &Tensor) -> &[isize] {
    &a.sizes()[..a.rank() - 2]
}

/// The batch's sizes followed by others.
pub fn sized(a: &Tensor, tail: &[isize]) -> Dims {
    let mut sizes = Dims::from_slice(batch_sizes(a));
    sizes.extend_from_slice(tail);
    sizes
}

/// How many matrices there are.
pub fn count(a: &Tensor) -> usize {
    batch_sizes(a).iter().product::<isize>() as usize
}

/// A result of column-major matrices, which the algorithms prefer.
pub fn by_columns(sizes: &[isize], dtype: DType, like: &Tensor) -> TensorSpec {
    let rank = sizes.len();
    let mut turned = Dims::from_slice(sizes);
    turned.swap(rank - 2, rank - 1);
    let layout = Layout::contiguous(&turned).transpose(rank - 2, rank - 1);
    TensorSpec { layout, dtype, device: like.device() }
}

/// Matrices with regular strides for kernels: the tensor itself, or a column-major copy.
pub fn steady(a: &Tensor) -> Result<Tensor> {
    let rank = a.rank();
    let lies_well = a.layout().is_contiguous() || a.layout().transpose(rank - 2, rank - 1).is_contiguous();
    // Foreign memory may be unaligned.
    let aligned = (a.storage().pin()?.as_ptr() as usize).is_multiple_of(a.dtype().to_real().size());
    if lies_well && aligned { Ok(a.clone()) } else { by_columns_copy(a) }
}

/// A column-major copy, to be overwritten.
pub fn by_columns_copy(a: &Tensor) -> Result<Tensor> {
    let copy = allocate(&by_columns(a.sizes(), a.dtype(), a))?;
    copy::copy(&copy, a)?;
    Ok(copy)
}

/// The matrices of a `steady` tensor.
pub fn matrices<T>(a: &Tensor, pin: &Pin) -> Matrices<T> {
    let (layout, rank) = (a.layout(), a.rank());
    let [rows, cols] = matrix_sizes(a);
    Matrices {
        ptr: first(a, pin),
        rows: rows as usize,
        cols: cols as usize,
        row_stride: layout.strides[rank - 2],
        col_stride: layout.strides[rank - 1],
        step: rows * cols,
    }
}

/// The elements of a row-major tensor, `each` for a matrix.
pub fn per_matrix<T>(a: &Tensor, pin: &Pin, each: usize) -> PerMatrix<T> {
    PerMatrix { ptr: first(a, pin), each }
}

/// The first element; dangling if the tensor is empty.
fn first<T>(a: &Tensor, pin: &Pin) -> *mut T {
    if a.numel() == 0 {
        return std::ptr::NonNull::dangling().as_ptr();
    }
    pin.as_ptr().cast::<T>().wrapping_offset(a.layout().offset)
}

/// Turns the first non-zero number into an error, whose message is `sentence`.
pub fn check_info(name: &str, infos: &Tensor, sentence: impl Fn(i32) -> String) -> Result<()> {
    if infos.device() == rushlight_core::Device::Meta {
        return Ok(());
    }
    let list = crate::convert::to_vec::<i32>(&vmap::samples(infos)?)?;
    let Some(at) = list.iter().position(|&info| info != 0) else { return Ok(()) };
    let element = if infos.rank() == 0 { String::new() } else { format!("(Batch element {at}): ") };
    Err(Error::new(Class::LinAlg, format!("{name}: {element}{}", sentence(list[at]))))
}

/// Identity matrices with the batch and dtype of `like`.
pub fn identities(like: &Tensor, rows: isize, cols: isize) -> Result<Tensor> {
    let eye = create::zeros(&sized(like, &[rows, cols]), like.dtype(), like.device())?;
    let diagonal = crate::view::diagonal::diagonal_at(eye.layout(), 0, -2, -1)?;
    let one = create::scalar_of(rushlight_core::Scalar::ONE, like.dtype(), like.device())?;
    copy::copy_to_view(&eye, &diagonal, &one)?;
    Ok(eye)
}

/// Whether a result computed from `a` may need a gradient.
pub fn is_tracked(a: &Tensor) -> bool {
    a.is_tracked() && rushlight_autograd::modes::recording()
}

/// The results of an operator with several, by position.
pub fn results<const N: usize>(output: Output) -> Result<[Tensor; N]> {
    let list = output.into_tensors();
    list.try_into().map_err(|_| Error::runtime("an operator gave another number of results than it promises"))
}

pub fn different_dtypes(name: &str, first: &str, a: &Tensor, second: &str, b: &Tensor) -> Error {
    Error::runtime(format!(
        "{name}: Expected {first} and {second} to have the same dtype, but found {first} of type {} and {second} of type {} instead",
        a.dtype().display_name(),
        b.dtype().display_name()
    ))
}

/// Returns an error if the right-hand sides have another number of rows than the matrices.
pub fn check_fit(name: &str, a: &Tensor, sides: &[isize; 2], left: bool) -> Result<()> {
    let [rows, cols] = matrix_sizes(a);
    let fits = if left { rows == sides[0] } else { cols == sides[1] };
    if fits {
        return Ok(());
    }
    let equation = if left { "AX = B" } else { "XA = B" };
    Err(Error::runtime(format!(
        "{name}: Incompatible shapes of A and B for the equation {equation} ({rows}x{cols} and {}x{})",
        sides[0], sides[1]
    ))
    .hint("B must have as many rows as A (with left=False: as many columns); pass a single vector as b.unsqueeze(-1)."))
}

/// The checks of torch's older functions, whose first argument is the right-hand side.
pub fn check_operands(long: &str, short: &str, b: &Tensor, a: &Tensor) -> Result<()> {
    for (name, tensor) in [("b", b), ("A", a)] {
        if tensor.rank() < 2 {
            return Err(Error::runtime(format!(
                "{long}: Expected {name} to have at least 2 dimensions, but it has {} dimensions instead",
                tensor.rank()
            )));
        }
    }
    check_sizes(short, b, a)
}

/// The part of those checks that concerns sizes and dtypes.
pub fn check_sizes(name: &str, b: &Tensor, a: &Tensor) -> Result<()> {
    let ([rows, cols], [height, width]) = (matrix_sizes(a), matrix_sizes(b));
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
            b.dtype().display_name(),
            a.dtype().display_name()
        )));
    }
    if rows != cols {
        return Err(Error::runtime(format!(
            "A must be batches of square matrices, but they are {rows} by {cols} matrices"
        )));
    }
    if rows != height {
        return Err(Error::runtime(format!(
            "Incompatible matrix sizes for {name}: each A matrix is {rows} by {rows} but each b matrix is {height} by {width}"
        )).hint("b must have as many rows as A; pass a single vector as b.unsqueeze(-1).")
        .shapes([a.sizes().as_slice(), b.sizes().as_slice()]));
    }
    Ok(())
}

/// Both expanded to one batch.
pub fn common_batch(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    if batch_sizes(a) == batch_sizes(b) {
        return Ok((a.clone(), b.clone()));
    }
    let batch = broadcast(batch_sizes(a), batch_sizes(b))?;
    let stretch = |tensor: &Tensor| {
        let mut sizes = batch.clone();
        sizes.extend(matrix_sizes(tensor));
        crate::view::expand::EXPAND.tensor([tensor.into(), sizes_value(&sizes)])
    };
    Ok((stretch(a)?, stretch(b)?))
}

/// The dtype of row and pivot indices.
pub const PIVOTS: DType = DType::I32;
