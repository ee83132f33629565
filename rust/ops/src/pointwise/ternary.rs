//! Operations on three tensors, and the replacement of what is no number.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, DType, Error};
use rushlight_cpu::tiles;

use super::common;
use super::numbers::{Analytic, ComplexMath, Narrow};
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::row::{Accepts, DTypes, Out, Row, Run, Variants};
use crate::value::Value;

pub static LERP: Row = Row {
    name: "lerp",
    node: "LerpBackward1 number=LerpBackward0",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor end, Tensor|Scalar weight) -> Tensor",
    doc: "The point between `self` and `end` at `weight`.

    out = self + weight * (end - self)

    >>> torch.lerp(torch.tensor([0., 2.]), torch.tensor([4., 4.]), 0.5)
    tensor([2., 3.])",
    out: Out::new(Accepts::CastIf(|args| !args.has_tensor(2)), Out::FOUND.sentences),
    dtypes: DTypes::INEXACT,
    run: common(tiles! {
        for<S> [f32, f64] (|x, y, w| if w.abs() < 0.5 { x + w * (y - x) } else { y - (y - x) * (1.0 - w) });
        for<S> [c64, c128] (|x, y, w| if w.norm_sqr() < 0.25 { x + w * (y - x) } else {
            y - (y - x) * (T::new(1.0, 0.0) - w)
        })
    }),
    check: Some(|args| {
        let own = args.tensor(0)?.dtype();
        for (place, name) in [(1, "end"), (2, "weight")] {
            if let Some(other) = args.optional_tensor(place).filter(|other| other.dtype() != own) {
                return Err(Error::runtime(format!(
                    "expected dtype {} for `{name}` but got dtype {}",
                    own.c_name(),
                    other.dtype().c_name()
                )));
            }
        }
        if !own.is_differentiable() {
            let kernel = if args.has_tensor(2) { "lerp_kernel_tensor" } else { "lerp_kernel_scalar" };
            return Err(Error::unsupported(kernel, own));
        }
        Ok(())
    }),
    refuses: "lerp_kernel_scalar",
    cuda: Some("self + weight * (end - self)"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(2), |d| d.grad() * (1.0 - d.input(2)).conj()),
        formula(1, Saves::input(2), |d| d.grad() * d.input(2).conj()),
        formula(2, Saves::input(0).union(Saves::input(1)), |d| d.grad() * (d.input(1) - d.input(0)).conj()),
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
    samples: &["t(2, 3), t(2, 3), 0.3", "t(2, 3), t(3), t(2, 1)", "t(), t(), 0.7"],
    reference: "self + weight * (end - self)",
    ..Row::BASE
};

const FACTORS: Saves = Saves::input(1).union(Saves::input(2));

pub static ADDCMUL: Row = Row {
    name: "addcmul",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    doc: "Adds a product, scaled by `value`.

    out = self + value * tensor1 * tensor2

    >>> torch.addcmul(torch.tensor([1.]), torch.tensor([2.]), torch.tensor([3.]), value=0.5)
    tensor([4.])",
    dtypes: DTypes::NUMBERS,
    run: common(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x, y, z; value| x.wrapping_add(value.wrapping_mul(y).wrapping_mul(z)));
        for<S> [f32, f64, c64, c128] (|x, y, z; value| x + value * y * z)
    }),
    refuses: "addcmul_cpu_out",
    cuda: Some("self + value * tensor1 * tensor2"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(1, FACTORS, |d| d.grad() * (d.input(2) * Expr::from(d.scalar(3))).conj()),
        formula(2, FACTORS, |d| d.grad() * (d.input(1) * Expr::from(d.scalar(3))).conj()),
    ]),
    errors: &[(
        "t(2), t(2), t(3)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    )],
    samples: &["t(2, 3), t(2, 3), t(2, 3)", "t(2, 3), t(3), t(2, 1), value=2"],
    reference: "self + value * tensor1 * tensor2",
    ..Row::BASE
};

pub static ADDCDIV: Row = Row {
    name: "addcdiv",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    doc: "Adds a quotient, scaled by `value`.

    out = self + value * tensor1 / tensor2

    >>> torch.addcdiv(torch.tensor([1.]), torch.tensor([6.]), torch.tensor([3.]), value=0.5)
    tensor([2.])",
    dtypes: DTypes::INEXACT,
    run: common(tiles! {
        for<S> [f32, f64] (|x, y, z; value| x + value * y / z);
        for<S> [c64, c128] (|x, y, z; value| x + Narrow::<T>::narrow((value * y).wide().quotient(z.wide())))
    }),
    check: Some(|args| {
        if args.tensor(1)?.dtype().is_differentiable() || args.tensor(2)?.dtype().is_differentiable() {
            return Ok(());
        }
        Err(Error::runtime(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes.",
        ))
    }),
    refuses: "addcdiv_cpu_out",
    cuda: Some("self + value * tensor1 / tensor2"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(1, FACTORS, |d| d.grad() * (Expr::from(d.scalar(3)) / d.input(2)).conj()),
        formula(2, FACTORS, |d| {
            let product = d.input(1) * Expr::from(d.scalar(3));
            -d.grad() * (product / (d.input(2) * d.input(2))).conj()
        }),
    ]),
    errors: &[(
        "t(2), t(2), t(3)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    )],
    samples: &["t(2, 3), t(2, 3), pos(2, 3)", "t(2, 3), t(3), pos(2, 1), value=2"],
    reference: "self + value * tensor1 / tensor2",
    ..Row::BASE
};

pub static NAN_TO_NUM: Row = Row {
    name: "nan_to_num",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    dtypes: DTypes::ALL,
    doc: "Replaces nan (by 0 unless given) and the infinities (by the greatest and smallest numbers unless given).

    >>> torch.nan_to_num(torch.tensor([float('nan'), float('inf')]), posinf=9.)
    tensor([0., 9.])",
    run: Run::Defer(|mut args| {
        let (low, high) = extremes(args.tensor(0)?.dtype());
        for (place, default) in [(1, 0.0), (2, high), (3, low)] {
            if !args.has(place) {
                args.values[place] = Value::Float(default);
            }
        }
        args.row = &REPLACED;
        Ok(args)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t(2, 3), 1., 2., 3."],
    reference: "np.nan_to_num(self)",
    ..Row::BASE
};

pub static REPLACED: Row = Row {
    name: "_nan_to_num",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, float nan, float posinf, float neginf) -> Tensor",
    dtypes: DTypes::ALL,
    doc: "Replaces nan and the infinities.",
    out: Out::new(Accepts::Same, &["nan_to_num: dtype of out: {Out} should be same as input: {Result}"]),
    run: common(tiles! {
        signless;
        for<S> [f32, f64] (|x; nan, high, low| {
            if x.is_nan() { nan } else if x == T::INFINITY { high } else if x == T::NEG_INFINITY { low } else { x }
        });
        for<S> [c64, c128] (|z; nan, high, low| {
            #[allow(clippy::eq_op, reason = "NaN, for either width of a part")]
            let part = |x| {
                if x != x { nan.re } else if x == 1.0 / 0.0 { high.re } else if x == -1.0 / 0.0 { low.re } else { x }
            };
            T::new(part(z.re), part(z.im))
        });
        for<S> [i8, i16, i32, i64, Bool] (|x| x)
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| d.grad() * d.input(0).isfinite())]),
    samples: &["t(2, 3), 0., 1., -1."],
    ..Row::BASE
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
