//! Sleeping until a number changes, with the kernel's futex, which a fork cannot leave locked.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `number` is `expected`, at most for `patience`. May wake up spuriously, or by a signal.
pub fn wait(number: &AtomicU32, expected: u32, patience: Duration) {
    sleep(number, expected, patience, libc::FUTEX_PRIVATE_FLAG);
}

/// Wakes up to `count` threads that sleep on `number`.
pub fn wake(number: &AtomicU32, count: i32) {
    rouse(number, count, libc::FUTEX_PRIVATE_FLAG);
}

/// As `wait`, for a number in memory that several processes share.
pub fn wait_shared(number: &AtomicU32, expected: u32, patience: Duration) {
    sleep(number, expected, patience, 0);
}

/// As `wake`, for threads of every process that shares the number's memory.
pub fn wake_shared(number: &AtomicU32, count: i32) {
    rouse(number, count, 0);
}

fn sleep(number: &AtomicU32, expected: u32, patience: Duration, flag: libc::c_int) {
    let patience = libc::timespec {
        tv_sec: libc::time_t::try_from(patience.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: patience.subsec_nanos() as _,
    };
    let operation = libc::FUTEX_WAIT | flag;
    // SAFETY: the addresses are those of living values; the kernel only reads them.
    unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), operation, expected, &raw const patience) };
}

fn rouse(number: &AtomicU32, count: i32, flag: libc::c_int) {
    // SAFETY: the kernel uses the address only as a key.
    unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), libc::FUTEX_WAKE | flag, count) };
}
