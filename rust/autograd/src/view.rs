//! What a view knows about the tensor whose elements it shows.
//!
//! A view's base is never a view itself. After the base, or another view of it, was changed in place, the view's own history
//! is out of date; it is made anew from the base's when somebody asks (see `history`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use rushlight_core::{Error, Layout, Result};

use crate::node::forward_name;
use crate::tensor::Tensor;

/// How a view came to be, which decides whether it may be changed in place while gradients are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ViewKind {
    Ordinary,
    /// One of several views that one function returned.
    MultiOutput,
    NoGrad,
    Inference,
    CustomFunction,
}

/// Shows a base as this view once more, where sizes and strides alone do not say how (another dtype).
pub type Replay = Arc<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

/// The view of a base that has this geometry. A replay knows the one with which the view was made; a change of geometry in
/// place comes after it.
pub(crate) fn shown(base: &Tensor, replay: Option<&Replay>, layout: &Layout) -> Result<Tensor> {
    let as_strided = crate::arithmetic::arithmetic()?.as_strided;
    match replay {
        None => as_strided(base, layout),
        Some(replay) => {
            let made = replay(base)?;
            if made.layout() == layout { Ok(made) } else { as_strided(&made, layout) }
        }
    }
}

pub(crate) struct View {
    pub(crate) base: Tensor,
    pub(crate) replay: Option<Replay>,
    /// The version to which the view's history belongs.
    pub(crate) seen: AtomicU32,
    kind: AtomicU8,
}

impl View {
    pub(crate) fn new(base: Tensor, replay: Option<Replay>, kind: ViewKind) -> View {
        let seen = AtomicU32::new(base.version_or_zero());
        View { base, replay, seen, kind: AtomicU8::new(kind as u8) }
    }

    pub(crate) fn kind(&self) -> ViewKind {
        [ViewKind::Ordinary, ViewKind::MultiOutput, ViewKind::NoGrad, ViewKind::Inference, ViewKind::CustomFunction]
            [self.kind.load(Relaxed) as usize]
    }

    pub(crate) fn set_kind(&self, kind: ViewKind) {
        self.kind.store(kind as u8, Relaxed);
    }

    /// Refuses views whose history an in-place change would falsify. `view` is being changed itself, or its base was
    /// (`indirect`).
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
