//! Complex numbers out of their parts.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast;
use rushlight_core::layout::Dims;
use rushlight_core::{DType, Error, Layout, Result, Scalar};

use crate::derive::{Derivative, Saves, formula};
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::Args;

/// A complex tensor's elements as pairs of real numbers, in a new last dimension.
pub fn pairs(tensor: &Tensor) -> Tensor {
    let own = tensor.layout();
    let mut layout = Layout {
        sizes: own.sizes.clone(),
        strides: own.strides.iter().map(|stride| stride * 2).collect::<Dims>(),
        offset: own.offset * 2,
    };
    layout.sizes.push(2);
    layout.strides.push(1);
    Tensor::new(tensor.storage().clone(), layout, tensor.dtype().to_real(), tensor.device())
}

/// The real (0) or the imaginary (1) parts of a complex tensor, as a tensor over the same bytes.
fn part(tensor: &Tensor, which: isize) -> Tensor {
    let pairs = pairs(tensor);
    let layout = pairs.layout().select(tensor.rank(), which);
    Tensor::new(pairs.storage().clone(), layout, pairs.dtype(), pairs.device())
}

fn infer(args: &Args) -> Result<Vec<Spec>> {
    let (first, second) = (args.tensor(0)?, args.tensor(1)?);
    let (a, b) = (first.dtype(), second.dtype());
    let accepted = |dtype: DType| matches!(dtype, DType::F16 | DType::F32 | DType::F64);
    if !accepted(a) || !accepted(b) {
        return Err(Error::runtime(format!(
            "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
            a.title(),
            b.title()
        )));
    }
    if a != b {
        return Err(Error::runtime(format!(
            "Expected object of scalar type {} but got scalar type {} for second argument",
            a.title(),
            b.title()
        )));
    }
    Ok(vec![Spec::new(&broadcast(first.sizes(), second.sizes())?, a.to_complex(), first)])
}

pub static COMPLEX: Row = Row {
    name: "complex",
    variants: Variants::FUNCTION.and(Variants::OUT),
    signature: "(Tensor real, Tensor imag) -> Tensor",
    doc: "The complex numbers with these real and imaginary parts.

    >>> torch.complex(torch.tensor([1., 2.]), torch.tensor([3., 4.]))
    tensor([1.+3.j, 2.+4.j])",
    dtypes: DTypes::FLOATS,
    run: Run::Kernel(Kernel {
        infer,
        cpu: |args, results| {
            crate::copy::copy(&part(&results[0], 0), args.tensor(0)?)?;
            crate::copy::copy(&part(&results[0], 1), args.tensor(1)?)
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        // The part that a real argument sees is the real one.
        formula(1, Saves::NOTHING, |d| d.grad() * Scalar::Complex(num_complex::Complex64::new(0.0, -1.0))),
    ]),
    samples: &["t(2, 3), t(2, 3)", "t(2, 1), t(3)"],
    errors: &[(
        "t(2), t(2).double()",
        "RuntimeError",
        "Expected object of scalar type Float but got scalar type Double for second argument",
    )],
    reference: "real + 1j * imag",
    ..Row::BASE
};
