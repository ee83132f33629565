//! Loading a library, with stand-ins for the libraries of torch that it depends on.

use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn, FileHeader, Sym};
use object::read::{ReadCache, ReadRef};
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_cuda::library::Library;

use crate::registry::{self, Registration};
use crate::stand_in::loader_error;
use crate::{exceptions, stand_in};

/// The libraries of torch that define the functions of the ABI, or that the linker names beside them.
const OF_TORCH: [&str; 6] =
    ["libc10.so", "libtorch.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_cuda.so", "libtorch_global_deps.so"];

/// The names that have stand-ins.
static STAND_INS: ForkMutex<Vec<String>> = ForkMutex::new(Rank::Tables, Vec::new());

/// What a library names: its dependencies, and the functions that it leaves to them.
struct Needs {
    libraries: Vec<String>,
    functions: Vec<String>,
}

/// Reads a library's tables. What is no library of this processor is left to the loader, which says so.
fn needs<'data, R: ReadRef<'data>>(file: R) -> object::read::Result<Needs> {
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    let symbols = sections.symbols(endian, file, object::elf::SHT_DYNSYM)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut libraries = Vec::new();
    if let Some((entries, link)) = sections.dynamic(endian, file)? {
        let strings = sections.strings(endian, file, link)?;
        for entry in entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED) {
            libraries.push(text(entry.string(endian, strings)?));
        }
    }
    let mut functions = Vec::new();
    for symbol in symbols.iter().filter(|symbol| symbol.is_undefined(endian)) {
        functions.push(text(symbol.name(endian, symbols.strings())?));
    }
    Ok(Needs { libraries, functions })
}

/// The file of this extension module.
fn own_file() -> Option<String> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let place = crate::numbers::aoti_torch_abi_version as *const () as *const c_void;
    // SAFETY: an address within this module, and memory for the answer.
    unsafe {
        if libc::dladdr(place, found.as_mut_ptr()) == 0 {
            return None;
        }
        Some(CStr::from_ptr(found.assume_init().dli_fname).to_str().ok()?.to_string())
    }
}

fn is_cuda_runtime(name: &str) -> bool {
    name.starts_with("libcudart.so")
}

fn is_loaded(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: a name; nothing is loaded.
    let found = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if found.is_null() {
        return false;
    }
    // SAFETY: gives back the handle that was just made.
    unsafe { libc::dlclose(found) };
    true
}

/// Makes stand-ins for what a library depends on and what is not there.
fn prepare(needs: &Needs) -> Result<(), String> {
    let mut made = STAND_INS.lock();
    let own = own_file().ok_or("the file of the engine is not known")?;
    for name in &needs.libraries {
        if made.contains(name) {
            continue;
        }
        if OF_TORCH.contains(&name.as_str()) {
            if is_loaded(name) {
                return Err(format!("torch itself is loaded in this process ({name})"));
            }
            stand_in::load(&stand_in::object(name, &[&own], &[]), false)?;
            made.push(name.clone());
        }
    }
    for name in needs.libraries.iter().filter(|name| is_cuda_runtime(name)) {
        if !made.contains(name) {
            if Library::find(&[name]).is_some() {
                continue;
            }
            stand_in::load(&stand_in::object(name, &[], &[]), false)?;
            made.push(name.clone());
        }
        // The library asks for functions with a version, of an object with this name. The loader refuses a function
        // without a version in that object, and accepts it from any object that all libraries see.
        let of_runtime = |name: &&str| name.starts_with("cuda") || name.starts_with("__cuda");
        let functions: Vec<&str> = needs.functions.iter().map(String::as_str).filter(of_runtime).collect();
        stand_in::load(&stand_in::object("rushlight-without-cuda", &[], &functions), true)?;
    }
    Ok(())
}

/// Makes `std::cerr` and its like usable. Compilers since GCC 13 leave that to the C++ library, and older libraries to each
/// file that includes `<iostream>`: with a new compiler and an old library nobody does it.
fn initialise_streams() {
    // SAFETY: names of the C++ library. The constructor counts its calls and writes nothing to the object.
    unsafe {
        let library = libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            return;
        }
        let found = libc::dlsym(library, c"_ZNSt8ios_base4InitC1Ev".as_ptr());
        if !found.is_null() {
            let construct: unsafe extern "C" fn(*mut c_void) = std::mem::transmute(found);
            let mut object = 0u64;
            construct((&raw mut object).cast());
        }
    }
}

/// Loads a library and returns what it has registered, after what libraries have registered that were loaded otherwise.
/// Functions for CUDA count only if CUDA's runtime is there.
///
/// # Errors
/// The loader's sentence, or why there is no way to load this library.
pub fn load(path: &Path) -> Result<Vec<Registration>, String> {
    if !exceptions::SUPPORTED {
        return Err("libraries for torch can be loaded on Linux for x86-64 only".into());
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path with a null character".to_string())?;
    if name.is_empty() {
        return Err("a library has no name".into());
    }
    let is_file = path.metadata().is_ok_and(|data| data.is_file());
    let file = is_file.then(|| File::open(path).ok()).flatten().map(ReadCache::new);
    let has_cuda = match file.as_ref().and_then(|file| needs(file).ok()) {
        None => true,
        Some(needs) => {
            prepare(&needs)?;
            let made = STAND_INS.lock();
            !needs.libraries.iter().any(|name| is_cuda_runtime(name) && made.contains(name))
        }
    };
    initialise_streams();
    // SAFETY: the caller asked for this library, whose initialisers run now.
    let loaded = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if loaded.is_null() {
        let reason = loader_error();
        let of_cpp = reason.contains("undefined symbol: _ZNSt") || reason.contains("undefined symbol: _ZNKSt");
        let hint = if of_cpp { "\n  It needs a newer libstdc++.so.6 than the one that is installed." } else { "" };
        return Err(reason + hint);
    }
    let mut registered = registry::take();
    if !has_cuda {
        registered.retain(|one| !matches!(one, Registration::Implement { key, .. } if key.contains("CUDA")));
    }
    Ok(registered)
}
