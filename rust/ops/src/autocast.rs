//! Mixed precision: while it is on for a thread, products run in a half type, what needs the range in float32.
//!
//! Which operators do which is torch's list for CPUs. A call looks here before its eight steps; with no thread in the mode
//! that is one relaxed load. What an operator of the lists calls itself is not cast again.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Result};

use crate::convert::to_dtype;
use crate::row::Row;
use crate::value::{Args, Value};

/// Whether any thread ever turned it on: until then nobody pays for the look at the thread's own mode.
static EVER: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LOWER: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Sets the type that products run in on this thread, none for mixed precision being off; returns the one before.
pub fn set(lower: Option<DType>) -> Option<DType> {
    if lower.is_some() {
        EVER.store(true, Ordering::Relaxed);
    }
    LOWER.replace(lower)
}

/// The type that products run in on this thread, if mixed precision is on.
#[inline]
pub fn lower() -> Option<DType> {
    if EVER.load(Ordering::Relaxed) { LOWER.get() } else { None }
}

/// Mixed precision is off until the guard is dropped.
pub struct Off(Option<DType>);

impl Drop for Off {
    fn drop(&mut self) {
        set(self.0);
    }
}

enum Policy {
    Lower,
    Single,
    /// The widest type among the arguments.
    Widest,
}

fn policy(row: &Row) -> Option<Policy> {
    let policy = match (row.namespace, row.python_name()) {
        (_, "mm" | "bmm" | "matmul" | "addmm" | "addbmm" | "baddbmm" | "linear" | "vecdot" | "multi_dot")
        | (_, "conv1d" | "conv2d" | "conv3d" | "convolution" | "_convolution" | "scaled_dot_product_attention")
        | (_, "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" | "_tensordot" | "_einsum" | "inner") => {
            Policy::Lower
        }
        (_, "prod" | "trace" | "quantile" | "nanquantile" | "cdist" | "polar" | "view_as_complex" | "stft")
        | (_, "cholesky" | "cholesky_inverse" | "cholesky_solve" | "inverse" | "lu_solve" | "orgqr" | "ormqr")
        | (_, "geqrf" | "qr" | "svd" | "svdvals" | "lstsq" | "pinverse" | "nuclear_norm" | "triangular_solve")
        | (_, "avg_pool3d" | "max_pool3d" | "max_unpool2d" | "max_unpool3d" | "adaptive_avg_pool3d")
        | (_, "adaptive_max_pool3d" | "fractional_max_pool2d" | "fractional_max_pool3d" | "grid_sample")
        | (_, "grid_sampler_2d" | "grid_sampler_3d" | "reflection_pad1d" | "reflection_pad2d")
        | (_, "replication_pad1d" | "replication_pad2d" | "replication_pad3d" | "mse_loss" | "l1_loss")
        | (_, "smooth_l1_loss" | "huber_loss" | "cross_entropy" | "nll_loss" | "binary_cross_entropy")
        | (_, "binary_cross_entropy_with_logits" | "kl_div" | "cosine_embedding_loss" | "poisson_nll_loss")
        | (_, "hinge_embedding_loss" | "margin_ranking_loss" | "soft_margin_loss" | "triplet_margin_loss")
        | (_, "multi_margin_loss" | "multilabel_margin_loss" | "ctc_loss")
        | ("fft", _)
        | ("linalg", "inv" | "inv_ex" | "cholesky_ex" | "eig" | "eigh" | "eigvals" | "eigvalsh")
        | (
            "linalg",
            "solve" | "solve_ex" | "matrix_rank" | "tensorinv" | "tensorsolve" | "cond" | "householder_product",
        ) => Policy::Single,
        (_, "cat" | "stack" | "index_copy")
        | (_, "lstm_cell" | "gru_cell" | "rnn_tanh_cell" | "rnn_relu_cell" | "_lstm_gates" | "_gru_gates")
        | (_, "_linear_recurrence") => Policy::Widest,
        _ => return None,
    };
    Some(policy)
}

/// Whether mixed precision concerns a tensor: float64 stays as it is.
fn concerned(tensor: &Tensor) -> bool {
    tensor.dtype().is_floating() && tensor.dtype() != DType::F64 && tensor.device() == Device::Cpu
}

fn widest(args: &Args) -> Option<DType> {
    let mut found: Option<DType> = None;
    let mut see = |tensor: &Tensor| {
        if concerned(tensor) {
            let own = tensor.dtype();
            found = match found {
                Some(dtype) if dtype != own => Some(DType::F32),
                _ => Some(own),
            };
        }
    };
    for value in &args.values {
        match value {
            Value::Tensor(tensor) => see(tensor),
            Value::Own(tensor) => see(tensor),
            Value::Tensors(list) => list.iter().flatten().for_each(&mut see),
            _ => {}
        }
    }
    found
}

/// The arguments as mixed precision wants them for this row, and a guard for the call; none if the row is in no list.
pub fn cast<'a>(args: &Args<'a>, lower: DType) -> Result<Option<(Args<'a>, Off)>> {
    let wanted = match policy(args.row) {
        Some(Policy::Lower) => Some(lower),
        Some(Policy::Single) => Some(DType::F32),
        Some(Policy::Widest) => widest(args),
        None => None,
    };
    let Some(wanted) = wanted else { return Ok(None) };
    // From here on, so that the casts are not looked at either.
    let off = Off(set(None));
    let mut changed = args.clone();
    for value in &mut changed.values {
        match value {
            Value::Tensor(tensor) if concerned(tensor) => *value = Value::Own(to_dtype(tensor, wanted)?),
            Value::Own(tensor) if concerned(tensor) => *tensor = to_dtype(tensor, wanted)?,
            Value::Tensors(list) => {
                for tensor in list.iter_mut().flatten().filter(|tensor| concerned(tensor)) {
                    *tensor = to_dtype(tensor, wanted)?;
                }
            }
            _ => {}
        }
    }
    Ok(Some((changed, off)))
}
