//! The functions of NCCL, whose documentation describes them.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::CUstream;
use rushlight_core::{Class, DType, Error, Result};

use crate::library::functions;

/// A status (`ncclResult_t`).
pub type Status = c_int;
pub const SUCCESS: Status = 0;
pub const IN_PROGRESS: Status = 7;

/// A communicator of the library.
pub type Handle = *mut c_void;

/// What the ranks of a new communicator share (`ncclUniqueId`).
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

/// `ncclConfig_t` as of version 2.18; later versions accept it.
#[repr(C)]
pub struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    group_size: c_int,
    fewest_blocks: c_int,
    most_blocks: c_int,
    network: *const c_char,
    split_share: c_int,
}

/// The oldest version that takes this configuration.
const OLDEST: c_int = 21800;

/// What a program may choose for a communicator. The library chooses what is not given.
#[derive(Default)]
pub struct Settings {
    /// The priority of its stream.
    pub priority: i32,
    /// How many thread blocks share memory.
    pub group_size: Option<c_int>,
    /// The fewest and the most thread blocks of a call.
    pub fewest_blocks: Option<c_int>,
    pub most_blocks: Option<c_int>,
    /// The name of the network between machines.
    pub network: Option<CString>,
}

impl Config {
    /// Calls return at once, and `ncclCommGetAsyncError` tells when they are done. The settings must outlive the configuration.
    pub fn without_blocking(settings: &Settings) -> Config {
        let undefined = c_int::MIN;
        Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: OLDEST.cast_unsigned(),
            blocking: 0,
            group_size: settings.group_size.unwrap_or(undefined),
            fewest_blocks: settings.fewest_blocks.unwrap_or(undefined),
            most_blocks: settings.most_blocks.unwrap_or(undefined),
            network: settings.network.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
            split_share: undefined,
        }
    }
}

functions! {
    /// The functions that are called.
    pub struct Functions from &["libnccl.so.2"];
    version = c"ncclGetVersion" (*mut c_int);
    unique_id = c"ncclGetUniqueId" (*mut UniqueId);
    begin = c"ncclCommInitRankConfig" (*mut Handle, c_int, UniqueId, c_int, *mut Config);
    finalize = c"ncclCommFinalize" (Handle);
    destroy = c"ncclCommDestroy" (Handle);
    abort = c"ncclCommAbort" (Handle);
    state = c"ncclCommGetAsyncError" (Handle, *mut Status);
    sentence = c"ncclGetErrorString" (Status) -> *const c_char;
    last_error = c"ncclGetLastError" (Handle) -> *const c_char;
    all_reduce = c"ncclAllReduce" (usize, usize, usize, c_int, c_int, Handle, CUstream);
    broadcast = c"ncclBroadcast" (usize, usize, usize, c_int, c_int, Handle, CUstream);
    reduce = c"ncclReduce" (usize, usize, usize, c_int, c_int, c_int, Handle, CUstream);
    all_gather = c"ncclAllGather" (usize, usize, usize, c_int, Handle, CUstream);
    reduce_scatter = c"ncclReduceScatter" (usize, usize, usize, c_int, c_int, Handle, CUstream);
    send = c"ncclSend" (usize, usize, c_int, c_int, Handle, CUstream);
    receive = c"ncclRecv" (usize, usize, c_int, c_int, Handle, CUstream);
    group_start = c"ncclGroupStart" ();
    group_end = c"ncclGroupEnd" ();
}

/// The version as one number: 22703 is 2.27.3. `None` if the library is not installed.
pub fn version() -> Option<i32> {
    let mut version = 0;
    // SAFETY: the pointer is that of a local variable.
    let status = unsafe { (Functions::found()?.version)(&raw mut version) };
    (status == SUCCESS).then_some(version)
}

/// Whether the library is installed and new enough.
pub fn is_available() -> bool {
    version().is_some_and(|version| version >= OLDEST)
}

/// The functions; an error that names the package if they are missing.
pub fn functions() -> Result<&'static Functions> {
    let version = version();
    match Functions::found() {
        Some(functions) if version >= Some(OLDEST) => Ok(functions),
        _ => Err(Error::runtime("Distributed package doesn't have NCCL built in").hint(match version {
            Some(version) => format!(
                "NCCL {} is installed, and rushlight needs {} or later: pip install --upgrade nvidia-nccl-cu13.",
                name_of(version),
                name_of(OLDEST)
            ),
            None => "NVIDIA's library libnccl.so.2 is not installed: pip install nvidia-nccl-cu13.".into(),
        })),
    }
}

fn name_of(version: c_int) -> String {
    format!("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100)
}

/// The version in words, for `python -m rushlight doctor`, and whether it is new enough; `None` if the library is not installed.
pub fn describe() -> Option<(String, bool)> {
    version().map(|version| (name_of(version), version >= OLDEST))
}

/// A new id, for the ranks of one communicator.
pub fn new_id() -> Result<UniqueId> {
    let functions = functions()?;
    let mut id = UniqueId([0; 128]);
    // SAFETY: the pointer is that of a local variable.
    check(unsafe { (functions.unique_id)(&raw mut id) })?;
    Ok(id)
}

/// An error unless a function has succeeded, or goes on in the background.
pub fn check(status: Status) -> Result<()> {
    if status == SUCCESS || status == IN_PROGRESS { Ok(()) } else { Err(failure(status)) }
}

/// The error for a status.
#[cold]
pub fn failure(status: Status) -> Error {
    let Ok(functions) = functions() else { return Error::new(Class::DistBackend, format!("NCCL error: {status}")) };
    // SAFETY: the texts of statuses are constants; that of the last error lives until the next call of this thread.
    let (sentence, last) =
        unsafe { (text((functions.sentence)(status)), text((functions.last_error)(std::ptr::null_mut()))) };
    let error = Error::new(Class::DistBackend, format!("NCCL error: {sentence}"));
    if last.is_empty() { error } else { error.hint(format!("NCCL says: {last}")) }
}

/// A text of the library.
///
/// # Safety
/// The pointer is null or points to a text that ends with a zero.
unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().trim().to_string()
}

/// How NCCL names a dtype (`ncclDataType_t`), and how many of its values are one element. Truth values and float8 are bytes,
/// and a complex number is two floats.
pub fn code_of(dtype: DType) -> Option<(c_int, usize)> {
    Some(match dtype {
        DType::I8 => (0, 1),
        DType::U8 | DType::Bool => (1, 1),
        DType::F8E4M3Fn | DType::F8E5M2 | DType::F8E4M3Fnuz | DType::F8E5M2Fnuz => (1, 1),
        DType::I32 => (2, 1),
        DType::I64 => (4, 1),
        DType::F16 => (6, 1),
        DType::F32 => (7, 1),
        DType::F64 => (8, 1),
        DType::BF16 => (9, 1),
        DType::C64 => (7, 2),
        DType::C128 => (8, 2),
        _ => return None,
    })
}
