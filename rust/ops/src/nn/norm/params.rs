//! How normalisation sees its operand: as groups of elements.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};
use rushlight_cpu::nn::norm::NormGroups;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::value::{Arg, Ints, Value, sizes_value};

/// The groups: the operand viewed as `[samples, groups, channels, run]`, and the options.
#[derive(Clone, Copy)]
pub struct NormParams {
    pub view: [isize; 4],
    pub pooled: bool,
    pub centred: bool,
    pub eps: f64,
}

/// The results of normalisation: the output, and mean and variance of each group.
pub struct Normal {
    pub out: Tensor,
    pub mean: Tensor,
    pub variance: Tensor,
}

impl NormParams {
    pub fn run(
        self,
        op: &'static Operator,
        input: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
    ) -> Result<Normal> {
        let values = [input.into(), weight.into(), bias.into()].into_iter().chain(self.values());
        let results = Args::new(op, values).call()?.into_tensors();
        let [out, mean, variance] =
            <[Tensor; 3]>::try_from(results).map_err(|_| Error::runtime("a normalisation without statistics"))?;
        Ok(Normal { out, mean, variance })
    }

    pub(super) fn values(self) -> [Value<'static>; 4] {
        [sizes_value(&self.view), self.pooled.into(), self.centred.into(), self.eps.into()]
    }

    /// Reads the parameters of a call and checks that it fits the input.
    pub(super) fn read(args: &Args, input: Arg, [view, pooled, centred, eps]: [Arg; 4]) -> Result<NormParams> {
        let (own, view) = (args.tensor(input)?, args.ints(view)?);
        let params = NormParams::of(view, args.bool(pooled)?, args.bool(centred)?, args.float(eps)?);
        let counts = view.iter().try_fold(1i64, |count, &size| count.checked_mul(size).filter(|&count| count >= 0));
        if view.len() != 4 || counts != Some(own.numel() as i64) || (params.pooled && params.view[2] != 1) {
            let sizes: Vec<isize> = view.iter().map(|&size| size as isize).collect();
            return Err(Error::runtime(format!(
                "groups of {} do not fit an input of size {}",
                Shape(&sizes),
                Shape(own.sizes())
            )));
        }
        Ok(params)
    }

    pub(super) fn of(view: &[i64], pooled: bool, centred: bool, eps: f64) -> NormParams {
        let size = |at: usize| view.get(at).map_or(1, |&size| size as isize);
        NormParams { view: std::array::from_fn(size), pooled, centred, eps }
    }

    pub(super) fn groups(self) -> NormGroups {
        let [samples, groups, channels, run] = self.view.map(|size| size as usize);
        NormGroups { samples, groups, channels, run, pooled: self.pooled, centred: self.centred, eps: self.eps }
    }

    pub(super) fn statistics(&self) -> &[isize] {
        if self.pooled { &self.view[1..2] } else { &self.view[..2] }
    }

    pub(super) fn parameters(&self) -> isize {
        self.view[1] * self.view[2]
    }

    /// The dimensions of the view that form a group.
    pub(super) fn dims(&self) -> Ints {
        if self.pooled { Ints::from_slice(&[0, 2, 3]) } else { Ints::from_slice(&[2, 3]) }
    }

    /// The sizes of a parameter that broadcasts with the view.
    pub(super) fn broad(&self) -> [isize; 4] {
        [1, self.view[1], self.view[2], 1]
    }
}

pub(super) fn reshaped(tensor: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    op!(crate::view::RESHAPE, tensor, sizes_value(sizes))
}
