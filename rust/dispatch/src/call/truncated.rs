//! Files that were truncated while a call read them (`core::file_map`).

use rushlight_core::Result;

use crate::operator::{Args, Implementation};
use crate::value::Output;

/// The result, unless it was computed from missing pages. A call that reads no memory needs no check, and a composite
/// operator leaves it to its parts.
#[cold]
pub fn check_intact(args: &Args, output: Output) -> Result<Output> {
    if !matches!(
        args.op.implementation,
        Implementation::View(_)
            | Implementation::ViewDtype(_)
            | Implementation::MultiView(_)
            | Implementation::CompositeImplicit(_)
    ) {
        args.each_tensor().try_for_each(|(_, tensor)| tensor.storage().check_reads())?;
    }
    Ok(output)
}
