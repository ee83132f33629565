//! What a rule asks of a call on samples.

use crate::value::{Arg, Output, sizes_value};
use rushlight_autograd::Tensor;
use rushlight_core::Result;

use super::physical::{one_sample, physical};
use crate::create::from_slice;
use crate::operator::{Args, BatchRule, BatchedCall};
use crate::primitives::primitives;

/// The result of a batching rule, or `None` if the call has to run for each sample.
pub type RuleResult = Result<Option<Output>>;

/// The result of a rule whose operator returns one tensor.
pub fn one_result(tensor: Result<Tensor>) -> RuleResult {
    tensor.map(|tensor| Some(Output::Tensor(tensor)))
}

impl BatchedCall<'_, '_> {
    /// Whether a tensor argument differs from sample to sample; a batched one need not.
    pub fn differs_at(&self, arg: Arg) -> bool {
        self.args.optional_tensor(arg).is_some_and(|tensor| self.differs(tensor))
    }

    pub fn differs(&self, tensor: &Tensor) -> bool {
        tensor.batch_dim(self.level).is_some_and(|batch_dim| batch_dim.stride != 0 || batch_dim.size == 0)
    }

    /// The tensor with the batch dimension first.
    pub fn physical(&self, tensor: &Tensor) -> Tensor {
        physical(tensor, self.level, self.size)
    }

    /// A tensor argument with the samples along a first dimension.
    pub fn tensor(&self, arg: Arg) -> Result<Tensor> {
        Ok(self.physical(self.args.tensor(arg)?))
    }

    /// The samples' indices, to be used with other indices of so many dimensions.
    pub fn numbers(&self, rank: usize) -> Result<Tensor> {
        let mut sizes = vec![1; rank + 1];
        sizes[0] = self.size;
        let numbers: Vec<i64> = (0..self.size as i64).collect();
        primitives()?.reshape.tensor([from_slice(&numbers)?.into(), sizes_value(&sizes)])
    }

    /// One sample, if all are the same.
    pub fn one(&self, arg: Arg) -> Result<Tensor> {
        Ok(one_sample(self.args.tensor(arg)?, self.level, self.size, 0))
    }
}

/// The batching rule for the call.
pub fn effective_rule(args: &Args) -> BatchRule {
    match args.op.batch_rule {
        BatchRule::FallbackIf(list) => {
            let reads =
                |(at, tensor): (usize, &Tensor)| tensor.is_batched() && list.iter().any(|arg| arg.position() == at);
            if args.each_tensor().any(reads) { BatchRule::Fallback } else { BatchRule::Default }
        }
        effective_rule => effective_rule,
    }
}
