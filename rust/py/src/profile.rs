//! The profiler's list of events, as `rushlight.autograd.profiler` reads it.

use pyo3::prelude::*;
use rushlight::profile::{self, Name};

/// A name, the thread's number, beginning and end in nanoseconds, the sizes of the arguments.
type Told = (String, u64, u64, u64, Vec<Vec<isize>>);

/// Starts recording; the time.
#[pyfunction]
fn _profile_start(shapes: bool) -> u64 {
    profile::start(shapes)
}

/// Ends what `_profile_start` began: the events since then, whether each is an operator, and how many were too many.
#[pyfunction]
fn _profile_stop(since: u64) -> (Vec<(Told, bool)>, usize) {
    let taken = profile::stop(since);
    let told = |event: profile::Event| {
        let sizes = event.sizes.iter().map(|sizes| sizes.to_vec()).collect();
        let is_operator = !matches!(event.name, Name::Given(_));
        ((event.name.text(), event.thread, event.start, event.end, sizes), is_operator)
    };
    (taken.events.into_iter().map(told).collect(), taken.dropped)
}

/// The time, if somebody records.
#[pyfunction]
fn _profile_begin() -> Option<u64> {
    profile::begin()
}

/// Records a stretch from `start` till now under a name.
#[pyfunction]
fn _profile_end(start: u64, name: String) {
    profile::end(Some(start), || Name::Given(name), None);
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_profile_start, module)?)?;
    module.add_function(wrap_pyfunction!(_profile_stop, module)?)?;
    module.add_function(wrap_pyfunction!(_profile_begin, module)?)?;
    module.add_function(wrap_pyfunction!(_profile_end, module)?)
}
