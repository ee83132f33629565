//! A call that may take the fast path: what its operands have in common, and whether it may write over one of them.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Result, Scalar};

use crate::node::InPlaceCall;
use crate::operator::{Args, Operator, Pointwise, Promote};
use crate::promote::is_absorbed;
use crate::value::{Arg, Operand};
use crate::variants::check_writable;

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
#[derive(Clone, Copy)]
pub struct Alike {
    pub numel: usize,
    pub result: DType,
}

impl<'a, 'b> Call<'a, 'b> {
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

    /// Begins to write over the first operand, which is the tensor that changes and starts at the first of `inputs`, the addresses of
    /// all operands in memory. `None` if another operand overlaps it without being the same memory, or if the result has another dtype.
    #[inline]
    pub fn begin_in_place(
        &self,
        args: &'a Args<'b>,
        Alike { numel, result }: Alike,
        inputs: impl Iterator<Item = usize> + Clone,
    ) -> Result<Option<InPlaceCall<'a, 'b>>> {
        let (own, dtype) = (args.tensor(Arg::FIRST)?, self.model.dtype());
        let bytes = numel * dtype.size();
        let apart = |to: usize| inputs.clone().all(|input| input == to || input.abs_diff(to) >= bytes);
        if !std::ptr::eq(own, self.model) || result != dtype || !inputs.clone().next().is_some_and(apart) {
            return Ok(None);
        }
        check_writable(own)?;
        InPlaceCall::begin(args).map(Some)
    }
}
