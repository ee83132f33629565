//! Sines, cosines, tangents and their inverses.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{DType, Scalar};
use rushlight_cpu::pointwise::Tile;
use rushlight_cpu::tiles;
use rushlight_simd::math::slices;

use super::numbers::{Analytic, Narrow};
use super::{BINARY, UNARY, analytic, float};
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Row};

/// Loops over whole runs, since a huge argument needs a branch.
macro_rules! run_tiles {
    ($pick:ident, $name:ident, $complex:path) => {
        fn $pick(dtype: DType) -> Option<Tile> {
            /// # Safety
            /// `out` and the inputs hold `n` elements.
            unsafe fn tile<T: rushlight_simd::Math>(out: *mut u8, inputs: *const *const u8, n: usize, _: &[Scalar]) {
                // SAFETY: the walk gives `n` elements on both sides, which are equal or apart.
                unsafe { slices::$name(out.cast::<T>(), (*inputs).cast::<T>(), n) }
            }
            match dtype {
                DType::F32 => Some(tile::<f32>),
                DType::F64 => Some(tile::<f64>),
                _ => tiles! { for<S> [c64, c128] (|x| $complex(x.wide()).narrow()) }(dtype),
            }
        }
    };
}

run_tiles!(sines, sin, analytic::sin);
run_tiles!(cosines, cos, analytic::cos);
run_tiles!(tangents, tan, analytic::tan);

pub static SIN: Row = Row {
    name: "sin",
    doc: "The sine of each element, in radians.

    >>> torch.sin(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8415])",
    dtypes: DTypes::ALL,
    run: float(sines),
    cuda: Some("sin(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| d.grad() * d.input(0).cos().conj())]),
    reference: "np.sin(self)",
    ..UNARY
};

pub static COS: Row = Row {
    name: "cos",
    doc: "The cosine of each element, in radians.

    >>> torch.cos(torch.tensor([0., 1.]))
    tensor([1.0000, 0.5403])",
    dtypes: DTypes::ALL,
    run: float(cosines),
    cuda: Some("cos(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| d.grad() * -d.input(0).sin().conj())]),
    reference: "np.cos(self)",
    ..UNARY
};

pub static TAN: Row = Row {
    name: "tan",
    doc: "The tangent of each element, in radians.

    >>> torch.tan(torch.tensor([0., 1.]))
    tensor([0.0000, 1.5574])",
    dtypes: DTypes::ALL,
    run: float(tangents),
    cuda: Some("tan(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::RESULT, |d| d.grad() * (d.result().square() + 1.0).conj())]),
    reference: "np.tan(self)",
    ..UNARY
};

const UNIT: &[&str] = &["unit(2, 3)", "unit(0)", "unit()"];

pub static ASIN: Row = Row {
    name: "asin",
    aliases: &["arcsin"],
    doc: "The inverse sine of each element; nan outside of -1 to 1.

    >>> torch.asin(torch.tensor([0., 1.]))
    tensor([0.0000, 1.5708])",
    dtypes: DTypes::ALL,
    run: float(tiles! {
        for<S> [f32, f64] (|x| S::asin(x));
        for<S> [c64, c128] (|x| analytic::asin(x.wide()).narrow())
    }),
    cuda: Some("asin(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.grad() * (-d.input(0) * d.input(0) + 1.0).rsqrt().conj()
    })]),
    samples: UNIT,
    reference: "np.arcsin(self)",
    ..UNARY
};

pub static ACOS: Row = Row {
    name: "acos",
    aliases: &["arccos"],
    doc: "The inverse cosine of each element; nan outside of -1 to 1.

    >>> torch.acos(torch.tensor([0., 1.]))
    tensor([1.5708, 0.0000])",
    dtypes: DTypes::ALL,
    run: float(tiles! {
        for<S> [f32, f64] (|x| S::acos(x));
        for<S> [c64, c128] (|x| analytic::acos(x.wide()).narrow())
    }),
    cuda: Some("acos(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.grad() * -(-d.input(0) * d.input(0) + 1.0).rsqrt().conj()
    })]),
    samples: UNIT,
    reference: "np.arccos(self)",
    ..UNARY
};

pub static ATAN: Row = Row {
    name: "atan",
    aliases: &["arctan"],
    doc: "The inverse tangent of each element.

    >>> torch.atan(torch.tensor([0., 1.]))
    tensor([0.0000, 0.7854])",
    dtypes: DTypes::ALL,
    run: float(tiles! {
        for<S> [f32, f64] (|x| S::atan(x));
        for<S> [c64, c128] (|x| analytic::atan(x.wide()).narrow())
    }),
    cuda: Some("atan(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.grad() / (d.input(0) * d.input(0) + 1.0).conj()
    })]),
    reference: "np.arctan(self)",
    ..UNARY
};

/// `other / (self^2 + other^2)`, zero at the origin.
fn turn(d: &Derive, part: Expr) -> Expr {
    let square = d.input(0) * d.input(0) + d.input(1) * d.input(1);
    d.grad() * square.clone().equals(0.0).choose(0.0, part / square)
}

pub static ATAN2: Row = Row {
    name: "atan2",
    aliases: &["arctan2"],
    doc: "The angle of the point whose ordinate is `self` and whose abscissa is `other`.

    >>> torch.atan2(torch.tensor([1., -1.]), torch.tensor([1., -1.]))
    tensor([ 0.7854, -2.3562])",
    dtypes: DTypes::ALL.without(DTypes::COMPLEX),
    run: float(tiles! { for<S> [f32, f64] (|y, x| S::atan2(y, x)) }),
    cuda: Some("atan2(self, other)"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(0).union(Saves::input(1)), |d| turn(d, d.input(1))),
        formula(1, Saves::input(0).union(Saves::input(1)), |d| turn(d, -d.input(0))),
    ]),
    reference: "np.arctan2(self, other)",
    ..BINARY
};
