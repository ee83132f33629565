//! The profiler's list of events, as `rushlight.autograd.profiler` reads it.

use pyo3::prelude::*;
use rushlight_core::Device;
use rushlight_core::memory_record::{Change, Moment};
use rushlight_cuda::nvtx::Emitted;
use rushlight_cuda::profile::Interval;
use rushlight_dispatch::profile;
use rushlight_dispatch::profile::Name;

/// A name, the thread's number, beginning and end in nanoseconds, the sizes of the arguments and of the first result, and the number of
/// the node that it may have recorded, or that ran.
type PyEvent = (String, u64, u64, u64, Vec<Vec<isize>>, Vec<isize>, Option<u64>);

/// A time, a thread, the number of the device (none for the host), an address, the bytes, and the sums of allocated and reserved ones.
type PyMemoryEvent = (u64, u64, Option<u8>, usize, isize, usize, usize);

/// A name, the number of the device, the handle of the stream, the thread and the time at which the work was enqueued, and its beginning
/// and end.
type PyDeviceEvent = (&'static str, u8, usize, u64, u64, u64, u64);

/// Starts recording, work of devices and memory too if asked; returns the time.
#[pyfunction]
fn _profile_start(shapes: bool, devices: bool, memory: bool) -> u64 {
    if devices {
        rushlight_cuda::profile::start(profile::moment);
    }
    profile::start(shapes, memory)
}

/// The time and the thread's number, in the clock of events.
#[pyfunction]
fn _profile_moment() -> (u64, u64) {
    let Moment { time, thread } = profile::moment();
    (time, thread)
}

/// Ends the record of memory that `_profile_start` began: the changes since then, and how many were dropped.
#[pyfunction]
fn _profile_stop_memory(since: u64) -> (Vec<PyMemoryEvent>, usize) {
    let changes = profile::stop_memory(since);
    let row = |one: Change| {
        let device = if let Device::Cuda(index) = one.device { Some(index) } else { None };
        let Moment { time, thread } = one.moment;
        (time, thread, device, one.address, one.bytes, one.allocated, one.reserved)
    };
    (changes.list.into_iter().map(row).collect(), changes.dropped)
}

/// Ends the recording of devices that `_profile_start` began: their work since then, after it has run.
#[pyfunction]
fn _profile_stop_devices(py: Python<'_>, since: u64) -> Vec<PyDeviceEvent> {
    let row = |one: Interval| {
        (one.name, one.device, one.stream.0, one.enqueued.thread, one.enqueued.time, one.start, one.end)
    };
    py.detach(|| rushlight_cuda::profile::stop(since)).into_iter().map(row).collect()
}

/// Ends the recording that `_profile_start` began: the events since then, what each is (an operator is 0, a node of a backward pass 1, a
/// range of the program 2), and how many were dropped.
#[pyfunction]
fn _profile_stop(since: u64) -> (Vec<(PyEvent, u8)>, usize) {
    let taken = profile::stop(since);
    let row = |event: profile::Event| {
        let sizes = event.sizes.iter().map(|sizes| sizes.to_vec()).collect();
        let kind = match event.name {
            Name::Operator { .. } => 0,
            Name::Node(_) => 1,
            Name::Given(_) => 2,
        };
        let result = event.result.to_vec();
        ((event.name.text(), event.thread, event.start, event.end, sizes, result, event.sequence), kind)
    };
    (taken.events.into_iter().map(row).collect(), taken.dropped)
}

/// Whether calls are recorded, or ranges of NVIDIA's profilers.
#[pyfunction]
fn _profile_is_on() -> bool {
    profile::is_on()
}

/// Begins an interval, if a recording is active: its start, and whether it is a range of NVIDIA's profilers too.
#[pyfunction]
fn _profile_begin(name: &str) -> Option<(u64, bool)> {
    let start = profile::begin()?;
    // `_profile_end` ends the range.
    Some((start, Emitted::begin(|| name.into()).map(std::mem::forget).is_some()))
}

/// Records the interval of `_profile_begin` from its start to now under a name.
#[pyfunction]
fn _profile_end(began: (u64, bool), name: String) {
    let (start, is_range) = began;
    if is_range {
        drop(Emitted);
    }
    profile::end(Some(start), || Name::Given(name));
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_profile_start, module)?)?;
    module.add_function(wrap_pyfunction!(_profile_stop, module)?)?;
    module.add_function(wrap_pyfunction!(_profile_stop_devices, module)?)?;
    module.add_function(wrap_pyfunction!(_profile_stop_memory, module)?)?;
    module.add_function(wrap_pyfunction!(_profile_moment, module)?)?;
    module.add_function(wrap_pyfunction!(_profile_is_on, module)?)?;
    module.add_function(wrap_pyfunction!(_profile_begin, module)?)?;
    module.add_function(wrap_pyfunction!(_profile_end, module)?)
}
