//! Elements of images moved between channels and spatial dimensions.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{DTypes, Derivative, GradientFormat, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Output, sizes_value};

use crate::view::transpose::permuted;

/// `(.., C, H, W)` with the last three sizes split, permuted, and joined again.
fn rearranged(input: &Tensor, split: &[isize], order: &[usize], joined: &[isize]) -> Result<Tensor> {
    let outer = input.rank() - 3;
    let with = |inner: &[isize]| [&input.sizes()[..outer], inner].concat();
    let apart = op!(crate::view::RESHAPE, input, sizes_value(&with(split)))?;
    let places: Vec<usize> = (0..outer).chain(order.iter().map(|place| outer + place)).collect();
    let moved = op!(crate::view::RESHAPE, &permuted(&apart, &places)?, sizes_value(&with(joined)))?;
    // A factor of one moves nothing, but the result is still a copy.
    let moved = if moved.storage().shares_bytes(input.storage()) {
        op!(crate::convert::CLONE, &moved, "contiguous_format")?
    } else {
        moved
    };
    crate::convert::in_format_of(&moved, input)
}

fn check_image(name: &str, input: &Tensor) -> Result<[isize; 3]> {
    match input.sizes()[..] {
        [.., channels, height, width] => Ok([channels, height, width]),
        _ => Err(Error::runtime(format!(
            "{name} expects input to have at least 3 dimensions, but got input with {} dimension(s)",
            input.rank()
        ))),
    }
}

fn enlarged(size: isize, factor: isize) -> Result<isize> {
    size.checked_mul(factor).ok_or_else(|| Error::runtime("numel: integer multiplication overflow"))
}

fn check_factor(name: &str, word: &str, factor: i64) -> Result<isize> {
    if factor > 0 {
        return Ok(factor as isize);
    }
    Err(Error::runtime(format!("{name} expects a positive {word}, but got {factor}")))
}

#[operator]
pub static PIXEL_SHUFFLE: Operator = Operator {
    name: "pixel_shuffle",
    node: "PixelShuffleBackward0",
    gradient_format: GradientFormat::OfResult,
    namespace: "nn.functional",
    aliases: &["pixel_shuffle"],
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int upscale_factor) -> Tensor",
    doc: "Moves groups of channels to spatial dimensions: `(*, C * r * r, H, W)` becomes `(*, C, H * r, W * r)`.

    >>> torch.nn.functional.pixel_shuffle(torch.tensor([[[1]], [[2]], [[3]], [[4]]]), 2)
    tensor([[[1, 2],
             [3, 4]]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        let [channels, height, width] = check_image("pixel_shuffle", input)?;
        let r = check_factor("pixel_shuffle", "upscale_factor", args.int(UPSCALE_FACTOR)?)?;
        let square = r.checked_mul(r).ok_or_else(|| {
            Error::value(format!("upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor={r}"))
        })?;
        if channels % square != 0 {
            return Err(Error::runtime(format!(
                "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={channels} is not divisible by {square}"
            )));
        }
        let fewer = channels / square;
        let enlarged = [fewer, enlarged(height, r)?, enlarged(width, r)?];
        rearranged(input, &[fewer, r, r, height, width], &[0, 3, 1, 4, 2], &enlarged).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 8, 2, 3), 2", "t(9, 2, 2), 3"],
    errors: &[
        (
            "t(3), 2",
            "RuntimeError",
            "pixel_shuffle expects input to have at least 3 dimensions, but got input with 1 dimension(s)",
        ),
        (
            "t(1, 3, 2, 2), 2",
            "RuntimeError",
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)=3 is not divisible by 4",
        ),
        ("t(1, 4, 2, 2), 0", "RuntimeError", "pixel_shuffle expects a positive upscale_factor, but got 0"),
    ],
    reference: "np.einsum('...cabhw->...chawb', self.reshape(*self.shape[:-3], -1, upscale_factor, upscale_factor, *self.shape[-2:])).reshape(*self.shape[:-3], -1, *(n * upscale_factor for n in self.shape[-2:]))",
    ..Operator::BASE
};

#[operator]
pub static PIXEL_UNSHUFFLE: Operator = Operator {
    name: "pixel_unshuffle",
    node: "PixelUnshuffleBackward0",
    gradient_format: GradientFormat::OfResult,
    namespace: "nn.functional",
    aliases: &["pixel_unshuffle"],
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int downscale_factor) -> Tensor",
    doc: "Moves square blocks of pixels to channels: `(*, C, H * r, W * r)` becomes `(*, C * r * r, H, W)`.

    >>> torch.nn.functional.pixel_unshuffle(torch.tensor([[[1, 2], [3, 4]]]), 2).flatten()
    tensor([1, 2, 3, 4])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        let [channels, height, width] = check_image("pixel_unshuffle", input)?;
        let r = check_factor("pixel_unshuffle", "downscale_factor", args.int(DOWNSCALE_FACTOR)?)?;
        for (name, size, place) in [("height", height, -2), ("width", width, -1)] {
            if size % r != 0 {
                return Err(Error::runtime(format!(
                    "pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({place})={size} is not divisible by {r}"
                )));
            }
        }
        let (h, w) = (height / r, width / r);
        let more = enlarged(enlarged(channels, r)?, r)?;
        rearranged(input, &[channels, h, r, w, r], &[0, 2, 4, 1, 3], &[more, h, w]).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 2, 4, 6), 2", "t(1, 3, 3), 3"],
    errors: &[
        (
            "t(1, 1, 3, 4), 2",
            "RuntimeError",
            "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)=3 is not divisible by 2",
        ),
        (
            "t(1, 1, 4, 3), 2",
            "RuntimeError",
            "pixel_unshuffle expects width to be divisible by downscale_factor, but input.size(-1)=3 is not divisible by 2",
        ),
    ],
    reference: "(lambda r: np.einsum('...chawb->...cabhw', self.reshape(*self.shape[:-2], self.shape[-2] // r, r, self.shape[-1] // r, r)).reshape(*self.shape[:-3], -1, *(n // r for n in self.shape[-2:])))(downscale_factor)",
    ..Operator::BASE
};

#[operator]
pub static CHANNEL_SHUFFLE: Operator = Operator {
    name: "channel_shuffle",
    node: "ChannelShuffleBackward0",
    gradient_format: GradientFormat::OfResult,
    namespace: "nn.functional",
    aliases: &["channel_shuffle"],
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int groups) -> Tensor",
    doc: "Interleaves the channels of `groups` groups of `(N, C, *)`.

    >>> torch.nn.functional.channel_shuffle(torch.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, groups) = (args.tensor(INPUT)?, args.int(GROUPS)?);
        let sizes = input.sizes();
        if sizes.len() <= 2 {
            return Err(Error::runtime(format!(
                "channel_shuffle expects input with > 2 dims, but got input with sizes {}",
                Shape(sizes)
            )));
        }
        if groups <= 0 {
            return Err(Error::runtime(format!(
                "Number of groups to divide channels in must be positive. Value of groups:{groups}"
            )));
        }
        let (channels, groups) = (sizes[1], groups as isize);
        if channels % groups != 0 {
            return Err(Error::runtime(format!(
                "Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
            )));
        }
        if input.numel() == 0 {
            return op!(crate::view::narrow::ALIAS, input).map(Output::Tensor);
        }
        let rest: isize = sizes[2..].iter().product();
        let apart = op!(crate::view::RESHAPE, input, sizes_value(&[sizes[0], groups, channels / groups, rest]))?;
        let moved = op!(crate::view::RESHAPE, &permuted(&apart, &[0, 2, 1, 3])?, sizes_value(sizes))?;
        let shared = moved.storage().same(input.storage());
        let moved = if shared { op!(crate::convert::CLONE, &moved, "contiguous_format")? } else { moved };
        crate::convert::in_format_of(&moved, input).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 6, 2), 3", "t(1, 4, 2, 2), 2"],
    errors: &[
        ("t(2, 3), 2", "RuntimeError", "channel_shuffle expects input with > 2 dims, but got input with sizes [2, 3]"),
        (
            "t(1, 3, 2, 2), 2",
            "RuntimeError",
            "Number of channels must be divisible by groups. Got 3 channels and 2 groups.",
        ),
        (
            "t(1, 4, 2, 2), 0",
            "RuntimeError",
            "Number of groups to divide channels in must be positive. Value of groups:0",
        ),
    ],
    reference: "self.reshape(self.shape[0], groups, -1, *self.shape[2:]).swapaxes(1, 2).reshape(self.shape)",
    ..Operator::BASE
};
