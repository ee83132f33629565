//! A call that may take the fast path, and what its operands have in common.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Scalar};

use crate::operator::{Args, Operator, Pointwise, Promote};
use crate::promote::is_absorbed;
use crate::value::Operand;

/// The caller's guarantee that it holds the GIL until the call returns: then no storage's block is replaced meanwhile,
/// and operands need no pins.
#[derive(Clone, Copy)]
pub struct GilHeld(());

impl GilHeld {
    /// # Safety
    /// The calling thread holds the GIL, and keeps it as long as the value is used.
    #[inline]
    pub unsafe fn assume() -> GilHeld {
        GilHeld(())
    }
}

/// A call of a pointwise operator.
#[derive(Clone, Copy)]
pub struct Call<'a, 'b> {
    pub op: &'static Operator,
    pub body: &'a Pointwise,
    /// The first tensor among the operands.
    pub model: &'a Tensor,
    pub numbers: &'a [Scalar],
    /// The arguments of an in-place call.
    pub over: Option<&'a Args<'b>>,
    pub gil: Option<GilHeld>,
}

/// What the operands have in common with the first tensor among them: the number of elements, and the dtype of the result.
pub struct Alike {
    pub numel: usize,
    pub result: DType,
}

impl Call<'_, '_> {
    /// `None` if there are no elements, or if an operand is another dtype's, on another device or of another form than rows of adjacent
    /// elements. `accepts` judges numbers by their places and the number of elements.
    #[inline]
    pub fn alike(&self, operands: &[Operand], accepts: impl Fn(usize, usize) -> bool) -> Option<Alike> {
        let model = self.model;
        let (layout, dtype) = (model.layout(), model.dtype());
        let result = match self.body.promote {
            Promote::Common => dtype,
            Promote::IntToFloat if dtype.is_differentiable() => dtype,
            Promote::ToBool if dtype.is_differentiable() => DType::Bool,
            _ => return None,
        };
        let numel = layout.row_major().filter(|&numel| numel > 0)?;
        let is_alike = |(at, operand): (usize, &Operand)| match operand {
            Operand::Tensor(tensor) => {
                tensor.is_plain()
                    && (std::ptr::eq(*tensor, model)
                        || tensor.dtype() == dtype
                            && tensor.device() == model.device()
                            && tensor.layout().same_geometry(layout))
            }
            Operand::Number(number) => accepts(at, numel) && is_absorbed(*number, dtype),
        };
        let fits = self.op.dtypes.has(dtype) && operands.iter().enumerate().all(is_alike);
        fits.then_some(Alike { numel, result })
    }
}
