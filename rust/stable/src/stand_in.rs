//! Shared objects that take the place of libraries which are not there. The dynamic loader finds a dependency of a
//! library by its name among the objects that are loaded, so an object with that name is enough. Its own
//! dependency is this extension module, in which the loader then finds the functions of the ABI.
//!
//! An object may also define functions that only return an error: those of CUDA's runtime on a machine without it.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use object::elf::{DT_HASH, DT_NEEDED, DT_NULL, DT_SONAME, DT_STRSZ, DT_STRTAB, DT_SYMENT, DT_SYMTAB};

/// The status that functions of CUDA's runtime return if there is no device (`cudaErrorNoDevice`).
const NO_DEVICE: u8 = 100;

/// The number of objects so far.
static LOADED: AtomicUsize = AtomicUsize::new(0);

const PAGE: u64 = 4096;
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SYMBOL: usize = 24;

/// The bytes of a shared object (ELF, x86-64) with a name, dependencies, and functions that return an error.
pub fn object(name: &str, needed: &[&str], functions: &[&str]) -> Vec<u8> {
    let mut strings = vec![0];
    let mut string = |text: &str| {
        let place = strings.len() as u64;
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        place
    };
    let own_name = string(name);
    let needed: Vec<u64> = needed.iter().map(|name| string(name)).collect();
    let functions: Vec<u64> = functions.iter().map(|name| string(name)).collect();
    let count = functions.len() + 1;

    let symbols_at = HEADER + 3 * SEGMENT;
    let hash_at = symbols_at + (count * SYMBOL) as u64;
    let strings_at = hash_at + 4 * (3 + count as u64);
    let code_at = (strings_at + strings.len() as u64).next_multiple_of(16);
    let code = [0xb8, NO_DEVICE, 0, 0, 0, 0xc3]; // mov eax, NO_DEVICE; ret
    let read_end = code_at + code.len() as u64;
    let dynamic_at = read_end.next_multiple_of(PAGE);

    let mut dynamic: Vec<(u64, u64)> = needed.into_iter().map(|place| (DT_NEEDED.0 as u64, place)).collect();
    dynamic.extend([
        (DT_SONAME.0 as u64, own_name),
        (DT_HASH.0 as u64, hash_at),
        (DT_STRTAB.0 as u64, strings_at),
        (DT_STRSZ.0 as u64, strings.len() as u64),
        (DT_SYMTAB.0 as u64, symbols_at),
        (DT_SYMENT.0 as u64, SYMBOL as u64),
        (DT_NULL.0 as u64, 0),
    ]);
    let dynamic_bytes = 16 * dynamic.len() as u64;

    let mut file = Vec::new();
    // The header: 64 bits, little endian, a shared object for x86-64, three segments and no sections.
    file.extend_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    put16(&mut file, &[3, 62]);
    put32(&mut file, &[1]);
    put64(&mut file, &[0, HEADER, 0]);
    put32(&mut file, &[0]);
    put16(&mut file, &[HEADER as u16, SEGMENT as u16, 3, 0, 0, 0]);
    // What is only read and run, what the loader writes, and the latter as the dynamic table.
    for (kind, flags, at, bytes, align) in
        [(1, 5, 0, read_end, PAGE), (1, 6, dynamic_at, dynamic_bytes, PAGE), (2, 6, dynamic_at, dynamic_bytes, 8)]
    {
        put32(&mut file, &[kind, flags]);
        put64(&mut file, &[at, at, at, bytes, bytes, align]);
    }
    // The symbols: none, then a global function for each name.
    file.resize(file.len() + SYMBOL, 0);
    for name in functions {
        put32(&mut file, &[name as u32]);
        file.extend_from_slice(&[0x12, 0]);
        put16(&mut file, &[1]);
        put64(&mut file, &[code_at, code.len() as u64]);
    }
    // The hash table has one bucket, a list of all symbols.
    put32(&mut file, &[1, count as u32, u32::from(count > 1), 0]);
    for place in 1..count {
        put32(&mut file, &[if place + 1 < count { place as u32 + 1 } else { 0 }]);
    }
    file.extend_from_slice(&strings);
    file.resize(code_at as usize, 0);
    file.extend_from_slice(&code);
    file.resize(dynamic_at as usize, 0);
    for (tag, value) in dynamic {
        put64(&mut file, &[tag, value]);
    }
    file
}

fn put16(file: &mut Vec<u8>, values: &[u16]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put32(file: &mut Vec<u8>, values: &[u32]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put64(file: &mut Vec<u8>, values: &[u64]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// What the dynamic loader said last.
pub fn loader_error() -> String {
    // SAFETY: the text is valid until the next call of the loader on this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { "unknown error".into() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

/// Loads the bytes of an object, which stays loaded. Its functions, and those of its dependencies, are seen by libraries
/// that depend on it, or by all of them.
pub fn load(object: &[u8], seen_by_all: bool) -> Result<(), String> {
    // SAFETY: a name that ends with a zero.
    let memory = unsafe { libc::memfd_create(c"stand-in".as_ptr(), libc::MFD_CLOEXEC) };
    if memory < 0 {
        return Err(std::io::Error::last_os_error().to_string());
    }
    // SAFETY: a descriptor that was just made.
    let mut file = unsafe { File::from_raw_fd(memory) };
    file.write_all(object).map_err(|error| error.to_string())?;
    // The loader takes equal paths for the same object, and the number of the descriptor is used again.
    let steps = "./".repeat(LOADED.fetch_add(1, Ordering::Relaxed));
    let path = CString::new(format!("/proc/self/fd/{steps}{}", file.as_raw_fd())).unwrap_or_default();
    let scope = if seen_by_all { libc::RTLD_GLOBAL } else { libc::RTLD_LOCAL };
    // SAFETY: an object without initialisers.
    let loaded = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | scope) };
    if loaded.is_null() { Err(loader_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use object::read::elf::{ElfFile64, FileHeader};
    use object::{Endianness, Object, ObjectSegment};

    use super::*;

    #[test]
    fn the_tables_of_an_object_can_be_read() {
        for count in [0, 1, 40] {
            let names: Vec<String> = (0..count).map(|number| format!("function{number}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let file = object("name.so", &["libc.so.6"], &names);
            let read = ElfFile64::<Endianness>::parse(&*file).expect("an object");
            assert_eq!(read.segments().count(), 2);
            assert!(read.segments().all(|segment| segment.address() + segment.size() <= file.len() as u64));
            assert_eq!(read.elf_header().program_headers(Endianness::Little, &*file).map(<[_]>::len), Ok(3));
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn functions_of_a_loaded_object_return_the_status() {
        for round in 0..3 {
            let name = format!("rushlight_stand_in_of_test_{round}");
            load(&object("rushlight_test", &[], &["rushlight_other", &name]), true).expect("loads");
            let name = CString::new(name).unwrap();
            // SAFETY: the function takes nothing and returns an integer.
            let function: extern "C" fn() -> i32 = unsafe {
                let found = libc::dlsym(libc::RTLD_DEFAULT, CStr::as_ptr(&name));
                assert!(!found.is_null());
                std::mem::transmute(found)
            };
            assert_eq!(function(), i32::from(NO_DEVICE));
        }
    }
}
