//! The entry points of NVRTC: CUDA C++ becomes a shared library of the host.
//!
//! A program is written to a folder of its own, and `host.h` is included before it. Kernels are found by their text,
//! `extern "C" __global__ void name(`. The headers of programs are written once, beside this library, with a precompiled form of
//! those that most programs begin with: without it a kernel compiles a third longer.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::modules::{Folder, MAGIC};

type Status = c_int;
const SUCCESS: Status = 0;
const COMPILATION: Status = 6;

/// What kernels of the engine begin with, behind `host.h`. A program that includes the last one gets all of them, precompiled.
const PREFIX: [&str; 2] = ["elementwise.cuh", "prelude.cuh"];
const OPTIONS: [&str; 8] = [
    "-std=c++17",
    "-O1",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fPIC",
    "-w",
    // `host.h` has the functions that these checks call.
    "-fsanitize=alignment,bounds",
    "-fno-sanitize-recover=all",
];

/// A program between its creation and its destruction.
pub struct Program {
    source: String,
    headers: Vec<(String, String)>,
    image: Vec<u8>,
    log: Vec<u8>,
}

entries! {
    // No compiler of NVIDIA has this version, so that its results are never taken for each other.
    nvrtcVersion(major: *mut c_int, minor: *mut c_int) { *major = 0; *minor = 2; SUCCESS }

    nvrtcGetNumSupportedArchs(count: *mut c_int) { *count = 2; SUCCESS }

    nvrtcGetSupportedArchs(all: *mut c_int) { all.write(80); all.add(1).write(90); SUCCESS }

    nvrtcCreateProgram(
        program: *mut *mut Program, source: *const c_char, _name: *const c_char, count: c_int,
        headers: *const *const c_char, names: *const *const c_char
    ) {
        let header = |n: usize| (text(*names.add(n)), text(*headers.add(n)));
        let headers = (0..count as usize).map(header).collect();
        *program = Box::into_raw(Box::new(Program { source: text(source), headers, image: Vec::new(), log: vec![0] }));
        SUCCESS
    }

    nvrtcDestroyProgram(program: *mut *mut Program) { drop(Box::from_raw(*program)); SUCCESS }

    nvrtcCompileProgram(program: *mut Program, count: c_int, options: *const *const c_char) {
        let program = &mut *program;
        let options: Vec<String> = (0..count as usize).map(|n| text(*options.add(n))).collect();
        match program.compile(&options) {
            Ok(image) => { program.image = image; SUCCESS }
            Err(log) => { program.log = log.into_bytes(); program.log.push(0); COMPILATION }
        }
    }

    nvrtcGetCUBINSize(program: *mut Program, size: *mut usize) { *size = (*program).image.len(); SUCCESS }

    nvrtcGetCUBIN(program: *mut Program, to: *mut u8) { copy(&(*program).image, to) }

    nvrtcGetProgramLogSize(program: *mut Program, size: *mut usize) { *size = (*program).log.len(); SUCCESS }

    nvrtcGetProgramLog(program: *mut Program, to: *mut u8) { copy(&(*program).log, to) }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvrtcGetErrorString(status: Status) -> *const c_char {
    let text = if status == SUCCESS { c"NVRTC_SUCCESS" } else { c"NVRTC_ERROR_COMPILATION" };
    text.as_ptr()
}

/// # Safety
/// `text` is a string of C.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// # Safety
/// There is room for the bytes.
unsafe fn copy(from: &[u8], to: *mut u8) -> Status {
    // SAFETY: guaranteed by the caller.
    unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    SUCCESS
}

/// Where the names of the kernels in a source are.
fn kernels(source: &str) -> Vec<std::ops::Range<usize>> {
    let ends = source.match_indices("extern \"C\" __global__ void").map(|(at, found)| at + found.len());
    let name = |end: usize| {
        let rest = source[end..].trim_start();
        let rest = match rest.strip_prefix("__launch_bounds__") {
            Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest).trim_start(),
            None => rest,
        };
        let length = rest.find(|letter: char| letter != '_' && !letter.is_alphanumeric()).unwrap_or(rest.len());
        let begin = source.len() - rest.len();
        begin..begin + length
    };
    ends.map(name).collect()
}

fn compiler() -> String {
    std::env::var("SOFTCUDA_CXX").unwrap_or_else(|_| "c++".into())
}

/// Runs the compiler; its messages are the error.
fn run(command: &mut Command) -> Result<(), String> {
    // The compiler needs its own libraries, not those that stand in for others.
    let output = command.env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD").output();
    let output = output.map_err(|error| format!("the software card needs a C++ compiler ({}): {error}", compiler()))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn compile_command() -> Command {
    let mut command = Command::new(compiler());
    command.args(OPTIONS);
    // Without the instruction a sum of a product is a call.
    #[cfg(target_arch = "x86_64")]
    command.arg("-mfma");
    command
}

/// The folder of this library.
fn own_folder() -> Option<PathBuf> {
    // SAFETY: a value of zeros is one of this type.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is that of a function, and the pointer that of a local variable.
    let known = unsafe { libc::dladdr(own_folder as *const libc::c_void, &raw mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of a library stays as long as the library.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())).parent()?.to_owned())
}

fn write_headers(folder: &Path, headers: &[(String, String)]) -> std::io::Result<()> {
    std::fs::write(folder.join("softcuda_host.h"), include_str!("host.h"))?;
    let prefix: String =
        ["softcuda_host.h"].iter().chain(&PREFIX).map(|name| format!("#include \"{name}\"\n")).collect();
    std::fs::write(folder.join("softcuda_prefix.h"), prefix)?;
    headers.iter().try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
}

/// Whether the headers are those of the engine.
fn has_prefix(headers: &[(String, String)]) -> bool {
    PREFIX.iter().all(|name| headers.iter().any(|(own, _)| own == name))
}

/// The folder that all processes share for these headers; `None` if it cannot be made.
fn shared_headers(headers: &[(String, String)]) -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (headers, include_str!("host.h"), OPTIONS, PREFIX, compiler()).hash(&mut hasher);
    let own = own_folder()?;
    let folder = own.join(format!("headers-{:016x}", hasher.finish()));
    if folder.exists() {
        return Some(folder);
    }
    let draft = own.join(format!(".headers-{}", std::process::id()));
    let made = std::fs::create_dir_all(&draft).and_then(|()| write_headers(&draft, headers)).is_ok() && {
        if has_prefix(headers) {
            let mut command = compile_command();
            command.args(["-x", "c++-header", "-o"]).arg(draft.join("softcuda_prefix.h.gch"));
            // Without the precompiled form the compiler reads the headers themselves.
            let _ = run(command.arg(draft.join("softcuda_prefix.h")));
        }
        // Another process may have been faster.
        std::fs::rename(&draft, &folder).is_ok() || folder.exists()
    };
    let _ = std::fs::remove_dir_all(&draft);
    made.then_some(folder)
}

impl Program {
    /// The source with functions that launch its kernels, which get other names: a kernel may have that of a function of the host's
    /// library.
    fn whole(&self) -> String {
        let kernels = kernels(&self.source);
        let [.., last] = PREFIX;
        let is_prefixed = has_prefix(&self.headers) && self.source.contains(&format!("#include \"{last}\""));
        let begin = if is_prefixed { "prefix" } else { "host" };
        let mut text = format!("#include \"softcuda_{begin}.h\"\n#line 1 \"program.cu\"\n");
        let mut at = 0;
        for name in &kernels {
            text += &format!("{}softcuda_named_", &self.source[at..name.start]);
            at = name.start;
        }
        text += &self.source[at..];
        for name in kernels {
            let name = &self.source[name];
            text += &format!(
                "\nextern \"C\" const char* softcuda_run_{name}(void** arguments, const unsigned* grid, const unsigned* block, \
                 uint64_t seed) {{ return softcuda::launch(::softcuda_named_{name}, arguments, grid, block, seed); }}\n\
                 extern \"C\" unsigned softcuda_sizes_{name}(unsigned* sizes) {{ \
                 return softcuda::argument_sizes(::softcuda_named_{name}, sizes); }}\n"
            );
        }
        text
    }

    /// Compiles the program; the image, or the compiler's messages.
    fn compile(&self, options: &[String]) -> Result<Vec<u8>, String> {
        let failed = |error: std::io::Error| format!("the software card cannot compile: {error}");
        let folder = Folder::new().map_err(failed)?;
        let folder = &folder.0;
        let headers = match shared_headers(&self.headers) {
            Some(shared) => shared,
            None => write_headers(folder, &self.headers).map(|()| folder.clone()).map_err(failed)?,
        };
        let [source, object, library] = ["program.cpp", "program.o", "program.so"].map(|name| folder.join(name));
        std::fs::write(&source, self.whole()).map_err(failed)?;
        let mut command = compile_command();
        for option in options {
            if let Some(name) = option.strip_prefix("--define-macro=").or(option.strip_prefix("-D")) {
                command.arg(format!("-D{name}"));
            }
        }
        run(command.arg("-I").arg(headers).arg("-c").arg("-o").arg(&object).arg(&source))?;
        // Linked without the options of checks, which would add a library.
        let mut link = Command::new(compiler());
        link.arg("-shared").arg("-o").arg(&library).arg(&object);
        // Kernels need nothing of the library of C++, which takes longer to find than everything else.
        run(link.args(["-nodefaultlibs", "-lm", "-lc", "-lgcc", "-Wl,--no-undefined"]))?;
        let code = std::fs::read(&library).map_err(failed)?;
        Ok([&MAGIC[..], &(code.len() as u64).to_le_bytes(), &code].concat())
    }
}
