//! What the exported functions return: 0, or 1 with an error that this thread keeps until the next one.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rushlight_core::{Error, Result};

pub type Code = i32;

thread_local! {
    static LAST: Cell<Option<Error>> = const { Cell::new(None) };
    /// The text of the last error, to which callers hold pointers.
    static TEXT: RefCell<CString> = RefCell::new(CString::default());
}

/// The error of the last function that failed on this thread, once.
pub fn take_last() -> Option<Error> {
    LAST.take()
}

pub fn keep(error: Error) {
    let text = error.to_string().replace('\0', " ");
    TEXT.set(CString::new(text).unwrap_or_default());
    LAST.set(Some(error));
}

/// Runs the body of an exported function. A panic must not reach the library, which cannot unwind it.
pub fn code(body: impl FnOnce() -> Result<()>) -> Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            keep(error);
            1
        }
        Err(_) => {
            keep(Error::runtime("the engine failed inside a function of the stable ABI"));
            1
        }
    }
}

/// Defines exported functions that return a code. Their bodies may use pointers of the caller as the ABI has them.
macro_rules! export {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// The arguments are what the ABI says: handles that were not deleted, and pointers to what their names say.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $crate::errors::Code {
            $crate::errors::code(|| {
                // SAFETY: guaranteed by the caller (see `# Safety`).
                #[allow(unused_unsafe, reason = "some bodies use no pointer")]
                unsafe { $body }
                #[allow(unreachable_code, reason = "some bodies always refuse")]
                Ok(())
            })
        }
    )*};
}
pub(crate) use export;

/// The text of the last error of this thread, valid until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn torch_exception_get_what() -> *const c_char {
    TEXT.with_borrow(|text| text.as_ptr())
}

#[unsafe(no_mangle)]
pub extern "C" fn torch_exception_get_what_without_backtrace() -> *const c_char {
    torch_exception_get_what()
}
