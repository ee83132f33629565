//! TunableOp: products are measured by several algorithms, and the fastest is recorded in a file that later runs read.
//!
//! `settings` has what `torch.cuda.tunable` and the variables of the environment say, `results` the records and their files, and
//! `measure` the measurement. Which algorithms there are is known to `cublaslt`.

mod measure;
mod results;
mod settings;

pub use measure::{Trial, fastest};
pub use results::{Entry, Validators, add, all, file, find, note_untuned, read, set_file, take_warning};
pub use settings::{Check, Setting, generation, get, is_enabled, log, numerical_check, rotating_bytes, set, set_check};
