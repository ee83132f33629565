//! Pooling: the largest element or the mean of each window.
//!
//! Private operators work on one, two or three spatial dimensions: `max` finds the largest elements and their indices,
//! `mean` the means. Scatter and gather are each other's derivative, and so are the means and their distribution over
//! windows, which gives gradients of any order. This file reads the arguments of the public operators, and checks them
//! in torch's order and with its messages.

pub mod max;
pub mod mean;
mod on_cuda;
pub mod unpool;
pub mod window;

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims, wrap_dim};
use rushlight_core::storage::Pin;
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Dims, Error, Layout, Result};
use rushlight_dispatch::node::is_tracked;
use rushlight_dispatch::operands::{plain, plain_workplace, settle};
use rushlight_dispatch::operator::{Args, DTypes, TensorSpec};
use rushlight_dispatch::value::{Arg, Ints};

/// The dtypes of means.
const MEANT: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I64]));

/// A tensor's elements for a kernel.
fn address(pin: &Pin, tensor: &Tensor) -> *mut u8 {
    pin.as_ptr().wrapping_offset(tensor.first_byte())
}

/// Runs a kernel on row-major operands of a dtype that it computes in, and casts the result.
fn computed(
    result: &Tensor,
    input: &Tensor,
    kernel: impl FnOnce(DType, *const u8, *mut u8) -> Result<()>,
) -> Result<()> {
    let dtype = result.dtype().compute();
    let input = plain(input, dtype)?;
    let output = plain_workplace(result, dtype)?;
    {
        let (from, to) = (input.storage().pin()?, output.storage().pin()?);
        kernel(dtype, address(&from, &input), address(&to, &output))?;
    }
    settle(&output, result)
}

/// The error for windows outside the input; the public operators never have such.
#[cold]
fn window_error(input: &Tensor) -> Error {
    Error::runtime(format!("windows do not lie within an input of {}", Shape(input.sizes())))
}

/// The sizes of `input` with other spatial sizes.
fn with_space(input: &Tensor, space: &[i64]) -> Result<Dims> {
    let Some(kept) = input.rank().checked_sub(space.len()) else { return Err(window_error(input)) };
    let mut sizes = Dims::from_slice(&input.sizes()[..kept]);
    sizes.extend(to_dims(space));
    Ok(sizes)
}

/// The result with the channel order of a batch of images; sequences are images here, and volumes row-major.
fn formatted(spec: TensorSpec, input: &Layout, dims: usize) -> TensorSpec {
    match (dims, input.rank()) {
        (1, 3) => spec.formatted_as_image(input),
        (2, 4) => spec.formatted(input),
        _ => spec,
    }
}

fn count_planes(tensor: &Tensor, dims: usize) -> usize {
    tensor.sizes()[..tensor.rank() - dims].iter().product::<isize>() as usize
}

/// The windows over planes of `space`, from their kernel sizes, strides, paddings and dilations; windows without a size cover the
/// input evenly. None if they do not lie within the planes.
fn window_dims(space: &[isize], output: &[isize], lists: [&[i64]; 4]) -> Option<[WindowDim; 3]> {
    let narrow = |n: &i64| (0..=i64::from(i32::MAX)).contains(n);
    let dims = space.len();
    if dims == 0 || dims > 3 || output.len() != dims || output.iter().any(|&n| n < 0) {
        return None;
    }
    if lists.iter().any(|list| list.len() != dims || !list.iter().all(narrow)) {
        return None;
    }
    let axes = WindowDim::space(space, output, lists);
    let valid = |dim: &WindowDim| if dim.kernel == 0 { dim.output == 0 || dim.input > 0 } else { dim.is_valid() };
    axes.iter().all(valid).then_some(axes)
}

/// The last `dims` sizes of a tensor.
fn space_of(tensor: &Tensor, dims: usize) -> &[isize] {
    &tensor.sizes()[tensor.rank().saturating_sub(dims)..]
}

/// The number of windows along a dimension.
fn output_size(size: i64, kernel: i64, stride: i64, padding: i64, dilation: i64, ceil: bool) -> i64 {
    let padded = size + 2 * padding + if ceil { stride - 1 } else { 0 };
    // All of these are 32-bit numbers, so that the count fits in 64 bits.
    let count = rushlight_core::window::count(padded.into(), kernel, dilation, stride) as i64;
    // The last window must start inside the input or the padding before it.
    if ceil && (count - 1) * stride >= size + padding { count - 1 } else { count }
}

/// A list with one value for each dimension, with the messages of torch's pooling.
fn spread(args: &Args, arg: Arg, dims: usize, rule: &str) -> Result<Ints> {
    let given = args.optional_ints(arg).unwrap_or(&[]);
    match given.len() {
        1 => Ok(Ints::from_elem(given[0], dims)),
        n if n == dims => Ok(Ints::from_slice(given)),
        n => {
            let (name, what) = (words(args, dims), args.param(arg).name);
            Err(Error::runtime(match dims {
                1 => format!("{name}() argument '{what}' should contain one int (got {n})"),
                2 => format!("{name}: {what} must {rule}a single int, or a tuple of two ints"),
                _ => format!("{name}: {what} must {rule}a single int, or a tuple of three ints"),
            }))
        }
    }
}

/// torch's name of the pooling in messages: `max_pool2d`.
fn words(args: &Args, dims: usize) -> String {
    let name = args.op.python_name();
    let kind = if name.starts_with("max") { "max" } else { "avg" };
    format!("{kind}_pool{dims}d")
}

/// Kernel size, stride, padding and dilation, checked, with the output's spatial sizes.
struct PoolParams {
    lists: [Ints; 4],
    output: Ints,
}

impl PoolParams {
    /// Reads the arguments `kernel_size`, `stride` and `padding`, and `dilation` if there is one.
    fn read(
        args: &Args,
        [size, stride, padding]: [Arg; 3],
        dilation: Option<Arg>,
        dims: usize,
        ceil: bool,
    ) -> Result<PoolParams> {
        let input = args.tensor(Arg::FIRST)?;
        let means = dilation.is_none();
        // torch's words for means over volumes are others.
        let word = |words: &'static str| if means && dims == 3 { words.trim_start_matches("either ") } else { words };
        let kernel = spread(args, size, dims, word("either be "))?;
        let mut stride = match args.optional_ints(stride) {
            None | Some([]) => kernel.clone(),
            Some(_) => spread(args, stride, dims, word("either be omitted, "))?,
        };
        let padding = spread(args, padding, dims, word("either be "))?;
        let mut dilation = match dilation {
            Some(arg) => spread(args, arg, dims, "be either ")?,
            None => Ints::from_elem(1, dims),
        };
        let rank = input.rank();
        let check_rank = || match rank == dims + 1 || rank == dims + 2 {
            true => Ok(()),
            false => Err(wrong_rank(args, rank, dims)),
        };
        let is_mean_of_images = args.op.name == "avg_pool2d";
        if dims == 1 {
            check_rank()?;
        }
        // torch's kernel for sequences without a gradient counts in 64 bits. A longer step skips the whole sequence as well,
        // and windows of one element have no gaps.
        if args.op.name == "max_pool1d" && !is_tracked(args) {
            stride[0] = stride[0].min(i32::MAX.into());
            if kernel[0] == 1 {
                dilation[0] = 1;
            }
        }
        // torch's other kernels count in 32 bits; with that limit no sum below can overflow.
        if [&kernel, &stride, &padding, &dilation].into_iter().flatten().any(|&n| i32::try_from(n).is_err()) {
            return Err(Error::runtime("value cannot be converted to type int without overflow"));
        }
        if is_mean_of_images {
            check_divisor(args)?;
            wrap_dim(-3, rank)?;
        } else {
            check_rank()?;
            check_divisor(args)?;
        }
        if stride.contains(&0) {
            return Err(Error::runtime("stride should not be zero"));
        }
        check_ranges(&kernel, &stride, &padding, &dilation)?;
        check_rank()?;
        if input.sizes()[rank - dims - 1..].contains(&0) {
            return Err(empty_input(args, input, dims));
        }
        if padding.iter().zip(&kernel).any(|(&pad, &size)| pad > size / 2) {
            return Err(wide_padding(&padding, &kernel));
        }
        let space = &input.sizes()[rank - dims..];
        if means && dims == 3 && space.iter().zip(&kernel).any(|(&size, &kernel)| (size as i64) < kernel) {
            let space: Ints = space.iter().map(|&size| size as i64).collect();
            return Err(Error::runtime(format!(
                "input image ({}) smaller than kernel size ({})",
                by_axis("", &space),
                by_axis("k", &kernel)
            ))
            .hint("Use a smaller kernel, or pad the input."));
        }
        let size =
            |dim: usize| output_size(space[dim] as i64, kernel[dim], stride[dim], padding[dim], dilation[dim], ceil);
        let output: Ints = (0..dims).map(size).collect();
        if output.iter().any(|&n| n < 1) {
            return Err(too_small(args, input, &output));
        }
        Ok(PoolParams { lists: [kernel, stride, padding, dilation], output })
    }
}

fn check_ranges(kernel: &Ints, stride: &Ints, padding: &[i64], dilation: &Ints) -> Result<()> {
    for ((&pad, &size), &step) in padding.iter().zip(kernel).zip(dilation) {
        if pad < 0 {
            return Err(Error::runtime(format!("pad must be non-negative, but got pad: {pad}")));
        }
        if pad > ((size - 1) * step + 1) / 2 {
            return Err(Error::runtime(format!(
                "pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={size} and dilation={step}"
            )));
        }
    }
    for (what, letter, values) in
        [("kernel size", "k", kernel), ("stride", "d", stride), ("dilation", "dilation", dilation)]
    {
        if values.iter().any(|&n| n <= 0) {
            let each = by_axis(letter, values);
            return Err(Error::runtime(format!("{what} should be greater than zero, but got {each}")));
        }
    }
    Ok(())
}

/// torch's error for padding of more than half of the kernel, whatever the dilation.
fn wide_padding(padding: &[i64], kernel: &[i64]) -> Error {
    let each = match (padding, kernel) {
        ([pt, ph, pw], [kt, kh, kw]) => format!("kT: {kt} kW: {kw} kH: {kh} padT: {pt} padW: {pw} padH: {ph}"),
        ([ph, pw], [kh, kw]) => format!("padW = {pw}, padH = {ph}, kW = {kw}, kH = {kh}"),
        _ => format!("padW = {}, padH = 0, kW = {}, kH = 1", padding[0], kernel[0]),
    };
    Error::runtime(format!("pad should be smaller than or equal to half of kernel size, but got {each}"))
}

/// Refuses a divisor of zero, where there is one.
fn check_divisor(args: &Args) -> Result<()> {
    let divisor = args.op.schema().arg("divisor_override").and_then(|divisor| args.optional_int(divisor));
    if divisor == Some(0) { Err(Error::runtime("divisor must be not zero")) } else { Ok(()) }
}

/// Returns torch's error for the gradient of adaptive pooling to an empty size.
fn check_not_empty(grad: &Tensor, dims: usize, kind: &str) -> Result<()> {
    let sizes = shown(grad, dims);
    match sizes.iter().skip(1).position(|&size| size == 0) {
        Some(at) => Err(Error::runtime(format!(
            "adaptive_{kind}_pool{}d_backward(): Expected grad_output to have non-zero size for non-batch dimensions, but grad_output has sizes {} with dimension {} being empty",
            dims.max(2),
            Shape(&sizes),
            at + 1
        ))),
        None => Ok(()),
    }
}

/// A number for each axis in the format of messages, `kH: 2 kW: 3`; a sequence is an image of height one.
fn by_axis(letter: &str, values: &[i64]) -> String {
    let values: Vec<i64> = if values.len() == 1 { vec![1, values[0]] } else { values.to_vec() };
    let axes = &["T", "H", "W"][3 - values.len()..];
    let each: Vec<String> = values.iter().zip(axes).map(|(n, axis)| format!("{letter}{axis}: {n}")).collect();
    each.join(" ")
}

/// Checks the dimensions of sequences, with or without a batch.
fn check_sequence(rank: usize, name: &str) -> Result<()> {
    if rank == 2 || rank == 3 {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 'self' (while checking arguments for {name})"
    )))
}

/// Returns torch's error for sizes in a list where the input has not more dimensions: it might have to fill in a size.
fn check_listed(wanted: &[i64], rank: usize) -> Result<()> {
    if wanted.len() > 1 && rank <= wanted.len() {
        return Err(Error::value(format!("Input dimension should be at least {}", wanted.len() + 1)));
    }
    Ok(())
}

/// Sizes in the format of messages; a sequence is an image of height one.
fn shown(input: &Tensor, dims: usize) -> Dims {
    let mut sizes = input.sizes().clone();
    if dims == 1 {
        sizes.insert(sizes.len() - 1, 1);
    }
    sizes
}

#[cold]
fn wrong_rank(args: &Args, rank: usize, dims: usize) -> Error {
    // For means over images torch accesses the third dimension from the end first.
    if args.op.name == "avg_pool2d" {
        return match (wrap_dim(-3, rank), args.tensor(Arg::FIRST)) {
            (Err(error), _) | (_, Err(error)) => error,
            (Ok(_), Ok(input)) => empty_input(args, input, dims),
        };
    }
    Error::runtime(match dims {
        1 => format!(
            "Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 'self' (while checking arguments for {})",
            words(args, 1)
        ),
        _ => format!("non-empty {}D or {}D (batch mode) tensor expected for input", dims + 1, dims + 2),
    })
}

#[cold]
fn empty_input(args: &Args, input: &Tensor, dims: usize) -> Error {
    let sizes = shown(input, dims);
    let sizes = Shape(&sizes);
    Error::runtime(if dims < 3 {
        format!("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{sizes}")
    } else {
        let name =
            if words(args, 3).starts_with("max") { "max_pool3d_with_indices_out_cpu_template" } else { "avg_pool3d" };
        format!(
            "{name}(): Expected input's non-batch dimensions to have positive length, but input has a shape of {sizes} and non-batch dimension 0 has length zero!"
        )
    })
}

#[cold]
fn too_small(args: &Args, input: &Tensor, output: &[i64]) -> Error {
    let dims = output.len();
    if args.op.name == "max_pool1d" {
        return Error::runtime(format!("max_pool1d() Invalid computed output size: {}", output[0]))
            .hint("Use a smaller kernel or dilation, or pad the input.");
    }
    let sizes = shown(input, dims);
    let before: Vec<String> = sizes[sizes.len() - dims.max(2) - 1..].iter().map(isize::to_string).collect();
    let flat = (dims == 1).then_some(&1);
    let after: Vec<String> = flat.into_iter().chain(output).map(i64::to_string).collect();
    Error::runtime(format!(
        "Given input size: ({}). Calculated output size: ({}x{}). Output size is too small",
        before.join("x"),
        before[0],
        after.join("x")
    ))
    .hint("Use a smaller kernel or dilation, pad the input, or pool fewer times before.")
    .shapes([input.sizes().as_slice()])
}

/// The begin and end of window `at` of `count`, which cover `size` elements evenly.
fn even_window(at: i64, size: i64, count: i64) -> (i64, i64) {
    // The products may exceed 64 bits, but not the quotients.
    let [at, size, count] = [at, size, count].map(i128::from);
    ((at * size / count) as i64, ((at + 1) * size + count - 1).div_euclid(count) as i64)
}
