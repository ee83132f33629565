//! Products of matrices that cuBLASLt (`cublaslt`) does not compute. The kernel is `matmul.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Error, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{DIMS, ElementType, Loops, Numbers, argument, launch};
use crate::program::{Key, Program};

/// The first bytes of the result, the factors and the addend, and the distances in bytes between their rows and columns.
#[repr(C)]
pub struct Matrices {
    pub at: [u64; 4],
    pub rows: [i64; 4],
    pub columns: [i64; 4],
}

/// The rows and columns of the result, and the inner dimension.
#[repr(C)]
pub struct Sizes {
    pub rows: u64,
    pub columns: u64,
    pub inner: u64,
}

/// The side of the square that a block computes (`SQUARE` in the kernel).
const SQUARE: u64 = 64;
const MOST_BATCHES: usize = 65535;

/// Enqueues `alpha * (a @ b) + beta * addend` for every matrix of a batch. The numbers have the bits of the dtype that products are
/// summed in.
///
/// # Safety
/// The matrices at all places of the batch stay within memory that is held for the stream.
pub unsafe fn multiply(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut matrices: Matrices,
    mut sizes: Sizes,
    batch: &LoopNest<4>,
    [alpha, beta]: [[u64; 2]; 2],
    has_addend: bool,
) -> Result<()> {
    if batch.rank() > DIMS {
        return Err(Error::runtime(format!("a product on CUDA has at most {DIMS} separate batch dimensions")));
    }
    let program =
        Program::find(card, Key::new("matmul", [ElementType::Of(dtype).code()]), &[c"multiply"], || source(dtype))?;
    let mut numbers = Numbers::new(&[alpha, beta], std::iter::empty())?;
    let mut loops = Loops::of(batch);
    let (mut batches, mut has_addend) = (batch.numel() as u64, u32::from(has_addend));
    for (first, offset) in matrices.at.iter_mut().zip(batch.bases()) {
        *first = first.wrapping_add_signed(offset as i64);
    }
    let squares = sizes.rows.div_ceil(SQUARE) * sizes.columns.div_ceil(SQUARE);
    let grid = u32::try_from(squares).ok().filter(|&grid| grid <= i32::MAX as u32);
    let grid = grid.ok_or_else(|| Error::runtime("the product is too large for one launch"))?;
    let mut arguments = [
        argument(&mut matrices),
        argument(&mut loops),
        argument(&mut batches),
        argument(&mut sizes),
        argument(&mut has_addend),
        argument(&mut numbers),
    ];
    let grid = [grid, batch.numel().min(MOST_BATCHES) as u32];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program that `source` writes.
    unsafe { launch(card, program.kernel(0), grid, stream, &mut arguments) }
}

fn source(dtype: DType) -> String {
    let (element, sum) = (type_name(dtype), type_name(dtype.compute()));
    format!(
        r#"#include "matmul.cuh"
using namespace rushlight;
extern "C" __global__ void multiply(Matrices matrices, Loops<4> batch, u64 batches, Sizes sizes, u32 has_addend,
                                    Numbers numbers) {{
    rushlight::multiply<{element}, {sum}>(matrices, batch, batches, sizes, has_addend, numbers);
}}
"#
    )
}
