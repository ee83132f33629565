//! The relation of a view to its base.
//!
//! A view's base is never a view itself. After the base, or another view of it, was changed in place, the view's own
//! history is out of date; it is derived again from the base's when it is needed (see `history`).

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use rushlight_core::{Error, Layout, Result};

use crate::graph::{Replay, Tensor, View, ViewKind};
use crate::node::forward_name;

/// The view of a base with this geometry. A replay gives the geometry with which the view was made; later in-place
/// changes of the geometry are applied after it.
pub(crate) fn replay_view(base: &Tensor, replay: Option<&Replay>, layout: &Layout) -> Result<Tensor> {
    let as_strided = crate::arithmetic::arithmetic()?.as_strided;
    match replay {
        None => as_strided(base, layout),
        Some(replay) => {
            let made = replay(base)?;
            if made.layout() == layout { Ok(made) } else { as_strided(&made, layout) }
        }
    }
}

impl View {
    pub(crate) fn new(base: Tensor, replay: Option<Replay>, kind: ViewKind) -> View {
        let history_version = AtomicU32::new(base.version_or_zero());
        View { base, replay, history_version, kind: AtomicU8::new(kind as u8) }
    }

    pub(crate) fn kind(&self) -> ViewKind {
        [ViewKind::Ordinary, ViewKind::MultiOutput, ViewKind::NoGrad, ViewKind::Inference, ViewKind::CustomFunction]
            [self.kind.load(Relaxed) as usize]
    }

    pub(crate) fn set_kind(&self, kind: ViewKind) {
        self.kind.store(kind as u8, Relaxed);
    }

    /// Returns an error for views whose history an in-place change would make wrong. Either `view` itself is changed,
    /// or its base was (`indirect`).
    pub(crate) fn check_change(&self, view: &Tensor, indirect: bool) -> Result<()> {
        let kind = self.kind();
        if kind == ViewKind::Ordinary {
            return Ok(());
        }
        let change = if indirect { "its base or another view of its base has been" } else { "is being" };
        let mode = match kind {
            ViewKind::Inference => ("inference", "in normal mode"),
            _ => ("no_grad", "with grad mode enabled"),
        };
        let start = match (kind, view.stored_history()) {
            (_, None) => format!("A view was created in {} mode and {change} modified inplace {}.", mode.0, mode.1),
            (ViewKind::NoGrad | ViewKind::Inference, Some(edge)) => format!(
                "Output {} of {} is a view of a view which was created in {} mode and {change} modified inplace {}.",
                edge.output,
                forward_name(edge.node().name()),
                mode.0,
                mode.1
            ),
            (_, Some(edge)) => format!(
                "Output {} of {} is a view and {change} modified inplace.",
                edge.output,
                forward_name(edge.node().name())
            ),
        };
        let reason = match kind {
            ViewKind::MultiOutput => {
                "This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
            }
            ViewKind::NoGrad => {
                "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
            }
            ViewKind::Inference => {
                "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the inference_mode block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
            }
            ViewKind::CustomFunction => {
                "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
            }
            ViewKind::Ordinary => return Ok(()),
        };
        Err(Error::runtime(format!("{start} {reason}")))
    }
}
