//! Complex numbers as pairs of real ones, and back.

use rushlight_core::{DType, Error, Layout, Result};

use crate::derive::{Derivative, Saves, formula};
use crate::op;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::value::Output;
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
        Ok((own.layout().pairs(), own.dtype().to_real()))
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
    traits: Traits::SEES_MEMORY,
    run: Run::Retype(|args| {
        let own = args.tensor(0)?;
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
        Ok((paired(own.layout())?, dtype))
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
        op!(SELECT, op!(VIEW_AS_REAL, own)?, -1i64, 1i64).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)"],
    reference: "np.imag(self)",
    ..Row::BASE
};
