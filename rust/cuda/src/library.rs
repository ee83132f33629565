//! NVIDIA's libraries: found by the dynamic loader, or in the folder `nvidia` where pip puts them.

use std::ffi::{CStr, CString, c_void};
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
    find(prefix).iter().filter_map(|file| CString::new(file.as_os_str().as_bytes()).ok()).any(|file| {
        // SAFETY: loading a library of NVIDIA runs its initialisers, which any program may load.
        !unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) }.is_null()
    })
}

/// A library that stays loaded.
#[derive(Clone, Copy)]
pub struct Library(*mut c_void);

impl Library {
    /// Loads a library by its name, or the first file of pip's packages that begins with this name.
    pub fn open(name: &str) -> Option<Library> {
        let of_loader = CString::new(name).ok()?;
        let open = || {
            // SAFETY: loading a library of NVIDIA runs its initialisers, which any program may load.
            let handle = unsafe { libc::dlopen(of_loader.as_ptr(), libc::RTLD_NOW) };
            (!handle.is_null()).then_some(Library(handle))
        };
        open().or_else(|| load(name).then(open).flatten())
    }

    /// The address of a function.
    pub fn function(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the library is never unloaded.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}
