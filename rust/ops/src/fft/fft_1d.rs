//! Transforms along one dimension.

use rushlight_autograd::Tensor;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{DType, Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, Autocast, Derivative, ErrorInput, Implementation, Operator, Variants, operator,
};
use rushlight_dispatch::value::{Ints, Output};

use super::primitives::{C2C, C2R, R2C};
use super::{COMPLEX_OUT, DTYPES, FftNorm, REAL, REAL_OUT, promoted, resized};
use crate::expr_ext::ExprExt;

const ERRORS: &[ErrorInput] = &[
    ("t(4), 0", "RuntimeError", "Invalid number of data points (0) specified"),
    ("t(4), None, 3", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 3)"),
    ("t(4), None, -1, 'x'", "RuntimeError", "Invalid normalization mode: \"x\""),
];

macro_rules! transforms {
    ($($op:ident $name:literal $out:ident $dtypes:ident $body:expr; $reference:literal $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            autocast: Autocast::Fp32.on_cpu_alone(),
            namespace: "fft",
            variants: Variants::FUNCTION.union(Variants::OUT),
            signature: "(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
            doc: $doc,
            out: $out.known(known),
            dtypes: $dtypes,
            implementation: Implementation::CompositeImplicit(|args| {
                let body: fn(&Args) -> Result<Tensor> = $body;
                body(args).map(Output::Tensor)
            }),
            derivative: Derivative::CompositeImplicit,
            samples: &["t(5)", "t(4), 6", "t(2, 5, 3), 4, 1", "t(2, 4), None, -1, 'ortho'", "t(2, 4), None, -1, 'forward'"],
            errors: ERRORS,
            reference: $reference,
            ..Operator::BASE
        };
    )*};
}

transforms! {
    FFT "fft" COMPLEX_OUT DTYPES |args| complex(args, true);
    "np.fft.fft(self, n, dim, norm)"
    "The discrete Fourier transform along `dim`, truncated or zero-padded to `n` elements.

`norm` selects the normalisation: 'forward' divides by `n`, 'ortho' by its root; 'backward', the default, divides in the inverse.

    >>> torch.fft.fft(torch.tensor([1., 1., 1., 1.])).real
    tensor([4., 0., 0., 0.])";
    IFFT "ifft" COMPLEX_OUT DTYPES |args| complex(args, false);
    "np.fft.ifft(self, n, dim, norm)"
    "The inverse of `torch.fft.fft`.

    >>> torch.fft.ifft(torch.tensor([4., 0., 0., 0.])).real
    tensor([1., 1., 1., 1.])";
    RFFT "rfft" COMPLEX_OUT REAL |args| half(args, true, "rfft");
    "np.fft.rfft(self, n, dim, norm)"
    "The first half of the Fourier transform of real numbers; the other half is its conjugate.

    >>> torch.fft.rfft(torch.tensor([1., 1., 1., 1.])).real
    tensor([4., 0., 0.])";
    IRFFT "irfft" REAL_OUT DTYPES |args| real(args, false);
    "np.fft.irfft(self, n, dim, norm)"
    "The inverse of `torch.fft.rfft`, to `n` real numbers, by default an even number.

    >>> torch.fft.irfft(torch.tensor([4., 0., 0.]))
    tensor([1., 1., 1., 1.])";
    HFFT "hfft" REAL_OUT DTYPES |args| real(args, true);
    "np.fft.hfft(self, n, dim, norm)"
    "The Fourier transform of a signal whose second half is the conjugate of the first: `n` real numbers.

    >>> torch.fft.hfft(torch.tensor([1., 1., 1.]))
    tensor([4., 0., 0., 0.])";
    IHFFT "ihfft" COMPLEX_OUT REAL |args| half(args, false, "ihfft");
    "np.fft.ihfft(self, n, dim, norm)"
    "The inverse of `torch.fft.hfft`.

    >>> torch.fft.ihfft(torch.tensor([4., 0., 0., 0.])).real
    tensor([1., 1., 1.])";
}

/// A dtype that the rule of `out=` compares with the target's before anything is computed: only the kind counts.
fn known(args: &Args) -> Option<DType> {
    let is_real = matches!(args.op.python_name(), "irfft" | "hfft");
    Some(if is_real { DType::F64 } else { DType::C128 })
}

/// The dimension of a call; the tensor must have one.
fn axis(args: &Args, input: &Tensor) -> Result<usize> {
    let dim = args.int(FFT::DIM)?;
    if input.rank() == 0 {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions"))
            .hint("Use x.reshape(1) to add a dimension."));
    }
    wrap_dim(dim, input.rank())
}

fn one(dim: usize) -> Ints {
    Ints::from_slice(&[dim as i64])
}

fn complex(args: &Args, forward: bool) -> Result<Tensor> {
    use FFT::*;

    // The transform itself converts real numbers to complex.
    let real = forward && !args.tensor(INPUT)?.dtype().is_complex();
    let input = promoted(args.tensor(INPUT)?, !real)?;
    let dim = axis(args, &input)?;
    let length = args.optional_int(N).map_or(input.sizes()[dim], |n| n as isize);
    let input = resized(&input, dim, length)?;
    let scale = FftNorm::of(args.optional_str(NORM), forward)?;
    match real {
        true => op!(R2C, &input, one(dim), scale.number(), false),
        false => op!(C2C, &input, one(dim), scale.number(), forward),
    }
}

fn half(args: &Args, forward: bool, name: &str) -> Result<Tensor> {
    use FFT::*;

    let input = args.tensor(INPUT)?;
    if input.dtype().is_complex() {
        return Err(Error::runtime(format!(
            "{name} expects a real input tensor, but got {}",
            input.dtype().display_name()
        )));
    }
    let input = promoted(input, false)?;
    let dim = axis(args, &input)?;
    let length = args.optional_int(N).map_or(input.sizes()[dim], |n| n as isize);
    let input = resized(&input, dim, length)?;
    let scale = FftNorm::of(args.optional_str(NORM), forward)?;
    let found = op!(R2C, &input, one(dim), scale.number(), true)?;
    if forward { Ok(found) } else { Expr::from(found).conj().done() }
}

fn real(args: &Args, forward: bool) -> Result<Tensor> {
    use FFT::*;

    let input = promoted(args.tensor(INPUT)?, true)?;
    let dim = axis(args, &input)?;
    let length = args.optional_int(N).map_or(2 * (input.sizes()[dim] - 1), |n| n as isize);
    super::check_length(length)?;
    let input = resized(&input, dim, length / 2 + 1)?;
    let scale = FftNorm::of(args.optional_str(NORM), forward)?;
    let input = if forward { Expr::from(input).conj().done()? } else { input };
    op!(C2R, &input, one(dim), scale.number(), length as i64)
}
