//! The largest element of each window, for windows that differ: adaptive and random ones.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{collected, list};
use rushlight_core::layout::Shape;
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::nn::pool::{Window, max_windows};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, plain_workplace, settle};
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves,
    TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output};

use super::max::scattered;
use super::{
    address, check_not_empty, count_planes, even_window, on_cuda, space_of, window_dims, window_error, with_space,
};

/// The gradient of the input: the values at their places, which come from `windows` (see `SCATTER`).
fn placed(d: &BackwardContext, windows: Ints) -> Expr {
    use ADAPTIVE::*;

    let dims = d.ints(OUTPUT).len();
    match d.grad().done().and_then(|grad| check_not_empty(&grad, dims, "max").map(|()| grad)) {
        Ok(grad) => scattered(grad.into(), d.result_of(1), d.input(INPUT), dims, windows),
        Err(error) => Expr::Failed(error),
    }
}

/// The results' sizes: the last dimensions of the input are replaced by those in the argument.
fn infer(args: &Args, arg: Arg) -> Result<Vec<TensorSpec>> {
    let (input, output) = (args.tensor(ADAPTIVE::INPUT)?, args.ints(arg)?);
    if output.is_empty() || output.len() > 3 || output.iter().any(|&n| n < 0) {
        return Err(window_error(input));
    }
    let sizes = with_space(input, output)?;
    if sizes.iter().all(|&n| n != 0) && input.numel() == 0 {
        return Err(window_error(input));
    }
    Ok(vec![TensorSpec::new(&sizes, input.dtype(), input), TensorSpec::new(&sizes, DType::I64, input)])
}

/// Adds windows over the whole plane for the dimensions that a sequence or an image lacks.
fn padded(axes: Vec<Vec<Window>>) -> [Vec<Window>; 3] {
    let missing = 3 - axes.len();
    let mut axes = axes.into_iter();
    std::array::from_fn(|at| match at < missing {
        true => vec![Window { start: 0, end: 1, length: 1 }],
        false => axes.next().unwrap_or_default(),
    })
}

/// Runs the kernel; `axes` has windows for every plane, or one set for all.
fn run(input: &Tensor, results: &[Tensor], dims: usize, axes: &[[Vec<Window>; 3]]) -> Result<()> {
    if results[0].numel() == 0 {
        return Ok(());
    }
    let input = plain(input, results[0].dtype())?;
    let mut sizes = [1; 3];
    for (to, &size) in sizes[3 - dims..].iter_mut().zip(&input.sizes()[input.rank() - dims..]) {
        *to = size as usize;
    }
    let inside = |window: &Window, size: usize| window.start < window.end && window.end <= size;
    let fits = |own: &[Vec<Window>; 3]| own.iter().zip(sizes).all(|(list, size)| list.iter().all(|w| inside(w, size)));
    if !axes.iter().all(fits) {
        return Err(window_error(&input));
    }
    let count = count_planes(&input, dims);
    let own = [plain_workplace(&results[0], input.dtype())?, plain_workplace(&results[1], DType::I64)?];
    {
        let (from, best, places) = (input.storage().pin()?, own[0].storage().pin()?, own[1].storage().pin()?);
        let addresses = [address(&from, &input), address(&best, &own[0])];
        let of_plane = |plane: usize| &axes[plane % axes.len()];
        // SAFETY: row-major operands, pinned; windows were checked, and results are new.
        unsafe { max_windows(input.dtype(), of_plane, sizes, count, addresses, address(&places, &own[1]).cast())? };
    }
    own.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

#[operator]
pub static ADAPTIVE: Operator = Operator {
    name: "_adaptive_max",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] output) -> (Tensor, Tensor)",
    doc: "The largest element of windows that cover each channel evenly, and its index among the channel's elements.

    >>> torch._adaptive_max(torch.tensor([[1., 3., 2.]]), (2,))
    (tensor([[3., 3.]]), tensor([[1, 1]]))",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (layout, specs) = (args.tensor(INPUT)?.layout(), infer(args, OUTPUT)?);
            Ok(specs
                .into_iter()
                .map(|spec| super::formatted(spec, layout, args.ints(OUTPUT).map_or(0, <[i64]>::len)))
                .collect())
        },
        cpu: |args, results| {
            let (input, output) = (args.tensor(INPUT)?, args.ints(OUTPUT)?);
            if results[0].numel() == 0 {
                return Ok(());
            }
            let space = &input.sizes()[input.rank() - output.len()..];
            let axes = space.iter().zip(output).map(|(&size, &count)| {
                let window = |at: i64| {
                    let (start, end) = even_window(at, size as i64, count);
                    let (start, end) = (start as usize, end as usize);
                    Window { start, end, length: end - start }
                };
                let mut windows = list(count as usize)?;
                windows.extend((0..count).map(window));
                Ok(windows)
            });
            run(input, results, output.len(), &[padded(axes.collect::<Result<_>>()?)])
        },
        cuda: OnCuda::Own(|args, results| {
            let input = args.tensor(INPUT)?;
            let dims = args.ints(OUTPUT)?.len();
            if results[0].numel() == 0 {
                return Ok(());
            }
            let even = [[0; 3]; 4];
            let lists = [0, 1, 2, 3].map(|n| &even[n][..dims]);
            let axes = window_dims(space_of(input, dims), space_of(&results[0], dims), lists);
            on_cuda::max(input, results, &axes.ok_or_else(|| window_error(input))?, count_planes(input, dims))
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::result(1).union(Saves::input(INPUT)), |d| {
        placed(d, Ints::from_elem(0, 4 * d.ints(OUTPUT).len()))
    })]),
    node: "AdaptiveMaxPool2DBackward0",
    samples: &["t(2, 3, 5), (2,)", "t(2, 3, 5, 4), (2, 3)"],
    reference: "",
    ..Operator::BASE
};

fn adaptive_max_pool(args: &Args, dims: usize) -> Result<Output> {
    use ADAPTIVE_MAX_POOL1D::*;

    let (input, wanted) = (args.tensor(INPUT)?, args.ints(OUTPUT_SIZE)?);
    let rank = input.rank();
    if dims == 1 {
        super::check_sequence(rank, "adaptive_max_pool1d")?;
    }
    let output = match wanted.len() {
        1 => Ints::from_elem(wanted[0], dims),
        n if n == dims => Ints::from_slice(wanted),
        n if dims == 1 => {
            let text = format!("adaptive_max_pool1d() argument 'output_size' should contain one int (got {n})");
            return Err(Error::runtime(text));
        }
        _ => {
            let text = format!("adaptive_max_pool{dims}d(): internal error: output_size.size() must be {dims}");
            return Err(Error::runtime(text));
        }
    };
    super::check_listed(wanted, rank)?;
    if rank != dims + 1 && rank != dims + 2 {
        return Err(Error::runtime(match dims {
            1 => format!(
                "Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 'self' (while checking arguments for adaptive_max_pool1d)"
            ),
            _ => format!(
                "adaptive_max_pool{dims}d(): Expected {}D or {}D tensor, but got: {}",
                dims + 1,
                dims + 2,
                Shape(input.sizes())
            ),
        }));
    }
    let sizes = super::shown(input, dims);
    let batched = usize::from(rank == dims + 2);
    if let Some(at) = (batched..rank).find(|&at| input.sizes()[at] == 0) {
        return Err(Error::runtime(format!(
            "adaptive_max_pool{dims}d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with dimension {at} being empty",
            Shape(input.sizes())
        )));
    }
    if let Some(bad) = output.iter().find(|&&n| n < 0) {
        let mut shown = sizes[..sizes.len() - dims].to_vec();
        shown.extend(output.iter().map(|&n| n as isize));
        return Err(Error::runtime(format!(
            "Trying to create tensor with negative dimension {bad}: {}",
            Shape(&shown)
        ))
        .hint("Output sizes must be non-negative."));
    }
    if !input.dtype().is_floating() {
        let kernel = if dims == 3 { "adaptive_max_pool3d_cpu" } else { "adaptive_max_pool2d" };
        return Err(Error::unsupported(kernel, input.dtype()));
    }
    ADAPTIVE.call([input.into(), output.into()])
}

macro_rules! adaptive_rows {
    ($($op:ident $name:literal $alias:literal $dims:literal $samples:expr, $errors:expr, $shapes:literal $example:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            autocast: Autocast::fp32_if($dims == 3).on_cpu_alone(),
            namespace: "nn.functional",
            aliases: &[$alias],
            variants: Variants::FUNCTION,
            signature: "(Tensor self, int[1] output_size, truth return_indices=True) -> (Tensor, Tensor)",
            doc: concat!(
                "The largest element of windows that cover each channel evenly, `output_size` of them, and its index.\n\nShapes: ",
                $shapes,
                "\n\n",
                $example
            ),
            dtypes: DTypes::FLOATS,
            node: if $dims == 3 { "AdaptiveMaxPool3DBackward0" } else { "" },
            implementation: Implementation::CompositeImplicit(|args| adaptive_max_pool(args, $dims)),
            derivative: Derivative::CompositeImplicit,
            samples: $samples,
            errors: $errors,
            reference: "",
            ..Operator::BASE
        };
    )*};
}

adaptive_rows! {
    ADAPTIVE_MAX_POOL1D "adaptive_max_pool1d_with_indices" "adaptive_max_pool1d" 1
        &["t(2, 3, 5), 2", "t(3, 5), (3,)"],
        &[("t(1, 2, 3), ()", "RuntimeError", "adaptive_max_pool1d() argument 'output_size' should contain one int (got 0)")],
        "input `(N, C, L)` or `(C, L)`, results the same with another `L`."
        "    >>> torch.nn.functional.adaptive_max_pool1d_with_indices(torch.tensor([[1., 3., 2.]]), 1)
    (tensor([[3.]]), tensor([[1]]))";
    ADAPTIVE_MAX_POOL2D "adaptive_max_pool2d_with_indices" "_adaptive_max_pool2d" 2
        &["t(2, 3, 5, 4), 2", "t(3, 5, 4), (3, 2)"],
        &[
            ("t(2, 2), 2", "RuntimeError", "adaptive_max_pool2d(): Expected 3D or 4D tensor, but got: [2, 2]"),
            ("t(1, 2, 3, 4), ()", "RuntimeError", "adaptive_max_pool2d(): internal error: output_size.size() must be 2"),
            ("t(1, 1, 1, 1), (-1, 0)", "RuntimeError", "Trying to create tensor with negative dimension -1: [1, 1, -1, 0]"),
        ],
        "input `(N, C, H, W)` or `(C, H, W)`, results the same with other `H` and `W`."
        "    >>> torch.nn.functional.adaptive_max_pool2d_with_indices(torch.tensor([[[1., 3.], [2., 0.]]]), 1)
    (tensor([[[3.]]]), tensor([[[1]]]))";
    ADAPTIVE_MAX_POOL3D "adaptive_max_pool3d_with_indices" "_adaptive_max_pool3d" 3
        &["t(2, 3, 3, 4, 2), 2", "t(3, 2, 5, 4), (1, 3, 2)"],
        &[("t(1, 1, 1, 1, 1), (-1, 0, 2)", "RuntimeError", "Trying to create tensor with negative dimension -1: [1, 1, -1, 0, 2]")],
        "input `(N, C, D, H, W)` or `(C, D, H, W)`, results the same with other sizes of space."
        "    >>> torch.nn.functional.adaptive_max_pool3d_with_indices(torch.tensor([[[[1., 3.], [2., 0.]]]]), 1)
    (tensor([[[[3.]]]]), tensor([[[[1]]]]))";
}

#[operator]
pub static FRACTIONAL: Operator = Operator {
    name: "_fractional_max",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] output, int[] kernel_size, Tensor samples) -> (Tensor, Tensor)",
    doc: "The largest element of windows at random distances, and its index. `samples` has a number from 0 to 1 for each channel and
dimension of space.

    >>> torch._fractional_max(torch.tensor([[1., 3., 2.]]), (2,), (2,), torch.zeros(1, 1))
    (tensor([[3., 3.]]), tensor([[1, 1]]))",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (input, samples) = (args.tensor(INPUT)?, args.tensor(SAMPLES)?);
            let (dims, kernel) = (args.ints(OUTPUT)?.len(), args.ints(KERNEL_SIZE)?);
            let specs = infer(args, OUTPUT)?;
            let space = &input.sizes()[input.rank() - dims..];
            let wanted = count_planes(input, dims) * dims;
            if kernel.len() != dims || kernel.iter().any(|&size| size <= 0) || samples.numel() != wanted {
                return Err(window_error(input));
            }
            for at in 0..dims {
                check_windows_fit(args.ints(OUTPUT)?[at], kernel[at], space[at], at + 3 - dims, dims)?;
            }
            Ok(specs)
        },
        cpu: |args, results| {
            let (input, output, kernel) = (args.tensor(INPUT)?, args.ints(OUTPUT)?, args.ints(KERNEL_SIZE)?);
            let dims = output.len();
            let samples = crate::convert::to_vec::<f64>(args.tensor(SAMPLES)?)?;
            let narrow = input.dtype() != DType::F64;
            let space = &input.sizes()[input.rank() - dims..];
            let mut axes = list(samples.len().checked_div(dims).unwrap_or(0))?;
            for own in samples.chunks(dims) {
                let axis = |at: usize| {
                    // torch's samples of an image are for its width and its height, in this order.
                    let sample = if dims == 2 { own[1 - at] } else { own[at] };
                    intervals(sample, space[at] as usize, output[at] as usize, kernel[at] as usize, narrow)
                };
                axes.push(padded((0..dims).map(axis).collect::<Result<_>>()?));
            }
            run(input, results, dims, &axes)
        },
        cuda: OnCuda::Own(|args, results| {
            let (input, output, kernel) = (args.tensor(INPUT)?, args.ints(OUTPUT)?, args.ints(KERNEL_SIZE)?);
            if results[0].numel() == 0 {
                return Ok(());
            }
            let space = &input.sizes()[input.rank() - output.len()..];
            let mut axes = [WindowDim::FLAT; 3];
            for (at, axis) in axes[3 - output.len()..].iter_mut().enumerate() {
                (axis.input, axis.output, axis.kernel) =
                    (space[at] as usize, output[at] as usize, kernel[at] as usize);
            }
            let planes = (count_planes(input, output.len()), output.len());
            on_cuda::random(input, args.tensor(SAMPLES)?, results, &axes, planes)
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::result(1).union(Saves::input(INPUT)), |d| {
        placed(d, Ints::new())
    })]),
    node: "FractionalMaxPool2DBackward0",
    samples: &["t(2, 3, 5), (2,), (2,), unit(6, 1).abs()", "t(2, 5, 6), (2, 3), (2, 3), unit(2, 2).abs()"],
    reference: "",
    ..Operator::BASE
};

/// Checks that there are as many positions for windows as requested.
fn check_windows_fit(output: i64, kernel: i64, size: isize, axis: usize, dims: usize) -> Result<()> {
    if output.saturating_add(kernel - 1) <= size as i64 {
        return Ok(());
    }
    let (name, axis) = (
        if dims == 3 { "fractional_max_pool3d_out" } else { "fractional_max_pool2d" },
        ["time", "height", "width"][axis],
    );
    Err(Error::runtime(format!("{name}(): pool {axis} {kernel} too large relative to input {axis} {size}")).hint(
        format!("{output} windows of size {kernel} need at least {} elements.", output.saturating_add(kernel - 1)),
    ))
}

/// The first elements of windows: evenly spaced on average, the last one at the end; in the dtype's own precision.
fn intervals(sample: f64, size: usize, count: usize, kernel: usize, narrow: bool) -> Result<Vec<Window>> {
    let start = |at: usize| {
        if at + 1 == count {
            return size - kernel;
        }
        if narrow {
            let alpha = (size - kernel) as f32 / (count - 1) as f32;
            let sample = sample as f32;
            return (((at as f32 + sample) * alpha) as i64 - (sample * alpha) as i64).max(0) as usize;
        }
        let alpha = (size - kernel) as f64 / (count - 1) as f64;
        (((at as f64 + sample) * alpha) as i64 - (sample * alpha) as i64).max(0) as usize
    };
    let window = |start: usize| Window { start, end: start + kernel, length: kernel };
    collected((0..count).map(|at| window(start(at))))
}
