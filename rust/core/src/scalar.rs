//! A Python number: an argument that operators accept in addition to tensors.

use num_complex::Complex64;

use crate::dtype::DType;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    /// Used only for values above `i64::MAX`.
    UInt(u64),
    Float(f64),
    Complex(Complex64),
}

impl Scalar {
    pub const ZERO: Scalar = Scalar::Int(0);
    pub const ONE: Scalar = Scalar::Int(1);

    /// The dtype of this number in promotion, before the default dtype is applied.
    pub fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::UInt(_) => DType::U64,
            Scalar::Float(_) => DType::F64,
            Scalar::Complex(_) => DType::C128,
        }
    }

    pub fn f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::Int(value) => value as f64,
            Scalar::UInt(value) => value as f64,
            Scalar::Float(value) => value,
            Scalar::Complex(value) => value.re,
        }
    }

    pub fn i64(self) -> i64 {
        match self {
            Scalar::Bool(value) => i64::from(value),
            Scalar::Int(value) => value,
            Scalar::UInt(value) => value as i64,
            Scalar::Float(value) => value as i64,
            Scalar::Complex(value) => value.re as i64,
        }
    }

    pub fn complex(self) -> Complex64 {
        match self {
            Scalar::Complex(value) => value,
            other => Complex64::new(other.f64(), 0.0),
        }
    }

    pub fn truth(self) -> bool {
        match self {
            Scalar::Bool(value) => value,
            Scalar::Int(value) => value != 0,
            Scalar::UInt(value) => value != 0,
            Scalar::Float(value) => value != 0.0,
            Scalar::Complex(value) => value.re != 0.0 || value.im != 0.0,
        }
    }

    /// Whether a dtype can hold the number, by torch's rule for conversions: fractions may be lost, but the number must
    /// not exceed the greatest one. Unsigned types accept negative integers that wrap around once.
    pub fn fits(self, dtype: DType) -> bool {
        if let Scalar::Complex(value) = self
            && !dtype.is_complex()
        {
            return dtype == DType::Bool || (value.im == 0.0 && Scalar::Float(value.re).fits(dtype));
        }
        if dtype.is_float8() {
            return self.fits_float8(dtype);
        }
        // Whole numbers overflow to infinity without an error, but not in float16.
        if !dtype.is_integral() && dtype != DType::F16 && self.is_integral() {
            return true;
        }
        if let Some(greatest) = dtype.greatest() {
            let value = self.complex();
            let holds = |part: f64| !part.is_finite() || part.abs() <= greatest;
            return holds(value.re) && holds(value.im);
        }
        if !dtype.is_integral() {
            return true;
        }
        let bits = dtype.size() as i32 * 8 - i32::from(dtype.is_signed());
        let limit = 2f64.powi(bits);
        match self {
            // As floats, the greatest 64-bit integers round up to the next power of two.
            Scalar::Float(value) => {
                let (least, greatest) = (if dtype.is_signed() { -limit } else { 0.0 }, limit - 1.0);
                value >= least && value <= greatest
            }
            Scalar::Int(_) if dtype.size() == 8 => true,
            Scalar::Int(value) => {
                (value as f64) < limit && (value as f64 > -limit || dtype.is_signed() && value as f64 == -limit)
            }
            Scalar::UInt(_) if dtype.size() == 8 => !dtype.is_signed(),
            Scalar::UInt(value) => (value as f64) < limit,
            _ => true,
        }
    }

    /// The same for an 8-bit float, most of which have no infinity.
    fn fits_float8(self, dtype: DType) -> bool {
        // Powers of two take every number: its magnitude is rounded to one of them, or it is NaN.
        if dtype == DType::F8E8M0Fnu {
            return true;
        }
        let (value, Some(greatest)) = (self.f64(), dtype.greatest()) else { return true };
        let least = dtype.least().unwrap_or(-greatest);
        matches!(self, Scalar::Bool(_))
            || value.is_nan()
            || value.is_infinite() && dtype == DType::F8E5M2
            || (least..=greatest).contains(&value)
    }

    pub fn is_floating(self) -> bool {
        matches!(self, Scalar::Float(_))
    }

    pub fn is_complex(self) -> bool {
        matches!(self, Scalar::Complex(_))
    }

    pub fn is_integral(self) -> bool {
        matches!(self, Scalar::Int(_) | Scalar::UInt(_))
    }

    pub fn is_bool(self) -> bool {
        matches!(self, Scalar::Bool(_))
    }

    pub fn is_zero(self) -> bool {
        !self.truth()
    }

    pub fn is_one(self) -> bool {
        self == Scalar::Int(1) || self == Scalar::Float(1.0) || self == Scalar::Bool(true)
    }
}

impl std::ops::Neg for Scalar {
    type Output = Scalar;
    fn neg(self) -> Scalar {
        match self {
            Scalar::Bool(value) => Scalar::Int(-i64::from(value)),
            Scalar::Int(value) => Scalar::Int(value.wrapping_neg()),
            Scalar::UInt(value) => Scalar::Int((value as i64).wrapping_neg()),
            Scalar::Float(value) => Scalar::Float(-value),
            Scalar::Complex(value) => Scalar::Complex(-value),
        }
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Scalar::Bool(value)
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Scalar::Int(value)
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Scalar::Float(value)
    }
}
