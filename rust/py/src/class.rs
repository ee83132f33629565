//! The class `Tensor`, made with CPython's type constructor, because the lifetime of a `TensorImpl` controls that of
//! its object.

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::offset_of;

use pyo3::ffi;
use pyo3::impl_::trampoline as shell;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::object::{self, Object, slot};
use crate::{attributes, methods, number_slots, protocol, quantized, sparse, tensor_methods, to};

const DOC: &CStr = c"An n-dimensional array of elements of one dtype, on one device, with gradients.

`torch.tensor` makes one of numbers, `torch.zeros`, `torch.rand` and similar functions one of a shape. A view shares its
storage with other tensors: changes through one are seen through all. With ``requires_grad=True`` operators are
recorded, and ``backward()`` collects the gradients in ``grad``.

>>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> x.shape, x.dtype, x.device
(torch.Size([2, 2]), torch.float32, device(type='cpu'))
>>> (x * x).sum().backward()
>>> x.grad
tensor([[2., 4.],
        [6., 8.]])
";

/// `Tensor(...)`: the legacy constructor, which is implemented in Python.
///
/// # Safety
/// Only the interpreter calls it, as the class's `tp_new`.
unsafe fn construct(
    py: Python<'_>,
    class: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: CPython passes a class, a tuple, and a dictionary or null.
    let (class, args, kwargs) = unsafe {
        (
            Bound::from_borrowed_ptr(py, class.cast()),
            Bound::from_borrowed_ptr(py, args).cast_into::<PyTuple>()?,
            Bound::from_borrowed_ptr_or_opt(py, kwargs).map(|kwargs| kwargs.cast_into::<PyDict>()).transpose()?,
        )
    };
    let maker = py.import("rushlight._legacy_constructors")?.getattr("construct")?;
    let kwargs = kwargs.unwrap_or_else(|| PyDict::new(py));
    Ok(maker.call1((class, args, kwargs))?.into_ptr())
}

struct Construct;
impl shell::MethodDef<shell::newfunc::Func> for Construct {
    const METH: shell::newfunc::Func = construct;
}

/// A tensor's hash is its identity, so that parameters may be keys of dictionaries.
///
/// # Safety
/// `own` is a living object.
unsafe fn hash(_: Python<'_>, own: *mut ffi::PyObject) -> PyResult<ffi::Py_hash_t> {
    Ok((own as usize).rotate_right(4) as ffi::Py_hash_t)
}

struct Hash;
impl shell::MethodDef<shell::hashfunc::Func> for Hash {
    const METH: shell::hashfunc::Func = hash;
}

/// Makes the class.
pub fn make(py: Python<'_>) -> PyResult<*mut ffi::PyTypeObject> {
    let members = Box::leak(Box::new([
        member(c"__dictoffset__", offset_of!(Object, dict)),
        member(c"__weaklistoffset__", offset_of!(Object, weakrefs)),
        // SAFETY: the end of the list is a zeroed entry.
        unsafe { std::mem::zeroed::<ffi::PyMemberDef>() },
    ]));
    let mut slots = vec![
        slot(ffi::Py_tp_new, shell::newfunc::<Construct> as *mut c_void),
        slot(ffi::Py_tp_dealloc, object::dealloc as *mut c_void),
        slot(ffi::Py_tp_traverse, object::traverse as *mut c_void),
        slot(ffi::Py_tp_clear, object::clear as *mut c_void),
        slot(ffi::Py_tp_hash, shell::hashfunc::<Hash> as *mut c_void),
        slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, attributes::getset().cast()),
        slot(ffi::Py_tp_doc, DOC.as_ptr().cast_mut().cast()),
    ];
    slots.extend(number_slots::slots());
    slots.extend(protocol::slots());
    slots.extend(crate::index::slots());
    let mut methods = methods::definitions();
    methods.extend(to::definitions());
    methods.extend(tensor_methods::definitions());
    methods.extend(sparse::definitions());
    methods.extend(quantized::definitions());
    // SAFETY: the end of the list is a zeroed entry.
    methods.push(unsafe { std::mem::zeroed() });
    slots.push(slot(ffi::Py_tp_methods, methods.leak().as_mut_ptr().cast()));
    slots.push(slot(0, std::ptr::null_mut()));
    let name = CString::new("rushlight.Tensor")?;
    let mut spec = ffi::PyType_Spec {
        name: name.into_raw(),
        basicsize: size_of::<Object>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_HAVE_GC) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification is complete and its name is leaked.
    let class = unsafe { ffi::PyType_FromSpec(&raw mut spec) };
    if class.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: the class was just made.
    let bound = unsafe { Bound::from_borrowed_ptr(py, class) };
    // The interpreter's messages then show its name without the module, as for a class made in Python.
    bound.setattr("__name__", "Tensor")?;
    bound.setattr("__rdiv__", bound.getattr("__rtruediv__")?)?;
    object::set_class(class.cast());
    Ok(class.cast())
}

fn member(name: &'static std::ffi::CStr, offset: usize) -> ffi::PyMemberDef {
    ffi::PyMemberDef {
        name: name.as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: offset as ffi::Py_ssize_t,
        flags: ffi::Py_READONLY,
        doc: std::ptr::null(),
    }
}
