//! Where a pointwise result is written.

use crate::value::{Arg, Output, Target};
use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};

use crate::allocate::allocate;
use crate::node;
use crate::operator::{Args, TensorSpec};
use crate::variants::{check_in_place, check_out};

/// The destination of a pointwise result, and how the call is recorded.
pub enum Destination<'a, 'v> {
    Fresh(Tensor),
    InPlace(node::InPlaceCall<'a, 'v>, &'a Tensor),
    Out(&'a Tensor),
}

impl<'a, 'v> Destination<'a, 'v> {
    /// Allocates the result, or checks whether the target can hold it.
    pub fn find(args: &'a Args<'v>, target: Target<'a>, result: TensorSpec) -> Result<Destination<'a, 'v>> {
        let op = args.op;
        match target {
            Target::Fresh => allocate(&result).map(Destination::Fresh),
            Target::InPlace => {
                let input = args.tensor(Arg::FIRST)?;
                let change = node::InPlaceCall::begin(args)?;
                check_in_place(op, input, &result.layout.sizes, result.dtype)?;
                Ok(Destination::InPlace(change, input))
            }
            Target::Out(outs) => {
                let Some(out) = outs.first() else { return Err(Error::type_("out= needs a tensor")) };
                check_out(args, 0, out, &result)?;
                Ok(Destination::Out(out))
            }
        }
    }

    pub fn tensor(&self) -> &Tensor {
        match self {
            Destination::Fresh(fresh) => fresh,
            Destination::InPlace(_, own) => own,
            Destination::Out(out) => out,
        }
    }

    /// Records a node, or counts the change.
    pub fn record(self, args: &Args) -> Result<Output> {
        match self {
            Destination::Fresh(fresh) => node::record(args, Output::Tensor(fresh)),
            Destination::InPlace(change, _) => change.finish(),
            Destination::Out(out) => {
                out.bump_version();
                Ok(Output::Tensor(out.clone()))
            }
        }
    }
}
