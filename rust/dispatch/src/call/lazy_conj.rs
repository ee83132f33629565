//! Lazily conjugated and negated tensors (`Form::LazyConj`) as operands and as targets.
//!
//! Loops read and write what is stored. So an operator gets copies of such operands, and a result for such a target is
//! computed separately and copied. Operators that only make views pass the form on.

use rushlight_autograd::Tensor;
use rushlight_core::Result;

use super::resolve_conj::resolve_all;
use super::through_copy::through_copy;
use crate::interceptors::Rest;
use crate::operator::{Args, Implementation, Operator, Tags};
use crate::value::{Arg, Output, Target};

/// Makes a call with lazy conjugates, unless its operator handles them itself.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    if passes_through(args.op) {
        return rest.call(args, target);
    }
    let overwrites = matches!(args.op.implementation, Implementation::InPlaceFill(_));
    let writes_lazy_conj = match &target {
        Target::Fresh => overwrites && args.tensor(Arg::FIRST)?.is_lazy_conj(),
        Target::InPlace => args.tensor(Arg::FIRST)?.is_lazy_conj(),
        Target::Out(outs) => outs.iter().any(Tensor::is_lazy_conj),
    };
    if writes_lazy_conj {
        return through_copy(&args, if overwrites { Target::InPlace } else { target });
    }
    resolve_all(args)?.call_into(target)
}

fn passes_through(op: &Operator) -> bool {
    let by_kind = matches!(
        op.implementation,
        Implementation::View(_)
            | Implementation::MultiView(_)
            | Implementation::ViewDtype(_)
            | Implementation::CompositeImplicit(_)
            | Implementation::Delegate(_)
    );
    by_kind || op.tags.has(Tags::LAZY_CONJ)
}
