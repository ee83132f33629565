//! The call cache of selective checkpointing: when a call is repeated for a backward pass, it is recorded and not
//! computed.
//!
//! A thread may have a call cache. The cache stores the results of each call that computes. Before a call it is
//! searched for stored results. Views, composite operators and the operators that a body calls are not stored.

use std::cell::RefCell;
use std::sync::Arc;

use rushlight_autograd::Tensor;
use rushlight_autograd::accumulate::is_accumulating;
use rushlight_core::Result;

use crate::interceptors::{Rest, Triggers};
use crate::node;
use crate::operator::{Args, Implementation};
use crate::value::{Output, Target};

/// Stores results of calls.
pub trait CallCache: Send + Sync {
    /// The stored results of this call, if there are any.
    fn lookup(&self, args: &Args) -> Result<Option<Vec<Tensor>>>;

    /// Called after this call was computed.
    fn store(&self, args: &Args, results: &[Tensor]) -> Result<()>;
}

thread_local! {
    static OWN: RefCell<Option<Arc<dyn CallCache>>> = const { RefCell::new(None) };
}

/// Sets this thread's call cache, or removes it, and returns the previous one.
pub fn set(call_cache: Option<Arc<dyn CallCache>>) -> Option<Arc<dyn CallCache>> {
    if call_cache.is_some() {
        Triggers::PYTHON.enter();
    }
    let before = OWN.replace(call_cache);
    if before.is_some() {
        Triggers::PYTHON.leave(1);
    }
    before
}

/// Removes the thread's call cache while it is alive.
struct Suspended(Arc<dyn CallCache>);

impl Drop for Suspended {
    fn drop(&mut self) {
        OWN.set(Some(self.0.clone()));
    }
}

/// Runs a call for a new result, or takes the result from the thread's call cache.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    let computes = matches!(
        args.op.implementation,
        Implementation::Pointwise(_)
            | Implementation::Kernel(_)
            | Implementation::Update(_)
            | Implementation::ExplicitAutograd(_)
    );
    let fresh = matches!(target, Target::Fresh);
    // Its Python code must not run under the lock of an accumulation, and sums of gradients are no part of a forward pass.
    let wanted = computes && fresh && !is_accumulating();
    let Some(call_cache) = (if wanted { OWN.take() } else { None }) else { return rest.call(args, target) };
    let away = Suspended(call_cache);
    if let Some(results) = away.0.lookup(&args)? {
        return node::record(&args, args.op.gather(results.into()));
    }
    let output = rest.call(args.clone(), target)?;
    away.0.store(&args, output.tensors())?;
    Ok(output)
}
