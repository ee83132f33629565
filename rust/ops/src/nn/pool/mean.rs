//! The mean of each window, and values distributed over windows.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::collected;
use rushlight_core::layout::{Shape, checked_numel, to_dims};
use rushlight_core::memory_format::{channels_last_format, strides};
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Error, Layout, Result};
use rushlight_cpu::nn::pool::{Means, Window};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Out,
    Saves, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Ints, Output, Value};

use super::{
    MEANT, PoolParams, check_not_empty, computed, count_planes, even_window, formatted, on_cuda, shown, space_of,
    window_dims, window_error, with_space,
};
use crate::nn::zeros_like_input;
use crate::reduce::sum::MEAN_DIM;
use crate::view::strided::as_strided;

/// Means over windows. Without a kernel size the windows cover the input evenly.
#[operator]
pub static MEANS: Operator = Operator {
    name: "_avg_pool",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, int? divisor, int[] output) -> Tensor",
    doc: "Means over windows, or without a `kernel_size` over windows that cover the input evenly; `output` are the spatial sizes.

    >>> torch._avg_pool(torch.tensor([[1., 3., 2., 0.]]), (2,), (2,), (0,), True, None, (2,))
    tensor([[2., 1.]])",
    dtypes: MEANT,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(INPUT)?;
            let space = args.ints(OUTPUT)?;
            let spec = TensorSpec::new(&with_space(input, space)?, input.dtype(), input);
            Ok(vec![formatted(spec, input.layout(), space.len())])
        },
        cpu: |args, results| {
            let input = args.tensor(INPUT)?;
            let (axes, count) = windows(args, input)?;
            let means = means(args, axes, input)?;
            computed(&results[0], input, |dtype, input, output| {
                // SAFETY: row-major operands of the windows' sizes.
                unsafe { means.forward(dtype, count, input, output) }
            })
        },
        cuda: OnCuda::Own(|args, results| {
            let input = args.tensor(INPUT)?;
            let (axes, count) = windows(args, input)?;
            let divisor = (args.optional_int(DIVISOR), args.bool(COUNT_INCLUDE_PAD)?);
            on_cuda::mean(input, &results[0], &axes, count, divisor, false)
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        // Only adaptive pooling has empty results.
        let grad = d.grad().done().and_then(|grad| check_not_empty(&grad, d.ints(OUTPUT).len(), "avg").map(|()| grad));
        match d.input(INPUT).done().and_then(|like| grad.map(|grad| (like, grad))) {
            Ok((like, grad)) => {
                let [kernel, stride, padding, counted, divisor, output] = options(d);
                Expr::from(grad).call(&SPREAD, [kernel, stride, padding, counted, divisor, output, like.into()])
            }
            Err(error) => Expr::Failed(error),
        }
    })]),
    node: "AvgPool2DBackward0",
    samples: &["t(2, 4), (2,), (2,), (0,), True, None, (2,)", "t(2, 4), (), (), (), False, None, (3,)"],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static SPREAD: Operator = Operator {
    name: "_avg_pool_spread",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, int? divisor, int[] output, Tensor like) -> Tensor",
    doc: "Each value spread evenly over its window; the reverse of `_avg_pool`.

    >>> torch._avg_pool_spread(torch.tensor([[2., 1.]]), (2,), (2,), (0,), True, None, (2,), torch.ones(1, 4))
    tensor([[1.0000, 1.0000, 0.5000, 0.5000]])",
    dtypes: MEANT,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (input, like) = (args.tensor(INPUT)?, args.tensor(LIKE)?);
            let spec = TensorSpec::new(like.sizes(), input.dtype(), input);
            Ok(vec![formatted(spec, like.layout(), args.ints(OUTPUT)?.len())])
        },
        cpu: |args, results| {
            let (axes, count) = spread_windows(args, &results[0])?;
            let means = means(args, axes, &results[0])?;
            computed(&results[0], args.tensor(INPUT)?, |dtype, input, output| {
                // SAFETY: row-major operands of the windows' sizes.
                unsafe { means.backward(dtype, count, input, output) }
            })
        },
        cuda: OnCuda::Own(|args, results| {
            let (axes, count) = spread_windows(args, &results[0])?;
            let divisor = (args.optional_int(DIVISOR), args.bool(COUNT_INCLUDE_PAD)?);
            on_cuda::mean(args.tensor(INPUT)?, &results[0], &axes, count, divisor, true)
        }),
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| d.grad().call(&MEANS, options(d))),
        formula(LIKE, Saves::NOTHING, |d| zeros_like_input(d, LIKE)),
    ]),
    node: "AvgPool2DBackwardBackward0",
    samples: &["t(2, 2), (2,), (2,), (0,), True, None, (2,), t(2, 4)"],
    reference: "",
    ..Operator::BASE
};

/// What tells the windows of a recorded call.
fn options(d: &BackwardContext) -> [Value<'static>; 6] {
    use MEANS::*;

    let list = |arg| Value::from(d.ints(arg));
    let counted = d.args.bool(COUNT_INCLUDE_PAD).unwrap_or(true);
    [list(KERNEL_SIZE), list(STRIDE), list(PADDING), counted.into(), d.args.optional_int(DIVISOR).into(), list(OUTPUT)]
}

/// The windows of a call over planes of `input`, and the number of planes.
fn windows(args: &Args, input: &Tensor) -> Result<([WindowDim; 3], usize)> {
    use MEANS::*;

    let output = to_dims(args.ints(OUTPUT)?);
    let (dims, given) = (output.len(), args.ints(KERNEL_SIZE)?);
    let (even, single) = ([0; 3], [1; 3]);
    let Some(ones) = single.get(..dims).filter(|_| dims <= input.rank()) else { return Err(window_error(input)) };
    let lists = match given {
        [] => [&even[..dims]; 4],
        _ => [given, args.ints(STRIDE)?, args.ints(PADDING)?, ones],
    };
    let fits = |axes: &[WindowDim; 3]| axes.iter().all(|dim| dim.kernel == 0 || dim.all_read());
    let sized = args.optional_int(DIVISOR) != Some(0) && !given.contains(&0);
    let axes = window_dims(space_of(input, dims), &output, lists).filter(|axes| sized && fits(axes));
    Ok((axes.ok_or_else(|| window_error(input))?, count_planes(input, dims)))
}

/// The windows of a call of `SPREAD`.
fn spread_windows(args: &Args, result: &Tensor) -> Result<([WindowDim; 3], usize)> {
    use SPREAD::*;

    if args.tensor(INPUT)?.sizes() != &with_space(result, args.ints(OUTPUT)?)? {
        return Err(window_error(args.tensor(INPUT)?));
    }
    windows(args, result)
}

/// Lists of the windows.
fn means(args: &Args, dims: [WindowDim; 3], input: &Tensor) -> Result<Means> {
    use MEANS::*;

    let counted = args.bool(COUNT_INCLUDE_PAD)?;
    let mut axes = [const { Vec::new() }; 3];
    for (list, dim) in axes.iter_mut().zip(&dims) {
        let window = |at: usize| {
            if dim.kernel == 0 {
                let (start, end) = even_window(at as i64, dim.input as i64, dim.output as i64);
                let (start, end) = (start as usize, end as usize);
                return Window { start, end, length: end - start };
            }
            let (elements, first) = (dim.elements(at), dim.place(at, 0));
            let padded = (first + dim.kernel as isize).min((dim.input + dim.padding) as isize) - first;
            let length = if counted { padded as usize } else { elements.len() };
            Window { start: elements.start, end: elements.end, length }
        };
        *list = collected((0..dim.output).map(window))?;
    }
    let divisor = args.optional_int(DIVISOR);
    if axes.iter().flatten().any(|window| window.length == 0) {
        return Err(window_error(input));
    }
    Ok(Means { axes, sizes: dims.map(|dim| dim.input), divisor })
}

fn avg_pool(args: &Args, dims: usize) -> Result<Output> {
    use AVG_POOL1D::*;

    let input = args.tensor(INPUT)?;
    let divisor = args.op.schema().arg("divisor_override").and_then(|divisor| args.optional_int(divisor));
    let params = PoolParams::read(args, [KERNEL_SIZE, STRIDE, PADDING], None, dims, args.bool(CEIL_MODE)?)?;
    if !input.dtype().is_floating() && input.dtype() != DType::I64 {
        let kernel = if dims == 3 { "avg_pool3d_out_frame" } else { "avg_pool2d" };
        return Err(Error::unsupported(kernel, input.dtype()));
    }
    let [kernel, stride, padding, _] = params.lists;
    let counted = args.bool(COUNT_INCLUDE_PAD)?;
    MEANS.call([
        input.into(),
        kernel.into(),
        stride.into(),
        padding.into(),
        counted.into(),
        divisor.into(),
        params.output.into(),
    ])
}

macro_rules! avg_rows {
    ($($op:ident $name:literal $aliases:expr, $variants:expr, $dims:literal $divisor:literal $sample:expr, $errors:expr, $doc:literal $example:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            autocast: Autocast::fp32_if($dims == 3).on_cpu_alone(),
            aliases: $aliases,
            namespace: "nn.functional",
            variants: $variants,
            signature: concat!("(Tensor self, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, bool ceil_mode=False, bool count_include_pad=True", $divisor, ") -> Tensor"),
            doc: concat!("The mean of each window of ", $doc, "; zero padding is included unless `count_include_pad` is false.\n\n", $example),
            out: Out::EXACT,
            dtypes: MEANT,
            node: if $dims == 3 { "AvgPool3DBackward0" } else { "" },
            implementation: Implementation::CompositeImplicit(|args| avg_pool(args, $dims)),
            derivative: Derivative::CompositeImplicit,
            samples: $sample,
            errors: $errors,
            reference: "",
            ..Operator::BASE
        };
    )*};
}

const WITH_OUT: Variants = Variants::FUNCTION.union(Variants::OUT);

avg_rows! {
    AVG_POOL1D "avg_pool1d" &["avg_pool1d"], Variants::FUNCTION, 1 "" &["t(2, 3, 8), 2", "t(3, 8), 3, 2, 1, True, False"],
        &[
            ("t(1, 2, 3), 4", "RuntimeError", "Given input size: (2x1x3). Calculated output size: (2x1x0). Output size is too small"),
            ("t(3), 2", "RuntimeError", "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self' (while checking arguments for avg_pool1d)"),
            ("t(1, 2, 5), (2, 2)", "RuntimeError", "avg_pool1d() argument 'kernel_size' should contain one int (got 2)"),
            ("t(1, 2, 5), 0", "RuntimeError", "stride should not be zero"),
            ("t(1, 2, 5), -1", "RuntimeError", "kernel size should be greater than zero, but got kH: 1 kW: -1"),
            ("t(1, 2, 5), 2, padding=2", "RuntimeError", "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1"),
        ],
        "sequences `(N, C, L)` or `(C, L)`"
        "    >>> torch.nn.functional.avg_pool1d(torch.tensor([[1., 3., 2., 0.]]), 2)
    tensor([[2., 1.]])";
    AVG_POOL2D "avg_pool2d" &[], WITH_OUT, 2 ", int? divisor_override=None" &["t(2, 3, 4, 6), 2", "t(3, 7, 7), 3, 2, 1, True, False"],
        &[
            ("t(1, 2, 3, 3), 4", "RuntimeError", "Given input size: (2x3x3). Calculated output size: (2x0x0). Output size is too small"),
            ("t(1, 2, 0, 5), 2", "RuntimeError", "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:[1, 2, 0, 5]"),
            ("t(1, 2, 5, 5), 2, -1", "RuntimeError", "stride should be greater than zero, but got dH: -1 dW: -1"),
            ("t(1, 2, 5, 5), 2, divisor_override=0", "RuntimeError", "divisor must be not zero"),
        ],
        "images `(N, C, H, W)` or `(C, H, W)`"
        "    >>> torch.nn.functional.avg_pool2d(torch.tensor([[[1., 3.], [2., 0.]]]), 2)
    tensor([[[1.5000]]])";
    AVG_POOL3D "avg_pool3d" &[], WITH_OUT, 3 ", int? divisor_override=None" &["t(2, 3, 4, 4, 4), 2"],
        &[
            ("t(1, 2, 3, 5, 5), (4, 1, 1)", "RuntimeError", "input image (T: 3 H: 5 W: 5) smaller than kernel size (kT: 4 kH: 1 kW: 1)"),
            ("t(3), 2", "RuntimeError", "non-empty 4D or 5D (batch mode) tensor expected for input"),
            ("t(1, 2, 0, 5, 5), 2", "RuntimeError", "avg_pool3d(): Expected input's non-batch dimensions to have positive length, but input has a shape of [1, 2, 0, 5, 5] and non-batch dimension 0 has length zero!"),
            ("t(1, 2, 5, 5, 5), 2, divisor_override=0", "RuntimeError", "divisor must be not zero"),
        ],
        "volumes `(N, C, D, H, W)` or `(C, D, H, W)`"
        "    >>> torch.nn.functional.avg_pool3d(torch.tensor([[[[1., 3.], [2., 0.]]]]), (1, 2, 2))
    tensor([[[[1.5000]]]])";
}

fn adaptive_avg_pool(args: &Args, dims: usize) -> Result<Output> {
    use ADAPTIVE_AVG_POOL1D::*;

    let (input, wanted) = (args.tensor(INPUT)?, args.ints(OUTPUT_SIZE)?);
    let rank = input.rank();
    if dims == 1 {
        super::check_sequence(rank, "adaptive_avg_pool1d")?;
    }
    let output = match wanted.len() {
        1 => Ints::from_elem(wanted[0], dims),
        n if n == dims => Ints::from_slice(wanted),
        n if dims == 1 => {
            let text = format!("adaptive_avg_pool1d() argument 'output_size' should contain one int (got {n})");
            return Err(Error::runtime(text));
        }
        _ => return Err(Error::runtime(format!("adaptive_avg_pool{dims}d: output_size must be {dims}"))),
    };
    super::check_listed(wanted, rank)?;
    // torch computes means over whole images with `mean`, also of other dtypes and ranks, and of nothing.
    let whole = output.iter().all(|&n| n == 1);
    if whole && (dims > 1 || rank == 2 || rank == 3) {
        return mean_of_whole(input, dims).map(Output::Tensor);
    }
    let empty = (1..rank).find(|&dim| dims == 3 && input.sizes()[dim] == 0);
    if let Some(at) = empty.filter(|_| output.iter().all(|&n| n >= 0)) {
        return Err(Error::runtime(format!(
            "adaptive_avg_pool3d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with dimension {at} being empty",
            Shape(input.sizes())
        )));
    }
    if rank != dims + 1 && rank != dims + 2 {
        return Err(match dims {
            1 => Error::runtime(format!(
                "Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 'self' (while checking arguments for adaptive_avg_pool1d)"
            )),
            _ => Error::runtime(format!(
                "adaptive_avg_pool{dims}d(): Expected {}D or {}D tensor, but got {}",
                dims + 1,
                dims + 2,
                Shape(input.sizes())
            )),
        });
    }
    // A sequence is an image of height one, in messages too.
    let name = format!("adaptive_avg_pool{}d", dims.max(2));
    if output.iter().any(|&n| n < 0) {
        let shown = match output[..] {
            [width] => format!("1, {width}"),
            [depth, height, width] => format!("{depth}, {height},{width}"),
            _ => output.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
        };
        return Err(Error::runtime(format!(
            "{name}: elements of output_size must be greater than or equal to 0 but received {{{shown}}}"
        )));
    }
    let sizes = shown(input, dims);
    if let Some(at) = (0..dims).find(|dim| input.sizes()[rank - dims + dim] == 0) {
        return Err(Error::runtime(format!(
            "{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with dimension {} being empty",
            Shape(&sizes),
            sizes.len() - dims + at
        )));
    }
    checked_numel(&with_space(input, &output)?)?;
    if !input.dtype().is_floating() {
        let kernel = if dims == 3 { "adaptive_avg_pool3d_cpu" } else { &name };
        return Err(Error::unsupported(kernel, input.dtype()));
    }
    let none = || Value::from(Ints::new());
    MEANS.call([input.into(), none(), none(), none(), false.into(), None::<i64>.into(), output.into()])
}

/// The means of whole images, as those of other dimensions; if the images are channels last, the result is.
fn mean_of_whole(input: &Tensor, dims: usize) -> Result<Tensor> {
    let over: Ints = (1..=dims as i64).map(|dim| -dim).collect();
    let means = op!(MEAN_DIM, input, over, true)?;
    match channels_last_format(input.layout()) {
        Some(format) => {
            let strides = strides(means.sizes(), Some(format), None)?;
            as_strided(&means, &Layout { strides, ..means.layout().clone() })
        }
        None => Ok(means),
    }
}

macro_rules! adaptive_rows {
    ($($op:ident $name:literal $aliases:expr, $dims:literal $sample:expr, $errors:expr, $doc:literal $example:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            autocast: Autocast::fp32_if($dims == 3).on_cpu_alone(),
            aliases: $aliases,
            namespace: "nn.functional",
            variants: Variants::FUNCTION,
            signature: "(Tensor self, int[1] output_size) -> Tensor",
            doc: concat!("Means over the requested number of windows, which cover ", $doc, " evenly.\n\n", $example),
            dtypes: DTypes::FLOATS,
            node: match $dims {
                2 => "AdaptiveAvgPool2DBackward0",
                3 => "AdaptiveAvgPool3DBackward0",
                _ => "",
            },
            implementation: Implementation::CompositeImplicit(|args| adaptive_avg_pool(args, $dims)),
            derivative: Derivative::CompositeImplicit,
            samples: $sample,
            errors: $errors,
            reference: "",
            ..Operator::BASE
        };
    )*};
}

adaptive_rows! {
    ADAPTIVE_AVG_POOL1D "adaptive_avg_pool1d" &["adaptive_avg_pool1d"], 1 &["t(2, 3, 8), 3"],
        &[
            ("t(3), 2", "RuntimeError", "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self' (while checking arguments for adaptive_avg_pool1d)"),
            ("t(1, 2, 5), (2, 2)", "RuntimeError", "adaptive_avg_pool1d() argument 'output_size' should contain one int (got 2)"),
            ("t(2, 0), 2", "RuntimeError", "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [2, 1, 0] with dimension 2 being empty"),
            ("t(1, 2, 5), -1", "RuntimeError", "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {1, -1}"),
        ],
        "sequences `(N, C, L)` or `(C, L)`"
        "    >>> torch.nn.functional.adaptive_avg_pool1d(torch.tensor([[1., 3., 2., 0.]]), 2)
    tensor([[2., 1.]])";
    ADAPTIVE_AVG_POOL2D "adaptive_avg_pool2d" &[], 2 &["t(2, 3, 5, 7), (3, 2)", "t(3, 5, 7), 1"],
        &[
            ("t(3), 2", "RuntimeError", "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got [3]"),
            ("t(1, 2, 0, 3), 2", "RuntimeError", "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [1, 2, 0, 3] with dimension 2 being empty"),
            ("t(1, 2, 5, 5), -1", "RuntimeError", "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {-1, -1}"),
        ],
        "images `(N, C, H, W)` or `(C, H, W)`"
        "    >>> torch.nn.functional.adaptive_avg_pool2d(torch.tensor([[[1., 3.], [2., 0.]]]), 1)
    tensor([[[1.5000]]])";
    ADAPTIVE_AVG_POOL3D "adaptive_avg_pool3d" &[], 3 &["t(2, 3, 5, 4, 4), 2"],
        &[
            ("t(3), 2", "RuntimeError", "adaptive_avg_pool3d(): Expected 4D or 5D tensor, but got [3]"),
            ("t(1, 2, 0, 3, 3), 2", "RuntimeError", "adaptive_avg_pool3d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [1, 2, 0, 3, 3] with dimension 2 being empty"),
            ("t(1, 2, 5, 5, 5), (2, -1, 2)", "RuntimeError", "adaptive_avg_pool3d: elements of output_size must be greater than or equal to 0 but received {2, -1,2}"),
        ],
        "volumes `(N, C, D, H, W)` or `(C, D, H, W)`"
        "    >>> torch.nn.functional.adaptive_avg_pool3d(torch.tensor([[[[1., 3.], [2., 0.]]]]), 1)
    tensor([[[[1.5000]]]])";
}
