//! Values back at the places that pooling took them from.

use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::nn::pool::put;

use super::max::{GATHER, plane};
use super::{address, count_planes, unfit, with_space};
use crate::autocast::Autocast;
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::operands::plain;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Traits, Variants};
use crate::value::Args;

pub static UNPOOL: Row = Row {
    name: "_max_unpool",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor indices, int[] output_size) -> Tensor",
    doc: "Zeros of `output_size`, with the values of `self` at their places in each channel; where several meet the last one stays.

    >>> torch._max_unpool(torch.tensor([[3., 2.]]), torch.tensor([[1, 2]]), (4,))
    tensor([[0., 3., 2., 0.]])",
    dtypes: DTypes::REAL,
    autocast: Autocast::Single,
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::Batch,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (input, indices, output) = (args.tensor(0)?, args.tensor(1)?, args.ints(2)?);
            check(args)?;
            if indices.dtype() != DType::I64 || output.iter().any(|&n| n < 0) {
                return Err(unfit(input));
            }
            Ok(vec![Spec::new(&with_space(input, output)?, input.dtype(), input)])
        },
        cpu: |args, results| {
            let dims = args.ints(2)?.len();
            let input = plain(args.tensor(0)?, results[0].dtype())?;
            let indices = plain(args.tensor(1)?, DType::I64)?;
            let sizes = [plane(&input, dims), plane(&results[0], dims)];
            let (from, at, to) = (input.storage().pin()?, indices.storage().pin()?, results[0].storage().pin()?);
            let places = address(&at, &indices).cast::<i64>();
            let size = input.dtype().size();
            // SAFETY: row-major operands of these sizes, pinned; the kernel checks the places.
            let within = unsafe {
                put(size, count_planes(&input, dims), sizes, address(&from, &input), places, address(&to, &results[0]))
            };
            if within {
                return Ok(());
            }
            let list = crate::convert::to_vec::<i64>(&indices)?;
            let bad = list.iter().find(|&&place| place < 0 || place as usize >= sizes[1]).copied().unwrap_or(0);
            let space = &results[0].sizes()[results[0].rank() - dims..];
            Err(Error::runtime(match space {
                [depth, height, width] => format!(
                    "Found an invalid max index: {bad} (output volumes are of size {depth}x{height}x{width})"
                ),
                [height, width] => {
                    format!("Found an invalid max index: {bad} (output volumes are of size {height}x{width})")
                }
                _ => format!("Found an invalid max index: {bad} (output volumes are of size {}x1)", sizes[1]),
            }))
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1), |d| match d.input(1).done() {
        Ok(places) => d.grad().call(&GATHER, [places.into(), d.ints(2).len().into()]),
        Err(error) => Expr::Failed(error),
    })]),
    node: "MaxUnpool2DBackward0",
    samples: &["t(2, 2), torch.tensor([[0, 3], [1, 2]]), (4,)", "t(1, 2, 1), torch.tensor([[[3], [2]]]), (2, 3)"],
    errors: &[
        (
            "t(1, 4, 4), i(2, 1, 4, 1), (8, 8)",
            "RuntimeError",
            "Expected shape of indices to be same as that of the input tensor ([1, 4, 4]) but got indices tensor with shape: [1, 4, 1]",
        ),
        (
            "t(1, 1, 1), torch.tensor([[[9]]]), (2, 2)",
            "RuntimeError",
            "Found an invalid max index: 9 (output volumes are of size 2x2)",
        ),
    ],
    reference: "",
    ..Row::BASE
};

fn check(args: &Args) -> Result<()> {
    let (input, indices) = (args.tensor(0)?, args.tensor(1)?);
    if matches!(args.ints(2), Ok([_, _])) && input.rank() < 3 {
        return Err(Error::runtime(format!(
            "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with {} dimensions.",
            input.rank()
        )));
    }
    if input.sizes() == indices.sizes() {
        return Ok(());
    }
    // A sequence is an image of width one.
    let shown = |sizes: &[isize]| match args.ints(2) {
        Ok([_]) => [sizes, &[1]].concat(),
        _ => sizes.to_vec(),
    };
    Err(Error::runtime(format!(
        "Expected shape of indices to be same as that of the input tensor ({}) but got indices tensor with shape: {}",
        Shape(&shown(input.sizes())),
        Shape(&shown(indices.sizes()))
    )))
}
