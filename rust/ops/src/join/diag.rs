//! Reading and constructing diagonals.

use rushlight_core::layout::wrap_dim;
use rushlight_core::{Error, Result, Scalar};
use rushlight_dispatch::operator::{
    BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, Operator, Out, Saves, TensorSpec, Variants,
    formula, operator,
};
use rushlight_dispatch::value::Output;
use rushlight_dispatch::vmap::{RuleResult, one_result};
use rushlight_dispatch::{copy, create, op, value};

use crate::view::diagonal::{DIAGONAL, diagonal};

#[operator]
pub static DIAG_EMBED: Operator = Operator {
    name: "diag_embed",
    signature: "(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    doc: "Matrices of zeros with the last dimension of `self` on their diagonals.

    >>> torch.diag_embed(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])",
    dtypes: DTypes::ALL,
    batch_rule: BatchRule::Custom(batched_diag_embed),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            let rank = input.rank() + 1;
            let (first, second) = (args.int(DIM1)?, args.int(DIM2)?);
            let (a, b) = (wrap_dim(first, rank)?, wrap_dim(second, rank)?);
            if a == b {
                return Err(Error::runtime(format!("diagonal dimensions cannot be identical {first}, {second}"))
                    .hint("dim1 and dim2 must be different dimensions, such as -2 and -1."));
            }
            let mut sizes = input.sizes().clone();
            let reach = isize::try_from(args.int(OFFSET)?.unsigned_abs()).unwrap_or(isize::MAX);
            let length = sizes.pop().unwrap_or(1).saturating_add(reach);
            sizes.insert(a.min(b), length);
            sizes.insert(a.max(b), length);
            rushlight_core::layout::checked_new(&sizes)?;
            Ok(vec![TensorSpec::new(&sizes, input.dtype(), input)])
        },
        |args, results| {
            let whole = &results[0];
            create::fill(whole, Scalar::ZERO)?;
            copy::copy_to_view(whole, &diagonal(whole.layout(), args)?, args.tensor(INPUT)?)
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        d.grad().call(&DIAGONAL, [d.int(OFFSET).into(), d.int(DIM1).into(), d.int(DIM2).into()])
    })]),
    samples: &["t(3)", "t(2, 3), 1", "t(2, 3), -2, 0, 2"],
    errors: &[("t(3), 0, 0, 0", "RuntimeError", "diagonal dimensions cannot be identical 0, 0")],
    ..Operator::BASE
};

#[operator]
pub static DIAG: Operator = Operator {
    name: "diag",
    node: "DiagonalBackward0_copy",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int diagonal=0) -> Tensor",
    doc: "A vector on the diagonal of a matrix, or a matrix's diagonal as a vector, copied.

    >>> torch.diag(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])",
    out: Out::EXACT,
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, offset) = (args.tensor(INPUT)?, args.int(DIAGONAL)?);
        match input.rank() {
            1 => op!(DIAG_EMBED, input, offset),
            2 => {
                op!(crate::convert::CLONE, op!(self::DIAGONAL, input, offset)?, "contiguous_format")
            }
            rank => Err(Error::runtime(format!("diag(): Supports 1D or 2D tensors. Got {rank}D"))),
        }
        .map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3)", "t(3, 4), 1", "t(3), -1"],
    errors: &[("t(2, 2, 2)", "RuntimeError", "diag(): Supports 1D or 2D tensors. Got 3D")],
    reference: "np.diag(self, diagonal)",
    ..Operator::BASE
};

#[operator]
pub static DIAGFLAT: Operator = Operator {
    name: "diagflat",
    signature: "(Tensor self, int offset=0) -> Tensor",
    doc: "All elements on the diagonal of a matrix.

    >>> torch.diagflat(torch.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let row = op!(crate::view::RESHAPE, args.tensor(INPUT)?, value::sizes_value(&[-1]))?;
        op!(DIAG_EMBED, row, args.int(OFFSET)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 2)", "t(3), 1"],
    errors: &[(
        "t(2, 2), 2**62",
        "RuntimeError",
        "Storage size calculation overflowed with sizes=[4611686018427387908, 4611686018427387908]",
    )],
    reference: "np.diagflat(self, offset)",
    ..Operator::BASE
};

#[operator]
pub static BLOCK_DIAG: Operator = Operator {
    name: "block_diag",
    variants: Variants::FUNCTION,
    signature: "(Tensor *tensors) -> Tensor",
    doc: "A block-diagonal matrix; a vector is one row.

    >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor([3]))
    tensor([[1, 2, 0],
            [0, 0, 3]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let tensors = args.tensors(TENSORS)?;
        if tensors.is_empty() {
            let device = rushlight_core::Device::Cpu;
            return create::zeros(&[1, 0], rushlight_core::dtype::default_dtype(), device).map(Output::Tensor);
        }
        if let Some((at, tensor)) = tensors.iter().enumerate().find(|(_, tensor)| tensor.rank() > 2) {
            return Err(Error::runtime(format!(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {at} has {} dimensions",
                tensor.rank()
            )));
        }
        let dtype = super::cat::common(&tensors)?;
        let blocks = tensors.into_iter().map(crate::view::flatten::atleast_2d).collect::<Result<Vec<_>>>()?;
        let widths = blocks.iter().map(|block| block.sizes()[1]);
        let total = widths.clone().try_fold(0isize, isize::checked_add);
        let total =
            total.ok_or_else(|| Error::runtime("torch.block_diag: widths add up to more than a tensor can have"))?;
        let mut before = 0;
        let mut bands = Vec::with_capacity(blocks.len());
        for block in blocks {
            let (width, device) = (block.sizes()[1], block.device());
            let side = |width: isize| create::zeros(&[block.sizes()[0], width], dtype, device);
            let row = vec![side(before)?, block.clone(), side(total - before - width)?];
            bands.push(op!(super::CAT, row, 1i64)?);
            before += width;
        }
        op!(super::CAT, bands, 0i64).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["[t(2, 3), t(2)]", "[t(), t(2, 2)]"],
    errors: &[(
        "t(2,2,2)",
        "RuntimeError",
        "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input 0 has 3 dimensions",
    )],
    ..Operator::BASE
};

fn batched_diag_embed(batch: &BatchedCall) -> RuleResult {
    use DIAG_EMBED::*;

    let rank = batch.args.tensor(INPUT)?.rank() + 1;
    let dim = |arg| batch.args.int(arg).and_then(|dim| wrap_dim(dim, rank)).map(|dim| dim + 1);
    one_result(op!(DIAG_EMBED, batch.tensor(INPUT)?, batch.args.int(OFFSET)?, dim(DIM1)?, dim(DIM2)?))
}
