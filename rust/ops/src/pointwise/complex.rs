//! Parts of complex numbers.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::loop_nest::{LoopNest, result_layout};
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::loops;
use rushlight_cpu::loops::Loops;
use rushlight_cpu::pointwise::{InnerLoop, RawOperand, run};
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Out, Pointwise,
    Promote, Saves, Sparse, Tags, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Operand, Operands, Output};
use rushlight_dispatch::{backcompat, device_loops, op};

use crate::expr_ext::ExprExt;

#[operator]
pub static CONJ_PHYSICAL: Operator = Operator {
    name: "conj_physical",
    node: "ConjPhysicalBackward0 in_place=ConjPhysicalBackward1",
    variants: Variants::ALL,
    signature: "(Tensor self) -> Tensor",
    doc: "The complex conjugate of each element, computed immediately; a real tensor is returned itself.

    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])",
    out: Out::COMPUTE_DTYPE,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if input.dtype().is_complex() { op!(CONJ_AT_ONCE, input) } else { Ok(input.clone()) }.map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t()"],
    reference: "np.conj(self)",
    ..Operator::BASE
};

#[operator]
pub static CONJ_AT_ONCE: Operator = Operator {
    name: "_conj_physical",
    variants: Variants::FUNCTION,
    node: "ConjPhysicalBackward0",
    signature: "(Tensor self) -> Tensor",
    doc: "The complex conjugate of each element, computed immediately; real numbers are unchanged.",
    implementation: Implementation::Pointwise(Pointwise {
        promote: Promote::Common,
        keeps_strides: DTypes::COMPLEX.union(DTypes::COMPLEX32),
        loops: loops! {
            for<S> [c64, c128] (|z| z.conj());
            for<S> [u8, i8, i16, i32, i64, f32, f64, rushlight_core::Bool] (|x| x)
        },
    }),
    dtypes: DTypes::COMMON.union(DTypes::COMPLEX32),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad().conj())]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.conj(self)",
    sparse: Sparse::Linear,
    ..Operator::BASE
};

#[operator]
pub static REAL_PART: Operator = Operator {
    name: "_real_part",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A copy of the real parts.",
    dtypes: DTypes::COMPLEX.union(DTypes::COMPLEX32),
    implementation: Implementation::Pointwise(Pointwise {
        promote: Promote::ComplexToReal,
        keeps_strides: DTypes::NONE,
        loops: loops! {
            for<S> [c64 => f32] (|z| z.re);
            for<S> [c128 => f64] (|z| z.re)
        },
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad())]),
    samples: &["t(2, 3)"],
    reference: "np.real(self)",
    ..Operator::BASE
};

#[operator]
pub static ANGLE: Operator = Operator {
    name: "angle",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self) -> Tensor",
    doc: "The angle of each element in the complex plane: for real numbers 0, or pi if negative.

    >>> torch.angle(torch.tensor([1j, -1 + 0j]))
    tensor([1.5708, 3.1416])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ZeroPreserving,
    batch_rule: BatchRule::Broadcast,
    implementation: Implementation::Kernel(Kernel {
        infer: infer_angle,
        cpu: cpu_angle,
        cuda: OnCuda::Own(cuda_angle),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let input = d.input(INPUT);
        let complex = matches!(&input, Expr::Tensor(input) if input.dtype().is_complex());
        if !complex {
            return d.grad().zeros_like();
        }
        // The angle changes with a perpendicular change of the number, divided by its magnitude.
        let size = input.clone().abs();
        let turned = input * Expr::from(Scalar::Complex(c128::new(0.0, 1.0)));
        size.clone().equals(0.0).choose(0.0, d.grad() * turned / (size.clone() * size))
    })]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.angle(self * 1.0)",
    ..Operator::BASE
};

fn infer_angle(args: &Args) -> Result<Vec<TensorSpec>> {
    let input = args.tensor(ANGLE::INPUT)?;
    let dtype = match input.dtype() {
        dtype if dtype.is_differentiable() => dtype.to_real(),
        _ => rushlight_core::dtype::default_dtype(),
    };
    Ok(vec![TensorSpec { layout: result_layout(input.sizes(), [input.layout()]), dtype, device: input.device() }])
}

const ANGLES: Loops = loops! {
    for<S> [c64 => f32] (|z| S::atan2(z.im, z.re));
    for<S> [c128 => f64] (|z| S::atan2(z.im, z.re));
    for<S> [f32, f64] (|x| if x.is_nan() { x } else if x < 0.0 { std::f64::consts::PI as T } else { 0.0 })
};

const PAIRS: Loops = loops! {
    for<S> [f32 => c64] (|re, im| c64::new(re, im));
    for<S> [f64 => c128] (|re, im| c128::new(re, im))
};

const POLAR_PAIRS: Loops = loops! {
    for<S> [f32 => c64] (|size, angle| c64::new(size * S::cos(angle), size * S::sin(angle)));
    for<S> [f64 => c128] (|size, angle| c128::new(size * S::cos(angle), size * S::sin(angle)))
};

/// The loops of rows that are kernels, since their results have dtypes that no pointwise operator's have.
pub const LOOPS: [(&Operator, Loops); 3] = [(&ANGLE, ANGLES), (&COMPLEX, PAIRS), (&POLAR, POLAR_PAIRS)];

fn cpu_angle(args: &Args, results: &[Tensor]) -> Result<()> {
    let input = args.tensor(ANGLE::INPUT)?;
    let compute = if input.dtype().is_complex() { input.dtype() } else { results[0].dtype().compute() };
    let Some(inner_loop) = (ANGLES.cpu)(compute) else { return Err(not_implemented(args.op, input.dtype())) };
    run_loop(&results[0], [input], compute.to_real(), compute, inner_loop)
}

fn cuda_angle(args: &Args, results: &[Tensor]) -> Result<()> {
    let input = args.tensor(ANGLE::INPUT)?;
    let compute = if input.dtype().is_complex() { input.dtype() } else { results[0].dtype().compute() };
    let operands = Operands::from_slice(&[Operand::Tensor(input)]);
    device_loops::compute_loops(&results[0], ANGLE.name, &ANGLES, &operands, compute)
}

fn cuda_pair(args: &Args, second: Arg, results: &[Tensor], loops: Loops) -> Result<()> {
    let operands =
        Operands::from_slice(&[Operand::Tensor(args.tensor(Arg::FIRST)?), Operand::Tensor(args.tensor(second)?)]);
    let compute = results[0].dtype().compute().to_real();
    device_loops::compute_loops(&results[0], args.op.name, &loops, &operands, compute)
}

/// Runs a loop whose operands have one dtype and whose result has another.
fn run_loop<const N: usize>(
    out: &Tensor,
    operands: [&Tensor; N],
    result: DType,
    compute: DType,
    inner_loop: InnerLoop,
) -> Result<()> {
    let stretched = operands.map(|operand| operand.layout().broadcast_to(out.sizes()));
    let pin = out.storage().pin()?;
    let pins = pin_all(operands.map(Tensor::storage))?;
    let first = RawOperand { pointer: pin.as_ptr(), dtype: out.dtype() };
    let raw_operand = |n: usize| RawOperand { pointer: pins[n].as_ptr(), dtype: operands[n].dtype() };
    let layouts = stretched.into_iter().collect::<Result<Vec<_>>>()?;
    // SAFETY: every layout stays within its pinned storage, and the loop was made for these dtypes.
    unsafe {
        match N {
            1 => {
                let raw = [first, raw_operand(0)];
                let nest = LoopNest::new([out.layout(), &layouts[0]], raw.map(|raw_operand| raw_operand.dtype.size()));
                run(&nest, raw, [result, compute], inner_loop, &[]);
            }
            _ => {
                let raw = [first, raw_operand(0), raw_operand(1)];
                let nest = LoopNest::new(
                    [out.layout(), &layouts[0], &layouts[1]],
                    raw.map(|raw_operand| raw_operand.dtype.size()),
                );
                run(&nest, raw, [result, compute, compute], inner_loop, &[]);
            }
        }
    }
    Ok(())
}

/// The result of two real tensors that become the parts of one complex tensor.
fn infer_pair(args: &Args, second: Arg) -> Result<Vec<TensorSpec>> {
    let (a, b) = (args.tensor(Arg::FIRST)?, args.tensor(second)?);
    let fits = |dtype: DType| matches!(dtype, DType::F16 | DType::F32 | DType::F64);
    if !fits(a.dtype()) || !fits(b.dtype()) {
        return Err(Error::runtime(format!(
            "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
            a.dtype().display_name(),
            b.dtype().display_name()
        )));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "Expected object of scalar type {} but got scalar type {} for second argument",
            a.dtype().display_name(),
            b.dtype().display_name()
        )));
    }
    let sizes = backcompat::broadcast_with_warnings(args.op.display_name(false), a.sizes(), b.sizes())?;
    let layout = result_layout(&sizes, [a.layout(), b.layout()]);
    Ok(vec![TensorSpec { layout, dtype: a.dtype().to_complex(), device: a.device() }])
}

fn cpu_pair(args: &Args, second: Arg, results: &[Tensor], loops: Loops) -> Result<()> {
    let (a, b, out) = (args.tensor(Arg::FIRST)?, args.tensor(second)?, &results[0]);
    let result = out.dtype().compute();
    let Some(inner_loop) = (loops.cpu)(result.to_real()) else { return Err(not_implemented(args.op, a.dtype())) };
    run_loop(out, [a, b], result, result.to_real(), inner_loop)
}

/// `out=` of two parts of one dtype.
const OF_PARTS: Out =
    Out::new(Accepts::Same, &["Expected object of scalar type {Result} but got scalar type {Out} for argument 'out'"])
        .known(|args| {
            let dtypes: Vec<DType> = args.each_tensor().map(|(_, part)| part.dtype()).collect();
            (dtypes.len() == 2 && dtypes[0] == dtypes[1] && PARTS.has(dtypes[0])).then(|| dtypes[0].to_complex())
        });

/// The dtypes that parts of complex numbers may have.
const PARTS: DTypes = DTypes::FLOATS.without(DTypes::of(&[DType::BF16]));

#[operator]
pub static COMPLEX: Operator = Operator {
    name: "complex",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor real, Tensor imag) -> Tensor",
    doc: "The complex numbers with these parts.

    >>> torch.complex(torch.tensor([1.]), torch.tensor([2.]))
    tensor([1.+2.j])",
    out: OF_PARTS,
    dtypes: PARTS,
    tags: Tags::BROADCASTS,
    batch_rule: BatchRule::Broadcast,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| infer_pair(args, IMAG),
        cpu: |args, results| cpu_pair(args, IMAG, results, PAIRS),
        cuda: OnCuda::Own(|args, results| cuda_pair(args, IMAG, results, PAIRS)),
    }),
    derivative: Derivative::Formulas(&[
        formula(REAL, Saves::NOTHING, |d| d.grad().real()),
        formula(IMAG, Saves::NOTHING, |d| (d.grad() * Expr::from(Scalar::Complex(c128::new(0.0, -1.0)))).real()),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(2, 1), t(3)"],
    reference: "np.add(real, np.multiply(1j, imag))",
    ..Operator::BASE
};

#[operator]
pub static POLAR: Operator = Operator {
    name: "polar",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor abs, Tensor angle) -> Tensor",
    doc: "The complex numbers with these magnitudes and angles.

    >>> torch.polar(torch.tensor([1.]), torch.tensor([0.]))
    tensor([1.+0.j])",
    out: OF_PARTS,
    dtypes: PARTS.without(DTypes::HALVES),
    autocast: Autocast::Fp32.on_cpu_alone(),
    tags: Tags::BROADCASTS,
    batch_rule: BatchRule::Broadcast,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let specs = infer_pair(args, ANGLE)?;
            match args.tensor(ABS)?.dtype() {
                DType::F16 => Err(Error::unsupported("polar_cpu", DType::F16)),
                _ => Ok(specs),
            }
        },
        cpu: |args, results| cpu_pair(args, ANGLE, results, POLAR_PAIRS),
        cuda: OnCuda::Own(|args, results| cuda_pair(args, ANGLE, results, POLAR_PAIRS)),
    }),
    derivative: Derivative::Formulas(&[
        formula(ABS, Saves::RESULT, |d| (d.grad().conj() * d.result().sgn()).real()),
        formula(ANGLE, Saves::RESULT, |d| {
            (d.grad().conj() * d.result() * Expr::from(Scalar::Complex(c128::new(0.0, 1.0)))).real()
        }),
    ]),
    errors: &[super::MISMATCH],
    samples: &["pos(2, 3), t(2, 3)", "pos(2, 1), t(3)"],
    reference: "np.multiply(abs, np.exp(np.multiply(1j, angle)))",
    ..Operator::BASE
};
