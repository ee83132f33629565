//! Calls of functions that may throw C++ exceptions, which Rust cannot catch itself.
//!
//! The call is made by a few instructions whose frame has a personality routine of its own: told of an exception, it ends the
//! unwinding there, and the exception is the result. What it says is read through functions of the C++ library
//! (the Itanium C++ ABI).

use std::ffi::{CStr, c_char, c_void};

use rushlight_core::{Class, Error};

/// What a function threw.
pub struct Thrown {
    /// As pybind11 translates C++'s classes.
    pub class: Class,
    pub text: String,
}

impl From<Thrown> for Error {
    fn from(thrown: Thrown) -> Error {
        Error::new(thrown.class, thrown.text)
    }
}

#[cfg(target_arch = "x86_64")]
mod guarded {
    use std::ffi::{c_int, c_void};

    std::arch::global_asm!(
        ".pushsection .text.rushlight_stable_call,\"ax\",@progbits",
        ".p2align 4",
        ".hidden rushlight_stable_call",
        ".globl rushlight_stable_call",
        ".type rushlight_stable_call,@function",
        "rushlight_stable_call:",
        ".cfi_startproc",
        // The personality routine's address, relative to this table.
        ".cfi_personality 0x1b, {personality}",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "call rax",
        "xor eax, eax",
        // An exception arrives here as the result, with the frame as it was at the call.
        ".hidden rushlight_stable_landing",
        ".globl rushlight_stable_landing",
        "rushlight_stable_landing:",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        ".size rushlight_stable_call, .-rushlight_stable_call",
        ".popsection",
        personality = sym personality,
    );

    unsafe extern "C" {
        pub fn rushlight_stable_call(function: *const c_void, first: u64, second: u64, third: u64) -> *mut c_void;
        fn rushlight_stable_landing();
        fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
        fn _Unwind_SetIP(context: *mut c_void, address: usize);
    }

    const SEARCH: c_int = 1;
    const IN_HANDLER: c_int = 4;
    const HANDLER_FOUND: c_int = 6;
    const INSTALL_CONTEXT: c_int = 7;
    const CONTINUE_UNWIND: c_int = 8;

    /// Asked by the unwinder about the frame of the call: catches everything but the end of the thread.
    ///
    /// # Safety
    /// Only the unwinder calls it, with the exception and the context of the frame.
    unsafe extern "C" fn personality(
        _version: c_int,
        actions: c_int,
        _class: u64,
        exception: *mut c_void,
        context: *mut c_void,
    ) -> c_int {
        if actions & SEARCH != 0 {
            return HANDLER_FOUND;
        }
        if actions & IN_HANDLER == 0 {
            return CONTINUE_UNWIND;
        }
        // SAFETY: the unwinder's context; register 0 is that of results.
        unsafe {
            _Unwind_SetGR(context, 0, exception.expose_provenance());
            _Unwind_SetIP(context, rushlight_stable_landing as *const () as usize);
        }
        INSTALL_CONTEXT
    }
}

/// Whether functions of libraries can be called on this processor.
pub const SUPPORTED: bool = cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"));

/// Calls a function of a library with three arguments.
///
/// # Safety
/// The function takes these arguments, and no result of it is needed.
pub unsafe fn call_guarded(function: *const c_void, first: u64, second: u64, third: u64) -> Result<(), Thrown> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: guaranteed by the caller.
        let exception = unsafe { guarded::rushlight_stable_call(function, first, second, third) };
        if exception.is_null() {
            return Ok(());
        }
        // SAFETY: what a function threw, handled once.
        Err(unsafe { caught(exception) })
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (function, first, second, third);
        unreachable!("no library is loaded on this processor")
    }
}

/// The classes of the C++ library that stand for another class than RuntimeError, the derived ones first.
const KINDS: [(&CStr, Class); 7] = [
    (c"_ZTISt9bad_alloc", Class::Memory),
    (c"_ZTISt12domain_error", Class::Value),
    (c"_ZTISt16invalid_argument", Class::Value),
    (c"_ZTISt12length_error", Class::Value),
    (c"_ZTISt12out_of_range", Class::Index),
    (c"_ZTISt11range_error", Class::Value),
    (c"_ZTISt14overflow_error", Class::Overflow),
];

/// The class of exceptions that C++ compilers of GNU's ABI throw. Those that `std::rethrow_exception` throws have another.
const PRIMARY: u64 = u64::from_be_bytes(*b"GNUCC++\0");
/// The bytes of the unwinder's header, which the thrown object follows.
const HEADER: usize = 32;

/// Ends the handling of an exception and returns what it says.
///
/// # Safety
/// The exception is one that `rushlight_stable_call` returned, handled once.
unsafe fn caught(exception: *mut c_void) -> Thrown {
    // SAFETY: a name of the C++ library, if it is loaded, which it is if anything was thrown.
    let library = unsafe { libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    let find = |name: &CStr| {
        // SAFETY: a loaded library, or null for a search in all that are global.
        unsafe { libc::dlsym(library, name.as_ptr()) }
    };
    let unknown =
        || Thrown { class: Class::Runtime, text: "a library threw an exception that is no std::exception".into() };
    let names = [
        c"__cxa_begin_catch",
        c"__cxa_end_catch",
        c"__cxa_current_exception_type",
        c"_ZNK10__cxxabiv117__class_type_info10__do_catchEPKSt9type_infoPPvj",
        c"_ZTISt9exception",
    ];
    let [begin, end, kind, matches, base] = names.map(find);
    if [begin, end, kind, matches, base].iter().any(|function| function.is_null()) {
        return unknown();
    }
    // SAFETY: the types of these functions in the Itanium C++ ABI and in libstdc++.
    unsafe {
        let begin: unsafe extern "C" fn(*mut c_void) = std::mem::transmute(begin);
        let end: unsafe extern "C" fn() = std::mem::transmute(end);
        let kind: unsafe extern "C" fn() -> *const c_void = std::mem::transmute(kind);
        type Matches = unsafe extern "C" fn(*const c_void, *const c_void, *mut *mut c_void, u32) -> bool;
        let matches: Matches = std::mem::transmute(matches);
        let is_primary = exception.cast::<u64>().read() == PRIMARY;
        begin(exception);
        let thrown_kind = if is_primary { kind() } else { std::ptr::null() };
        let object = exception.wrapping_byte_add(HEADER);
        // The object as one of a class, if it is one.
        let as_one_of = |class: *mut c_void| {
            let mut found = object;
            let is_one = !class.is_null() && !thrown_kind.is_null() && matches(class, thrown_kind, &raw mut found, 1);
            is_one.then_some(found)
        };
        let thrown = match as_one_of(base) {
            None => unknown(),
            Some(standard) => {
                // The third virtual function of std::exception, behind two destructors, is `what`.
                let table = standard.cast::<*const unsafe extern "C" fn(*mut c_void) -> *const c_char>().read();
                let text = CStr::from_ptr((*table.add(2))(standard)).to_string_lossy().into_owned();
                let class = KINDS.iter().find(|(name, _)| as_one_of(find(name)).is_some());
                Thrown { class: class.map_or(Class::Runtime, |(_, class)| *class), text }
            }
        };
        end();
        thrown
    }
}
