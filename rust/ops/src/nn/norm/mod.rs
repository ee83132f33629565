//! Normalisation: mean zero and variance one over some dimensions, then a scale and a shift.
//!
//! Statistics are computed in single precision at least. `primitives` has the kernels and their derivatives; torch's public
//! operators define the groups.

mod batch;
mod group;
mod layer;
mod local;
mod on_cuda;
mod params;
mod primitives;

pub use batch::{BATCH_NORM, INSTANCE_NORM, NATIVE_BATCH_NORM};
pub use group::{GROUP_NORM, NATIVE_GROUP_NORM};
pub use layer::{LAYER_NORM, NATIVE_LAYER_NORM, RMS_NORM};
pub use local::LOCAL_RESPONSE_NORM;
pub use primitives::{NORMALIZE_BACKWARD, NORMALIZE_BATCH, NORMALIZE_GROUP, NORMALIZE_LAYER};

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::value::Arg;

use crate::convert::to_dtype;

/// The dtype of the statistics.
fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

fn check_floating(input: &Tensor, kernel: &str) -> Result<()> {
    if input.dtype().is_floating() { Ok(()) } else { Err(Error::unsupported(kernel, input.dtype())) }
}

fn product(sizes: &[isize]) -> isize {
    rushlight_core::layout::product(sizes) as isize
}

/// Checks that parameters have the input's dtype, or all single precision with an input of a half type; the first one
/// decides which.
fn check_mixed(input: &Tensor, parameters: &[Option<&Tensor>]) -> Result<()> {
    let own = input.dtype();
    let mut dtypes = parameters.iter().flatten().map(|parameter| parameter.dtype());
    let Some(first) = dtypes.clone().next() else { return Ok(()) };
    if first == own {
        return match dtypes.find(|&dtype| dtype != own) {
            Some(other) => Err(Error::runtime(format!(
                "expected scalar type {} but found {}",
                own.display_name(),
                other.display_name()
            ))),
            None => Ok(()),
        };
    }
    if dtypes.any(|dtype| dtype != DType::F32) {
        return Err(Error::runtime("mixed dtype (CPU): expect parameter to have scalar type of Float"));
    }
    if own.is_half() { Ok(()) } else { Err(Error::runtime("mixed dtype (CPU): all inputs must share same datatype.")) }
}

/// A statistic in the dtype that torch's native operators return: that of the first parameter whose dtype differs from
/// the input's, else the input's.
fn statistic(args: &Args, parameters: &[Arg], tensor: &Tensor) -> Result<Tensor> {
    let input = args.tensor(Arg::FIRST)?.dtype();
    let mut dtypes = parameters.iter().filter_map(|&arg| args.optional_tensor(arg)).map(Tensor::dtype);
    to_dtype(tensor, dtypes.find(|&dtype| dtype != input).unwrap_or(input))
}
