//! A thread that gives up calls which take too long, so that no program waits for ever for a rank that has died.

use std::time::Duration;

use rushlight_core::fork::{self, ForkMutex, Rank};
use rushlight_core::sync::{Arc, thread};

use crate::capture;

/// How often the thread looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Calls that are under way.
pub trait Pending: Send + Sync {
    /// Whether the calls need no more attention. Gives up those that take too long.
    fn look_after(&self) -> bool;
}

/// The calls that are under way, and the number of forks before the process whose thread looks after them.
struct Watched {
    works: Vec<Arc<dyn Pending>>,
    thread: Option<u64>,
}

static WATCHED: ForkMutex<Watched> = ForkMutex::new(Rank::Tables, Watched { works: Vec::new(), thread: None });

/// Looks after calls until they are over.
pub fn watch(work: Arc<dyn Pending>) {
    let mut watched = WATCHED.lock();
    watched.works.push(work);
    if watched.thread == Some(fork::generation()) {
        return;
    }
    // Without a thread, calls have no time limit; the next call tries again.
    let started = thread::Builder::new().name("nccl watchdog".into()).spawn(run).is_ok();
    watched.thread = started.then(fork::generation);
}

/// Looks after all calls, until there are none.
fn run() {
    loop {
        thread::sleep(PAUSE);
        let works = WATCHED.lock().works.clone();
        // Another thread may be capturing a graph, which forbids to ask for events otherwise.
        let relaxed = capture::Relaxed::begin();
        let over: Vec<bool> = works.iter().map(|work| work.look_after()).collect();
        drop(relaxed);
        let mut watched = WATCHED.lock();
        // New ones were added at the end.
        let mut over = over.into_iter();
        watched.works.retain(|_| !over.next().unwrap_or(false));
        let done = watched.works.is_empty();
        if done {
            watched.thread = None;
        }
        drop(watched);
        // The last owner of an event or a communicator calls the driver, which is not done while the lock is held.
        drop(works);
        if done {
            return;
        }
    }
}
