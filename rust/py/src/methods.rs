//! Methods of `Tensor` that are not operators: geometry, conversion to Python, history. Those about its storage, hooks
//! and class are in `tensor_methods`.
//!
//! Each is a C function of its own with named parameters; `methods!` writes the wrappers.

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};
use pyo3::{IntoPyObjectExt, ffi};
use rushlight::{Device, Tensor};
use rushlight_core::layout::wrap_dim;
use rushlight_dispatch::vmap::levels;

use crate::dtype::PyMemoryFormat;
use crate::errors::{kind_of, raise};
use crate::parse::Call;
use crate::{convert, dlpack, memory_access, numpy, object, overrides, parse, scalars, sequences, size};

/// An error inside of the function of a transform, whose derivatives a leaf of its own would cut off.
fn refuse_in_transform(name: &str, or: &str) -> PyResult<()> {
    if rushlight_autograd::modes::current().transforms == 0 && levels::current().is_empty() {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "You are attempting to call Tensor.{name}(){or} inside of a function being transformed by a functorch transform. This is \
         unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call {name}() outside \
         of a function being transformed instead."
    )))
}

/// A method's object and the tensor in it.
pub struct Own<'a, 'py> {
    pub object: &'a Bound<'py, PyAny>,
    pub tensor: &'a Tensor,
}

impl<'py> Own<'_, 'py> {
    pub fn py(&self) -> Python<'py> {
        self.object.py()
    }

    pub fn wrap(&self, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
        object::wrap_bound(self.py(), tensor)
    }

    pub fn give<T: IntoPyObjectExt<'py>>(&self, value: T) -> PyResult<Bound<'py, PyAny>> {
        value.into_bound_py_any(self.py())
    }

    /// The object itself, which methods that change it return.
    pub fn same(&self) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.object.clone())
    }
}

type Argument<'py> = Option<Bound<'py, PyAny>>;

/// The result of `__torch_function__` for a method, if there is an override.
#[cold]
pub fn answer(name: &str, call: &Call) -> PyResult<Option<*mut ffi::PyObject>> {
    // It sets the class of its result itself, and overrides call it last.
    if name == "as_subclass" {
        return Ok(None);
    }
    overrides::answer(&overrides::Public::Method(name), call)
}

/// A parameter in the text from which `inspect` reads a signature.
#[macro_export]
macro_rules! parameter_text {
    ($name:ident) => {
        concat!(", ", stringify!($name), "=None")
    };
    ($name:ident required) => {
        concat!(", ", stringify!($name))
    };
    ($name:ident $default:ident) => {
        concat!(", ", stringify!($name), "=", stringify!($default))
    };
}

/// Writes methods: `fn name(own, parameter..) "documentation" { body }`, where each parameter is an optional object.
/// The text behind a parameter's `=` is for the signature only: its default, or `required`.
#[macro_export]
macro_rules! methods {
    ($(fn $name:ident($own:ident $(, $param:ident $(= $default:ident)?)*) $doc:literal $body:block)*) => {
        /// The definitions in the form of CPython's type constructor, without the terminating entry.
        pub fn definitions() -> Vec<pyo3::ffi::PyMethodDef> {
            vec![$({
                struct Def;
                impl pyo3::impl_::trampoline::MethodDef<pyo3::impl_::trampoline::fastcall_cfunction_with_keywords::Func> for Def {
                    const METH: pyo3::impl_::trampoline::fastcall_cfunction_with_keywords::Func = |py, own, args, count, names| {
                        fn body<'py>(
                            $own: &$crate::methods::Own<'_, 'py>
                            $(, $param: Option<pyo3::Bound<'py, pyo3::PyAny>>)*
                        ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> $body
                        // SAFETY: CPython calls this on a living instance, with arguments of a fast call.
                        unsafe {
                            let name = stringify!($name).trim_start_matches("r#");
                            let call = $crate::parse::Call::fastcall(py, Some(own), args, count, names);
                            if $crate::overrides::ever_overridden()
                                && let Some(answer) = $crate::methods::answer(name, &call)?
                            {
                                return Ok(answer);
                            }
                            let [$($param),*] = $crate::parse::sort(name, [$(stringify!($param)),*], &call)?;
                            let object = pyo3::Bound::from_borrowed_ptr(py, own);
                            let tensor = $crate::object::tensor(&object)?;
                            match body(&$crate::methods::Own { object: &object, tensor } $(, $param)*) {
                                Ok(result) => Ok(result.into_ptr()),
                                // An argument that is not a tensor may still have an override.
                                Err(error) => match $crate::methods::answer(name, &call)? {
                                    Some(answer) => Ok(answer),
                                    None => Err(error),
                                },
                            }
                        }
                    };
                }
                pyo3::ffi::PyMethodDef {
                    ml_name: concat!(stringify!($name), "\0").trim_start_matches("r#").as_ptr().cast(),
                    ml_meth: pyo3::ffi::PyMethodDefPointer {
                        PyCFunctionFastWithKeywords: pyo3::impl_::trampoline::fastcall_cfunction_with_keywords::<Def>,
                    },
                    ml_flags: pyo3::ffi::METH_FASTCALL | pyo3::ffi::METH_KEYWORDS,
                    ml_doc: concat!(
                        stringify!($name), "($self", $($crate::parameter_text!($param $($default)?),)* ")\n--\n\n", $doc, "\0"
                    ).trim_start_matches("r#").as_ptr().cast(),
                }
            }),*]
        }
    };
}

/// torch's error for the geometry of compressed sparse tensors.
fn without_strides(own: &Own, what: &str) -> PyResult<()> {
    let Some(parts) = own.tensor.compressed_parts() else { return Ok(()) };
    let name = parts.format.layout_name().trim_start_matches("Sparse").to_uppercase();
    Err(PyRuntimeError::new_err(format!("Sparse {name} tensors do not have {what}")))
}

methods! {
    fn size(own, dim) "The sizes of all dimensions, or of one." {
        match dim.filter(|dim| !dim.is_none()) {
            None => size::make(own.py(), own.tensor.sizes()),
            Some(dim) => own.give(own.tensor.sizes()[axis(own, &dim, "size")?]),
        }
    }
    fn stride(own, dim) "The strides of all dimensions, or of one, in elements." {
        without_strides(own, "strides")?;
        let strides = &own.tensor.layout().strides;
        match dim.filter(|dim| !dim.is_none()) {
            None => Ok(PyTuple::new(own.py(), strides.iter())?.into_any()),
            Some(dim) => own.give(strides[axis(own, &dim, "stride")?]),
        }
    }
    fn dim(own) "The number of dimensions." { own.give(own.tensor.rank()) }
    fn ndimension(own) "The number of dimensions." { own.give(own.tensor.rank()) }
    fn numel(own) "The number of elements." { own.give(own.tensor.numel()) }
    fn nelement(own) "The number of elements." { own.give(own.tensor.numel()) }
    fn storage_offset(own) "The offset of the first element in the storage, in elements." {
        own.give(own.tensor.layout().offset)
    }
    fn element_size(own) "The bytes of one element." { own.give(own.tensor.dtype().size()) }
    fn data_ptr(own) "The address of the first element." {
        if own.tensor.is_sparse() || own.tensor.is_batched() {
            return Err(PyRuntimeError::new_err("Cannot access data pointer of Tensor that doesn't have storage"));
        }
        own.give(memory_access::address(own.tensor))
    }
    fn get_device(own) "The index of the CUDA device, or -1 on the CPU." {
        own.give(if let Device::Cuda(index) = own.tensor.device() { i64::from(index) } else { -1 })
    }
    fn is_contiguous(own, memory_format) "Whether the elements lie in memory in the order of a format, without gaps." {
        without_strides(own, "is_contiguous")?;
        if own.tensor.is_sparse() {
            return own.give(false);
        }
        let format = memory_format.map(|format| named_format(&format)).transpose()?;
        own.give(rushlight_core::memory_format::is_contiguous(own.tensor.layout(), format).map_err(raise)?)
    }
    fn is_set_to(own, tensor = required) "Whether both tensors have the same storage and the same geometry." {
        let other = required(tensor, "is_set_to", "tensor")?;
        let other = object::tensor(&other)?;
        let (a, b) = (own.tensor.meta(), other.meta());
        own.give(a.storage.same(&b.storage) && a.layout == b.layout && own.tensor.is_lazy_conj() == other.is_lazy_conj())
    }
    fn is_same_size(own, other = required) "Whether both tensors have the same sizes." {
        let other = required(other, "is_same_size", "other")?;
        own.give(own.tensor.sizes() == object::tensor(&other)?.sizes())
    }
    fn is_pinned(own, device) "Whether the elements are in pinned memory." {
        let _ = device;
        own.give(!own.tensor.is_sparse() && own.tensor.storage().is_page_locked())
    }
    fn is_conj(own) "Whether the tensor is a conjugate view, computed when its elements are read." {
        own.give(own.tensor.is_lazy_conj() && own.tensor.dtype().is_complex())
    }
    fn is_neg(own) "Whether the tensor is a negative view, computed when its elements are read." {
        own.give(own.tensor.is_lazy_conj() && !own.tensor.dtype().is_complex())
    }
    fn _is_view(own) "Whether the tensor is a view of another one." { own.give(own.tensor.is_view()) }
    fn is_floating_point(own) "Whether the elements are floating-point numbers." { own.give(own.tensor.dtype().is_floating()) }
    fn is_complex(own) "Whether the elements are complex numbers." { own.give(own.tensor.dtype().is_complex()) }
    fn is_signed(own) "Whether the elements may be negative." {
        if own.tensor.is_quantized() {
            return Err(PyRuntimeError::new_err("isSignedType not supported for quantized types"));
        }
        own.give(own.tensor.dtype().is_signed())
    }
    fn __dlpack__(own, stream, max_version, dl_device, copy) "The same elements as a DLPack capsule." {
        dlpack::export(own.py(), own.tensor, dlpack::ExportOptions { stream, max_version, dl_device, copy })
    }
    fn __dlpack_device__(own) "The device, in DLPack's numbers." {
        let place = dlpack::device(own.tensor, true)?;
        own.give(place)
    }
    fn is_shared(own) "Whether the elements are in shared memory." {
        memory_access::with_memory(own.tensor)?;
        own.give(matches!(own.tensor.device(), Device::Cuda(_)) || own.tensor.storage().is_cross_process())
    }
    fn is_inference(own) "Whether the tensor was made in inference mode." { own.give(own.tensor.is_inference()) }
    fn detach(own) "The same elements without history." { own.wrap(own.tensor.detach()) }
    fn detach_(own) "Removes the tensor's history." {
        own.tensor.detach_().map_err(raise)?;
        own.same()
    }
    fn requires_grad_(own, requires_grad = True) "Sets whether the tensor requires gradients." {
        let wanted = flag(requires_grad, "requires_grad_(): argument 'requires_grad' (position 1)")?.unwrap_or(true);
        refuse_in_transform("requires_grad_", " (or perhaps using torch.autograd.functional.* APIs)")?;
        own.tensor.set_requires_grad(wanted).map_err(raise)?;
        own.same()
    }
    fn retain_grad(own) "Makes backward() store this tensor's gradient in .grad." {
        refuse_in_transform("retain_grad", "")?;
        own.tensor.retain_grad().map_err(raise)?;
        own.give(own.py().None())
    }
    fn item(own) "The only element as a Python number." {
        convert::scalar_object(own.py(), rushlight::item(own.tensor).map_err(raise)?)
    }
    fn tolist(own) "The elements as nested lists; a number for a 0-d tensor." { sequences::list(own.py(), own.tensor) }
    fn numpy(own, force = False) "The same elements as a NumPy array, without a copy." {
        let force = flag(force, "numpy(): argument 'force'")?.unwrap_or(false);
        numpy::export(own.py(), own.tensor, force)
    }
    fn __array__(own, dtype, copy) "The same elements as a NumPy array." {
        numpy::array(own.py(), own.tensor, dtype, copy)
    }
    fn __format__(own, spec = required) "The formatted number of a 0-d tensor; else the tensor's text." {
        let spec = spec.ok_or_else(|| PyTypeError::new_err("__format__() takes exactly one argument (0 given)"))?;
        // The text of a parameter names its class.
        let is_plain = own.object.get_type().as_type_ptr() == object::class();
        if is_plain && own.tensor.rank() == 0 && own.tensor.device() != Device::Meta {
            let number = convert::scalar_object(own.py(), rushlight::item(own.tensor).map_err(raise)?)?;
            return number.call_method1("__format__", (spec,));
        }
        let object = own.py().get_type::<PyAny>();
        object.call_method1("__format__", (own.object, spec))
    }
    fn __complex__(own) "The only element as a complex number." {
        own.give(crate::protocol::python_number(own.tensor)?.complex())
    }
}

fn required<'py>(argument: Argument<'py>, method: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    argument.ok_or_else(|| PyTypeError::new_err(parse::missing(method, &[name])))
}

/// An argument that is True or False, if it is given.
fn flag(argument: Argument<'_>, place: &str) -> PyResult<Option<bool>> {
    let Some(object) = argument else { return Ok(None) };
    match object.cast::<PyBool>() {
        Ok(flag) => Ok(Some(flag.is_true())),
        Err(_) => Err(PyTypeError::new_err(format!("{place} must be bool, not {}", kind_of(&object)))),
    }
}

pub fn named_format(format: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    let format = format
        .cast::<PyMemoryFormat>()
        .map_err(|_| PyTypeError::new_err("memory_format must be torch.memory_format"))?;
    Ok(format.get().0)
}

/// The index of a dimension, counted from the end if negative.
fn axis(own: &Own, dim: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    let Some(dim) = scalars::int(dim)? else {
        let kind = kind_of(dim);
        return Err(PyTypeError::new_err(format!("{name}(): argument 'dim' (position 1) must be int, not {kind}")));
    };
    if own.tensor.rank() == 0 {
        return Err(PyIndexError::new_err(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    wrap_dim(dim, own.tensor.rank()).map_err(raise)
}
