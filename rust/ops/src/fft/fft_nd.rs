//! Transforms along several dimensions.

use rushlight_autograd::Tensor;
use rushlight_core::layout::wrap_dim;
use rushlight_core::{Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, Autocast, Derivative, ErrorInput, Implementation, Operator, Out, Variants, operator,
};
use rushlight_dispatch::value::{Ints, Output};

use super::primitives::{C2C, C2R, R2C};
use super::{COMPLEX_OUT, DTYPES, FftNorm, REAL, REAL_OUT, promoted, resized};
use crate::expr_ext::ExprExt;

const ERRORS: &[ErrorInput] = &[
    ("t(3, 4), (0, 2)", "RuntimeError", "Invalid number of data points (0) specified"),
    ("t(3, 4), None, (0, 0)", "RuntimeError", "FFT dims must be unique"),
    ("t(3, 4), (2, 2), (0,)", "RuntimeError", "When given, dim and shape arguments must have the same length"),
    ("t(3, 4), None, (0, 1), 'x'", "RuntimeError", "Invalid normalization mode: \"x\""),
];

/// The rule of `out=`, whose sentence names the general transform.
macro_rules! named {
    (COMPLEX_OUT $general:literal) => {
        Out { sentences: &[concat!($general, " expects a complex output tensor, but got {Out}")], ..COMPLEX_OUT }
    };
    (REAL_OUT $general:literal) => {
        Out { sentences: &[concat!($general, " expects a floating point output tensor, but got {Out}")], ..REAL_OUT }
    };
}

macro_rules! transforms {
    ($($op:ident $name:literal, $plane:ident $two:literal $out:ident $general:literal $dtypes:ident $body:expr; $reference:literal $reference_two:literal $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            autocast: Autocast::Fp32.on_cpu_alone(),
            namespace: "fft",
            variants: Variants::FUNCTION.union(Variants::OUT),
            signature: "(Tensor self, int[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
            doc: concat!("The transform of `torch.fft.", $doc, "` along several dimensions, by default all of them.

    >>> torch.fft.", $name, "(torch.ones(2, 2)).shape == torch.fft.", $two, "(torch.ones(2, 2)).shape
    True"),
            out: named!($out $general),
            dtypes: $dtypes,
            implementation: Implementation::CompositeImplicit(|args| {
                let body: fn(&Args) -> Result<Tensor> = $body;
                body(args).map(Output::Tensor)
            }),
            derivative: Derivative::CompositeImplicit,
            samples: &["t(3, 4)", "t(3, 4), (5,)", "t(2, 3, 4), (4, 2), (0, 2), 'ortho'", "t(2, 3, 4), None, (1,), 'forward'"],
            errors: ERRORS,
            reference: $reference,
            ..Operator::BASE
        };

        #[operator]
        pub static $plane: Operator = Operator {
            name: $two,
            autocast: Autocast::Fp32.on_cpu_alone(),
            namespace: "fft",
            variants: Variants::FUNCTION.union(Variants::OUT),
            signature: "(Tensor self, int[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
            doc: concat!("The transform of `torch.fft.", $doc, "` along two dimensions.

    >>> torch.fft.", $two, "(torch.ones(2, 2)).shape == torch.fft.", $name, "(torch.ones(2, 2)).shape
    True"),
            out: named!($out $general),
            dtypes: $dtypes,
            implementation: Implementation::CompositeImplicit(|args| {
                let body: fn(&Args) -> Result<Tensor> = $body;
                body(args).map(Output::Tensor)
            }),
            derivative: Derivative::CompositeImplicit,
            samples: &["t(3, 4)", "t(2, 3, 4), (4, 2)", "t(2, 3, 4), None, (0, 2), 'ortho'"],
            errors: ERRORS,
            reference: $reference_two,
            ..Operator::BASE
        };
    )*};
}

transforms! {
    FFTN "fftn", FFT2 "fft2" COMPLEX_OUT "fftn" DTYPES |args| complex(args, true);
    "np.fft.fftn(self, s, dim, norm) if s is None or dim is not None else np.fft.fftn(self, s, range(-len(s), 0), norm)"
    "np.fft.fft2(self, s, dim, norm)" "fft";
    IFFTN "ifftn", IFFT2 "ifft2" COMPLEX_OUT "fftn" DTYPES |args| complex(args, false);
    "np.fft.ifftn(self, s, dim, norm) if s is None or dim is not None else np.fft.ifftn(self, s, range(-len(s), 0), norm)"
    "np.fft.ifft2(self, s, dim, norm)" "ifft";
    RFFTN "rfftn", RFFT2 "rfft2" COMPLEX_OUT "rfftn" REAL |args| half(args, true);
    "np.fft.rfftn(self, s, dim, norm) if s is None or dim is not None else np.fft.rfftn(self, s, range(-len(s), 0), norm)"
    "np.fft.rfft2(self, s, dim, norm)" "rfft";
    IRFFTN "irfftn", IRFFT2 "irfft2" REAL_OUT "irfftn" DTYPES |args| real(args, false);
    "np.fft.irfftn(self, s, dim, norm) if s is None or dim is not None else np.fft.irfftn(self, s, range(-len(s), 0), norm)"
    "np.fft.irfft2(self, s, dim, norm)" "irfft";
    HFFTN "hfftn", HFFT2 "hfft2" REAL_OUT "hfftn" DTYPES |args| real(args, true);
    "" "" "hfft";
    IHFFTN "ihfftn", IHFFT2 "ihfft2" COMPLEX_OUT "ihfftn" REAL |args| half(args, false);
    "" "" "ihfft";
}

/// The dimensions of a call, with their requested lengths (-1: unchanged).
fn transformed_dims(args: &Args, input: &Tensor) -> Result<Vec<(usize, i64)>> {
    use FFTN::*;

    let (lengths, given) = (args.optional_ints(S), args.optional_ints(DIM));
    let rank = input.rank();
    let dims = match (given, lengths) {
        (Some(dims), _) => {
            if let (0, Some(dim)) = (rank, dims.first()) {
                return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions"))
                    .hint("Use x.reshape(1) to add a dimension."));
            }
            let wrapped = dims.iter().map(|&dim| wrap_dim(dim, rank)).collect::<Result<Vec<_>>>()?;
            if wrapped.iter().enumerate().any(|(at, dim)| wrapped[..at].contains(dim)) {
                return Err(Error::runtime("FFT dims must be unique"));
            }
            wrapped
        }
        (None, Some(lengths)) if lengths.len() > rank => {
            return Err(Error::runtime(format!(
                "Got shape with {} values but input tensor only has {rank} dimensions.",
                lengths.len()
            )));
        }
        (None, Some(lengths)) => (rank - lengths.len()..rank).collect(),
        (None, None) => (0..rank).collect(),
    };
    if lengths.is_some_and(|lengths| lengths.len() != dims.len()) {
        return Err(Error::runtime("When given, dim and shape arguments must have the same length"));
    }
    let length = |at: usize| lengths.map_or(-1, |lengths| lengths[at]);
    Ok(dims.into_iter().enumerate().map(|(at, dim)| (dim, length(at))).collect())
}

/// The argument with each of these dimensions at its requested length.
fn shaped(input: Tensor, transformed_dims: &[(usize, i64)]) -> Result<Tensor> {
    transformed_dims.iter().try_fold(input, |input, &(dim, length)| {
        let length = if length == -1 { input.sizes()[dim] } else { length as isize };
        resized(&input, dim, length)
    })
}

fn dims(transformed_dims: &[(usize, i64)]) -> Ints {
    transformed_dims.iter().map(|&(dim, _)| dim as i64).collect()
}

fn check_some(args: &Args, transformed_dims: &[(usize, i64)]) -> Result<()> {
    if transformed_dims.is_empty() {
        let name = args.op.python_name().trim_end_matches(['2', 'n']);
        return Err(Error::runtime(format!("{name}n must transform at least one axis")));
    }
    Ok(())
}

fn complex(args: &Args, forward: bool) -> Result<Tensor> {
    use FFTN::*;

    let input = args.tensor(INPUT)?;
    let transformed_dims = transformed_dims(args, input)?;
    let input = shaped(promoted(input, true)?, &transformed_dims)?;
    let scale = FftNorm::of(args.optional_str(NORM), forward)?;
    op!(C2C, &input, dims(&transformed_dims), scale.number(), forward)
}

fn half(args: &Args, forward: bool) -> Result<Tensor> {
    use FFTN::*;

    let input = args.tensor(INPUT)?;
    if input.dtype().is_complex() {
        let display_name = input.dtype().display_name();
        return Err(Error::runtime(match forward {
            true => format!("rfftn expects a real-valued input tensor, but got {display_name}"),
            false => format!("Only supports floating-point dtypes, but found: {display_name}"),
        }));
    }
    let transformed_dims = transformed_dims(args, input)?;
    check_some(args, &transformed_dims)?;
    let input = shaped(promoted(input, false)?, &transformed_dims)?;
    let scale = FftNorm::of(args.optional_str(NORM), forward)?;
    if forward {
        return op!(R2C, &input, dims(&transformed_dims), scale.number(), true);
    }
    // The inverse of the conjugate along all dimensions but the last: torch's order of steps, which determines the
    // strides.
    let (rest, last) = transformed_dims.split_at(transformed_dims.len() - 1);
    let found = Expr::from(op!(R2C, &input, dims(last), scale.number(), true)?).conj().done()?;
    if rest.is_empty() { Ok(found) } else { op!(C2C, &found, dims(rest), scale.number(), false) }
}

fn real(args: &Args, forward: bool) -> Result<Tensor> {
    use FFTN::*;

    let input = args.tensor(INPUT)?;
    let mut transformed_dims = transformed_dims(args, input)?;
    check_some(args, &transformed_dims)?;
    let Some((last, given)) = transformed_dims.last_mut() else { return Ok(input.clone()) };
    let length = if *given == -1 { 2 * (input.sizes()[*last] as i64 - 1) } else { *given };
    super::check_length(length as isize)?;
    *given = length / 2 + 1;
    let input = shaped(promoted(input, true)?, &transformed_dims)?;
    let scale = FftNorm::of(args.optional_str(NORM), forward)?;
    let input = if forward { Expr::from(input).conj().done()? } else { input };
    op!(C2R, &input, dims(&transformed_dims), scale.number(), length)
}
