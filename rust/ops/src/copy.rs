//! Copies between any two layouts and dtypes.

use rushlight_autograd::Tensor;
use rushlight_core::plan::Plan;
use rushlight_core::{Device, Layout, Result};
use rushlight_cpu::pointwise::{self, Lane, Tile};

use crate::derive::{Derivative, Saves, formula};
use crate::node::Change;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::Args;

/// Moves elements as they are; the walk converts them.
fn identity(width: usize) -> Tile {
    unsafe fn copy<const WIDTH: usize>(out: *mut u8, inputs: *const *const u8, n: usize, _: &[rushlight_core::Scalar]) {
        // SAFETY: the walk gives `n` elements on both sides.
        unsafe { std::ptr::copy(*inputs, out, n * WIDTH) }
    }
    match width {
        1 => copy::<1>,
        2 => copy::<2>,
        4 => copy::<4>,
        8 => copy::<8>,
        _ => copy::<16>,
    }
}

/// Overwrites `to` with `from`, which broadcasts and is cast; not recorded.
pub fn copy(to: &Tensor, from: &Tensor) -> Result<()> {
    let target = to.layout();
    let source = from.layout().broadcast_to(&target.sizes)?;
    if to.device() != Device::Cpu || target.numel() == 0 {
        return Ok(());
    }
    crate::host::while_detached(target.numel(), || {
        let (out, input) = (to.storage().pin(), from.storage().pin());
        let lanes = [
            Lane { pointer: out.as_ptr(), dtype: to.dtype() },
            Lane { pointer: input.as_ptr(), dtype: from.dtype() },
        ];
        let plan = Plan::new([target, &source], [to.dtype().size(), from.dtype().size()]);
        let dtype = to.dtype();
        // SAFETY: layouts stay within their pinned storages.
        unsafe { pointwise::run(&plan, lanes, [dtype, dtype], identity(dtype.size()), &[]) };
        Ok(())
    })
}

/// The same elements in memory of their own, in the same order of dimensions where that is dense; not recorded.
pub fn clone(tensor: &Tensor) -> Result<Tensor> {
    let strides = tensor.layout().preserved_strides();
    let layout = Layout { sizes: tensor.sizes().clone(), strides, offset: 0 };
    let copied = crate::call::allocate(&Spec { layout, dtype: tensor.dtype(), device: tensor.device() })?;
    copy(&copied, tensor)?;
    Ok(copied)
}

/// The row behind `Tensor.copy_`: recorded, for the engine and for assignment.
pub static COPY_: Row = Row {
    name: "_copy_from",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor src) -> Tensor",
    doc: "The elements of `src`, broadcast and cast to look like `self`.

    >>> torch._copy_from(torch.zeros(2), torch.tensor(3))
    tensor([3., 3.])",
    dtypes: DTypes::ALL,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            Ok(vec![Spec::new(own.sizes(), own.dtype(), own)])
        },
        cpu: |args, results| copy(&results[0], args.tensor(1)?),
    }),
    derivative: Derivative::Formulas(&[formula(1, Saves::NOTHING, |d| d.grad())]),
    node: "CopyBackwards",
    samples: &["t(2, 3), t(3)"],
    reference: "np.broadcast_to(src, self.shape)",
    ..Row::BASE
};

/// Overwrites `to` with `from`, recorded as torch's `copy_`.
pub fn copy_(to: &Tensor, from: &Tensor) -> Result<()> {
    crate::variants::check_writable(to)?;
    crate::variants::check_no_self_overlap(to)?;
    from.layout().broadcast_to(to.sizes())?;
    let args = Args::new(&COPY_, [to.into(), from.into()]);
    let change = Change::begin(&args)?;
    let overlapping = crate::variants::check_overlap(to, from).is_err();
    if overlapping { copy(to, &clone(from)?)? } else { copy(to, from)? }
    change.finish().map(drop)
}
