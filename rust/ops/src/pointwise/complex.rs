//! Parts of complex numbers.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::plan::{Plan, result_layout};
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::pointwise::{Lane, Tile, run};
use rushlight_cpu::tiles;

use crate::autocast::Autocast;
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::row::{Accepts, DTypes, Kernel, Out, Pointwise, Promote, Row, Run, Spec, Traits, Variants};
use crate::sparse::Sparse;
use crate::value::{Args, Output};

pub static CONJ_PHYSICAL: Row = Row {
    name: "conj_physical",
    node: "ConjPhysicalBackward0 in_place=ConjPhysicalBackward1",
    variants: Variants::ALL,
    signature: "(Tensor self) -> Tensor",
    doc: "The complex conjugate of each element, computed at once; a real tensor itself.

    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])",
    out: Out::FOUND,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        if own.dtype().is_complex() { crate::op!(CONJ_AT_ONCE, own) } else { Ok(own.clone()) }.map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t()"],
    reference: "np.conj(self)",
    ..Row::BASE
};

pub static CONJ_AT_ONCE: Row = Row {
    name: "_conj_physical",
    variants: Variants::FUNCTION,
    node: "ConjPhysicalBackward0",
    signature: "(Tensor self) -> Tensor",
    doc: "The complex conjugate of each element, computed at once; real numbers stay as they are.",
    run: Run::Pointwise(Pointwise {
        promote: Promote::Common,
        cpu: tiles! {
            for<S> [c64, c128] (|z| z.conj());
            for<S> [u8, i8, i16, i32, i64, f32, f64, rushlight_core::Bool] (|x| x)
        },
    }),
    dtypes: DTypes::COMMON,
    cuda: Some("conj(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad().conj())]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.conj(self)",
    sparse: Sparse::Linear,
    ..Row::BASE
};

pub static REAL_PART: Row = Row {
    name: "_real_part",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A copy of the real parts.",
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

pub static ANGLE: Row = Row {
    name: "angle",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self) -> Tensor",
    doc: "The angle of each element in the complex plane: of real numbers 0, or pi below zero.

    >>> torch.angle(torch.tensor([1j, -1 + 0j]))
    tensor([1.5708, 3.1416])",
    dtypes: DTypes::ALL,
    mapped: Mapped::Aligned,
    run: Run::Kernel(Kernel { infer: infer_angle, cpu: cpu_angle }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let own = d.input(0);
        let complex = matches!(&own, Expr::Tensor(own) if own.dtype().is_complex());
        if !complex {
            return d.grad().zeros_like();
        }
        // The angle turns at right angles to the number, the slower the longer it is.
        let size = own.clone().abs();
        let turned = own * Expr::from(Scalar::Complex(c128::new(0.0, 1.0)));
        size.clone().equals(0.0).choose(0.0, d.grad() * turned / (size.clone() * size))
    })]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.angle(self * 1.0)",
    ..Row::BASE
};

fn infer_angle(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    let dtype = match own.dtype() {
        dtype if dtype.is_differentiable() => dtype.to_real(),
        _ => rushlight_core::dtype::default_dtype(),
    };
    Ok(vec![Spec { layout: result_layout(own.sizes(), [own.layout()]), dtype, device: own.device() }])
}

fn cpu_angle(args: &Args, results: &[Tensor]) -> Result<()> {
    let own = args.tensor(0)?;
    let compute = if own.dtype().is_complex() { own.dtype() } else { results[0].dtype().compute() };
    let pick = tiles! {
        for<S> [c64 => f32] (|z| S::atan2(z.im, z.re));
        for<S> [c128 => f64] (|z| S::atan2(z.im, z.re));
        for<S> [f32, f64] (|x| if x.is_nan() { x } else if x < 0.0 { std::f64::consts::PI as T } else { 0.0 })
    };
    let Some(tile) = pick(compute) else { return Err(crate::call::not_implemented(args.row, own.dtype())) };
    walk(&results[0], [own], compute.to_real(), compute, tile)
}

/// Runs a tile whose operands have one dtype and whose result has another.
fn walk<const N: usize>(out: &Tensor, operands: [&Tensor; N], result: DType, compute: DType, tile: Tile) -> Result<()> {
    let stretched = operands.map(|operand| operand.layout().broadcast_to(out.sizes()));
    let pin = out.storage().pin()?;
    let pins = pin_all(operands.map(Tensor::storage))?;
    let first = Lane { pointer: pin.as_ptr(), dtype: out.dtype() };
    let lane = |n: usize| Lane { pointer: pins[n].as_ptr(), dtype: operands[n].dtype() };
    let layouts = stretched.into_iter().collect::<Result<Vec<_>>>()?;
    // SAFETY: every layout stays within its pinned storage, and the tile was made for these dtypes.
    unsafe {
        match N {
            1 => {
                let lanes = [first, lane(0)];
                let plan = Plan::new([out.layout(), &layouts[0]], lanes.map(|lane| lane.dtype.size()));
                run(&plan, lanes, [result, compute], tile, &[]);
            }
            _ => {
                let lanes = [first, lane(0), lane(1)];
                let plan = Plan::new([out.layout(), &layouts[0], &layouts[1]], lanes.map(|lane| lane.dtype.size()));
                run(&plan, lanes, [result, compute, compute], tile, &[]);
            }
        }
    }
    Ok(())
}

/// The result of two real tensors that become the parts of one complex tensor.
fn infer_pair(args: &Args) -> Result<Vec<Spec>> {
    let (a, b) = (args.tensor(0)?, args.tensor(1)?);
    let fits = |dtype: DType| matches!(dtype, DType::F16 | DType::F32 | DType::F64);
    if !fits(a.dtype()) || !fits(b.dtype()) {
        return Err(Error::runtime(format!(
            "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
            a.dtype().title(),
            b.dtype().title()
        )));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "Expected object of scalar type {} but got scalar type {} for second argument",
            a.dtype().title(),
            b.dtype().title()
        )));
    }
    let sizes = crate::backcompat::meet(args.row.title(false), a.sizes(), b.sizes())?;
    let layout = result_layout(&sizes, [a.layout(), b.layout()]);
    Ok(vec![Spec { layout, dtype: a.dtype().to_complex(), device: a.device() }])
}

fn cpu_pair(args: &Args, results: &[Tensor], pick: fn(DType) -> Option<Tile>) -> Result<()> {
    let (a, b, out) = (args.tensor(0)?, args.tensor(1)?, &results[0]);
    let compute = out.dtype().to_real();
    let Some(tile) = pick(compute) else { return Err(crate::call::not_implemented(args.row, a.dtype())) };
    walk(out, [a, b], out.dtype(), compute, tile)
}

/// The dtypes that parts of complex numbers may have.
const PARTS: DTypes = DTypes(DTypes::FLOATS.0 & !(1 << DType::BF16 as u16));

pub static COMPLEX: Row = Row {
    name: "complex",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor real, Tensor imag) -> Tensor",
    doc: "The complex numbers with these parts.

    >>> torch.complex(torch.tensor([1.]), torch.tensor([2.]))
    tensor([1.+2.j])",
    out: Out::new(
        Accepts::Same,
        &["Expected object of scalar type {Result} but got scalar type {Out} for argument 'out'"],
    ),
    dtypes: PARTS,
    traits: Traits::BROADCASTS,
    mapped: Mapped::Aligned,
    run: Run::Kernel(Kernel {
        infer: infer_pair,
        cpu: |args, results| {
            cpu_pair(
                args,
                results,
                tiles! {
                    for<S> [f32 => c64] (|re, im| c64::new(re, im));
                    for<S> [f64 => c128] (|re, im| c128::new(re, im))
                },
            )
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad().real()),
        formula(1, Saves::NOTHING, |d| (d.grad() * Expr::from(Scalar::Complex(c128::new(0.0, -1.0)))).real()),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(2, 1), t(3)"],
    reference: "np.add(real, np.multiply(1j, imag))",
    ..Row::BASE
};

pub static POLAR: Row = Row {
    name: "polar",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor abs, Tensor angle) -> Tensor",
    doc: "The complex numbers with these magnitudes and angles.

    >>> torch.polar(torch.tensor([1.]), torch.tensor([0.]))
    tensor([1.+0.j])",
    out: Out::new(
        Accepts::Same,
        &["Expected object of scalar type {Result} but got scalar type {Out} for argument 'out'"],
    ),
    dtypes: PARTS,
    autocast: Autocast::Single,
    traits: Traits::BROADCASTS,
    mapped: Mapped::Aligned,
    run: Run::Kernel(Kernel {
        infer: infer_pair,
        cpu: |args, results| {
            cpu_pair(
                args,
                results,
                tiles! {
                    for<S> [f32 => c64] (|size, angle| c64::new(size * S::cos(angle), size * S::sin(angle)));
                    for<S> [f64 => c128] (|size, angle| c128::new(size * S::cos(angle), size * S::sin(angle)))
                },
            )
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::RESULT, |d| (d.grad().conj() * d.result().sgn()).real()),
        formula(1, Saves::RESULT, |d| {
            (d.grad().conj() * d.result() * Expr::from(Scalar::Complex(c128::new(0.0, 1.0)))).real()
        }),
    ]),
    errors: &[super::MISMATCH],
    samples: &["pos(2, 3), t(2, 3)", "pos(2, 1), t(3)"],
    reference: "np.multiply(abs, np.exp(np.multiply(1j, angle)))",
    ..Row::BASE
};

impl Expr {
    /// The conjugate; of a real tensor the tensor itself.
    pub fn conj(self) -> Expr {
        match &self {
            Expr::Tensor(tensor) if tensor.dtype().is_complex() => self.call(&CONJ_AT_ONCE, []),
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
