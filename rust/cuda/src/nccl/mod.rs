//! Exchange of tensors between devices by NVIDIA's library NCCL, which is loaded at run time.
//!
//! - `functions` is the library: its functions, and its statuses as errors.
//! - `communicator` is one rank's part of some ranks that exchange tensors, with a stream of its own.
//! - `watchdog` is a thread that gives up calls which take too long.

pub mod communicator;
pub mod functions;
mod watchdog;
