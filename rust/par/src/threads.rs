//! How many threads a loop may use.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The answer, once it is known; zero until then.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// What `set_num_threads` asked for; zero if nobody has.
static REQUESTED: AtomicUsize = AtomicUsize::new(0);
/// How many processes of a group share the machine.
static SHARE: AtomicUsize = AtomicUsize::new(1);

/// The number of threads of a parallel loop, the calling one included.
#[inline]
pub fn num_threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => resolve(),
        known => known,
    }
}

/// Asks for `n` threads from the next loop on. Legal at any time; loops that run finish as they began.
pub fn set_num_threads(n: usize) {
    let n = n.max(1);
    REQUESTED.store(n, Relaxed);
    THREADS.store(n, Relaxed);
}

/// Tells this process that it is one of `processes` that work together: by default each takes its share of the cores.
/// A number that the program or the environment asked for stays.
pub fn set_share(processes: usize) {
    SHARE.store(processes.max(1), Relaxed);
    THREADS.store(REQUESTED.load(Relaxed), Relaxed);
}

#[cold]
fn resolve() -> usize {
    let n = match REQUESTED.load(Relaxed) {
        0 => environment().unwrap_or_else(|| (cores() / SHARE.load(Relaxed)).max(1)),
        requested => requested,
    };
    // Somebody may have set a number meanwhile; that one stands.
    match THREADS.compare_exchange(0, n, Relaxed, Relaxed) {
        Ok(_) => n,
        Err(other) => other,
    }
}

/// Cores that this process may use: the standard library heeds affinity and the quota of cgroup v1 and v2.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn environment() -> Option<usize> {
    ["RUSHLIGHT_NUM_THREADS", "OMP_NUM_THREADS"].into_iter().find_map(|name| parse(&std::env::var(name).ok()?))
}

/// OpenMP allows a list, one number for each level of nesting: the first counts.
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
