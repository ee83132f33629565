//! Padding: a constant, or elements from inside the tensor.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::list;
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Layout, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Autocast, BatchRule, DTypes, Derivative, ExplicitAutograd, Implementation, Kernel, Operator, Saves, TensorSpec,
    Variants, formula, operator,
};
use rushlight_dispatch::value::{Ints, Output, Value};
use rushlight_dispatch::{copy, create, op};

use crate::convert::in_format_of;
use crate::index::index_select::{INDEX_ADD, INDEX_SELECT};

#[operator]
pub static CONSTANT_PAD: Operator = Operator {
    name: "constant_pad_nd",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] pad, Scalar value=0) -> Tensor",
    doc: "A copy padded with one number; `pad` gives two widths for each dimension from the last one on, and a
negative width cuts off.

    >>> torch.constant_pad_nd(torch.tensor([1, 2]), (1, 2), 5)
    tensor([5, 1, 2, 5, 5])",
    dtypes: DTypes::ALL,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            create::check_fits(args.scalar(VALUE)?, input.dtype())?;
            let mut sizes = input.sizes().clone();
            let widths = widths(input, args.ints(PAD)?)?;
            for (size, &(before, after)) in sizes.iter_mut().zip(&widths) {
                let padded = *size + before + after;
                if padded < 0 || *size + before.min(0) + after.min(0) < 0 {
                    return Err(if before.min(0) + *size < 0 || *size + before.min(0) + after.min(0) < 0 {
                        Error::runtime("narrow(): length must be non-negative.")
                    } else {
                        Error::runtime(format!(
                            "The input size {size}, plus negative padding {before} and {after} resulted in a negative output size, which is invalid. Check dimension of your input."
                        ))
                    });
                }
                *size = padded;
            }
            let mut spec = TensorSpec::new(&sizes, input.dtype(), input);
            if widths.iter().any(|&(before, after)| before > 0 || after > 0) {
                return Ok(vec![spec.formatted(input.layout())]);
            }
            // A copy of a part.
            spec.layout.strides = Layout { sizes, ..input.layout().clone() }.preserved_strides();
            Ok(vec![spec])
        },
        |args, results| {
            let (input, whole) = (args.tensor(INPUT)?, &results[0]);
            create::fill(whole, args.scalar(VALUE)?)?;
            let (mut target, mut source) = (whole.layout().clone(), input.layout().clone());
            for (dim, (before, after)) in widths(input, args.ints(PAD)?)?.into_iter().enumerate() {
                let length = source.sizes[dim] + before.min(0) + after.min(0);
                target = target.slice(dim, before.max(0), length, 1);
                source = source.slice(dim, -before.min(0), length, 1);
            }
            copy::copy_views(whole, &target, input, &source)
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        let back: Ints = d.ints(PAD).iter().map(|width| -width).collect();
        d.grad().call(&CONSTANT_PAD, [Value::Ints(back)])
    })]),
    samples: &[
        "t(2, 3), (1, 2)",
        "t(2, 3), (1, 1, 0, 2), 3",
        "t(4), (-1, 2)",
        "t(2, 3), (-1, -1)",
        "t(0, 2), (1, 1, 1, 0)",
    ],
    errors: &[("t(2, 3), (1,)", "RuntimeError", "Length of pad must be even but instead it equals 1")],
    ..Operator::BASE
};

/// The error for a result that no memory holds.
#[cold]
fn too_large(input: &Tensor, pad: &[i64]) -> Error {
    let mut sizes = input.sizes().clone();
    for (at, pair) in pad.chunks_exact(2).enumerate() {
        let dim = sizes.len() - 1 - at;
        let size = sizes[dim] as i128 + i128::from(pair[0]) + i128::from(pair[1]);
        match isize::try_from(size) {
            Ok(size) if size >= 0 => sizes[dim] = size,
            _ => {
                return Error::runtime(format!(
                    "The input size {}, plus negative padding {} and {} resulted in a negative output size, which is invalid. Check dimension {dim} of your input.",
                    sizes[dim], pair[0], pair[1]
                ));
            }
        }
    }
    Error::runtime(format!("Storage size calculation overflowed with sizes={}", Shape(&sizes)))
}

/// The widths before and after each dimension.
fn widths(input: &Tensor, pad: &[i64]) -> Result<Vec<(isize, isize)>> {
    if !pad.len().is_multiple_of(2) {
        return Err(Error::runtime(format!("Length of pad must be even but instead it equals {}", pad.len())));
    }
    let rank = input.rank();
    if pad.len() / 2 > rank {
        return Err(Error::runtime(format!(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {}while the input has {rank}dimensions.",
            pad.len()
        )));
    }
    // Sums of a size and both widths do not overflow.
    if pad.iter().any(|width| width.unsigned_abs() > 1 << 61) {
        return Err(too_large(input, pad));
    }
    let mut widths = vec![(0, 0); rank];
    for (at, pair) in pad.chunks_exact(2).enumerate() {
        widths[rank - 1 - at] = (pair[0] as isize, pair[1] as isize);
    }
    Ok(widths)
}

#[operator]
pub static PAD: Operator = Operator {
    name: "pad",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] pad, str mode='constant', float? value=None) -> Tensor",
    doc: "A copy with padding.

`pad` gives two widths for each dimension from the last one on. Borders hold `value` (mode `constant`), the elements
mirrored (`reflect`), the outermost element (`replicate`), or the elements from the other end (`circular`).

    >>> torch.nn.functional.pad(torch.tensor([[1., 2., 3.]]), (1, 2), mode='reflect')
    tensor([[2., 1., 2., 3., 2., 1.]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, pad, mode) = (args.tensor(INPUT)?, args.ints(PAD)?, args.str(MODE)?);
        if mode != "constant" {
            Mode::named(mode)?;
        }
        if !pad.len().is_multiple_of(2) {
            return Err(Error::runtime("Padding length must be divisible by 2"));
        }
        if pad.len() / 2 > input.rank() {
            return Err(Error::runtime(format!(
                "Padding length should be less than or equal to two times the input dimension but got padding length {} and input of dimension {}",
                pad.len(),
                input.rank()
            )));
        }
        if mode == "constant" {
            return CONSTANT_PAD.call([
                input.into(),
                pad.into(),
                args.optional_scalar(VALUE).unwrap_or(Scalar::ZERO).into(),
            ]);
        }
        if args.optional_scalar(VALUE).is_some_and(|value| !value.is_zero()) {
            return Err(Error::runtime(format!("Padding mode \"{mode}\" doesn't take in value argument")));
        }
        match Mode::named(mode)? {
            Mode::Circular => bordered(input, pad, Mode::Circular).map(Output::Tensor),
            _ => BORDERS.call([input.into(), pad.into(), mode.into()]),
        }
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(2, 3), (1, 2)",
        "t(2, 3, 4), (1, 2), 'reflect'",
        "t(2, 3, 4), (1, 2, 2, 0), 'replicate'",
        "t(2, 3, 4), (1, 2), 'circular'",
    ],
    errors: &[
        ("t(2, 3), (1,)", "RuntimeError", "Padding length must be divisible by 2"),
        ("t(2, 3), (1, 1), 'foo'", "NotImplementedError", "Unrecognised padding mode foo"),
        ("t(1, 4), (-5, 0), 'replicate'", "RuntimeError", "input (W: 4) is too small. Calculated output W: -1"),
        ("t(1, 4), (-2, -2), 'reflect'", "RuntimeError", "input (W: 4) is too small. Calculated output W: 0"),
        (
            "t(1, 4), (2**62, 2**62), 'replicate'",
            "RuntimeError",
            "input (W: 4) is too small. Calculated output W: -9223372036854775804",
        ),
        (
            "t(1, 4, 5), (-3, -2, -2, -2), 'replicate'",
            "RuntimeError",
            "input (H: 4, W: 5 ) is too small. Calculated output H: 0 W: 0",
        ),
        (
            "t(1, 4, 5), (-6, 0, 0, 0), 'replicate'",
            "RuntimeError",
            "Trying to create tensor with negative dimension -1: [1, 4, -1]",
        ),
        (
            "t(1, 4), (2**62, 0), 'reflect'",
            "RuntimeError",
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (4611686018427387904, 0) at dimension 1 of input [1, 4]",
        ),
    ],
    ..Operator::BASE
};

/// torch's padding saves its input for the gradient, so the second gradient of the input is zeros instead of undefined.
#[operator]
pub static BORDERS: Operator = Operator {
    name: "_pad_borders",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] pad, str mode) -> Tensor",
    doc: "A copy padded with elements from inside, mirrored (`reflect`) or the outermost one (`replicate`).

    >>> torch._pad_borders(torch.tensor([[1., 2., 3.]]), (1, 2), 'replicate')
    tensor([[1., 1., 2., 3., 3., 3.]])",
    dtypes: DTypes::ALL,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let (input, pad) = (args.tensor(INPUT)?, args.ints(PAD)?);
        let result = bordered(input, pad, Mode::named(args.str(MODE)?)?)?;
        let images = input.rank() == pad.len() / 2 + 2;
        if images { in_format_of(&result, input) } else { Ok(result) }.map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| match d.input(INPUT).done() {
        Ok(own) => d.grad().call(&BORDERS_BACK, [own.into(), d.args.value(PAD).clone(), d.args.value(MODE).clone()]),
        Err(error) => Expr::Failed(error),
    })]),
    samples: &["t(2, 3, 4), (1, 2), 'reflect'", "t(2, 3, 4), (1, 2, 2, 0), 'replicate'"],
    ..Operator::BASE
};

#[operator]
pub static BORDERS_BACK: Operator = Operator {
    name: "_pad_borders_back",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor like, int[] pad, str mode) -> Tensor",
    doc: "The padding of `self` added to the elements from which it came, in the shape of `like`.

    >>> torch._pad_borders_back(torch.ones(1, 6), torch.ones(1, 3), (1, 2), 'replicate')
    tensor([[2., 1., 3.]])",
    dtypes: DTypes::INEXACT,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let mode = Mode::named(args.str(MODE)?)?;
        let (like, pad) = (args.tensor(LIKE)?, args.ints(PAD)?);
        let result = folded(args.tensor(INPUT)?, like, pad, mode)?;
        let images = like.rank() == pad.len() / 2 + 2;
        if images { in_format_of(&result, like) } else { Ok(result) }.map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| {
            d.grad().call(&BORDERS, [d.args.value(PAD).clone(), d.args.value(MODE).clone()])
        }),
        formula(LIKE, Saves::NOTHING, |d| crate::nn::zeros_like_input(d, LIKE)),
    ]),
    samples: &["t(2, 3, 7), t(2, 3, 4), (1, 2), 'reflect'", "t(2, 5, 7), t(2, 3, 4), (1, 2, 2, 0), 'replicate'"],
    ..Operator::BASE
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Reflect,
    Replicate,
    Circular,
}

impl Mode {
    fn named(name: &str) -> Result<Mode> {
        Ok(match name {
            "reflect" => Mode::Reflect,
            "replicate" => Mode::Replicate,
            "circular" => Mode::Circular,
            _ => {
                return Err(Error::not_implemented(format!("Unrecognised padding mode {name}"))
                    .hint("mode must be 'constant', 'reflect', 'replicate' or 'circular'."));
            }
        })
    }

    /// The index of the source element for `at`, which may lie outside `0..size`.
    fn source(self, at: isize, size: isize) -> isize {
        match self {
            Mode::Replicate => at.clamp(0, size - 1),
            Mode::Circular => at.rem_euclid(size.max(1)),
            Mode::Reflect if at < 0 => -at,
            Mode::Reflect if at >= size => 2 * (size - 1) - at,
            Mode::Reflect => at,
        }
    }
}

/// Padding with elements from inside, one dimension after the other.
fn bordered(input: &Tensor, pad: &[i64], mode: Mode) -> Result<Tensor> {
    let mut whole = input.clone();
    for (dim, places) in sources(input, pad, mode)? {
        let places = crate::convert::to_device(&create::from_slice(&places)?, input.device())?;
        whole = op!(INDEX_SELECT, whole, dim, places)?;
    }
    Ok(if whole.ptr_eq(input) { op!(crate::convert::CLONE, input, "contiguous_format")? } else { whole })
}

/// The gradient: the padding's elements are added to the elements from which they came.
fn folded(grad: &Tensor, input: &Tensor, pad: &[i64], mode: Mode) -> Result<Tensor> {
    let sources = sources(input, pad, mode)?;
    let mut padded = input.sizes().clone();
    for (dim, places) in &sources {
        padded[*dim] = places.len() as isize;
    }
    if *grad.sizes() != padded {
        return Err(Error::runtime(format!("expected a gradient of {}, got {}", Shape(&padded), Shape(grad.sizes()))));
    }
    let mut whole = grad.clone();
    for (dim, places) in sources.into_iter().rev() {
        let mut sizes = whole.sizes().clone();
        sizes[dim] = input.sizes()[dim];
        let zeros = create::zeros(&sizes, whole.dtype(), whole.device())?;
        let places = crate::convert::to_device(&create::from_slice(&places)?, grad.device())?;
        whole = op!(INDEX_ADD, zeros, dim, places, whole)?;
    }
    Ok(if whole.ptr_eq(grad) { op!(crate::convert::CLONE, grad)? } else { whole })
}

/// Refuses widths that mirror too much or leave nothing, in torch's words: a result whose sizes are all below 1 is "too small"
/// (one of a single padded dimension already at 0), and another size below 0 "negative". As in torch, a sum of more than 64 bits
/// wraps around to a negative one here.
fn check_border_sizes(input: &Tensor, pad: &[i64], mode: Mode) -> Result<()> {
    let padded = pad.len() / 2;
    let mut sizes: Vec<i64> = input.sizes().iter().map(|&size| size as i64).collect();
    for (at, pair) in pad.chunks_exact(2).enumerate() {
        let dim = input.rank() - 1 - at;
        let (before, after) = (pair[0], pair[1]);
        if mode == Mode::Reflect && (before >= sizes[dim] || after >= sizes[dim]) {
            // torch counts the widths from the last dimension.
            return Err(Error::runtime(format!(
                "Argument #{}: Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) at dimension {dim} of input {}",
                2 + 2 * (input.rank() - dim),
                Shape(input.sizes())
            )));
        }
        sizes[dim] = sizes[dim].wrapping_add(before).wrapping_add(after);
    }
    let from = input.rank() - padded;
    let named = |sizes: &[i64], separator: &str| {
        let letters = "DHW".chars().skip(3 - padded);
        let parts: Vec<String> = letters.zip(sizes).map(|(letter, size)| format!("{letter}: {size}")).collect();
        parts.join(separator)
    };
    if sizes[from..].iter().all(|&size| size < 1) {
        let given: Vec<i64> = input.sizes()[from..].iter().map(|&size| size as i64).collect();
        return Err(Error::runtime(format!(
            "input ({}{}) is too small. Calculated output {}",
            named(&given, ", "),
            if padded == 2 && mode == Mode::Replicate { " " } else { "" },
            named(&sizes[from..], " ")
        ))
        .hint("A negative width cuts elements off; at least one must be left."));
    }
    match sizes.iter().find(|&&size| size < 0) {
        Some(size) => Err(Error::runtime(format!("Trying to create tensor with negative dimension {size}: {sizes:?}"))
            .hint("A negative width cuts off at most the elements that the dimension has.")),
        None => Ok(()),
    }
}

/// For each padded dimension, the indices of the source elements along it.
fn sources(input: &Tensor, pad: &[i64], mode: Mode) -> Result<Vec<(usize, Vec<i64>)>> {
    let padded = pad.len() / 2;
    if !(1..=3).contains(&padded) || input.rank() < padded + 1 || input.rank() > padded + 2 {
        return Err(Error::not_implemented(format!(
            "Padding size {} is not supported for {}D input tensor.\nSupported combinations for non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)",
            pad.len(),
            input.rank()
        )));
    }
    // Only a batch may be empty.
    let batch = usize::from(input.rank() == padded + 2);
    if mode != Mode::Circular && input.sizes()[batch..].contains(&0) {
        return Err(Error::runtime(format!(
            "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {}",
            padded + 1,
            padded + 2,
            Shape(input.sizes())
        )));
    }
    if mode != Mode::Circular {
        check_border_sizes(input, pad, mode)?;
    }
    let wraps_again = |(at, pair): (usize, &[i64])| {
        let size = input.sizes()[input.rank() - 1 - at] as i64;
        pair.iter().any(|&width| width > size)
    };
    if mode == Mode::Circular && pad.chunks_exact(2).enumerate().any(wraps_again) {
        return Err(Error::runtime("Padding value causes wrapping around more than once."));
    }
    let mut found = Vec::new();
    for (dim, (before, after)) in widths(input, pad)?.into_iter().enumerate() {
        let size = input.sizes()[dim];
        if (before, after) == (0, 0) {
            continue;
        }
        if size + before + after < 0 {
            return Err(Error::runtime("Negative padding value is resulting in an empty dimension"));
        }
        let (low, high) = match mode {
            // The elements that a negative width removes do not come back at the other end.
            Mode::Circular => (-before.min(0), size + after.min(0)),
            _ => (0, size),
        };
        let place = |at: isize| low + mode.source(at - low, high - low);
        let mut places = list((before + size + after) as usize)?;
        places.extend((-before..size + after).map(|at| place(at) as i64));
        found.push((dim, places));
    }
    Ok(found)
}
