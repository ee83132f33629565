//! NVIDIA's libraries: found by the dynamic loader, or in the folder `nvidia` where pip puts them.

use std::ffi::CString;
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
