//! Edges of the graph: an edge leads to one output of a node, and a gradient flows along it.
//!
//! Dropping a chain of a hundred thousand nodes must not take a hundred thousand nested calls. So the last owner of a
//! node puts it on a list of its thread, and the outermost drop empties the list.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::graph::{Edge, Node};

impl Edge {
    #[inline]
    pub fn new(node: Arc<Node>, output: u32) -> Edge {
        Edge { node: ManuallyDrop::new(node), output }
    }

    #[inline]
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Whether backward passes follow the edge: if tangents are not `tangents_visible`, they skip nodes for tangents
    /// only.
    #[inline]
    pub fn is_followed(&self, tangents_visible: bool) -> bool {
        tangents_visible || !self.node.is_for_tangents()
    }
}

impl Drop for Edge {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken once, here, and not used afterwards.
        let node = unsafe { ManuallyDrop::take(&mut self.node) };
        if Arc::strong_count(&node) == 1 {
            drop_iteratively(node);
        }
    }
}

thread_local! {
    /// The nodes still to be dropped, while a drop on this thread is in progress.
    static PENDING: RefCell<Option<Vec<Arc<Node>>>> = const { RefCell::new(None) };
}

fn drop_iteratively(node: Arc<Node>) {
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
    // At the end of a thread its list may be gone already; then nodes are dropped in nested calls.
    drop(node);
    if first == Ok(true) {
        while let Some(next) = PENDING.with(|pending| pending.borrow_mut().as_mut().and_then(Vec::pop)) {
            drop(next);
        }
        PENDING.with(|pending| pending.borrow_mut().take());
    }
}
