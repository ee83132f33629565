//! CUDA, found at run time: nothing is linked, and a machine without a driver is an ordinary machine.
//!
//! `driver` opens NVIDIA's driver library and asks how many cards there are. Kernels come with it: rows carry their CUDA
//! text, and one without it says so in its error.

pub mod driver;

pub use driver::{device_count, is_available};
