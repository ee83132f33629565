//! The frequencies that transforms belong to, and their order.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};

use crate::create::{Options, factory};
use crate::derive::Derivative;
use crate::expr::Expr;
use crate::join::flip::ROLL;
use crate::row::{DTypes, Out, Row, Run, Variants};
use crate::value::{Args, Ints, Output};

pub static FFTFREQ: Row = Row {
    name: "fftfreq",
    namespace: "fft",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: factory!("int n, float d=1.0, *"),
    doc: "The frequencies of `torch.fft.fft` of `n` elements that are `d` apart.

    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])",
    out: Out::MADE.filled().counted(),
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| frequencies(args, args.int(0)?, true)),
    derivative: Derivative::Composed,
    samples: &["4", "5, 0.5", "0", "3, dtype=torch.float64"],
    errors: &[
        ("-1", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
        ("4, dtype=torch.int64", "RuntimeError", "fftfreq requires a floating point or complex dtype"),
    ],
    reference: "np.fft.fftfreq(n, d) if n else None",
    ..Row::BASE
};

pub static RFFTFREQ: Row = Row {
    name: "rfftfreq",
    namespace: "fft",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: factory!("int n, float d=1.0, *"),
    doc: "The frequencies of `torch.fft.rfft` of `n` elements that are `d` apart.

    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])",
    out: Out::MADE.filled().counted(),
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| frequencies(args, args.int(0)?, false)),
    derivative: Derivative::Composed,
    samples: &["4", "5, 0.5", "3, dtype=torch.float64"],
    errors: &[("4, dtype=torch.int64", "RuntimeError", "rfftfreq requires a floating point or complex dtype")],
    reference: "np.fft.rfftfreq(n, d)",
    ..Row::BASE
};

pub static FFTSHIFT: Row = Row {
    name: "fftshift",
    namespace: "fft",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[1]? dim=None) -> Tensor",
    doc: "The elements with frequency zero moved to the middle.

    >>> torch.fft.fftshift(torch.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| rolled(args, |size| size / 2).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["t(5)", "t(2, 3)", "t(2, 3), 1"],
    errors: &[("t(3), 1", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)")],
    reference: "np.fft.fftshift(self, dim)",
    ..Row::BASE
};

pub static IFFTSHIFT: Row = Row {
    name: "ifftshift",
    namespace: "fft",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[1]? dim=None) -> Tensor",
    doc: "The inverse of `torch.fft.fftshift`.

    >>> torch.fft.ifftshift(torch.tensor([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| rolled(args, |size| (size + 1) / 2).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["t(5)", "t(2, 3)", "t(2, 3), 1"],
    errors: &[("t(3), 1", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)")],
    reference: "np.fft.ifftshift(self, dim)",
    ..Row::BASE
};

fn frequencies(args: &Args, n: i64, whole: bool) -> Result<Output> {
    let options = Options::of(args)?;
    let dtype = options.dtype();
    if !dtype.is_differentiable() {
        return Err(Error::runtime(format!("{} requires a floating point or complex dtype", args.row.python_name())));
    }
    if dtype.is_complex() {
        return Err(Error::unsupported("arange_cpu", dtype));
    }
    let count = if whole { n } else { n / 2 + 1 };
    rushlight_core::layout::checked_numel(&[count as isize])?;
    let places = options.empty(&[count as isize], dtype)?;
    let steps = crate::create::empty(places.sizes(), DType::F64, rushlight_core::Device::Cpu)?;
    let pin = steps.storage().pin()?;
    for at in 0..count {
        let place = if whole && at >= (n + 1) / 2 { at - n } else { at };
        // SAFETY: the tensor is fresh and holds `count` numbers.
        unsafe { pin.as_ptr().cast::<f64>().add(at as usize).write(place as f64) };
    }
    drop(pin);
    crate::copy::copy(&places, &steps)?;
    let factor = 1.0 / (n as f64 * args.float(1)?);
    options.finish((Expr::from(places) * factor).done()?)
}

fn rolled(args: &Args, by: fn(isize) -> isize) -> Result<Tensor> {
    let own = args.tensor(0)?;
    let dims: Ints = match args.optional_ints(1) {
        Some(dims) => dims.into(),
        None => (0..own.rank() as i64).collect(),
    };
    let shifts = dims.iter().map(|&dim| {
        let dim = rushlight_core::layout::wrap_dim(dim, own.rank())?;
        Ok(by(own.sizes().get(dim).copied().unwrap_or(1)) as i64)
    });
    let shifts = shifts.collect::<Result<Ints>>()?;
    ROLL.tensor([own.into(), shifts.into(), dims.into()])
}
