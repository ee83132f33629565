//! Losses that depend on what a decomposition leaves open, such as the phase of an eigenvector, have no gradient.

use rushlight_core::{DType, Error, Result, Scalar};

use crate::expr::Expr;

/// Refuses a loss that changes when vectors are multiplied by a phase: then the gradients of `turned`, the rotation that
/// the loss asks for, have imaginary parts on their diagonals.
pub fn check_phase(name: &str, vectors: &str, turned: Expr) -> Result<()> {
    let diagonal = turned.diagonals().done()?;
    if diagonal.device() != rushlight_core::Device::Cpu || diagonal.numel() == 0 {
        return Ok(());
    }
    let tolerance = if diagonal.dtype() == DType::C64 { 1e-2 } else { 1e-5 };
    let parts = Expr::from(crate::view::complex::pairs(&crate::mapped::samples(&diagonal.detach()))).part(-1, 1, 1);
    let largest = parts.abs().call(&crate::reduce::extreme::MAX, []).done()?;
    if crate::item(&largest)?.f64() <= tolerance {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss function depends on this quantity, so it is ill-defined."
    )))
}

impl Expr {
    /// Matrices with ones on their diagonals.
    pub fn with_diagonal_of_ones(self) -> Expr {
        let Expr::Tensor(tensor) = &self else { return self };
        let ones = match crate::create::full(
            &tensor.sizes()[..tensor.rank() - 1],
            Scalar::ONE,
            tensor.dtype(),
            tensor.device(),
        ) {
            Ok(ones) => Expr::from(ones),
            Err(error) => return Expr::failed(error),
        };
        ones.on_diagonals() + self.clone().tril(-1) + self.triu(1)
    }
}
