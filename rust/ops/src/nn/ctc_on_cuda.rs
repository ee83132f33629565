//! Connectionist temporal classification on CUDA devices. The losses check the labels, and wait for the check once; the gradients
//! read the same labels.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::list;
use rushlight_core::{DType, Result};
use rushlight_cuda::ctc::{self, Known};
use rushlight_dispatch::create;
use rushlight_dispatch::operands::plain;

use crate::convert::to_device;
use crate::held::Held;
use crate::index::on_cuda::{Report, value_at};

/// Where the labels of each sequence begin, its steps and its labels, which were checked; the number of positions of the longest labelling.
pub struct Batch<'a> {
    pub starts: &'a [usize],
    pub steps: &'a [usize],
    pub counts: &'a [usize],
    pub classes: usize,
    pub width: usize,
    pub blank: i64,
}

/// Runs a function on the labels, in int64, and the batch of the kernels.
fn with<R>(
    logs: &Tensor,
    targets: &Tensor,
    batch: &Batch,
    run: impl FnOnce(&Tensor, ctc::CtcBatch) -> Result<R>,
) -> Result<R> {
    let targets = plain(&targets.detach(), DType::I64)?;
    let mut bounds = list(3 * batch.counts.len())?;
    bounds.extend([batch.starts, batch.steps, batch.counts].into_iter().flatten().map(|&n| n as i64));
    let bounds = to_device(&create::from_slice(&bounds)?, logs.device())?;
    let mut held = Held::on(logs)?;
    let [labels, bounds] = held.addresses([&targets, &bounds])?;
    let own = ctc::CtcBatch {
        labels,
        bounds,
        time: logs.sizes()[0] as u64,
        items: logs.sizes()[1] as u64,
        classes: batch.classes as u64,
        width: batch.width as u64,
        blank: batch.blank,
    };
    run(&targets, own)
}

/// The losses and the sums over paths, both row-major; returns a label that is no class.
pub fn losses(logs: &Tensor, targets: &Tensor, batch: &Batch, results: &[Tensor]) -> Result<Option<i64>> {
    let dtype = results[0].dtype();
    let logs = plain(&logs.detach(), dtype)?;
    with(&logs, targets, batch, |labels, own| {
        let mut held = Held::on(&logs)?;
        let report = Report::new(held.card)?;
        let operands = held.addresses([&logs, &results[0], &results[1]])?;
        {
            let mut reporting = Held::on(&logs)?;
            let outside = report.address(&mut reporting)?;
            // SAFETY: row-major operands of the sizes of the batch, which was checked, held for the stream, as the report is.
            unsafe { ctc::losses(held.card, held.stream, dtype, operands, own, outside)? };
        }
        report.read()?.map(|position| value_at(labels, position)).transpose()
    })
}

/// The gradients of the logarithms, from those of the losses, the losses and the sums over paths.
pub fn gradients(
    logs: &Tensor,
    targets: &Tensor,
    batch: &Batch,
    known: [&Tensor; 3],
    result: &Tensor,
    zero_infinity: bool,
) -> Result<()> {
    let dtype = result.dtype();
    let own = |tensor: &Tensor| plain(&tensor.detach(), dtype);
    let (logs, [grads, losses, alphas]) = (own(logs)?, known.map(own));
    let (grads, losses, alphas) = (grads?, losses?, alphas?);
    let betas = create::empty(alphas.sizes(), dtype, alphas.device())?;
    with(&logs, targets, batch, |_, own| {
        let mut held = Held::on(&logs)?;
        let operands = held.addresses([&logs, result])?;
        let [grads, losses, alphas, betas] = held.addresses([&grads, &losses, &alphas, &betas])?;
        let known = Known { alphas, betas, losses, grads };
        // SAFETY: row-major operands of the sizes of the batch, which was checked, held for the stream.
        unsafe { ctc::gradients(held.card, held.stream, dtype, operands, known, own, zero_infinity) }
    })
}
