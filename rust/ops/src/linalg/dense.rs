//! What all rows over dense matrices share: checks in torch's words, matrices in memory, and short names in derivatives.

use rushlight_autograd::Tensor;
use rushlight_core::storage::Pin;
use rushlight_core::{Class, DType, Dims, Error, Layout, Result};
use rushlight_cpu::linalg::{Matrices, Numbers};

use crate::expr::Expr;
use crate::row::{DTypes, Spec};
use crate::view::transpose::TRANSPOSE;

/// Runs a kernel with `$T` as the dtype's type.
macro_rules! dense {
    ($dtype:expr, $T:ident => $body:expr) => {
        rushlight_core::dispatch!($dtype, $T in [f32, f64, rushlight_core::dtype::c64, rushlight_core::dtype::c128] => {
            $body
        }, else => Err(rushlight_core::Error::not_implemented("matrices are factorised in floats alone")))
    };
}
pub(crate) use dense;

/// Refuses what is no matrix.
pub fn check_matrix(name: &str, argument: &str, a: &Tensor) -> Result<()> {
    if a.rank() < 2 {
        return Err(Error::runtime(format!("{name}: The input tensor {argument} must have at least 2 dimensions."))
            .shapes([a.sizes().as_slice()]));
    }
    Ok(())
}

/// Refuses matrices that are not square.
pub fn check_square(name: &str, a: &Tensor) -> Result<()> {
    check_square_as(name, "A", a)
}

/// The same under another name of the argument.
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

/// Refuses integers.
pub fn check_inexact(name: &str, a: &Tensor) -> Result<()> {
    if a.dtype().is_differentiable() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        a.dtype().title()
    ))
    .hint("x.float() turns integers into floats."))
}

/// Refuses the half types, in the name of torch's kernel.
pub fn check_kernel(kernel: &str, a: &Tensor) -> Result<()> {
    if DTypes::DENSE.has(a.dtype()) {
        return Ok(());
    }
    Err(Error::unsupported(kernel, a.dtype()).hint("It accepts float32, float64, complex64, complex128."))
}

/// Refuses integers and the half types.
pub fn check_dense(name: &str, a: &Tensor) -> Result<()> {
    check_inexact(name, a)?;
    if a.dtype().is_half() {
        return Err(Error::runtime(format!("{name}: Low precision dtypes not supported. Got {}", a.dtype().title()))
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

/// The batch's sizes with others behind them.
pub fn sized(a: &Tensor, tail: &[isize]) -> Dims {
    let mut sizes = Dims::from_slice(batch_sizes(a));
    sizes.extend_from_slice(tail);
    sizes
}

/// How many matrices there are.
pub fn count(a: &Tensor) -> usize {
    batch_sizes(a).iter().product::<isize>() as usize
}

/// A result of matrices whose columns lie together, as the algorithms like it.
pub fn by_columns(sizes: &[isize], dtype: DType, like: &Tensor) -> Spec {
    let rank = sizes.len();
    let mut turned = Dims::from_slice(sizes);
    turned.swap(rank - 2, rank - 1);
    let layout = Layout::contiguous(&turned).transpose(rank - 2, rank - 1);
    Spec { layout, dtype, device: like.device() }
}

/// Matrices in memory that kernels can step through: the tensor itself, or a copy by columns.
pub fn steady(a: &Tensor) -> Result<Tensor> {
    let rank = a.rank();
    let lies_well = a.layout().is_contiguous() || a.layout().transpose(rank - 2, rank - 1).is_contiguous();
    // Foreign memory may begin anywhere.
    let aligned = (a.storage().pin()?.as_ptr() as usize).is_multiple_of(a.dtype().to_real().size());
    if lies_well && aligned { Ok(a.clone()) } else { by_columns_copy(a) }
}

/// A copy by columns, to be overwritten.
pub fn by_columns_copy(a: &Tensor) -> Result<Tensor> {
    let copy = crate::call::allocate(&by_columns(a.sizes(), a.dtype(), a))?;
    crate::copy::copy(&copy, a)?;
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

/// The numbers of a row-major tensor, `each` for a matrix.
pub fn numbers<T>(a: &Tensor, pin: &Pin, each: usize) -> Numbers<T> {
    Numbers { ptr: first(a, pin), each }
}

/// The first element, or where nothing needs to lie.
fn first<T>(a: &Tensor, pin: &Pin) -> *mut T {
    if a.numel() == 0 {
        return std::ptr::NonNull::dangling().as_ptr();
    }
    pin.as_ptr().cast::<T>().wrapping_offset(a.layout().offset)
}

/// Turns the first number that is not zero into an error; `sentence` says what it means.
pub fn check_info(name: &str, infos: &Tensor, sentence: impl Fn(i32) -> String) -> Result<()> {
    if infos.device() != rushlight_core::Device::Cpu {
        return Ok(());
    }
    let list = crate::to_vec::<i32>(&crate::mapped::samples(infos))?;
    let Some(at) = list.iter().position(|&info| info != 0) else { return Ok(()) };
    let element = if infos.rank() == 0 { String::new() } else { format!("(Batch element {at}): ") };
    Err(Error::new(Class::LinAlg, format!("{name}: {element}{}", sentence(list[at]))))
}

impl Expr {
    /// A vector for each matrix, to act on its columns.
    pub fn along_columns(self) -> Expr {
        self.call(&crate::view::squeeze::UNSQUEEZE, [(-2i64).into()])
    }

    /// A vector for each matrix, to act on its rows.
    pub fn along_rows(self) -> Expr {
        self.call(&crate::view::squeeze::UNSQUEEZE, [(-1i64).into()])
    }

    /// The diagonals of matrices.
    pub fn diagonals(self) -> Expr {
        self.call(&crate::view::diagonal::DIAGONAL, [0i64.into(), (-2i64).into(), (-1i64).into()])
    }

    /// Matrices with these diagonals.
    pub fn on_diagonals(self) -> Expr {
        self.call(&crate::join::diag::DIAG_EMBED, [])
    }

    pub fn tril(self, diagonal: i64) -> Expr {
        self.call(&crate::join::tril::TRIL, [diagonal.into()])
    }

    pub fn triu(self, diagonal: i64) -> Expr {
        self.call(&crate::join::tril::TRIU, [diagonal.into()])
    }

    /// `length` indices of a dimension, counted from the last, from `start` on.
    pub fn part(self, dim: i64, start: isize, length: isize) -> Expr {
        match self {
            Expr::Tensor(tensor) => Expr::new(crate::view::narrow::narrow(&tensor, dim, start as i64, length as i64)),
            other => other,
        }
    }

    /// The sum over one dimension, which goes away.
    pub fn sum_over(self, dim: i64) -> Expr {
        self.call(&crate::reduce::sum::SUM_DIM, [dim.into()])
    }

    /// The first of the next two dimensions and the second exchanged.
    pub fn swapped(self, a: i64, b: i64) -> Expr {
        self.call(&TRANSPOSE, [a.into(), b.into()])
    }

    /// The sizes of a tensor; none of anything else.
    pub fn sizes(&self) -> &[isize] {
        match self {
            Expr::Tensor(tensor) => tensor.sizes(),
            _ => &[],
        }
    }
}

/// Matrices of ones on the diagonal, like `like` in batch and dtype.
pub fn identities(like: &Tensor, rows: isize, cols: isize) -> Result<Tensor> {
    let eye = crate::create::zeros(&sized(like, &[rows, cols]), like.dtype(), like.device())?;
    let diagonal = crate::view::diagonal::diagonal_at(eye.layout(), 0, -2, -1)?;
    let one = crate::create::scalar_of(rushlight_core::Scalar::ONE, like.dtype(), like.device())?;
    crate::copy::copy_to_view(&eye, &diagonal, &one)?;
    Ok(eye)
}

/// Whether a gradient may be asked for of what is computed from `a`.
pub fn is_watched(a: &Tensor) -> bool {
    a.is_watched() && rushlight_autograd::modes::recording()
}

/// The results of a row with several, by place.
pub fn results<const N: usize>(output: crate::value::Output) -> Result<[Tensor; N]> {
    let list = output.into_tensors();
    list.try_into().map_err(|_| Error::runtime("an operator gave another number of results than it promises"))
}
