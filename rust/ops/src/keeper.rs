//! Calls whose results a checkpoint keeps: the same call, made again for a backward pass, is recorded and not computed.
//!
//! A thread may have a keeper. It is told of each call that computes once its result stands, and asked before the call whether
//! it has the result already. Views and composed rows are not its business, the rows that a body calls neither. Where no
//! thread has one, a call pays one relaxed load.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rushlight_autograd::Tensor;
use rushlight_core::Result;

use crate::call::gather;
use crate::node;
use crate::row::Run;
use crate::value::{Args, Output};

/// Keeps results of calls.
pub trait Keeper: Send + Sync {
    /// The results of this call, where they are known.
    fn known(&self, args: &Args) -> Result<Option<Vec<Tensor>>>;

    /// This call was computed.
    fn computed(&self, args: &Args, results: &[Tensor]) -> Result<()>;
}

/// How many threads have a keeper.
static KEEPERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: RefCell<Option<Arc<dyn Keeper>>> = const { RefCell::new(None) };
}

#[inline]
pub fn is_expected() -> bool {
    KEEPERS.load(Ordering::Relaxed) > 0
}

/// Gives this thread a keeper, or none, and returns the one before.
pub fn set(keeper: Option<Arc<dyn Keeper>>) -> Option<Arc<dyn Keeper>> {
    if keeper.is_some() {
        KEEPERS.fetch_add(1, Ordering::Relaxed);
    }
    let before = OWN.replace(keeper);
    if before.is_some() {
        KEEPERS.fetch_sub(1, Ordering::Relaxed);
    }
    before
}

/// While it lives the thread has no keeper.
struct Away(Arc<dyn Keeper>);

impl Drop for Away {
    fn drop(&mut self) {
        set(Some(self.0.clone()));
    }
}

/// Runs a call for a fresh result, or takes the result from the keeper.
#[cold]
pub fn through(args: &Args, run: impl FnOnce() -> Result<Output>) -> Result<Output> {
    let computes = matches!(args.row.run, Run::Pointwise(_) | Run::Kernel(_) | Run::Update(_) | Run::Body(_));
    let Some(keeper) = (if computes { set(None) } else { None }) else { return run() };
    let away = Away(keeper);
    let output = match away.0.known(args)? {
        Some(results) => node::record(args, gather(args.row, results))?,
        None => {
            let output = run()?;
            away.0.computed(args, output.tensors())?;
            output
        }
    };
    Ok(output)
}
