//! Sliding blocks of images as columns, and the inverse: each is the other's derivative.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::window::{self, WindowDim};
use rushlight_core::{Error, Result};
use rushlight_cpu::nn::fold::{fold, unfold};
use rushlight_cuda::fold;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, settle, workplace};
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves,
    TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Value};
use rushlight_dispatch::vmap::{merge_batch, split_batch};

use crate::held::Held;

/// Five parameters, each for height and width.
struct Blocks {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

/// Two numbers, or one for both.
fn pair(args: &Args, arg: Arg) -> Result<[i64; 2]> {
    match *args.ints(arg)? {
        [both] => Ok([both, both]),
        [height, width] => Ok([height, width]),
        _ => {
            let name = args.param(arg).name;
            Err(Error::runtime(format!("It is expected {name} equals to 2, but got size {}", args.ints(arg)?.len())))
        }
    }
}

impl Blocks {
    fn read(args: &Args, [kernel, dilation, padding, stride]: [Arg; 4]) -> Result<Blocks> {
        let own = Blocks {
            kernel: pair(args, kernel)?,
            dilation: pair(args, dilation)?,
            padding: pair(args, padding)?,
            stride: pair(args, stride)?,
        };
        let positive = |what: &str, word: &str, [high, wide]: [i64; 2]| match high > 0 && wide > 0 {
            true => Ok(()),
            false => Err(Error::runtime(format!(
                "{what} should be greater than zero, but got {word}_height: {high} {word}_width: {wide}"
            ))),
        };
        positive("kernel size", "kernel", own.kernel)?;
        positive("dilation", "dilation", own.dilation)?;
        positive("stride", "stride", own.stride)?;
        let [high, wide] = own.padding;
        if high < 0 || wide < 0 {
            return Err(Error::runtime(format!(
                "padding should be non-negative, but got pad_height: {high} pad_width: {wide}"
            )));
        }
        Ok(own)
    }

    /// Refuses numbers of more than 32 bits, with which the kernels could not count.
    fn check_bits(&self) -> Result<()> {
        let lists = [self.kernel, self.dilation, self.padding, self.stride];
        if lists.iter().flatten().any(|&n| i32::try_from(n).is_err()) {
            return Err(Error::runtime("numel: integer multiplication overflow"));
        }
        Ok(())
    }

    /// The number of blocks along each axis.
    fn count(&self, size: [i64; 2]) -> [i64; 2] {
        std::array::from_fn(|at| {
            let padded = i128::from(size[at]) + 2 * i128::from(self.padding[at]);
            window::count(padded, self.kernel[at], self.dilation[at], self.stride[at]) as i64
        })
    }

    fn axes(&self, size: [i64; 2]) -> [WindowDim; 2] {
        let [size, blocks] = [size, self.count(size)].map(|pair| pair.map(|n| n as isize));
        let [_, high, wide] =
            WindowDim::space(&size, &blocks, [&self.kernel, &self.stride, &self.padding, &self.dilation]);
        [high, wide]
    }
}

fn by_comma(pair: [i64; 2]) -> String {
    format!("({}, {})", pair[0], pair[1])
}

fn height_width(tensor: &Tensor) -> [i64; 2] {
    let rank = tensor.rank();
    [tensor.sizes()[rank - 2] as i64, tensor.sizes()[rank - 1] as i64]
}

fn lists(d: &BackwardContext, args: [Arg; 4]) -> [Value<'static>; 4] {
    args.map(|arg| Ints::from_slice(d.ints(arg)).into())
}

/// Samples as a batch of images, which have `rank` dimensions each; batches of images become larger batches.
fn as_images(batch: &BatchedCall, rank: usize) -> Result<Option<Output>> {
    use UNFOLD::*;

    let shown = batch.tensor(INPUT)?;
    let single = batch.args.tensor(INPUT)?.rank() == rank;
    if batch.size == 0 {
        return Ok(None);
    }
    let mut args = batch.args.clone();
    args.set(UNFOLD::INPUT, Value::Own(if single { shown } else { merge_batch(&shown)? }));
    let whole = args.call()?.into_tensor()?;
    Ok(Some(Output::Tensor(if single { whole } else { split_batch(&whole, batch.size)? })))
}

#[operator]
pub static UNFOLD: Operator = Operator {
    name: "unfold.im2col",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int[1] kernel_size, int[1] dilation=1, int[1] padding=0, int[1] stride=1) -> Tensor",
    doc: "The sliding blocks of images, as columns.

Shapes: input `(N, C, H, W)` or `(C, H, W)`, result `(N, C * kernel height * kernel width, blocks)` or without `N`.

    >>> torch.nn.functional.unfold(torch.arange(6.).reshape(1, 2, 3), 2)
    tensor([[0., 1.],
            [1., 2.],
            [3., 4.],
            [4., 5.]])",
    dtypes: DTypes::INEXACT.union(DTypes::BOOL),
    batch_rule: BatchRule::Custom(|batch| as_images(batch, 3)),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (input, blocks) = (args.tensor(INPUT)?, Blocks::read(args, [KERNEL_SIZE, DILATION, PADDING, STRIDE])?);
            let rank = input.rank();
            if rank < 3 {
                // torch asks for the channels before it checks the shape.
                let missing = if rank == 1 { 1 } else { 2 };
                if rank == 0 {
                    return Err(Error::index("Dimension specified as 1 but tensor has no dimensions"));
                }
                wrap_dim(missing, rank)?;
            }
            if !(3..=4).contains(&rank) || input.sizes()[rank - 3..].contains(&0) {
                return Err(Error::runtime(format!(
                    "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {}",
                    Shape(input.sizes())
                )));
            }
            let size = height_width(input);
            let count = blocks.count(size);
            if count[0] < 1 || count[1] < 1 {
                return Err(Error::runtime(format!(
                    "Given input with spatial size {}, kernel_size={}, dilation={}, padding={}, calculated shape of the array of sliding blocks as {}, but its components must be at least one.",
                    by_comma(size),
                    by_comma(blocks.kernel),
                    by_comma(blocks.dilation),
                    by_comma(blocks.padding),
                    by_comma(count)
                )));
            }
            if !args.op.dtypes.has(input.dtype()) {
                return Err(Error::unsupported("im2col_out_cpu", input.dtype()));
            }
            blocks.check_bits()?;
            let taps = (input.sizes()[rank - 3] as i64)
                .checked_mul(blocks.kernel[0])
                .and_then(|taps| taps.checked_mul(blocks.kernel[1]))
                .ok_or_else(|| Error::runtime("numel: integer multiplication overflow"))?;
            let mut sizes = input.sizes()[..rank - 3].to_vec();
            sizes.extend([taps as isize, (count[0] * count[1]) as isize]);
            Ok(vec![TensorSpec::new(&sizes, input.dtype(), input)])
        },
        cpu: |args, results| {
            let input = plain(args.tensor(INPUT)?, results[0].dtype())?;
            let axes = Blocks::read(args, [KERNEL_SIZE, DILATION, PADDING, STRIDE])?.axes(height_width(&input));
            let size = input.dtype().size();
            let count = input.sizes()[..input.rank() - 2].iter().product::<isize>() as usize;
            let (from, to) = (input.storage().pin()?, results[0].storage().pin()?);
            let first = from.as_ptr().wrapping_offset(input.first_byte());
            // SAFETY: row-major operands, pinned, of the sizes of the axes; the result is new.
            unsafe { unfold(size, count, &axes, first, to.as_ptr()) };
            Ok(())
        },
        cuda: OnCuda::Own(|args, results| {
            let input = plain(args.tensor(INPUT)?, results[0].dtype())?;
            let axes = Blocks::read(args, [KERNEL_SIZE, DILATION, PADDING, STRIDE])?.axes(height_width(&input));
            let count = input.sizes()[..input.rank() - 2].iter().product::<isize>() as usize;
            if results[0].numel() == 0 {
                return Ok(());
            }
            let mut held = Held::on(&input)?;
            let operands = held.addresses([&input, &results[0]])?;
            // SAFETY: row-major operands of the sizes of the axes, held for the stream; the result is new.
            unsafe { fold::unfold(held.card, held.stream, input.dtype().size(), operands, count, &axes) }
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        let sizes = d.sizes(INPUT);
        let space: Ints = sizes[sizes.len() - 2..].iter().map(|&size| size as i64).collect();
        let [kernel, dilation, padding, stride] = lists(d, [KERNEL_SIZE, DILATION, PADDING, STRIDE]);
        d.grad().call(&FOLD, [space.into(), kernel, dilation, padding, stride])
    })]),
    node: "Im2ColBackward0",
    samples: &["t(2, 3, 4, 5), 2", "t(2, 4, 5), (3, 2), (1, 2), (1, 0), (2, 1)"],
    errors: &[
        ("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        (
            "t(2, 0, 3, 3), 2",
            "RuntimeError",
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: [2, 0, 3, 3]",
        ),
        (
            "t(1, 1, 2, 2), 3",
            "RuntimeError",
            "Given input with spatial size (2, 2), kernel_size=(3, 3), dilation=(1, 1), padding=(0, 0), calculated shape of the array of sliding blocks as (0, 0), but its components must be at least one.",
        ),
        (
            "t(1, 1, 2, 2), 0",
            "RuntimeError",
            "kernel size should be greater than zero, but got kernel_height: 0 kernel_width: 0",
        ),
        (
            "t(1, 1, 2, 2), 1, 1, -1",
            "RuntimeError",
            "padding should be non-negative, but got pad_height: -1 pad_width: -1",
        ),
    ],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static FOLD: Operator = Operator {
    name: "fold",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int[1] output_size, int[1] kernel_size, int[1] dilation=1, int[1] padding=0, int[1] stride=1) -> Tensor",
    doc: "Sums columns of sliding blocks into images of `output_size`, the reverse of `unfold`; overlapping blocks are added.

Shapes: input `(N, C * kernel height * kernel width, blocks)` or without `N`, result `(N, C, H, W)` or `(C, H, W)`.

    >>> torch.nn.functional.fold(torch.ones(4, 2), (2, 3), 2)
    tensor([[[1., 2., 1.],
             [1., 2., 1.]]])",
    dtypes: DTypes::INEXACT,
    batch_rule: BatchRule::Custom(|batch| as_images(batch, 2)),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (input, size, blocks) = (args.tensor(INPUT)?, pair(args, OUTPUT_SIZE)?, Blocks::read(args, [KERNEL_SIZE, DILATION, PADDING, STRIDE])?);
            let rank = input.rank();
            if !(2..=3).contains(&rank) || input.sizes()[rank - 2..].contains(&0) {
                return Err(Error::runtime(format!(
                    "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: {}",
                    Shape(input.sizes())
                )));
            }
            let [taps, columns] = height_width(input);
            let area = blocks.kernel[0].saturating_mul(blocks.kernel[1]);
            if taps % area != 0 {
                return Err(Error::runtime(format!(
                    "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={taps} and kernel_size={}.",
                    by_comma(blocks.kernel)
                )));
            }
            let count = blocks.count(size);
            let given = || {
                format!(
                    "Given output_size={}, kernel_size={}, dilation={}, padding={}, stride={}",
                    by_comma(size),
                    by_comma(blocks.kernel),
                    by_comma(blocks.dilation),
                    by_comma(blocks.padding),
                    by_comma(blocks.stride)
                )
            };
            if count[0].checked_mul(count[1]) != Some(columns) {
                return Err(Error::runtime(format!(
                    "{}, expected size of input's dimension 2 to match the calculated number of sliding blocks {} * {} = {}, but got input.size(2)={columns}.",
                    given(),
                    count[0],
                    count[1],
                    count[0].saturating_mul(count[1])
                )));
            }
            if count[0] < 1 || count[1] < 1 {
                return Err(Error::runtime(format!(
                    "{}, calculated shape of the array of sliding blocks as {}, which is too small (non-positive)",
                    given(),
                    by_comma(count)
                )));
            }
            blocks.check_bits()?;
            if size.iter().any(|&n| i32::try_from(n).is_err()) {
                return Err(Error::runtime("numel: integer multiplication overflow"));
            }
            if size[0] < 1 || size[1] < 1 {
                return Err(Error::runtime(format!(
                    "Expected output spatial size to be positive, but got: output_size={}.",
                    by_comma(size)
                )));
            }
            let mut sizes = input.sizes()[..rank - 2].to_vec();
            sizes.extend([(taps / area) as isize, size[0] as isize, size[1] as isize]);
            Ok(vec![TensorSpec::new(&sizes, input.dtype(), input)])
        },
        cpu: |args, results| {
            let compute = results[0].dtype().compute();
            if !DTypes::DENSE.has(compute) {
                return Err(Error::unsupported("col2im_out_cpu", compute));
            }
            let (input, place) = (plain(args.tensor(INPUT)?, compute)?, workplace(&results[0], compute)?);
            let axes = Blocks::read(args, [KERNEL_SIZE, DILATION, PADDING, STRIDE])?.axes(pair(args, OUTPUT_SIZE)?);
            let sizes = results[0].sizes();
            let count = sizes[..sizes.len() - 2].iter().product::<isize>() as usize;
            {
                let (from, to) = (input.storage().pin()?, place.storage().pin()?);
                let first = from.as_ptr().wrapping_offset(input.first_byte());
                // SAFETY: row-major operands, pinned, of the sizes of the axes; the result is new.
                unsafe { fold(compute, count, &axes, first, to.as_ptr())? };
            }
            settle(&place, &results[0])
        },
        cuda: OnCuda::Own(|args, results| {
            if !DTypes::DENSE.has(results[0].dtype().compute()) {
                return Err(Error::unsupported("col2im_out_cpu", results[0].dtype()));
            }
            if results[0].numel() == 0 {
                return Ok(());
            }
            let input = plain(args.tensor(INPUT)?, results[0].dtype())?;
            let axes = Blocks::read(args, [KERNEL_SIZE, DILATION, PADDING, STRIDE])?.axes(pair(args, OUTPUT_SIZE)?);
            let sizes = results[0].sizes();
            let count = sizes[..sizes.len() - 2].iter().product::<isize>() as usize;
            let mut held = Held::on(&input)?;
            let operands = held.addresses([&input, &results[0]])?;
            // SAFETY: row-major operands of the sizes of the axes, held for the stream; the result is new.
            unsafe { fold::fold(held.card, held.stream, input.dtype(), operands, count, &axes) }
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| -> Expr {
        d.grad().call(&UNFOLD, lists(d, [KERNEL_SIZE, DILATION, PADDING, STRIDE]))
    })]),
    node: "Col2ImBackward0",
    samples: &["t(2, 12, 12), (4, 5), 2", "t(6, 6), (3, 5), (3, 2), (1, 2), (1, 0), (2, 1)"],
    errors: &[
        (
            "t(1, 5, 12), (4, 5), 2",
            "RuntimeError",
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=5 and kernel_size=(2, 2).",
        ),
        (
            "t(1, 4, 11), (4, 5), 2",
            "RuntimeError",
            "Given output_size=(4, 5), kernel_size=(2, 2), dilation=(1, 1), padding=(0, 0), stride=(1, 1), expected size of input's dimension 2 to match the calculated number of sliding blocks 3 * 4 = 12, but got input.size(2)=11.",
        ),
    ],
    reference: "",
    ..Operator::BASE
};
