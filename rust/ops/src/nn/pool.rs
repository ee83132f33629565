//! Pooling: the largest element or the mean of each window.
//!
//! Private rows work on one, two or three dimensions of space. Scatter and gather are each other's derivative, and so are the
//! means and their spreading, which closes gradients of any order.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::{DType, Dims, Error, Result};
use rushlight_cpu::pool::{Axis, Means, Window, gather, max, scatter};

use super::{plain, refused, zeros_like_input};
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::{Args, Ints, Output, Value};

/// What means are computed of.
const MEANT: DTypes = DTypes::FLOATS.and(DTypes::of(&[DType::I64]));

/// A tensor's elements for a kernel.
fn address(tensor: &Tensor) -> *mut u8 {
    tensor.storage().pin().as_ptr().wrapping_offset(tensor.layout().offset * tensor.dtype().size() as isize)
}

/// Runs a kernel on row-major operands of a dtype that it computes in, and casts the result.
fn computed(result: &Tensor, input: &Tensor, kernel: impl FnOnce(DType, *const u8, *mut u8)) -> Result<()> {
    let dtype = result.dtype().compute();
    if !matches!(dtype, DType::F32 | DType::F64 | DType::I64) {
        return Err(refused("pooling", dtype));
    }
    let input = plain(input, dtype)?;
    let same = dtype == result.dtype();
    let output = if same { result.clone() } else { crate::create::empty(result.sizes(), dtype, result.device())? };
    {
        let (_input, _output) = (input.storage().pin(), output.storage().pin());
        kernel(dtype, address(&input), address(&output));
    }
    if same { Ok(()) } else { crate::copy::copy(result, &output) }
}

/// Windows along each dimension of space.
fn axes(input: &[isize], output: &[isize], lists: [&[i64]; 4]) -> [Axis; 3] {
    let [kernel, stride, padding, dilation] = lists;
    let mut axes = [Axis::FLAT; 3];
    let missing = 3 - kernel.len();
    for dim in 0..kernel.len() {
        axes[missing + dim] = Axis {
            size: input[dim] as usize,
            output: output[dim] as usize,
            kernel: kernel[dim] as usize,
            stride: stride[dim] as usize,
            padding: padding[dim] as usize,
            dilation: dilation[dim] as usize,
        };
    }
    axes
}

/// How many windows there are along a dimension.
fn output_size(size: i64, kernel: i64, stride: i64, padding: i64, dilation: i64, ceil: bool) -> i64 {
    let room = size + 2 * padding - dilation * (kernel - 1) - 1;
    let count = (room + if ceil { stride - 1 } else { 0 }).div_euclid(stride) + 1;
    // The last window must start inside of the input or the padding before it.
    if ceil && (count - 1) * stride >= size + padding { count - 1 } else { count }
}

pub static MAX_POOL: Row = Row {
    name: "_max_pool",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, int[] output) -> (Tensor, Tensor)",
    doc: "The largest element of each window and its place among the elements of its channel; `output` are the sizes of space.

    >>> torch._max_pool(torch.tensor([[1., 3., 2., 0.]]), (2,), (2,), (0,), (1,), (2,))
    (tensor([[3., 2.]]), tensor([[1, 2]]))",
    dtypes: DTypes::REAL,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(0)?;
            let sizes = with_space(input, args.ints(5)?)?;
            Ok(vec![Spec::new(&sizes, input.dtype(), input), Spec::new(&sizes, DType::I64, input)])
        },
        cpu: |args, results| {
            let input = plain(args.tensor(0)?, results[0].dtype())?;
            let lists = [args.ints(1)?, args.ints(2)?, args.ints(3)?, args.ints(4)?];
            let dims = lists[0].len();
            let space = |tensor: &Tensor| tensor.sizes()[tensor.rank() - dims..].to_vec();
            if dims == 0 || dims > 3 || lists.iter().any(|list| list.len() != dims || list.iter().any(|&n| n < 0)) {
                return Err(unfit(&input));
            }
            let axes = axes(&space(&input), &space(&results[0]), lists);
            if !axes.iter().all(Axis::fits) {
                return Err(unfit(&input));
            }
            let count = count_planes(&input, dims);
            let (_input, _output, _places) = (input.storage().pin(), results[0].storage().pin(), results[1].storage().pin());
            if results[0].numel() > 0 {
                // SAFETY: row-major operands, pinned, of the sizes that the axes say; the results are fresh.
                unsafe { max(input.dtype(), &axes, count, address(&input), address(&results[0]), address(&results[1]).cast()) };
            }
            Ok(())
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::result(1).and(Saves::input(0)), |d| {
        scattered(d.grad(), d.result_of(1), d.input(0), d.ints(1).len())
    })]),
    node: "MaxPool2DWithIndicesBackward0",
    samples: &["t(2, 3, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1), (2, 2)"],
    reference: "",
    ..Row::BASE
};

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

/// The places as a kernel reads them; each lies within a plane of `area` elements.
fn places_within(places: &Tensor, area: usize) -> Result<Tensor> {
    let places = plain(places, DType::I64)?;
    let first = address(&places).cast::<i64>();
    let pin = places.storage().pin();
    // SAFETY: the tensor is row-major int64 and pinned.
    if (0..places.numel()).any(|at| unsafe { *first.add(at) as u64 >= area as u64 }) {
        return Err(Error::index(format!("a place is not within a plane of {area} elements")));
    }
    drop(pin);
    Ok(places)
}

/// Planes of both tensors are of `dims` dimensions, and as many.
fn check_planes(a: &Tensor, b: &Tensor, dims: usize) -> Result<()> {
    if a.rank() < dims || b.rank() < dims || count_planes(a, dims) != count_planes(b, dims) {
        return Err(unfit(a));
    }
    Ok(())
}

fn count_planes(tensor: &Tensor, dims: usize) -> usize {
    tensor.sizes()[..tensor.rank() - dims].iter().product::<isize>() as usize
}

fn plane(tensor: &Tensor, dims: usize) -> usize {
    tensor.sizes()[tensor.rank() - dims..].iter().product::<isize>() as usize
}

fn scattered(values: Expr, places: Expr, like: Expr, dims: usize) -> Expr {
    match (places.done(), like.done()) {
        (Ok(places), Ok(like)) => values.call(&SCATTER, [places.into(), like.into(), dims.into()]),
        (Err(error), _) | (_, Err(error)) => Expr::Failed(error),
    }
}

/// Does not depend on the values of `like`, and says so with a gradient of zeros, as torch does.
pub static SCATTER: Row = Row {
    name: "_pool_scatter",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor places, Tensor like, int dims) -> Tensor",
    doc: "Zeros like `like` with the values of `self` added at their places in each plane of `dims` dimensions.

    >>> torch._pool_scatter(torch.tensor([[3., 2.]]), torch.tensor([[1, 2]]), torch.ones(1, 4), 1)
    tensor([[0., 3., 2., 0.]])",
    dtypes: MEANT,
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Spec::new(args.tensor(2)?.sizes(), args.tensor(0)?.dtype(), args.tensor(0)?)]),
        cpu: |args, results| {
            let dims = args.int(3)? as usize;
            check_planes(&results[0], args.tensor(1)?, dims)?;
            if args.tensor(0)?.sizes() != args.tensor(1)?.sizes() {
                return Err(unfit(args.tensor(0)?));
            }
            let places = places_within(args.tensor(1)?, plane(&results[0], dims))?;
            let (count, sizes) = (count_planes(&results[0], dims), [plane(&places, dims), plane(&results[0], dims)]);
            let _places = places.storage().pin();
            // SAFETY: row-major operands of these sizes; the places come from the kernel that found them.
            computed(&results[0], args.tensor(0)?, |dtype, input, output| unsafe {
                scatter(dtype, count, sizes, input, address(&places).cast(), output)
            })
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| match d.input(1).done() {
            Ok(places) => d.grad().call(&GATHER, [places.into(), d.int(3).into()]),
            Err(error) => Expr::Failed(error),
        }),
        formula(2, Saves::NOTHING, |d| zeros_like_input(d, 2)),
    ]),
    node: "MaxPool2DWithIndicesBackwardBackward0",
    samples: &["t(2, 3), i(4, 2, 3), t(2, 4), 1"],
    reference: "",
    ..Row::BASE
};

pub static GATHER: Row = Row {
    name: "_pool_gather",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor places, int dims) -> Tensor",
    doc: "The values at `places` of each plane of `dims` dimensions.

    >>> torch._pool_gather(torch.tensor([[5., 6., 7.]]), torch.tensor([[2, 0]]), 1)
    tensor([[7., 5.]])",
    dtypes: MEANT,
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Spec::new(args.tensor(1)?.sizes(), args.tensor(0)?.dtype(), args.tensor(0)?)]),
        cpu: |args, results| {
            let dims = args.int(2)? as usize;
            check_planes(args.tensor(0)?, args.tensor(1)?, dims)?;
            let places = places_within(args.tensor(1)?, plane(args.tensor(0)?, dims))?;
            let (count, sizes) = (count_planes(&places, dims), [plane(&places, dims), plane(args.tensor(0)?, dims)]);
            let _places = places.storage().pin();
            // SAFETY: as for `SCATTER`.
            computed(&results[0], args.tensor(0)?, |dtype, input, output| unsafe {
                gather(dtype, count, sizes, input, address(&places).cast(), output)
            })
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1).and(Saves::input(0)), |d| {
        scattered(d.grad(), d.input(1), d.input(0), d.int(2) as usize)
    })]),
    samples: &["t(2, 4), i(4, 2, 3), 1"],
    reference: "",
    ..Row::BASE
};

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

fn max_pool(args: &Args, dims: usize) -> Result<Vec<Tensor>> {
    let plan = Plan::read(args, dims, Some(4), args.bool(5)?)?;
    let input = args.tensor(0)?;
    if !DTypes::REAL.has(input.dtype()) || (dims == 1 && !input.dtype().is_floating()) {
        let kernel = if dims == 1 { "max_pool1d_impl".into() } else { words(args, dims) };
        return Err(refused(&kernel, input.dtype()));
    }
    let [kernel, stride, padding, dilation] = plan.lists;
    let outputs = MAX_POOL.call([
        input.into(),
        kernel.into(),
        stride.into(),
        padding.into(),
        dilation.into(),
        plan.output.into(),
    ])?;
    Ok(outputs.into_tensors())
}

macro_rules! max_rows {
    ($($row:ident $name:literal $alias:literal $both:ident $with:literal $with_alias:literal $dims:literal $dtypes:expr, $sample:expr, $doc:literal $example:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            aliases: &[$alias],
            variants: Variants::FUNCTION,
            signature: "(Tensor self, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool ceil_mode=False) -> Tensor",
            doc: concat!("The largest element of each window of ", $doc, ".\n\n", $example),
            dtypes: $dtypes,
            run: Run::Compose(|args| {
                let first = max_pool(args, $dims)?.into_iter().next();
                first.map(Output::Tensor).ok_or_else(|| Error::runtime("pooling gave nothing"))
            }),
            derivative: Derivative::Composed,
            samples: $sample,
            reference: "",
            ..Row::BASE
        };
        pub static $both: Row = Row {
            name: $with,
            aliases: &[$with_alias],
            variants: Variants::FUNCTION,
            signature: "(Tensor self, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
            doc: concat!("The largest element of each window of ", $doc, ", and its place among the elements of its channel."),
            dtypes: $dtypes,
            run: Run::Compose(|args| max_pool(args, $dims).map(Output::Tuple)),
            derivative: Derivative::Composed,
            samples: $sample,
            reference: "",
            ..Row::BASE
        };
    )*};
}

max_rows! {
    MAX_POOL1D "max_pool1d" "nn.functional.max_pool1d" MAX_POOL1D_BOTH "max_pool1d_with_indices" "nn.functional.max_pool1d_with_indices" 1 DTypes::FLOATS,
        &["t(2, 3, 8), 2", "t(3, 8), 3, 2, 1, 2, True"], "sequences `(N, C, L)` or `(C, L)`" "    >>> torch.max_pool1d(torch.tensor([[1., 3., 2., 0.]]), 2)
    tensor([[3., 2.]])";
    MAX_POOL2D "max_pool2d" "nn.functional.max_pool2d" MAX_POOL2D_BOTH "max_pool2d_with_indices" "nn.functional.max_pool2d_with_indices" 2 DTypes::REAL,
        &["t(2, 3, 4, 6), 2", "t(3, 7, 7), 3, 2, 1, 2, True"], "images `(N, C, H, W)` or `(C, H, W)`" "    >>> torch.max_pool2d(torch.tensor([[[1., 3.], [2., 0.]]]), 2)
    tensor([[[3.]]])";
    MAX_POOL3D "max_pool3d" "nn.functional.max_pool3d" MAX_POOL3D_BOTH "max_pool3d_with_indices" "nn.functional.max_pool3d_with_indices" 3 DTypes::REAL,
        &["t(2, 3, 4, 4, 4), 2"], "volumes `(N, C, D, H, W)` or `(C, D, H, W)`" "    >>> torch.max_pool3d(torch.tensor([[[[1., 3.], [2., 0.]]]]), (1, 2, 2))
    tensor([[[[3.]]]])";
}

/// Means over windows; the last arguments say the windows, so that forward and spreading agree.
pub static MEANS: Row = Row {
    name: "_avg_pool",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] starts, int[] ends, int[] lengths, int[] output, int? divisor) -> Tensor",
    doc: "Means over windows, which are listed axis by axis: where each starts and ends, and the length it counts for.

    >>> torch._avg_pool(torch.tensor([[1., 3., 2., 0.]]), (0, 2), (2, 4), (2, 2), (2,), None)
    tensor([[2., 1.]])",
    dtypes: MEANT,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(0)?;
            Ok(vec![Spec::new(&with_space(input, args.ints(4)?)?, input.dtype(), input)])
        },
        cpu: |args, results| {
            let (input, means) = (args.tensor(0)?, means(args, args.tensor(0)?)?);
            let count = count_planes(input, args.ints(4)?.len());
            // SAFETY: row-major operands of the sizes that the windows say.
            computed(&results[0], input, |dtype, input, output| unsafe { means.forward(dtype, count, input, output) })
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let list = |place: usize| Value::from(d.ints(place));
        match d.input(0).done() {
            Ok(like) => {
                d.grad().call(&SPREAD, [list(1), list(2), list(3), list(4), d.args.optional_int(5).into(), like.into()])
            }
            Err(error) => Expr::Failed(error),
        }
    })]),
    node: "AvgPool2DBackward0",
    samples: &["t(2, 4), (0, 2), (2, 4), (2, 2), (2,), None"],
    reference: "",
    ..Row::BASE
};

pub static SPREAD: Row = Row {
    name: "_avg_pool_spread",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] starts, int[] ends, int[] lengths, int[] output, int? divisor, Tensor like) -> Tensor",
    doc: "Each value spread evenly over its window; the reverse of `_avg_pool`.

    >>> torch._avg_pool_spread(torch.tensor([[2., 1.]]), (0, 2), (2, 4), (2, 2), (2,), None, torch.ones(1, 4))
    tensor([[1.0000, 1.0000, 0.5000, 0.5000]])",
    dtypes: MEANT,
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Spec::new(args.tensor(6)?.sizes(), args.tensor(0)?.dtype(), args.tensor(0)?)]),
        cpu: |args, results| {
            let means = means(args, &results[0])?;
            let count = count_planes(&results[0], args.ints(4)?.len());
            if args.tensor(0)?.sizes() != &with_space(&results[0], args.ints(4)?)? {
                return Err(unfit(args.tensor(0)?));
            }
            // SAFETY: row-major operands of the sizes that the windows say.
            computed(&results[0], args.tensor(0)?, |dtype, input, output| unsafe {
                means.backward(dtype, count, input, output)
            })
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| {
            let list = |place: usize| Value::from(d.ints(place));
            d.grad().call(&MEANS, [list(1), list(2), list(3), list(4), d.args.optional_int(5).into()])
        }),
        formula(6, Saves::NOTHING, |d| zeros_like_input(d, 6)),
    ]),
    node: "AvgPool2DBackwardBackward0",
    samples: &["t(2, 2), (0, 2), (2, 4), (2, 2), (2,), None, t(2, 4)"],
    reference: "",
    ..Row::BASE
};

/// The windows that a call lists at places 1 to 5, for planes of `input`.
fn means(args: &Args, input: &Tensor) -> Result<Means> {
    let (starts, ends, lengths, output) = (args.ints(1)?, args.ints(2)?, args.ints(3)?, args.ints(4)?);
    let sizes = input.sizes();
    let windows = output.iter().sum::<i64>() as usize;
    if output.is_empty() || output.len() > sizes.len().min(3) || output.iter().any(|&n| n < 0) {
        return Err(unfit(input));
    }
    if [starts, ends, lengths].iter().any(|list| list.len() != windows) {
        return Err(unfit(input));
    }
    let whole = Window { start: 0, end: 1, length: 1 };
    let mut axes = [vec![whole], vec![whole], vec![whole]];
    let mut space = [1; 3];
    let missing = 3 - output.len();
    let mut at = 0;
    for (dim, &count) in output.iter().enumerate() {
        let window =
            |i: usize| Window { start: starts[i] as usize, end: ends[i] as usize, length: lengths[i] as usize };
        let (size, own) = (sizes[sizes.len() - output.len() + dim], at..at + count as usize);
        if own.clone().any(|i| starts[i] < 0 || starts[i] > ends[i] || ends[i] > size as i64 || lengths[i] <= 0) {
            return Err(unfit(input));
        }
        axes[missing + dim] = own.map(window).collect();
        space[missing + dim] = size as usize;
        at += count as usize;
    }
    let divisor = args.optional_int(5);
    if divisor == Some(0) {
        return Err(unfit(input));
    }
    Ok(Means { axes, sizes: space, divisor })
}

/// Windows of all axes, one after the other.
#[derive(Default)]
struct Windows {
    starts: Ints,
    ends: Ints,
    lengths: Ints,
    output: Ints,
}

impl Windows {
    fn push(&mut self, start: i64, end: i64, length: i64) {
        self.starts.push(start);
        self.ends.push(end);
        self.lengths.push(length);
    }

    fn apply(self, input: &Tensor, divisor: Option<i64>) -> Result<Tensor> {
        MEANS.tensor([
            input.into(),
            self.starts.into(),
            self.ends.into(),
            self.lengths.into(),
            self.output.into(),
            divisor.into(),
        ])
    }
}

fn avg_pool(args: &Args, dims: usize) -> Result<Output> {
    let input = args.tensor(0)?;
    let divisor = args.optional_int(6);
    if divisor == Some(0) {
        return Err(Error::runtime("divisor must be not zero"));
    }
    let plan = Plan::read(args, dims, None, args.bool(4)?)?;
    if !input.dtype().is_floating() && input.dtype() != DType::I64 {
        return Err(refused(&words(args, dims.max(2)), input.dtype()));
    }
    let counts_padding = args.bool(5)?;
    let [kernel, stride, padding, _] = &plan.lists;
    let mut windows = Windows { output: plan.output.clone(), ..Windows::default() };
    for dim in 0..dims {
        let size = input.sizes()[input.rank() - dims + dim] as i64;
        for at in 0..plan.output[dim] {
            let first = at * stride[dim] - padding[dim];
            let padded = (first + kernel[dim]).min(size + padding[dim]) - first;
            let (start, end) = (first.max(0), (first + kernel[dim]).min(size));
            windows.push(start, end, if counts_padding { padded } else { end - start });
        }
    }
    windows.apply(input, divisor).map(Output::Tensor)
}

macro_rules! avg_rows {
    ($($row:ident $name:literal $aliases:expr, $variants:expr, $dims:literal $divisor:literal $sample:expr, $doc:literal $example:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            aliases: $aliases,
            namespace: "nn.functional",
            variants: $variants,
            signature: concat!("(Tensor self, int[] kernel_size, int[]? stride=None, int[] padding=0, bool ceil_mode=False, bool count_include_pad=True", $divisor, ") -> Tensor"),
            doc: concat!("The mean of each window of ", $doc, "; zeros around the input count unless `count_include_pad` is false.\n\n", $example),
            out: Out::EXACT,
            dtypes: MEANT,
            run: Run::Compose(|args| avg_pool(args, $dims)),
            derivative: Derivative::Composed,
            samples: $sample,
            reference: "",
            ..Row::BASE
        };
    )*};
}

const WITH_OUT: Variants = Variants::FUNCTION.and(Variants::OUT);

avg_rows! {
    AVG_POOL1D "avg_pool1d" &["avg_pool1d"], Variants::FUNCTION, 1 "" &["t(2, 3, 8), 2", "t(3, 8), 3, 2, 1, True, False"], "sequences `(N, C, L)` or `(C, L)`"
        "    >>> torch.nn.functional.avg_pool1d(torch.tensor([[1., 3., 2., 0.]]), 2)
    tensor([[2., 1.]])";
    AVG_POOL2D "avg_pool2d" &[], WITH_OUT, 2 ", int? divisor_override=None" &["t(2, 3, 4, 6), 2", "t(3, 7, 7), 3, 2, 1, True, False"], "images `(N, C, H, W)` or `(C, H, W)`"
        "    >>> torch.nn.functional.avg_pool2d(torch.tensor([[[1., 3.], [2., 0.]]]), 2)
    tensor([[[1.5000]]])";
    AVG_POOL3D "avg_pool3d" &[], WITH_OUT, 3 ", int? divisor_override=None" &["t(2, 3, 4, 4, 4), 2"], "volumes `(N, C, D, H, W)` or `(C, D, H, W)`"
        "    >>> torch.nn.functional.avg_pool3d(torch.tensor([[[[1., 3.], [2., 0.]]]]), (1, 2, 2))
    tensor([[[[1.5000]]]])";
}

fn adaptive_avg_pool(args: &Args, dims: usize) -> Result<Output> {
    let input = args.tensor(0)?;
    let wanted = args.ints(1)?;
    let name = args.row.python_name();
    let output = match wanted.len() {
        1 => Ints::from_elem(wanted[0], dims),
        n if n == dims => Ints::from_slice(wanted),
        _ => return Err(Error::runtime(format!("{name}: output_size must be {dims}"))),
    };
    if input.rank() != dims + 1 && input.rank() != dims + 2 {
        return Err(Error::runtime(format!(
            "{name}(): Expected {}D or {}D tensor, but got {}",
            dims + 1,
            dims + 2,
            Shape(input.sizes())
        )));
    }
    if output.iter().any(|&n| n < 0) {
        return Err(Error::runtime(format!(
            "{name}: elements of output_size must be greater than or equal to 0 but received {}",
            Shape(&to_dims(&output))
        )));
    }
    if !input.dtype().is_floating() {
        return Err(refused(&format!("adaptive_avg_pool{}d", dims.max(2)), input.dtype()));
    }
    let mut windows = Windows { output: output.clone(), ..Windows::default() };
    for dim in 0..dims {
        let (size, count) = (input.sizes()[input.rank() - dims + dim] as i64, output[dim]);
        if size == 0 {
            return Err(Error::runtime(format!(
                "{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with dimension {} being empty",
                Shape(input.sizes()),
                input.rank() - dims + dim
            )));
        }
        for at in 0..count {
            let (start, end) = (at * size / count, ((at + 1) * size + count - 1) / count);
            windows.push(start, end, end - start);
        }
    }
    windows.apply(input, None).map(Output::Tensor)
}

macro_rules! adaptive_rows {
    ($($row:ident $name:literal $aliases:expr, $dims:literal $sample:expr, $doc:literal $example:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            aliases: $aliases,
            namespace: "nn.functional",
            variants: Variants::FUNCTION,
            signature: "(Tensor self, int[] output_size) -> Tensor",
            doc: concat!("Means over as many windows as asked for, which cover ", $doc, " evenly.\n\n", $example),
            dtypes: DTypes::FLOATS,
            run: Run::Compose(|args| adaptive_avg_pool(args, $dims)),
            derivative: Derivative::Composed,
            samples: $sample,
            reference: "",
            ..Row::BASE
        };
    )*};
}

adaptive_rows! {
    ADAPTIVE_AVG_POOL1D "adaptive_avg_pool1d" &["adaptive_avg_pool1d"], 1 &["t(2, 3, 8), 3"], "sequences `(N, C, L)` or `(C, L)`"
        "    >>> torch.nn.functional.adaptive_avg_pool1d(torch.tensor([[1., 3., 2., 0.]]), 2)
    tensor([[2., 1.]])";
    ADAPTIVE_AVG_POOL2D "adaptive_avg_pool2d" &[], 2 &["t(2, 3, 5, 7), (3, 2)", "t(3, 5, 7), 1"], "images `(N, C, H, W)` or `(C, H, W)`"
        "    >>> torch.nn.functional.adaptive_avg_pool2d(torch.tensor([[[1., 3.], [2., 0.]]]), 1)
    tensor([[[1.5000]]])";
    ADAPTIVE_AVG_POOL3D "adaptive_avg_pool3d" &[], 3 &["t(2, 3, 5, 4, 4), 2"], "volumes `(N, C, D, H, W)` or `(C, D, H, W)`"
        "    >>> torch.nn.functional.adaptive_avg_pool3d(torch.tensor([[[[1., 3.], [2., 0.]]]]), 1)
    tensor([[[[1.5000]]]])";
}
