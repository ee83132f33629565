//! A card made of software, for tests: a shared library in place of `libcuda.so.1`, `libnvrtc.so`, `libcublasLt.so`,
//! `libcublas.so`, `libcudnn.so`, `libcufft.so`, `libcusolver.so`, `libnccl.so.2` and `libnvidia-ml.so.1`. It is also a tool that
//! `NVTX_INJECTION64_PATH` may name.
//!
//! The dynamic loader finds it through `LD_LIBRARY_PATH`, so that the same program runs on it and on a card. `make softcuda` puts
//! it into a folder of cargo's output under these names. It is not part of the installed package.
//!
//! - `driver`, `nvrtc`, `cublaslt`, `cudnn`, `cudnn_rnn`, `cufft`, `cusolver`, `nccl` and `nvml` are the entry points of these libraries. Those
//!   that rushlight does not call are absent. `nvtx` writes down the ranges of a program.
//! - `counters` is what tests ask of it.
//! - `machine` is the state: devices, their contexts, faults; `status` has the statuses of functions.
//! - `memory` gives out memory between pages that may not be touched. Freed memory may not be touched either.
//! - `streams` are queues. `schedule` runs their work late: when something waits for it, or at random moments.
//! - `graphs` records work for graphs, whose entry points are in `graph_calls`; `green` makes streams of a part of a device.
//! - `modules` loads kernels. CUDA C++ is compiled as host C++ over `host.h`, where the threads of a block are fibres, with the
//!   compiler's checks of alignments and of indices of arrays.
//! - `products` multiplies matrices for `cublaslt`, `convolutions` convolves for `cudnn`, `networks` runs recurrent networks for `cudnn_rnn` and
//!   keeps what their gradients need in a `reserve`, `factors` factorises matrices for `cusolver`, whose arguments `cusolver_calls` has.
//!   `dtype` has their dtypes, and `library` enqueues what they compute.
//! - `exchange` moves memory between processes for `nccl`, through `shared_memory`, and `reductions` reduces it.
//!
//! What it does not model: the order in which threads see each other's writes, and work that truly runs at the same time.
//!
//! | variable | meaning |
//! |---|---|
//! | `SOFTCUDA_DEVICES` | the number of devices, 1 by default; `CUDA_VISIBLE_DEVICES` applies as usual |
//! | `SOFTCUDA_MEMORY` | the bytes of memory of each device, 1 GiB by default |
//! | `SOFTCUDA_VERSION` | the version of CUDA that the driver reports, 13000 by default |
//! | `SOFTCUDA_BLAS_VERSION` | the version of cuBLASLt, 130000 by default |
//! | `SOFTCUDA_BLAS_ALGORITHMS` | the algorithms of products, by what they do: see `cublaslt` |
//! | `SOFTCUDA_DNN_VERSION` | the version of cuDNN, 90000 by default |
//! | `SOFTCUDA_DNN_REFUSES` | what cuDNN does not support: "algorithms", "networks" or "calls", nothing by default |
//! | `SOFTCUDA_NCCL_VERSION` | the version of NCCL, 22703 by default |
//! | `SOFTCUDA_NVTX` | a file that gets a line for each mark and range of NVTX |
//! | `SOFTCUDA_SEED` | the order of threads and the moments at which work runs; 0 runs work as late as possible |
//! | `SOFTCUDA_CXX` | the C++ compiler, `c++` by default |

/// Defines entry points of a library. Pointers are valid as the library's documentation requires of its callers.
macro_rules! entries {
    ($($name:ident($($parameter:ident: $kind:ty),*) $body:block)*) => {
        $(#[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($parameter: $kind),*) -> Status {
            // SAFETY: callers pass valid pointers, as the library requires.
            #[allow(unused_unsafe)]
            unsafe { $body }
        })*
    };
}

mod convolutions;
mod counters;
mod cublaslt;
mod cudnn;
mod cudnn_rnn;
mod cufft;
mod cusolver;
mod cusolver_calls;
mod driver;
mod dtype;
mod exchange;
mod factors;
mod graph_calls;
mod graphs;
mod green;
mod library;
mod machine;
mod memory;
mod modules;
mod nccl;
mod networks;
mod nvml;
mod nvrtc;
mod nvtx;
mod products;
mod reductions;
mod reserve;
mod schedule;
mod shared_memory;
mod status;
mod streams;
