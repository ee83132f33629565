//! Copies of lazily conjugated tensors, in which the conjugation or negation is carried out.

use rushlight_autograd::Tensor;
use rushlight_core::Result;

use crate::operator::Args;
use crate::primitives::primitives;
use crate::value::Value;

/// The arguments, with copies of those that are lazily conjugated or negated.
pub fn resolve_all(mut args: Args) -> Result<Args> {
    for value in &mut args.values {
        match value {
            Value::Tensors(list) => {
                for tensor in list.iter_mut().flatten() {
                    *tensor = resolve(tensor)?;
                }
            }
            value => {
                if let Some(tensor) = value.as_tensor().filter(|tensor| tensor.is_lazy_conj()) {
                    *value = Value::Own(resolve(tensor)?);
                }
            }
        }
    }
    Ok(args)
}

/// The tensor itself, or a copy that stores its elements themselves.
pub fn resolve(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_lazy_conj() { primitives()?.clone.tensor([tensor.into()]) } else { Ok(tensor.clone()) }
}
