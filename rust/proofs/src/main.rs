//! Models of what threads and processes share, tried under every order of their steps.
//!
//! The files that are tried are those of the engine, compiled here once more: `crate::sync` is loom's instead of the standard
//! library's, and the names of other crates lead to this one. What cannot be modelled has a stand-in: rayon's workers, the kernel's
//! futex, memory, files, errors, and a fork. `run` in this folder calls the program and tells which models must fail after which change of the engine.
//!
//!     rushlight-proofs [NAME...]    the models whose names begin so, or all

// Of each file some of the functions are used.
#![allow(dead_code)]

extern crate self as rayon;
extern crate self as rushlight_autograd;
extern crate self as rushlight_core;

#[path = "../../core/src/block.rs"]
mod block;
#[path = "../../core/src/counted.rs"]
mod counted;
#[path = "../../tasks/src/deadlock.rs"]
mod deadlock;
#[path = "../../par/src/denormals.rs"]
mod denormals;
#[path = "../../core/src/device_memory.rs"]
mod device_memory;
#[path = "../../tasks/src/executor.rs"]
mod executor;
#[path = "../../core/src/fork.rs"]
mod fork;
#[path = "../../tasks/src/future.rs"]
mod future;
#[path = "../../par/src/inside.rs"]
mod inside;
#[path = "../../par/src/job.rs"]
mod job;
#[path = "../../autograd/src/lock.rs"]
mod lock;
#[path = "../../par/src/pool.rs"]
mod pool;
#[path = "../../core/src/storage.rs"]
mod storage;

mod alloc;
mod device;
mod error;
mod file_map;
mod futex;
mod limits;
mod model;
mod models;
mod modes;
mod process;
mod shared;
mod sync;
mod workers;

pub use modes::SequenceRange;
pub use workers::{ThreadPool, ThreadPoolBuilder, current_thread_index, spawn};

use std::process::ExitCode;
use std::time::Instant;

use model::Model;

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|start| name.starts_with(start.as_str()));
    let chosen: Vec<&Model> = models::ALL.iter().copied().flatten().filter(|model| is_asked(model.name)).collect();
    if chosen.is_empty() {
        eprintln!("no model has such a name");
        return ExitCode::FAILURE;
    }
    for model in chosen {
        let began = Instant::now();
        let runs = model.check();
        println!("{:<34}{runs:>9} runs {:>7.1} s", model.name, began.elapsed().as_secs_f64());
    }
    ExitCode::SUCCESS
}
