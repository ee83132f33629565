//! How many threads a loop may use.

use std::num::NonZeroUsize;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use once_cell::race::{OnceBox, OnceNonZeroUsize};

/// The upper limit of the number of threads, regardless of the requested number.
const MOST: usize = 1 << 10;

/// The number of threads, once it is known; zero until then.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// The number given to `set_num_threads`; zero if it was not called.
static REQUESTED: AtomicUsize = AtomicUsize::new(0);
/// A counter in shared memory of the processes that work together, which the parent process writes; null outside a
/// group.
static GROUP: AtomicPtr<AtomicUsize> = AtomicPtr::new(ptr::null_mut());

/// The number of threads of a parallel loop, the calling one included.
#[inline]
pub fn num_threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => resolve(),
        known => known,
    }
}

/// Sets the number of threads for the loops that follow. It may be called at any time; loops that run finish as they
/// began.
pub fn set_num_threads(n: usize) {
    let n = n.clamp(1, MOST);
    REQUESTED.store(n, Relaxed);
    THREADS.store(n, Relaxed);
}

/// Declares this process as one of `members` processes that work together: by default each takes its share of the
/// cores. A number set by the program or the environment is kept.
pub fn set_group(members: &'static AtomicUsize) {
    GROUP.store(ptr::from_ref(members).cast_mut(), Relaxed);
    THREADS.store(REQUESTED.load(Relaxed), Relaxed);
}

/// Resets the number of threads to the default.
#[cfg(test)]
pub(crate) fn forget_request() {
    REQUESTED.store(0, Relaxed);
    THREADS.store(0, Relaxed);
}

#[cold]
fn resolve() -> usize {
    static ENVIRONMENT: OnceBox<Option<usize>> = OnceBox::new();
    static CORES: OnceNonZeroUsize = OnceNonZeroUsize::new();
    let asked = match REQUESTED.load(Relaxed) {
        0 => *ENVIRONMENT.get_or_init(|| Box::new(environment())),
        requested => Some(requested),
    };
    let cores = CORES.get_or_init(cores).get();
    // SAFETY: null, or a `'static` reference given to `set_group`.
    let n = match (asked, unsafe { GROUP.load(Relaxed).as_ref() }) {
        (Some(n), _) => n.min(MOST),
        // Read each time, because the members change.
        (None, Some(members)) => return (cores / members.load(Relaxed).max(1)).max(1),
        (None, None) => cores,
    };
    // A number that was set meanwhile is kept.
    match THREADS.compare_exchange(0, n, Relaxed, Relaxed) {
        Ok(_) => n,
        Err(other) => other,
    }
}

/// The cores that this process may use: the standard library respects affinity and the quota of cgroup v1 and v2.
pub fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn environment() -> Option<usize> {
    ["RUSHLIGHT_NUM_THREADS", "OMP_NUM_THREADS"].into_iter().find_map(|name| parse(&std::env::var(name).ok()?))
}

/// OpenMP allows a list, one number for each level of nesting; the first one is used.
fn parse(text: &str) -> Option<usize> {
    text.split(',').next()?.trim().parse().ok().filter(|&n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn environment_values() {
        assert_eq!(parse("4"), Some(4));
        assert_eq!(parse(" 3 ,2"), Some(3));
        assert_eq!(parse("0"), None);
        assert_eq!(parse("many"), None);
    }
}
