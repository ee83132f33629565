//! Quantised tensors for Python: their methods, and the functions of the module behind `torch.quantize_per_tensor` and
//! the layers with weights of 8 bits.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use rushlight::quantized::{choose, convert, linear};
use rushlight::{Device, Tensor};
use rushlight_autograd::Quantizer;
use rushlight_dispatch::unsupported::unsupported_by;

use crate::dtype::{extract_dtype, extract_quantized, qscheme_object};
use crate::errors::raise;
use crate::methods::Own;
use crate::print::scheme_name;
use crate::{methods, object};

/// The quantizer of a tensor that must have one.
fn quantizer<'a>(own: &Own<'a, '_>, name: &str) -> PyResult<&'a Quantizer> {
    match own.tensor.quantizer() {
        Some(quantizer) => Ok(quantizer),
        None => {
            let backend = if own.tensor.device() == Device::Meta { "Meta" } else { "CPU" };
            Err(raise(unsupported_by(name, backend)))
        }
    }
}

/// torch's error for a question about the other kind of quantizer.
fn wrong_scheme(condition: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "Expected {condition} to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
    ))
}

fn one_scale(own: &Own, name: &str) -> PyResult<(f64, i64)> {
    match quantizer(own, name)? {
        Quantizer::PerTensor { scale, zero_point } => Ok((*scale, *zero_point)),
        Quantizer::PerChannel { .. } => Err(wrong_scheme("quantizer->qscheme() == kPerTensorAffine")),
    }
}

fn channels(own: &Own, name: &str) -> PyResult<(Tensor, Tensor, usize)> {
    match quantizer(own, name)? {
        Quantizer::PerChannel { scales, zero_points, axis } => Ok((scales.detach(), zero_points.detach(), *axis)),
        Quantizer::PerTensor { .. } => Err(wrong_scheme(
            "quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == kPerChannelAffineFloatQParams",
        )),
    }
}

methods! {
    fn dequantize(own) "The numbers of a quantised tensor as float32; another tensor in float32." {
        own.wrap(convert::dequantize(own.tensor).map_err(raise)?)
    }
    fn int_repr(own) "A copy of the integers that a quantised tensor stores." {
        quantizer(own, "int_repr")?;
        own.wrap(rushlight_dispatch::copy::clone(&own.tensor.integers()).map_err(raise)?)
    }
    fn q_scale(own) "The scale of a tensor that has a single one." { own.give(one_scale(own, "q_scale")?.0) }
    fn q_zero_point(own) "The integer that stands for zero, of a tensor with a single scale." {
        own.give(one_scale(own, "q_zero_point")?.1)
    }
    fn q_per_channel_scales(own) "The scale of each channel." {
        own.wrap(channels(own, "q_per_channel_scales")?.0)
    }
    fn q_per_channel_zero_points(own) "For each channel the integer that stands for zero." {
        own.wrap(channels(own, "q_per_channel_zero_points")?.1)
    }
    fn q_per_channel_axis(own) "The dimension of the channels." { own.give(channels(own, "q_per_channel_axis")?.2) }
    fn qscheme(own) "Whether there is one scale, or one for each channel: torch.per_tensor_affine and others." {
        own.give(qscheme_object(own.py(), scheme_name(quantizer(own, "qscheme")?))?)
    }
}

/// The integers of a quantised dtype.
fn stored_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<rushlight::DType> {
    extract_quantized(dtype).ok_or_else(|| match extract_dtype(dtype) {
        Some(dtype) => {
            PyRuntimeError::new_err(format!("ScalarType {} is not supported in new_qtensor.", dtype.display_name()))
        }
        None => PyTypeError::new_err(format!(
            "quantize_per_tensor(): argument 'dtype' must be torch.dtype, not {}",
            crate::errors::kind_of(dtype)
        )),
    })
}

/// Implements `torch.quantize_per_tensor` for one tensor and numbers.
#[pyfunction]
fn _quantize_per_tensor<'py>(
    py: Python<'py>,
    input: &Bound<'py, PyAny>,
    scale: f64,
    zero_point: i64,
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (tensor, dtype) = (object::tensor(input)?, stored_dtype(dtype)?);
    object::wrap_bound(py, convert::quantize_per_tensor(tensor, scale, zero_point, dtype).map_err(raise)?)
}

/// Implements `torch.quantize_per_channel`.
#[pyfunction]
fn _quantize_per_channel<'py>(
    py: Python<'py>,
    input: &Bound<'py, PyAny>,
    scales: &Bound<'py, PyAny>,
    zero_points: &Bound<'py, PyAny>,
    axis: i64,
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (tensor, dtype) = (object::tensor(input)?, stored_dtype(dtype)?);
    let (scales, zero_points) = (object::tensor(scales)?, object::tensor(zero_points)?);
    let made = convert::quantize_per_channel(tensor, scales, zero_points, axis, dtype);
    object::wrap_bound(py, made.map_err(raise)?)
}

/// Integers as a quantised tensor over the same memory: of one scale, or of a scale for each index of `axis`.
#[pyfunction]
#[pyo3(signature = (integers, scale, zero_point, axis=None))]
fn _quantized_over<'py>(
    py: Python<'py>,
    integers: &Bound<'py, PyAny>,
    scale: &Bound<'py, PyAny>,
    zero_point: &Bound<'py, PyAny>,
    axis: Option<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    let integers = object::tensor(integers)?;
    if !integers.is_plain() || !convert::STORED.contains(&integers.dtype()) {
        return Err(PyRuntimeError::new_err("Creation of quantized tensor requires quantized dtype like torch.quint8"));
    }
    let quantizer = match axis {
        None => Quantizer::PerTensor { scale: scale.extract()?, zero_point: zero_point.extract()? },
        Some(axis) => {
            let (scales, zero_points) = (object::tensor(scale)?, object::tensor(zero_point)?);
            convert::channel_quantizer(integers.sizes(), scales, zero_points, axis).map_err(raise)?
        }
    };
    object::wrap_bound(py, integers.quantized(Arc::new(quantizer)))
}

/// The integers of a quantised tensor, over the same memory.
#[pyfunction]
fn _integers<'py>(py: Python<'py>, tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object::wrap_bound(py, object::tensor(tensor)?.integers())
}

/// The scale and the zero point for a range of numbers and a range of integers.
#[pyfunction]
fn _choose_qparams(low: f32, high: f32, least: i32, most: i32) -> PyResult<(f64, i64)> {
    if least > most {
        return Err(PyRuntimeError::new_err("the range of integers is empty"));
    }
    Ok(choose(low, high, least, most))
}

/// `input @ weight.T + bias` with products of bytes; the input is quantised by its own range.
#[pyfunction]
#[pyo3(signature = (input, weight, bias, reduce_range))]
fn _linear_dynamic<'py>(
    py: Python<'py>,
    input: &Bound<'py, PyAny>,
    weight: &Bound<'py, PyAny>,
    bias: Option<&Bound<'py, PyAny>>,
    reduce_range: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let bias = bias.map(|bias| object::tensor(bias)).transpose()?;
    let made = linear::dynamic(object::tensor(input)?, object::tensor(weight)?, bias, reduce_range);
    object::wrap_bound(py, made.map_err(raise)?)
}

/// The sums of products of two quantised matrices' integers, each less its zero point, as int32.
#[pyfunction]
fn _integer_products<'py>(
    py: Python<'py>,
    input: &Bound<'py, PyAny>,
    weight: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let made = linear::integer_products(object::tensor(input)?, object::tensor(weight)?);
    object::wrap_bound(py, made.map_err(raise)?)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_quantize_per_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(_quantize_per_channel, module)?)?;
    module.add_function(wrap_pyfunction!(_quantized_over, module)?)?;
    module.add_function(wrap_pyfunction!(_integers, module)?)?;
    module.add_function(wrap_pyfunction!(_choose_qparams, module)?)?;
    module.add_function(wrap_pyfunction!(_linear_dynamic, module)?)?;
    module.add_function(wrap_pyfunction!(_integer_products, module)?)
}
