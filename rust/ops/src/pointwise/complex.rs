//! Parts of complex numbers.

use rushlight_core::dtype::{c64, c128};
use rushlight_cpu::tiles;

use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Pointwise, Promote, Row, Run, Variants};

pub static CONJ: Row = Row {
    name: "conj_physical",
    variants: Variants::ALL,
    signature: "(Tensor self) -> Tensor",
    doc: "The complex conjugate of each element, computed at once; real numbers stay as they are.

    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])",
    run: Run::Pointwise(Pointwise {
        promote: Promote::Common,
        cpu: tiles! {
            for<S> [c64, c128] (|z| z.conj());
            for<S> [u8, i8, i16, i32, i64, f32, f64] (|x| x)
        },
    }),
    dtypes: DTypes::NUMBERS,
    cuda: Some("conj(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad().conj())]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.conj(self)",
    ..Row::BASE
};

pub static REAL_PART: Row = Row {
    name: "_real_part",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A copy of the real parts.

    >>> torch._real_part(torch.tensor([1 + 2j]))
    tensor([1.])",
    dtypes: DTypes::COMPLEX,
    run: Run::Pointwise(Pointwise {
        promote: Promote::ComplexToReal,
        cpu: tiles! {
            for<S> [c64 => f32] (|z| z.re);
            for<S> [c128 => f64] (|z| z.re)
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad())]),
    samples: &["t(2, 3)"],
    reference: "np.real(self)",
    ..Row::BASE
};

impl Expr {
    /// The conjugate; of a real tensor the tensor itself.
    pub fn conj(self) -> Expr {
        match &self {
            Expr::Tensor(tensor) if tensor.dtype().is_complex() => self.call(&CONJ, []),
            Expr::Number(rushlight_core::Scalar::Complex(number)) => {
                Expr::Number(rushlight_core::Scalar::Complex(number.conj()))
            }
            _ => self,
        }
    }

    /// The real part; of a real tensor the tensor itself.
    pub fn real(self) -> Expr {
        match &self {
            Expr::Tensor(tensor) if tensor.dtype().is_complex() => self.call(&REAL_PART, []),
            _ => self,
        }
    }
}
