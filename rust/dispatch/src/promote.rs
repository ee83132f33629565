//! Type promotion with torch's rules: tensors with dimensions take precedence over 0-d tensors, and those over numbers.

use rushlight_core::dtype::{Category, default_dtype, promote};
use rushlight_core::{DType, Element, Error, Result, Scalar, dispatch};

use crate::value::{Operand, Operands};

/// The dtypes seen so far, one for each level of precedence.
#[derive(Default, Clone, Copy)]
pub struct PromotionState {
    dimensioned: Option<DType>,
    zero_dim: Option<DType>,
    number: Option<DType>,
    /// Two integral dtypes of numbers without a common one.
    apart: Option<[DType; 2]>,
}

fn join(known: Option<DType>, dtype: DType) -> Result<Option<DType>> {
    Ok(Some(match known {
        Some(known) => promote(known, dtype)?,
        None => dtype,
    }))
}

impl PromotionState {
    pub fn tensor(&mut self, dtype: DType, rank: usize) -> Result<()> {
        let slot = if rank > 0 { &mut self.dimensioned } else { &mut self.zero_dim };
        *slot = join(*slot, dtype)?;
        Ok(())
    }

    pub fn number(&mut self, number: Scalar) -> Result<()> {
        let dtype = number_dtype(number);
        self.number = match self.number {
            // Beside a tensor of floats only their category matters.
            Some(known) if known.is_integral() && dtype.is_integral() && promote(known, dtype).is_err() => {
                self.apart = Some([known, dtype]);
                Some(DType::U64)
            }
            known => join(known, dtype)?,
        };
        Ok(())
    }

    pub fn result(self) -> Result<DType> {
        let tensors = combine(self.dimensioned, self.zero_dim)?;
        if let Some([first, second]) = self.apart
            && !tensors.is_some_and(DType::is_differentiable)
        {
            promote(first, second)?;
        }
        Ok(combine(tensors, self.number)?.unwrap_or_else(default_dtype))
    }
}

/// The dtype of a tensor made from a number alone.
pub fn number_dtype(value: Scalar) -> DType {
    match value {
        Scalar::Float(_) => default_dtype(),
        Scalar::Complex(_) => default_dtype().to_complex(),
        other => other.dtype(),
    }
}

/// Whether an operation of a tensor of this dtype with a number has the tensor's dtype.
#[inline]
pub fn is_absorbed(number: Scalar, dtype: DType) -> bool {
    dtype.category() >= number.dtype().category() && dtype.category() > Category::Bool
}

/// The common dtype of operands: tensors with dimensions take precedence, then 0-d tensors, then numbers.
pub fn common(operands: &Operands, extra: &[Scalar]) -> Result<DType> {
    if let ([Operand::Tensor(first), rest @ ..], []) = (operands.as_slice(), extra) {
        let dtype = first.dtype();
        let alike = |operand: &Operand| match operand {
            Operand::Tensor(tensor) => tensor.dtype() == dtype,
            Operand::Number(number) => is_absorbed(*number, dtype),
        };
        if rest.iter().all(alike) {
            return Ok(dtype);
        }
    }
    let mut state = PromotionState::default();
    for operand in operands {
        match operand {
            Operand::Tensor(tensor) => state.tensor(tensor.dtype(), tensor.layout().rank())?,
            Operand::Number(number) => state.number(*number)?,
        }
    }
    for number in extra {
        state.number(*number)?;
    }
    state.result()
}

/// The dtype of higher precedence, unless the other one is of a higher category.
fn combine(higher: Option<DType>, lower: Option<DType>) -> Result<Option<DType>> {
    let (Some(high), Some(low)) = (higher, lower) else { return Ok(higher.or(lower)) };
    if high.is_complex() {
        return Ok(Some(high));
    }
    if high.is_floating() {
        if low.is_complex() && high.is_float8() {
            return Err(Error::runtime(format!("Unknown Complex ScalarType for {}", high.display_name())));
        }
        return Ok(Some(if low.is_complex() { high.to_complex() } else { high }));
    }
    if high == DType::Bool || low.is_floating() || low.is_complex() {
        return Ok(Some(promote(high, low)?));
    }
    Ok(Some(high))
}

/// A number as a dtype holds it.
pub fn rounded(number: Scalar, dtype: DType) -> Scalar {
    dispatch!(dtype, T in all => T::from_scalar(number).to_scalar())
}

/// A number's bytes in a dtype.
pub fn bits(number: Scalar, dtype: DType) -> [u64; 2] {
    let mut bytes = [0u64; 2];
    dispatch!(dtype, T in all => {
        // SAFETY: no element is wider than 16 bytes.
        unsafe { std::ptr::from_mut(&mut bytes).cast::<T>().write(T::from_scalar(number)) }
    });
    bytes
}
