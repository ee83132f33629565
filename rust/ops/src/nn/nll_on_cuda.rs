//! The negative log-likelihood on CUDA devices. The loss checks its targets, and waits for the check once; the gradient reads the same
//! targets.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Result};
use rushlight_cuda::{card, nll};
use rushlight_dispatch::create;
use rushlight_dispatch::operands::{plain, settle, workplace};

use crate::held::Held;
use crate::index::on_cuda::{Report, value_at};

/// The targets of a call, the weights of the classes, the sizes `(n, classes, spots)` of scores, and the target that counts nothing.
pub struct Targets<'a> {
    pub targets: &'a Tensor,
    pub weights: Option<&'a Tensor>,
    pub sizes: [isize; 3],
    pub ignored: i64,
}

impl Targets<'_> {
    /// Runs a function on the targets of the kernels.
    fn with<R>(&self, dtype: DType, run: impl FnOnce(&Tensor, nll::NllTargets) -> Result<R>) -> Result<R> {
        let targets = plain(&self.targets.detach(), DType::I64)?;
        let weights = self.weights.map(|weights| plain(&weights.detach(), dtype)).transpose()?;
        let [n, classes, spots] = self.sizes.map(|size| size as u64);
        let mut held = Held::on(&targets)?;
        let addresses = (held.address(&targets)?, held.optional(weights.as_ref())?);
        let own = nll::NllTargets {
            targets: addresses.0,
            weights: addresses.1,
            count: n * spots,
            classes,
            spots,
            ignored: self.ignored,
        };
        run(&targets, own)
    }

    /// The losses and weights of all targets as `(n, spots)`, in the compute dtype, to which `then` is applied; or the first target
    /// that is no class. The device works on `then` while the check is awaited.
    pub fn losses(
        &self,
        scores: &Tensor,
        then: impl FnOnce(Tensor, Tensor) -> Result<()>,
    ) -> Result<std::result::Result<(), i64>> {
        let (dtype, compute) = (scores.dtype(), scores.dtype().compute());
        let scores = plain(&scores.detach(), dtype)?;
        let [n, _, spots] = self.sizes;
        let new = || create::empty(&[n, spots], compute, scores.device());
        let (losses, weights) = (new()?, new()?);
        if losses.numel() == 0 {
            return then(losses, weights).map(Ok);
        }
        let report = Report::new(card::of(scores.device())?)?;
        self.with(dtype, |targets, own| {
            let mut held = Held::on(&scores)?;
            let (from, to) = (held.address(&scores)?, held.addresses([&losses, &weights])?);
            let outside = report.address(&mut held)?;
            // SAFETY: row-major operands of these sizes, held for the stream; the results are new.
            unsafe { nll::losses(held.card, held.stream, dtype, from, to, own, outside)? };
            drop(held);
            then(losses, weights)?;
            report.read()?.map_or(Ok(Ok(())), |position| value_at(targets, position).map(Err))
        })
    }

    /// The gradients of the scores from `grads` in the compute dtype, which are one for each target or one for all, over the sum of
    /// the weights if there is one.
    pub fn gradients(&self, out: &Tensor, grads: &Tensor, each: bool, total: Option<&Tensor>) -> Result<()> {
        let dtype = out.dtype();
        if out.numel() == 0 {
            return Ok(());
        }
        let compute = |tensor: &Tensor| plain(&tensor.detach(), dtype.compute());
        let (grads, total) = (compute(grads)?, total.map(compute).transpose()?);
        let target = workplace(out, dtype)?;
        self.with(dtype, |_, own| {
            let mut held = Held::on(&target)?;
            let (to, from) = (held.address(&target)?, held.address(&grads)?);
            let total = held.optional(total.as_ref())?;
            // SAFETY: as for the losses.
            unsafe { nll::gradients(held.card, held.stream, dtype, to, (from, each), total, own) }
        })?;
        settle(&target, out)
    }
}
