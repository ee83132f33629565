//! The product for callers that know the element type only at run time; the types are instantiated here, once.

use rushlight_core::dtype::{bf16_, c64, c128, f16_};
use rushlight_core::{DType, Element, Result, Scalar, dispatch};

use super::{GemmElement, Matrices, Product, gemm};

/// `Product` without its type; strides count elements.
pub struct Untyped {
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: Scalar,
    pub a: Matrices<*const u8>,
    pub b: Matrices<*const u8>,
    pub addend: Option<(Scalar, Matrices<*const u8>)>,
    pub c: Matrices<*mut u8>,
}

/// Whether there is a product for a dtype.
pub fn multiplies(dtype: DType) -> bool {
    dtype != DType::Bool && !dtype.is_wide_unsigned()
}

/// Computes a batch of products of `dtype`; does nothing for a dtype without a product.
///
/// # Safety
/// Same as for [`gemm`].
pub unsafe fn gemm_of(dtype: DType, product: &Untyped) -> Result<()> {
    dispatch!(dtype, T in [f32, f64, f16_, bf16_, c64, c128, u8, i8, i16, i32, i64] => {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { run::<T>(product) }
    }, else => Ok(()))
}

/// # Safety
/// Same as for `gemm_of`, whose dtype is `T`.
unsafe fn run<T: GemmElement<Sum: Element>>(p: &Untyped) -> Result<()> {
    let read = |m: Matrices<*const u8>| Matrices {
        ptr: m.ptr.cast::<T>(),
        batch_stride: m.batch_stride,
        row_stride: m.row_stride,
        col_stride: m.col_stride,
    };
    let product = Product {
        batch: p.batch,
        m: p.m,
        n: p.n,
        k: p.k,
        alpha: T::Sum::from_scalar(p.alpha),
        a: read(p.a),
        b: read(p.b),
        addend: p.addend.map(|(beta, addend)| (T::Sum::from_scalar(beta), read(addend))),
        c: Matrices {
            ptr: p.c.ptr.cast::<T>(),
            batch_stride: p.c.batch_stride,
            row_stride: p.c.row_stride,
            col_stride: p.c.col_stride,
        },
    };
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe { gemm(&product) }
}
