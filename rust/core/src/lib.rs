//! The ground floor: what a tensor is made of, without any arithmetic.
//!
//! `dtype`, `element` and `scalar` say what an element is and how types promote, `device` where it lives; `layout`, `broadcast`,
//! `memory_format`, `index` and `plan` are the algebra of sizes and signed strides, pure functions without data; `storage` and `alloc` own
//! bytes, `limits` asks how many there are left, `reserve` keeps some for small requests; `counted` is what has several
//! owners; `shared` owns bytes that several processes see, `file_map` those that show a file; `fork` keeps locks safe over
//! `fork`, `sleep` waits without one; `error` is the one error of the house.

// Tests read and write memory that they have just made.
#![cfg_attr(test, allow(clippy::undocumented_unsafe_blocks))]

pub mod alloc;
pub mod broadcast;
pub mod counted;
pub mod device;
pub mod dtype;
pub mod element;
pub mod error;
pub mod file_map;
pub mod fork;
pub mod index;
pub mod layout;
mod limits;
pub mod memory_format;
pub mod plan;
pub mod reserve;
pub mod scalar;
pub mod shared;
pub mod sleep;
pub mod storage;

pub use device::Device;
pub use dtype::{Bool, DType, Element};
pub use error::{Class, Error, Result};
pub use layout::{Dims, Layout};
pub use scalar::Scalar;
pub use storage::Storage;
