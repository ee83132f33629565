//! Sliding blocks of images as columns, and back: each is the other's derivative.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};
use rushlight_cpu::nn::fold::{Axis, fold, unfold};

use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::{Batch, Mapped, joined, parted};
use crate::operands::{plain, settle, workplace};
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Ints, Output, Value};

/// Height and width of five things.
struct Blocks {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

/// Two numbers, or one that stands for both.
fn pair(args: &Args, place: usize) -> Result<[i64; 2]> {
    match *args.ints(place)? {
        [both] => Ok([both, both]),
        [height, width] => Ok([height, width]),
        _ => {
            let name = args.row.schema().params[place].name;
            Err(Error::runtime(format!("It is expected {name} equals to 2, but got size {}", args.ints(place)?.len())))
        }
    }
}

impl Blocks {
    /// Reads kernel size, dilation, padding and stride, which follow each other from `place` on.
    fn read(args: &Args, place: usize) -> Result<Blocks> {
        let own = Blocks {
            kernel: pair(args, place)?,
            dilation: pair(args, place + 1)?,
            padding: pair(args, place + 2)?,
            stride: pair(args, place + 3)?,
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
        let lists = [own.kernel, own.dilation, own.padding, own.stride];
        if lists.iter().flatten().any(|&n| i32::try_from(n).is_err()) {
            return Err(Error::runtime("value cannot be converted to type int without overflow"));
        }
        Ok(own)
    }

    /// How many blocks there are along each axis.
    fn count(&self, size: [i64; 2]) -> [i64; 2] {
        std::array::from_fn(|at| {
            let room = size[at] + 2 * self.padding[at] - self.dilation[at] * (self.kernel[at] - 1) - 1;
            room.div_euclid(self.stride[at]) + 1
        })
    }

    fn axes(&self, size: [i64; 2]) -> [Axis; 2] {
        let blocks = self.count(size);
        std::array::from_fn(|at| Axis {
            size: size[at] as usize,
            blocks: blocks[at] as usize,
            kernel: self.kernel[at] as usize,
            dilation: self.dilation[at] as usize,
            padding: self.padding[at] as usize,
            stride: self.stride[at] as usize,
        })
    }
}

fn by_comma(pair: [i64; 2]) -> String {
    format!("({}, {})", pair[0], pair[1])
}

fn height_width(tensor: &Tensor) -> [i64; 2] {
    let rank = tensor.rank();
    [tensor.sizes()[rank - 2] as i64, tensor.sizes()[rank - 1] as i64]
}

fn lists(d: &Derive, places: std::ops::Range<usize>) -> [Value<'static>; 4] {
    let mut each = places.map(|place| Value::from(Ints::from_slice(d.ints(place))));
    std::array::from_fn(|_| each.next().unwrap_or(Value::None))
}

/// Samples as a batch of images, which have `rank` dimensions each; of batches of images as more images.
fn as_images(batch: &Batch, rank: usize) -> Result<Option<Output>> {
    let shown = batch.tensor(0)?;
    let single = batch.args.tensor(0)?.rank() == rank;
    if batch.size == 0 {
        return Ok(None);
    }
    let mut args = batch.args.clone();
    args.values[0] = Value::Own(if single { shown } else { joined(&shown)? });
    let whole = crate::call(args)?.into_tensor()?;
    Ok(Some(Output::Tensor(if single { whole } else { parted(&whole, batch.size)? })))
}

pub static UNFOLD: Row = Row {
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
    mapped: Mapped::Rule(|batch| as_images(batch, 3)),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (input, blocks) = (args.tensor(0)?, Blocks::read(args, 1)?);
            let rank = input.rank();
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
            if !args.row.dtypes.has(input.dtype()) {
                return Err(Error::unsupported("im2col_out_cpu", input.dtype()));
            }
            let taps = (input.sizes()[rank - 3] as i64)
                .checked_mul(blocks.kernel[0])
                .and_then(|taps| taps.checked_mul(blocks.kernel[1]))
                .ok_or_else(|| Error::runtime("numel: integer multiplication overflow"))?;
            let mut sizes = input.sizes()[..rank - 3].to_vec();
            sizes.extend([taps as isize, (count[0] * count[1]) as isize]);
            Ok(vec![Spec::new(&sizes, input.dtype(), input)])
        },
        cpu: |args, results| {
            let input = plain(args.tensor(0)?, results[0].dtype())?;
            let axes = Blocks::read(args, 1)?.axes(height_width(&input));
            let size = input.dtype().size();
            let count = input.sizes()[..input.rank() - 2].iter().product::<isize>() as usize;
            let (from, to) = (input.storage().pin()?, results[0].storage().pin()?);
            let first = from.as_ptr().wrapping_offset(input.layout().offset * size as isize);
            // SAFETY: row-major operands, pinned, of the sizes that the axes say; the result is fresh.
            unsafe { unfold(size, count, &axes, first, to.as_ptr()) };
            Ok(())
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        let sizes = d.sizes(0);
        let space: Ints = sizes[sizes.len() - 2..].iter().map(|&size| size as i64).collect();
        let [kernel, dilation, padding, stride] = lists(d, 1..5);
        d.grad().call(&FOLD, [space.into(), kernel, dilation, padding, stride])
    })]),
    node: "Im2ColBackward0",
    samples: &["t(2, 3, 4, 5), 2", "t(2, 4, 5), (3, 2), (1, 2), (1, 0), (2, 1)"],
    errors: &[
        (
            "t(2, 3), 2",
            "RuntimeError",
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: [2, 3]",
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
    ..Row::BASE
};

pub static FOLD: Row = Row {
    name: "fold",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int[1] output_size, int[1] kernel_size, int[1] dilation=1, int[1] padding=0, int[1] stride=1) -> Tensor",
    doc: "Sums columns of sliding blocks into images of `output_size`, the reverse of `unfold`; blocks that overlap add up.

Shapes: input `(N, C * kernel height * kernel width, blocks)` or without `N`, result `(N, C, H, W)` or `(C, H, W)`.

    >>> torch.nn.functional.fold(torch.ones(4, 2), (2, 3), 2)
    tensor([[[1., 2., 1.],
             [1., 2., 1.]]])",
    dtypes: DTypes::INEXACT,
    mapped: Mapped::Rule(|batch| as_images(batch, 2)),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (input, size, blocks) = (args.tensor(0)?, pair(args, 1)?, Blocks::read(args, 2)?);
            let rank = input.rank();
            if !(2..=3).contains(&rank) || input.sizes()[rank - 2..].contains(&0) {
                return Err(Error::runtime(format!(
                    "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: {}",
                    Shape(input.sizes())
                )));
            }
            if size.iter().any(|&n| i32::try_from(n).is_err()) {
                return Err(Error::runtime("value cannot be converted to type int without overflow"));
            }
            let [taps, columns] = height_width(input);
            // Both are 32-bit numbers, so their product is a 64-bit one.
            let area = blocks.kernel[0] * blocks.kernel[1];
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
            if count[0] < 1 || count[1] < 1 {
                return Err(Error::runtime(format!(
                    "{}, calculated shape of the array of sliding blocks as {}, which is too small (non-positive)",
                    given(),
                    by_comma(count)
                )));
            }
            if count[0].checked_mul(count[1]) != Some(columns) {
                return Err(Error::runtime(format!(
                    "{}, expected size of input's dimension 2 to match the calculated number of sliding blocks {} * {} = {}, but got input.size(2)={columns}.",
                    given(),
                    count[0],
                    count[1],
                    count[0].saturating_mul(count[1])
                )));
            }
            if size[0] < 1 || size[1] < 1 {
                return Err(Error::runtime(format!(
                    "Expected output spatial size to be positive, but got: output_size={}.",
                    by_comma(size)
                )));
            }
            let mut sizes = input.sizes()[..rank - 2].to_vec();
            sizes.extend([(taps / area) as isize, size[0] as isize, size[1] as isize]);
            Ok(vec![Spec::new(&sizes, input.dtype(), input)])
        },
        cpu: |args, results| {
            let compute = results[0].dtype().compute();
            if !DTypes::DENSE.has(compute) {
                return Err(Error::unsupported("col2im_out_cpu", compute));
            }
            let (input, place) = (plain(args.tensor(0)?, compute)?, workplace(&results[0], compute)?);
            let axes = Blocks::read(args, 2)?.axes(pair(args, 1)?);
            let sizes = results[0].sizes();
            let count = sizes[..sizes.len() - 2].iter().product::<isize>() as usize;
            {
                let (from, to) = (input.storage().pin()?, place.storage().pin()?);
                let first = from.as_ptr().wrapping_offset(input.layout().offset * compute.size() as isize);
                // SAFETY: row-major operands, pinned, of the sizes that the axes say; the result is fresh.
                unsafe { fold(compute, count, &axes, first, to.as_ptr())? };
            }
            settle(&place, &results[0])
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| -> Expr {
        d.grad().call(&UNFOLD, lists(d, 2..6))
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
    ..Row::BASE
};
