//! Convolutions and their transposes: the operators of torch, from `params`, the checked arguments of a call.
//!
//! Three private operators compute (`primitives`): the convolution, the gradient of its input (which is also the transposed
//! convolution) and the gradient of its weight. The derivative of each consists of the other two, so gradients of any order
//! come out of them. Their `padding=` has the sides before all dimensions, then those after, which may be negative if the last
//! elements are not used.

mod by_cudnn;
mod on_cuda;
mod output_size;
mod params;
mod primitives;
mod space;

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::{Error, Result, window};
use rushlight_dispatch::operator::{Args, Autocast, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Ints, Output};
use smallvec::SmallVec;

use output_size::zero_dilation;
use params::{ConvParams, Positions, check_dtypes, narrow, spread};
use primitives::ACCEPTED;
pub use primitives::{CONV, CONV_INPUT, CONV_WEIGHT};

const FORWARD: Positions = {
    use CONV1D::*;
    Positions {
        input: INPUT,
        weight: WEIGHT,
        bias: BIAS,
        stride: STRIDE,
        padding: PADDING,
        dilation: DILATION,
        groups: GROUPS,
    }
};
const TRANSPOSED: Positions = {
    use CONV_TRANSPOSE1D::*;
    Positions {
        input: INPUT,
        weight: WEIGHT,
        bias: BIAS,
        stride: STRIDE,
        padding: PADDING,
        dilation: DILATION,
        groups: GROUPS,
    }
};

fn convolution(args: &Args, dims: usize) -> Result<Output> {
    use CONV1D::*;

    let params = ConvParams::read(args, dims, &FORWARD, false)?;
    let weight = args.tensor(WEIGHT)?;
    params.check_fits(weight)?;
    let bias = check_dtypes(&params, weight, args.optional_tensor(BIAS), false)?;
    params.check_elements(weight, false)?;
    let bias = bias.as_ref();
    if params.input.sizes()[1] == 0 {
        return params.without_channels(weight, bias);
    }
    let result = CONV.tensor([
        (&params.input).into(),
        weight.into(),
        bias.into(),
        params.stride.clone().into(),
        params.padding.clone().into(),
        params.dilation.clone().into(),
        params.groups.into(),
    ])?;
    params.finish(result)
}

fn transposed(args: &Args, dims: usize) -> Result<Output> {
    use CONV_TRANSPOSE1D::*;

    let mut params = ConvParams::read(args, dims, &TRANSPOSED, true)?;
    let weight = args.tensor(WEIGHT)?;
    let extra = spread(args, OUTPUT_PADDING, dims, "output_padding")?;
    check_transposed(&params, &extra, dims)?;
    let mut size = Ints::from_slice(&[params.input.sizes()[0] as i64, weight.sizes()[1] as i64 * params.groups]);
    // The distance from the first window's begin to the last one's end, and how much of it remains, including the
    // additional part.
    let whole: SmallVec<[i128; 3]> = (0..dims)
        .map(|dim| {
            let [count, kernel] = [&params.input, weight].map(|tensor| tensor.sizes()[2 + dim] as i64);
            window::span(count, kernel, params.dilation[dim], params.stride[dim])
        })
        .collect();
    let left = |dim: usize| whole[dim] + i128::from(extra[dim]) - 2 * i128::from(params.padding[dim]);
    let own: SmallVec<[i128; 3]> = (0..dims).map(left).collect();
    if own.iter().any(|&own| own < 0 || own == 0 && params.input.numel() > 0) {
        return Err(no_output(&params.input, &own));
    }
    for dim in 0..dims {
        // The part behind the last window.
        let behind = whole[dim] - own[dim] - i128::from(params.padding[dim]);
        params.padding[dims + dim] = narrow(behind)?;
        size.push(narrow(own[dim])?);
    }
    let bias = check_dtypes(&params, weight, args.optional_tensor(BIAS), true)?;
    params.check_elements(weight, true)?;
    let result = CONV_INPUT.tensor([
        (&params.input).into(),
        weight.into(),
        size.into(),
        params.stride.clone().into(),
        params.padding.clone().into(),
        params.dilation.clone().into(),
        params.groups.into(),
        bias.as_ref().into(),
    ])?;
    params.finish(result)
}

/// Checks the steps of a transposed convolution, and the part that is added behind the last window.
fn check_transposed(params: &ConvParams, extra: &[i64], dims: usize) -> Result<()> {
    if extra.iter().any(|&n| n < 0) {
        return Err(Error::runtime("negative output_padding is not supported"));
    }
    // torch treats a sequence as an image of one row.
    let (axes, row) = (&["depth", "height", "width"][3 - dims.max(2)..], dims == 1);
    let list = |name: &str, values: &[i64], of_row: i64| -> String {
        let values = row.then_some(&of_row).into_iter().chain(values);
        axes.iter().zip(values).map(|(axis, value)| format!(" {name}_{axis}: {value}")).collect()
    };
    // torch's kernel has steps of 32 bits, which no result that fits in memory exceeds.
    let [stride, dilation] = [&params.stride, &params.dilation]
        .map(|steps| steps.iter().map(|&step| i64::from(step as i32)).collect::<Ints>());
    if stride.iter().any(|&step| step <= 0) {
        return Err(Error::runtime(format!(
            "stride should be greater than zero, but got{}",
            list("stride", &stride, 1)
        ))
        .hint(format!("stride is {}; it must be less than 2**31.", Shape(&to_dims(&params.stride)))));
    }
    if dilation.iter().any(|&step| step <= 0) {
        return Err(zero_dilation(&dilation, true));
    }
    let wide = |dim: usize| extra[dim] >= params.stride[dim] && extra[dim] >= params.dilation[dim];
    if params.input.sizes()[0] > 0 && (0..dims).any(wide) {
        return Err(Error::runtime(format!(
            "output padding must be smaller than either stride or dilation, but got{}{}{}",
            list("output_padding", extra, 0),
            list("stride", &params.stride, 1),
            list("dilation", &params.dilation, 1)
        )));
    }
    Ok(())
}

/// torch's error for a transposed convolution without a result, which treats a sequence as an image of one row.
fn no_output(input: &Tensor, output: &[i128]) -> Error {
    let listed = |sizes: &mut dyn Iterator<Item = i128>| {
        let row = (output.len() == 1).then_some(1);
        row.into_iter().chain(sizes).map(|size| size.to_string()).collect::<Vec<_>>().join(" x ")
    };
    Error::runtime(format!(
        "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size is too small",
        listed(&mut input.sizes()[2..].iter().map(|&size| size as i128)),
        listed(&mut output.iter().copied())
    ))
    .hint("Pad the input, or use a larger one.")
}

/// The public operators, which differ in the number of dimensions.
macro_rules! public {
    ($($op:ident $words:ident $name:literal $named:literal $alias:literal $dims:literal $sample:expr, $more:expr, $errors:expr, $more_errors:expr, $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            autocast: Autocast::LowerPrecision.everywhere(),
            aliases: &[$alias],
            variants: Variants::FUNCTION,
            signature: "(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] dilation=1, int groups=1) -> Tensor",
            doc: $doc,
            dtypes: ACCEPTED,
            implementation: Implementation::CompositeImplicit(|args| convolution(args, $dims)),
            derivative: Derivative::CompositeImplicit,
            samples: $sample,
            errors: $errors,
            ..Operator::BASE
        };
        #[operator]
        pub static $words: Operator = Operator {
            name: $named,
            autocast: Autocast::LowerPrecision.everywhere(),
            aliases: &[$alias],
            variants: Variants::FUNCTION,
            signature: "(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str padding='valid', int[1] dilation=1, int groups=1) -> Tensor",
            doc: $doc,
            dtypes: ACCEPTED,
            implementation: Implementation::CompositeImplicit(|args| convolution(args, $dims)),
            derivative: Derivative::CompositeImplicit,
            samples: $more,
            errors: $more_errors,
            ..Operator::BASE
        };
    )*};
}

public! {
    CONV1D CONV1D_WORDS "conv1d" "conv1d.padding" "nn.functional.conv1d" 1
        &["t(2, 2, 6), t(3, 2, 3), t(3)", "t(4, 6), t(4, 2, 3), stride=2, padding=1, dilation=2, groups=2"],
        &["t(2, 2, 6), t(3, 2, 4), t(3), padding='same'"],
        &[
            ("t(1, 2, 5), t(3, 3, 2)", "RuntimeError", "Given groups=1, weight of size [3, 3, 2], expected input[1, 2, 5] to have 3 channels, but got 2 channels instead"),
            ("t(1, 2, 5), t(3, 2, 2), t(2)", "RuntimeError", "Given weight of size [3, 2, 2], expected bias to be 1-dimensional with 3 elements, but got bias of size [2] instead"),
            ("t(1, 2, 5), t(3, 2, 2), stride=0", "RuntimeError", "non-positive stride is not supported"),
        ],
        &[("t(1, 2, 5), t(3, 2, 2), padding='same', stride=2", "RuntimeError", "padding='same' is not supported for strided convolutions")],
        "The convolution (cross-correlation) of sequences `(N, C, L)` or `(C, L)` with filters `(F, C / groups, K)`.

`padding` may be `'valid'` or `'same'`.

    >>> torch.conv1d(torch.tensor([[1., 2., 3., 4.]]), torch.tensor([[[1., 1.]]]))
    tensor([[3., 5., 7.]])";
    CONV2D CONV2D_WORDS "conv2d" "conv2d.padding" "nn.functional.conv2d" 2
        &["t(2, 2, 5, 6), t(3, 2, 3, 2), t(3)", "t(4, 5, 5), t(4, 2, 3, 3), stride=2, padding=(1, 0), dilation=2, groups=2", "t(2, 3, 4, 4), t(2, 3, 1, 1)"],
        &["t(2, 2, 6, 5), t(3, 2, 4, 3), t(3), padding='same'"],
        &[("t(1, 2, 5, 5), t(3, 3, 2, 2)", "RuntimeError", "Given groups=1, weight of size [3, 3, 2, 2], expected input[1, 2, 5, 5] to have 3 channels, but got 2 channels instead")],
        &[("t(1, 2, 5, 5), t(3, 2, 2, 2), padding='some'", "RuntimeError", "Invalid padding string: 'some'")],
        "The convolution (cross-correlation) of images `(N, C, H, W)` or `(C, H, W)` with filters `(F, C / groups, KH, KW)`.

`padding` may be `'valid'` or `'same'`.

    >>> torch.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])";
    CONV3D CONV3D_WORDS "conv3d" "conv3d.padding" "nn.functional.conv3d" 3
        &["t(1, 2, 3, 4, 3), t(2, 2, 2, 2, 2), t(2)"],
        &["t(1, 2, 3, 4, 3), t(2, 2, 2, 3, 2), t(2), padding='same'"],
        &[("t(1, 2, 3, 3, 3), t(3, 2, 4, 4, 4)", "RuntimeError", "Calculated padded input size per channel: (3 x 3 x 3). Kernel size: (4 x 4 x 4). Kernel size can't be greater than actual input size")],
        &[("t(1, 2, 5, 5, 5), t(3, 2, 2, 2, 2), padding='some'", "RuntimeError", "Invalid padding string: 'some'")],
        "The convolution (cross-correlation) of volumes `(N, C, D, H, W)` or `(C, D, H, W)` with filters `(F, C / groups, KD, KH, KW)`.

    >>> torch.conv3d(torch.ones(1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2))
    tensor([[[[8.]]]])";
}

macro_rules! public_transposed {
    ($($op:ident $name:literal $alias:literal $dims:literal $sample:expr, $errors:expr, $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            autocast: Autocast::LowerPrecision.everywhere(),
            aliases: &[$alias],
            variants: Variants::FUNCTION,
            signature: "(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] output_padding=0, int groups=1, int[1] dilation=1) -> Tensor",
            doc: $doc,
            dtypes: ACCEPTED,
            implementation: Implementation::CompositeImplicit(|args| transposed(args, $dims)),
            derivative: Derivative::CompositeImplicit,
            samples: $sample,
            errors: $errors,
            ..Operator::BASE
        };
    )*};
}

public_transposed! {
    CONV_TRANSPOSE1D "conv_transpose1d" "nn.functional.conv_transpose1d" 1
        &["t(2, 2, 4), t(2, 3, 3), t(3)", "t(4, 4), t(4, 3, 3), stride=2, padding=1, output_padding=1, groups=2"],
        &[
            ("t(1, 2, 5), t(3, 3, 2)", "RuntimeError", "Given transposed=1, weight of size [3, 3, 2], expected input[1, 2, 5] to have 3 channels, but got 2 channels instead"),
            ("t(1, 2, 1), t(2, 3, 2), padding=1", "RuntimeError", "Given input size per channel: (1 x 1). Calculated output size per channel: (1 x 0). Output size is too small"),
            ("t(1, 2, 5), t(2, 3, 2), output_padding=2", "RuntimeError", "output padding must be smaller than either stride or dilation, but got output_padding_height: 0 output_padding_width: 2 stride_height: 1 stride_width: 1 dilation_height: 1 dilation_width: 1"),
            ("t(1, 2, 5), t(2, 3, 2), t(2)", "RuntimeError", "Given transposed=1, weight of size [2, 3, 2], expected bias to be 1-dimensional with 3 elements, but got bias of size [2] instead"),
        ],
        "The transposed convolution of sequences `(N, C, L)` or `(C, L)` with filters `(C, F / groups, K)`.

    >>> torch.conv_transpose1d(torch.tensor([[1., 2.]]), torch.tensor([[[1., 1.]]]))
    tensor([[1., 3., 2.]])";
    CONV_TRANSPOSE2D "conv_transpose2d" "nn.functional.conv_transpose2d" 2
        &["t(2, 2, 3, 4), t(2, 3, 3, 2), t(3)", "t(4, 3, 3), t(4, 1, 3, 3), stride=2, padding=1, output_padding=1, groups=2, dilation=2"],
        &[
            ("t(1, 2, 5, 5), t(3, 3, 2, 2)", "RuntimeError", "Given transposed=1, weight of size [3, 3, 2, 2], expected input[1, 2, 5, 5] to have 3 channels, but got 2 channels instead"),
            ("t(1, 2, 5, 5), t(2, 3, 2, 2), output_padding=1", "RuntimeError", "output padding must be smaller than either stride or dilation, but got output_padding_height: 1 output_padding_width: 1 stride_height: 1 stride_width: 1 dilation_height: 1 dilation_width: 1"),
        ],
        "The transposed convolution of images `(N, C, H, W)` or `(C, H, W)` with filters `(C, F / groups, KH, KW)`.

    >>> torch.conv_transpose2d(torch.ones(1, 1, 2), torch.ones(1, 1, 1, 2))
    tensor([[[1., 2., 1.]]])";
    CONV_TRANSPOSE3D "conv_transpose3d" "nn.functional.conv_transpose3d" 3
        &["t(1, 2, 2, 3, 2), t(2, 2, 2, 2, 2), t(2)"],
        &[("t(1, 2, 5, 5, 5), t(3, 3, 2, 2, 2)", "RuntimeError", "Given transposed=1, weight of size [3, 3, 2, 2, 2], expected input[1, 2, 5, 5, 5] to have 3 channels, but got 2 channels instead")],
        "The transposed convolution of volumes `(N, C, D, H, W)` or `(C, D, H, W)` with filters `(C, F / groups, KD, KH, KW)`.

    >>> torch.conv_transpose3d(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 1, 2))
    tensor([[[[1., 2., 1.]]]])";
}
