//! Creation operators: constants, ranges, random numbers, and in-place overwriting.
//!
//! The signature of every factory ends in the same keywords (`dtype=`, `layout=`, `device=`, `pin_memory=`,
//! `requires_grad=`), which the macro `factory!` adds and `Options` reads.

pub mod constant;
pub mod diagonal;
pub mod draw;
pub mod fill;
pub mod on_cuda;
pub mod random;
pub mod range;
pub mod rejection;
pub mod resize;
pub mod sample_grad;
pub mod window;

use rushlight_autograd::Tensor;
use rushlight_core::device::default_device;
use rushlight_core::dtype::default_dtype;
use rushlight_core::layout::{checked_new, to_dims};
use rushlight_core::{DType, Device, Dims, Error, Layout, Result};
use rushlight_dispatch::create::{ask_gradient, empty, moved_to_page_locked, page_locked, wants_page_locked};
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::sparse;
use rushlight_dispatch::unsupported::unsupported_by;
use rushlight_dispatch::value::{Arg, Output};

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

/// The keywords that `factory!` adds to a signature, as one call gave them.
pub struct Options {
    pub dtype: Option<DType>,
    pub device: Option<Device>,
    pub layout: Option<String>,
    requires_grad: bool,
    page_locked: bool,
}

impl Options {
    pub fn of(args: &Args) -> Result<Options> {
        let options = Options::of_any_layout(args)?;
        match options.sparse_layout() {
            Some(layout) => Err(strided_only(args, &options, layout)),
            None => Ok(options),
        }
    }

    /// The same for a factory that also makes sparse tensors.
    pub fn of_any_layout(args: &Args) -> Result<Options> {
        let none = || Error::runtime(format!("{} is not declared with `factory!`", args.op.python_name()));
        let [dtype, layout, device, pinned, gradient] = args.op.schema().options.ok_or_else(none)?;
        let mut options = Options {
            dtype: args.dtype(dtype),
            device: args.device(device),
            layout: args.optional_str(layout).map(str::to_string),
            requires_grad: args.optional_bool(gradient).unwrap_or(false),
            page_locked: false,
        };
        options.page_locked = wants_page_locked(args.optional_bool(pinned).unwrap_or(false), options.device())?;
        Ok(options)
    }

    /// The name of the requested layout, if it is a sparse one.
    pub fn sparse_layout(&self) -> Option<&str> {
        self.layout.as_deref().filter(|layout| *layout != "strided")
    }

    /// The requested dtype, or the default one.
    pub fn dtype(&self) -> DType {
        self.dtype.unwrap_or_else(default_dtype)
    }

    pub fn device(&self) -> Device {
        self.device.or_else(default_device).unwrap_or(Device::Cpu)
    }

    /// Uninitialised elements of the requested dtype, or of `dtype`.
    pub fn empty(&self, sizes: &[isize], dtype: DType) -> Result<Tensor> {
        checked_new(sizes)?;
        let dtype = self.dtype.unwrap_or(dtype);
        if self.page_locked {
            return page_locked(Layout::contiguous(sizes), dtype);
        }
        empty(sizes, dtype, self.device())
    }

    /// The last step of a factory.
    pub fn finish(&self, tensor: Tensor) -> Result<Output> {
        let tensor = match self.page_locked && !tensor.storage().is_page_locked() {
            true => moved_to_page_locked(&tensor)?,
            false => tensor,
        };
        ask_gradient(&tensor, self.requires_grad)?;
        Ok(Output::Tensor(tensor))
    }
}

/// torch's name of the backend of a sparse layout.
pub(crate) fn backend(layout: &str) -> &'static str {
    if layout == "sparse_coo" { "SparseCPU" } else { "SparseCsrCPU" }
}

/// The error of a factory for a sparse layout, which it does not make: that of the step that torch comes to.
#[cold]
pub(crate) fn strided_only(args: &Args, options: &Options, layout: &str) -> Error {
    let schema = args.op.schema();
    let whole = |name: &'static str| schema.arg(name).and_then(|arg| args.int(arg).ok());
    let sizes: Dims = match schema.arg("size").map(|size| args.ints(size)) {
        Some(Ok(sizes)) => to_dims(sizes),
        _ => Dims::from_slice(&[
            whole("steps").or(whole("n").filter(|_| schema.arg("m").is_none())).unwrap_or(0) as isize
        ]),
    };
    let refused = match layout {
        "sparse_coo" if matches!(args.op.name, "ones" | "full") => {
            Error::runtime("full(...) is not implemented for sparse layout")
        }
        // A compressed tensor is made first, and has two dimensions at least.
        _ => match sparse::empty(layout, &sizes, options.dtype(), options.device()) {
            Err(error) if layout != "sparse_coo" => error,
            _ => unsupported_by(&args.op.flat_name(), backend(layout)),
        },
    };
    refused.hint("Make a strided tensor, and convert it: x.to_sparse(), x.to_sparse_csr().")
}

/// A float as C++ prints it in a message: six digits, with an exponent if the number is small or large.
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

/// A `size` argument; torch's error if it is negative.
pub fn sizes(args: &Args, arg: Arg) -> Result<Dims> {
    let sizes = to_dims(args.ints(arg)?);
    if sizes.iter().any(|size| *size < 0) {
        checked_new(&sizes)?;
    }
    Ok(sizes)
}
