//! Transforms along one dimension.

use rushlight_autograd::Tensor;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{Error, Result};

use super::kernel::{C2C, C2R, R2C};
use super::{COMPLEX_OUT, DTYPES, REAL, REAL_OUT, Scale, promoted, resized};
use crate::autocast::Autocast;
use crate::derive::Derivative;
use crate::expr::Expr;
use crate::op;
use crate::row::{Bad, Row, Run, Variants};
use crate::value::{Args, Ints, Output};

const ERRORS: &[Bad] = &[
    ("t(4), 0", "RuntimeError", "Invalid number of data points (0) specified"),
    ("t(4), None, 3", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 3)"),
    ("t(4), None, -1, 'x'", "RuntimeError", "Invalid normalization mode: \"x\""),
];

macro_rules! transforms {
    ($($row:ident $name:literal $out:ident $dtypes:ident $body:expr; $reference:literal $doc:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            autocast: Autocast::Single,
            namespace: "fft",
            variants: Variants::FUNCTION.union(Variants::OUT),
            signature: "(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
            doc: $doc,
            out: $out,
            dtypes: $dtypes,
            run: Run::Compose(|args| {
                let body: fn(&Args) -> Result<Tensor> = $body;
                body(args).map(Output::Tensor)
            }),
            derivative: Derivative::Composed,
            samples: &["t(5)", "t(4), 6", "t(2, 5, 3), 4, 1", "t(2, 4), None, -1, 'ortho'", "t(2, 4), None, -1, 'forward'"],
            errors: ERRORS,
            reference: $reference,
            ..Row::BASE
        };
    )*};
}

transforms! {
    FFT "fft" COMPLEX_OUT DTYPES |args| complex(args, true);
    "np.fft.fft(self, n, dim, norm)"
    "The discrete Fourier transform along `dim`, cut or continued with zeros to `n` elements.

`norm` says what is divided by `n` ('forward') or its root ('ortho'); 'backward', the default, leaves that to the inverse.

    >>> torch.fft.fft(torch.tensor([1., 1., 1., 1.])).real
    tensor([4., 0., 0., 0.])";
    IFFT "ifft" COMPLEX_OUT DTYPES |args| complex(args, false);
    "np.fft.ifft(self, n, dim, norm)"
    "The inverse of `torch.fft.fft`.

    >>> torch.fft.ifft(torch.tensor([4., 0., 0., 0.])).real
    tensor([1., 1., 1., 1.])";
    RFFT "rfft" COMPLEX_OUT REAL |args| half(args, true, "rfft");
    "np.fft.rfft(self, n, dim, norm)"
    "The first half of the Fourier transform of real numbers; the other half are its conjugates.

    >>> torch.fft.rfft(torch.tensor([1., 1., 1., 1.])).real
    tensor([4., 0., 0.])";
    IRFFT "irfft" REAL_OUT DTYPES |args| real(args, false);
    "np.fft.irfft(self, n, dim, norm)"
    "The inverse of `torch.fft.rfft`, to `n` real numbers, by default an even number.

    >>> torch.fft.irfft(torch.tensor([4., 0., 0.]))
    tensor([1., 1., 1., 1.])";
    HFFT "hfft" REAL_OUT DTYPES |args| real(args, true);
    "np.fft.hfft(self, n, dim, norm)"
    "The Fourier transform of a signal whose second half are the conjugates of the first: `n` real numbers.

    >>> torch.fft.hfft(torch.tensor([1., 1., 1.]))
    tensor([4., 0., 0., 0.])";
    IHFFT "ihfft" COMPLEX_OUT REAL |args| half(args, false, "ihfft");
    "np.fft.ihfft(self, n, dim, norm)"
    "The inverse of `torch.fft.hfft`.

    >>> torch.fft.ihfft(torch.tensor([4., 0., 0., 0.])).real
    tensor([1., 1., 1.])";
}

/// The dimension of a call, of a tensor that has one.
fn axis(args: &Args, own: &Tensor) -> Result<usize> {
    let dim = args.int(2)?;
    if own.rank() == 0 {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions"))
            .hint("x.reshape(1) gives it a dimension."));
    }
    wrap_dim(dim, own.rank())
}

fn one(dim: usize) -> Ints {
    Ints::from_slice(&[dim as i64])
}

fn complex(args: &Args, forward: bool) -> Result<Tensor> {
    // Real numbers are made complex by the transform itself.
    let real = forward && !args.tensor(0)?.dtype().is_complex();
    let own = promoted(args.tensor(0)?, !real)?;
    let dim = axis(args, &own)?;
    let scale = Scale::of(args.optional_str(3), forward)?;
    let length = args.optional_int(1).map_or(own.sizes()[dim], |n| n as isize);
    let own = resized(&own, dim, length)?;
    match real {
        true => op!(R2C, &own, one(dim), scale.number(), false),
        false => op!(C2C, &own, one(dim), scale.number(), forward),
    }
}

fn half(args: &Args, forward: bool, name: &str) -> Result<Tensor> {
    let own = args.tensor(0)?;
    if own.dtype().is_complex() {
        return Err(Error::runtime(format!("{name} expects a real input tensor, but got {}", own.dtype().title())));
    }
    let own = promoted(own, false)?;
    let dim = axis(args, &own)?;
    let scale = Scale::of(args.optional_str(3), forward)?;
    let length = args.optional_int(1).map_or(own.sizes()[dim], |n| n as isize);
    let found = op!(R2C, &resized(&own, dim, length)?, one(dim), scale.number(), true)?;
    if forward { Ok(found) } else { Expr::from(found).conj().done() }
}

fn real(args: &Args, forward: bool) -> Result<Tensor> {
    let own = promoted(args.tensor(0)?, true)?;
    let dim = axis(args, &own)?;
    let scale = Scale::of(args.optional_str(3), forward)?;
    let length = args.optional_int(1).map_or(2 * (own.sizes()[dim] - 1), |n| n as isize);
    super::check_length(length)?;
    let own = resized(&own, dim, length / 2 + 1)?;
    let own = if forward { Expr::from(own).conj().done()? } else { own };
    op!(C2R, &own, one(dim), scale.number(), length as i64)
}
