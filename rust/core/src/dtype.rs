//! The element types: names, sizes, categories, promotion.

use std::sync::atomic::{AtomicU8, Ordering};

use half::{bf16, f16};
use num_complex::Complex;

use crate::device::Device;
use crate::error::{Error, Result};

pub use crate::element::{Cast, Element};
pub use crate::float8::{f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0fnu};

/// One byte that is true unless it is zero. The bytes may come from outside, where Rust's `bool` would be unsound.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    #[inline(always)]
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    #[inline(always)]
    fn from(value: bool) -> Self {
        Bool(value as u8)
    }
}

/// An element type. The order is that of torch's own numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    U8,
    I8,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
    C32,
    C64,
    C128,
    Bool,
    BF16,
    F8E5M2,
    F8E4M3Fn,
    F8E5M2Fnuz,
    F8E4M3Fnuz,
    U16,
    U32,
    U64,
    F8E8M0Fnu,
}

/// The category of a dtype, in the order of promotion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Category {
    Bool,
    Integral,
    Floating,
    Complex,
}

impl DType {
    pub const ALL: [DType; 21] = [
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::C32,
        DType::C64,
        DType::C128,
        DType::Bool,
        DType::BF16,
        DType::F8E5M2,
        DType::F8E4M3Fn,
        DType::F8E5M2Fnuz,
        DType::F8E4M3Fnuz,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F8E8M0Fnu,
    ];
    pub const FLOAT8: [DType; 5] =
        [DType::F8E5M2, DType::F8E4M3Fn, DType::F8E5M2Fnuz, DType::F8E4M3Fnuz, DType::F8E8M0Fnu];

    pub const fn size(self) -> usize {
        match self {
            DType::U8 | DType::I8 | DType::Bool => 1,
            DType::F8E5M2 | DType::F8E4M3Fn | DType::F8E5M2Fnuz | DType::F8E4M3Fnuz | DType::F8E8M0Fnu => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 | DType::C32 => 4,
            DType::I64 | DType::U64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// The name after `torch.`: `float32`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::U8 => "uint8",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
            DType::Bool => "bool",
            DType::C32 => "complex32",
            DType::F8E5M2 => "float8_e5m2",
            DType::F8E4M3Fn => "float8_e4m3fn",
            DType::F8E5M2Fnuz => "float8_e5m2fnuz",
            DType::F8E4M3Fnuz => "float8_e4m3fnuz",
            DType::F8E8M0Fnu => "float8_e8m0fnu",
        }
    }

    /// The name that torch's messages use: `Float`.
    pub const fn display_name(self) -> &'static str {
        match self {
            DType::U8 => "Byte",
            DType::I8 => "Char",
            DType::I16 => "Short",
            DType::I32 => "Int",
            DType::I64 => "Long",
            DType::U16 => "UInt16",
            DType::U32 => "UInt32",
            DType::U64 => "UInt64",
            DType::F16 => "Half",
            DType::BF16 => "BFloat16",
            DType::F32 => "Float",
            DType::F64 => "Double",
            DType::C64 => "ComplexFloat",
            DType::C128 => "ComplexDouble",
            DType::Bool => "Bool",
            DType::C32 => "ComplexHalf",
            DType::F8E5M2 => "Float8_e5m2",
            DType::F8E4M3Fn => "Float8_e4m3fn",
            DType::F8E5M2Fnuz => "Float8_e5m2fnuz",
            DType::F8E4M3Fnuz => "Float8_e4m3fnuz",
            DType::F8E8M0Fnu => "Float8_e8m0fnu",
        }
    }

    /// The class of its tensors in torch's messages: `torch.FloatTensor`, and `CPUBoolType` for the dtypes that came later.
    pub fn class_name(self, device: Device) -> String {
        let device = match device {
            Device::Meta => "Meta",
            Device::Cuda(_) => "CUDA",
            _ => "CPU",
        };
        let had_class = matches!(
            self,
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::F16 | DType::F32 | DType::F64
        );
        match device {
            "CPU" if had_class => format!("torch.{}Tensor", self.display_name()),
            "CUDA" if had_class => format!("torch.cuda.{}Tensor", self.display_name()),
            _ => format!("{device}{}Type", self.display_name()),
        }
    }

    /// The C name that a few of torch's messages use: `float`, `long int`, `c10::Half`.
    pub const fn c_name(self) -> &'static str {
        match self {
            DType::U8 => "unsigned char",
            DType::I8 => "signed char",
            DType::I16 => "short int",
            DType::I32 => "int",
            DType::I64 => "long int",
            DType::U16 => "short unsigned int",
            DType::U32 => "unsigned int",
            DType::U64 => "long unsigned int",
            DType::F16 => "c10::Half",
            DType::BF16 => "c10::BFloat16",
            DType::F32 => "float",
            DType::F64 => "double",
            DType::C64 => "c10::complex<float>",
            DType::C128 => "c10::complex<double>",
            DType::Bool => "bool",
            DType::C32 => "c10::complex<c10::Half>",
            DType::F8E5M2 => "c10::Float8_e5m2",
            DType::F8E4M3Fn => "c10::Float8_e4m3fn",
            DType::F8E5M2Fnuz => "c10::Float8_e5m2fnuz",
            DType::F8E4M3Fnuz => "c10::Float8_e4m3fnuz",
            DType::F8E8M0Fnu => "c10::Float8_e8m0fnu",
        }
    }

    pub const fn category(self) -> Category {
        match self {
            DType::Bool => Category::Bool,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Category::Floating,
            _ if self.is_float8() => Category::Floating,
            DType::C32 | DType::C64 | DType::C128 => Category::Complex,
            _ => Category::Integral,
        }
    }

    pub fn is_floating(self) -> bool {
        self.category() == Category::Floating
    }

    pub fn is_complex(self) -> bool {
        self.category() == Category::Complex
    }

    /// Whether this is an integer dtype; `bool` is not.
    pub fn is_integral(self) -> bool {
        self.category() == Category::Integral
    }

    pub fn is_signed(self) -> bool {
        !matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool | DType::F8E8M0Fnu)
    }

    /// The signed integer dtype of the same width. Sums, products and bit operations are the same for signed and
    /// unsigned.
    pub const fn signed(self) -> DType {
        match self {
            DType::U8 => DType::I8,
            DType::U16 => DType::I16,
            DType::U32 => DType::I32,
            DType::U64 => DType::I64,
            other => other,
        }
    }

    /// uint16, uint32 and uint64: they can be created, cast, copied and compared, but do not promote with integers and
    /// bool.
    pub fn is_wide_unsigned(self) -> bool {
        matches!(self, DType::U16 | DType::U32 | DType::U64)
    }

    /// The largest finite number of a floating dtype that is narrower than Python's float, or of the parts of a complex
    /// dtype.
    pub fn greatest(self) -> Option<f64> {
        match self {
            DType::F16 => Some(65504.0),
            DType::F8E5M2 | DType::F8E5M2Fnuz => Some(57344.0),
            DType::F8E4M3Fn => Some(448.0),
            DType::F8E4M3Fnuz => Some(240.0),
            DType::F8E8M0Fnu => Some(1.701_411_834_604_692_3e38),
            DType::BF16 => Some(3.389_531_389_251_535_5e38),
            DType::F32 | DType::C64 => Some(f64::from(f32::MAX)),
            _ => None,
        }
    }

    pub const fn is_float8(self) -> bool {
        matches!(self, DType::F8E5M2 | DType::F8E4M3Fn | DType::F8E5M2Fnuz | DType::F8E4M3Fnuz | DType::F8E8M0Fnu)
    }

    /// Whether no kernel computes in this dtype: its elements are stored, moved and converted.
    pub const fn is_storage_only(self) -> bool {
        matches!(self, DType::C32) || self.is_float8()
    }

    /// The smallest number, if it is not the negative of the greatest one.
    pub fn least(self) -> Option<f64> {
        // Without a sign and a zero.
        (self == DType::F8E8M0Fnu).then_some(5.877_471_754_111_438e-39)
    }

    pub fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }

    pub fn is_differentiable(self) -> bool {
        self.is_floating() || self.is_complex()
    }

    /// The complex dtype whose parts have this floating dtype; where there is none, the one that holds its numbers.
    pub fn to_complex(self) -> DType {
        match self {
            DType::F16 | DType::C32 => DType::C32,
            DType::F64 | DType::C128 => DType::C128,
            _ => DType::C64,
        }
    }

    /// The dtype of a complex dtype's parts; every other dtype is returned unchanged.
    pub fn to_real(self) -> DType {
        match self {
            DType::C32 => DType::F16,
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// The dtype of the arithmetic: half types and 8-bit floats compute in float32.
    pub fn compute(self) -> DType {
        match self {
            DType::C32 => DType::C64,
            _ if self.is_half() || self.is_float8() => DType::F32,
            _ => self,
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "torch.{}", self.name())
    }
}

impl Error {
    /// The error for a dtype that a kernel does not support, with the kernel's name.
    #[cold]
    pub fn unsupported(kernel: &str, dtype: DType) -> Self {
        Error::not_implemented(format!("\"{kernel}\" not implemented for '{}'", dtype.display_name()))
    }
}

static DEFAULT: AtomicU8 = AtomicU8::new(DType::F32 as u8);

/// The dtype of `torch.zeros(3)` and of Python floats.
pub fn default_dtype() -> DType {
    DType::ALL[DEFAULT.load(Ordering::Relaxed) as usize]
}

pub fn set_default_dtype(dtype: DType) -> Result<()> {
    if !dtype.is_floating() {
        return Err(Error::type_("only floating-point types are supported as the default type")
            .hint(format!("{dtype} is not a floating-point dtype.")));
    }
    if dtype.is_float8() {
        return Err(Error::type_(format!("couldn't find storage object {}Storage", dtype.display_name())));
    }
    DEFAULT.store(dtype as u8, Ordering::Relaxed);
    Ok(())
}

/// The smallest dtype that holds both, as in `torch.promote_types`.
pub fn promote(a: DType, b: DType) -> Result<DType> {
    use Category::{Bool, Complex, Floating, Integral};
    if a == b {
        return Ok(a);
    }
    if a.is_float8() || b.is_float8() {
        return Err(Error::runtime(format!(
            "Promotion for Float8 Types is not supported, attempted to promote {} and {}",
            a.display_name(),
            b.display_name()
        ))
        .hint("Convert one of them first: x.to(torch.float32)."));
    }
    if (a.is_wide_unsigned() && !b.is_floating()) || (b.is_wide_unsigned() && !a.is_floating()) {
        return Err(Error::runtime(format!(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {} and {}",
            a.display_name(),
            b.display_name()
        )));
    }
    let (low, high) = if a.category() <= b.category() { (a, b) } else { (b, a) };
    Ok(match (low.category(), high.category()) {
        (Bool, _) => high,
        (Integral, Integral) => match (low, high) {
            (DType::U8, DType::I8) | (DType::I8, DType::U8) => DType::I16,
            _ if low.size() > high.size() => low,
            _ if low.size() < high.size() => high,
            _ => DType::I16,
        },
        (Integral, _) => high,
        (Floating, Floating) => match (low.size(), high.size()) {
            (2, 2) => DType::F32,
            (x, y) if x > y => low,
            _ => high,
        },
        (Floating, Complex) if low.to_complex().size() > high.size() => low.to_complex(),
        (Complex, Complex) if low.size() > high.size() => low,
        _ => high,
    })
}

/// Whether a value of `from` may be written into a tensor of `to`, as in `torch.can_cast`.
pub fn can_cast(from: DType, to: DType) -> bool {
    if from.is_complex() && !to.is_complex() {
        return false;
    }
    if from.is_floating() && (to.is_integral() || to == DType::Bool) {
        return false;
    }
    from == DType::Bool || to != DType::Bool
}

/// Maps a `DType` to a type: `dispatch!(dtype, T in [f32, f64] => expression, else => fallback)`.
///
/// The list may be one of the words `all` and `computed` (all but those that are only stored).
#[macro_export]
macro_rules! dispatch {
    ($dtype:expr, $T:ident in all => $body:expr) => {
        match $dtype {
            $crate::DType::U8 => { type $T = u8; $body }
            $crate::DType::I8 => { type $T = i8; $body }
            $crate::DType::I16 => { type $T = i16; $body }
            $crate::DType::I32 => { type $T = i32; $body }
            $crate::DType::I64 => { type $T = i64; $body }
            $crate::DType::U16 => { type $T = u16; $body }
            $crate::DType::U32 => { type $T = u32; $body }
            $crate::DType::U64 => { type $T = u64; $body }
            $crate::DType::F16 => { type $T = $crate::dtype::f16_; $body }
            $crate::DType::BF16 => { type $T = $crate::dtype::bf16_; $body }
            $crate::DType::F32 => { type $T = f32; $body }
            $crate::DType::F64 => { type $T = f64; $body }
            $crate::DType::C32 => { type $T = $crate::dtype::c32; $body }
            $crate::DType::C64 => { type $T = $crate::dtype::c64; $body }
            $crate::DType::C128 => { type $T = $crate::dtype::c128; $body }
            $crate::DType::Bool => { type $T = $crate::Bool; $body }
            $crate::DType::F8E5M2 => { type $T = $crate::dtype::f8e5m2; $body }
            $crate::DType::F8E4M3Fn => { type $T = $crate::dtype::f8e4m3fn; $body }
            $crate::DType::F8E5M2Fnuz => { type $T = $crate::dtype::f8e5m2fnuz; $body }
            $crate::DType::F8E4M3Fnuz => { type $T = $crate::dtype::f8e4m3fnuz; $body }
            $crate::DType::F8E8M0Fnu => { type $T = $crate::dtype::f8e8m0fnu; $body }
        }
    };
    ($dtype:expr, $T:ident in computed => $body:expr, else => $otherwise:expr) => {
        $crate::dispatch!($dtype, $T in [
            u8, i8, i16, i32, i64, u16, u32, u64, $crate::dtype::f16_, $crate::dtype::bf16_, f32, f64,
            $crate::dtype::c64, $crate::dtype::c128, $crate::Bool
        ] => $body, else => $otherwise)
    };
    ($dtype:expr, $T:ident in [$($type:ty),* $(,)?] => $body:expr, else => $otherwise:expr) => {{
        let dtype: $crate::DType = $dtype;
        $(if dtype == <$type as $crate::Element>::DTYPE { type $T = $type; $body } else)* { $otherwise }
    }};
}

#[allow(non_camel_case_types)]
pub type f16_ = f16;
#[allow(non_camel_case_types)]
pub type bf16_ = bf16;
#[allow(non_camel_case_types)]
pub type c32 = Complex<f16>;
#[allow(non_camel_case_types)]
pub type c64 = Complex<f32>;
#[allow(non_camel_case_types)]
pub type c128 = Complex<f64>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_symmetric_and_follows_the_lattice() {
        for a in DType::ALL {
            for b in DType::ALL {
                match (promote(a, b), promote(b, a)) {
                    (Ok(x), Ok(y)) => assert_eq!(x, y, "{a} and {b}"),
                    (Err(_), Err(_)) => {
                        let refused = |x: DType| x.is_wide_unsigned() || x.is_float8();
                        assert!(refused(a) || refused(b));
                    }
                    _ => panic!("{a} and {b} promote in one direction only"),
                }
            }
        }
        assert_eq!(promote(DType::U8, DType::I8).unwrap(), DType::I16);
        assert_eq!(promote(DType::F16, DType::BF16).unwrap(), DType::F32);
        assert_eq!(promote(DType::F64, DType::C64).unwrap(), DType::C128);
        assert_eq!(promote(DType::F16, DType::C32).unwrap(), DType::C32);
        assert_eq!(promote(DType::C32, DType::BF16).unwrap(), DType::C64);
        assert_eq!(promote(DType::C32, DType::I64).unwrap(), DType::C32);
        assert_eq!(promote(DType::C64, DType::C32).unwrap(), DType::C64);
        assert_eq!(promote(DType::I64, DType::F16).unwrap(), DType::F16);
        assert_eq!(promote(DType::U8, DType::I64).unwrap(), DType::I64);
        assert_eq!(promote(DType::U32, DType::F16).unwrap(), DType::F16);
        assert!(promote(DType::U32, DType::Bool).is_err() && promote(DType::Bool, DType::U64).is_err());
    }
}
