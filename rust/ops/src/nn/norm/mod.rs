//! Normalisation: mean zero and variance one over some dimensions, then a scale and a shift.
//!
//! Statistics are computed in single precision at least. `kernel` has the kernels and their derivatives; the rows that torch
//! names say what a group is.

mod batch;
mod group;
mod kernel;
mod layer;
mod local;

pub use batch::{BATCH_NORM, INSTANCE_NORM, NATIVE_BATCH_NORM};
pub use group::{GROUP_NORM, NATIVE_GROUP_NORM};
pub use kernel::{NORMALIZE_BACKWARD, NORMALIZE_BATCH, NORMALIZE_GROUP, NORMALIZE_LAYER};
pub use layer::{LAYER_NORM, NATIVE_LAYER_NORM, RMS_NORM};
pub use local::LOCAL_RESPONSE_NORM;

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};

use crate::convert::to_dtype;
use crate::value::Args;

/// The dtype of the statistics.
fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

fn check_floating(own: &Tensor, kernel: &str) -> Result<()> {
    if own.dtype().is_floating() { Ok(()) } else { Err(Error::unsupported(kernel, own.dtype())) }
}

fn product(sizes: &[isize]) -> isize {
    rushlight_core::layout::product(sizes) as isize
}

/// Parameters are of the input's dtype, or beside halves all of single precision; which of both, the first one says.
fn check_mixed(input: &Tensor, parameters: &[Option<&Tensor>]) -> Result<()> {
    let own = input.dtype();
    let mut dtypes = parameters.iter().flatten().map(|parameter| parameter.dtype());
    let Some(first) = dtypes.clone().next() else { return Ok(()) };
    if first == own {
        return match dtypes.find(|&dtype| dtype != own) {
            Some(other) => {
                Err(Error::runtime(format!("expected scalar type {} but found {}", own.title(), other.title())))
            }
            None => Ok(()),
        };
    }
    if dtypes.any(|dtype| dtype != DType::F32) {
        return Err(Error::runtime("mixed dtype (CPU): expect parameter to have scalar type of Float"));
    }
    if own.is_half() { Ok(()) } else { Err(Error::runtime("mixed dtype (CPU): all inputs must share same datatype.")) }
}

/// A statistic as torch's native rows give it: in the input's dtype, or wide beside parameters of another one. `places` are
/// the parameters'.
fn statistic(args: &Args, places: &[usize], tensor: &Tensor) -> Result<Tensor> {
    let own = args.tensor(0)?.dtype();
    let mut dtypes = places.iter().filter_map(|&place| args.optional_tensor(place)).map(Tensor::dtype);
    to_dtype(tensor, dtypes.find(|&dtype| dtype != own).unwrap_or(own))
}
