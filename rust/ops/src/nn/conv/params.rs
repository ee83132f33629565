//! The arguments of a convolution's call, checked in torch's order and with its messages.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::{DType, Device, Dims, Error, Result, window};
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::value::{Arg, Ints, Output};
use rushlight_dispatch::{op, warn_once};
use smallvec::SmallVec;

use super::output_size::{output_size, too_many, zero_dilation};
use super::primitives::ACCEPTED;

/// Where the arguments are: those behind the bias have other places in plain and in transposed convolutions.
pub(super) struct Positions {
    pub input: Arg,
    pub weight: Arg,
    pub bias: Arg,
    pub stride: Arg,
    pub padding: Arg,
    pub dilation: Arg,
    pub groups: Arg,
}

/// The arguments of `conv1d` and its variants, with lists of one value per dimension.
pub(super) struct ConvParams {
    pub input: Tensor,
    batched: bool,
    pub stride: Ints,
    pub padding: Ints,
    pub dilation: Ints,
    pub groups: i64,
}

/// A list with one value for each dimension.
pub(super) fn spread(args: &Args, arg: Arg, dims: usize, name: &str) -> Result<Ints> {
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

/// torch's error for a weight with another number of dimensions than the convolution's has.
fn wrong_weight_rank(input: &Tensor, weight: &Tensor, stride: &[i64], is_same: bool) -> Error {
    if !is_same && stride.len() > 1 {
        return misfit("stride", stride, weight.rank() - 2);
    }
    // torch's sentence about `padding="same"` lacks a space.
    let space = if is_same { "" } else { " " };
    Error::runtime(format!(
        "Expected {0}-dimensional input for {0}-dimensional weight{space}{1}, but got {2}-dimensional input of size {3} instead",
        weight.rank(),
        Shape(weight.sizes()),
        input.rank(),
        Shape(input.sizes())
    ))
}

impl ConvParams {
    /// Reads and checks the arguments; `padding` may be a word instead of numbers.
    pub fn read(args: &Args, dims: usize, at: &Positions, transposed: bool) -> Result<ConvParams> {
        let &Positions { stride, padding, dilation, groups, .. } = at;
        let (input, weight, bias) = (args.tensor(at.input)?, args.tensor(at.weight)?, args.optional_tensor(at.bias));
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
            let stride = spread(args, stride, dims, "stride")?;
            return Err(wrong_weight_rank(&input, weight, &stride, word == Some("same")));
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
        let params = ConvParams { input, batched, stride, padding, dilation, groups: args.int(groups)? };
        params.check_ranges(dims)?;
        params.check_channels(weight, bias, transposed)?;
        if params.dilation.contains(&0) {
            return Err(zero_dilation(&params.dilation, transposed));
        }
        let most = i64::MAX / 2;
        if let Some(dim) = params.padding[..dims].iter().position(|&side| side > most) {
            return Err(Error::runtime(format!(
                "Given padding={} at dimension {dim} , expected padding to be at most {most}",
                params.padding[dim]
            )));
        }
        Ok(params)
    }

    fn check_ranges(&self, dims: usize) -> Result<()> {
        for (least, what, name, found) in [
            (0, "negative padding", "padding", &self.padding[..dims]),
            (1, "non-positive stride", "stride", &self.stride[..]),
            (1, "non-positive groups", "groups", &[self.groups][..]),
        ] {
            if found.iter().any(|&n| n < least) {
                let error = Error::runtime(format!("{what} is not supported"));
                return Err(error.hint(format!("{name} is {}; it must be at least {least}.", Shape(&to_dims(found)))));
            }
        }
        if self.dilation.iter().any(|&step| step < 0) {
            return Err(Error::runtime("dilation should be greater than zero"));
        }
        Ok(())
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
    pub fn check_elements(&self, weight: &Tensor, transposed: bool) -> Result<()> {
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
    pub fn without_channels(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Output> {
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
    pub fn check_fits(&self, weight: &Tensor) -> Result<()> {
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
    pub fn finish(&self, result: Tensor) -> Result<Output> {
        let result = if self.batched { result } else { op!(crate::view::squeeze::SQUEEZE_DIM, &result, 0i64)? };
        Ok(Output::Tensor(result))
    }
}

/// Converts a size to 64 bits.
pub(super) fn narrow(size: i128) -> Result<i64> {
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

/// Compares the dtypes and the kinds of devices, which torch does after all sizes. Returns the bias in the input's dtype.
pub(super) fn check_dtypes(
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
    let is_on_gpu = |tensor: &Tensor| matches!(tensor.device(), Device::Cuda(_));
    // The names of types say whether a tensor is on a GPU, but not on which.
    let in_one_sentence = is_on_gpu(input) || input.dtype().is_complex();
    let in_library = is_with_library(input, weight, params.groups);
    for (what, other) in [("weight", Some(weight)), ("bias", bias)] {
        let apart = |other: &&Tensor| is_on_gpu(other) != is_on_gpu(input);
        let Some(other) = other.filter(|other| other.dtype() != input.dtype() || apart(other)) else { continue };
        if in_library || in_one_sentence {
            let [own, theirs] = [input, other].map(|tensor| tensor.dtype().class_name(tensor.device()));
            let end = match in_one_sentence {
                true => String::new(),
                false => format!(" or input should be a MKLDNN tensor and {what} is a dense tensor"),
            };
            let sentence = format!("Input type ({own}) and {what} type ({theirs}) should be the same{end}");
            let hint = if apart(&other) { "Move one of them: x.to(weight.device)." } else { convert };
            return Err(Error::runtime(sentence).hint(hint));
        }
        if other.dtype() == input.dtype() {
            continue;
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
