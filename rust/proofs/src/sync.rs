//! `rushlight_core::sync` over loom, which runs a model once for every order of steps and every value that a read may give.
//!
//! Differences from the real primitives: a `SeqCst` access has a fence on either side, since loom orders nothing else in one line, a
//! parked thread never wakes for no reason, and the first use of a static happens before every other use of it.

use std::mem::ManuallyDrop;
use std::time::Duration;

use loom::cell;
use loom::sync::atomic::{AtomicBool, Ordering};

pub use loom::hint;
pub use loom::sync::{Arc, Mutex, MutexGuard};
pub use std::sync::PoisonError;

macro_rules! statics_of_loom {
    ($($(#[$about:meta])* $vis:vis static $name:ident: $type:ty = $value:expr;)*) => {
        loom::lazy_static! {
            $($(#[$about])* static ref $name: $crate::sync::Static<$type> = $crate::sync::Static::new($value);)*
        }
    };
}

macro_rules! thread_local_of_loom {
    ($(#[$about:meta])* static $name:ident: $type:ty = const $value:block;) => {
        loom::thread_local! { $(#[$about])* static $name: $type = $value; }
    };
    ($(#[$about:meta])* static $name:ident: $type:ty = $value:expr;) => {
        loom::thread_local! { $(#[$about])* static $name: $type = $value; }
    };
}

macro_rules! const_fn_of_loom {
    ($(#[$about:meta])* $vis:vis const fn $($rest:tt)*) => {
        $(#[$about])* $vis fn $($rest)*
    };
}

pub(crate) use {const_fn_of_loom as const_fn, statics_of_loom as statics, thread_local_of_loom as thread_local};

pub mod atomic {
    use loom::sync::atomic;

    pub use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

    /// A fence now and another when it ends, around an access that is `SeqCst`.
    struct Line(bool);

    impl Line {
        fn around(order: Ordering) -> Line {
            let line = Line(order == Ordering::SeqCst);
            line.pass();
            line
        }

        fn pass(&self) {
            if self.0 {
                fence(Ordering::SeqCst);
            }
        }
    }

    impl Drop for Line {
        fn drop(&mut self) {
            self.pass();
        }
    }

    /// Those of the types whose accesses are `SeqCst` somewhere.
    macro_rules! lined {
        ($name:ident $(<$of:ident>)?, $value:ty) => {
            pub struct $name$(<$of>)?(atomic::$name$(<$of>)?);

            impl$(<$of>)? $name$(<$of>)? {
                #[track_caller]
                pub fn new(value: $value) -> Self {
                    $name(atomic::$name::new(value))
                }

                #[track_caller]
                pub fn load(&self, order: Ordering) -> $value {
                    let _line = Line::around(order);
                    self.0.load(order)
                }

                #[track_caller]
                pub fn store(&self, value: $value, order: Ordering) {
                    let _line = Line::around(order);
                    self.0.store(value, order);
                }

                #[track_caller]
                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    let _line = Line::around(order);
                    self.0.swap(value, order)
                }

                #[track_caller]
                pub fn compare_exchange(
                    &self,
                    old: $value,
                    new: $value,
                    order: Ordering,
                    else_order: Ordering,
                ) -> Result<$value, $value> {
                    let _line = Line::around(order);
                    self.0.compare_exchange(old, new, order, else_order)
                }

                #[track_caller]
                pub fn compare_exchange_weak(
                    &self,
                    old: $value,
                    new: $value,
                    order: Ordering,
                    else_order: Ordering,
                ) -> Result<$value, $value> {
                    self.compare_exchange(old, new, order, else_order)
                }
            }
        };
    }

    lined!(AtomicU32, u32);
    lined!(AtomicPtr<T>, *mut T);

    impl AtomicU32 {
        #[track_caller]
        pub fn fetch_add(&self, more: u32, order: Ordering) -> u32 {
            let _line = Line::around(order);
            self.0.fetch_add(more, order)
        }

        #[track_caller]
        pub fn fetch_sub(&self, less: u32, order: Ordering) -> u32 {
            let _line = Line::around(order);
            self.0.fetch_sub(less, order)
        }

        #[track_caller]
        pub fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
            let _line = Line::around(order);
            self.0.fetch_or(bits, order)
        }
    }

    impl<T> Default for AtomicPtr<T> {
        fn default() -> Self {
            AtomicPtr::new(std::ptr::null_mut())
        }
    }
}

pub mod thread {
    use std::sync::Arc;

    use loom::sync::{Condvar, Mutex};

    pub use loom::thread::{Builder, yield_now};

    /// Who parks and unparks. loom's own has whoever is unparked know what happened before at once, parked or not.
    #[derive(Clone)]
    pub struct Thread(Arc<(Mutex<bool>, Condvar)>);

    super::thread_local! {
        static OWN: Thread = Thread(Arc::new((Mutex::new(false), Condvar::new())));
    }

    pub fn current() -> Thread {
        OWN.with(Thread::clone)
    }

    pub fn park() {
        let Thread(own) = current();
        let mut token = own.0.lock().expect("nobody panics here");
        while !*token {
            token = own.1.wait(token).expect("nobody panics here");
        }
        *token = false;
    }

    impl Thread {
        pub fn unpark(&self) {
            *self.0.0.lock().expect("nobody panics here") = true;
            self.0.1.notify_one();
        }
    }

    pub fn sleep(_: super::Duration) {
        yield_now();
    }
}

/// A model spins once: more rounds would be the same states again.
pub const fn rounds(_: usize) -> usize {
    1
}

/// A cell whose every access must be ordered with every other.
pub struct UnsafeCell<T> {
    witness: cell::UnsafeCell<()>,
    value: std::cell::UnsafeCell<T>,
}

impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        UnsafeCell { witness: cell::UnsafeCell::new(()), value: std::cell::UnsafeCell::new(value) }
    }

    #[track_caller]
    pub fn get(&self) -> *mut T {
        self.witness.with_mut(|_| ());
        self.value.get()
    }
}

pub struct Once {
    done: AtomicBool,
    turn: Mutex<()>,
}

impl Once {
    pub fn new() -> Self {
        Once { done: AtomicBool::new(false), turn: Mutex::new(()) }
    }

    pub fn call_once(&self, f: impl FnOnce()) {
        if self.done.load(Ordering::Acquire) {
            return;
        }
        let _turn = self.turn.lock();
        if !self.done.load(Ordering::Relaxed) {
            f();
            self.done.store(true, Ordering::Release);
        }
    }
}

/// Written by one thread, as those of our code are.
pub struct OnceLock<T> {
    is_set: AtomicBool,
    value: cell::UnsafeCell<Option<T>>,
}

// SAFETY: loom checks that the write happens before every read.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    pub fn new() -> Self {
        OnceLock { is_set: AtomicBool::new(false), value: cell::UnsafeCell::new(None) }
    }

    pub fn set(&self, value: T) -> Result<(), T> {
        // SAFETY: the only writer, and nobody reads before the flag is set.
        self.value.with_mut(|place| unsafe { *place = Some(value) });
        self.is_set.store(true, Ordering::Release);
        Ok(())
    }

    pub fn get(&self) -> Option<&T> {
        // SAFETY: whoever sees the flag set sees the value, which does not change again.
        self.is_set.load(Ordering::Acquire).then(|| self.value.with(|place| unsafe { (*place).as_ref() })).flatten()
    }
}

/// The functions that `at_fork` was given. They are the same in every run of a model.
static AT_FORK: std::sync::Mutex<Option<[extern "C" fn(); 3]>> = std::sync::Mutex::new(None);

pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    *AT_FORK.lock().unwrap_or_else(PoisonError::into_inner) = Some([prepare, parent, child]);
}

/// The functions that `at_fork` got: those before the fork, and after it in the parent and in the child.
pub fn fork_handlers() -> [extern "C" fn(); 3] {
    AT_FORK.lock().unwrap_or_else(PoisonError::into_inner).expect("installed")
}

/// A static that each run of a model finds as new; never dropped, like others.
pub type Static<T> = ManuallyDrop<T>;
