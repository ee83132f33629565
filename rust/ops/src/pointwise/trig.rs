//! Sines, cosines, tangents and their inverses.

use rushlight_core::Scalar;
use rushlight_core::dtype::{c64, c128};
use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Autocast, BackwardContext, DTypes, Derivative, Operator, Saves, Sparse, formula, operator,
};
use rushlight_simd::Math;
use rushlight_simd::math::slices;

use super::numbers::{Analytic, Narrow};
use super::{BINARY, UNARY, analytic, float};
use crate::expr_ext::ExprExt;

/// Loops over whole runs, because a huge argument needs a branch.
macro_rules! runs {
    ($($name:ident = $slice:ident;)*) => {$(
        /// # Safety
        /// `out` and the inputs hold `n` elements.
        unsafe fn $name<T: Math>(out: *mut u8, inputs: *const *const u8, n: usize, _: &[Scalar]) {
            // SAFETY: the loop gives `n` elements on both sides, which are the same memory or do not overlap.
            unsafe { slices::$slice(out.cast::<T>(), (*inputs).cast::<T>(), n) }
        }
    )*};
}

runs! { sines = sin; cosines = cos; tangents = tan; }

#[operator]
pub static SIN: Operator = Operator {
    name: "sin",
    doc: "The sine of each element, in radians.

    >>> torch.sin(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8415])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::sin(x)) by sines::<T>;
        for<S> [c64, c128] (|x| analytic::sin(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * d.input(INPUT).cos().conj()
    })]),
    reference: "np.sin(self)",
    kernel_name: "sin_vml_cpu",
    ..UNARY
};

#[operator]
pub static COS: Operator = Operator {
    name: "cos",
    doc: "The cosine of each element, in radians.

    >>> torch.cos(torch.tensor([0., 1.]))
    tensor([1.0000, 0.5403])",
    dtypes: DTypes::COMPUTED,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::cos(x)) by cosines::<T>;
        for<S> [c64, c128] (|x| analytic::cos(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * -d.input(INPUT).sin().conj()
    })]),
    reference: "np.cos(self)",
    kernel_name: "cos_vml_cpu",
    ..UNARY
};

#[operator]
pub static TAN: Operator = Operator {
    name: "tan",
    doc: "The tangent of each element, in radians.

    >>> torch.tan(torch.tensor([0., 1.]))
    tensor([0.0000, 1.5574])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::tan(x)) by tangents::<T>;
        for<S> [c64, c128] (|x| analytic::tan(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| {
        d.grad() * (d.result().square() + 1.0).conj()
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    reference: "np.tan(self)",
    kernel_name: "tan_vml_cpu",
    ..UNARY
};

const UNIT: &[&str] = &["unit(2, 3)", "unit(0)", "unit()"];

#[operator]
pub static ASIN: Operator = Operator {
    name: "asin",
    aliases: &["arcsin"],
    doc: "The inverse sine of each element; nan outside of -1 to 1.

    >>> torch.asin(torch.tensor([0., 1.]))
    tensor([0.0000, 1.5708])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::asin(x));
        for<S> [c64, c128] (|x| analytic::asin(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * (-d.input(INPUT) * d.input(INPUT) + 1.0).rsqrt().conj()
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: UNIT,
    reference: "np.arcsin(self)",
    kernel_name: "asin_vml_cpu",
    ..UNARY
};

#[operator]
pub static ACOS: Operator = Operator {
    name: "acos",
    aliases: &["arccos"],
    doc: "The inverse cosine of each element; nan outside of -1 to 1.

    >>> torch.acos(torch.tensor([0., 1.]))
    tensor([1.5708, 0.0000])",
    dtypes: DTypes::COMPUTED,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::acos(x));
        for<S> [c64, c128] (|x| analytic::acos(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * -(-d.input(INPUT) * d.input(INPUT) + 1.0).rsqrt().conj()
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: UNIT,
    reference: "np.arccos(self)",
    kernel_name: "acos_vml_cpu",
    ..UNARY
};

#[operator]
pub static ATAN: Operator = Operator {
    name: "atan",
    aliases: &["arctan"],
    doc: "The inverse tangent of each element.

    >>> torch.atan(torch.tensor([0., 1.]))
    tensor([0.0000, 0.7854])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::atan(x));
        for<S> [c64, c128] (|x| analytic::atan(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() / (d.input(INPUT) * d.input(INPUT) + 1.0).conj()
    })]),
    reference: "np.arctan(self)",
    kernel_name: "atan_vml_cpu",
    ..UNARY
};

/// `other / (self^2 + other^2)`, zero at the origin.
fn turn(d: &BackwardContext, part: Expr) -> Expr {
    use ATAN2::*;

    let square = d.input(INPUT) * d.input(INPUT) + d.input(OTHER) * d.input(OTHER);
    d.grad() * square.clone().equals(0.0).choose(0.0, part / square)
}

#[operator]
pub static ATAN2: Operator = Operator {
    name: "atan2",
    aliases: &["arctan2"],
    doc: "The angle of the point whose ordinate is `self` and whose abscissa is `other`.

    >>> torch.atan2(torch.tensor([1., -1.]), torch.tensor([1., -1.]))
    tensor([ 0.7854, -2.3562])",
    dtypes: DTypes::COMPUTED.without(DTypes::COMPLEX),
    implementation: float(loops! { for<S> [f32, f64] (|y, x| S::atan2(y, x)) }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(OTHER)), |d| turn(d, d.input(OTHER))),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(OTHER)), |d| turn(d, -d.input(INPUT))),
    ]),
    autocast: Autocast::Promote.on_cuda_alone(),
    reference: "np.arctan2(self, other)",
    ..BINARY
};
