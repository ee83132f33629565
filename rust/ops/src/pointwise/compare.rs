//! Comparisons, the larger and the smaller of two, and tests of single numbers.

use rushlight_autograd::modes::GradMode;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, DType, Error, Result};
use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, BackwardContext, DTypes, Derivative, Implementation, Operator, Out, Saves, Sparse, Tags, Variants,
    formula, operator,
};
use rushlight_dispatch::value::{Arg, Output};

use super::{BINARY, UNARY, common, keeping_strides, no_complex, question};
use crate::create::c_text;
use crate::expr_ext::ExprExt;

const WHY: Derivative = Derivative::NonDifferentiable("its results are bool");

/// Shared by comparisons.
#[operator]
const COMPARISON: Operator = Operator {
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor|Scalar other) -> Tensor",
    dtypes: DTypes::COMPUTED.without(DTypes::COMPLEX),
    tags: Tags::ZERO_GRADIENT_IN_PLACE,
    derivative: WHY,
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 1", "t(0, 3), t(1, 3)"],
    ..Operator::BASE
};

macro_rules! order {
    ($op:tt) => {
        question(loops! {
            for<S> [u8, i8, i16, i32, i64, u16, u32, u64, f32, f64 => Bool] (|x, y| Bool::from(x $op y));
            for<S> [Bool => Bool] (|x, y| Bool::from((x.get() as u8) $op (y.get() as u8)))
        })
    };
}

macro_rules! equality {
    ($op:tt) => {
        question(loops! {
            signless;
            for<S> [i8, i16, i32, i64, f32, f64, c64, c128 => Bool] (|x, y| Bool::from(x $op y));
            for<S> [Bool => Bool] (|x, y| Bool::from(x.get() $op y.get()))
        })
    };
}

#[operator]
pub static EQ: Operator = Operator {
    name: "eq",
    node: "EqBackward1 number=EqBackward0",
    doc: "Whether elements are equal; NaN equals nothing.

    >>> torch.eq(torch.tensor([1, 2]), 2)
    tensor([False,  True])",
    in_place_example: ">>> torch.tensor([1, 2]).eq_(2)
    tensor([0, 1])",
    dtypes: DTypes::ALL,
    implementation: equality!(==),
    reference: "np.equal(self, other)",
    ..COMPARISON
};

#[operator]
pub static NE: Operator = Operator {
    name: "ne",
    node: "NeBackward1 number=NeBackward0",
    aliases: &["not_equal"],
    doc: "Whether elements differ.

    >>> torch.ne(torch.tensor([1, 2]), 2)
    tensor([ True, False])",
    in_place_example: ">>> torch.tensor([1, 2]).ne_(2)
    tensor([1, 0])",
    dtypes: DTypes::ALL,
    implementation: equality!(!=),
    reference: "np.not_equal(self, other)",
    ..COMPARISON
};

#[operator]
pub static LT: Operator = Operator {
    name: "lt",
    node: "LtBackward1 number=LtBackward0",
    aliases: &["less"],
    doc: "Whether `self` is less than `other`.

    >>> torch.lt(torch.tensor([1, 2]), 2)
    tensor([ True, False])",
    in_place_example: ">>> torch.tensor([1, 2]).lt_(2)
    tensor([1, 0])",
    implementation: order!(<),
    reference: "np.less(self, other)",
    ..COMPARISON
};

#[operator]
pub static LE: Operator = Operator {
    name: "le",
    node: "LeBackward1 number=LeBackward0",
    aliases: &["less_equal"],
    doc: "Whether `self` is at most `other`.

    >>> torch.le(torch.tensor([1, 3]), 2)
    tensor([ True, False])",
    in_place_example: ">>> torch.tensor([1, 3]).le_(2)
    tensor([1, 0])",
    implementation: order!(<=),
    reference: "np.less_equal(self, other)",
    ..COMPARISON
};

#[operator]
pub static GT: Operator = Operator {
    name: "gt",
    node: "GtBackward1 number=GtBackward0",
    aliases: &["greater"],
    doc: "Whether `self` is greater than `other`.

    >>> torch.gt(torch.tensor([1, 3]), 2)
    tensor([False,  True])",
    in_place_example: ">>> torch.tensor([1, 3]).gt_(2)
    tensor([0, 1])",
    implementation: order!(>),
    reference: "np.greater(self, other)",
    ..COMPARISON
};

#[operator]
pub static GE: Operator = Operator {
    name: "ge",
    node: "GeBackward1 number=GeBackward0",
    aliases: &["greater_equal"],
    doc: "Whether `self` is at least `other`.

    >>> torch.ge(torch.tensor([1, 2]), 2)
    tensor([False,  True])",
    in_place_example: ">>> torch.tensor([1, 2]).ge_(2)
    tensor([0, 1])",
    implementation: order!(>=),
    reference: "np.greater_equal(self, other)",
    ..COMPARISON
};

/// The dtypes whose numbers are all finite.
const INTEGRAL: DTypes = DTypes::ALL.without(DTypes::INEXACT).without(DTypes::COMPLEX32).without(DTypes::FLOAT8);

/// Shared by tests of one number.
#[operator]
const NATURE: Operator = Operator { variants: Variants::BOTH, dtypes: DTypes::COMPUTED, derivative: WHY, ..UNARY };

/// A loop over floats and complex numbers; for other dtypes the result is constant.
macro_rules! nature {
    ($else:literal, |$x:ident| $real:expr, |$z:ident| $complex:expr) => {
        question(loops! {
            signless;
            for<S> [f32, f64 => Bool] (|$x| Bool::from($real));
            for<S> [c64, c128 => Bool] (|$z| Bool::from($complex));
            for<S> [i8, i16, i32, i64, Bool => Bool] (|_x| Bool($else))
        })
    };
}

#[operator]
pub static ISNAN: Operator = Operator {
    name: "isnan",
    doc: "Whether each element is not a number.

    >>> torch.isnan(torch.tensor([1., float('nan')]))
    tensor([False,  True])",
    dtypes: DTypes::ALL,
    sparse: Sparse::ZeroPreserving,
    implementation: nature!(0, |x| x.is_nan(), |z| z.re.is_nan() | z.im.is_nan()),
    reference: "np.isnan(self)",
    ..NATURE
};

#[operator]
pub static ISINF: Operator = Operator {
    name: "isinf",
    doc: "Whether each element is infinite.

    >>> torch.isinf(torch.tensor([1., float('inf')]))
    tensor([False,  True])",
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32).union(DTypes::of(&[DType::F8E5M2])),
    sparse: Sparse::ZeroPreserving,
    implementation: keeping_strides(
        INTEGRAL,
        nature!(0, |x| x.is_infinite(), |z| z.re.is_infinite() | z.im.is_infinite()),
    ),
    reference: "np.isinf(self)",
    kernel_name: "isinf",
    ..NATURE
};

#[operator]
pub static ISFINITE: Operator = Operator {
    name: "isfinite",
    doc: "Whether each element is neither infinite nor nan.

    >>> torch.isfinite(torch.tensor([1., float('inf')]))
    tensor([ True, False])",
    dtypes: DTypes::COMPUTED.union(DTypes::COMPLEX32).union(DTypes::of(&[DType::F8E5M2, DType::F8E8M0Fnu])),
    implementation: keeping_strides(INTEGRAL, nature!(1, |x| x.is_finite(), |z| z.re.is_finite() & z.im.is_finite())),
    reference: "np.isfinite(self)",
    kernel_name: "isfinite",
    ..NATURE
};

#[operator]
pub static ISREAL: Operator = Operator {
    name: "isreal",
    doc: "Whether each element has no imaginary part.

    >>> torch.isreal(torch.tensor([1 + 0j, 1j]))
    tensor([ True, False])",
    dtypes: DTypes::ALL,
    implementation: keeping_strides(DTypes::ALL.without(DTypes::COMPLEX), nature!(1, |_x| true, |z| z.im == 0.0)),
    reference: "np.isreal(self)",
    ..NATURE
};

#[operator]
pub static ISPOSINF: Operator = Operator {
    name: "isposinf",
    variants: Variants::BOTH.union(Variants::OUT),
    doc: "Whether each element is positive infinity.

    >>> torch.isposinf(torch.tensor([float('-inf'), float('inf')]))
    tensor([False,  True])",
    out: Out::new(Accepts::Same, &["{name} does not support non-boolean outputs."]),
    dtypes: DTypes::COMPUTED.without(DTypes::COMPLEX),
    sparse: Sparse::ZeroPreserving,
    implementation: nature!(0, |x| x == T::INFINITY, |_z| false),
    check: Some(|args| no_complex(args, || Error::runtime("isposinf does not support complex inputs."))),
    reference: "np.isposinf(self)",
    ..NATURE
};

#[operator]
pub static ISNEGINF: Operator = Operator {
    name: "isneginf",
    variants: Variants::BOTH.union(Variants::OUT),
    doc: "Whether each element is negative infinity.

    >>> torch.isneginf(torch.tensor([float('-inf'), float('inf')]))
    tensor([ True, False])",
    out: Out::new(Accepts::Same, &["{name} does not support non-boolean outputs."]),
    dtypes: DTypes::COMPUTED.without(DTypes::COMPLEX),
    sparse: Sparse::ZeroPreserving,
    implementation: nature!(0, |x| x == T::NEG_INFINITY, |_z| false),
    check: Some(|args| no_complex(args, || Error::runtime("isneginf does not support complex inputs."))),
    reference: "np.isneginf(self)",
    ..NATURE
};

#[operator]
pub static ISCLOSE: Operator = Operator {
    name: "isclose",
    signature: "(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    doc: "Whether elements are equal up to a tolerance.

    out = abs(self - other) <= atol + rtol * abs(other)

    >>> torch.isclose(torch.tensor([1., 2.]), torch.tensor([1., 2.1]))
    tensor([ True, False])",
    tags: Tags::BROADCASTS,
    implementation: Implementation::CompositeImplicit(isclose),
    derivative: Derivative::CompositeImplicit,
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1), 0.1, 0.5", "t(4), t(4), equal_nan=True"],
    reference: "np.isclose(self, other, rtol, atol, equal_nan)",
    ..Operator::BASE
};

fn isclose(args: &Args) -> Result<Output> {
    use ISCLOSE::*;

    let (input, other) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
    let (rtol, atol) = (args.float(RTOL)?, args.float(ATOL)?);
    if input.dtype() != other.dtype() {
        return Err(Error::runtime(format!(
            "{} did not match {}",
            input.dtype().display_name(),
            other.dtype().display_name()
        )));
    }
    if rtol < 0.0 || rtol.is_nan() {
        return Err(Error::runtime(format!("rtol must be greater than or equal to zero, but got {}", c_text(rtol))));
    }
    if atol < 0.0 || atol.is_nan() {
        return Err(Error::runtime(format!("atol must be greater than or equal to zero, but got {}", c_text(atol))));
    }
    let _off = GradMode::new(false);
    let (x, y) = (Expr::from(input), Expr::from(other));
    let mut close = x.clone().equals(y.clone());
    if input.dtype().is_differentiable() && args.bool(EQUAL_NAN)? {
        let nan = |expr: Expr| expr.call(&ISNAN, []);
        close = close.or(nan(x.clone()).and(nan(y.clone())));
    }
    if rtol == 0.0 && atol == 0.0 {
        return close.done().map(Output::Tensor);
    }
    let to_float = |expr: Expr| if input.dtype().is_differentiable() { expr } else { expr * 1.0 };
    let (x, y) = (to_float(x), to_float(y));
    let allowed = (y.clone() * rtol).abs() + atol;
    let error = (x - y).abs();
    let near = error.clone().isfinite().and(error.at_most(allowed));
    close.or(near).done().map(Output::Tensor)
}

/// Half of the gradient if both are equal.
fn winner(d: &BackwardContext, wins: fn(Expr, Expr) -> Expr, own: Arg, other: Arg) -> Expr {
    let (x, y) = (d.input(own), d.input(other));
    let tie = x.clone().equals(y.clone()).choose(d.grad() / 2.0, d.grad());
    wins(y, x).choose(0.0, tie)
}

const BOTH: Saves = Saves::input(BINARY::INPUT).union(Saves::input(BINARY::OTHER));

#[operator]
pub static MAXIMUM: Operator = Operator {
    name: "maximum",
    variants: Variants::BOTH.union(Variants::OUT),
    doc: "The larger of two elements; NaN if either is NaN.

    >>> torch.maximum(torch.tensor([1, 5]), torch.tensor([3, 2]))
    tensor([3, 5])",
    dtypes: DTypes::COMMON.without(DTypes::COMPLEX),
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| if x > y { x } else { y });
        for<S> [f32, f64] (|x, y| if x > y || x.is_nan() { x } else { y });
        for<S> [Bool] (|x, y| Bool::from(x.get() | y.get()))
    }),
    check: Some(|args| no_complex(args, || Error::runtime("maximum not implemented for complex tensors."))),
    derivative: Derivative::Formulas(&[
        formula(INPUT, BOTH, |d| winner(d, Expr::above, INPUT, OTHER)),
        formula(OTHER, BOTH, |d| winner(d, Expr::above, OTHER, INPUT)),
    ]),
    reference: "np.maximum(self, other)",
    ..BINARY
};

#[operator]
pub static MINIMUM: Operator = Operator {
    name: "minimum",
    variants: Variants::BOTH.union(Variants::OUT),
    doc: "The smaller of two elements; NaN if either is NaN.

    >>> torch.minimum(torch.tensor([1, 5]), torch.tensor([3, 2]))
    tensor([1, 2])",
    dtypes: DTypes::COMMON.without(DTypes::COMPLEX),
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| if x < y { x } else { y });
        for<S> [f32, f64] (|x, y| if x < y || x.is_nan() { x } else { y });
        for<S> [Bool] (|x, y| Bool::from(x.get() & y.get()))
    }),
    check: Some(|args| no_complex(args, || Error::runtime("minimum not implemented for complex tensors."))),
    derivative: Derivative::Formulas(&[
        formula(INPUT, BOTH, |d| winner(d, Expr::below, INPUT, OTHER)),
        formula(OTHER, BOTH, |d| winner(d, Expr::below, OTHER, INPUT)),
    ]),
    reference: "np.minimum(self, other)",
    ..BINARY
};

/// The positions where the first operand was selected; `wins` compares it with the second.
fn taken(d: &BackwardContext, wins: fn(Expr, Expr) -> Expr) -> Expr {
    use FMAX::*;

    wins(d.input(INPUT), d.input(OTHER)).or(d.input(OTHER).call(&ISNAN, []))
}

#[operator]
pub static FMAX: Operator = Operator {
    name: "fmax",
    variants: Variants::BOTH.union(Variants::OUT),
    doc: "The larger of two elements; a number is preferred to NaN.

    >>> torch.fmax(torch.tensor([1., float('nan')]), torch.tensor([3., 2.]))
    tensor([3., 2.])",
    dtypes: DTypes::COMMON.without(DTypes::COMPLEX),
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| if x > y { x } else { y });
        for<S> [f32, f64] (|x, y| if x >= y || y.is_nan() { x } else { y });
        for<S> [Bool] (|x, y| Bool::from(x.get() | y.get()))
    }),
    kernel_name: "maximum_cpu",
    check: Some(|args| no_complex(args, || Error::runtime("fmax not implemented for complex tensors."))),
    derivative: Derivative::Formulas(&[
        formula(INPUT, BOTH, |d| taken(d, Expr::at_least).choose(d.grad(), 0.0)),
        formula(OTHER, BOTH, |d| taken(d, Expr::at_least).choose(0.0, d.grad())),
    ]),
    reference: "np.fmax(self, other)",
    ..BINARY
};

#[operator]
pub static FMIN: Operator = Operator {
    name: "fmin",
    variants: Variants::BOTH.union(Variants::OUT),
    doc: "The smaller of two elements; a number is preferred to NaN.

    >>> torch.fmin(torch.tensor([1., float('nan')]), torch.tensor([3., 2.]))
    tensor([1., 2.])",
    dtypes: DTypes::COMMON.without(DTypes::COMPLEX),
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| if x < y { x } else { y });
        for<S> [f32, f64] (|x, y| if x <= y || y.is_nan() { x } else { y });
        for<S> [Bool] (|x, y| Bool::from(x.get() & y.get()))
    }),
    kernel_name: "minimum_cpu",
    check: Some(|args| no_complex(args, || Error::runtime("fmin not implemented for complex tensors."))),
    derivative: Derivative::Formulas(&[
        formula(INPUT, BOTH, |d| taken(d, Expr::at_most).choose(d.grad(), 0.0)),
        formula(OTHER, BOTH, |d| taken(d, Expr::at_most).choose(0.0, d.grad())),
    ]),
    reference: "np.fmin(self, other)",
    ..BINARY
};
