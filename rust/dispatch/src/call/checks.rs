//! An operator's own checks before a call.

use rushlight_core::Result;

use super::errors::with_context;
use crate::operator::Args;
use crate::value::Target;

/// The operator's own checks, and the target after its `inplace=`.
#[inline]
pub(super) fn checked<'a>(args: &Args, target: Target<'a>) -> Result<Target<'a>> {
    if let Some(check) = args.op.check {
        check(args).map_err(|error| with_context(error, args, matches!(target, Target::InPlace)))?;
    }
    Ok(match (target, args.op.schema().inplace) {
        (Target::Fresh, Some(asked)) if args.optional_bool(asked) == Some(true) => Target::InPlace,
        (target, _) => target,
    })
}
