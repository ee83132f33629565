//! Factories.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::default_dtype;
use rushlight_core::{DType, Result, Scalar};
use rushlight_dispatch::create::from_slice;
use rushlight_dispatch::generator::Generator;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::value::{Output, Value, sizes_value};

use super::options::TensorOptions;
use crate::convert::to_dtype;
use crate::create::constant::{FULL, ONES, ONES_LIKE, ZEROS};
use crate::create::random::{RAND, RANDN};
use crate::install::install;

/// Calls a factory with its own arguments and the options, which are the last ones of its signature.
fn make<const N: usize>(op: &'static Operator, own: [Value<'_>; N], options: TensorOptions) -> Result<Tensor> {
    install();
    let mut args = Args::new(op, own);
    let first = args.values.len() - 5;
    for (place, value) in options.values().into_iter().enumerate() {
        args.values[first + place] = value;
    }
    args.call().and_then(Output::into_tensor)
}

/// Zeros.
///
/// # Errors
/// RuntimeError: a size is negative, or there is no memory; so for all factories.
pub fn zeros(sizes: &[isize], options: impl Into<TensorOptions>) -> Result<Tensor> {
    make(&ZEROS, [sizes_value(sizes)], options.into())
}

/// Ones.
pub fn ones(sizes: &[isize], options: impl Into<TensorOptions>) -> Result<Tensor> {
    make(&ONES, [sizes_value(sizes)], options.into())
}

/// One number everywhere. Without a dtype the result has the number's, as in torch.
pub fn full(sizes: &[isize], value: impl Into<Scalar>, options: impl Into<TensorOptions>) -> Result<Tensor> {
    make(&FULL, [sizes_value(sizes), value.into().into()], options.into())
}

/// Random numbers between 0 and 1, with torch's bits.
pub fn rand(sizes: &[isize], options: impl Into<TensorOptions>) -> Result<Tensor> {
    make(&RAND, [sizes_value(sizes)], options.into())
}

/// Random numbers of the standard normal distribution, with torch's bits.
///
/// ```
/// # use rushlight::{Operators, Result};
/// # fn main() -> Result<()> {
/// rushlight::manual_seed(0);
/// assert_eq!(rushlight::randn(&[3], ())?.to_string(), " 1.5410\n-0.2934\n-2.1788\n[ CPUFloatType{3} ]");
/// # Ok(())
/// # }
/// ```
pub fn randn(sizes: &[isize], options: impl Into<TensorOptions>) -> Result<Tensor> {
    make(&RANDN, [sizes_value(sizes)], options.into())
}

/// A vector with these elements. Its dtype is torch's for such literals: float32 for `f64`, int64 for `i64`, bool for `bool`, complex64 for complex
/// numbers. [`from_slice`](crate::from_slice) keeps the elements' own type.
///
/// ```
/// # use rushlight::{DType, Result};
/// # fn main() -> Result<()> {
/// assert!(rushlight::tensor(&[1.5, 2.5])?.dtype() == DType::F32);
/// assert!(rushlight::tensor(&[1i64, 2])?.dtype() == DType::I64);
/// # Ok(())
/// # }
/// ```
pub fn tensor<T: Copy + Into<Scalar>>(elements: &[T]) -> Result<Tensor> {
    install();
    let numbers = || elements.iter().map(|&element| element.into());
    match numbers().next() {
        Some(Scalar::Bool(_)) => {
            to_dtype(&from_slice::<u8>(&numbers().map(|x| x.truth().into()).collect::<Vec<_>>())?, DType::Bool)
        }
        Some(Scalar::Int(_)) => from_slice::<i64>(&numbers().map(Scalar::i64).collect::<Vec<_>>()),
        Some(Scalar::Complex(_)) => {
            let dtype = default_dtype().to_complex();
            to_dtype(&from_slice(&numbers().map(Scalar::complex).collect::<Vec<_>>())?, dtype)
        }
        _ => to_dtype(&from_slice::<f64>(&numbers().map(Scalar::f64).collect::<Vec<_>>())?, default_dtype()),
    }
}

/// Ones with the sizes and the dtype of another tensor.
pub fn ones_like(like: &Tensor) -> Result<Tensor> {
    op!(ONES_LIKE, like)
}

/// Begins the random numbers of the CPU and all GPUs anew.
pub fn manual_seed(seed: u64) {
    Generator::default_stream().manual_seed(seed);
    Generator::seed_devices(seed);
}
