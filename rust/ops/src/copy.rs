//! Copies between any two layouts and dtypes.

use rushlight_autograd::Tensor;
use rushlight_core::{Device, Layout, Result};
use rushlight_cpu::pointwise::Lane;

use crate::call::Target;
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::row::{DTypes, Row, Run, Spec, Traits, Update, Variants};
use crate::sparse::Sparse;
use crate::value::{Args, Output};

/// Overwrites `to` with `from`, which broadcasts and is cast; not recorded.
pub fn copy(to: &Tensor, from: &Tensor) -> Result<()> {
    copy_to_view(to, to.layout(), from)
}

/// Overwrites the elements that `target` names in the storage of `to`; not recorded.
pub fn copy_to_view(to: &Tensor, target: &Layout, from: &Tensor) -> Result<()> {
    if from.sizes() == &target.sizes {
        return copy_views(to, target, from, from.layout());
    }
    copy_views(to, target, from, &from.layout().broadcast_to(&target.sizes)?)
}

/// Overwrites what `target` names in one storage with what `source`, of the same sizes, names in another; not recorded.
pub fn copy_views(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    if to.device() != Device::Cpu || target.numel() == 0 {
        return Ok(());
    }
    if !to.is_plain() || !from.is_plain() {
        if to.is_sparse() || from.is_sparse() {
            return Err(crate::sparse::no_memory());
        }
        if to.is_mapped() || from.is_mapped() {
            return copy_mapped(to, target, from, source);
        }
        return copy_mirrored(to, target, from, source);
    }
    crate::host::while_detached(target.numel(), || {
        let (out, input) = (to.storage().pin()?, from.storage().pin()?);
        let lanes =
            [Lane { pointer: out.as_ptr(), dtype: to.dtype() }, Lane { pointer: input.as_ptr(), dtype: from.dtype() }];
        // SAFETY: layouts stay within their pinned storages.
        unsafe { rushlight_cpu::convert::copy::copy(target, source, lanes) };
        Ok(())
    })
}

/// `copy_views` where what is stored is not what is meant: by way of a tensor between the two.
#[cold]
fn copy_mirrored(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    let mut value = stored(from, source);
    if from.is_mirrored() {
        value = image(&value)?;
    }
    if to.is_mirrored() {
        value = image(&crate::convert::to_dtype(&value, to.dtype())?)?;
    }
    copy_views(&stored(to, target), target, &value, value.layout())
}

/// `copy_views` for every sample.
#[cold]
fn copy_mapped(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    if from.axes().iter().any(|axis| to.axis(axis.level).is_none()) {
        return Err(crate::mapped::no_room());
    }
    let (mut target, mut source) = (target.clone(), source.clone());
    for axis in to.axes() {
        target.sizes.insert(0, axis.size);
        target.strides.insert(0, axis.stride);
        source.sizes.insert(0, axis.size);
        source.strides.insert(0, from.axis(axis.level).map_or(0, |own| own.stride));
    }
    copy_views(&stored(to, &target), &target, &stored(from, &source), &source)
}

/// What the memory of a tensor holds, whatever its elements stand for.
fn stored(tensor: &Tensor, layout: &Layout) -> Tensor {
    Tensor::new(tensor.storage().clone(), layout.clone(), tensor.dtype(), tensor.device())
}

/// The conjugates of complex numbers, the negatives of real ones.
fn image(stored: &Tensor) -> Result<Tensor> {
    if stored.dtype().is_complex() {
        crate::op!(crate::pointwise::complex::CONJ_AT_ONCE, stored)
    } else {
        crate::op!(crate::pointwise::arith::NEG, stored)
    }
}

/// Adds `from`, of the same dtype, to the elements that `target` names, which may name some more than once; not recorded.
pub fn accumulate(to: &Tensor, target: &Layout, from: &Tensor) -> Result<()> {
    if to.device() != Device::Cpu || target.numel() == 0 {
        return Ok(());
    }
    if to.is_mapped() || from.is_mapped() {
        return Err(crate::mapped::no_elements());
    }
    if to.is_mirrored() != from.is_mirrored() {
        return accumulate(&stored(to, to.layout()), target, &image(&stored(from, from.layout()))?);
    }
    crate::host::while_detached(target.numel(), || {
        let (out, input) = (to.storage().pin()?, from.storage().pin()?);
        // SAFETY: layouts stay within their pinned storages, and both dtypes are the same.
        unsafe {
            rushlight_cpu::convert::copy::accumulate(target, out.as_ptr(), from.layout(), input.as_ptr(), to.dtype())
        };
        Ok(())
    })
}

/// The same elements in memory of their own, in the same order of dimensions where that is dense; not recorded.
pub fn clone(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_mapped() {
        let (shown, axes) = crate::mapped::all_shown(tensor);
        return Ok(crate::mapped::all_hidden(&clone(&shown)?, &axes));
    }
    let strides = tensor.layout().preserved_strides();
    let layout = Layout { sizes: tensor.sizes().clone(), strides, offset: 0 };
    let copied = crate::call::allocate(&Spec { layout, dtype: tensor.dtype(), device: tensor.device() })?;
    copy(&copied, tensor)?;
    Ok(copied)
}

/// The tensor itself, or a copy where its memory does not hold its elements (`Form::Mirrored`): for who reads the memory; not
/// recorded.
pub fn readable(tensor: &Tensor) -> Result<Tensor> {
    match tensor.is_plain() {
        true => Ok(tensor.clone()),
        false if tensor.is_mapped() => Err(crate::mapped::no_elements()),
        false => clone(tensor),
    }
}

/// `Tensor.copy_`, which also serves the engine and assignment.
pub static COPY: Row = Row {
    name: "copy",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Tensor|Scalar src, bool non_blocking=False) -> Tensor",
    doc: "Overwrites the elements with those of `src`, broadcast and cast.

    >>> torch.zeros(2).copy_(torch.tensor([3, 4]))
    tensor([3., 4.])",
    dtypes: DTypes::ALL,
    traits: Traits::ACROSS_DEVICES,
    sparse: Sparse::Body(crate::sparse::convert::copied),
    mapped: Mapped::Aligned,
    run: Run::Update(Update {
        check: |args| {
            let own = args.tensor(0)?;
            let from = match args.optional_tensor(1) {
                Some(from) => from,
                None => return crate::convert::note_dropped(args.scalar(1)?.dtype(), own.dtype()),
            };
            // First as two operands, whose sentence names the target before the source.
            rushlight_core::broadcast::broadcast(own.sizes(), from.sizes())?;
            crate::convert::note_dropped(from.dtype(), own.dtype())?;
            from.layout().broadcast_to(own.sizes()).map(drop)
        },
        cpu: |args, target| match args.optional_tensor(1) {
            Some(from) => copy(target, from),
            None => crate::create::fill(target, args.scalar(1)?),
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |_| Expr::Nothing),
        formula(1, Saves::NOTHING, |d| d.grad()),
    ]),
    node: "CopyBackwards",
    samples: &["t(2, 3), t(3)", "t(2, 3), 2"],
    errors: &[(
        "t(2, 3), t(4)",
        "RuntimeError",
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    )],
    reference: "np.broadcast_to(src, self.shape)",
    ..Row::BASE
};

/// Overwrites `to` with `from`, recorded.
pub fn copy_(to: &Tensor, from: &Tensor) -> Result<()> {
    let args = Args::new(&COPY, [to.into(), from.into(), false.into()]);
    crate::call::call_into(args, Target::InPlace).map(drop)
}

pub static CONTIGUOUS: Row = Row {
    name: "contiguous",
    variants: Variants::METHOD,
    signature: "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "The tensor in row-major memory: itself if it already is, else a copy.

    >>> torch.zeros(2, 3).t().contiguous().stride()
    (2, 1)",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let (own, format) = (args.tensor(0)?, args.optional_str(1).unwrap_or("contiguous_format"));
        if crate::create::constant::is_contiguous(own.layout(), Some(format))? {
            return Ok(Output::Tensor(own.clone()));
        }
        crate::convert::CLONE.call([own.into(), format.into()])
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t(2, 3).t()"],
    reference: "np.ascontiguousarray(self) if self.ndim else self",
    ..Row::BASE
};
