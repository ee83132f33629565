//! CUDA devices. The driver and the compiler of kernels are loaded at run time: nothing is linked, and neither is required.
//!
//! - `driver` finds the driver and makes errors of its statuses.
//! - `card` is a device: its context and properties, and the current device of a thread.
//! - `runtime` has functions of the CUDA runtime, for programs that call them.
//! - `stream` has streams and events, and the current stream of a thread; `interruptible` waits for them as long as the program wants; `green` has those whose work runs on a part of a device.
//! - `allocator` divides memory into blocks and keeps freed ones, `statistics` counts them; `memory` has an allocator for each device,
//!   `storage` is the memory of a tensor or of a library's call; `mem_pool` is a pool that a program makes, `user_allocator` functions
//!   of a program in place of the driver; `history` records what was allocated and freed, `settings` are those of torch's variable,
//!   `out_of_memory` is the error; `trace` tells a program of blocks that come and go.
//! - `pinned` is page-locked memory of the host; `ipc` is memory of devices that several processes use, `sent` what this one has sent.
//! - `graph` records work and enqueues it again; `capture` tells whether work is being recorded, and for which graph, `replayed` has its random numbers,
//!   `conditional` work that a value of the device permits; `nodes` lists what was recorded.
//! - `profile` measures how long kernels and copies run; `nvtx` tells tools of other makers what the program does, `nvml` how busy
//!   devices are.
//! - `library` finds NVIDIA's other libraries, and their functions.
//! - `program` compiles the source of a kernel and keeps the result, in memory and on disk; `launch` launches it; `user_kernel` launches those of programs.
//! - `cublaslt`, `cudnn`, `cufft` and `cusolver` call the libraries of these names, where they are installed: for products of matrices,
//!   convolutions and recurrent networks, transforms, and factorisations. `tunable` measures and records algorithms of products.
//! - `nccl` exchanges tensors with the devices of other processes, where NCCL is installed; `failures` are its calls that were given up.
//! - `copy`, `elementwise`, `reduce`, `cumulative`, `softmax`, `normalize`, `matmul`, `convolution`, `indexed`, `nonzero`, `order`,
//!   `search`, `unique`, `counts`, `frexp`, `nll`, `ctc`, `distance`, `pool`, `ranges`, `mix`, `taps`, `fold`, `attention`,
//!   `recurrent`, `random`, `rejection` and `optimizer` enqueue work. They return before it has run.
//! - `kernels` has the sources of device functions.
//!
//! No operation waits for the device unless its result is needed on the host.

pub mod allocator;
pub mod attention;
pub mod capture;
pub mod card;
pub mod conditional;
pub mod convolution;
pub mod copy;
pub mod counts;
pub mod ctc;
pub mod cublaslt;
pub mod cudnn;
pub mod cufft;
pub mod cumulative;
pub mod cusolver;
pub mod distance;
pub mod driver;
pub mod elementwise;
pub mod failures;
pub mod fold;
pub mod frexp;
pub mod graph;
pub mod green;
pub mod history;
pub mod indexed;
pub mod interruptible;
pub mod ipc;
pub mod kernels;
pub mod launch;
pub mod library;
pub mod matmul;
pub mod mem_pool;
pub mod memory;
pub mod mix;
pub mod nccl;
pub mod nll;
pub mod nodes;
pub mod nonzero;
pub mod normalize;
pub mod nvml;
pub mod nvtx;
pub mod optimizer;
pub mod order;
mod out_of_memory;
pub mod pinned;
pub mod pool;
pub mod profile;
pub mod program;
pub mod random;
pub mod ranges;
pub mod recurrent;
pub mod reduce;
pub mod rejection;
pub mod replayed;
pub mod runtime;
pub mod search;
pub mod sent;
pub mod settings;
pub mod softmax;
pub mod statistics;
pub mod storage;
pub mod stream;
pub mod taps;
pub mod trace;
pub mod tunable;
pub mod unique;
pub mod user_allocator;
pub mod user_kernel;

pub use driver::device_count;
