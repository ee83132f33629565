//! What a library registers while it is loaded: operators by their schemas, and functions for dispatch keys.

use std::ffi::{CStr, c_char};

use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{Error, Result};

use crate::errors::export;

/// A function of a library: it takes its arguments from the stack and puts its results there.
pub type Kernel = unsafe extern "C" fn(stack: *mut u64, arguments: u64, results: u64);

#[derive(Clone)]
pub enum Registration {
    Define { namespace: String, schema: String },
    Implement { namespace: String, key: String, name: String, kernel: Kernel },
}

/// A block of registrations, as the library names it: its namespace, and the dispatch key of functions.
pub struct Library {
    namespace: String,
    key: Option<String>,
}

static MADE: ForkMutex<Vec<Registration>> = ForkMutex::new(Rank::Tables, Vec::new());

/// What libraries have registered since the last call.
pub fn take() -> Vec<Registration> {
    std::mem::take(&mut MADE.lock())
}

/// # Safety
/// The arguments are a caller's, as the ABI has them.
unsafe fn text(text: *const c_char) -> Result<String> {
    if text.is_null() {
        return Err(Error::runtime("a text of a registration is a null pointer"));
    }
    // SAFETY: the caller's texts end with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(str::to_string).map_err(|_| Error::runtime("a text of a registration is not UTF-8"))
}

/// # Safety
/// The arguments are a caller's, as the ABI has them.
unsafe fn new(namespace: *const c_char, key: *const c_char) -> Result<*mut Library> {
    // SAFETY: the caller's texts.
    let (namespace, key) = unsafe { (text(namespace)?, if key.is_null() { None } else { Some(text(key)?) }) };
    Ok(Box::into_raw(Box::new(Library { namespace, key })))
}

/// # Safety
/// The arguments are a caller's, as the ABI has them.
unsafe fn define(library: *mut Library, schema: *const c_char) -> Result<()> {
    // SAFETY: the caller's library and text.
    let (library, schema) = unsafe { (library.as_ref(), text(schema)?) };
    let library = library.ok_or_else(|| Error::runtime("the handle of a library is null"))?;
    MADE.lock().push(Registration::Define { namespace: library.namespace.clone(), schema });
    Ok(())
}

/// # Safety
/// The arguments are a caller's, as the ABI has them.
unsafe fn implement(library: *mut Library, name: *const c_char, kernel: Option<Kernel>) -> Result<()> {
    // SAFETY: as above.
    let (library, name) = unsafe { (library.as_ref(), text(name)?) };
    let library = library.ok_or_else(|| Error::runtime("the handle of a library is null"))?;
    let kernel = kernel.ok_or_else(|| Error::runtime(format!("the function of {name} is a null pointer")))?;
    let key = library.key.clone().unwrap_or_else(|| "CompositeImplicitAutograd".to_string());
    let namespace = library.namespace.clone();
    MADE.lock().push(Registration::Implement { namespace, key, name, kernel });
    Ok(())
}

export! {
    fn aoti_torch_library_init_def(namespace: *const c_char, _file: *const c_char, _line: u32, result: *mut *mut Library) {
        *result = new(namespace, std::ptr::null())?;
    }

    fn aoti_torch_library_init_fragment(
        namespace: *const c_char,
        _file: *const c_char,
        _line: u32,
        result: *mut *mut Library,
    ) {
        *result = new(namespace, std::ptr::null())?;
    }

    fn aoti_torch_library_init_impl(
        namespace: *const c_char,
        key: *const c_char,
        _file: *const c_char,
        _line: u32,
        result: *mut *mut Library,
    ) {
        *result = new(namespace, key)?;
    }

    fn aoti_torch_delete_library_object(library: *mut Library) {
        if !library.is_null() {
            drop(Box::from_raw(library));
        }
    }

    fn aoti_torch_library_def(library: *mut Library, schema: *const c_char) {
        define(library, schema)?;
    }

    fn torch_library_def_with_tags(library: *mut Library, schema: *const c_char, _tags: *const i32, _count: i32) {
        define(library, schema)?;
    }

    /// The module has no effect: it would tell which one to import for functions on the device `meta`.
    fn torch_library_set_python_module(_library: *mut Library, _module: *const c_char, _context: *const c_char) {}

    fn aoti_torch_library_impl(library: *mut Library, name: *const c_char, kernel: Option<Kernel>) {
        implement(library, name, kernel)?;
    }

    fn torch_library_impl(library: *mut Library, name: *const c_char, kernel: Option<Kernel>, _version: u64) {
        implement(library, name, kernel)?;
    }
}
