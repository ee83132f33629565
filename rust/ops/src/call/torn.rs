//! Files that lost bytes while a call read them (`core::file_map`).

use rushlight_core::Result;

use crate::row::Run;
use crate::value::{Args, Output};

/// The result, unless it was computed from bytes that were gone. What reads none has nothing to ask, and a row that calls
/// others leaves it to them.
#[cold]
pub fn whole(args: &Args, output: Output) -> Result<Output> {
    if !matches!(args.row.run, Run::View(_) | Run::Retype(_) | Run::Views(_) | Run::Compose(_)) {
        args.each_tensor().try_for_each(|(_, tensor)| tensor.storage().check_reads())?;
    }
    Ok(output)
}
