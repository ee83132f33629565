//! What the libraries share: the work that they enqueue, and the ranges of memory that it uses.

use std::ffi::c_int;
use std::sync::Arc;

use crate::machine::{Machine, with};
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

/// Runs a function on a stream of a device, unless an error has stopped the device.
pub fn on_stream(device: c_int, stream: usize, mut run: impl FnMut(&mut Machine, usize)) -> Enqueued {
    let mut done = Enqueued::Invalid;
    with(|machine| {
        let Some(stream) = machine.streams.find(device, stream) else { return SUCCESS };
        done = Enqueued::Stopped;
        if machine.fault(device) == SUCCESS {
            done = Enqueued::Done;
            run(machine, stream);
        }
        SUCCESS
    });
    done
}

/// Enqueues a function that uses these ranges of the device's memory, each a first byte and a number of bytes.
pub fn enqueue(
    device: c_int,
    stream: usize,
    ranges: &[(usize, u64)],
    library: Library,
    run: impl Fn() + Send + Sync + 'static,
) -> Enqueued {
    let run: Arc<dyn Fn() -> Result<(), &'static str> + Send + Sync> = Arc::new(move || {
        run();
        Ok(())
    });
    let mut valid = true;
    let done = on_stream(device, stream, |machine, stream| {
        let owned = |&(at, bytes): &(usize, u64)| machine.memory.device_of(at, bytes as usize) == Some(device);
        valid = ranges.iter().all(owned);
        if valid {
            machine.enqueue(stream, Work::Compute(library, Arc::clone(&run)));
        }
    });
    if valid { done } else { Enqueued::Invalid }
}
