//! The Python object of a tensor, which holds a handle on a `TensorImpl`.
//!
//! A `TensorImpl` always has the same object. The `TensorImpl` has a borrowed pointer to it, cleared when the object is
//! destroyed. Some of them outlive the last reference to their objects (for example, a parameter that only the graph
//! still holds). If such an object has a subclass, attributes or weak references, it is not destroyed: the `TensorImpl`
//! keeps it until the object is needed again, or until the object has the last handle on the `TensorImpl`.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::{Borrowed, ffi};
use rushlight::Tensor;

use crate::errors::kind_of;
use crate::reclaim::{DeferredDrop, Owned};

#[repr(C)]
pub struct Object {
    head: ffi::PyObject,
    /// Empty only while the object is destroyed.
    tensor: ManuallyDrop<Option<Tensor>>,
    pub dict: *mut ffi::PyObject,
    pub weakrefs: *mut ffi::PyObject,
}

static CLASS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// The class `Tensor`.
#[inline]
pub fn class() -> *mut ffi::PyTypeObject {
    CLASS.load(Ordering::Relaxed)
}

pub fn set_class(class: *mut ffi::PyTypeObject) {
    CLASS.store(class, Ordering::Release);
    rushlight_autograd::set_left_alone(left_alone);
}

/// Called with the last handle on a `TensorImpl` besides that of its object, which it keeps; on any thread, and while
/// the interpreter exits.
fn left_alone(last: Tensor) {
    drop(DeferredDrop::new(LastHandle(last)));
}

/// The last handle on a `TensorImpl` besides that of its object.
struct LastHandle(Tensor);

impl Owned for LastHandle {
    fn end(self: Box<Self>, py: Python<'_>) {
        let tensor = self.0;
        // The object may have been needed again meanwhile, and other handles may have been made from it.
        if tensor.keeps_python() && tensor.owners() == 2 {
            let object = tensor.python().cast::<ffi::PyObject>();
            tensor.release_python();
            drop(tensor);
            // SAFETY: the `TensorImpl` owned one reference.
            drop(unsafe { Bound::from_owned_ptr(py, object) });
        }
    }
}

/// Whether an object is a tensor, of the class itself or of a subclass.
#[inline]
pub fn is_tensor(object: &Bound<'_, PyAny>) -> bool {
    as_tensor(object.as_borrowed()).is_some()
}

/// Whether an object is a tensor of no subclass.
pub fn is_exact(object: &Bound<'_, PyAny>) -> bool {
    object.get_type().as_type_ptr() == class()
}

/// The tensor behind an object, if it is one.
///
/// # Safety
/// `object` lives as long as the result is used.
#[inline]
pub unsafe fn tensor_of<'a>(object: *mut ffi::PyObject) -> Option<&'a Tensor> {
    // SAFETY: a living object, and type checks do not run Python code; instances of the class and its subclasses begin
    // with an `Object`.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        let derived = kind == class() || ffi::PyType_IsSubtype(kind, class()) != 0;
        if derived { (*object.cast::<Object>()).tensor.as_ref() } else { None }
    }
}

/// The same for an object that is known to be alive.
#[inline]
pub fn as_tensor<'a>(object: Borrowed<'a, '_, PyAny>) -> Option<&'a Tensor> {
    // SAFETY: the borrow keeps the object alive.
    unsafe { tensor_of(object.as_ptr()) }
}

/// The tensor behind an object, or an exception if it is not one.
pub fn tensor<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<&'a Tensor> {
    as_tensor(object.as_borrowed()).ok_or_else(|| {
        let name = kind_of(object);
        PyTypeError::new_err(format!("expected Tensor, got {name}"))
    })
}

/// The Python object of a tensor: the existing one, or a new one. The result is a new reference.
#[inline]
pub fn wrap(py: Python<'_>, tensor: Tensor) -> PyResult<*mut ffi::PyObject> {
    let known = tensor.python().cast::<ffi::PyObject>();
    if known.is_null() {
        return allocate(py, class(), tensor);
    }
    if tensor.keeps_python() {
        // The `TensorImpl`'s reference becomes the caller's.
        tensor.release_python();
    } else {
        // SAFETY: a `TensorImpl`'s pointer is cleared before its object is destroyed.
        unsafe { ffi::Py_IncRef(known) };
    }
    Ok(known)
}

pub fn wrap_bound(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let object = wrap(py, tensor)?;
    // SAFETY: `wrap` returns a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, object) })
}

/// Destroyed objects of the class itself, kept for reuse as CPython reuses its own tuples and lists: memory and the
/// garbage collector's bookkeeping are two thirds of an object's cost. Accessed only with the GIL.
struct FreeList {
    objects: [*mut ffi::PyObject; 128],
    count: usize,
}

struct FreeListCell(UnsafeCell<FreeList>);
// SAFETY: the GIL guards it.
unsafe impl Sync for FreeListCell {}

static FREE_LIST: FreeListCell = FreeListCell(UnsafeCell::new(FreeList { objects: [ptr::null_mut(); 128], count: 0 }));

impl FreeList {
    #[inline]
    fn take(_: Python<'_>) -> Option<*mut ffi::PyObject> {
        // SAFETY: the GIL is held, and nothing here calls the interpreter, which could create a second reference.
        let idle = unsafe { &mut *FREE_LIST.0.get() };
        idle.count = idle.count.checked_sub(1)?;
        Some(idle.objects[idle.count])
    }

    /// Whether there was room for it.
    #[inline]
    fn keep(_: Python<'_>, object: *mut ffi::PyObject) -> bool {
        // SAFETY: as above.
        let idle = unsafe { &mut *FREE_LIST.0.get() };
        let room = idle.count < idle.objects.len();
        if room {
            idle.objects[idle.count] = object;
            idle.count += 1;
        }
        room
    }
}

/// A new object of `class` (the class of tensors or one derived from it) for a `TensorImpl` that has none.
#[inline]
pub fn allocate(py: Python<'_>, class: *mut ffi::PyTypeObject, tensor: Tensor) -> PyResult<*mut ffi::PyObject> {
    crate::exit::keep_frames();
    if class == self::class()
        && let Some(object) = FreeList::take(py)
    {
        tensor.set_python(object.cast());
        // SAFETY: an idle object is memory of this class that the garbage collector does not track; `dealloc` has
        // emptied it.
        unsafe {
            let own = object.cast::<Object>();
            ffi::PyObject_Init(object, class);
            ptr::write(&raw mut (*own).tensor, ManuallyDrop::new(Some(tensor)));
            (*own).dict = ptr::null_mut();
            (*own).weakrefs = ptr::null_mut();
            ffi::PyObject_GC_Track(object.cast());
        }
        return Ok(object);
    }
    // SAFETY: a class of tensors; the allocator zeroes the memory after the header.
    let object = unsafe { ffi::PyType_GenericAlloc(class, 0) };
    if object.is_null() {
        return Err(PyErr::fetch(py));
    }
    tensor.set_python(object.cast());
    // SAFETY: the memory is ours and as large as an `Object`.
    unsafe { ptr::write(&raw mut (*object.cast::<Object>()).tensor, ManuallyDrop::new(Some(tensor))) };
    Ok(object)
}

/// Makes `tensor` appear as an instance of `class` from now on; it must not have an object yet.
pub fn wrap_as<'py>(class: &Bound<'py, PyAny>, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let kind = class.as_ptr().cast::<ffi::PyTypeObject>();
    // SAFETY: checked to be a type before the check that it derives from the class of tensors.
    let derived = unsafe { ffi::PyType_Check(class.as_ptr()) != 0 && ffi::PyType_IsSubtype(kind, self::class()) != 0 };
    if !derived {
        return Err(PyTypeError::new_err(if class.is_instance_of::<pyo3::types::PyType>() {
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class inherits from Tensor.".to_string()
        } else {
            format!("cls must be a type (got {})", kind_of(class))
        }));
    }
    let object = allocate(py, kind, tensor)?;
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, object) })
}

/// Whether an object has state besides its address.
///
/// # Safety
/// `object` is alive.
unsafe fn has_own(object: *mut Object) -> bool {
    // SAFETY: a living object.
    unsafe {
        ffi::Py_TYPE(object.cast()) != class()
            || !(*object).weakrefs.is_null()
            || (!(*object).dict.is_null() && ffi::PyDict_Size((*object).dict) > 0)
    }
}

/// # Safety
/// Only the interpreter calls it, once, with the last reference gone.
pub unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this once, with the last reference gone.
    unsafe {
        let own = object.cast::<Object>();
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_GC_UnTrack(object.cast());
        if has_own(own) && (*own).tensor.as_ref().is_some_and(Tensor::keep_python) {
            // Not destroyed: the `TensorImpl` has this reference now.
            ffi::Py_IncRef(object);
            ffi::PyObject_GC_Track(object.cast());
            return;
        }
        // Done before any of the user's code runs: if that code gets the `TensorImpl`'s object, it gets a new one.
        let tensor = (*own).tensor.take();
        if let Some(tensor) = &tensor {
            tensor.set_python(ptr::null_mut());
        }
        if !(*own).weakrefs.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        drop(tensor);
        let py = Python::assume_attached();
        crate::reclaim::drain(py);
        let dict = std::mem::replace(&mut (*own).dict, ptr::null_mut());
        if !dict.is_null() {
            ffi::Py_DecRef(dict);
        }
        if kind != class() || !FreeList::keep(py, object) {
            ffi::PyObject_GC_Del(object.cast());
        }
        // For a subclass too: the interpreter leaves this to the nearest base that is a heap type.
        ffi::Py_DecRef(kind.cast());
    }
}

/// # Safety
/// Only the collector calls it, with a living object.
pub unsafe extern "C" fn traverse(object: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: called by the garbage collector with a living object, with the GIL; only its own references are visited.
    unsafe {
        let own = object.cast::<Object>();
        let shared = (*own).tensor.as_ref().is_some_and(|tensor| tensor.owners() > 1 && !tensor.keeps_python());
        // Attributes live as long as the `TensorImpl`. So a cycle through them is not shown to the collector while there
        // are other handles, which it does not know: such a cycle is reachable. An object that the `TensorImpl` keeps is
        // reachable anyway.
        if !(*own).dict.is_null() && !shared {
            let stop = visit((*own).dict, arg);
            if stop != 0 {
                return stop;
            }
        }
        // What the `TensorImpl` holds belongs to this object only while there is no other handle on the `TensorImpl`.
        if let Some(tensor) = (*own).tensor.as_ref().filter(|tensor| tensor.owners() == 1) {
            let mut stop = 0;
            tensor.objects(&mut |object| {
                if stop == 0 {
                    stop = visit(object.cast(), arg);
                }
            });
            if stop != 0 {
                return stop;
            }
        }
        visit(ffi::Py_TYPE(object).cast(), arg)
    }
}

/// # Safety
/// Only the collector calls it, with a living object.
pub unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: called by the garbage collector with a living object, with the GIL.
    unsafe {
        let own = object.cast::<Object>();
        if let Some(tensor) = (*own).tensor.as_ref() {
            if tensor.owners() > 1 {
                return 0;
            }
            tensor.forget_objects();
        }
        let dict = std::mem::replace(&mut (*own).dict, ptr::null_mut());
        if !dict.is_null() {
            ffi::Py_DecRef(dict);
        }
        crate::reclaim::drain(Python::assume_attached());
    }
    0
}

/// A tensor, or `None`.
pub fn optional_object<'py>(py: Python<'py>, tensor: Option<Tensor>) -> PyResult<Bound<'py, PyAny>> {
    match tensor {
        Some(tensor) => wrap_bound(py, tensor),
        None => Ok(py.None().into_bound(py)),
    }
}

/// A slot in the form of CPython's type constructor.
pub fn slot(number: c_int, function: *mut c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot { slot: number, pfunc: function }
}
