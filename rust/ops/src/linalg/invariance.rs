//! Losses that depend on arbitrary choices of a decomposition, such as the phase of an eigenvector, have no gradient.

use rushlight_core::{DType, Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::{handled, vmap};

use crate::expr_ext::ExprExt;

/// Returns an error for a loss that changes when vectors are multiplied by a phase: then the gradients of `turned`, the
/// corresponding rotation, have imaginary parts on their diagonals.
pub fn check_phase(name: &str, vectors: &str, turned: Expr) -> Result<()> {
    let diagonal = turned.diagonals().done()?;
    if diagonal.device() == rushlight_core::Device::Meta || diagonal.numel() == 0 {
        return Ok(());
    }
    let tolerance = if diagonal.dtype() == DType::C64 { 1e-2 } else { 1e-5 };
    let parts = Expr::from(crate::view::complex::pairs(&vmap::samples(&handled::detach(&diagonal)?)?)).part(-1, 1, 1);
    let largest = parts.abs().call(&crate::reduce::extreme::MAX, []).done()?;
    if crate::convert::item(&largest)?.f64() <= tolerance {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss function depends on this quantity, so it is ill-defined."
    )))
}
