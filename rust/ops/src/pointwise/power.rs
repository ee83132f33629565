//! Powers and roots.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, DType, Element, Error, Scalar};
use rushlight_cpu::loops;
use rushlight_cpu::loops::Loops;
use rushlight_dispatch::create;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Autocast, BackwardContext, DTypes, Derivative, Implementation, Operator, Out, Saves, Sparse, Tags,
    Variants, formula, operator,
};
use rushlight_dispatch::value::Value;

use super::numbers::{Analytic, ComplexMath, Integer, Narrow};
use super::{UNARY, common, float, with_numbers};
use crate::expr_ext::ExprExt;

/// The most frequent exponents have loops of their own.
///
/// # Safety
/// `out` and the inputs hold `n` elements.
unsafe fn by_number<T: Element>(out: *mut u8, inputs: *const *const u8, n: usize, numbers: &[Scalar]) {
    let exponent = numbers.first().map_or(1.0, |number| number.f64());
    let loops = if exponent == 1.0 {
        loops! { for<S> [f32, f64] (|x| x) }
    } else if exponent == 2.0 {
        loops! { for<S> [f32, f64] (|x| x * x) }
    } else if exponent == 3.0 {
        loops! { for<S> [f32, f64] (|x| x * x * x) }
    } else if exponent == 0.5 {
        loops! { for<S> [f32, f64] (|x| x.sqrt()) }
    } else if exponent == -0.5 {
        loops! { for<S> [f32, f64] (|x| S::rsqrt(x)) }
    } else if exponent == -1.0 {
        loops! { for<S> [f32, f64] (|x| 1.0 / x) }
    } else if exponent == -2.0 {
        loops! { for<S> [f32, f64] (|x| 1.0 / (x * x)) }
    } else {
        loops! { for<S> [f32, f64] (|x; exponent| S::pow(x, exponent)) }
    };
    if let Some(tile) = (loops.cpu)(T::DTYPE) {
        // SAFETY: by the caller's word, which is the same for every tile.
        unsafe { tile(out, inputs, n, numbers) }
    }
}

/// # Safety
/// `out` and the inputs hold `n` elements.
unsafe fn complex_by_number<T: Element>(out: *mut u8, inputs: *const *const u8, n: usize, numbers: &[Scalar]) {
    let exponent = numbers.first().copied().unwrap_or(Scalar::ONE).complex();
    let loops = if exponent == c128::new(0.5, 0.0) {
        loops! { for<S> [c64, c128] (|x| x.wide().root().narrow()) }
    } else if exponent == c128::new(-0.5, 0.0) {
        loops! { for<S> [c64, c128] (|x| c128::new(1.0, 0.0).quotient(x.wide().root()).narrow()) }
    } else if exponent == c128::new(-1.0, 0.0) {
        loops! { for<S> [c64, c128] (|x| c128::new(1.0, 0.0).quotient(x.wide()).narrow()) }
    } else {
        loops! { for<S> [c64, c128] (|x; exponent| x.wide().power(exponent.wide()).narrow()) }
    };
    if let Some(tile) = (loops.cpu)(T::DTYPE) {
        // SAFETY: by the caller's word, which is the same for every tile.
        unsafe { tile(out, inputs, n, numbers) }
    }
}

/// What those loops compute.
const BY_NUMBER: Loops = loops! {
    for<S> [f32, f64] (|x; exponent| if exponent == 1.0 {
        x
    } else if exponent == 2.0 {
        x * x
    } else if exponent == 3.0 {
        x * x * x
    } else if exponent == 0.5 {
        x.sqrt()
    } else if exponent == -0.5 {
        S::rsqrt(x)
    } else if exponent == -1.0 {
        1.0 / x
    } else if exponent == -2.0 {
        1.0 / (x * x)
    } else {
        S::pow(x, exponent)
    }) by by_number::<T>;
    for<S> [c64, c128] (|x; exponent| if exponent == T::new(0.5, 0.0) {
        x.wide().root().narrow()
    } else if exponent == T::new(-0.5, 0.0) {
        c128::new(1.0, 0.0).quotient(x.wide().root()).narrow()
    } else if exponent == T::new(-1.0, 0.0) {
        c128::new(1.0, 0.0).quotient(x.wide()).narrow()
    } else {
        x.wide().power(exponent.wide()).narrow()
    }) by complex_by_number::<T>;
    for<S> [u8, i8, i16, i32, i64] (|x; exponent| x.power(exponent));
    for<S> [Bool] (|x; exponent| Bool::from(x.get() | !exponent.get()))
};

#[operator]
pub static POW: Operator = Operator {
    name: "pow",
    variants: Variants::ALL,
    signature: "(Tensor self, Scalar exponent) -> Tensor",
    node: "PowBackward0",
    doc: "Each element to the power of `exponent`, a number or a tensor that broadcasts.

    out = self ** exponent

    >>> torch.pow(torch.tensor([1., 2., 3.]), 2)
    tensor([1., 4., 9.])",
    implementation: with_numbers(BY_NUMBER),
    tags: Tags::DOUBLE_SCALARS.union(Tags::ROUNDED_PARAMETERS),
    sparse: Sparse::ExplicitAutograd,
    check: Some(|args| {
        let base = args.tensor(INPUT)?.dtype();
        match args.scalar(EXPONENT)? {
            Scalar::Int(exponent) if exponent < 0 && !base.is_differentiable() => {
                Err(Error::runtime("Integers to negative integer powers are not allowed.")
                    .hint("Convert one to floating point first: x.float() ** n."))
            }
            exponent @ (Scalar::Int(_) | Scalar::UInt(_)) if base.is_integral() && base != DType::Bool => {
                create::check_fits(exponent, base)
            }
            exponent if base.is_half() && !exponent.is_complex() => create::check_fits(exponent, base),
            _ => Ok(()),
        }
    }),
    kernel_name: "pow",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let exponent = d.scalar(EXPONENT);
        if exponent.is_zero() { d.grad().zeros_like() } else { d.grad() * slope(d, exponent).conj() }
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["pos(2, 3), 2", "pos(2, 3), 0", "pos(3), 3", "pos(), 2", "pos(3), 2.5", "pos(3), 0.5"],
    errors: &[("i(5, 3), -1", "RuntimeError", "Integers to negative integer powers are not allowed.")],
    reference: "np.power(self, exponent)",
    ..Operator::BASE
};

/// `exponent * self ** (exponent - 1)`
fn slope(d: &BackwardContext, exponent: Scalar) -> Expr {
    use POW::*;

    let less = match exponent {
        Scalar::Int(number) => Scalar::Int(number.wrapping_sub(1)),
        Scalar::Complex(number) => Scalar::Complex(number - 1.0),
        other => Scalar::Float(other.f64() - 1.0),
    };
    // If the gradient is recorded it is a power too, so that it has as many derivatives as in torch.
    let itself = less.is_one() && !rushlight_autograd::modes::recording();
    let power = if itself { d.input(INPUT) } else { d.input(INPUT).call(&POW, [Value::Scalar(less)]) };
    power * Expr::from(exponent)
}

#[operator]
pub static POW_TENSOR: Operator = Operator {
    name: "pow.Tensor_Tensor",
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor exponent) -> Tensor",
    node: "PowBackward1 first=PowBackward2",
    tags: Tags::ROW_MAJOR_FOR_NUMBERS,
    doc: "Each element to the power of the element of `exponent`.

    >>> torch.pow(2, torch.tensor([1, 2, 3]))
    tensor([2, 4, 8])",
    in_place_example: ">>> torch.tensor([2, 2, 2]).pow_(torch.tensor([1, 2, 3]))
    tensor([2, 4, 8])",
    dtypes: DTypes::NUMBERS,
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| x.power(y));
        for<S> [f32, f64] (|x, y| S::pow(x, y));
        for<S> [c64, c128] (|x, y| x.wide().power(y.wide()).narrow())
    }),
    kernel_name: "pow",
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(EXPONENT)), |d| {
            let exponent = d.input(EXPONENT);
            let slope = (exponent.clone() * d.input(INPUT).with(&POW_TENSOR, exponent.clone() - 1.0)).conj();
            exponent.equals(0.0).choose(0.0, d.grad() * slope)
        }),
        formula(EXPONENT, Saves::input(INPUT).union(Saves::input(EXPONENT)).union(Saves::RESULT), |d| {
            let base = d.input(INPUT);
            // The logarithm of a negative number exists for a complex exponent.
            let is_complex = d.meta(EXPONENT).is_some_and(|meta| meta.dtype.is_complex());
            let log = match base.clone() {
                Expr::Tensor(base) if is_complex => Expr::from(&base)
                    .call(&crate::convert::TO_DTYPE, [base.dtype().compute().to_complex().into()])
                    .log(),
                Expr::Number(number) if is_complex => Expr::from(Scalar::Complex(number.complex())).log(),
                base => base.log(),
            };
            let flat = match (base, d.input(EXPONENT)) {
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
    autocast: Autocast::Fp32.on_cuda_alone(),
    errors: &[super::MISMATCH],
    samples: &["pos(2, 3), pos(2, 3)", "pos(5, 1, 4), pos(3, 1)", "2, pos(3)"],
    reference: "np.power(self, exponent)",
    ..Operator::BASE
};

fn at_least_zero(exponent: Expr) -> Expr {
    let complex = matches!(&exponent, Expr::Tensor(tensor) if tensor.dtype().is_complex());
    if complex {
        let whole = exponent.clone().call(&super::compare::ISREAL, []);
        return whole.and(exponent.real().at_least(0.0));
    }
    exponent.at_least(0.0)
}

#[operator]
pub static FLOAT_POWER: Operator = Operator {
    name: "float_power",
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor",
    doc: "The power in double precision, whatever the operands' dtypes.

    >>> torch.float_power(torch.tensor([1, 2]), 2)
    tensor([1., 4.], dtype=torch.float64)",
    in_place_example: ">>> torch.tensor([1., 2.], dtype=torch.float64).float_power_(2)
    tensor([1., 4.], dtype=torch.float64)",
    out: Out::new(
        Accepts::Same,
        &["the output given to float_power has dtype {Out} but the operation's result requires dtype {Result}"],
    ),
    tags: Tags::RESTRICTED_IN_PLACE.union(Tags::BROADCASTS),
    implementation: Implementation::Delegate(|mut args| {
        let complex = [INPUT, EXPONENT].iter().any(|&arg| {
            args.optional_tensor(arg).is_some_and(|tensor| tensor.dtype().is_complex())
                || args.optional_scalar(arg).is_some_and(Scalar::is_complex)
        });
        let dtype = if complex { DType::C128 } else { DType::F64 };
        for arg in [INPUT, EXPONENT] {
            let raised = match (args.optional_tensor(arg), args.optional_scalar(arg)) {
                (Some(tensor), _) if tensor.dtype() != dtype => Value::Own(crate::convert::to_dtype(tensor, dtype)?),
                (None, Some(number)) if !number.is_complex() => Value::Scalar(Scalar::Float(number.f64())),
                _ => continue,
            };
            args.set(arg, raised);
        }
        args.op = match (args.has_tensor(INPUT), args.has_tensor(EXPONENT)) {
            (_, true) => &POW_TENSOR,
            (true, false) => &POW,
            (false, false) => return Err(args.needs_tensor()),
        };
        Ok(args)
    }),
    derivative: Derivative::CompositeImplicit,
    errors: &[super::MISMATCH],
    samples: &["pos(2, 3), 2", "pos(2, 3), pos(3)", "2, pos(3)"],
    reference: "np.float_power(self, exponent)",
    ..Operator::BASE
};

#[operator]
pub static SQUARE: Operator = Operator {
    name: "square",
    doc: "Each element times itself.

    >>> torch.square(torch.tensor([-2., 3.]))
    tensor([4., 9.])",
    sparse: Sparse::ZeroPreserving,
    implementation: Implementation::Delegate(|mut args| {
        args.op = &POW;
        args.values.push(Value::Scalar(Scalar::Int(2)));
        Ok(args)
    }),
    derivative: Derivative::CompositeImplicit,
    reference: "np.square(self)",
    ..UNARY
};

#[operator]
pub static SQRT: Operator = Operator {
    name: "sqrt",
    doc: "The square root of each element.

    >>> torch.sqrt(torch.tensor([4., 2.]))
    tensor([2.0000, 1.4142])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| x.sqrt());
        for<S> [c64, c128] (|x| x.wide().root().narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| d.grad() / (d.result().conj() * 2.0))]),
    samples: &["pos(2, 3)", "pos()"],
    reference: "np.sqrt(self)",
    kernel_name: "sqrt_vml_cpu",
    ..UNARY
};

#[operator]
pub static RSQRT: Operator = Operator {
    name: "rsqrt",
    doc: "One divided by the square root of each element.

    >>> torch.rsqrt(torch.tensor([4., 1.]))
    tensor([0.5000, 1.0000])",
    dtypes: DTypes::COMPUTED,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::rsqrt(x));
        for<S> [c64, c128] (|x| c128::new(1.0, 0.0).quotient(x.wide().root()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| {
        d.grad() * -0.5 * d.result().call(&POW, [Value::Scalar(Scalar::Int(3))]).conj()
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["pos(2, 3)", "pos()"],
    reference: "np.true_divide(1, np.sqrt(self))",
    ..UNARY
};
