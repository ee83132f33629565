//! Where a gradient goes: into an output's place of a node.
//!
//! A chain of a hundred thousand nodes must not be dropped by a hundred thousand nested calls, so the last owner of a node
//! puts it on a list of its thread, and whoever came first empties the list.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::node::Node;

/// The `output`-th output of `node`'s forward function.
#[derive(Clone)]
pub struct Edge {
    node: ManuallyDrop<Arc<Node>>,
    pub output: u32,
}

/// One edge for each differentiable input; none where an input needs no gradient.
pub type Edges = SmallVec<[Option<Edge>; 2]>;

impl Edge {
    #[inline]
    pub fn new(node: Arc<Node>, output: u32) -> Edge {
        Edge { node: ManuallyDrop::new(node), output }
    }

    #[inline]
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Whether walks follow it: where tangents are not `shown`, nothing leads to what serves them alone.
    #[inline]
    pub fn is_followed(&self, shown: bool) -> bool {
        shown || !self.node.is_for_tangents()
    }
}

impl Drop for Edge {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken once, here, and never used again.
        let node = unsafe { ManuallyDrop::take(&mut self.node) };
        if Arc::strong_count(&node) == 1 {
            bury(node);
        }
    }
}

thread_local! {
    /// The nodes still to be dropped, while this thread is at it.
    static PENDING: RefCell<Option<Vec<Arc<Node>>>> = const { RefCell::new(None) };
}

fn bury(node: Arc<Node>) {
    let mut node = Some(node);
    let first = PENDING.try_with(|pending| {
        let mut pending = pending.borrow_mut();
        match pending.as_mut() {
            Some(list) => {
                list.extend(node.take());
                false
            }
            None => {
                *pending = Some(Vec::new());
                true
            }
        }
    });
    // At the end of a thread its list may be gone already; then nodes drop nested.
    drop(node);
    if first == Ok(true) {
        while let Some(next) = PENDING.with(|pending| pending.borrow_mut().as_mut().and_then(Vec::pop)) {
            drop(next);
        }
        PENDING.with(|pending| pending.borrow_mut().take());
    }
}
