//! Operations on three tensors, and the replacement of NaN and infinities.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, DType, Error};
use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Autocast, DTypes, Derivative, Implementation, Operator, Out, Saves, Sparse, Tags, Variants, formula,
    operator,
};
use rushlight_dispatch::value::Value;

use super::numbers::{Analytic, ComplexMath, Narrow};
use super::{common, keeping_strides};
use crate::expr_ext::ExprExt;

#[operator]
pub static LERP: Operator = Operator {
    name: "lerp",
    tags: Tags::UNROUNDED_NUMBERS,
    node: "LerpBackward1 number=LerpBackward0",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor end, Tensor|Scalar weight) -> Tensor",
    doc: "The point between `self` and `end` at `weight`.

    out = self + weight * (end - self)

    >>> torch.lerp(torch.tensor([0., 2.]), torch.tensor([4., 4.]), 0.5)
    tensor([2., 3.])",
    out: Out::new(Accepts::CastIf(|args| !args.has_tensor(WEIGHT)), Out::COMPUTE_DTYPE.sentences),
    dtypes: DTypes::INEXACT,
    implementation: common(loops! {
        for<S> [f32, f64] (|x, y, w| if w.abs() < 0.5 { x + w * (y - x) } else { y - (y - x) * (1.0 - w) });
        for<S> [c64, c128] (|x, y, w| if w.norm_sqr() < 0.25 { x + w * (y - x) } else {
            y - (y - x) * (T::new(1.0, 0.0) - w)
        })
    }),
    check: Some(|args| {
        let dtype = args.tensor(INPUT)?.dtype();
        for (arg, name) in [(END, "end"), (WEIGHT, "weight")] {
            // A weight without dimensions is a number of any dtype.
            let differs = |other: &&Tensor| other.dtype() != dtype && (arg != WEIGHT || other.rank() > 0);
            if let Some(other) = args.optional_tensor(arg).filter(differs) {
                return Err(Error::runtime(format!(
                    "expected dtype {} for `{name}` but got dtype {}",
                    dtype.c_name(),
                    other.dtype().c_name()
                )));
            }
        }
        if !dtype.is_differentiable() {
            let kernel = if args.has_tensor(WEIGHT) { "lerp_kernel_tensor" } else { "lerp_kernel_scalar" };
            return Err(Error::unsupported(kernel, dtype));
        }
        match args.optional_scalar(WEIGHT) {
            Some(weight) if !dtype.is_complex() => rushlight_dispatch::create::check_fits(weight, dtype.compute()),
            _ => Ok(()),
        }
    }),
    kernel_name: "lerp_kernel_scalar",
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(WEIGHT), |d| d.grad() * (1.0 - d.input(WEIGHT)).conj()),
        formula(END, Saves::input(WEIGHT), |d| d.grad() * d.input(WEIGHT).conj()),
        formula(WEIGHT, Saves::input(INPUT).union(Saves::input(END)), |d| {
            d.grad() * (d.input(END) - d.input(INPUT)).conj()
        }),
    ]),
    errors: &[
        (
            "t(2, 2), t(3, 3), 0.5",
            "RuntimeError",
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
        ),
        ("i(3, 2), i(3, 2), 0.5", "NotImplementedError", "\"lerp_kernel_scalar\" not implemented for 'Long'"),
        ("i(3, 2), i(3, 2), i(3, 2)", "NotImplementedError", "\"lerp_kernel_tensor\" not implemented for 'Long'"),
    ],
    samples: &["t(2, 3), t(2, 3), 0.3", "t(2, 3), t(3), t(2, 1)", "t(), t(), 0.7", "t(2, 3), t(3), torch.tensor(1)"],
    reference: "self + weight * (end - self)",
    ..Operator::BASE
};

const FACTORS: Saves = Saves::input(ADDCMUL::TENSOR1).union(Saves::input(ADDCMUL::TENSOR2));

#[operator]
pub static ADDCMUL: Operator = Operator {
    name: "addcmul",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    doc: "Adds a product, scaled by `value`.

    out = self + value * tensor1 * tensor2

    >>> torch.addcmul(torch.tensor([1.]), torch.tensor([2.]), torch.tensor([3.]), value=0.5)
    tensor([4.])",
    dtypes: DTypes::NUMBERS.union(DTypes::COMPLEX32),
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, y, z; value| x.wrapping_add(value.wrapping_mul(y).wrapping_mul(z)));
        for<S> [f32, f64, c64, c128] (|x, y, z; value| x + value * y * z)
    }),
    kernel_name: "addcmul_cpu_out",
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| d.grad()),
        formula(TENSOR1, FACTORS, |d| d.grad() * (d.input(TENSOR2) * Expr::from(d.scalar(VALUE))).conj()),
        formula(TENSOR2, FACTORS, |d| d.grad() * (d.input(TENSOR1) * Expr::from(d.scalar(VALUE))).conj()),
    ]),
    autocast: Autocast::Promote.on_cuda_alone(),
    errors: &[(
        "t(2), t(2), t(3)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    )],
    samples: &["t(2, 3), t(2, 3), t(2, 3)", "t(2, 3), t(3), t(2, 1), value=2"],
    reference: "self + value * tensor1 * tensor2",
    ..Operator::BASE
};

#[operator]
pub static ADDCDIV: Operator = Operator {
    name: "addcdiv",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    doc: "Adds a quotient, scaled by `value`.

    out = self + value * tensor1 / tensor2

    >>> torch.addcdiv(torch.tensor([1.]), torch.tensor([6.]), torch.tensor([3.]), value=0.5)
    tensor([2.])",
    dtypes: DTypes::INEXACT,
    implementation: common(loops! {
        for<S> [f32, f64] (|x, y, z; value| x + value * y / z);
        for<S> [c64, c128] (|x, y, z; value| {
            let quotient: T = (value * y).wide().quotient(z.wide()).narrow();
            x + quotient
        })
    }),
    check: Some(|args| {
        if args.tensor(TENSOR1)?.dtype().is_differentiable() || args.tensor(TENSOR2)?.dtype().is_differentiable() {
            return Ok(());
        }
        Err(Error::runtime(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes.",
        ))
    }),
    kernel_name: "addcdiv_cpu_out",
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| d.grad()),
        formula(TENSOR1, FACTORS, |d| d.grad() * (Expr::from(d.scalar(VALUE)) / d.input(TENSOR2)).conj()),
        formula(TENSOR2, FACTORS, |d| {
            let product = d.input(TENSOR1) * Expr::from(d.scalar(VALUE));
            -d.grad() * (product / (d.input(TENSOR2) * d.input(TENSOR2))).conj()
        }),
    ]),
    autocast: Autocast::Promote.on_cuda_alone(),
    errors: &[(
        "t(2), t(2), t(3)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    )],
    samples: &["t(2, 3), t(2, 3), pos(2, 3)", "t(2, 3), t(3), pos(2, 1), value=2"],
    reference: "self + value * tensor1 / tensor2",
    ..Operator::BASE
};

#[operator]
pub static NAN_TO_NUM: Operator = Operator {
    name: "nan_to_num",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    dtypes: DTypes::COMPUTED,
    doc: "Replaces nan (by 0 unless given) and the infinities (by the greatest and smallest numbers unless given).

    >>> torch.nan_to_num(torch.tensor([float('nan'), float('inf')]), posinf=9.)
    tensor([0., 9.])",
    sparse: Sparse::ZeroPreserving,
    implementation: Implementation::Delegate(|mut args| {
        let (low, high) = extremes(args.tensor(INPUT)?.dtype());
        for (arg, default) in [(NAN, 0.0), (POSINF, high), (NEGINF, low)] {
            if !args.has(arg) {
                args.set(arg, Value::Float(default));
            }
        }
        args.op = &REPLACED;
        Ok(args)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t(2, 3), 1., 2., 3."],
    reference: "np.nan_to_num(self)",
    ..Operator::BASE
};

#[operator]
pub static REPLACED: Operator = Operator {
    name: "_nan_to_num",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, float nan, float posinf, float neginf) -> Tensor",
    dtypes: DTypes::COMPUTED,
    doc: "Replaces nan and the infinities.",
    out: Out::new(Accepts::Same, &["nan_to_num: dtype of out: {Out} should be same as input: {Result}"]),
    implementation: keeping_strides(
        DTypes::ALL,
        common(loops! {
            signless;
            for<S> [f32, f64] (|x; nan, high, low| {
                if x.is_nan() { nan } else if x == T::INFINITY { high } else if x == T::NEG_INFINITY { low } else { x }
            });
            for<S> [c64, c128] (|z; nan, high, low| {
                let re = if z.re.is_infinite() { if z.re > 0.0 { high.re } else { low.re } } else { z.re };
                let im = if z.im.is_infinite() { if z.im > 0.0 { high.re } else { low.re } } else { z.im };
                T::new(if z.re.is_nan() { nan.re } else { re }, if z.im.is_nan() { nan.re } else { im })
            });
            for<S> [i8, i16, i32, i64, Bool] (|x| x)
        }),
    ),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| d.grad() * d.input(INPUT).isfinite())]),
    samples: &["t(2, 3), 0., 1., -1."],
    ..Operator::BASE
};

fn extremes(dtype: DType) -> (f64, f64) {
    let high = match dtype.to_real() {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(half::bf16::MAX.to_f32()),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    (-high, high)
}
