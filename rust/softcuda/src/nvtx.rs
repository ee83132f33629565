//! A tool of NVTX, which writes a line for each mark and range to a file.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

type Slot = *mut *const c_void;
type Find = unsafe extern "C" fn(c_int, *mut *const Slot, *mut u32) -> c_int;

#[repr(C)]
struct Callbacks {
    size: usize,
    find: Find,
}

thread_local! {
    static DEPTH: Cell<c_int> = const { Cell::new(0) };
}

fn note(line: &str) {
    let Some(path) = std::env::var_os("SOFTCUDA_NVTX") else { return };
    if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
        let _ = writeln!(file, "{line}");
    }
}

/// # Safety
/// `message` is a string of C.
unsafe fn text(message: *const c_char) -> String {
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn mark(message: *const c_char) {
    // SAFETY: programs pass strings.
    note(&format!("mark {}", unsafe { text(message) }));
}

unsafe extern "C" fn push(message: *const c_char) -> c_int {
    // SAFETY: as above.
    note(&format!("push {}", unsafe { text(message) }));
    DEPTH.replace(DEPTH.get() + 1)
}

unsafe extern "C" fn pop() -> c_int {
    note("pop");
    DEPTH.set(DEPTH.get() - 1);
    DEPTH.get()
}

unsafe extern "C" fn start(message: *const c_char) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    // SAFETY: as above.
    note(&format!("start {number} {}", unsafe { text(message) }));
    number
}

unsafe extern "C" fn end(range: u64) {
    note(&format!("end {range}"));
}

/// What a program calls when it loads the tool; `tables` finds its tables.
///
/// # Safety
/// NVTX calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(tables: unsafe extern "C" fn(u32) -> *const c_void) -> c_int {
    let (mut slots, mut size) = (std::ptr::null(), 0);
    // SAFETY: the tables are those of NVTX: one of callbacks, which finds the slots of the core's functions.
    unsafe {
        let Some(callbacks) = tables(1).cast::<Callbacks>().as_ref() else { return 0 };
        let core = 1;
        if callbacks.size < size_of::<Callbacks>()
            || (callbacks.find)(core, &raw mut slots, &raw mut size) == 0
            || size < 12
        {
            return 0;
        }
        for (slot, function) in [
            (2, mark as *const c_void),
            (5, start as *const c_void),
            (7, end as *const c_void),
            (9, push as *const c_void),
            (11, pop as *const c_void),
        ] {
            **slots.add(slot) = function;
        }
    }
    1
}
