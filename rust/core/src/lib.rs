//! The lowest layer: what a tensor is made of, without arithmetic.
//!
//! - `dtype`, `element`, `float8` and `scalar`: element types and their promotion; `device`: where bytes are;
//!   `device_memory`: blocks of another device's allocator.
//! - `dims`, `layout`, `broadcast`, `memory_format`, `index`, `window` and `loop_nest`: the algebra of sizes and signed
//!   strides, pure functions without data; `convolution` names the sizes of one.
//! - `storage`, `block` and `alloc` own bytes; `limits` measures the memory that is left, and `reserve` keeps some for
//!   small requests; `memory_record` tells the profiler what is taken and given back.
//! - `counted` is a reference-counted handle; `shared` owns memory shared between processes, `file_map` memory-mapped
//!   files.
//! - `installed` is what a lower crate takes from a higher one.
//! - `fork` keeps locks safe across `fork`; `futex` waits without a lock; `sync` names the primitives that both use.
//! - `error` is the engine's error type.

// Tests read and write memory that they have just allocated.
#![cfg_attr(test, allow(clippy::undocumented_unsafe_blocks))]

pub mod alloc;
pub mod block;
pub mod broadcast;
pub mod convolution;
pub mod counted;
pub mod device;
pub mod device_memory;
mod dims;
pub mod dtype;
pub mod element;
pub mod error;
pub mod file_map;
pub mod float8;
pub mod fork;
pub mod futex;
pub mod index;
pub mod installed;
pub mod layout;
mod limits;
pub mod loop_nest;
pub mod memory_format;
pub mod memory_record;
pub mod reserve;
pub mod scalar;
pub mod shared;
pub mod storage;
pub mod sync;
pub mod window;

pub use device::Device;
pub use dims::Dims;
pub use dtype::{Bool, DType, Element};
pub use error::{Class, Error, Result};
pub use layout::Layout;
pub use scalar::Scalar;
pub use storage::Storage;
