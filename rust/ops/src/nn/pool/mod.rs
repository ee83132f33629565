//! Pooling: the largest element or the mean of each window.
//!
//! Private rows work on one, two or three dimensions of space: `max` finds the largest elements and their places, `mean` the
//! means. Scatter and gather are each other's derivative, and so are the means and their spreading, which closes gradients of
//! any order. Here is what both read: the arguments of the public rows, checked in torch's order and words.

pub mod max;
pub mod mean;

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::storage::Pin;
use rushlight_core::{DType, Dims, Error, Result};

use super::{plain, refused};
use crate::row::DTypes;
use crate::value::{Args, Ints};

/// What means are computed of.
const MEANT: DTypes = DTypes::FLOATS.and(DTypes::of(&[DType::I64]));

/// A tensor's elements for a kernel.
fn address(pin: &Pin, tensor: &Tensor) -> *mut u8 {
    pin.as_ptr().wrapping_offset(tensor.layout().offset * tensor.dtype().size() as isize)
}

/// Runs a kernel on row-major operands of a dtype that it computes in, and casts the result.
fn computed(
    result: &Tensor,
    input: &Tensor,
    kernel: impl FnOnce(DType, *const u8, *mut u8) -> Result<()>,
) -> Result<()> {
    let dtype = result.dtype().compute();
    if !matches!(dtype, DType::F32 | DType::F64 | DType::I64) {
        return Err(refused("pooling", dtype));
    }
    let input = plain(input, dtype)?;
    let same = dtype == result.dtype();
    let output = if same { result.clone() } else { crate::create::empty(result.sizes(), dtype, result.device())? };
    {
        let (from, to) = (input.storage().pin()?, output.storage().pin()?);
        kernel(dtype, address(&from, &input), address(&to, &output))?;
    }
    if same { Ok(()) } else { crate::copy::copy(result, &output) }
}

/// Refuses windows that leave the input; the public rows never ask for such.
#[cold]
fn unfit(input: &Tensor) -> Error {
    Error::runtime(format!("windows do not lie within an input of {}", Shape(input.sizes())))
}

/// The sizes of `input` with other sizes of space.
fn with_space(input: &Tensor, space: &[i64]) -> Result<Dims> {
    let Some(kept) = input.rank().checked_sub(space.len()) else { return Err(unfit(input)) };
    let mut sizes = Dims::from_slice(&input.sizes()[..kept]);
    sizes.extend(to_dims(space));
    Ok(sizes)
}

fn count_planes(tensor: &Tensor, dims: usize) -> usize {
    tensor.sizes()[..tensor.rank() - dims].iter().product::<isize>() as usize
}

/// How many windows there are along a dimension.
fn output_size(size: i64, kernel: i64, stride: i64, padding: i64, dilation: i64, ceil: bool) -> i64 {
    let room = size + 2 * padding - dilation * (kernel - 1) - 1;
    let count = (room + if ceil { stride - 1 } else { 0 }).div_euclid(stride) + 1;
    // The last window must start inside of the input or the padding before it.
    if ceil && (count - 1) * stride >= size + padding { count - 1 } else { count }
}

/// A list of one value for each dimension, in the words of torch's pooling.
fn spread(args: &Args, place: usize, dims: usize, rule: &str) -> Result<Ints> {
    let given = args.optional_ints(place).unwrap_or(&[]);
    match given.len() {
        1 => Ok(Ints::from_elem(given[0], dims)),
        n if n == dims => Ok(Ints::from_slice(given)),
        _ => {
            let many = ["an int", "a tuple of two ints", "a tuple of three ints"][dims - 1];
            let what = args.row.schema().params[place].name;
            Err(Error::runtime(format!("{}: {what} must {rule}a single int, or {many}", words(args, dims))))
        }
    }
}

/// torch's name of the pooling in messages: `max_pool2d`.
fn words(args: &Args, dims: usize) -> String {
    let name = args.row.python_name();
    let kind = if name.starts_with("max") { "max" } else { "avg" };
    format!("{kind}_pool{dims}d")
}

/// Kernel size, stride, padding and dilation, checked, with the output's sizes of space.
struct Plan {
    lists: [Ints; 4],
    output: Ints,
}

impl Plan {
    fn read(args: &Args, dims: usize, dilation: Option<usize>, ceil: bool) -> Result<Plan> {
        let input = args.tensor(0)?;
        let kernel = spread(args, 1, dims, "either be ")?;
        let stride = match args.optional_ints(2) {
            None | Some([]) => kernel.clone(),
            Some(_) => spread(args, 2, dims, "either be omitted, ")?,
        };
        let padding = spread(args, 3, dims, "either be ")?;
        let dilation = match dilation {
            Some(place) => spread(args, place, dims, "be either ")?,
            None => Ints::from_elem(1, dims),
        };
        let rank = input.rank();
        // torch's kernels count in 32 bits; so far no sum below can overflow.
        if [&kernel, &stride, &padding, &dilation].into_iter().flatten().any(|&n| i32::try_from(n).is_err()) {
            return Err(Error::runtime("value cannot be converted to type int without overflow"));
        }
        if stride.contains(&0) {
            return Err(Error::runtime("stride should not be zero"));
        }
        if dilation.iter().any(|&n| n <= 0) {
            let axes = ["T", "H", "W"];
            let each: Vec<String> =
                dilation.iter().zip(&axes[3 - dims..]).map(|(n, axis)| format!("dilation{axis}: {n}")).collect();
            return Err(Error::runtime(format!("dilation should be greater than zero, but got {}", each.join(" "))));
        }
        if kernel.iter().any(|&n| n <= 0) {
            return Err(Error::runtime("kernel size should be greater than zero"));
        }
        if rank != dims + 1 && rank != dims + 2 {
            return Err(Error::runtime(if dims == 1 {
                format!(
                    "{}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
                    words(args, 1),
                    Shape(input.sizes())
                )
            } else {
                format!("non-empty {}D or {}D (batch mode) tensor expected for input", dims + 1, dims + 2)
            }));
        }
        if input.sizes()[rank - dims - 1..].contains(&0) {
            return Err(Error::runtime(format!(
                "Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
                dims + 1,
                dims + 2,
                Shape(input.sizes())
            )));
        }
        for dim in 0..dims {
            let (pad, reach) = (padding[dim], (kernel[dim] - 1) * dilation[dim] + 1);
            if pad < 0 {
                return Err(Error::runtime(format!("pad must be non-negative, but got pad: {pad}")));
            }
            if pad > reach / 2 {
                return Err(Error::runtime(if dims == 1 {
                    format!(
                        "max_pool1d() padding should be at most half of kernel size, but got padding={pad} and kernel_size={}",
                        kernel[dim]
                    )
                } else {
                    format!(
                        "pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={} and dilation={}",
                        kernel[dim], dilation[dim]
                    )
                }));
            }
        }
        let space = &input.sizes()[rank - dims..];
        let size =
            |dim: usize| output_size(space[dim] as i64, kernel[dim], stride[dim], padding[dim], dilation[dim], ceil);
        let output: Ints = (0..dims).map(size).collect();
        if output.iter().any(|&n| n < 1) {
            return Err(too_small(args, input, &output));
        }
        Ok(Plan { lists: [kernel, stride, padding, dilation], output })
    }
}

#[cold]
fn too_small(args: &Args, input: &Tensor, output: &[i64]) -> Error {
    let dims = output.len();
    if words(args, dims) == "max_pool1d" {
        return Error::runtime(format!("max_pool1d() Invalid computed output size: {}", output[0]));
    }
    let join = |sizes: &mut dyn Iterator<Item = i64>| sizes.map(|n| n.to_string()).collect::<Vec<_>>().join("x");
    let channels = input.sizes()[input.rank() - dims - 1] as i64;
    let flat = if dims == 1 { vec![1] } else { vec![] };
    let space = input.sizes()[input.rank() - dims..].iter().map(|&n| n as i64);
    let before = join(&mut std::iter::once(channels).chain(flat.iter().copied()).chain(space));
    let after = join(&mut std::iter::once(channels).chain(flat.iter().copied()).chain(output.iter().copied()));
    Error::runtime(format!("Given input size: ({before}). Calculated output size: ({after}). Output size is too small"))
        .shapes([input.sizes().as_slice()])
}
