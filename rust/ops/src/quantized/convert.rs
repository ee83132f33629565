//! Numbers as quantised tensors and back.

use std::sync::Arc;

use rushlight_autograd::{Quantizer, Tensor};
use rushlight_core::memory_format::{channels_last_format, strides};
use rushlight_core::{DType, Device, Error, Layout, Result};
use rushlight_cpu::quantized::{Channels, ZeroPoints};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::operator::TensorSpec;
use rushlight_dispatch::{copy, interpreter, quantized};

use crate::convert::{contiguous, to_dtype, to_vec};

/// The integers that a quantised tensor may store.
pub const STORED: [DType; 3] = [DType::U8, DType::I8, DType::I32];

/// Runs a body with the type of the stored integers.
macro_rules! with_stored {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::U8 => {
                type $T = u8;
                $body
            }
            DType::I8 => {
                type $T = i8;
                $body
            }
            _ => {
                type $T = i32;
                $body
            }
        }
    };
}

/// The least and the greatest integer of a stored dtype.
pub fn limits(dtype: DType) -> (i64, i64) {
    with_stored!(dtype, T => (i64::from(T::MIN), i64::from(T::MAX)))
}

/// torch's name of the dtype of a quantised tensor in errors.
pub fn display_name(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "QUInt8",
        DType::I8 => "QInt8",
        _ => "QInt32",
    }
}

fn check_zero_point(function: &str, zero_point: i64, dtype: DType) -> Result<()> {
    let (least, most) = limits(dtype);
    if zero_point > most {
        return Err(Error::runtime(format!("{function} zero_point {zero_point} is above upper bound.")));
    }
    if zero_point < least {
        return Err(Error::runtime(format!("{function} zero_point {zero_point} is below lower bound.")));
    }
    Ok(())
}

/// The tensor on the host, for functions whose arguments must be float32.
fn numbers(tensor: &Tensor, function: &str) -> Result<Tensor> {
    if tensor.is_quantized() {
        return Err(rushlight_dispatch::unsupported::unsupported_by(function, "QuantizedCPU"));
    }
    if tensor.is_sparse() {
        return Err(rushlight_dispatch::sparse::unsupported(function, tensor));
    }
    if tensor.dtype() != DType::F32 {
        return Err(Error::runtime(format!(
            "Quantize only works on Float Tensor, got {}",
            tensor.dtype().display_name()
        )));
    }
    if tensor.device() != Device::Cpu {
        return Err(Error::runtime(format!("Quantize only works on CPU tensors, got one on {}", tensor.device())));
    }
    copy::readable(tensor)
}

/// The tensor with its elements next to each other, channels-last or row-major, and the layout of a new tensor of that
/// order.
fn packed(tensor: &Tensor) -> Result<(Tensor, Layout)> {
    let format = channels_last_format(tensor.layout()).unwrap_or("contiguous_format");
    let strides = strides(tensor.sizes(), Some(format), None)?;
    let layout = Layout { sizes: tensor.sizes().clone(), strides, offset: 0 };
    let same = tensor.layout().strides == layout.strides;
    Ok((if same { tensor.clone() } else { copy::laid_out(tensor, layout.clone())? }, layout))
}

/// A tensor of float32 with one scale: `round(x / scale) + zero_point`, limited to the dtype.
pub fn quantize_per_tensor(tensor: &Tensor, scale: f64, zero_point: i64, dtype: DType) -> Result<Tensor> {
    let tensor = numbers(tensor, "quantize_per_tensor")?;
    check_zero_point("quantize_tensor_per_tensor_affine", zero_point, dtype)?;
    let (from, layout) = packed(&tensor)?;
    let result = allocate(&TensorSpec { layout, dtype, device: Device::Cpu })?;
    let count = result.numel();
    interpreter::while_detached(count, || {
        let (to, source) = (result.storage().pin()?, from.storage().pin()?);
        // SAFETY: both tensors have `count` elements next to each other in their pinned storages.
        with_stored!(dtype, T => unsafe {
            let first = source.as_ptr().cast::<f32>().offset(from.layout().offset);
            rushlight_cpu::quantized::quantize::<T>(to.as_ptr().cast(), first, count, scale, zero_point);
        });
        Ok(())
    })?;
    Ok(result.quantized(Arc::new(Quantizer::PerTensor { scale, zero_point })))
}

/// The quantizer of channels along a dimension, with scales and zero points of their own dtypes: float32 if the zero
/// points are floats, else float64 and int64.
pub fn channel_quantizer(sizes: &[isize], scales: &Tensor, zero_points: &Tensor, axis: i64) -> Result<Quantizer> {
    if scales.rank() != 1 {
        return Err(Error::runtime("scale tensor must have dimension 1"));
    }
    if zero_points.rank() != 1 {
        return Err(Error::runtime("zero_points tensor must have dimension 1"));
    }
    if scales.numel() != zero_points.numel() {
        return Err(Error::runtime("number of elements in scales and zero_points must match"));
    }
    if !scales.dtype().is_floating() {
        return Err(Error::runtime("scale tensor must be floating point").hint("Convert it: scales.float()."));
    }
    let place = usize::try_from(axis).ok().filter(|place| *place < sizes.len()).ok_or_else(|| {
        Error::runtime(format!(
            "Channel axis out of range in per channel affine quantization. Got: {axis}Expected: [0, {})",
            sizes.len()
        ))
    })?;
    if scales.numel() != sizes[place] as usize {
        return Err(Error::runtime(format!(
            "length of scales must equal to channel, expected {} got, {}",
            sizes[place],
            scales.numel()
        )));
    }
    let kinds = if zero_points.dtype().is_floating() { [DType::F32, DType::F32] } else { [DType::F64, DType::I64] };
    // Copies, so that later changes of the arguments have no effect.
    let own = |tensor: &Tensor, dtype| contiguous(&to_dtype(&copy::clone(&tensor.detach())?, dtype)?);
    Ok(Quantizer::PerChannel { scales: own(scales, kinds[0])?, zero_points: own(zero_points, kinds[1])?, axis: place })
}

/// The parameters of channels for the kernels.
struct ChannelLists {
    scales: Vec<f64>,
    ints: Vec<i64>,
    floats: Option<Vec<f32>>,
    inner: usize,
}

impl ChannelLists {
    fn new(sizes: &[isize], scales: &Tensor, zero_points: &Tensor, axis: usize) -> Result<ChannelLists> {
        let floating = zero_points.dtype().is_floating();
        Ok(ChannelLists {
            scales: to_vec::<f64>(scales)?,
            ints: if floating { Vec::new() } else { to_vec::<i64>(zero_points)? },
            floats: if floating { Some(to_vec::<f32>(zero_points)?) } else { None },
            inner: sizes[axis + 1..].iter().map(|size| *size as usize).product(),
        })
    }

    fn borrowed(&self) -> Channels<'_> {
        let zero_points = match &self.floats {
            Some(floats) => ZeroPoints::Floats(floats),
            None => ZeroPoints::Ints(&self.ints),
        };
        Channels { scales: &self.scales, zero_points, inner: self.inner }
    }
}

/// A tensor of float32 with a scale and a zero point for each index of dimension `axis`.
pub fn quantize_per_channel(
    tensor: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
    dtype: DType,
) -> Result<Tensor> {
    let quantizer = channel_quantizer(tensor.sizes(), scales, zero_points, axis)?;
    if tensor.dtype() != DType::F32 && tensor.is_plain() && !zero_points.dtype().is_floating() {
        return Err(Error::runtime(format!(
            "quantize_tensor_per_channel_affine expects a Float Tensor, got {}",
            tensor.dtype().display_name()
        ))
        .hint("Convert it: x.float()."));
    }
    let from = contiguous(&numbers(tensor, "quantize_per_channel")?)?;
    let Quantizer::PerChannel { scales, zero_points, axis } = &quantizer else {
        return Err(Error::runtime("a quantizer of channels has channels"));
    };
    let lists = ChannelLists::new(from.sizes(), scales, zero_points, *axis)?;
    for zero_point in &lists.ints {
        check_zero_point("quantize_tensor_per_channel_affine", *zero_point, dtype)?;
    }
    let result = allocate(&TensorSpec::new(from.sizes(), dtype, &from))?;
    let count = result.numel();
    interpreter::while_detached(count, || {
        let (to, source) = (result.storage().pin()?, from.storage().pin()?);
        // SAFETY: both tensors are contiguous in their pinned storages, and `channel_quantizer` compared the sizes.
        with_stored!(dtype, T => unsafe {
            let first = source.as_ptr().cast::<f32>().offset(from.layout().offset);
            rushlight_cpu::quantized::quantize_channels::<T>(to.as_ptr().cast(), first, count, lists.borrowed());
        });
        Ok(())
    })?;
    Ok(result.quantized(Arc::new(quantizer)))
}

/// The numbers of a quantised tensor.
pub fn dequantize(tensor: &Tensor) -> Result<Tensor> {
    let Some(quantizer) = tensor.quantizer() else { return to_dtype(tensor, DType::F32) };
    if tensor.device() != Device::Cpu {
        return Err(Error::runtime(format!("dequantize only works on CPU tensors, got one on {}", tensor.device())));
    }
    let integers = tensor.integers();
    match &**quantizer {
        Quantizer::PerTensor { scale, zero_point } => {
            let (from, layout) = packed(&integers)?;
            fill(&from, layout, |to, from, count| {
                // SAFETY: `fill` gives addresses of `count` elements of these types.
                with_stored!(integers.dtype(), T => unsafe {
                    rushlight_cpu::quantized::dequantize::<T>(to, from.cast(), count, *scale, *zero_point);
                });
            })
        }
        Quantizer::PerChannel { scales, zero_points, axis } => {
            let from = contiguous(&integers)?;
            let lists = ChannelLists::new(from.sizes(), scales, zero_points, *axis)?;
            fill(&from, Layout::contiguous(from.sizes()), |to, from, count| {
                // SAFETY: as above; the sizes were compared when the quantizer was made.
                with_stored!(integers.dtype(), T => unsafe {
                    rushlight_cpu::quantized::dequantize_channels::<T>(to, from.cast(), count, lists.borrowed());
                });
            })
        }
    }
}

/// A new tensor of float32 that `work` fills, given the addresses of its elements and of those of `from`.
fn fill(from: &Tensor, layout: Layout, work: impl FnOnce(*mut f32, *const u8, usize)) -> Result<Tensor> {
    let result = allocate(&TensorSpec { layout, dtype: DType::F32, device: Device::Cpu })?;
    let count = result.numel();
    interpreter::while_detached(count, || {
        let (to, source) = (result.storage().pin()?, from.storage().pin()?);
        let first = source.as_ptr().wrapping_offset(from.first_byte());
        work(to.as_ptr().cast(), first, count);
        Ok(())
    })?;
    Ok(result)
}

/// Numbers, or a quantised tensor's, with the quantizer of `like`, which has one scale.
pub fn quantize_like(numbers: &Tensor, like: &Tensor) -> Result<Tensor> {
    let numbers = quantized::dequantized(numbers)?;
    let numbers = to_dtype(&numbers, DType::F32)?;
    match like.quantizer().map(|quantizer| &**quantizer) {
        Some(Quantizer::PerTensor { scale, zero_point }) => {
            quantize_per_tensor(&numbers, *scale, *zero_point, like.dtype())
        }
        Some(Quantizer::PerChannel { scales, zero_points, axis }) => {
            quantize_per_channel(&numbers, scales, zero_points, *axis as i64, like.dtype())
        }
        None => Err(Error::runtime("a quantised tensor was expected")),
    }
}
