//! Ranges and marks for tools that watch a program, through the protocol of NVIDIA's Tools Extension (NVTX 3).
//!
//! A tool sets `NVTX_INJECTION64_PATH` to a library of its own. The first call loads it and calls its `InitializeInjectionNvtx2`, to
//! which it passes a function that finds tables. Through them the tool puts the addresses of its functions into our slots. Without a
//! tool all slots stay empty, and a call does nothing. NVIDIA describes the protocol in the headers of NVTX.

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use cudarc::driver::sys;
use once_cell::race::OnceBool;
use rushlight_core::device_memory::StreamId;
use rushlight_core::{Error, Result};

use crate::driver::check;
use crate::{capture, card, stream};

/// What the depth of a range is when no tool counts (`NVTX_NO_PUSH_POP_TRACKING`).
const UNCOUNTED: c_int = -2;
/// The modules of functions, from 1 on, with the number of slots of each: those of the core, for names of CUDA's objects, of
/// OpenCL's, of the runtime's, for domains, and for synchronisation. The slot 0 of each stays empty.
const SIZES: [usize; 7] = [0, 16, 9, 15, 7, 16, 7];
const MOST: usize = 16;
/// The functions of the core that are called here.
const CORE: usize = 1;
const MARK: usize = 2;
const RANGE_START: usize = 5;
const RANGE_END: usize = 7;
const RANGE_PUSH: usize = 9;
const RANGE_POP: usize = 11;

type Slot = AtomicPtr<c_void>;
static SLOTS: [[Slot; MOST]; SIZES.len()] = [const { [const { AtomicPtr::new(null_mut()) }; MOST] }; SIZES.len()];
/// The addresses of the slots, as tools expect them: a null pointer for slot 0, and one behind the last.
static TABLES: [[AtomicPtr<Slot>; MOST + 1]; SIZES.len()] =
    [const { [const { AtomicPtr::new(null_mut()) }; MOST + 1] }; SIZES.len()];

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    size: usize,
    find: unsafe extern "C" fn(c_int, *mut *const AtomicPtr<Slot>, *mut u32) -> c_int,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct Version {
    size: usize,
    version: u32,
    reserved: u32,
    tell: unsafe extern "C" fn(u32),
}

static CALLBACKS: Callbacks = Callbacks { size: size_of::<Callbacks>(), find: find_table };
static VERSION: Version = Version { size: size_of::<Version>(), version: 3, reserved: 0, tell: hear_version };

/// The table of slots of a module.
///
/// # Safety
/// The pointers are null or the addresses of variables.
unsafe extern "C" fn find_table(module: c_int, table: *mut *const AtomicPtr<Slot>, size: *mut u32) -> c_int {
    let Some(module) = usize::try_from(module).ok().filter(|module| (CORE..SIZES.len()).contains(module)) else {
        return 0;
    };
    // SAFETY: guaranteed by the caller.
    unsafe {
        if !size.is_null() {
            *size = SIZES[module] as u32;
        }
        if !table.is_null() {
            *table = TABLES[module].as_ptr();
        }
    }
    1
}

/// # Safety
/// A tool may call it with any number.
unsafe extern "C" fn hear_version(_version: u32) {}

/// The table of an id: the callbacks are 1, and the version is 3.
///
/// # Safety
/// A tool may call it with any number.
unsafe extern "C" fn export(id: u32) -> *const c_void {
    match id {
        1 => (&raw const CALLBACKS).cast(),
        3 => (&raw const VERSION).cast(),
        _ => null(),
    }
}

/// Whether a tool watches. The first call loads it.
fn is_watched() -> bool {
    static LOADED: OnceBool = OnceBool::new();
    static TAKEN: AtomicBool = AtomicBool::new(false);
    LOADED.get().unwrap_or_else(|| {
        // Another thread that comes meanwhile is not watched yet.
        if TAKEN.swap(true, Ordering::AcqRel) {
            return false;
        }
        let watched = std::env::var_os("NVTX_INJECTION64_PATH").is_some_and(load);
        LOADED.get_or_init(|| watched)
    })
}

fn load(path: OsString) -> bool {
    for (module, slots) in SLOTS.iter().enumerate() {
        for (n, slot) in slots.iter().enumerate().take(SIZES[module]).skip(1) {
            TABLES[module][n].store(std::ptr::from_ref(slot).cast_mut(), Ordering::Release);
        }
    }
    let Ok(path) = CString::new(path.into_vec()) else { return false };
    // SAFETY: the user names the library, and NVTX gives the function of this name this type.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY);
        if library.is_null() {
            return false;
        }
        let found = libc::dlsym(library, c"InitializeInjectionNvtx2".as_ptr());
        if found.is_null() {
            return false;
        }
        type Initialize = unsafe extern "C" fn(unsafe extern "C" fn(u32) -> *const c_void) -> c_int;
        std::mem::transmute::<*mut c_void, Initialize>(found)(export) != 0
    }
}

/// A function that the tool has put into a slot of the core.
fn function(slot: usize) -> Option<*mut c_void> {
    if !is_watched() {
        return None;
    }
    let found = SLOTS[CORE][slot].load(Ordering::Acquire);
    (!found.is_null()).then_some(found)
}

/// Calls the function of a slot of the core, whose type the last argument is; without one the result is the second.
macro_rules! call {
    ($slot:expr, $without:expr, ($($argument:expr),*), $kind:ty) => {
        // SAFETY: NVTX gives the function of this slot this type; strings end with a zero byte.
        function($slot).map_or($without, |found| unsafe { std::mem::transmute::<*mut c_void, $kind>(found)($($argument),*) })
    };
}

/// Marks a moment.
pub fn mark(message: &CStr) {
    call!(MARK, (), (message.as_ptr()), unsafe extern "C" fn(*const c_char))
}

/// Begins a range inside of this thread's last one; returns its depth.
pub fn push(message: &CStr) -> i32 {
    call!(RANGE_PUSH, UNCOUNTED, (message.as_ptr()), unsafe extern "C" fn(*const c_char) -> c_int)
}

/// Ends this thread's last range; returns its depth.
pub fn pop() -> i32 {
    call!(RANGE_POP, UNCOUNTED, (), unsafe extern "C" fn() -> c_int)
}

/// Begins a range that any thread may end; returns its number.
pub fn start(message: &CStr) -> u64 {
    call!(RANGE_START, 0, (message.as_ptr()), unsafe extern "C" fn(*const c_char) -> u64)
}

/// Ends the range of a number.
pub fn end(range: u64) {
    call!(RANGE_END, (), (range), unsafe extern "C" fn(u64))
}

/// A range from one moment of a stream's work to another.
pub struct DeviceRange(Arc<(CString, AtomicU64)>);

/// Runs a function of the host in the order of a stream's work.
fn enqueue(device: u8, stream: StreamId, run: sys::CUhostFn, range: &DeviceRange) -> Result<()> {
    card::select(device)?;
    if capture::is_capturing(device, stream) {
        return Err(Error::runtime("a range of a stream's work cannot be recorded in a graph"));
    }
    let shared = Arc::into_raw(range.0.clone());
    // SAFETY: a context is current; the function takes over the count of the range.
    let status = unsafe { sys::cuLaunchHostFunc(stream::handle(stream), run, shared.cast_mut().cast()) };
    // SAFETY: the driver has refused the function, so that the count is still that of `into_raw`.
    check(status).inspect_err(|_| drop(unsafe { Arc::from_raw(shared) }))
}

/// # Safety
/// The pointer is that of `enqueue`, which has given its count away.
unsafe extern "C" fn start_now(range: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    let range = unsafe { Arc::from_raw(range.cast::<(CString, AtomicU64)>()) };
    range.1.store(start(&range.0), Ordering::Release);
}

/// # Safety
/// As of `start_now`.
unsafe extern "C" fn end_now(range: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    let range = unsafe { Arc::from_raw(range.cast::<(CString, AtomicU64)>()) };
    end(range.1.load(Ordering::Acquire));
}

impl DeviceRange {
    /// Begins a range once the work of a stream so far has run.
    pub fn start(message: CString, device: u8, stream: StreamId) -> Result<DeviceRange> {
        let range = DeviceRange(Arc::new((message, AtomicU64::new(0))));
        enqueue(device, stream, Some(start_now), &range)?;
        Ok(range)
    }

    /// Ends it once the work of a stream so far has run.
    pub fn end(&self, device: u8, stream: StreamId) -> Result<()> {
        enqueue(device, stream, Some(end_now), self)
    }
}

/// How many `emit_nvtx` there are.
static EMITTERS: AtomicUsize = AtomicUsize::new(0);

/// Begins or ends to make a range of each operator.
pub fn emit(begins: bool) {
    if begins {
        EMITTERS.fetch_add(1, Ordering::Relaxed);
    } else {
        EMITTERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A range of an operator, which ends when this is dropped.
pub struct Emitted;

impl Emitted {
    /// Begins a range if operators have ranges now.
    pub fn begin(message: impl FnOnce() -> String) -> Option<Emitted> {
        if EMITTERS.load(Ordering::Relaxed) == 0 {
            return None;
        }
        push(&CString::new(message()).unwrap_or_default());
        Some(Emitted)
    }
}

impl Drop for Emitted {
    fn drop(&mut self) {
        pop();
    }
}
