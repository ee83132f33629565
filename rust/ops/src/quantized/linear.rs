//! Linear layers with weights of 8 bits: the products of bytes are summed as integers.

use rushlight_autograd::{Quantizer, Tensor};
use rushlight_core::{DType, Device, Error, Result};
use rushlight_cpu::quantized::product::products;
use rushlight_dispatch::{copy, create, interpreter, quantized};
use rushlight_par::Address;

use super::convert::{limits, quantize_per_tensor};
use super::params::choose;
use crate::convert::{contiguous, to_dtype, to_vec};

/// The weights of a layer: `[outputs, inputs]` bytes, and a scale and a zero point for each output.
struct Weights {
    integers: Tensor,
    scales: Vec<f32>,
    zero_points: Vec<i32>,
}

impl Weights {
    fn new(weight: &Tensor) -> Result<Weights> {
        let Some(quantizer) = weight.quantizer().filter(|_| weight.dtype() == DType::I8 && weight.rank() == 2) else {
            return Err(Error::runtime("the weight of a quantised linear layer is a matrix of dtype torch.qint8"));
        };
        let outputs = weight.sizes()[0] as usize;
        let (scales, zero_points) = match &**quantizer {
            Quantizer::PerTensor { scale, zero_point } => {
                (vec![*scale as f32; outputs], vec![*zero_point as i32; outputs])
            }
            Quantizer::PerChannel { scales, zero_points, axis: 0 } => {
                let zero_points = to_vec::<i64>(zero_points)?;
                (to_vec::<f32>(scales)?, zero_points.into_iter().map(|point| point as i32).collect())
            }
            Quantizer::PerChannel { .. } => {
                return Err(Error::runtime("the channels of a linear layer's weight are its outputs, axis 0"));
            }
        };
        Ok(Weights { integers: contiguous(&weight.integers())?, scales, zero_points })
    }

    fn sizes(&self) -> (usize, usize) {
        (self.integers.sizes()[0] as usize, self.integers.sizes()[1] as usize)
    }
}

/// For each row of integers and each output the sum of `(x - zero_point) * (weight - its zero point)`.
fn sums(rows: &[i16], weights: &Weights, count: usize, done: impl Fn(usize, usize, &[i32]) + Sync) -> Result<()> {
    let (outputs, inputs) = weights.sizes();
    // The zero points of weights are nearly always zero.
    let no_zero_points = weights.zero_points.iter().all(|point| *point == 0);
    let totals: Vec<i32> = match no_zero_points {
        true => Vec::new(),
        false => (0..count)
            .map(|row| {
                rows[row * inputs..(row + 1) * inputs]
                    .iter()
                    .fold(0i32, |sum, value| sum.wrapping_add(i32::from(*value)))
            })
            .collect(),
    };
    let corrected = |row: usize, first: usize, sums: &[i32]| {
        if no_zero_points {
            return done(row, first, sums);
        }
        let points = &weights.zero_points[first..first + sums.len()];
        let list: Vec<i32> =
            sums.iter().zip(points).map(|(sum, point)| sum.wrapping_sub(point.wrapping_mul(totals[row]))).collect();
        done(row, first, &list);
    };
    interpreter::while_detached(count * outputs * inputs, || {
        let pin = weights.integers.storage().pin()?;
        // SAFETY: the weights are contiguous in their pinned storage, and the rows are as long as they.
        unsafe {
            let first = pin.as_ptr().cast::<i8>().offset(weights.integers.layout().offset);
            products(rows.as_ptr(), first, [count, outputs, inputs], corrected);
        }
        Ok(())
    })
}

/// Bytes less their zero point, and the number of rows of the given length.
fn centred(tensor: &Tensor, inputs: usize) -> Result<(Vec<i16>, usize)> {
    let zero_point = match tensor.quantizer().map(|quantizer| &**quantizer) {
        Some(Quantizer::PerTensor { zero_point, .. }) if tensor.dtype() != DType::I32 => *zero_point,
        _ => return Err(Error::runtime("a linear layer takes bytes with one scale, torch.quint8 or torch.qint8")),
    };
    let (least, most) = limits(tensor.dtype());
    if zero_point < least || zero_point > most {
        return Err(Error::runtime(format!("the zero point {zero_point} is not an integer of the tensor's dtype")));
    }
    if tensor.rank() == 0 || tensor.sizes()[tensor.rank() - 1] as usize != inputs {
        return Err(Error::runtime("The size of tensor's last dimension must match the weight's number of inputs")
            .shapes([tensor.sizes().as_slice()]));
    }
    let mut rows = to_vec::<i16>(&tensor.integers())?;
    for value in &mut rows {
        *value -= zero_point as i16;
    }
    let product_of_sizes = || tensor.sizes()[..tensor.rank() - 1].iter().product::<isize>() as usize;
    let count = rows.len().checked_div(inputs).unwrap_or_else(product_of_sizes);
    Ok((rows, count))
}

/// The sizes of a layer's result.
fn result_sizes(input: &Tensor, outputs: usize) -> Vec<isize> {
    let mut sizes = input.sizes().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last = outputs as isize;
    }
    sizes
}

/// The sums of products of a quantised input's and a weight's integers, each less its zero point, as int32.
pub fn integer_products(input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let weights = Weights::new(weight)?;
    let (outputs, inputs) = weights.sizes();
    let (rows, count) = centred(input, inputs)?;
    let result = create::empty(&result_sizes(input, outputs), DType::I32, Device::Cpu)?;
    let pin = result.storage().pin()?;
    let to = Address(pin.as_ptr().cast::<i32>());
    sums(&rows, &weights, count, |row, first, sums| {
        for (place, sum) in sums.iter().enumerate() {
            // SAFETY: the result has `count * outputs` elements, and each is written once.
            unsafe { to.at(row * outputs + first + place).write(*sum) }
        }
    })?;
    drop(pin);
    Ok(result)
}

/// `x @ weight.T + bias`, where the input, a tensor of float32, is quantised first with the scale and zero point of its
/// own range. With `reduce_range` it takes seven bits.
pub fn dynamic(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, reduce_range: bool) -> Result<Tensor> {
    if input.dtype() != DType::F32 || input.is_quantized() || input.device() != Device::Cpu {
        return Err(Error::runtime("a dynamically quantised layer takes a tensor of float32 on the CPU"));
    }
    let weights = Weights::new(weight)?;
    let (outputs, inputs) = weights.sizes();
    let input = contiguous(&copy::readable(&input.detach())?)?;
    let (low, high) = range(&input)?;
    let (scale, zero_point) = choose(low, high, 0, if reduce_range { 127 } else { 255 });
    let integers = quantize_per_tensor(&input, scale, zero_point, DType::U8)?;
    let (rows, count) = centred(&integers, inputs)?;
    let bias = match bias {
        None => vec![0.0; outputs],
        Some(bias) => to_vec::<f32>(&quantized::dequantized(&to_dtype(&bias.detach(), DType::F32)?)?)?,
    };
    if bias.len() != outputs {
        return Err(Error::runtime(format!("bias should have {outputs} elements, got {}", bias.len())));
    }
    let scales: Vec<f32> = weights.scales.iter().map(|own| scale as f32 * own).collect();
    let result = create::empty(&result_sizes(&input, outputs), DType::F32, Device::Cpu)?;
    let pin = result.storage().pin()?;
    let to = Address(pin.as_ptr().cast::<f32>());
    sums(&rows, &weights, count, |row, first, sums| {
        for (place, sum) in sums.iter().enumerate() {
            let output = first + place;
            // SAFETY: the result has `count * outputs` elements, and each is written once.
            unsafe { to.at(row * outputs + output).write((*sum as f32).mul_add(scales[output], bias[output])) }
        }
    })?;
    drop(pin);
    Ok(result)
}

/// The least and the greatest element; zeros for a tensor without elements.
pub fn range(tensor: &Tensor) -> Result<(f32, f32)> {
    if tensor.numel() == 0 {
        return Ok((0.0, 0.0));
    }
    let ends = crate::reduce::extreme::AMINMAX.call([tensor.into()])?.into_tensors();
    let end = |place: usize| match ends.get(place) {
        Some(end) => crate::convert::item(end).map(|end| end.f64() as f32),
        None => Err(Error::runtime("aminmax gives two tensors")),
    };
    Ok((end(0)?, end(1)?))
}
