//! What the libraries share: the work that they enqueue, and the ranges of memory that it uses.

use std::ffi::c_int;
use std::sync::Arc;

use crate::machine::with;
use crate::status::SUCCESS;
use crate::streams::{Library, Work};

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    Done,
    /// The stream is not one of the device, or memory is not.
    Invalid,
    /// An error has stopped the device.
    Stopped,
}

/// Enqueues a function that uses these ranges of the device's memory, each a first byte and a number of bytes.
pub fn enqueue(
    device: c_int,
    stream: usize,
    ranges: &[(usize, u64)],
    library: Library,
    run: impl Fn() + Send + Sync + 'static,
) -> Enqueued {
    let run: Arc<dyn Fn() + Send + Sync> = Arc::new(run);
    let mut done = Enqueued::Stopped;
    with(|machine| {
        let owned = |&(at, bytes): &(usize, u64)| machine.memory.device_of(at, bytes as usize) == Some(device);
        let valid = ranges.iter().all(owned);
        match machine.streams.find(device, stream) {
            Some(stream) if machine.fault(device) == SUCCESS => {
                done = if valid { Enqueued::Done } else { Enqueued::Invalid };
                if valid {
                    machine.enqueue(stream, Work::Compute(library, Arc::clone(&run)));
                }
            }
            Some(_) => {}
            None => done = Enqueued::Invalid,
        }
        SUCCESS
    });
    done
}
