//! Sleeping until a number changes, with the kernel's futex, which a fork cannot leave locked.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `number` is `expected`, at most for `patience`. May wake up spuriously, or by a signal.
pub fn wait(number: &AtomicU32, expected: u32, patience: Duration) {
    let patience = libc::timespec {
        tv_sec: libc::time_t::try_from(patience.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: patience.subsec_nanos() as _,
    };
    // SAFETY: the addresses are those of living values; the kernel only reads them.
    unsafe {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, number.as_ptr(), operation, expected, &raw const patience);
    }
}

/// Wakes up to `count` threads that sleep on `number`.
pub fn wake(number: &AtomicU32, count: i32) {
    // SAFETY: the kernel uses the address only as a key.
    unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, count) };
}
