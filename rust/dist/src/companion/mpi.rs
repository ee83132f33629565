//! The few functions of MPI that the companion needs, loaded at run time through MPI's standard binary interface.
//!
//! The interface fixes the values of handles and the layout of a status, so that any library with this interface serves.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

type Handle = *mut c_void;

const WORLD: Handle = ptr::without_provenance_mut(0x101);
const BYTE: Handle = ptr::without_provenance_mut(0x247);
const ERRORS_RETURN: Handle = ptr::without_provenance_mut(0x143);
const ANY_SOURCE: c_int = -1;
const TAG: c_int = 1;
const FUNNELED: c_int = 1024;

#[repr(C)]
#[derive(Default)]
struct Status {
    source: c_int,
    tag: c_int,
    error: c_int,
    internal: [c_int; 5],
}

type InitThread = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;
type SetErrhandler = unsafe extern "C" fn(Handle, Handle) -> c_int;
type Isend = unsafe extern "C" fn(*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle) -> c_int;
type Improbe = unsafe extern "C" fn(c_int, c_int, Handle, *mut c_int, *mut Handle, *mut Status) -> c_int;
type Imrecv = unsafe extern "C" fn(*mut c_void, c_int, Handle, *mut Handle, *mut Handle) -> c_int;
type Test = unsafe extern "C" fn(*mut Handle, *mut c_int, *mut Status) -> c_int;
type GetCount = unsafe extern "C" fn(*const Status, Handle, *mut c_int) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int;

/// MPI in a process that ends without finalising it.
pub struct Mpi {
    isend: Isend,
    improbe: Improbe,
    imrecv: Imrecv,
    test: Test,
    get_count: GetCount,
    error_string: ErrorString,
}

/// A message that is under way, and its bytes.
pub struct Request {
    handle: Handle,
    pub bytes: Vec<u8>,
}

/// A function of a loaded library.
///
/// # Safety
/// `T` is the type of the function of this name.
unsafe fn function<T: Copy>(library: Handle, name: &CStr) -> Result<T, String> {
    assert!(size_of::<T>() == size_of::<Handle>());
    // SAFETY: the library is loaded, and never unloaded.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() {
        return Err(format!("the MPI library lacks {}", name.to_string_lossy()));
    }
    // SAFETY: the caller's contract; both are pointers.
    Ok(unsafe { std::mem::transmute_copy(&address) })
}

impl Mpi {
    /// Loads a library and initialises it, which waits for all companions.
    pub fn load(path: &str) -> Result<Mpi, String> {
        let name = CString::new(path).map_err(|_| "a path with a zero byte".to_owned())?;
        // SAFETY: the name ends with a zero. Loading runs the library's own initialisers.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: after a failed call there is a text, which stays until the next one.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(format!("the MPI library cannot be loaded: {}", why.to_string_lossy()));
        }
        // SAFETY: the types are those of MPI's standard binary interface.
        let (mpi, init, set_errhandler) = unsafe {
            let mpi = Mpi {
                isend: function(library, c"MPI_Isend")?,
                improbe: function(library, c"MPI_Improbe")?,
                imrecv: function(library, c"MPI_Imrecv")?,
                test: function(library, c"MPI_Test")?,
                get_count: function(library, c"MPI_Get_count")?,
                error_string: function(library, c"MPI_Error_string")?,
            };
            let init: InitThread = function(library, c"MPI_Init_thread")?;
            let set_errhandler: SetErrhandler = function(library, c"MPI_Comm_set_errhandler")?;
            (mpi, init, set_errhandler)
        };
        let mut level = 0;
        // SAFETY: MPI may be initialised without arguments.
        mpi.check(unsafe { init(ptr::null_mut(), ptr::null_mut(), FUNNELED, &raw mut level) })?;
        // SAFETY: both handles are fixed by the interface.
        mpi.check(unsafe { set_errhandler(WORLD, ERRORS_RETURN) })?;
        Ok(mpi)
    }

    fn check(&self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        let (mut text, mut length) = ([0; 1024], 0);
        // SAFETY: the text has room for the longest message of the interface, 512 bytes, and ends with a zero.
        let why = unsafe {
            (self.error_string)(code, text.as_mut_ptr(), &raw mut length);
            CStr::from_ptr(text.as_ptr())
        };
        Err(format!("MPI failed: {}", why.to_string_lossy()))
    }

    /// Begins to send bytes, which stay in the request until it is done.
    pub fn send(&self, bytes: Vec<u8>, to: usize) -> Result<Request, String> {
        let count = c_int::try_from(bytes.len()).map_err(|_| "a message of more than 2 GB".to_owned())?;
        let mut request = Request { handle: ptr::null_mut(), bytes };
        let (to, handle) = (to as c_int, &raw mut request.handle);
        // SAFETY: the bytes live in the request until it is done; moving the request does not move them.
        self.check(unsafe { (self.isend)(request.bytes.as_ptr().cast(), count, BYTE, to, TAG, WORLD, handle) })?;
        Ok(request)
    }

    /// Begins to receive the next message, if there is one, into the bytes of `spare`; and its sender.
    pub fn receive(&self, spare: &mut Vec<Vec<u8>>) -> Result<Option<(usize, Request)>, String> {
        let (mut found, mut message, mut status) = (0, ptr::null_mut(), Status::default());
        let (flag, place) = (&raw mut found, &raw mut message);
        // SAFETY: all pointers are those of living values of the interface's types.
        self.check(unsafe { (self.improbe)(ANY_SOURCE, TAG, WORLD, flag, place, &raw mut status) })?;
        if found == 0 {
            return Ok(None);
        }
        let mut count = 0;
        // SAFETY: as above.
        self.check(unsafe { (self.get_count)(&raw const status, BYTE, &raw mut count) })?;
        let mut bytes = spare.pop().unwrap_or_default();
        let length = usize::try_from(count).unwrap_or(0);
        let more = length.saturating_sub(bytes.len());
        bytes.try_reserve_exact(more).map_err(|_| format!("no memory for a message of {length} bytes"))?;
        bytes.resize(length, 0);
        let mut request = Request { handle: ptr::null_mut(), bytes };
        let (start, handle) = (request.bytes.as_mut_ptr().cast(), &raw mut request.handle);
        // SAFETY: there is room for the message; its bytes live in the request until it is done.
        self.check(unsafe { (self.imrecv)(start, count, BYTE, place, handle) })?;
        Ok(Some((usize::try_from(status.source).unwrap_or(usize::MAX), request)))
    }

    /// Whether a message is over.
    pub fn is_done(&self, request: &mut Request) -> Result<bool, String> {
        let (mut done, mut status) = (0, Status::default());
        // SAFETY: as above; the request is live or null, which is done.
        self.check(unsafe { (self.test)(&raw mut request.handle, &raw mut done, &raw mut status) })?;
        Ok(done != 0)
    }
}
