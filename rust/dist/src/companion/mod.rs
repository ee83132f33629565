//! The companion: two processes on each machine of a group that spans several, which connect the group's memory there with the others.
//!
//! A library for MPI may hang or crash when a peer dies, and must not take a trainer with it. So one process, the carrier
//! (`carrier`), calls MPI (`mpi`) to carry bytes between the machines, and another one, the control (`control`), starts
//! it, watches it and the ranks, and talks to the controls of the other machines in lines of text (`line`). Both end with
//! the ranks. `settings` has the settings of a companion.

mod carrier;
mod control;
mod line;
mod mpi;
mod settings;

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rushlight_core::Result;
use rushlight_core::storage::Storage;

use crate::group::Places;
use crate::group::memory::{GroupMemory, SERVING};
use carrier::Carrier;
use control::Control;
use mpi::Mpi;

pub use settings::Settings;

/// Serves the ranks of this machine, and returns when they are gone. `listener` makes this one the hub.
///
/// The process has no other threads.
pub fn run(storage: Storage, places: Places, settings: &Settings, listener: Option<OwnedFd>) -> Result<()> {
    let ranks = places.ranks();
    let memory = GroupMemory::new(storage, ranks, places)?;
    memory.join()?;
    let ready = (|| {
        let listener = listener.map(TcpListener::from);
        if let Some(listener) = &listener {
            listener.set_nonblocking(true)?;
        }
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        Ok((listener, near, far))
    })();
    let (listener, near, far) = match ready {
        Ok(ready) => ready,
        Err(error) => return Err(tell(&memory, &std::io::Error::to_string(&error))),
    };
    // SAFETY: the process has no other threads.
    match unsafe { libc::fork() } {
        -1 => Err(tell(&memory, &std::io::Error::last_os_error().to_string())),
        0 => {
            drop((listener, near));
            let code = match run_carrier(&memory, settings, far) {
                Ok(()) => 0,
                Err(why) => {
                    tell(&memory, &why);
                    1
                }
            };
            // SAFETY: the carrier does not return to the program that it was copied from.
            unsafe { libc::_exit(code) }
        }
        carrier => {
            drop(far);
            Control::new(&memory, settings, carrier, near.into(), listener).serve();
            memory.leave();
            Ok(())
        }
    }
}

/// Ends the group because the companion cannot serve it.
fn tell(memory: &GroupMemory, why: &str) -> rushlight_core::Error {
    let ranks = control::listed(memory, memory.places.own_machine());
    memory.fail(rushlight_core::Error::runtime(format!("the companion of {ranks} failed: {why}")))
}

#[expect(clippy::disallowed_methods, reason = "MPI reads the environment of this process, which has one thread")]
fn run_carrier(memory: &GroupMemory, settings: &Settings, pmi: UnixStream) -> std::result::Result<(), String> {
    let descriptor = std::os::fd::IntoRawFd::into_raw_fd(pmi);
    // SAFETY: the kernel only notes numbers. Short naps need a fine timer.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
    let own = memory.places.own_machine();
    let variables = [("PMI_FD", descriptor as usize), ("PMI_RANK", own), ("PMI_SIZE", memory.places.machines())];
    for (name, value) in variables {
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var(name, value.to_string()) };
    }
    let mpi = Mpi::load(&settings.library)?;
    memory.header().served.store(SERVING, Ordering::Release);
    let served = Carrier::new(memory, mpi).serve();
    if let Err(why) = served {
        tell(memory, &why);
    }
    // The other machines need not see an end of connections before the reason for it.
    while memory.failure().is_some() {
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
