//! The warnings that programs older than broadcasting may ask for: `torch.utils.backcompat`.

use std::sync::atomic::{AtomicBool, Ordering};

use rushlight_core::Result;

use crate::host::warn;

static BROADCAST: AtomicBool = AtomicBool::new(false);
static KEEPDIM: AtomicBool = AtomicBool::new(false);

/// Turns the warnings on or off.
pub fn set(broadcast: bool, keepdim: bool) {
    BROADCAST.store(broadcast, Ordering::Relaxed);
    KEEPDIM.store(keepdim, Ordering::Relaxed);
}

/// Two shapes that broadcast; once, those of as many elements met element by element.
pub fn note_broadcast(a: &[isize], b: &[isize], meeting: &[isize]) -> Result<()> {
    let elements = |sizes: &[isize]| sizes.iter().product::<isize>();
    if BROADCAST.load(Ordering::Relaxed) && elements(a) == elements(b) {
        warn(&format!(
            "self and other do not have the same shape, but are broadcastable, and have the same number of elements. \
             Changing behavior in a backwards incompatible manner to broadcasting rather than viewing as 1-dimensional.\n\
             Here {a:?} and {b:?} make {meeting:?}."
        ))?;
    }
    Ok(())
}

/// A call that reduces a dimension and does not say whether to keep it; once, it was kept.
pub fn note_default_keepdim(given: impl FnOnce() -> bool) -> Result<()> {
    if KEEPDIM.load(Ordering::Relaxed) && !given() {
        warn(
            "backwards compatibility: call uses default value for keepdim which has changed default to False. \
             Consider passing as kwarg.",
        )?;
    }
    Ok(())
}
