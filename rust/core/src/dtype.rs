//! The fifteen element types: names, sizes, categories, promotion.

use std::sync::atomic::{AtomicU8, Ordering};

use half::{bf16, f16};
use num_complex::Complex;

use crate::error::{Error, Result};

pub use crate::element::{Cast, Element};

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

/// An element type. The order is torch's own numbering, with the three wide unsigned types at the end.
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
    C64,
    C128,
    Bool,
    BF16,
    U16,
    U32,
    U64,
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
    pub const ALL: [DType; 15] = [
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
        DType::Bool,
        DType::BF16,
        DType::U16,
        DType::U32,
        DType::U64,
    ];

    pub const fn size(self) -> usize {
        match self {
            DType::U8 | DType::I8 | DType::Bool => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
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
        }
    }

    pub const fn category(self) -> Category {
        match self {
            DType::Bool => Category::Bool,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Category::Floating,
            DType::C64 | DType::C128 => Category::Complex,
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
        !matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool)
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
            DType::BF16 => Some(3.389_531_389_251_535_5e38),
            DType::F32 | DType::C64 => Some(f64::from(f32::MAX)),
            _ => None,
        }
    }

    pub fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }

    pub fn is_differentiable(self) -> bool {
        self.is_floating() || self.is_complex()
    }

    /// The complex dtype whose parts have this floating dtype.
    pub fn to_complex(self) -> DType {
        match self {
            DType::F64 | DType::C128 => DType::C128,
            _ => DType::C64,
        }
    }

    /// The dtype of a complex dtype's parts; every other dtype is returned unchanged.
    pub fn to_real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// The dtype of the arithmetic: half types compute in float32.
    pub fn compute(self) -> DType {
        if self.is_half() { DType::F32 } else { self }
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
    DEFAULT.store(dtype as u8, Ordering::Relaxed);
    Ok(())
}

/// The smallest dtype that holds both, as in `torch.promote_types`.
pub fn promote(a: DType, b: DType) -> Result<DType> {
    use Category::{Bool, Complex, Floating, Integral};
    if a == b {
        return Ok(a);
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
        (Floating, Complex) => {
            if low == DType::F64 {
                DType::C128
            } else {
                high
            }
        }
        (Complex, Complex) => DType::C128,
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
/// The list may be one of the words `all`, `real` (all but complex), `numbers` (all but bool), `integers`, `floats`.
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
            $crate::DType::C64 => { type $T = $crate::dtype::c64; $body }
            $crate::DType::C128 => { type $T = $crate::dtype::c128; $body }
            $crate::DType::Bool => { type $T = $crate::Bool; $body }
        }
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
                    (Err(_), Err(_)) => assert!(a.is_wide_unsigned() || b.is_wide_unsigned()),
                    _ => panic!("{a} and {b} promote in one direction only"),
                }
            }
        }
        assert_eq!(promote(DType::U8, DType::I8).unwrap(), DType::I16);
        assert_eq!(promote(DType::F16, DType::BF16).unwrap(), DType::F32);
        assert_eq!(promote(DType::F64, DType::C64).unwrap(), DType::C128);
        assert_eq!(promote(DType::I64, DType::F16).unwrap(), DType::F16);
        assert_eq!(promote(DType::U8, DType::I64).unwrap(), DType::I64);
        assert_eq!(promote(DType::U32, DType::F16).unwrap(), DType::F16);
        assert!(promote(DType::U32, DType::Bool).is_err() && promote(DType::Bool, DType::U64).is_err());
    }
}
