//! Reading by indices.

use rushlight_autograd::Tensor;
use rushlight_core::index::subspace;
use rushlight_core::{Device, Dims, Layout, Result};
use rushlight_cpu::index::Frame;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, Operator, Saves, TensorSpec,
    Variants, formula, operator,
};
use rushlight_dispatch::value::{Ints, Output};
use rushlight_dispatch::vmap::{RuleResult, unsqueeze_to_rank};
use rushlight_dispatch::{copy, create, op};

use super::geometry::{IndexGeometry, check_not_empty_dims, common};
use super::on_cuda;
use crate::expr_ext::ExprExt;
use crate::view::transpose::PERMUTE;

/// The operator behind `x[i, j]`.
#[operator]
pub static INDEX: Operator = Operator {
    name: "_index",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor[] indices, int[] dims) -> Tensor",
    doc: "The elements at `indices`, which index the dimensions `dims` and broadcast together.

    >>> torch._index(torch.tensor([[1, 2], [3, 4]]), (torch.tensor([0, 1]), torch.tensor([1, 1])), (0, 1))
    tensor([2, 4])",
    dtypes: DTypes::ALL,
    batch_rule: BatchRule::Custom(batched_index),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            let cut = IndexGeometry::new(input, &args.tensors(INDICES)?, args.ints(DIMS)?)?;
            check_not_empty_dims(input, &cut.dims, &cut.common)?;
            Ok(vec![TensorSpec { layout: cut.result(input), dtype: input.dtype(), device: input.device() }])
        },
        |args, results| {
            let input = args.tensor(INPUT)?;
            let cut = IndexGeometry::new(input, &args.tensors(INDICES)?, args.ints(DIMS)?)?;
            if results[0].layout().is_contiguous() {
                return get_into(input, &cut, &results[0]);
            }
            let plain = create::empty(results[0].sizes(), input.dtype(), input.device())?;
            get_into(input, &cut, &plain)?;
            copy::copy(&results[0], &plain)
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INDICES), |d| match indices(d) {
        Ok((indices, dims)) => {
            let zeros = d.meta(INPUT).map(|meta| create::zeros(&meta.sizes, meta.dtype, meta.device));
            match (zeros, d.grad()) {
                (Some(Ok(zeros)), Expr::Tensor(grad)) => Expr::from(zeros).index_put_add(indices, dims, grad),
                (Some(Err(error)), _) => Expr::failed(error),
                (_, grad) => grad,
            }
        }
        Err(error) => Expr::failed(error),
    })]),
    samples: &["t(4, 3), (i(4, 5),), (0,)", "t(4, 3, 5), (i(4, 2, 1), i(5, 3)), (0, 2)", "t(4, 3), (i(3, 2),), (1,)"],
    ..Operator::BASE
};

/// The saved indices of a call and the dimensions that they index.
pub fn indices(d: &BackwardContext) -> Result<(Vec<Tensor>, Ints)> {
    let kept = d
        .list(INDEX::INDICES)
        .into_iter()
        .map(|index| index.cloned().ok_or_else(|| rushlight_core::Error::runtime("an index was not kept")));
    Ok((kept.collect::<Result<_>>()?, d.ints(INDEX::DIMS).into()))
}

/// Fills a new row-major result.
pub fn get_into(input: &Tensor, cut: &IndexGeometry, result: &Tensor) -> Result<()> {
    if result.numel() == 0 {
        // Nothing is read, so no index is out of range.
        return Ok(());
    }
    if let Device::Cuda(_) = input.device() {
        return get_on_cuda(input, cut, result);
    }
    let offsets = cut.offsets(input)?;
    let (source, out) = (input.storage().pin()?, result.storage().pin()?);
    // SAFETY: offsets were checked, the result is new and row-major.
    unsafe {
        rushlight_cpu::index::get(
            out.as_ptr(),
            source.as_ptr(),
            &cut.frame(input.layout()),
            &offsets,
            input.dtype().size(),
        );
    }
    Ok(())
}

fn get_on_cuda(input: &Tensor, cut: &IndexGeometry, result: &Tensor) -> Result<()> {
    let offsets = cut.offsets_on_cuda(input)?;
    let n = offsets.numel() as isize;
    let Frame { before, after } = cut.frame(input.layout());
    let sizes = [&before.sizes[..], &[n], &after.sizes[..]].concat();
    let zeros = |rank: usize| vec![0; rank];
    let strides = |parts: [&[isize]; 3]| Dims::from_slice(&parts.concat());
    let source = Layout {
        sizes: Dims::from_slice(&sizes),
        strides: strides([&before.strides, &[0], &after.strides]),
        offset: before.offset + after.offset,
    };
    let places = Layout {
        sizes: Dims::from_slice(&sizes),
        strides: strides([&zeros(before.rank()), &[1], &zeros(after.rank())]),
        offset: offsets.layout().offset,
    };
    let out = Layout { offset: result.layout().offset, ..Layout::contiguous(&sizes) };
    on_cuda::read((result, &out), (input, &source), (&offsets, &places), 1)
}

/// The indices of a batch, and the dimensions that they index.
pub struct Places {
    pub indices: Vec<Tensor>,
    pub dims: Ints,
    /// The dimension of the samples in the result of this call.
    samples: usize,
    /// The first dimension of the indices in that result, their number, and their first dimension in a sample's result.
    block: (usize, usize, usize),
}

impl Places {
    /// `shared` means that the indexed tensor has no batch dimension.
    pub fn of(batch: &BatchedCall, shared: bool) -> Result<Places> {
        use INDEX::*;

        let given = batch.args.tensors(INDICES)?;
        let dims: Vec<usize> = batch.args.ints(DIMS)?.iter().map(|&dim| dim as usize).collect();
        let owned: Vec<Tensor> = given.iter().map(|&index| index.clone()).collect();
        let count = common(&owned)?.len();
        let own = subspace(&dims);
        let differ = given.iter().any(|index| batch.differs(index));
        let mut indices = Vec::with_capacity(given.len() + 1);
        for index in &given {
            indices.push(match (index.batch_dim(batch.level), differ) {
                (None, _) => (*index).clone(),
                (Some(_), true) => unsqueeze_to_rank(&batch.physical(index), count),
                (Some(_), false) => {
                    let shown = batch.physical(index);
                    let layout = shown.layout().select(0, 0);
                    Tensor::with_meta(shown.meta_with(layout))
                }
            });
        }
        let moved = |by: usize| dims.iter().map(|&dim| (dim + by) as i64).collect::<Ints>();
        Ok(match (differ, shared) {
            // Each sample has its own indices into the same tensor: they have one more dimension, before their own.
            (true, true) => Places { indices, dims: moved(0), samples: own, block: (own + 1, count, own) },
            (true, false) => {
                indices.insert(0, batch.numbers(count)?);
                let dims = std::iter::once(0).chain(moved(1)).collect();
                Places { indices, dims, samples: 0, block: (1, count, own) }
            }
            (false, _) => {
                let dims = moved(1);
                let at = subspace(&dims.iter().map(|&dim| dim as usize).collect::<Vec<_>>());
                // Indices that are not adjacent come before all other dimensions.
                let samples = if at == 0 { count } else { 0 };
                let block = (if at == 0 { 0 } else { at }, count, own);
                Places { indices, dims, samples, block }
            }
        })
    }

    /// For each dimension of a sample's result, after the batch dimension, its position in the result of this call.
    pub fn order(&self, rank: usize) -> Vec<usize> {
        let (from, count, own) = self.block;
        let block = from..from + count;
        let rest: Vec<usize> = (0..rank).filter(|dim| *dim != self.samples && !block.contains(dim)).collect();
        let (before, after) = rest.split_at(own);
        std::iter::once(self.samples).chain(before.iter().copied()).chain(block).chain(after.iter().copied()).collect()
    }
}

pub fn permuted(tensor: &Tensor, order: &[usize]) -> Result<Tensor> {
    let order: Ints = order.iter().map(|&dim| dim as i64).collect();
    op!(PERMUTE, tensor, order)
}

/// `x[i, j]`.
fn batched_index(batch: &BatchedCall) -> RuleResult {
    use INDEX::*;

    let differ = batch.args.tensors(INDICES)?.iter().any(|index| batch.differs(index));
    let shared = differ && !batch.differs_at(INPUT);
    let places = Places::of(batch, shared)?;
    let own = if shared { batch.one(INPUT)? } else { batch.tensor(INPUT)? };
    let whole = op!(INDEX, own, places.indices.clone(), places.dims.clone())?;
    permuted(&whole, &places.order(whole.rank())).map(|tensor| Some(Output::Tensor(tensor)))
}
