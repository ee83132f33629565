//! The dtypes of elements, and arithmetic with them. Everything is computed in double precision.

use half::{bf16, f16};

/// The dtype of elements. Only complex numbers have an imaginary part; others have zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DType {
    R16,
    B16,
    R32,
    R64,
    C32,
    C64,
}

pub type Number = [f64; 2];

impl DType {
    const ALL: [DType; 6] = [DType::R16, DType::B16, DType::R32, DType::R64, DType::C32, DType::C64];

    /// `cudaDataType_t`.
    pub fn code(self) -> u32 {
        match self {
            DType::R32 => 0,
            DType::R64 => 1,
            DType::R16 => 2,
            DType::C32 => 4,
            DType::C64 => 5,
            DType::B16 => 14,
        }
    }

    pub fn of(code: u32) -> Option<DType> {
        DType::ALL.into_iter().find(|own| own.code() == code)
    }

    pub fn is_complex(self) -> bool {
        matches!(self, DType::C32 | DType::C64)
    }

    pub fn bytes(self) -> usize {
        match self {
            DType::R16 | DType::B16 => 2,
            DType::R32 => 4,
            DType::R64 | DType::C32 => 8,
            DType::C64 => 16,
        }
    }

    /// The dtype of real and imaginary parts.
    pub fn real(self) -> DType {
        match self {
            DType::C32 => DType::R32,
            DType::C64 => DType::R64,
            other => other,
        }
    }

    /// What the address of an element must be divisible by.
    pub fn alignment(self) -> usize {
        self.bytes()
    }

    /// The dtype of sums.
    pub fn summed(self) -> DType {
        if matches!(self, DType::R16 | DType::B16) { DType::R32 } else { self }
    }

    /// # Safety
    /// An element can be read at the address.
    pub unsafe fn load(self, address: usize) -> Number {
        let at = std::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                DType::R16 => [at.cast::<f16>().read_unaligned().to_f64(), 0.0],
                DType::B16 => [at.cast::<bf16>().read_unaligned().to_f64(), 0.0],
                DType::R32 => [f64::from(at.cast::<f32>().read_unaligned()), 0.0],
                DType::R64 => [at.cast::<f64>().read_unaligned(), 0.0],
                DType::C32 => at.cast::<[f32; 2]>().read_unaligned().map(f64::from),
                DType::C64 => at.cast::<[f64; 2]>().read_unaligned(),
            }
        }
    }

    /// # Safety
    /// An element can be written at the address.
    pub unsafe fn store(self, address: usize, value: Number) {
        let at = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                DType::R16 => at.cast::<f16>().write_unaligned(f16::from_f32(value[0] as f32)),
                DType::B16 => at.cast::<bf16>().write_unaligned(bf16::from_f32(value[0] as f32)),
                DType::R32 => at.cast::<f32>().write_unaligned(value[0] as f32),
                DType::R64 => at.cast::<f64>().write_unaligned(value[0]),
                DType::C32 => at.cast::<[f32; 2]>().write_unaligned(value.map(|part| part as f32)),
                DType::C64 => at.cast::<[f64; 2]>().write_unaligned(value),
            }
        }
    }
}

pub fn times(x: Number, y: Number) -> Number {
    // A real number must not make a NaN of infinity.
    if x[1] == 0.0 && y[1] == 0.0 {
        return [x[0] * y[0], 0.0];
    }
    [x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]]
}

pub fn plus(x: Number, y: Number) -> Number {
    [x[0] + y[0], x[1] + y[1]]
}

/// Ten bits after the leading one.
pub fn tf32(value: f64) -> f64 {
    let bits = (value as f32).to_bits();
    if value.is_finite() { f64::from(f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff)) } else { value }
}
