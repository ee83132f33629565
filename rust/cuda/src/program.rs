//! Kernels: compiled by NVRTC from their source, and kept in memory and on disk.
//!
//! The name of a file in the cache is a hash of everything that decides its content: source, headers, options, architecture and
//! the compiler's version. A file is written under another name and renamed, so that processes may share the cache.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::{self, CUfunction, CUmodule};
use cudarc::nvrtc::sys as nvrtc;
use once_cell::race::OnceBool;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{Error, Result};

use crate::card::Card;
use crate::driver::check;
use crate::kernels::HEADERS;
use crate::library;

const CODES: usize = 8;

/// What a program computes, and the types and variants that it is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    name: &'static str,
    codes: [u8; CODES],
}

impl Key {
    /// The codes have an order of their own for each name; there are at most eight.
    pub fn new(name: &'static str, codes: impl IntoIterator<Item = u8>) -> Key {
        let mut key = Key { name, codes: [0; CODES] };
        for (n, code) in codes.into_iter().enumerate() {
            key.codes[n] = code;
        }
        key
    }
}

/// The functions of a loaded program, as many as it has kernels.
#[derive(Clone, Copy)]
pub struct Program {
    name: &'static str,
    functions: [CUfunction; KERNELS],
}

/// A kernel, and what its program computes.
#[derive(Clone, Copy)]
pub struct Kernel {
    pub name: &'static str,
    pub function: CUfunction,
}

/// The most kernels of a program.
const KERNELS: usize = 6;

// SAFETY: functions of a module that is never unloaded may be launched by any thread.
unsafe impl Send for Program {}

static PROGRAMS: ForkMutex<BTreeMap<(u8, Key), Program>> = ForkMutex::new(Rank::Tables, BTreeMap::new());

impl Program {
    /// The program of a key on a device; `text` writes its source when it is needed first. `kernels` are the names of its
    /// functions.
    pub fn find(card: &Card, key: Key, kernels: &[&CStr], text: impl FnOnce() -> String) -> Result<Program> {
        let mut programs = PROGRAMS.lock();
        if let Some(program) = programs.get(&(card.index, key)) {
            return Ok(*program);
        }
        let module = load(&text(), &options(card))?;
        let mut functions = [std::ptr::null_mut(); KERNELS];
        for (function, name) in functions.iter_mut().zip(kernels) {
            // SAFETY: a context is current, and the module was just loaded.
            check(unsafe { sys::cuModuleGetFunction(function, module, name.as_ptr()) })?;
        }
        let program = Program { name: key.name, functions };
        programs.insert((card.index, key), program);
        Ok(program)
    }

    /// A kernel by its index among the names.
    pub fn kernel(&self, index: usize) -> Kernel {
        Kernel { name: self.name, function: self.functions[index] }
    }
}

/// Loads the program of a text in the current context, and finds a kernel in it. It is never unloaded.
pub fn load_kernel(text: &str, kernel: &CStr, options: &[String]) -> Result<CUfunction> {
    let module = load(text, options)?;
    let mut function = std::ptr::null_mut();
    // SAFETY: a context is current, and the module was just loaded.
    match unsafe { sys::cuModuleGetFunction(&raw mut function, module, kernel.as_ptr()) } {
        status @ sys::CUresult::CUDA_ERROR_NOT_FOUND => check(status).map_err(|error| {
            error.hint(format!("The source has no kernel with the name {}.", kernel.to_string_lossy()))
        })?,
        status => check(status)?,
    }
    Ok(function)
}

/// Loads a program from the disk, or compiles it.
fn load(text: &str, options: &[String]) -> Result<CUmodule> {
    if let Some(missing) = missing_compiler() {
        return Err(missing);
    }
    let path = cache_folder().map(|folder| folder.join(format!("{}.cubin", digest(text, options))));
    if let Some(code) = path.as_deref().and_then(read)
        && let Ok(module) = load_module(&code)
    {
        return Ok(module);
    }
    let code = compile(text, options)?;
    if let Some(path) = &path {
        // Without a cache the next process compiles again.
        let _ = write(path, &code);
    }
    load_module(&code)
}

fn load_module(code: &[u8]) -> Result<CUmodule> {
    let mut module = std::ptr::null_mut();
    // SAFETY: a context is current, and the code is a whole image.
    check(unsafe { sys::cuModuleLoadData(&raw mut module, code.as_ptr().cast()) })?;
    Ok(module)
}

/// Whether NVRTC is installed. It is loaded by the first call.
pub fn has_compiler() -> bool {
    static PRESENT: OnceBool = OnceBool::new();
    // SAFETY: loading NVRTC runs its initialisers, which any program may load.
    let present = || unsafe { nvrtc::is_culib_present() };
    PRESENT.get_or_init(|| {
        if present() {
            return true;
        }
        // Older versions of NVRTC do not find their second library by themselves.
        library::load("libnvrtc-builtins.so.");
        library::load("libnvrtc.so.") && present()
    })
}

fn missing_compiler() -> Option<Error> {
    (!has_compiler()).then(|| {
        Error::runtime("NVRTC, which compiles the kernels for CUDA, is not installed")
            .hint("pip install 'rushlight[cuda13]', which brings nvidia-cuda-nvrtc. `python -m rushlight doctor` shows what is installed.")
    })
}

/// The version of NVRTC; `None` if it is not installed.
pub fn compiler_version() -> Option<(c_int, c_int)> {
    has_compiler().then(version)
}

/// The file that NVRTC was loaded from; `None` if it is not installed.
pub fn compiler_file() -> Option<PathBuf> {
    if !has_compiler() {
        return None;
    }
    // SAFETY: NVRTC is loaded, and the symbol is only an address.
    let version = unsafe { nvrtc::culib().get::<*const c_void>(b"nvrtcVersion") };
    version.ok().and_then(|function| library::file_of(function.addr()))
}

/// The architectures for which NVRTC compiles, such as 90; none if it is not installed.
pub fn architectures() -> Vec<c_int> {
    if !has_compiler() {
        return Vec::new();
    }
    let mut count = 0;
    // SAFETY: NVRTC is loaded, and the pointer is that of a local variable.
    let status = unsafe { nvrtc::nvrtcGetNumSupportedArchs(&raw mut count) };
    if status != nvrtc::nvrtcResult::NVRTC_SUCCESS {
        return Vec::new();
    }
    let mut all = vec![0; count as usize];
    // SAFETY: as above; there is room for as many numbers as NVRTC has.
    unsafe { nvrtc::nvrtcGetSupportedArchs(all.as_mut_ptr()) };
    all
}

/// The options with which kernels are compiled for a device.
pub fn options(card: &Card) -> Vec<String> {
    let properties = &card.properties;
    vec![
        "--std=c++17".into(),
        // Both devices round alike.
        "--fmad=false".into(),
        format!("--gpu-architecture=sm_{}{}", properties.major, properties.minor),
    ]
}

/// The folder of compiled kernels; `None` if there is no home for it, or if the variable is empty.
pub fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(named) = std::env::var_os("RUSHLIGHT_KERNEL_CACHE") {
        return (!named.is_empty()).then(|| PathBuf::from(named));
    }
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("rushlight/kernels"))
}

fn version() -> (c_int, c_int) {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: NVRTC is loaded, and the pointers are those of local variables.
    unsafe { nvrtc::nvrtcVersion(&raw mut major, &raw mut minor) };
    (major, minor)
}

/// 128 bits of everything that decides a program's code.
fn digest(text: &str, options: &[String]) -> String {
    let hash = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text, HEADERS, options, version()).hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}", hash(0), hash(1))
}

/// Of a program's code and the name of its file, so that a file is not taken for another one.
fn checksum(path: &Path, code: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (path.file_name(), code).hash(&mut hasher);
    hasher.finish()
}

/// The code in a file of the cache, if it is intact. What is no file, such as a pipe, might never be read to its end.
fn read(path: &Path) -> Option<Vec<u8>> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    let (sum, code) = bytes.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*sum) == checksum(path, code)).then(|| code.to_vec())
}

fn write(path: &Path, code: &[u8]) -> std::io::Result<()> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let draft = folder.join(format!(".{}-{number}.draft", std::process::id()));
    let written = std::fs::write(&draft, [&checksum(path, code).to_le_bytes(), code].concat());
    written.and_then(|()| std::fs::rename(&draft, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&draft);
    })
}

/// A program of NVRTC.
struct Compilation(nvrtc::nvrtcProgram);

impl Drop for Compilation {
    fn drop(&mut self) {
        // SAFETY: the program was created, and this is its only owner.
        unsafe { nvrtc::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

/// A source for NVRTC. None of them contains a zero byte.
fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::runtime("the source of a kernel contains a zero byte"))
}

fn compile(text: &str, options: &[String]) -> Result<Vec<u8>> {
    let failed = |status: nvrtc::nvrtcResult| Error::runtime(format!("NVRTC error: {status:?}"));
    let source = c_string(text)?;
    let names = HEADERS.iter().map(|(name, _)| c_string(name)).collect::<Result<Vec<_>>>()?;
    let contents = HEADERS.iter().map(|(_, content)| c_string(content)).collect::<Result<Vec<_>>>()?;
    let options = options.iter().map(|option| c_string(option)).collect::<Result<Vec<_>>>()?;
    let pointers = |strings: &[CString]| strings.iter().map(|string| string.as_ptr()).collect::<Vec<*const c_char>>();
    let (names, contents, options) = (pointers(&names), pointers(&contents), pointers(&options));
    let success = nvrtc::nvrtcResult::NVRTC_SUCCESS;
    let mut program = std::ptr::null_mut();
    // SAFETY: NVRTC is loaded; strings and lists live until the end of the function and have the lengths that are passed.
    unsafe {
        let status = nvrtc::nvrtcCreateProgram(
            &raw mut program,
            source.as_ptr(),
            c"kernel.cu".as_ptr(),
            names.len() as c_int,
            contents.as_ptr(),
            names.as_ptr(),
        );
        if status != success {
            return Err(failed(status));
        }
        let program = Compilation(program);
        let status = nvrtc::nvrtcCompileProgram(program.0, options.len() as c_int, options.as_ptr());
        let mut size = 0;
        if status != success {
            nvrtc::nvrtcGetProgramLogSize(program.0, &raw mut size);
            let mut log = vec![0u8; size];
            nvrtc::nvrtcGetProgramLog(program.0, log.as_mut_ptr().cast());
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
            return Err(Error::runtime(format!("NVRTC error: {status:?}")).hint(log));
        }
        nvrtc::nvrtcGetCUBINSize(program.0, &raw mut size);
        let mut code = vec![0u8; size];
        match nvrtc::nvrtcGetCUBIN(program.0, code.as_mut_ptr().cast()) {
            status if status == success => Ok(code),
            status => Err(failed(status)),
        }
    }
}
