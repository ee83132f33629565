//! The entry points of NVRTC: CUDA C++ becomes a shared library of the host.
//!
//! A program and its headers are written to a folder of their own, and `host.h` is included before them. Kernels are found
//! by their text, `extern "C" __global__ void name(`.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::process::Command;

use crate::modules::{Folder, MAGIC};

type Status = c_int;
const SUCCESS: Status = 0;
const COMPILATION: Status = 6;

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

/// The names of the kernels in a source.
fn kernels(source: &str) -> impl Iterator<Item = &str> {
    source.split("extern \"C\" __global__ void").skip(1).map(|rest| {
        let rest = rest.trim_start();
        let rest = match rest.strip_prefix("__launch_bounds__") {
            Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest).trim_start(),
            None => rest,
        };
        rest.split(|letter: char| letter != '_' && !letter.is_alphanumeric()).next().unwrap_or_default()
    })
}

impl Program {
    /// The source with functions that launch its kernels.
    fn whole(&self) -> String {
        // A kernel may have the name of a function of the host's library.
        let renamed: String =
            kernels(&self.source).map(|name| format!("#define {name} softcuda_named_{name}\n")).collect();
        let mut text = format!("#include \"softcuda_host.h\"\n{renamed}#line 1 \"program.cu\"\n{}\n", self.source);
        for name in kernels(&self.source) {
            text += &format!(
                "extern \"C\" const char* softcuda_run_{name}(void** arguments, const unsigned* grid, const unsigned* block, \
                 uint64_t seed) {{ return softcuda::launch(::{name}, arguments, grid, block, seed); }}\n\
                 extern \"C\" unsigned softcuda_sizes_{name}(unsigned* sizes) {{ return softcuda::argument_sizes(::{name}, sizes); }}\n"
            );
        }
        text
    }

    /// Compiles the program; the image, or the compiler's messages.
    fn compile(&self, options: &[String]) -> Result<Vec<u8>, String> {
        let folder = Folder::new().map_err(|error| format!("no temporary folder: {error}"))?;
        self.compile_in(&folder.0, options)
    }

    fn compile_in(&self, folder: &Path, options: &[String]) -> Result<Vec<u8>, String> {
        let failed = |error: std::io::Error| format!("the software card cannot compile: {error}");
        std::fs::write(folder.join("softcuda_host.h"), include_str!("host.h")).map_err(failed)?;
        for (name, text) in &self.headers {
            std::fs::write(folder.join(name), text).map_err(failed)?;
        }
        let (source, object, library) =
            (folder.join("program.cpp"), folder.join("program.o"), folder.join("program.so"));
        std::fs::write(&source, self.whole()).map_err(failed)?;
        let compiler = std::env::var("SOFTCUDA_CXX").unwrap_or_else(|_| "c++".into());
        let mut command = Command::new(&compiler);
        command.args(["-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-c", "-w"]);
        // `host.h` has the functions that these checks call.
        command.args(["-fsanitize=alignment,bounds", "-fno-sanitize-recover=all"]);
        // Without the instruction a sum of a product is a call.
        #[cfg(target_arch = "x86_64")]
        command.arg("-mfma");
        for option in options {
            if let Some(name) = option.strip_prefix("--define-macro=").or(option.strip_prefix("-D")) {
                command.arg(format!("-D{name}"));
            }
        }
        command.arg("-I").arg(folder).arg("-o").arg(&object).arg(&source);
        // Linked without these options, which would add a library.
        let mut link = Command::new(&compiler);
        link.arg("-shared").arg("-o").arg(&library).arg(&object);
        // Kernels need nothing of the library of C++, which takes longer to find than everything else.
        link.args(["-nodefaultlibs", "-lm", "-lc", "-lgcc", "-Wl,--no-undefined"]);
        for mut command in [command, link] {
            // The compiler needs its own libraries, not those that stand in for others.
            let output = command.env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD").output();
            let output =
                output.map_err(|error| format!("the software card needs a C++ compiler ({compiler}): {error}"))?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned());
            }
        }
        let code = std::fs::read(&library).map_err(failed)?;
        Ok([&MAGIC[..], &(code.len() as u64).to_le_bytes(), &code].concat())
    }
}
