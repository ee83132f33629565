//! The mean of each window, and values distributed over windows.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::collected;
use rushlight_core::layout::Shape;
use rushlight_core::memory_format::{channels_last_format, strides};
use rushlight_core::{DType, Error, Layout, Result};
use rushlight_cpu::nn::pool::{Means, Window};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, Autocast, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Out, Saves, TensorSpec,
    Variants, formula, operator,
};
use rushlight_dispatch::value::{Ints, Output, Value};

use super::{
    MEANT, PoolParams, check_not_empty, computed, count_planes, even_window, formatted, shown, window_error, with_space,
};
use crate::nn::zeros_like_input;
use crate::reduce::sum::MEAN_DIM;
use crate::view::strided::as_strided;

/// Means over windows; the last arguments are the windows, so that forward and backward agree.
#[operator]
pub static MEANS: Operator = Operator {
    name: "_avg_pool",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] starts, int[] ends, int[] lengths, int[] output, int? divisor) -> Tensor",
    doc: "Means over windows, which are listed axis by axis: the start and end of each, and its length in the divisor.

    >>> torch._avg_pool(torch.tensor([[1., 3., 2., 0.]]), (0, 2), (2, 4), (2, 2), (2,), None)
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
            let (input, means) = (args.tensor(INPUT)?, means(args, args.tensor(INPUT)?)?);
            let count = count_planes(input, args.ints(OUTPUT)?.len());
            computed(&results[0], input, |dtype, input, output| {
                // SAFETY: row-major operands of the windows' sizes.
                unsafe { means.forward(dtype, count, input, output) }
            })
        },
        cuda: OnCuda::Host,
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let list = |arg| Value::from(d.ints(arg));
        // Only adaptive pooling has empty results.
        let grad = d.grad().done().and_then(|grad| check_not_empty(&grad, d.ints(OUTPUT).len(), "avg").map(|()| grad));
        match d.input(INPUT).done().and_then(|like| grad.map(|grad| (like, grad))) {
            Ok((like, grad)) => Expr::from(grad).call(
                &SPREAD,
                [
                    list(STARTS),
                    list(ENDS),
                    list(LENGTHS),
                    list(OUTPUT),
                    d.args.optional_int(DIVISOR).into(),
                    like.into(),
                ],
            ),
            Err(error) => Expr::Failed(error),
        }
    })]),
    node: "AvgPool2DBackward0",
    samples: &["t(2, 4), (0, 2), (2, 4), (2, 2), (2,), None"],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static SPREAD: Operator = Operator {
    name: "_avg_pool_spread",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] starts, int[] ends, int[] lengths, int[] output, int? divisor, Tensor like) -> Tensor",
    doc: "Each value spread evenly over its window; the reverse of `_avg_pool`.

    >>> torch._avg_pool_spread(torch.tensor([[2., 1.]]), (0, 2), (2, 4), (2, 2), (2,), None, torch.ones(1, 4))
    tensor([[1.0000, 1.0000, 0.5000, 0.5000]])",
    dtypes: MEANT,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (own, like) = (args.tensor(INPUT)?, args.tensor(LIKE)?);
            let spec = TensorSpec::new(like.sizes(), own.dtype(), own);
            Ok(vec![formatted(spec, like.layout(), args.ints(OUTPUT)?.len())])
        },
        cpu: |args, results| {
            let means = means(args, &results[0])?;
            let count = count_planes(&results[0], args.ints(OUTPUT)?.len());
            if args.tensor(INPUT)?.sizes() != &with_space(&results[0], args.ints(OUTPUT)?)? {
                return Err(window_error(args.tensor(INPUT)?));
            }
            computed(&results[0], args.tensor(INPUT)?, |dtype, input, output| {
                // SAFETY: row-major operands of the windows' sizes.
                unsafe { means.backward(dtype, count, input, output) }
            })
        },
        cuda: OnCuda::Host,
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| {
            let list = |arg| Value::from(d.ints(arg));
            d.grad().call(
                &MEANS,
                [list(STARTS), list(ENDS), list(LENGTHS), list(OUTPUT), d.args.optional_int(DIVISOR).into()],
            )
        }),
        formula(LIKE, Saves::NOTHING, |d| zeros_like_input(d, LIKE)),
    ]),
    node: "AvgPool2DBackwardBackward0",
    samples: &["t(2, 2), (0, 2), (2, 4), (2, 2), (2,), None, t(2, 4)"],
    reference: "",
    ..Operator::BASE
};

/// The windows of a call, for planes of `input`.
fn means(args: &Args, input: &Tensor) -> Result<Means> {
    use MEANS::*;

    let (starts, ends, lengths, output) =
        (args.ints(STARTS)?, args.ints(ENDS)?, args.ints(LENGTHS)?, args.ints(OUTPUT)?);
    let sizes = input.sizes();
    let windows = output.iter().fold(0i64, |sum, &n| sum.saturating_add(n)) as usize;
    if output.is_empty() || output.len() > sizes.len().min(3) || output.iter().any(|&n| n < 0) {
        return Err(window_error(input));
    }
    if [starts, ends, lengths].iter().any(|list| list.len() != windows) {
        return Err(window_error(input));
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
            return Err(window_error(input));
        }
        axes[missing + dim] = collected(own.map(window))?;
        space[missing + dim] = size as usize;
        at += count as usize;
    }
    let divisor = args.optional_int(DIVISOR);
    if divisor == Some(0) {
        return Err(window_error(input));
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
    /// Allocates memory for `count` windows, or returns an error.
    fn expect(&mut self, count: usize) -> Result<()> {
        rushlight_core::alloc::list::<[i64; 3]>(count)?;
        for list in [&mut self.starts, &mut self.ends, &mut self.lengths] {
            list.reserve_exact(count);
        }
        Ok(())
    }

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
    use AVG_POOL1D::*;

    let input = args.tensor(INPUT)?;
    let divisor = args.op.schema().arg("divisor_override").and_then(|divisor| args.optional_int(divisor));
    if divisor == Some(0) {
        return Err(Error::runtime("divisor must be not zero"));
    }
    let params = PoolParams::read(args, [KERNEL_SIZE, STRIDE, PADDING], None, dims, args.bool(CEIL_MODE)?)?;
    let space: Vec<i64> = input.sizes()[input.rank() - dims..].iter().map(|&n| n as i64).collect();
    if !input.dtype().is_floating() && input.dtype() != DType::I64 {
        let kernel = if dims == 3 { "avg_pool3d_out_frame" } else { "avg_pool2d" };
        return Err(Error::unsupported(kernel, input.dtype()));
    }
    let counts_padding = args.bool(COUNT_INCLUDE_PAD)?;
    let [kernel, stride, padding, _] = &params.lists;
    let mut windows = Windows { output: params.output.clone(), ..Windows::default() };
    windows.expect(params.output.iter().map(|&n| n.max(0) as usize).fold(0, usize::saturating_add))?;
    for dim in 0..dims {
        let size = space[dim];
        for at in 0..params.output[dim] {
            let first = at * stride[dim] - padding[dim];
            let padded = (first + kernel[dim]).min(size + padding[dim]) - first;
            let (start, end) = (first.max(0), (first + kernel[dim]).min(size));
            windows.push(start, end, if counts_padding { padded } else { end - start });
        }
    }
    windows.apply(input, divisor).map(Output::Tensor)
}

macro_rules! avg_rows {
    ($($op:ident $name:literal $aliases:expr, $variants:expr, $dims:literal $divisor:literal $sample:expr, $errors:expr, $doc:literal $example:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            autocast: Autocast::fp32_if($dims == 3),
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
    if !input.dtype().is_floating() {
        let kernel = if dims == 3 { "adaptive_avg_pool3d_cpu" } else { &name };
        return Err(Error::unsupported(kernel, input.dtype()));
    }
    let count = output.iter().fold(0i64, |sum, &n| sum.saturating_add(n));
    rushlight_core::alloc::list::<[Window; 2]>(count as usize)?;
    let mut windows = Windows { output: output.clone(), ..Windows::default() };
    for dim in 0..dims {
        let (size, count) = (input.sizes()[rank - dims + dim] as i64, output[dim]);
        for at in 0..count {
            let (start, end) = even_window(at, size, count);
            windows.push(start, end, end - start);
        }
    }
    windows.apply(input, None).map(Output::Tensor)
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
            autocast: Autocast::fp32_if($dims == 3),
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
