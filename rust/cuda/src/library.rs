//! NVIDIA's libraries: found by the dynamic loader, or in the folder `nvidia` where pip puts them.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use once_cell::race::OnceBox;

/// The folders that may contain `nvidia`.
static FOLDERS: OnceBox<Vec<PathBuf>> = OnceBox::new();

/// Sets the folders in which Python finds packages. Only the first call counts.
pub fn set_folders(folders: Vec<PathBuf>) {
    let _ = FOLDERS.set(Box::new(folders));
}

/// The files of pip's packages whose names begin with a prefix, such as `libnvrtc.so.`, the newest version first.
pub fn find(prefix: &str) -> Vec<PathBuf> {
    let listed = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = FOLDERS
        .get()
        .into_iter()
        .flatten()
        .flat_map(|folder| listed(&folder.join("nvidia")))
        .flat_map(|package| listed(&package.join("lib")))
        .filter(|file| file.file_name().is_some_and(|name| name.as_bytes().starts_with(prefix.as_bytes())))
        .collect();
    found.sort();
    found.reverse();
    found
}

/// Loads the first file of pip's packages with a prefix, so that the loader finds the library by its name from now on.
pub fn load(prefix: &str) -> bool {
    find(prefix).iter().any(|file| open(file.as_os_str().as_bytes()).is_some())
}

/// The file from which the loader took the function at an address.
pub fn file_of(address: usize) -> Option<PathBuf> {
    // SAFETY: a struct of pointers, for which zeros are valid.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; the struct is a local variable.
    if unsafe { libc::dladdr(std::ptr::without_provenance(address), &raw mut found) } == 0 || found.dli_fname.is_null()
    {
        return None;
    }
    // SAFETY: the loader's own text, which lives as long as the library, and no library is closed.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Loads a file. All libraries are loaded in the same way: a name of one is found again by libraries that are loaded later.
fn open(file: &[u8]) -> Option<*mut c_void> {
    let file = CString::new(file).ok()?;
    // SAFETY: loading a library of NVIDIA runs its initialisers, which any program may load.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    (!library.is_null()).then_some(library)
}

/// A loaded library, which stays loaded.
pub struct Library(*mut c_void);

impl Library {
    /// The first of these names that the dynamic loader finds, or that lies in pip's packages.
    pub fn find(names: &[&str]) -> Option<Library> {
        let known = names.iter().find_map(|name| open(name.as_bytes()));
        let packaged = || {
            let files = names.iter().flat_map(|name| find(name));
            files.into_iter().find_map(|file| open(file.as_os_str().as_bytes()))
        };
        known.or_else(packaged).map(Library)
    }

    /// The address of a function; `None` if the library has none of this name.
    pub fn function(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the library is loaded.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

/// Defines a struct with functions of a library, and its `found`, which is `None` if the library or a function is missing.
/// The first call loads the library. The functions return a status unless something else is written. A list of names is a function
/// for each of several dtypes or operands, in an array.
macro_rules! functions {
    (
        $(#[$about:meta])* $visibility:vis struct $table:ident from $names:expr;
        $($field:ident = $symbol:literal ($($kind:ty),* $(,)?) $(-> $result:ty)?;)*
        $([$($several:literal),*] as $each:ident ($($parameter:ty),* $(,)?);)*
    ) => {
        $(#[$about])*
        $visibility struct $table {
            $($visibility $field: unsafe extern "C" fn($($kind),*) -> $crate::library::functions!(@result $($result)?),)*
            $($visibility $each: [unsafe extern "C" fn($($parameter),*) -> std::ffi::c_int; [$($several),*].len()],)*
        }

        impl $table {
            $visibility fn found() -> Option<&'static $table> {
                static FOUND: once_cell::race::OnceBox<Option<$table>> = once_cell::race::OnceBox::new();
                FOUND.get_or_init(|| Box::new($table::load())).as_ref()
            }

            fn load() -> Option<$table> {
                let library = $crate::library::Library::find($names)?;
                // SAFETY: NVIDIA declares the functions of these names with these parameters and results.
                unsafe {
                    Some($table {
                        $($field: std::mem::transmute::<
                            *mut std::ffi::c_void,
                            unsafe extern "C" fn($($kind),*) -> $crate::library::functions!(@result $($result)?),
                        >(library.function($symbol)?),)*
                        $($each: std::mem::transmute::<
                            [*mut std::ffi::c_void; [$($several),*].len()],
                            [unsafe extern "C" fn($($parameter),*) -> std::ffi::c_int; [$($several),*].len()],
                        >([$(library.function($several)?),*]),)*
                    })
                }
            }
        }
    };
    (@result) => { std::ffi::c_int };
    (@result $result:ty) => { $result };
}
pub(crate) use functions;
