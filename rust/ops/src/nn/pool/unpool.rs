//! Writes values back at the indices from which pooling took them.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::nn::pool::put;
use rushlight_cuda::pool::Areas;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, plain_workplace, settle};
use rushlight_dispatch::operator::{
    Args, Autocast, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves, Tags, TensorSpec,
    Variants, formula, operator,
};

use rushlight_dispatch::{deterministic, op};

use super::max::{GATHER, plane};
use super::{address, count_planes, formatted, on_cuda, space_of, window_error, with_space};
use crate::convert::to_dtype;
use crate::index::last_writes::of_last_writes;

#[operator]
pub static UNPOOL: Operator = Operator {
    name: "_max_unpool",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor indices, int[] output_size) -> Tensor",
    doc: "Zeros of `output_size`, with the values of `self` at their indices in each channel; of equal indices the last one wins.

    >>> torch._max_unpool(torch.tensor([[3., 2.]]), torch.tensor([[1, 2]]), (4,))
    tensor([[0., 3., 2., 0.]])",
    dtypes: DTypes::REAL,
    autocast: Autocast::Fp32.on_cpu_alone(),
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (input, indices, output) = (args.tensor(INPUT)?, args.tensor(INDICES)?, args.ints(OUTPUT_SIZE)?);
            check(args)?;
            let volumes = output.len() == 3;
            deterministic::alert(if volumes { "max_unpooling3d_forward_out" } else { "max_unpooling2d_forward_out" })?;
            if indices.dtype() != DType::I64 || output.iter().any(|&n| n < 0) {
                return Err(window_error(input));
            }
            let spec = TensorSpec::new(&with_space(input, output)?, input.dtype(), input);
            Ok(vec![formatted(spec, input.layout(), output.len())])
        },
        cpu: |args, results| {
            if results[0].numel() == 0 {
                return Ok(());
            }
            let dims = args.ints(OUTPUT_SIZE)?.len();
            let input = plain(args.tensor(INPUT)?, results[0].dtype())?;
            let indices = plain(args.tensor(INDICES)?, DType::I64)?;
            let sizes = [plane(&input, dims), plane(&results[0], dims)];
            let place = plain_workplace(&results[0], input.dtype())?;
            let (from, at, to) = (input.storage().pin()?, indices.storage().pin()?, place.storage().pin()?);
            let places = address(&at, &indices).cast::<i64>();
            let size = input.dtype().size();
            // SAFETY: row-major operands of these sizes, pinned; the kernel checks the indices.
            let within = unsafe {
                put(size, count_planes(&input, dims), sizes, address(&from, &input), places, address(&to, &place))
            };
            if within { settle(&place, &results[0]) } else { Err(outside(&indices, &results[0], dims)) }
        },
        cuda: OnCuda::Own(|args, results| {
            let dims = args.ints(OUTPUT_SIZE)?.len();
            let (input, indices) = (args.tensor(INPUT)?, args.tensor(INDICES)?);
            let count = count_planes(input, dims);
            let areas = Areas { count, pixels: plane(input, dims), area: plane(&results[0], dims) };
            match on_cuda::put(input, indices, &results[0], areas)? {
                true => Ok(()),
                false => Err(outside(indices, &results[0], dims)),
            }
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INDICES), |d| match d.input(INDICES).done() {
        Ok(places) => {
            let (size, dims) = (d.ints(OUTPUT_SIZE), d.ints(OUTPUT_SIZE).len());
            of_last_writes(
                d,
                d.grad().call(&GATHER, [(&places).into(), dims.into()]),
                |_, numbers| op!(UNPOOL, numbers, &places, size),
                |written| op!(GATHER, to_dtype(written, DType::F64)?, &places, dims),
            )
        }
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
    ..Operator::BASE
};

/// The error for an index that is not within its plane.
fn outside(indices: &Tensor, result: &Tensor, dims: usize) -> Error {
    let list = match crate::convert::to_vec::<i64>(indices) {
        Ok(list) => list,
        Err(error) => return error,
    };
    let area = plane(result, dims);
    let bad = list.iter().find(|&&place| place < 0 || place as usize >= area).copied().unwrap_or(0);
    Error::runtime(match space_of(result, dims) {
        [depth, height, width] => {
            format!("Found an invalid max index: {bad} (output volumes are of size {depth}x{height}x{width})")
        }
        [height, width] => format!("Found an invalid max index: {bad} (output volumes are of size {height}x{width})"),
        _ => format!("Found an invalid max index: {bad} (output volumes are of size {area}x1)"),
    })
}

fn check(args: &Args) -> Result<()> {
    use UNPOOL::*;

    let (input, indices) = (args.tensor(INPUT)?, args.tensor(INDICES)?);
    if matches!(args.ints(OUTPUT_SIZE), Ok([_, _])) && input.rank() < 3 {
        return Err(Error::runtime(format!(
            "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with {} dimensions.",
            input.rank()
        )));
    }
    if input.sizes() == indices.sizes() {
        return Ok(());
    }
    // A sequence is an image of width one.
    let shown = |sizes: &[isize]| match args.ints(OUTPUT_SIZE) {
        Ok([_]) => [sizes, &[1]].concat(),
        _ => sizes.to_vec(),
    };
    Err(Error::runtime(format!(
        "Expected shape of indices to be same as that of the input tensor ({}) but got indices tensor with shape: {}",
        Shape(&shown(input.sizes())),
        Shape(&shown(indices.sizes()))
    )))
}
