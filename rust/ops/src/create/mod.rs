//! Tensors out of nothing: constants, ranges, random numbers, and elements overwritten in place.
//!
//! Every factory ends in the same keywords (`dtype`, `layout`, `device`, `pin_memory`, `requires_grad`), which the macro
//! `factory!` writes into the signature and `Options` reads.

pub mod constant;
pub mod diagonal;
pub mod draw;
pub mod overwrite;
pub mod random;
pub mod range;
pub mod rejection;
pub mod resize;
pub mod slopes;
pub mod window;

use rushlight_autograd::Tensor;
use rushlight_core::device::default_device;
use rushlight_core::dtype::default_dtype;
use rushlight_core::layout::{Dims, checked_new, to_dims};
use rushlight_core::{DType, Device, Element, Error, Layout, Result, Scalar, dispatch};

use crate::row::Spec;
use crate::value::{Args, Output};

/// A factory's signature: its own parameters, and after them the keywords of all factories.
macro_rules! factory {
    ($own:literal) => {
        concat!(
            "(",
            $own,
            ", ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool? requires_grad=False) -> Tensor"
        )
    };
}
pub(crate) use factory;

/// What `factory!` puts behind a signature, as one call gave it.
pub struct Options {
    pub dtype: Option<DType>,
    pub device: Option<Device>,
    requires_grad: bool,
}

/// What `pin_memory=True` says as long as there is no card that reads pinned memory.
pub fn warn_of_pinning(wanted: bool, device: Device) -> Result<()> {
    if !wanted || device != Device::Cpu {
        return Ok(());
    }
    crate::host::warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
    )
}

impl Options {
    pub fn of(args: &Args) -> Result<Options> {
        let none = || Error::runtime(format!("{} is not declared with `factory!`", args.row.python_name()));
        let first = args.row.schema().options.ok_or_else(none)?;
        if let Some(layout) = args.optional_str(first + 1)
            && layout != "strided"
        {
            return Err(Error::not_implemented(format!("{}() makes strided tensors only", args.row.python_name())));
        }
        let options = Options {
            dtype: args.dtype(first),
            device: args.device(first + 2),
            requires_grad: args.optional_bool(first + 4).unwrap_or(false),
        };
        warn_of_pinning(args.optional_bool(first + 3).unwrap_or(false), options.device())?;
        Ok(options)
    }

    /// The dtype asked for, or the default one.
    pub fn dtype(&self) -> DType {
        self.dtype.unwrap_or_else(default_dtype)
    }

    pub fn device(&self) -> Device {
        self.device.or_else(default_device).unwrap_or(Device::Cpu)
    }

    /// Uninitialised elements of the dtype asked for, or of `dtype`.
    pub fn empty(&self, sizes: &[isize], dtype: DType) -> Result<Tensor> {
        checked_new(sizes)?;
        empty(sizes, self.dtype.unwrap_or(dtype), self.device())
    }

    /// The last step of a factory.
    pub fn finish(&self, tensor: Tensor) -> Result<Output> {
        ask_gradient(&tensor, self.requires_grad)?;
        Ok(Output::Tensor(tensor))
    }
}

/// `requires_grad=` of a factory.
pub fn ask_gradient(tensor: &Tensor, wanted: bool) -> Result<()> {
    if !wanted {
        return Ok(());
    }
    if !tensor.dtype().is_differentiable() {
        return Err(Error::runtime("Only Tensors of floating point and complex dtype can require gradients"));
    }
    tensor.set_requires_grad(true)
}

/// A float as C++ prints it in a message: six digits, an exponent where the number is small or large.
pub(crate) fn c_text(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan".into() } else { value.to_string() };
    }
    let short = format!("{value:.5e}");
    let (digits, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_string();
    if (-4..6).contains(&exponent) {
        let places = (5 - exponent) as usize;
        return if places == 0 { format!("{value:.0}") } else { trimmed(&format!("{value:.places$}")) };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

/// A `size` argument, refused in torch's words where it is negative.
pub fn sizes(args: &Args, place: usize) -> Result<Dims> {
    let sizes = to_dims(args.ints(place)?);
    if sizes.iter().any(|size| *size < 0) {
        checked_new(&sizes)?;
    }
    Ok(sizes)
}

/// Uninitialised elements, row-major.
pub fn empty(sizes: &[isize], dtype: DType, device: Device) -> Result<Tensor> {
    crate::call::allocate(&Spec { layout: Layout::contiguous(sizes), dtype, device })
}

/// One value everywhere.
pub fn full(sizes: &[isize], value: Scalar, dtype: DType, device: Device) -> Result<Tensor> {
    let tensor = empty(sizes, dtype, device)?;
    fill(&tensor, value)?;
    Ok(tensor)
}

pub fn zeros(sizes: &[isize], dtype: DType, device: Device) -> Result<Tensor> {
    full(sizes, Scalar::ZERO, dtype, device)
}

/// Overwrites every element with `value`; not recorded.
pub fn fill(tensor: &Tensor, value: Scalar) -> Result<()> {
    let (layout, dtype) = (tensor.layout(), tensor.dtype());
    let (Some((low, _)), Device::Cpu) = (layout.span(), tensor.device()) else { return Ok(()) };
    if !layout.is_dense() || !tensor.is_plain() {
        return crate::copy::copy(tensor, &scalar_of(value, dtype, tensor.device())?);
    }
    let bits = crate::promote::bits(value, dtype);
    crate::host::while_detached(layout.numel(), || {
        let pin = tensor.storage().pin()?;
        // SAFETY: a dense layout is one stretch of the pinned storage that begins at its lowest element.
        unsafe {
            let first = pin.as_ptr().offset(low * dtype.size() as isize);
            rushlight_cpu::create::fill(first, layout.numel(), dtype.size(), bits);
        }
        Ok(())
    })
}

/// A 0-d tensor of a dtype.
pub fn scalar_of(value: Scalar, dtype: DType, device: Device) -> Result<Tensor> {
    let tensor = empty(&[], dtype, device)?;
    if device == Device::Cpu {
        let pin = tensor.storage().pin()?;
        dispatch!(dtype, T in all => {
            // SAFETY: the storage is fresh and holds one element.
            unsafe { pin.as_ptr().cast::<T>().write(T::from_scalar(value)) }
        });
    }
    Ok(tensor)
}

/// A 0-d tensor of a number's own dtype.
pub fn scalar_tensor(value: Scalar) -> Result<Tensor> {
    scalar_of(value, own_dtype(value), Device::Cpu)
}

/// The dtype of a tensor that is made of a number alone.
pub fn own_dtype(value: Scalar) -> DType {
    match value {
        Scalar::Float(_) => default_dtype(),
        Scalar::Complex(_) => default_dtype().to_complex(),
        other => other.dtype(),
    }
}

/// Refuses a number that a dtype does not hold: it would wrap around, or become infinite.
pub fn check_fits(value: Scalar, dtype: DType) -> Result<()> {
    if value.fits(dtype) {
        return Ok(());
    }
    let name = match dtype {
        DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I64 => "int64_t",
        DType::U16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
        DType::F16 | DType::BF16 if value.is_complex() => "double",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        other => other.c_name(),
    };
    let about = if dtype.is_floating() || dtype.is_complex() { "finfo" } else { "iinfo" };
    Err(Error::runtime(format!("value cannot be converted to type {name} without overflow"))
        .hint(format!("torch.{about}(torch.{}) says which numbers the dtype holds.", dtype.name())))
}

/// A one-dimensional tensor with these elements.
pub fn from_slice<T: Element>(elements: &[T]) -> Result<Tensor> {
    let tensor = empty(&[elements.len() as isize], T::DTYPE, Device::Cpu)?;
    let pin = tensor.storage().pin()?;
    // SAFETY: the storage is fresh and as long as the slice.
    unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), pin.as_ptr().cast(), elements.len()) };
    drop(pin);
    Ok(tensor)
}
