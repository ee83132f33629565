//! The tensor's body and reverse-mode differentiation; no operator is known here.
//!
//! A forward operator leaves a `Node` behind that knows its derivative (`node`, `record`), what it saved (`saved`) and
//! where its gradients go. The `engine` walks the nodes backwards from the roots; `accumulate` is where a gradient
//! arrives at a leaf. In-place changes are counted (`version`) and rewrite the history of what they change, views
//! included (`view`, `inplace`). `modes` switches recording on and off. The few operations that the engine itself
//! performs on gradients are handed in from above (`arithmetic`).

pub mod accumulate;
pub mod arithmetic;
mod edge;
mod enclosed;
pub mod engine;
mod history;
pub mod hooks;
pub mod inplace;
mod lock;
mod mapped;
pub mod modes;
pub mod node;
pub mod origin;
pub mod record;
pub mod saved;
mod sparse;
mod tensor;
mod validate;
mod version;
mod view;

pub use accumulate::AccumulateGrad;
pub use arithmetic::{Arithmetic, install};
pub use edge::{Edge, Edges};
pub use enclosed::Enclosed;
pub use engine::{backward, grad, queue_callback};
pub use hooks::HookHandle;
pub use inplace::InPlace;
pub use mapped::Axis;
pub use node::{Backward, Call, Gradients, Node, OutputMeta, Ticket};
pub use origin::Origin;
pub use record::{collect_edges, record, should_record};
pub use saved::{SavedTensor, released};
pub use sparse::{Coo, Parts};
pub use tensor::{Form, Meta, Tensor, WeakTensor, set_python_release};
pub use version::Version;
pub use view::{Replay, ViewKind};
