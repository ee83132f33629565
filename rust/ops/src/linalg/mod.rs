//! Products of matrices and vectors; factorisations, and problems solved with them (`dense` has the shared parts).
//!
//! All products call `product()`, which calls the kernel: operands are layouts `(.., m, k)`, `(.., k, n)` and `(.., m,
//! n)`, so that transposed and broadcast operands cost no copy.

pub mod addmm;
pub mod cholesky;
pub mod contract;
pub mod dense;
pub mod determinant;
pub mod eigen;
pub mod einsum;
mod factors_on_cuda;
pub mod invariance;
pub mod ldl;
pub mod lu;
pub mod matrix;
pub mod norms;
mod on_cuda;
pub mod out_dtype;
pub mod powers;
pub mod qr;
pub mod rank;
pub mod solve;
pub mod svd;
pub mod triangular;
pub mod vectors;

use rushlight_autograd::Tensor;
use rushlight_core::storage::Pin;
use rushlight_core::{DType, Device, Dims, Error, Layout, Result, Scalar};
use rushlight_cpu::linalg::matmul::{Matrices, Untyped, gemm_of, multiplies};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::operator::DTypes;
use rushlight_dispatch::{copy, create};

use crate::expr_ext::ExprExt;

/// A batch of matrices, or a vector: a tensor's elements in some geometry.
#[derive(Clone)]
pub struct Matrix<'a> {
    tensor: &'a Tensor,
    layout: Layout,
}

impl<'a> Matrix<'a> {
    /// A tensor's elements in another geometry, which stays within its storage.
    pub fn laid(tensor: &'a Tensor, layout: Layout) -> Matrix<'a> {
        Matrix { tensor, layout }
    }

    pub fn of(tensor: &'a Tensor) -> Matrix<'a> {
        Matrix { tensor, layout: tensor.layout().clone() }
    }

    /// A vector as a matrix of one row; others unchanged.
    pub fn row(tensor: &'a Tensor) -> Matrix<'a> {
        let layout = if tensor.rank() < 2 { tensor.layout().unsqueeze(0) } else { tensor.layout().clone() };
        Matrix { tensor, layout }
    }

    /// A vector as a matrix of one column; others unchanged.
    pub fn column(tensor: &'a Tensor) -> Matrix<'a> {
        Matrix::of(tensor).column_if_vector()
    }

    /// The last two dimensions exchanged.
    pub fn transposed(self) -> Matrix<'a> {
        let rank = self.layout.rank();
        Matrix { layout: self.layout.transpose(rank - 2, rank - 1), ..self }
    }

    /// A vector as a matrix of one column; others unchanged.
    pub fn column_if_vector(self) -> Matrix<'a> {
        if self.layout.rank() == 1 { Matrix { layout: self.layout.unsqueeze(1), ..self } } else { self }
    }

    /// Expanded to `sizes`.
    pub fn expanded(self, sizes: &[isize]) -> Result<Matrix<'a>> {
        Ok(Matrix { layout: self.layout.broadcast_to(sizes)?, tensor: self.tensor })
    }

    pub fn sizes(&self) -> &[isize] {
        &self.layout.sizes
    }

    fn view(&self) -> Tensor {
        Tensor::view_of(self.tensor, self.layout.clone())
    }

    /// A copy in float32.
    fn in_floats(&self) -> Result<Tensor> {
        plain(&self.view(), DType::F32)
    }
}

/// `out = alpha * a b + beta * addend` for batches of matrices; missing batch dimensions, and those of size one, are
/// expanded.
pub fn product(out: Matrix, alpha: Scalar, a: Matrix, b: Matrix, addend: Option<(Scalar, Matrix)>) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    if out.tensor.dtype().is_float8() {
        return product_in_floats(&out, alpha, &a, &b, addend);
    }
    let rank = out.layout.rank();
    let [m, n] = [out.layout.sizes[rank - 2], out.layout.sizes[rank - 1]];
    let k = a.layout.sizes[a.layout.rank() - 1];
    let batch = &out.layout.sizes[..rank - 2];
    let stretch = |operand: Matrix, rows: isize, cols: isize| -> Result<Layout> {
        let mut sizes = Dims::from_slice(batch);
        sizes.extend([rows, cols]);
        operand.layout.broadcast_to(&sizes)
    };
    if let Device::Cuda(_) = out.tensor.device() {
        let copies = [on_cuda::readable(a.tensor, &a.layout)?, on_cuda::readable(b.tensor, &b.layout)?];
        let a = copies[0].as_ref().map_or(a, Matrix::of);
        let b = copies[1].as_ref().map_or(b, Matrix::of);
        let (a, b) = ((a.tensor, stretch(a, m, k)?), (b.tensor, stretch(b, k, n)?));
        let out = (out.tensor, out.layout.clone());
        let addend = match addend {
            Some((beta, operand)) if beta.truth() => {
                let addend = (operand.tensor, stretch(operand, m, n)?);
                Some((beta, if on_cuda::move_addend(&out, beta, &addend)? { out.clone() } else { addend }))
            }
            _ => None,
        };
        return on_cuda::product(out, alpha, a, b, addend);
    }
    let (pa, pb, pc) = (a.tensor.storage().pin()?, b.tensor.storage().pin()?, out.tensor.storage().pin()?);
    let pd = addend.as_ref().map(|(_, operand)| operand.tensor.storage().pin()).transpose()?;
    let (a, b) = (stretch(a, m, k)?, stretch(b, k, n)?);
    let addend = addend.map(|(beta, operand)| stretch(operand, m, n).map(|layout| (beta, layout))).transpose()?;
    let dtype = out.tensor.dtype();
    let (joined, outer) = join_batch(rank - 2, &[&out.layout, &a, &b], addend.as_ref().map(|(_, layout)| layout));
    let inner = |layout: &Layout| if joined == rank - 2 { 0 } else { layout.strides[rank - 3] };
    for at in 0..outer {
        let matrices = |layout: &Layout, pin: &Pin| {
            let mut offset = layout.offset;
            let mut rest = at;
            for dim in (0..joined).rev() {
                let size = layout.sizes[dim] as usize;
                offset += (rest % size) as isize * layout.strides[dim];
                rest /= size;
            }
            Matrices {
                ptr: pin.as_ptr().wrapping_offset(offset * dtype.size() as isize).cast_const(),
                batch_stride: inner(layout),
                row_stride: layout.strides[rank - 2],
                col_stride: layout.strides[rank - 1],
            }
        };
        let c = matrices(&out.layout, &pc);
        let product = Untyped {
            batch: batch[joined..].iter().product::<isize>() as usize,
            m: m as usize,
            n: n as usize,
            k: k as usize,
            alpha,
            a: matrices(&a, &pa),
            b: matrices(&b, &pb),
            addend: match (&addend, &pd) {
                (Some((beta, layout)), Some(pin)) => Some((*beta, matrices(layout, pin))),
                _ => None,
            },
            c: Matrices {
                ptr: c.ptr.cast_mut(),
                batch_stride: c.batch_stride,
                row_stride: c.row_stride,
                col_stride: c.col_stride,
            },
        };
        // SAFETY: layouts stay within their pinned storages, and the result does not overlap the operands.
        unsafe { gemm_of(dtype, &product)? };
    }
    Ok(())
}

/// The product of matrices of 8-bit floats: computed in float32 and rounded once.
fn product_in_floats(
    out: &Matrix,
    alpha: Scalar,
    a: &Matrix,
    b: &Matrix,
    addend: Option<(Scalar, Matrix)>,
) -> Result<()> {
    let (place, a, b) = (create::empty(out.sizes(), DType::F32, out.tensor.device())?, a.in_floats()?, b.in_floats()?);
    let addend = addend.map(|(beta, operand)| operand.in_floats().map(|tensor| (beta, tensor))).transpose()?;
    let addend = addend.as_ref().map(|(beta, tensor)| (*beta, Matrix::of(tensor)));
    product(Matrix::of(&place), alpha, Matrix::of(&a), Matrix::of(&b), addend)?;
    copy::copy(&out.view(), &place)
}

/// How many leading dimensions of the batch must be iterated one by one because the operands have no uniform stride
/// over them, and how many steps that makes.
fn join_batch(rank: usize, layouts: &[&Layout], addend: Option<&Layout>) -> (usize, usize) {
    let mut first = rank.saturating_sub(1);
    while first > 0 {
        let mut all = layouts.iter().copied().chain(addend);
        if !all.all(|layout| layout.strides[first - 1] == layout.strides[first].wrapping_mul(layout.sizes[first])) {
            break;
        }
        first -= 1;
    }
    (first, layouts[0].sizes[..first].iter().product::<isize>() as usize)
}

/// Returns an error for a dtype that cannot be multiplied, with the name of torch's kernel.
pub fn check_dtype(kernel: &str, dtype: DType) -> Result<()> {
    if multiplies(dtype) {
        return Ok(());
    }
    Err(Error::unsupported(kernel, dtype).hint("Convert the operands first: x.to(torch.float32)."))
}

/// The dtypes of products of two matrices, and the name of torch's kernel.
pub const PRODUCTS: DTypes = DTypes::NUMBERS.union(DTypes::FLOAT8_MATRICES);
pub const PRODUCT_KERNEL: &str = "addmm_impl_cpu_";

/// Returns an error for a dtype of which two matrices cannot be multiplied.
pub fn check_product_dtype(dtype: DType) -> Result<()> {
    if DTypes::FLOAT8_MATRICES.has(dtype) { Ok(()) } else { check_dtype(PRODUCT_KERNEL, dtype) }
}

/// A number times a gradient; the number is usually one.
pub fn scaled(grad: Expr, factor: Scalar) -> Expr {
    if factor.is_one() { grad } else { grad * Expr::from(factor).conj() }
}

/// Shapes in torch's format: `3x5`.
pub fn by(sizes: &[isize]) -> String {
    sizes.iter().map(isize::to_string).collect::<Vec<_>>().join("x")
}
