//! Convolutions and their transposes.
//!
//! Three private operators compute: the convolution, the gradient of its input (which is also the transposed convolution) and
//! the gradient of its weight. The derivative of each consists of the other two, so gradients of any order come out of them.
//! Their `padding=` has the sides before all dimensions, then those after, which may be negative if the last elements are not used.

mod by_cudnn;
mod on_cuda;
mod output_size;
mod primitives;
mod space;

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::{DType, Dims, Error, Result, window};
use smallvec::SmallVec;

use output_size::{output_size, too_many, zero_dilation};
use primitives::ACCEPTED;
pub use primitives::{CONV, CONV_INPUT, CONV_WEIGHT};
use rushlight_dispatch::operator::{Args, Autocast, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Arg, Ints, Output};
use rushlight_dispatch::{op, warn_once};

/// The arguments of `conv1d` and its variants, with lists of one value per dimension.
struct ConvParams {
    input: Tensor,
    batched: bool,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: i64,
}

/// Stride, padding, dilation and groups: their positions differ between plain and transposed convolutions.
type Positions = [Arg; 4];

const FORWARD: Positions = {
    use CONV1D::*;
    [STRIDE, PADDING, DILATION, GROUPS]
};
const TRANSPOSED: Positions = {
    use CONV_TRANSPOSE1D::*;
    [STRIDE, PADDING, DILATION, GROUPS]
};

/// A list with one value for each dimension.
fn spread(args: &Args, arg: Arg, dims: usize, name: &str) -> Result<Ints> {
    let given = args.ints(arg)?;
    match given.len() {
        1 => Ok(Ints::from_elem(given[0], dims)),
        n if n == dims => Ok(Ints::from_slice(given)),
        _ => Err(misfit(name, given, dims)),
    }
}

/// The error of a list with another length than the convolution has dimensions.
fn misfit(name: &str, given: &[i64], dims: usize) -> Error {
    Error::runtime(format!(
        "expected {name} to be a single integer value or a list of {dims} values to match the convolution dimensions, but got {name}={}",
        Shape(&to_dims(given))
    ))
}

impl ConvParams {
    /// Reads and checks the arguments in torch's order and with its messages; `padding` may be a word instead of
    /// numbers.
    fn read(
        args: &Args,
        dims: usize,
        [stride, padding, dilation, groups]: Positions,
        transposed: bool,
    ) -> Result<ConvParams> {
        use CONV1D::*;

        let (input, weight, bias) = (args.tensor(INPUT)?, args.tensor(WEIGHT)?, args.optional_tensor(BIAS));
        let (name, word) = (args.op.python_name(), args.optional_str(padding));
        if let Some(bias) = bias.filter(|bias| !transposed && word.is_none() && bias.dtype() != input.dtype()) {
            return Err(Error::runtime(format!(
                "Input type ({}) and bias type ({}) should be the same",
                input.dtype().c_name(),
                bias.dtype().c_name()
            ))
            .hint("Convert one of them: x.to(weight.dtype)."));
        }
        if input.dtype().is_complex() {
            check_complex_dtypes(input, weight, bias)?;
        }
        let rank = input.rank();
        if rank != dims + 1 && rank != dims + 2 {
            return Err(Error::runtime(format!(
                "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {}",
                dims + 1,
                dims + 2,
                Shape(input.sizes())
            )));
        }
        let batched = rank == dims + 2;
        let input = if batched { input.clone() } else { op!(crate::view::squeeze::UNSQUEEZE, input, 0i64)? };
        if let Some(word) = word.filter(|word| !matches!(*word, "valid" | "same")) {
            return Err(Error::runtime(format!("Invalid padding string: '{word}'"))
                .hint("padding must be 'same', 'valid' or a number for each spatial dimension."));
        }
        if weight.rank() < 3 {
            return Err(Error::runtime("weight should have at least three dimensions"));
        }
        if weight.rank() != dims + 2 {
            let is_same = word == Some("same");
            let stride = spread(args, stride, dims, "stride")?;
            if !is_same && dims > 1 {
                return Err(misfit("stride", &stride, weight.rank() - 2));
            }
            // torch's sentence about `padding="same"` lacks a space.
            let space = if is_same { "" } else { " " };
            return Err(Error::runtime(format!(
                "Expected {0}-dimensional input for {0}-dimensional weight{space}{1}, but got {2}-dimensional input of size {3} instead",
                weight.rank(),
                Shape(weight.sizes()),
                input.rank(),
                Shape(input.sizes())
            )));
        }
        if word == Some("same") {
            for (name, arg) in [("stride", stride), ("dilation", dilation)] {
                let given = args.ints(arg)?.len();
                if given != 1 && given != dims {
                    return Err(Error::runtime(format!("{name} cannot broadcast to {dims} dimensions"))
                        .hint(format!("It has {given} values.")));
                }
            }
        }
        let stride = spread(args, stride, dims, "stride")?;
        let dilation = spread(args, dilation, dims, "dilation")?;
        let padding = match word {
            Some(word) => padding_of_word(word, weight, &stride, &dilation)?,
            None => {
                let sides = spread(args, padding, dims, "padding")?;
                sides.iter().chain(&sides).copied().collect()
            }
        };
        let groups = args.int(groups)?;
        for (least, what, name, found) in [
            (0, "negative padding", "padding", &padding[..dims]),
            (1, "non-positive stride", "stride", &stride[..]),
            (1, "non-positive groups", "groups", &[groups][..]),
        ] {
            if found.iter().any(|&n| n < least) {
                let told = Error::runtime(format!("{what} is not supported"));
                return Err(told.hint(format!("{name} is {}; it must be at least {least}.", Shape(&to_dims(found)))));
            }
        }
        if dilation.iter().any(|&step| step < 0) {
            return Err(Error::runtime("dilation should be greater than zero"));
        }
        let most = i64::MAX / 2;
        let params = ConvParams { input, batched, stride, padding, dilation, groups };
        params.check_channels(weight, bias, transposed)?;
        if params.dilation.contains(&0) {
            return Err(zero_dilation(&params.dilation, transposed));
        }
        if let Some(dim) = params.padding[..dims].iter().position(|&side| side > most) {
            return Err(Error::runtime(format!(
                "Given padding={} at dimension {dim} , expected padding to be at most {most}",
                params.padding[dim]
            )));
        }
        Ok(params)
    }

    fn check_channels(&self, weight: &Tensor, bias: Option<&Tensor>, transposed: bool) -> Result<()> {
        let (own, groups) = (weight.sizes(), self.groups as isize);
        let shape = Shape(own);
        if own[0] < groups {
            return Err(Error::runtime(format!(
                "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {shape} instead"
            )));
        }
        if own[0] % groups != 0 {
            return Err(Error::runtime(format!(
                "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size [{shape}] instead"
            )));
        }
        let words = if transposed { "transposed=1".to_string() } else { format!("groups={groups}") };
        let channels = if transposed { own[0] } else { own[1] * groups };
        if self.input.sizes()[1] != channels {
            // torch has added the odd elements of `padding="same"` to the input.
            let mut padded = self.input.sizes().clone();
            let n = padded.len() - 2;
            (0..n).for_each(|dim| padded[2 + dim] += (self.padding[n + dim] - self.padding[dim]) as isize);
            return Err(Error::runtime(format!(
                "Given {words}, weight of size {shape}, expected input{} to have {channels} channels, but got {} channels instead",
                Shape(&padded),
                self.input.sizes()[1]
            ))
            .shapes([self.input.sizes().as_slice(), own.as_slice()]));
        }
        let features = if transposed { own[1] * groups } else { own[0] };
        match bias {
            Some(bias) if bias.sizes().as_slice() != [features] => Err(Error::runtime(format!(
                "Given {}weight of size {shape}, expected bias to be 1-dimensional with {features} elements, but got bias of size {} instead",
                if transposed { "transposed=1, " } else { "" },
                Shape(bias.sizes())
            ))),
            _ => Ok(()),
        }
    }

    /// As torch, accepts inputs with an empty batch or no channels, but no other empty inputs, and no empty kernels.
    fn check_elements(&self, weight: &Tensor, transposed: bool) -> Result<()> {
        let (input, own) = (self.input.sizes(), weight.sizes());
        if input[1] == 0 {
            return Ok(());
        }
        if input[0] == 0 {
            if !own.contains(&0) {
                return Ok(());
            }
            return Err(Error::index("select(): index 0 out of range for tensor of size [0] at dimension 0")
                .hint("The weight has no elements."));
        }
        // A sequence is an image of height one.
        let image = |sizes: &[isize]| match sizes {
            [first, second, length] => Dims::from_slice(&[*first, *second, 1, *length]),
            other => Dims::from_slice(other),
        };
        if input.contains(&0) {
            return Err(Error::runtime(format!(
                "Only zero batch or zero channel inputs are supported, but got input shape: {}",
                Shape(&image(input))
            )));
        }
        let shape = image(own);
        if transposed && own.contains(&0) && (own[1] == 0 || own.len() == 5) {
            return Err(Error::runtime(match own.len() {
                5 => format!(
                    "non-empty 5D (n_output_plane x n_input_plane x kernel_depth x kernel_height x kernel_width) tensor expected for weight, but got: {}",
                    Shape(&shape)
                ),
                _ => format!("non-empty 2D or 4D weight tensor expected, but got: {}", Shape(&shape)),
            }));
        }
        match shape[2..] {
            [depth, height, width] if depth * height * width == 0 => Err(Error::runtime(format!(
                "kernel size should be greater than zero, but got: {depth} x {height} x {width} (TxHxW)"
            ))),
            [height, width] if height * width == 0 => Err(Error::runtime(format!(
                "kernel size should be greater than zero, but got kernel_height: {height} kernel_width: {width}"
            ))),
            _ => Ok(()),
        }
    }

    /// The result of an input without channels: as many windows as usual, and no channels. All operands take part, for
    /// their gradients.
    fn without_channels(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Output> {
        let flat = |tensor: &Tensor| op!(crate::view::RESHAPE, tensor, Ints::from_slice(&[-1]));
        let mut sizes = Ints::from_slice(&[self.input.sizes()[0] as i64, 0]);
        for (dim, &size) in self.input.sizes()[2..].iter().enumerate() {
            let sides = [self.padding[dim], self.padding[self.padding.len() / 2 + dim]];
            let count = output_size(size, weight.sizes()[2 + dim], sides, self.dilation[dim], self.stride[dim]);
            sizes.push(count.ok_or_else(too_many)? as i64);
        }
        let mut nothing = op!(crate::pointwise::arith::MUL, &flat(&self.input)?, &flat(weight)?)?;
        if let Some(bias) = bias {
            nothing = op!(
                crate::pointwise::arith::ADD,
                &nothing,
                &op!(crate::view::narrow::NARROW, bias, 0i64, 0i64, 0i64)?
            )?;
        }
        self.finish(op!(crate::view::RESHAPE, &nothing, sizes)?)
    }

    /// Checks that the kernel fits into the padded input.
    fn check_fits(&self, weight: &Tensor) -> Result<()> {
        let space = &self.input.sizes()[2..];
        let n = space.len();
        let padded =
            |dim: usize| space[dim] as i128 + i128::from(self.padding[dim]) + i128::from(self.padding[n + dim]);
        let padded: SmallVec<[i128; 3]> = (0..n).map(padded).collect();
        let length = |dim: usize| window::reach(weight.sizes()[2 + dim] as i64, self.dilation[dim]) + 1;
        let lengths: SmallVec<[i128; 3]> = (0..n).map(length).collect();
        if padded.iter().zip(&lengths).all(|(size, length)| size >= length) {
            return Ok(());
        }
        let by = |sizes: &[i128]| sizes.iter().map(i128::to_string).collect::<Vec<_>>().join(" x ");
        Err(Error::runtime(format!(
            "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual input size",
            by(&padded),
            by(&lengths)
        ))
        .shapes([self.input.sizes().as_slice(), weight.sizes().as_slice()]))
    }

    /// Removes the batch dimension that was added.
    fn finish(&self, result: Tensor) -> Result<Output> {
        let result = if self.batched { result } else { op!(crate::view::squeeze::SQUEEZE_DIM, &result, 0i64)? };
        Ok(Output::Tensor(result))
    }
}

/// Converts a size to 64 bits.
fn narrow(size: i128) -> Result<i64> {
    i64::try_from(size).map_err(|_| too_many())
}

/// Compares a complex input's dtype with those of the parameters, which torch does before anything else.
fn check_complex_dtypes(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    for (what, other) in [("weight", Some(weight)), ("bias", bias)] {
        let Some(other) = other.filter(|other| other.dtype() != input.dtype()) else { continue };
        let [own, theirs] = [input, other].map(|tensor| tensor.dtype().class_name(tensor.device()));
        return Err(Error::runtime(format!("Input type ({own}) and {what} type ({theirs}) should be the same"))
            .hint("Convert one of them: x.to(weight.dtype)."));
    }
    Ok(())
}

/// Compares the dtypes, which torch does after all sizes. Returns the bias in the input's dtype.
fn check_dtypes(
    params: &ConvParams,
    weight: &Tensor,
    bias: Option<&Tensor>,
    transposed: bool,
) -> Result<Option<Tensor>> {
    let (input, convert) = (&params.input, "Convert one of them: x.to(weight.dtype).");
    if !ACCEPTED.has(input.dtype()) {
        let kernel = match (transposed, input.rank() - 2) {
            (true, 3) => "slow_conv_transpose3d_out_cpu",
            (true, _) => "slow_conv_transpose2d_out_cpu",
            (false, _) if params.dilation.iter().any(|&step| step != 1) => "slow_conv_dilated<>",
            (false, 3) if weight.sizes()[2..].iter().all(|&size| size == 1) => "slow_conv3d_cpu",
            (false, 3) => "compute_columns3d",
            (false, _) => "slow_conv2d_cpu",
        };
        return Err(Error::unsupported(kernel, input.dtype()));
    }
    let in_library = is_with_library(input, weight, params.groups);
    for (what, other) in [("weight", Some(weight)), ("bias", bias)] {
        let Some(other) = other.filter(|other| other.dtype() != input.dtype()) else { continue };
        if in_library || input.dtype().is_complex() {
            let [own, theirs] = [input, other].map(|tensor| tensor.dtype().class_name(tensor.device()));
            let end = match input.dtype().is_complex() {
                true => String::new(),
                false => format!(" or input should be a MKLDNN tensor and {what} is a dense tensor"),
            };
            let sentence = format!("Input type ({own}) and {what} type ({theirs}) should be the same{end}");
            return Err(Error::runtime(sentence).hint(convert));
        }
        let dilated = params.dilation.iter().any(|&step| step != 1);
        if what == "weight" && !transposed && dilated && !input.dtype().is_differentiable() {
            return Err(Error::unsupported("slow_conv_dilated<>", input.dtype()));
        }
        if what == "weight" || transposed {
            return Err(Error::runtime(format!(
                "expected scalar type {} but found {}",
                input.dtype().display_name(),
                other.dtype().display_name()
            ))
            .hint(convert));
        }
    }
    bias.map(|bias| crate::convert::to_dtype(bias, input.dtype())).transpose()
}

/// Whether torch convolves with another library, which says differently that the dtypes do not match: in float32 only if
/// it pays.
fn is_with_library(input: &Tensor, weight: &Tensor, groups: i64) -> bool {
    let is_wide = |sizes: &[isize]| matches!(sizes, [_, _, .., height, width] if *height > 3 && *width > 3);
    match input.dtype() {
        DType::BF16 => true,
        DType::F32 => {
            groups > 1
                || is_wide(weight.sizes())
                || input.sizes().first().is_some_and(|batch| *batch > 1)
                || input.numel() > 20480
        }
        _ => false,
    }
}

/// The padding for `"valid"` (none) and `"same"` (as many outputs as inputs; an odd element goes behind).
fn padding_of_word(word: &str, weight: &Tensor, stride: &[i64], dilation: &[i64]) -> Result<Ints> {
    let kernel = &weight.sizes()[2..];
    if word == "valid" {
        return Ok(Ints::from_elem(0, 2 * kernel.len()));
    }
    if stride.iter().any(|&step| step != 1) {
        return Err(Error::runtime("padding='same' is not supported for strided convolutions"));
    }
    let totals = (0..kernel.len()).map(|dim| narrow(window::reach(kernel[dim] as i64, dilation[dim])));
    let totals: SmallVec<[i64; 3]> = totals.collect::<Result<_>>()?;
    if totals.iter().any(|total| total % 2 != 0) {
        warn_once!(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be created"
        )?;
    }
    let before = totals.iter().map(|total| total / 2);
    Ok(before.chain(totals.iter().map(|total| total - total / 2)).collect())
}

fn convolution(args: &Args, dims: usize) -> Result<Output> {
    use CONV1D::*;

    let params = ConvParams::read(args, dims, FORWARD, false)?;
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

    let mut params = ConvParams::read(args, dims, TRANSPOSED, true)?;
    let weight = args.tensor(WEIGHT)?;
    let extra = spread(args, OUTPUT_PADDING, dims, "output_padding")?;
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
            list("output_padding", &extra, 0),
            list("stride", &params.stride, 1),
            list("dilation", &params.dilation, 1)
        )));
    }
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
        // torch treats a sequence as an image of one row.
        let listed = |sizes: &mut dyn Iterator<Item = i128>| {
            let row = (dims == 1).then_some(1);
            row.into_iter().chain(sizes).map(|size| size.to_string()).collect::<Vec<_>>().join(" x ")
        };
        return Err(Error::runtime(format!(
            "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size is too small",
            listed(&mut params.input.sizes()[2..].iter().map(|&size| size as i128)),
            listed(&mut own.iter().copied())
        ))
        .hint("Pad the input, or use a larger one."));
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
