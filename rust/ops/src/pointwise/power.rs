//! Powers and roots.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{DType, Error, Scalar};
use rushlight_cpu::pointwise::Tile;
use rushlight_cpu::tiles;

use super::numbers::{Analytic, ComplexMath, Integer, Narrow};
use super::{UNARY, common, float, with_numbers};
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::row::{Accepts, DTypes, Out, Row, Run, Traits, Variants};
use crate::sparse::Sparse;
use crate::value::Value;

/// The exponents that are met most have loops of their own.
fn by_number(dtype: DType) -> Option<Tile> {
    macro_rules! special {
        ($type:ty) => {{
            /// # Safety
            /// `out` and the inputs hold `n` elements.
            unsafe fn tile(out: *mut u8, inputs: *const *const u8, n: usize, numbers: &[Scalar]) {
                let dtype = <$type as rushlight_core::Element>::DTYPE;
                let exponent = numbers.first().map_or(1.0, |number| number.f64());
                let pick = if exponent == 1.0 {
                    tiles! { for<S> [$type] (|x| x) }
                } else if exponent == 2.0 {
                    tiles! { for<S> [$type] (|x| x * x) }
                } else if exponent == 3.0 {
                    tiles! { for<S> [$type] (|x| x * x * x) }
                } else if exponent == 0.5 {
                    tiles! { for<S> [$type] (|x| x.sqrt()) }
                } else if exponent == -0.5 {
                    tiles! { for<S> [$type] (|x| S::rsqrt(x)) }
                } else if exponent == -1.0 {
                    tiles! { for<S> [$type] (|x| 1.0 / x) }
                } else if exponent == -2.0 {
                    tiles! { for<S> [$type] (|x| 1.0 / (x * x)) }
                } else {
                    tiles! { for<S> [$type] (|x; exponent| S::pow(x, exponent)) }
                };
                if let Some(tile) = pick(dtype) {
                    // SAFETY: by the caller's word, which is the same for every tile.
                    unsafe { tile(out, inputs, n, numbers) }
                }
            }
            Some(tile as Tile)
        }};
    }
    /// # Safety
    /// `out` and the inputs hold `n` elements.
    unsafe fn complex<const DOUBLE: bool>(out: *mut u8, inputs: *const *const u8, n: usize, numbers: &[Scalar]) {
        let exponent = numbers.first().copied().unwrap_or(Scalar::ONE).complex();
        let pick = if exponent == c128::new(0.5, 0.0) {
            tiles! { for<S> [c64, c128] (|x| x.wide().root().narrow()) }
        } else if exponent == c128::new(-0.5, 0.0) {
            tiles! { for<S> [c64, c128] (|x| c128::new(1.0, 0.0).quotient(x.wide().root()).narrow()) }
        } else if exponent == c128::new(-1.0, 0.0) {
            tiles! { for<S> [c64, c128] (|x| c128::new(1.0, 0.0).quotient(x.wide()).narrow()) }
        } else {
            tiles! { for<S> [c64, c128] (|x; exponent| x.wide().power(exponent.wide()).narrow()) }
        };
        if let Some(tile) = pick(if DOUBLE { DType::C128 } else { DType::C64 }) {
            // SAFETY: by the caller's word, which is the same for every tile.
            unsafe { tile(out, inputs, n, numbers) }
        }
    }
    match dtype {
        DType::F32 => special!(f32),
        DType::F64 => special!(f64),
        DType::C64 => Some(complex::<false>),
        DType::C128 => Some(complex::<true>),
        _ => tiles! {
            for<S> [u8, i8, i16, i32, i64] (|x; exponent| x.power(exponent));
            for<S> [rushlight_core::Bool] (|x; exponent| rushlight_core::Bool::from(x.get() | !exponent.get()))
        }(dtype),
    }
}

pub static POW: Row = Row {
    name: "pow",
    variants: Variants::ALL,
    signature: "(Tensor self, Scalar exponent) -> Tensor",
    node: "PowBackward0",
    doc: "Each element to the power of `exponent`, a number or a tensor that broadcasts.

    out = self ** exponent

    >>> torch.pow(torch.tensor([1., 2., 3.]), 2)
    tensor([1., 4., 9.])",
    run: with_numbers(by_number),
    traits: Traits::WIDE_NUMBERS,
    sparse: Sparse::Body(crate::sparse::elementwise::pow),
    check: Some(|args| {
        let base = args.tensor(0)?.dtype();
        match args.scalar(1)? {
            Scalar::Int(exponent) if exponent < 0 && !base.is_differentiable() => {
                Err(Error::runtime("Integers to negative integer powers are not allowed.")
                    .hint("Convert one to floating point first: x.float() ** n."))
            }
            exponent @ Scalar::Int(_) if base.is_integral() && base != DType::Bool => {
                crate::create::check_fits(exponent, base)
            }
            _ => Ok(()),
        }
    }),
    refuses: "pow",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let exponent = d.scalar(1);
        if exponent.is_zero() { d.grad().zeros_like() } else { d.grad() * slope(d, exponent).conj() }
    })]),
    samples: &["pos(2, 3), 2", "pos(2, 3), 0", "pos(3), 3", "pos(), 2", "pos(3), 2.5", "pos(3), 0.5"],
    errors: &[("i(5, 3), -1", "RuntimeError", "Integers to negative integer powers are not allowed.")],
    reference: "np.power(self, exponent)",
    ..Row::BASE
};

/// `exponent * self ** (exponent - 1)`
fn slope(d: &Derive, exponent: Scalar) -> Expr {
    let less = match exponent {
        Scalar::Int(number) => Scalar::Int(number.wrapping_sub(1)),
        Scalar::Complex(number) => Scalar::Complex(number - 1.0),
        other => Scalar::Float(other.f64() - 1.0),
    };
    // Where the gradient is recorded it is a power too, so that it has as many derivatives as in torch.
    let itself = less.is_one() && !rushlight_autograd::modes::recording();
    let power = if itself { d.input(0) } else { d.input(0).call(&POW, [Value::Scalar(less)]) };
    power * Expr::from(exponent)
}

pub static POW_TENSOR: Row = Row {
    name: "pow.Tensor_Tensor",
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor exponent) -> Tensor",
    node: "PowBackward1 first=PowBackward2",
    doc: "Each element to the power of the element of `exponent`.

    >>> torch.pow(2, torch.tensor([1, 2, 3]))
    tensor([2, 4, 8])",
    dtypes: DTypes::NUMBERS,
    run: common(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| x.power(y));
        for<S> [f32, f64] (|x, y| S::pow(x, y));
        for<S> [c64, c128] (|x, y| x.wide().power(y.wide()).narrow())
    }),
    refuses: "pow",
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(0).union(Saves::input(1)), |d| {
            let exponent = d.input(1);
            let slope = (exponent.clone() * d.input(0).with(&POW_TENSOR, exponent.clone() - 1.0)).conj();
            exponent.equals(0.0).choose(0.0, d.grad() * slope)
        }),
        formula(1, Saves::input(0).union(Saves::input(1)).union(Saves::RESULT), |d| {
            let base = d.input(0);
            let log = base.clone().log();
            let flat = match (base, d.input(1)) {
                (Expr::Number(number), exponent) if number.is_zero() => Some(at_least_zero(exponent)),
                (Expr::Number(_), _) => None,
                (base, exponent) => Some(base.equals(0.0).and(at_least_zero(exponent))),
            };
            let gradient = d.grad() * (d.result() * log).conj();
            match flat {
                Some(flat) => flat.choose(0.0, gradient),
                None => gradient,
            }
        }),
    ]),
    errors: &[super::MISMATCH],
    samples: &["pos(2, 3), pos(2, 3)", "pos(5, 1, 4), pos(3, 1)", "2, pos(3)"],
    reference: "np.power(self, exponent)",
    ..Row::BASE
};

fn at_least_zero(exponent: Expr) -> Expr {
    let complex = matches!(&exponent, Expr::Tensor(tensor) if tensor.dtype().is_complex());
    if complex {
        let whole = exponent.clone().call(&super::compare::ISREAL, []);
        return whole.and(exponent.real().at_least(0.0));
    }
    exponent.at_least(0.0)
}

pub static FLOAT_POWER: Row = Row {
    name: "float_power",
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor",
    doc: "The power in double precision, whatever the operands' dtypes.

    >>> torch.float_power(torch.tensor([1, 2]), 2)
    tensor([1., 4.], dtype=torch.float64)",
    out: Out::new(
        Accepts::Same,
        &["the output given to float_power has dtype {Out} but the operation's result requires dtype {Result}"],
    ),
    traits: Traits::REFUSES_IN_PLACE.union(Traits::BROADCASTS),
    run: Run::Defer(|mut args| {
        let complex = [0, 1].iter().any(|&place| {
            args.optional_tensor(place).is_some_and(|tensor| tensor.dtype().is_complex())
                || args.optional_scalar(place).is_some_and(Scalar::is_complex)
        });
        let dtype = if complex { DType::C128 } else { DType::F64 };
        for place in [0, 1] {
            let raised = match (args.optional_tensor(place), args.optional_scalar(place)) {
                (Some(tensor), _) if tensor.dtype() != dtype => Value::Own(crate::convert::to_dtype(tensor, dtype)?),
                (None, Some(number)) if !number.is_complex() => Value::Scalar(Scalar::Float(number.f64())),
                _ => continue,
            };
            args.values[place] = raised;
        }
        args.row = match (args.has_tensor(0), args.has_tensor(1)) {
            (_, true) => &POW_TENSOR,
            (true, false) => &POW,
            (false, false) => return Err(args.needs_tensor()),
        };
        Ok(args)
    }),
    derivative: Derivative::Composed,
    errors: &[super::MISMATCH],
    samples: &["pos(2, 3), 2", "pos(2, 3), pos(3)", "2, pos(3)"],
    reference: "np.float_power(self, exponent)",
    ..Row::BASE
};

pub static SQUARE: Row = Row {
    name: "square",
    doc: "Each element times itself.

    >>> torch.square(torch.tensor([-2., 3.]))
    tensor([4., 9.])",
    sparse: Sparse::KeepsZero,
    run: Run::Defer(|mut args| {
        args.row = &POW;
        args.values.push(Value::Scalar(Scalar::Int(2)));
        Ok(args)
    }),
    derivative: Derivative::Composed,
    reference: "np.square(self)",
    ..UNARY
};

pub static SQRT: Row = Row {
    name: "sqrt",
    doc: "The square root of each element.

    >>> torch.sqrt(torch.tensor([4., 2.]))
    tensor([2.0000, 1.4142])",
    dtypes: DTypes::ALL,
    sparse: Sparse::KeepsZero,
    run: float(tiles! {
        for<S> [f32, f64] (|x| x.sqrt());
        for<S> [c64, c128] (|x| x.wide().root().narrow())
    }),
    cuda: Some("sqrt(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::RESULT, |d| d.grad() / (d.result().conj() * 2.0))]),
    samples: &["pos(2, 3)", "pos()"],
    reference: "np.sqrt(self)",
    ..UNARY
};

pub static RSQRT: Row = Row {
    name: "rsqrt",
    doc: "One divided by the square root of each element.

    >>> torch.rsqrt(torch.tensor([4., 1.]))
    tensor([0.5000, 1.0000])",
    dtypes: DTypes::ALL,
    run: float(tiles! {
        for<S> [f32, f64] (|x| S::rsqrt(x));
        for<S> [c64, c128] (|x| c128::new(1.0, 0.0).quotient(x.wide().root()).narrow())
    }),
    cuda: Some("rsqrt(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::RESULT, |d| {
        d.grad() * -0.5 * d.result().call(&POW, [Value::Scalar(Scalar::Int(3))]).conj()
    })]),
    samples: &["pos(2, 3)", "pos()"],
    reference: "np.true_divide(1, np.sqrt(self))",
    ..UNARY
};
