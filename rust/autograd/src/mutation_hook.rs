//! The hook that a thread may set on in-place changes: a checkpoint uses it to keep what is changed afterwards.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rushlight_core::Result;

use crate::graph::Tensor;

/// Called with each tensor that is about to be changed in place.
pub type MutationHook = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

/// Whether any thread ever set a mutation hook; until then the thread's hook is not looked up.
static EVER_HOOKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static MUTATION_HOOK: RefCell<Option<MutationHook>> = const { RefCell::new(None) };
}

/// Sets the function that is called for this thread's in-place changes; `None` removes it.
pub fn set_mutation_hook(hook: Option<MutationHook>) {
    EVER_HOOKED.store(true, Ordering::Relaxed);
    let before = MUTATION_HOOK.replace(hook);
    drop(before);
}

#[inline]
pub(crate) fn run_mutation_hook(tensor: &Tensor) -> Result<()> {
    if EVER_HOOKED.load(Ordering::Relaxed)
        && let Some(hook) = MUTATION_HOOK.with_borrow(Option::clone)
    {
        return hook(tensor);
    }
    Ok(())
}

/// Removes this thread's mutation hook until it is dropped: for changes under a lock, before which the hook was called.
pub(crate) struct NoMutationHook(Option<MutationHook>);

impl NoMutationHook {
    pub(crate) fn begin() -> NoMutationHook {
        NoMutationHook(if EVER_HOOKED.load(Ordering::Relaxed) { MUTATION_HOOK.take() } else { None })
    }
}

impl Drop for NoMutationHook {
    fn drop(&mut self) {
        if let Some(hook) = self.0.take() {
            MUTATION_HOOK.set(Some(hook));
        }
    }
}
