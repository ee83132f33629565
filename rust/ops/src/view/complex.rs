//! Complex numbers as pairs of real ones, and back; their parts and conjugates as views.

use rushlight_autograd::{Form, Meta, Tensor};
use rushlight_core::{DType, Error, Layout, Result};

use crate::autocast::Autocast;
use crate::call::mirrored::resolved;
use crate::derive::{Derivative, Saves, formula};
use crate::mapped::Mapped;
use crate::op;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::value::{Args, Output};
use crate::view::narrow::SELECT;

pub static VIEW_AS_REAL: Row = Row {
    name: "view_as_real",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of complex numbers as pairs of real ones, in a new last dimension of size two.

    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])",
    dtypes: DTypes::COMPLEX,
    traits: Traits::SEES_MEMORY,
    run: Run::Retype(|args| {
        let own = args.tensor(0)?;
        if !own.dtype().is_complex() {
            return Err(Error::runtime("view_as_real is only supported for complex tensors"));
        }
        if own.is_mirrored() {
            return Err(Error::runtime(
                "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the original.",
            ));
        }
        Ok(Meta { dtype: own.dtype().to_real(), ..own.meta_with(own.layout().pairs()) })
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        match d.grad().done().and_then(|grad| crate::convert::contiguous(&grad)) {
            Ok(grad) => crate::expr::Expr::from(grad).call(&VIEW_AS_COMPLEX, []),
            Err(error) => crate::expr::Expr::failed(error),
        }
    })]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.stack((self.real, self.imag), -1)",
    ..Row::BASE
};

pub static VIEW_AS_COMPLEX: Row = Row {
    name: "view_as_complex",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of pairs of real numbers, the last dimension, as complex ones.

    >>> torch.view_as_complex(torch.tensor([[1., 2.]]))
    tensor([1.+2.j])",
    dtypes: DTypes::of(&[DType::F32, DType::F64]),
    autocast: Autocast::Single,
    traits: Traits::SEES_MEMORY,
    run: Run::Retype(|args| {
        let own = args.tensor(0)?;
        if own.is_mirrored() {
            return Err(Error::runtime(
                "view_as_complex doesn't work on unresolved negatives: self.resolve_neg() first",
            ));
        }
        let dtype = match own.dtype() {
            DType::F32 | DType::F64 => own.dtype().to_complex(),
            other => {
                return Err(Error::runtime(format!(
                    "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {}",
                    other.title()
                ))
                .hint("Half pairs would be complex32, which is not there: x.float() first."));
            }
        };
        Ok(Meta { dtype, ..own.meta_with(paired(own.layout())?) })
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad().call(&VIEW_AS_REAL, []))]),
    samples: &["t(3, 2)", "t(2)"],
    errors: &[
        ("t(3)", "RuntimeError", "Tensor must have a last dimension of size 2"),
        ("t()", "RuntimeError", "Input tensor must have one or more dimensions"),
    ],
    reference: "self[..., 0] + 1j * self[..., 1]",
    ..Row::BASE
};

fn paired(own: &Layout) -> Result<Layout> {
    let mut view = own.clone();
    let Some(pair) = view.sizes.pop() else {
        return Err(Error::runtime("Input tensor must have one or more dimensions"));
    };
    if pair != 2 {
        return Err(Error::runtime("Tensor must have a last dimension of size 2"));
    }
    if view.strides.pop() != Some(1) {
        return Err(Error::runtime("Tensor must have a last dimension with stride 1"));
    }
    if view.strides.iter().any(|stride| stride % 2 != 0) {
        return Err(Error::runtime("Tensor must have a stride divisible by 2 for all but last dimension"));
    }
    if view.offset % 2 != 0 {
        return Err(Error::runtime("Tensor must have a storage_offset divisible by 2"));
    }
    view.strides.iter_mut().for_each(|stride| *stride /= 2);
    view.offset /= 2;
    Ok(view)
}

pub static REAL: Row = Row {
    name: "real",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of the real parts; a real tensor itself.

    >>> torch.real(torch.tensor([1 + 2j]))
    tensor([1.])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        if !own.dtype().is_complex() {
            return Ok(Output::Tensor(own.clone()));
        }
        if own.is_mirrored() {
            return op!(REAL, op!(MIRRORED, own)?).map(Output::Tensor);
        }
        op!(SELECT, op!(VIEW_AS_REAL, own)?, -1i64, 0i64).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)"],
    reference: "np.real(self)",
    ..Row::BASE
};

pub static IMAG: Row = Row {
    name: "imag",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of the imaginary parts.

    >>> torch.imag(torch.tensor([1 + 2j]))
    tensor([2.])",
    dtypes: DTypes::COMPLEX,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        if !own.dtype().is_complex() {
            return Err(Error::runtime("imag is not implemented for tensors with non-complex dtypes."));
        }
        if own.is_mirrored() {
            return op!(NEGATED, op!(IMAG, op!(MIRRORED, own)?)?).map(Output::Tensor);
        }
        op!(SELECT, op!(VIEW_AS_REAL, own)?, -1i64, 1i64).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)"],
    reference: "np.imag(self)",
    ..Row::BASE
};

/// The other mark on the same elements.
fn turned(args: &Args) -> Result<Meta> {
    let own = args.tensor(0)?;
    let form = if own.is_mirrored() { Form::Plain } else { Form::Mirrored };
    Ok(Meta { form, ..own.meta().clone() })
}

pub static MIRRORED: Row = Row {
    name: "_conj",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of complex numbers as their conjugates, which are computed where they are read.

    >>> torch._conj(torch.tensor([1 + 2j]))
    tensor([1.-2.j])",
    dtypes: DTypes::COMPLEX,
    traits: Traits::SEES_MEMORY,
    mapped: Mapped::Instead(&crate::pointwise::complex::CONJ_AT_ONCE),
    run: Run::Retype(turned),
    check: Some(|args| match args.tensor(0)?.dtype() {
        dtype if dtype.is_complex() => Ok(()),
        dtype => Err(Error::runtime(format!("_conj is only supported for complex tensors, not for {dtype}"))),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad().conj())]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.conj(self)",
    ..Row::BASE
};

pub static NEGATED: Row = Row {
    name: "_neg_view",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of real numbers as their negatives, which are computed where they are read: what the imaginary parts of a
conjugate are.

    >>> torch._neg_view(torch.tensor([1., -2.]))
    tensor([-1.,  2.])",
    dtypes: DTypes::FLOATS,
    traits: Traits::SEES_MEMORY,
    mapped: Mapped::Instead(&crate::pointwise::arith::NEG),
    run: Run::Retype(turned),
    check: Some(|args| match args.tensor(0)?.dtype() {
        dtype if dtype.is_floating() => Ok(()),
        dtype => Err(Error::runtime(format!("_neg_view is only supported for floating-point tensors, not for {dtype}"))),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| -d.grad())]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.negative(self)",
    ..Row::BASE
};

pub static CONJ: Row = Row {
    name: "conj",
    signature: "(Tensor self) -> Tensor",
    doc: "A view of complex numbers as their conjugates, computed where they are read; a real tensor itself.

    >>> x = torch.tensor([1 + 2j])
    >>> y = torch.conj(x)
    >>> y[0] = 3 + 4j
    >>> x
    tensor([3.-4.j])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| conjugate(args.tensor(0)?).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t()"],
    reference: "np.conj(self)",
    ..Row::BASE
};

/// The conjugates as a view; real numbers are their own.
pub fn conjugate(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dtype().is_complex() { op!(MIRRORED, tensor) } else { Ok(tensor.clone()) }
}

pub static RESOLVE_CONJ: Row = Row {
    name: "resolve_conj",
    signature: "(Tensor self) -> Tensor",
    doc: "The tensor with conjugates in its memory: a copy where they are still to be computed, else the tensor itself.

    >>> torch.tensor([1 + 2j]).conj().resolve_conj().is_conj()
    False",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        if own.dtype().is_complex() { resolved(own) } else { Ok(own.clone()) }.map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t()"],
    reference: "self",
    ..Row::BASE
};

pub static RESOLVE_NEG: Row = Row {
    name: "resolve_neg",
    signature: "(Tensor self) -> Tensor",
    doc: "The tensor with negatives in its memory: a copy where they are still to be computed, else the tensor itself.

    >>> torch.tensor([1 + 2j]).conj().imag.resolve_neg()
    tensor([-2.])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        if own.dtype().is_complex() { Ok(own.clone()) } else { resolved(own) }.map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t()"],
    reference: "self",
    ..Row::BASE
};

/// A complex tensor's elements as pairs of real numbers, in a new last dimension.
pub fn pairs(tensor: &Tensor) -> Tensor {
    let layout = tensor.layout().pairs();
    Tensor::new(tensor.storage().clone(), layout, tensor.dtype().to_real(), tensor.device())
}
