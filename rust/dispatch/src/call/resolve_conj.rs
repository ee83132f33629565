//! Copies of lazily conjugated tensors, in which the conjugation or negation is carried out.

use rushlight_autograd::Tensor;
use rushlight_core::Result;

use crate::args::replace_where;
use crate::operator::Args;
use crate::primitives::primitives;

/// The arguments, with copies of those that are lazily conjugated or negated.
pub fn resolve_all(mut args: Args) -> Result<Args> {
    replace_where(&mut args.values, Tensor::is_lazy_conj, resolve)?;
    Ok(args)
}

/// The tensor itself, or a copy that stores its elements themselves.
pub fn resolve(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_lazy_conj() { primitives()?.clone.tensor([tensor.into()]) } else { Ok(tensor.clone()) }
}
