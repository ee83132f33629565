//! The tensor type and reverse-mode differentiation, independent of any operator.
//!
//! The types of tensors and nodes are in `graph`, their methods in the other files: those of a `tensor`, of its part in the
//! graph (`history`), of the form of `sparse`, `quantized` and `batched` tensors.
//! A call of an operator records a `Node` with its derivative (`node`, `record`), its saved tensors (`saved`) and the
//! edges for its gradients (`edge`); `custom` records a user's own function, `subgraph` several calls as one node, and
//! `source_location` the line of the call. The `engine` runs the nodes backwards from the
//! roots, `validate` checks the gradients, `accumulate` adds them to leaves, and `hooks` see them on the way (`hook_list` is a
//! list of them, `lock` a slot for what threads exchange). In-place changes are counted (`version`) and rewrite the history of
//! the tensor and its views (`view`, `inplace`), after the hook of `mutation_hook`. `modes` switches recording on and off. The few operations that the
//! engine itself performs on gradients are installed by a higher crate (`arithmetic`). `display` prints tensors.

pub mod accumulate;
pub mod arithmetic;
mod batched;
pub mod custom;
mod display;
mod edge;
pub mod engine;
pub mod graph;
mod history;
mod hook_list;
pub mod hooks;
pub mod inplace;
mod lock;
pub mod modes;
pub mod mutation_hook;
pub mod node;
mod quantized;
pub mod record;
pub mod saved;
pub mod source_location;
pub mod sparse;
mod subgraph;
mod tensor;
mod validate;
mod version;
mod view;

pub use arithmetic::{Arithmetic, install};
pub use engine::{backward, grad, queue_callback};
pub use graph::{
    AccumulateGrad, Backward, BackwardCall, BatchDim, Compressed, CompressedFormat, CompressedParts, Coo, Edge, Edges,
    Form, Gradients, Node, OutputMeta, Quantizer, Reachable, Replay, SparseParts, Tensor, TensorMeta, ViewKind,
    WeakTensor,
};
pub use hook_list::HookHandle;
pub use inplace::{InPlace, inference_update, record_change};
pub use node::{SequenceRange, next_sequence};
pub use record::{collect_edges, record, should_record};
pub use saved::{SavedTensor, released};
pub use source_location::SourceLocation;
pub use subgraph::Subgraph;
pub use tensor::set_left_alone;
pub use validate::is_stretched;
pub use version::Version;
