//! Window functions of signal processing.

use std::f64::consts::TAU;

use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::{Element, Error, Result, Scalar, dispatch};
use rushlight_dispatch::create;
use rushlight_dispatch::operator::{Args, DTypes, Implementation, Operator, Out, Variants, operator};
use rushlight_dispatch::value::Output;
use rushlight_simd::math::bessel::i0;

use super::constant::NO_INPUT;
use super::range::generate;
use super::{Options, factory, strided_only};

const BASE: Operator = Operator {
    variants: Variants::FUNCTION,
    out: Out::FACTORY,
    dtypes: DTypes::FLOATS,
    derivative: NO_INPUT,
    ..Operator::BASE
};

/// Fills a window with `shape(part)`, where `part` runs from 0 at the first element to 1 at the last. A periodic window
/// is one with an additional element, which is then dropped.
fn window(args: &Args, shape: impl Fn(f64) -> f64 + Sync) -> Result<Output> {
    use HANN::*;

    let (options, name) = (Options::of_any_layout(args)?, args.op.name);
    if let Some(layout) = options.sparse_layout() {
        return Err(match layout {
            "sparse_coo" => Error::runtime(format!(
                "{name} is not implemented for sparse types, got: {}",
                options_text(&options, if name == "hann_window" { " (default)" } else { "" }, "Sparse")
            ))
            .hint(format!("Convert a strided window: torch.{name}(..).to_sparse().")),
            _ => strided_only(args, &options, layout),
        });
    }
    let (length, periodic) = (args.int(WINDOW_LENGTH)?, args.bool(PERIODIC)?);
    if length == i64::MAX && periodic {
        // The window of one element more has no length.
        return Err(Error::runtime("upper bound and lower bound inconsistent with step sign"));
    }
    if length < 0 {
        return Err(Error::runtime(format!("{name} requires non-negative window_length, got window_length={length}")));
    }
    let dtype = options.dtype();
    if !dtype.is_floating() && !dtype.is_complex() {
        let layout = if options.layout.is_some() { "Strided" } else { "Strided (default)" };
        return Err(Error::runtime(format!(
            "{name} expects floating point dtypes, got: {}",
            options_text(&options, "", layout)
        )));
    }
    let tensor = options.empty(&[length as isize], dtype)?;
    let last = (length as f64 - 1.0 + f64::from(u8::from(periodic))).max(1.0);
    if length <= 1 {
        create::fill(&tensor, Scalar::ONE)?;
        return options.finish(tensor);
    }
    dispatch!(dtype, T in [f16_, bf16_, f32, f64] => {
        generate::<T>(&tensor, |place| T::from_scalar(Scalar::Float(shape(place as f64 / last))))?;
    }, else => return Err(Error::unsupported("arange_cpu", dtype)));
    options.finish(tensor)
}

/// The options of a call as torch prints them. `default` is behind the dtype of a call that asks for none.
fn options_text(options: &Options, default: &str, layout: &str) -> String {
    let default = if options.dtype.is_some() { "" } else { default };
    format!(
        "TensorOptions(dtype={}{default}, device={}, layout={layout}, requires_grad=false (default), pinned_memory=false, memory_format=(nullopt))",
        options.dtype().c_name(),
        options.device()
    )
}

macro_rules! windows {
    ($($op:ident $name:literal $formula:literal, $shape:expr, $values:literal, $reference:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            signature: factory!("int window_length, bool periodic=True, *"),
            doc: concat!(
                "A window of `window_length` numbers; a periodic one is one period without the repeated first number.\n\n    out[n] = ",
                $formula,
                ", with N the length less one, or the length of a periodic window\n\n    >>> torch.",
                $name,
                "(4)[1:]\n    ",
                $values
            ),
            implementation: Implementation::CompositeImplicit(|args| window(args, $shape)),
            samples: &["5", "4, False", "1", "0"],
            errors: &[(
                "-1",
                "RuntimeError",
                concat!($name, " requires non-negative window_length, got window_length=-1"),
            )],
            reference: concat!(
                "(lambda n: np.ones(window_length) if window_length < 2 else ",
                $reference,
                ")(np.arange(window_length) / max(window_length - 1 + periodic, 1))"
            ),
            ..BASE
        };
    )*};
}

windows! {
    HANN "hann_window" "0.5 - 0.5 * cos(2 * pi * n / N)", |part| 0.5 - 0.5 * (TAU * part).cos(),
        "tensor([0.5000, 1.0000, 0.5000])", "0.5 - 0.5 * np.cos(2 * np.pi * n)";
    BLACKMAN "blackman_window" "0.42 - 0.5 * cos(2 * pi * n / N) + 0.08 * cos(4 * pi * n / N)",
        |part| 0.42 - 0.5 * (TAU * part).cos() + 0.08 * (2.0 * TAU * part).cos(),
        "tensor([0.3400, 1.0000, 0.3400])", "0.42 - 0.5 * np.cos(2 * np.pi * n) + 0.08 * np.cos(4 * np.pi * n)";
    BARTLETT "bartlett_window" "1 - abs(2 * n / N - 1)", |part| 1.0 - (2.0 * part - 1.0).abs(),
        "tensor([0.5000, 1.0000, 0.5000])", "1 - np.abs(2 * n - 1)";
}

#[operator]
pub static HAMMING: Operator = Operator {
    name: "hamming_window",
    signature: factory!("int window_length, bool periodic=True, float alpha=0.54, float beta=0.46, *"),
    doc: "A window of `window_length` numbers; a periodic one is one period without the repeated first number.

    out[n] = alpha - beta * cos(2 * pi * n / N), with N the length less one, or the length of a periodic window

    >>> torch.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])",
    implementation: Implementation::CompositeImplicit(|args| {
        let (alpha, beta) = (args.float(ALPHA)?, args.float(BETA)?);
        window(args, |part| alpha - beta * (TAU * part).cos())
    }),
    samples: &["5", "4, False", "4, True, 0.5, 0.5", "1"],
    errors: &[("-1", "RuntimeError", "hamming_window requires non-negative window_length, got window_length=-1")],
    reference: "(lambda n: np.ones(window_length) if window_length < 2 else alpha - beta * np.cos(2 * np.pi * n))(np.arange(window_length) / max(window_length - 1 + periodic, 1))",
    ..BASE
};

#[operator]
pub static KAISER: Operator = Operator {
    name: "kaiser_window",
    signature: factory!("int window_length, bool periodic=True, float beta=12.0, *"),
    doc: "A window of `window_length` numbers; a periodic one is one period without the repeated first number.

    out[n] = i0(beta * sqrt(1 - (2 * n / N - 1) ** 2)) / i0(beta), with N the length less one, or the length of a periodic window

    >>> torch.kaiser_window(4, True, 0.0)
    tensor([1., 1., 1., 1.])",
    implementation: Implementation::CompositeImplicit(|args| {
        let beta = args.float(BETA)?;
        window(args, |part| i0(beta * (1.0 - (2.0 * part - 1.0).powi(2)).max(0.0).sqrt()) / i0(beta))
    }),
    samples: &["5", "4, False", "4, True, 2.0", "1"],
    errors: &[("-1", "RuntimeError", "kaiser_window requires non-negative window_length, got window_length=-1")],
    reference: "(lambda n: np.ones(window_length) if window_length < 2 else np.i0(beta * np.sqrt(1 - (2 * n - 1) ** 2)) / np.i0(beta))(np.arange(window_length) / max(window_length - 1 + periodic, 1))",
    ..BASE
};
