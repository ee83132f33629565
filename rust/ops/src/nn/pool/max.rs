//! The largest element of each window, and the elements at given indices.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::memory_format::has_channels_last;
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::nn::pool::{gather, max, scatter};
use rushlight_cuda::pool::Areas;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, plain_workplace, settle};
use rushlight_dispatch::operator::{
    Args, Autocast, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves, TensorSpec,
    Variants, formula, operator,
};
use rushlight_dispatch::value::{Ints, Output};

use super::{
    MEANT, PoolParams, address, computed, count_planes, formatted, on_cuda, space_of, window_dims, window_error,
    with_space, words,
};
use crate::nn::zeros_like_input;

#[operator]
pub static MAX_POOL: Operator = Operator {
    name: "_max_pool",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, int[] output) -> (Tensor, Tensor)",
    doc: "The largest element of each window and its index among the elements of its channel; `output` are the spatial sizes.

    >>> torch._max_pool(torch.tensor([[1., 3., 2., 0.]]), (2,), (2,), (0,), (1,), (2,))
    (tensor([[3., 2.]]), tensor([[1, 2]]))",
    dtypes: DTypes::REAL,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(INPUT)?;
            let sizes = with_space(input, args.ints(OUTPUT)?)?;
            let batched = input.rank() == args.ints(OUTPUT)?.len() + 2;
            let spec = |dtype| {
                let spec = TensorSpec::new(&sizes, dtype, input);
                if batched { spec.formatted(input.layout()) } else { spec }
            };
            Ok(vec![spec(input.dtype()), spec(DType::I64)])
        },
        cpu: |args, results| {
            if results[0].numel() == 0 {
                return Ok(());
            }
            let input = plain(args.tensor(INPUT)?, results[0].dtype())?;
            let (axes, count) = windows(args, results)?;
            let own = [plain_workplace(&results[0], input.dtype())?, plain_workplace(&results[1], DType::I64)?];
            {
                let (from, best, places) = (input.storage().pin()?, own[0].storage().pin()?, own[1].storage().pin()?);
                // SAFETY: row-major operands, pinned, of the sizes of the axes; the results are new.
                unsafe {
                    let (best, places) = (address(&best, &own[0]), address(&places, &own[1]));
                    max(input.dtype(), &axes, count, address(&from, &input), best, places.cast())?;
                }
            }
            own.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
        },
        cuda: OnCuda::Own(|args, results| {
            if results[0].numel() == 0 {
                return Ok(());
            }
            let (axes, count) = windows(args, results)?;
            on_cuda::max(args.tensor(INPUT)?, results, &axes, count)
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::result(1).union(Saves::input(INPUT)), |d| {
        let lists = [d.ints(KERNEL_SIZE), d.ints(STRIDE), d.ints(PADDING), d.ints(DILATION)];
        scattered(d.grad(), d.result_of(1), d.input(INPUT), lists[0].len(), lists.concat().into())
    })]),
    node: "MaxPool2DWithIndicesBackward0",
    samples: &["t(2, 3, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1), (2, 2)"],
    reference: "",
    ..Operator::BASE
};

/// The windows of a call of `MAX_POOL`, and the number of planes.
fn windows(args: &Args, results: &[Tensor]) -> Result<([WindowDim; 3], usize)> {
    use MAX_POOL::*;

    let input = args.tensor(INPUT)?;
    let lists = [args.ints(KERNEL_SIZE)?, args.ints(STRIDE)?, args.ints(PADDING)?, args.ints(DILATION)?];
    let dims = lists[0].len();
    let sized = lists[0].iter().all(|&size| size > 0) && args.ints(OUTPUT)?.len() == dims;
    let axes = window_dims(space_of(input, dims), space_of(&results[0], dims), lists).filter(|_| sized);
    Ok((axes.ok_or_else(|| window_error(input))?, count_planes(input, dims)))
}

/// The error for a kernel that found indices out of range.
pub(super) fn all_within(within: bool, area: usize) -> Result<()> {
    if within { Ok(()) } else { Err(Error::index(format!("a place is not within a plane of {area} elements"))) }
}

/// Checks that both tensors have planes of `dims` dimensions, and equally many.
pub(super) fn check_planes(a: &Tensor, b: &Tensor, dims: usize) -> Result<()> {
    if a.rank() < dims || b.rank() < dims || count_planes(a, dims) != count_planes(b, dims) {
        return Err(window_error(a));
    }
    Ok(())
}

pub(super) fn plane(tensor: &Tensor, dims: usize) -> usize {
    tensor.sizes()[tensor.rank() - dims..].iter().product::<isize>() as usize
}

/// Values added at their places, which come from `windows`: see `SCATTER`.
pub(super) fn scattered(values: Expr, places: Expr, like: Expr, dims: usize, windows: Ints) -> Expr {
    match (places.done(), like.done()) {
        (Ok(places), Ok(like)) => values.call(&SCATTER, [places.into(), like.into(), dims.into(), windows.into()]),
        (Err(error), _) | (_, Err(error)) => Expr::Failed(error),
    }
}

/// Checks the arguments of `SCATTER`; returns the number of dimensions of a plane.
fn check_scatter(args: &Args, result: &Tensor) -> Result<usize> {
    use SCATTER::*;

    let dims = args.int(DIMS)? as usize;
    check_planes(result, args.tensor(PLACES)?, dims)?;
    match args.tensor(INPUT)?.sizes() == args.tensor(PLACES)?.sizes() {
        true => Ok(dims),
        false => Err(window_error(args.tensor(INPUT)?)),
    }
}

/// The result does not depend on the values of `like`, whose gradient is zeros, as in torch.
#[operator]
pub static SCATTER: Operator = Operator {
    name: "_pool_scatter",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor places, Tensor like, int dims, int[] windows) -> Tensor",
    doc: "Zeros like `like` with the values of `self` added at their indices in each plane of `dims` dimensions. `windows` has the kernel
sizes, strides, paddings and dilations of windows, if each value lies in its window. They are zeros if the windows cover planes evenly.

    >>> torch._pool_scatter(torch.tensor([[3., 2.]]), torch.tensor([[1, 2]]), torch.ones(1, 4), 1, ())
    tensor([[0., 3., 2., 0.]])",
    dtypes: MEANT,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (input, places, like) = (args.tensor(INPUT)?, args.tensor(PLACES)?, args.tensor(LIKE)?);
            let spec = TensorSpec::new(like.sizes(), input.dtype(), input);
            // Only the windows of `max_pool3d` keep the order of volumes.
            Ok(vec![match args.int(DIMS)? {
                3 if has_channels_last(places.layout()) => spec.formatted(like.layout()),
                dims => formatted(spec, like.layout(), dims as usize),
            }])
        },
        cpu: |args, results| {
            let dims = check_scatter(args, &results[0])?;
            let places = plain(args.tensor(PLACES)?, DType::I64)?;
            let (count, area) = (count_planes(&results[0], dims), plane(&results[0], dims));
            let sizes = [plane(&places, dims), area];
            let pin = places.storage().pin()?;
            // SAFETY: row-major operands of these sizes; the kernel checks the indices.
            computed(&results[0], args.tensor(INPUT)?, |dtype, input, output| unsafe {
                all_within(scatter(dtype, count, sizes, input, address(&pin, &places).cast(), output)?, area)
            })
        },
        cuda: OnCuda::Own(|args, results| {
            let dims = check_scatter(args, &results[0])?;
            if results[0].numel() == 0 {
                return Ok(());
            }
            let (values, places) = (args.tensor(INPUT)?, args.tensor(PLACES)?);
            let (count, area) = (count_planes(&results[0], dims), plane(&results[0], dims));
            let windows = args.ints(WINDOWS)?;
            if windows.is_empty() {
                let areas = Areas { count, pixels: plane(places, dims), area };
                return all_within(on_cuda::scatter_anywhere(values, places, &results[0], areas)?, area);
            }
            let list = |n: usize| windows.get(n * dims..(n + 1) * dims).unwrap_or_default();
            let lists = [list(0), list(1), list(2), list(3)];
            let axes = window_dims(space_of(&results[0], dims), space_of(places, dims), lists);
            on_cuda::scatter(values, places, &results[0], &axes.ok_or_else(|| window_error(values))?, count)
        }),
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(PLACES), |d| match d.input(PLACES).done() {
            Ok(places) => d.grad().call(&GATHER, [places.into(), d.int(DIMS).into()]),
            Err(error) => Expr::Failed(error),
        }),
        formula(LIKE, Saves::NOTHING, |d| zeros_like_input(d, LIKE)),
    ]),
    node: "MaxPool2DWithIndicesBackwardBackward0",
    samples: &[
        "t(2, 3), i(4, 2, 3), t(2, 4), 1, ()",
        "t(2, 2), torch.tensor([[1, 2], [0, 3]]), t(2, 4), 1, (2, 2, 0, 1)",
        "t(1, 3), torch.tensor([[1, 1, 3]]), t(1, 5), 1, (0, 0, 0, 0)",
    ],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static GATHER: Operator = Operator {
    name: "_pool_gather",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor places, int dims) -> Tensor",
    doc: "The values at the indices `places` of each plane of `dims` dimensions.

    >>> torch._pool_gather(torch.tensor([[5., 6., 7.]]), torch.tensor([[2, 0]]), 1)
    tensor([[7., 5.]])",
    dtypes: MEANT,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            Ok(vec![TensorSpec::new(args.tensor(PLACES)?.sizes(), args.tensor(INPUT)?.dtype(), args.tensor(INPUT)?)])
        },
        cpu: |args, results| {
            let dims = args.int(DIMS)? as usize;
            check_planes(args.tensor(INPUT)?, args.tensor(PLACES)?, dims)?;
            let places = plain(args.tensor(PLACES)?, DType::I64)?;
            let (count, area) = (count_planes(&places, dims), plane(args.tensor(INPUT)?, dims));
            let sizes = [plane(&places, dims), area];
            let pin = places.storage().pin()?;
            // SAFETY: as for `SCATTER`.
            computed(&results[0], args.tensor(INPUT)?, |dtype, input, output| unsafe {
                all_within(gather(dtype, count, sizes, input, address(&pin, &places).cast(), output)?, area)
            })
        },
        cuda: OnCuda::Own(|args, results| {
            let dims = args.int(DIMS)? as usize;
            let (input, places) = (args.tensor(INPUT)?, args.tensor(PLACES)?);
            check_planes(input, places, dims)?;
            let areas =
                Areas { count: count_planes(places, dims), pixels: plane(places, dims), area: plane(input, dims) };
            all_within(on_cuda::gather(input, places, &results[0], areas)?, areas.area)
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(PLACES).union(Saves::input(INPUT)), |d| {
        scattered(d.grad(), d.input(PLACES), d.input(INPUT), d.int(DIMS) as usize, Ints::new())
    })]),
    samples: &["t(2, 4), i(4, 2, 3), 1"],
    reference: "",
    ..Operator::BASE
};

/// Checks of `max_pool1d` with its own messages.
fn check_max_pool1d(args: &Args) -> Result<()> {
    use MAX_POOL1D::*;

    let sizes = args.tensor(INPUT)?.sizes();
    if !(2..=3).contains(&sizes.len()) || sizes[sizes.len() - 2..].contains(&0) {
        return Err(Error::runtime(format!(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
            Shape(sizes)
        )));
    }
    let one = |arg, rule: &str| match args.optional_ints(arg) {
        None | Some([]) => Ok(None),
        Some([only]) => Ok(Some(*only)),
        Some(list) => Err(Error::runtime(format!(
            "max_pool1d() {} must be {rule} of size 1 but got size {}",
            args.param(arg).name,
            list.len()
        ))),
    };
    let kernel = one(KERNEL_SIZE, "an int, list of ints or tuple of ints")?.unwrap_or(0);
    let stride = one(STRIDE, "None, an int, list of ints, or tuple of ints")?.unwrap_or(kernel);
    let padding = one(PADDING, "an int, list of ints, or tuple of ints")?.unwrap_or(0);
    let dilation = one(DILATION, "an int, list of ints or tuple of ints")?.unwrap_or(1);
    let positive = |name: &str, value: i64| match value {
        1.. => Ok(()),
        _ => Err(Error::runtime(format!("max_pool1d() {name} must be greater than zero, but got {value}"))),
    };
    positive("kernel_size", kernel)?;
    positive("stride", stride)?;
    if padding < 0 {
        return Err(Error::runtime(format!("max_pool1d() padding must be non-negative, but got {padding}")));
    }
    if padding > kernel / 2 {
        return Err(Error::runtime(format!(
            "max_pool1d() padding should be at most half of kernel size, but got padding={padding} and kernel_size={kernel}"
        )));
    }
    positive("dilation", dilation)
}

fn max_pool(args: &Args, dims: usize) -> Result<Vec<Tensor>> {
    use MAX_POOL1D::*;

    if args.op.name == "max_pool1d" {
        check_max_pool1d(args)?;
    }
    let params = PoolParams::read(args, [KERNEL_SIZE, STRIDE, PADDING], Some(DILATION), dims, args.bool(CEIL_MODE)?)?;
    let input = args.tensor(INPUT)?;
    let refused = args.op.name == "max_pool1d" && !input.dtype().is_floating() && !input.is_quantized();
    if refused || !DTypes::REAL.has(input.dtype()) {
        let kernel = match (dims, args.op.name) {
            (1, "max_pool1d") => "max_pool1d_impl".into(),
            _ => words(args, dims.max(2)),
        };
        return Err(Error::unsupported(&kernel, input.dtype()));
    }
    let [kernel, stride, padding, dilation] = params.lists;
    let outputs = MAX_POOL.call([
        input.into(),
        kernel.into(),
        stride.into(),
        padding.into(),
        dilation.into(),
        params.output.into(),
    ])?;
    Ok(outputs.into_tensors())
}

macro_rules! max_rows {
    ($($op:ident $both:ident $functional:ident $name:literal $dims:literal $dtypes:expr, $sample:expr, $functional_sample:expr, $errors:expr, $both_errors:expr, $doc:literal $example:literal $both_example:literal $functional_example:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            autocast: Autocast::fp32_if($dims == 3).on_cpu_alone(),
            variants: Variants::FUNCTION,
            signature: "(Tensor self, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> Tensor",
            doc: concat!("The largest element of each window of ", $doc, ".\n\n", $example),
            dtypes: $dtypes,
            node: if $dims == 3 { "MaxPool3DWithIndicesBackward0" } else { "" },
            implementation: Implementation::CompositeImplicit(|args| {
                let first = max_pool(args, $dims)?.into_iter().next();
                first.map(Output::Tensor).ok_or_else(|| Error::runtime("pooling gave nothing"))
            }),
            derivative: Derivative::CompositeImplicit,
            samples: $sample,
            errors: $errors,
            reference: "",
            ..Operator::BASE
        };
        #[operator]
        pub static $both: Operator = Operator {
            name: concat!($name, "_with_indices"),
            autocast: Autocast::fp32_if($dims == 3).on_cpu_alone(),
            aliases: &[concat!("nn.functional.", $name, "_with_indices")],
            variants: Variants::FUNCTION,
            signature: "(Tensor self, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
            doc: concat!("The largest element of each window of ", $doc, ", and its index among the elements of its channel.\n\n", $both_example),
            dtypes: DTypes::REAL,
            node: if $dims == 3 { "MaxPool3DWithIndicesBackward0" } else { "" },
            implementation: Implementation::CompositeImplicit(|args| max_pool(args, $dims).map(Output::Tuple)),
            derivative: Derivative::CompositeImplicit,
            samples: $sample,
            errors: $both_errors,
            reference: "",
            ..Operator::BASE
        };
        #[operator]
        pub static $functional: Operator = Operator {
            name: $name,
            autocast: Autocast::fp32_if($dims == 3).on_cpu_alone(),
            namespace: "nn.functional",
            variants: Variants::FUNCTION,
            signature: "(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool ceil_mode=False, truth return_indices=False) -> Any",
            doc: concat!(
                "The largest element of each window of ", $doc, ", with its index among the elements of its channel if `return_indices`.\n\n",
                $functional_example
            ),
            dtypes: $dtypes,
            implementation: Implementation::Delegate(|mut args| {
                let both = args.bool(RETURN_INDICES)?;
                args.values.truncate(6);
                Ok(Args { op: if both { &$both } else { &$op }, values: args.values })
            }),
            derivative: Derivative::CompositeImplicit,
            samples: $functional_sample,
            errors: $errors,
            reference: "",
            ..Operator::BASE
        };
    )*};
}

max_rows! {
    MAX_POOL1D MAX_POOL1D_BOTH FUNCTIONAL_1D "max_pool1d" 1 DTypes::FLOATS,
        &["t(2, 3, 8), 2", "t(3, 8), 3, 2, 1, 2, True"],
        &["t(2, 3, 8), 2", "t(3, 8), 3, 2, 1, 2, True, True"],
        &[
            ("t(1, 2, 3), 4", "RuntimeError", "max_pool1d() Invalid computed output size: 0"),
            ("t(3), 2", "RuntimeError", "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:[3]"),
            ("t(1, 2, 5), (2, 2)", "RuntimeError", "max_pool1d() kernel_size must be an int, list of ints or tuple of ints of size 1 but got size 2"),
            ("t(1, 2, 3), 0", "RuntimeError", "max_pool1d() kernel_size must be greater than zero, but got 0"),
            ("t(1, 2, 5), 2, stride=0", "RuntimeError", "max_pool1d() stride must be greater than zero, but got 0"),
            ("t(1, 2, 5), 2, padding=-1", "RuntimeError", "max_pool1d() padding must be non-negative, but got -1"),
            ("t(1, 2, 5), 2, padding=2", "RuntimeError", "max_pool1d() padding should be at most half of kernel size, but got padding=2 and kernel_size=2"),
            ("t(1, 2, 5), 2, dilation=0", "RuntimeError", "max_pool1d() dilation must be greater than zero, but got 0"),
        ],
        &[
            ("t(1, 2, 3), 4", "RuntimeError", "Given input size: (2x1x3). Calculated output size: (2x1x0). Output size is too small"),
            ("t(3), 2", "RuntimeError", "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self' (while checking arguments for max_pool1d)"),
            ("t(1, 2, 5), (2, 2)", "RuntimeError", "max_pool1d() argument 'kernel_size' should contain one int (got 2)"),
            ("t(1, 2, 5), 2, padding=2", "RuntimeError", "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1"),
            ("t(1, 2, 5), 2, dilation=0", "RuntimeError", "dilation should be greater than zero, but got dilationH: 1 dilationW: 0"),
        ],
        "sequences `(N, C, L)` or `(C, L)`" "    >>> torch.max_pool1d(torch.tensor([[1., 3., 2., 0.]]), 2)
    tensor([[3., 2.]])" "    >>> torch.nn.functional.max_pool1d_with_indices(torch.tensor([[1., 3., 2., 0.]]), 2)
    (tensor([[3., 2.]]), tensor([[1, 2]]))" "    >>> torch.nn.functional.max_pool1d(torch.tensor([[1., 3., 2., 0.]]), 2)
    tensor([[3., 2.]])";
    MAX_POOL2D MAX_POOL2D_BOTH FUNCTIONAL_2D "max_pool2d" 2 DTypes::REAL,
        &["t(2, 3, 4, 6), 2", "t(3, 7, 7), 3, 2, 1, 2, True"],
        &["t(2, 3, 4, 6), 2, return_indices=True", "t(3, 7, 7), 3, 2, 1, 2, True"],
        &[
            ("t(1, 2, 3, 3), 4", "RuntimeError", "Given input size: (2x3x3). Calculated output size: (2x0x0). Output size is too small"),
            ("t(3), 2", "RuntimeError", "non-empty 3D or 4D (batch mode) tensor expected for input"),
            ("t(1, 2, 5, 5), (2, 2, 2)", "RuntimeError", "max_pool2d: kernel_size must either be a single int, or a tuple of two ints"),
            ("t(1, 2, 5, 5), 2, 0", "RuntimeError", "stride should not be zero"),
            ("t(1, 2, 5, 5), 2, -1", "RuntimeError", "stride should be greater than zero, but got dH: -1 dW: -1"),
            ("t(1, 2, 5, 5), 2, padding=2", "RuntimeError", "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1"),
            ("t(1, 2, 5, 5), 2, 1, 0, 0", "RuntimeError", "dilation should be greater than zero, but got dilationH: 0 dilationW: 0"),
        ],
        &[
            ("t(1, 2, 3, 3), 4", "RuntimeError", "Given input size: (2x3x3). Calculated output size: (2x0x0). Output size is too small"),
            ("t(3), 2", "RuntimeError", "non-empty 3D or 4D (batch mode) tensor expected for input"),
        ],
        "images `(N, C, H, W)` or `(C, H, W)`" "    >>> torch.max_pool2d(torch.tensor([[[1., 3.], [2., 0.]]]), 2)
    tensor([[[3.]]])" "    >>> torch.nn.functional.max_pool2d_with_indices(torch.tensor([[[1., 3.], [2., 0.]]]), 2)
    (tensor([[[3.]]]), tensor([[[1]]]))" "    >>> torch.nn.functional.max_pool2d(torch.tensor([[[1., 3.], [2., 0.]]]), 2, return_indices=True)
    (tensor([[[3.]]]), tensor([[[1]]]))";
    MAX_POOL3D MAX_POOL3D_BOTH FUNCTIONAL_3D "max_pool3d" 3 DTypes::REAL,
        &["t(2, 3, 4, 4, 4), 2"],
        &["t(2, 3, 4, 4, 4), 2", "t(2, 3, 4, 4, 4), 2, return_indices=True"],
        &[
            ("t(1, 2, 3, 3, 3), 4", "RuntimeError", "Given input size: (2x3x3x3). Calculated output size: (2x0x0x0). Output size is too small"),
            ("t(3), 2", "RuntimeError", "non-empty 4D or 5D (batch mode) tensor expected for input"),
            ("t(1, 2, 5, 5, 5), 0", "RuntimeError", "stride should not be zero"),
            ("t(1, 2, 0, 5, 5), 2", "RuntimeError", "max_pool3d_with_indices_out_cpu_template(): Expected input's non-batch dimensions to have positive length, but input has a shape of [1, 2, 0, 5, 5] and non-batch dimension 0 has length zero!"),
        ],
        &[
            ("t(1, 2, 3, 3, 3), 4", "RuntimeError", "Given input size: (2x3x3x3). Calculated output size: (2x0x0x0). Output size is too small"),
            ("t(3), 2", "RuntimeError", "non-empty 4D or 5D (batch mode) tensor expected for input"),
        ],
        "volumes `(N, C, D, H, W)` or `(C, D, H, W)`" "    >>> torch.max_pool3d(torch.tensor([[[[1., 3.], [2., 0.]]]]), (1, 2, 2))
    tensor([[[[3.]]]])" "    >>> torch.nn.functional.max_pool3d_with_indices(torch.tensor([[[[1., 3.], [2., 0.]]]]), (1, 2, 2))
    (tensor([[[[3.]]]]), tensor([[[[1]]]]))" "    >>> torch.nn.functional.max_pool3d(torch.tensor([[[[1., 3.], [2., 0.]]]]), (1, 2, 2))
    tensor([[[[3.]]]])";
}
