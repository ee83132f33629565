//! CUDA devices. The driver and the compiler of kernels are loaded at run time: nothing is linked, and neither is required.
//!
//! - `driver` finds the driver and makes errors of its statuses.
//! - `card` is a device: its context and properties, and the current device of a thread.
//! - `stream` has streams and events, and the current stream of a thread.
//! - `allocator` divides memory into blocks and keeps freed ones, `statistics` counts them; `memory` is the memory of a tensor.
//! - `pinned` is page-locked memory of the host; `ipc` is memory of devices that several processes use, `sent` what this one has sent.
//! - `graph` records work and enqueues it again; `capture` tells whether work is being recorded, `replayed` has its random numbers.
//! - `profile` measures how long kernels and copies run.
//! - `library` finds NVIDIA's other libraries.
//! - `program` compiles the source of a kernel and keeps the result, in memory and on disk.
//! - `blas` gives products of matrices to cuBLASLt, where it is installed, and `dnn` convolutions to cuDNN.
//! - `copy`, `elementwise`, `reduce`, `matmul`, `indexed`, `lines`, `order`, `random`, `batch_norm` and `optimizer` enqueue work. They return
//!   before it has run.
//! - `kernels` has the sources of device functions.
//!
//! No operation waits for the device unless its result is needed on the host.

pub mod allocator;
pub mod batch_norm;
pub mod blas;
pub mod capture;
pub mod card;
pub mod copy;
pub mod dnn;
pub mod driver;
pub mod elementwise;
pub mod graph;
pub mod indexed;
pub mod ipc;
pub mod kernels;
pub mod launch;
pub mod library;
pub mod lines;
pub mod matmul;
pub mod memory;
pub mod optimizer;
pub mod order;
pub mod pinned;
pub mod profile;
pub mod program;
pub mod random;
pub mod reduce;
pub mod replayed;
pub mod sent;
pub mod statistics;
pub mod stream;

pub use driver::device_count;
