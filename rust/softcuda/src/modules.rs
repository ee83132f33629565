//! Loaded kernels. An image is a shared library of the host that `nvrtc` has made.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use libloading::Library;

use crate::status::{INVALID_IMAGE, NOT_FOUND, Status};

/// The beginning of an image, before its length.
pub const MAGIC: [u8; 8] = *b"SOFTCUDA";

type RunGrid = unsafe extern "C" fn(*mut *mut c_void, *const c_uint, *const c_uint, u64) -> *const c_char;
type ArgumentSizes = unsafe extern "C" fn(*mut c_uint) -> c_uint;
const MOST_ARGUMENTS: usize = 64;

pub struct Function {
    pub device: c_int,
    pub name: CString,
    run: RunGrid,
    sizes: Vec<usize>,
}

/// A launch with a copy of its arguments.
#[derive(Clone)]
pub struct Launch {
    /// The handle of the kernel.
    pub function: usize,
    run: RunGrid,
    arguments: Vec<Vec<u128>>,
    grid: [c_uint; 3],
    block: [c_uint; 3],
}

#[derive(Default)]
pub struct Modules {
    modules: HashMap<usize, (Library, c_int)>,
    functions: HashMap<usize, Function>,
    last: usize,
}

impl Modules {
    fn new_handle(&mut self) -> usize {
        self.last = self.last.max(0x20_0000) + 0x10;
        self.last
    }

    /// # Safety
    /// `image` points to an image, or at least to 16 bytes.
    pub unsafe fn load(&mut self, image: *const u8, device: c_int) -> Result<usize, Status> {
        // SAFETY: guaranteed by the caller; an image with the right beginning has the length that it says.
        let library = unsafe {
            if image.cast::<[u8; 8]>().read_unaligned() != MAGIC {
                return Err(INVALID_IMAGE);
            }
            let length = image.add(8).cast::<u64>().read_unaligned() as usize;
            open(std::slice::from_raw_parts(image.add(16), length)).ok_or(INVALID_IMAGE)?
        };
        let handle = self.new_handle();
        self.modules.insert(handle, (library, device));
        Ok(handle)
    }

    pub fn unload(&mut self, module: usize) -> bool {
        // Its code may still be in a queue, so the library stays.
        self.modules.remove(&module).map(|(library, _)| std::mem::forget(library)).is_some()
    }

    pub fn function(&mut self, module: usize, name: &CStr) -> Result<usize, Status> {
        let Some((library, device)) = self.modules.get(&module) else { return Err(NOT_FOUND) };
        let own = name.to_owned();
        let name = name.to_string_lossy();
        let mut sizes = [0; MOST_ARGUMENTS];
        // SAFETY: `nvrtc` has given these functions these types, and a kernel has fewer arguments.
        let (run, count) = unsafe {
            let run = library.get::<RunGrid>(format!("softcuda_run_{name}\0")).map_err(|_| NOT_FOUND)?;
            let count = library.get::<ArgumentSizes>(format!("softcuda_sizes_{name}\0")).map_err(|_| NOT_FOUND)?;
            (*run, count(sizes.as_mut_ptr()) as usize)
        };
        let sizes = sizes[..count].iter().map(|&size| size as usize).collect();
        let function = Function { device: *device, name: own, run, sizes };
        let handle = self.new_handle();
        self.functions.insert(handle, function);
        Ok(handle)
    }

    pub fn find(&self, function: usize) -> Option<&Function> {
        self.functions.get(&function)
    }
}

impl Function {
    /// The place and the size of a parameter, as a compiler for a card lays them out; none if there are fewer.
    pub fn parameter(&self, at: usize) -> Option<(usize, usize)> {
        let mut end = 0usize;
        for (n, &size) in self.sizes.iter().enumerate() {
            // Each begins at a multiple of its alignment, which numbers and addresses have as their size.
            let begin = end.next_multiple_of(1 << size.trailing_zeros().min(4));
            if n == at {
                return Some((begin, size));
            }
            end = begin + size;
        }
        None
    }

    /// The launch of the kernel with copies of its arguments, to run when its stream comes to it.
    ///
    /// # Safety
    /// `arguments` points to as many pointers as the kernel has arguments, each to an argument.
    pub unsafe fn prepare(
        &self,
        function: usize,
        arguments: *const *const u8,
        grid: [c_uint; 3],
        block: [c_uint; 3],
    ) -> Launch {
        let copy = |(n, &size): (usize, &usize)| {
            let mut bytes = vec![0u128; size.div_ceil(16).max(1)];
            // SAFETY: guaranteed by the caller.
            unsafe { bytes.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(*arguments.add(n), size) };
            bytes
        };
        let arguments = self.sizes.iter().enumerate().map(copy).collect();
        Launch { function, run: self.run, arguments, grid, block }
    }
}

impl Launch {
    /// Runs the kernel; returns the text of its error.
    pub fn run(mut self, seed: u64) -> Option<String> {
        let mut pointers: Vec<*mut c_void> = self.arguments.iter_mut().map(|bytes| bytes.as_mut_ptr().cast()).collect();
        // SAFETY: the arguments have the sizes of the kernel's.
        let fault = unsafe { (self.run)(pointers.as_mut_ptr(), self.grid.as_ptr(), self.block.as_ptr(), seed) };
        // SAFETY: the text is in the library, which is never unloaded.
        (!fault.is_null()).then(|| unsafe { CStr::from_ptr(fault) }.to_string_lossy().into_owned())
    }
}

/// Loads a shared library from memory, through a file of its own: the loader takes files of one name for one library.
fn open(bytes: &[u8]) -> Option<Library> {
    let folder = Folder::new().ok()?;
    let path = folder.0.join("module.so");
    std::fs::write(&path, bytes).ok()?;
    // SAFETY: the library was made by `nvrtc` and has no initialisers.
    unsafe { Library::new(&path) }.ok()
}

/// A new folder, which is deleted with the value.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> std::io::Result<Folder> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("softcuda-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
