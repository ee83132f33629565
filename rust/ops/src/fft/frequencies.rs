//! The frequencies of transforms, and their order.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, DTypes, Derivative, Implementation, Operator, Out, Variants, operator};
use rushlight_dispatch::value::{Ints, Output};
use rushlight_dispatch::{copy, create};

use crate::create::{Options, factory};
use crate::join::flip::ROLL;

#[operator]
pub static FFTFREQ: Operator = Operator {
    name: "fftfreq",
    namespace: "fft",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: factory!("int n, float d=1.0, *"),
    doc: "The frequencies of `torch.fft.fft` for `n` elements with spacing `d`.

    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])",
    out: Out::FACTORY.filled().counted(),
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| frequencies(args, args.int(N)?, true)),
    derivative: Derivative::CompositeImplicit,
    samples: &["4", "5, 0.5", "0", "3, dtype=torch.float64"],
    errors: &[
        ("-1", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
        ("4, dtype=torch.int64", "RuntimeError", "fftfreq requires a floating point or complex dtype"),
    ],
    reference: "np.fft.fftfreq(n, d) if n else None",
    ..Operator::BASE
};

#[operator]
pub static RFFTFREQ: Operator = Operator {
    name: "rfftfreq",
    namespace: "fft",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: factory!("int n, float d=1.0, *"),
    doc: "The frequencies of `torch.fft.rfft` for `n` elements with spacing `d`.

    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])",
    out: Out::FACTORY.filled().counted(),
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| frequencies(args, args.int(N)?, false)),
    derivative: Derivative::CompositeImplicit,
    samples: &["4", "5, 0.5", "3, dtype=torch.float64"],
    errors: &[("4, dtype=torch.int64", "RuntimeError", "rfftfreq requires a floating point or complex dtype")],
    reference: "np.fft.rfftfreq(n, d)",
    ..Operator::BASE
};

#[operator]
pub static FFTSHIFT: Operator = Operator {
    name: "fftshift",
    namespace: "fft",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[1]? dim=None) -> Tensor",
    doc: "The elements with frequency zero moved to the middle.

    >>> torch.fft.fftshift(torch.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| rolled(args, |size| size / 2).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(5)", "t(2, 3)", "t(2, 3), 1"],
    errors: &[("t(3), 1", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)")],
    reference: "np.fft.fftshift(self, dim)",
    ..Operator::BASE
};

#[operator]
pub static IFFTSHIFT: Operator = Operator {
    name: "ifftshift",
    namespace: "fft",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[1]? dim=None) -> Tensor",
    doc: "The inverse of `torch.fft.fftshift`.

    >>> torch.fft.ifftshift(torch.tensor([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| rolled(args, |size| (size + 1) / 2).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(5)", "t(2, 3)", "t(2, 3), 1"],
    errors: &[("t(3), 1", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)")],
    reference: "np.fft.ifftshift(self, dim)",
    ..Operator::BASE
};

fn frequencies(args: &Args, n: i64, whole: bool) -> Result<Output> {
    let options = Options::of(args)?;
    let dtype = options.dtype();
    if !dtype.is_differentiable() {
        return Err(Error::runtime(format!("{} requires a floating point or complex dtype", args.op.python_name())));
    }
    if dtype.is_complex() {
        return Err(Error::unsupported("arange_cpu", dtype));
    }
    let count = if whole { n } else { n / 2 + 1 };
    rushlight_core::layout::checked_new(&[count as isize])?;
    let places = options.empty(&[count as isize], dtype)?;
    let steps = create::empty(places.sizes(), DType::F64, rushlight_core::Device::Cpu)?;
    let pin = steps.storage().pin()?;
    for at in 0..count {
        let place = if whole && at >= (n + 1) / 2 { at - n } else { at };
        // SAFETY: the tensor is new and holds `count` numbers.
        unsafe { pin.as_ptr().cast::<f64>().add(at as usize).write(place as f64) };
    }
    drop(pin);
    copy::copy(&places, &steps)?;
    let factor = 1.0 / (n as f64 * args.float(FFTFREQ::D)?);
    options.finish((Expr::from(places) * factor).done()?)
}

fn rolled(args: &Args, by: fn(isize) -> isize) -> Result<Tensor> {
    use FFTSHIFT::*;

    let input = args.tensor(INPUT)?;
    let dims: Ints = match args.optional_ints(DIM) {
        Some(dims) => dims.into(),
        None => (0..input.rank() as i64).collect(),
    };
    let shifts = dims.iter().map(|&dim| {
        if input.rank() == 0 {
            return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
        }
        let dim = rushlight_core::layout::wrap_dim(dim, input.rank())?;
        Ok(by(input.sizes().get(dim).copied().unwrap_or(1)) as i64)
    });
    let shifts = shifts.collect::<Result<Ints>>()?;
    ROLL.tensor([input.into(), shifts.into(), dims.into()])
}
