//! The largest element of each window, and the elements at given places.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::nn::pool::{Axis, gather, max, scatter};

use super::{MEANT, Plan, address, computed, count_planes, unfit, with_space, words};
use crate::autocast::Autocast;
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::nn::zeros_like_input;
use crate::operands::{plain, plain_workplace, settle};
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Output};

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

pub static MAX_POOL: Row = Row {
    name: "_max_pool",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, int[] output) -> (Tensor, Tensor)",
    doc: "The largest element of each window and its place among the elements of its channel; `output` are the sizes of space.

    >>> torch._max_pool(torch.tensor([[1., 3., 2., 0.]]), (2,), (2,), (0,), (1,), (2,))
    (tensor([[3., 2.]]), tensor([[1, 2]]))",
    dtypes: DTypes::REAL,
    mapped: Mapped::Batch,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(0)?;
            let sizes = with_space(input, args.ints(5)?)?;
            let batched = input.rank() == args.ints(5)?.len() + 2;
            let spec = |dtype| {
                let spec = Spec::new(&sizes, dtype, input);
                if batched { spec.formatted(input.layout()) } else { spec }
            };
            Ok(vec![spec(input.dtype()), spec(DType::I64)])
        },
        cpu: |args, results| {
            let input = plain(args.tensor(0)?, results[0].dtype())?;
            let lists = [args.ints(1)?, args.ints(2)?, args.ints(3)?, args.ints(4)?];
            let dims = lists[0].len();
            if results[0].numel() == 0 {
                return Ok(());
            }
            let space = |tensor: &Tensor| tensor.sizes()[tensor.rank() - dims..].to_vec();
            let narrow = |n: &i64| (0..=i64::from(i32::MAX)).contains(n);
            let each = lists.iter().copied().chain([args.ints(5)?]);
            if dims == 0 || dims > 3 || each.into_iter().any(|list| list.len() != dims || !list.iter().all(narrow)) {
                return Err(unfit(&input));
            }
            let axes = axes(&space(&input), &space(&results[0]), lists);
            if !axes.iter().all(Axis::fits) {
                return Err(unfit(&input));
            }
            let count = count_planes(&input, dims);
            let own = [plain_workplace(&results[0], input.dtype())?, plain_workplace(&results[1], DType::I64)?];
            {
                let (from, best, places) = (input.storage().pin()?, own[0].storage().pin()?, own[1].storage().pin()?);
                // SAFETY: row-major operands, pinned, of the sizes that the axes say; the results are fresh.
                unsafe {
                    let (best, places) = (address(&best, &own[0]), address(&places, &own[1]));
                    max(input.dtype(), &axes, count, address(&from, &input), best, places.cast())?;
                }
            }
            own.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::result(1).union(Saves::input(0)), |d| {
        scattered(d.grad(), d.result_of(1), d.input(0), d.ints(1).len())
    })]),
    node: "MaxPool2DWithIndicesBackward0",
    samples: &["t(2, 3, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1), (2, 2)"],
    reference: "",
    ..Row::BASE
};

/// What a kernel says of its places.
pub(super) fn all_within(within: bool, area: usize) -> Result<()> {
    if within { Ok(()) } else { Err(Error::index(format!("a place is not within a plane of {area} elements"))) }
}

/// Planes of both tensors are of `dims` dimensions, and as many.
pub(super) fn check_planes(a: &Tensor, b: &Tensor, dims: usize) -> Result<()> {
    if a.rank() < dims || b.rank() < dims || count_planes(a, dims) != count_planes(b, dims) {
        return Err(unfit(a));
    }
    Ok(())
}

pub(super) fn plane(tensor: &Tensor, dims: usize) -> usize {
    tensor.sizes()[tensor.rank() - dims..].iter().product::<isize>() as usize
}

pub(super) fn scattered(values: Expr, places: Expr, like: Expr, dims: usize) -> Expr {
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
    mapped: Mapped::Batch,
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Spec::new(args.tensor(2)?.sizes(), args.tensor(0)?.dtype(), args.tensor(0)?)]),
        cpu: |args, results| {
            let dims = args.int(3)? as usize;
            check_planes(&results[0], args.tensor(1)?, dims)?;
            if args.tensor(0)?.sizes() != args.tensor(1)?.sizes() {
                return Err(unfit(args.tensor(0)?));
            }
            let places = plain(args.tensor(1)?, DType::I64)?;
            let (count, area) = (count_planes(&results[0], dims), plane(&results[0], dims));
            let sizes = [plane(&places, dims), area];
            let pin = places.storage().pin()?;
            // SAFETY: row-major operands of these sizes; the kernel checks the places.
            computed(&results[0], args.tensor(0)?, |dtype, input, output| unsafe {
                all_within(scatter(dtype, count, sizes, input, address(&pin, &places).cast(), output)?, area)
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
    mapped: Mapped::Batch,
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Spec::new(args.tensor(1)?.sizes(), args.tensor(0)?.dtype(), args.tensor(0)?)]),
        cpu: |args, results| {
            let dims = args.int(2)? as usize;
            check_planes(args.tensor(0)?, args.tensor(1)?, dims)?;
            let places = plain(args.tensor(1)?, DType::I64)?;
            let (count, area) = (count_planes(&places, dims), plane(args.tensor(0)?, dims));
            let sizes = [plane(&places, dims), area];
            let pin = places.storage().pin()?;
            // SAFETY: as for `SCATTER`.
            computed(&results[0], args.tensor(0)?, |dtype, input, output| unsafe {
                all_within(gather(dtype, count, sizes, input, address(&pin, &places).cast(), output)?, area)
            })
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1).union(Saves::input(0)), |d| {
        scattered(d.grad(), d.input(1), d.input(0), d.int(2) as usize)
    })]),
    samples: &["t(2, 4), i(4, 2, 3), 1"],
    reference: "",
    ..Row::BASE
};

/// What `max_pool1d` refuses in words of its own.
fn check_max_pool1d(args: &Args) -> Result<()> {
    let sizes = args.tensor(0)?.sizes();
    if !(2..=3).contains(&sizes.len()) || sizes[sizes.len() - 2..].contains(&0) {
        return Err(Error::runtime(format!(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
            Shape(sizes)
        )));
    }
    let one = |place: usize, rule: &str| match args.optional_ints(place) {
        None | Some([]) => Ok(None),
        Some([only]) => Ok(Some(*only)),
        Some(list) => Err(Error::runtime(format!(
            "max_pool1d() {} must be {rule} of size 1 but got size {}",
            args.row.schema().params[place].name,
            list.len()
        ))),
    };
    let kernel = one(1, "an int, list of ints or tuple of ints")?.unwrap_or(0);
    let stride = one(2, "None, an int, list of ints, or tuple of ints")?.unwrap_or(kernel);
    let padding = one(3, "an int, list of ints, or tuple of ints")?.unwrap_or(0);
    let dilation = one(4, "an int, list of ints or tuple of ints")?.unwrap_or(1);
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
    if args.row.name == "max_pool1d" {
        check_max_pool1d(args)?;
    }
    let plan = Plan::read(args, dims, Some(4), args.bool(5)?)?;
    let input = args.tensor(0)?;
    if !DTypes::REAL.has(input.dtype()) || (dims == 1 && !input.dtype().is_floating()) {
        let kernel = match (dims, args.row.name) {
            (1, "max_pool1d") => "max_pool1d_impl".into(),
            _ => words(args, dims.max(2)),
        };
        return Err(Error::unsupported(&kernel, input.dtype()));
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
    ($($row:ident $both:ident $functional:ident $name:literal $dims:literal $dtypes:expr, $sample:expr, $functional_sample:expr, $errors:expr, $both_errors:expr, $doc:literal $example:literal $both_example:literal $functional_example:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            autocast: Autocast::single_if($dims == 3),
            variants: Variants::FUNCTION,
            signature: "(Tensor self, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> Tensor",
            doc: concat!("The largest element of each window of ", $doc, ".\n\n", $example),
            dtypes: $dtypes,
            node: if $dims == 3 { "MaxPool3DWithIndicesBackward0" } else { "" },
            run: Run::Compose(|args| {
                let first = max_pool(args, $dims)?.into_iter().next();
                first.map(Output::Tensor).ok_or_else(|| Error::runtime("pooling gave nothing"))
            }),
            derivative: Derivative::Composed,
            samples: $sample,
            errors: $errors,
            reference: "",
            ..Row::BASE
        };
        pub static $both: Row = Row {
            name: concat!($name, "_with_indices"),
            autocast: Autocast::single_if($dims == 3),
            aliases: &[concat!("nn.functional.", $name, "_with_indices")],
            variants: Variants::FUNCTION,
            signature: "(Tensor self, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
            doc: concat!("The largest element of each window of ", $doc, ", and its place among the elements of its channel.\n\n", $both_example),
            dtypes: $dtypes,
            node: if $dims == 3 { "MaxPool3DWithIndicesBackward0" } else { "" },
            run: Run::Compose(|args| max_pool(args, $dims).map(Output::Tuple)),
            derivative: Derivative::Composed,
            samples: $sample,
            errors: $both_errors,
            reference: "",
            ..Row::BASE
        };
        pub static $functional: Row = Row {
            name: $name,
            autocast: Autocast::single_if($dims == 3),
            namespace: "nn.functional",
            variants: Variants::FUNCTION,
            signature: "(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool ceil_mode=False, bool return_indices=False) -> Any",
            doc: concat!(
                "The largest element of each window of ", $doc, ", with its place among the elements of its channel if asked.\n\n",
                $functional_example
            ),
            dtypes: $dtypes,
            run: Run::Defer(|mut args| {
                let both = args.bool(6)?;
                args.values.truncate(6);
                Ok(Args { row: if both { &$both } else { &$row }, values: args.values })
            }),
            derivative: Derivative::Composed,
            samples: $functional_sample,
            errors: $errors,
            reference: "",
            ..Row::BASE
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
