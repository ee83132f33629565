//! Products of matrices by NVIDIA's cuBLASLt, where it is installed.
//!
//! It describes a matrix by columns, whose elements are adjacent. A row-major product is the product of the transposed factors
//! in the other order. What it does not take is left to the kernel of `matmul`.
//!
//! Each call has a workspace of its own, so that the bits of a result do not depend on other streams. Descriptions and the library's
//! choice are kept: asking again takes longer than a small product.

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Result};

mod library;
mod plan;
mod prepared;
mod tuned;

pub use library::{describe, found, is_available, workspace_limit};
pub use plan::{View, adds_bias, allow_reductions, allow_tf32, multiplies};
pub use tuned::validators;

use crate::card::Card;
use crate::launch::enqueue;
use crate::matmul::{Matrices, Sizes};
use crate::storage::Workspace;
use crate::tunable;
use library::check;
use plan::{ADDEND, Key, Plan};
use prepared::{Call, Prepared};

/// Enqueues `alpha * (a @ b) + beta * addend` for every matrix of a batch, as `matmul::multiply`. False if cuBLASLt does not take
/// the product; then nothing was enqueued.
///
/// # Safety
/// As `matmul::multiply`.
pub unsafe fn multiply(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    matrices: &Matrices,
    sizes: &Sizes,
    batch: &LoopNest<4>,
    [alpha, beta]: [[u64; 2]; 2],
    has_addend: bool,
) -> Result<bool> {
    let Some(plan) = Plan::of(dtype, matrices, sizes, batch, beta, has_addend) else { return Ok(false) };
    let bias = matrices.at[ADDEND].wrapping_add_signed(batch.bases()[ADDEND] as i64);
    let starts = Plan::starts(matrices, batch);
    let key = Key { device: card.index, plan, alignments: plan.alignments(&starts) };
    let Some(prepared) = Prepared::find(card, key, bias)? else { return Ok(false) };
    // The description of a product with a bias has its address, so that each call has its own.
    let own = if plan.with_bias { Some(plan.operation(bias)?) } else { None };
    let operation = own.as_ref().unwrap_or(&prepared.operation);
    // The bias is added with the factor one by the epilogue.
    let numbers = [alpha, if plan.third == ADDEND { beta } else { [0; 2] }];
    let call = Call { operation, numbers, stream };
    let mut algorithm = prepared.recommended;
    if tunable::is_enabled()
        && let Some(&at) = starts.first()
    {
        // SAFETY: guaranteed by the caller.
        algorithm = unsafe { tuned::algorithm(card, &key, &prepared, &call, at)? };
    }
    let workspace = Workspace::new(card.index, stream, algorithm.workspaceSize)?;
    for at in starts {
        enqueue(card, "cublasLtMatmul", stream, || {
            // SAFETY: the caller holds the operands for the stream, as the workspace is held; the factors have the dtype that
            // the call was created with.
            let status = unsafe { prepared.run(card, &plan, &call, &algorithm, at, &workspace)? };
            check(
                status,
                "cublasLtMatmul( handle, descriptor, &alpha, a, b, &beta, c, d, &algorithm, workspace, size, stream)",
            )
        })?;
    }
    Ok(true)
}
