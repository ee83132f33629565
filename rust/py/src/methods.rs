//! Methods of `Tensor` that are no operators: geometry, conversion to Python, history.
//!
//! Each is a C function of its own with named parameters; `methods!` writes the border.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString, PyTuple};
use rushlight::{Device, Tensor};
use rushlight_core::layout::wrap_dim;

use crate::dtype::PyMemoryFormat;
use crate::errors::{kind_of, raise};
use crate::{convert, dlpack, nested, numpy, object, overrides, parse, size};

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

    /// The object itself, as methods return it that change it.
    pub fn same(&self) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.object.clone())
    }
}

type Argument<'py> = Option<Bound<'py, PyAny>>;

/// Sorts the arguments of a fast call by the parameters' names; none of them is required here.
///
/// # Safety
/// The arguments are as CPython's fast calls give them.
pub unsafe fn bind<'py, const N: usize>(
    py: Python<'py>,
    name: &str,
    params: [&str; N],
    args: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> PyResult<[Argument<'py>; N]> {
    if count > N {
        let sentence = if N == 0 { parse::takes_none(name, count) } else { parse::takes_fewer(name, N, count) };
        return Err(PyTypeError::new_err(sentence));
    }
    // SAFETY: CPython gives `count` values and one more for each name.
    unsafe {
        let mut bound: [Argument<'py>; N] =
            std::array::from_fn(|i| (i < count).then(|| Bound::from_borrowed_ptr(py, *args.add(i))));
        if names.is_null() {
            return Ok(bound);
        }
        let keywords = Bound::from_borrowed_ptr(py, names).cast_into::<PyTuple>()?;
        for (at, keyword) in keywords.iter().enumerate() {
            let keyword = keyword.cast::<PyString>()?.to_cow()?;
            let Some(place) = params.iter().position(|param| *param == keyword) else {
                return Err(PyTypeError::new_err(format!("{name}() got an unexpected keyword argument '{keyword}'")));
            };
            if bound[place].is_some() {
                return Err(PyTypeError::new_err(format!("{name}() got multiple values for argument '{keyword}'")));
            }
            bound[place] = Some(Bound::from_borrowed_ptr(py, *args.add(count + at)));
        }
        Ok(bound)
    }
}

/// What whoever overrides a method answers.
///
/// # Safety
/// As for `bind`; `own` is a living object.
#[cold]
pub unsafe fn answer(
    py: Python<'_>,
    name: &str,
    own: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> PyResult<Option<*mut ffi::PyObject>> {
    // Says itself of which class its result is, and handlers end with it.
    if name == "as_subclass" {
        return Ok(None);
    }
    // SAFETY: CPython gives `count` values and one more for each name.
    unsafe {
        let named = if names.is_null() { 0 } else { ffi::PyTuple_Size(names) };
        let keywords: Vec<_> = (0..named).map(|at| ffi::PyTuple_GetItem(names, at)).collect();
        let mut all = vec![own];
        all.extend((0..count).map(|at| *args.add(at)));
        let values: Vec<_> = (count..count + keywords.len()).map(|at| *args.add(at)).collect();
        let public = overrides::Public::Method(name.trim_start_matches("r#"));
        overrides::answer(py, &public, &all, &keywords, &values)
    }
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

/// Writes methods: `fn name(own, parameter..) "documentation" { body }`, where each parameter is an optional object. What
/// stands behind a parameter's `=` is for the reader of the signature: its default, or `required`.
#[macro_export]
macro_rules! methods {
    ($(fn $name:ident($own:ident $(, $param:ident $(= $default:ident)?)*) $doc:literal $body:block)*) => {
        /// The definitions as CPython's type constructor wants them, without the end.
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
                            if $crate::overrides::expected()
                                && let Some(answer) = $crate::methods::answer(py, stringify!($name), own, args, count as usize, names)?
                            {
                                return Ok(answer);
                            }
                            let [$($param),*] = $crate::methods::bind(
                                py, stringify!($name), [$(stringify!($param)),*], args, count as usize, names,
                            )?;
                            let object = pyo3::Bound::from_borrowed_ptr(py, own);
                            let tensor = $crate::object::tensor(&object)?;
                            match body(&$crate::methods::Own { object: &object, tensor } $(, $param)*) {
                                Ok(result) => Ok(result.into_ptr()),
                                // What is no tensor may still answer for itself.
                                Err(error) => match $crate::methods::answer(py, stringify!($name), own, args, count as usize, names)? {
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

methods! {
    fn size(own, dim) "The sizes of all dimensions, or of one." {
        match dim.filter(|dim| !dim.is_none()) {
            None => size::make(own.py(), own.tensor.sizes()),
            Some(dim) => own.give(own.tensor.sizes()[axis(own, &dim, "size")?]),
        }
    }
    fn stride(own, dim) "The steps in memory between neighbours, in elements, in all dimensions or in one." {
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
    fn storage_offset(own) "The place of the first element in the storage, in elements." {
        own.give(own.tensor.layout().offset)
    }
    fn element_size(own) "The bytes of one element." { own.give(own.tensor.dtype().size()) }
    fn data_ptr(own) "The address of the first element." {
        if own.tensor.is_sparse() || own.tensor.is_mapped() {
            return Err(PyRuntimeError::new_err("Cannot access data pointer of Tensor that doesn't have storage"));
        }
        own.give(address(own.tensor))
    }
    fn get_device(own) "The number of the card, or -1 on the host." {
        own.give(if let Device::Cuda(index) = own.tensor.device() { i64::from(index) } else { -1 })
    }
    fn is_contiguous(own, memory_format) "Whether the elements lie in memory in the order of a format, without gaps." {
        let format = memory_format.map(|format| named_format(&format)).transpose()?;
        own.give(rushlight_core::memory_format::is_contiguous(own.tensor.layout(), format).map_err(raise)?)
    }
    fn is_set_to(own, tensor = required) "Whether both tensors show the same elements of the same storage in the same way." {
        let other = required(tensor, "is_set_to", "tensor")?;
        let other = object::tensor(&other)?;
        let (a, b) = (own.tensor.meta(), other.meta());
        own.give(a.storage.same(&b.storage) && a.layout == b.layout && own.tensor.is_mirrored() == other.is_mirrored())
    }
    fn is_same_size(own, other = required) "Whether both tensors have the same sizes." {
        let other = required(other, "is_same_size", "other")?;
        own.give(own.tensor.sizes() == object::tensor(&other)?.sizes())
    }
    fn is_pinned(own, device) "Whether the elements are in memory that a card reads directly." {
        let _ = device;
        own.give(false)
    }
    fn is_conj(own) "Whether the elements are conjugates of what is stored, computed where they are read." {
        own.give(own.tensor.is_mirrored() && own.tensor.dtype().is_complex())
    }
    fn is_neg(own) "Whether the elements are negatives of what is stored, computed where they are read." {
        own.give(own.tensor.is_mirrored() && !own.tensor.dtype().is_complex())
    }
    fn _is_view(own) "Whether the tensor is a view of another one." { own.give(own.tensor.is_view()) }
    fn is_floating_point(own) "Whether the elements are floating-point numbers." { own.give(own.tensor.dtype().is_floating()) }
    fn is_complex(own) "Whether the elements are complex numbers." { own.give(own.tensor.dtype().is_complex()) }
    fn is_signed(own) "Whether the elements may be negative." { own.give(own.tensor.dtype().is_signed()) }
    fn __dlpack__(own, stream, max_version, dl_device, copy) "The same elements as a DLPack capsule." {
        dlpack::export(own.py(), own.tensor, dlpack::Wanted { stream, max_version, dl_device, copy })
    }
    fn __dlpack_device__(own) "Where the elements are, in DLPack's numbers." {
        let place = dlpack::device(own.tensor)?;
        own.give(place)
    }
    fn is_shared(own) "Whether the elements are in memory that processes share." {
        crate::body::with_memory(own.tensor)?;
        own.give(own.tensor.storage().is_common())
    }
    fn is_inference(own) "Whether the tensor was made in inference mode." { own.give(own.tensor.is_inference()) }
    fn detach(own) "The same elements without history." { own.wrap(own.tensor.detach()) }
    fn detach_(own) "Forgets the tensor's history." {
        own.tensor.detach_().map_err(raise)?;
        own.same()
    }
    fn requires_grad_(own, requires_grad = True) "Asks for gradients, or no longer does." {
        let wanted = flag(requires_grad, "requires_grad_(): argument 'requires_grad' (position 1)")?.unwrap_or(true);
        own.tensor.set_requires_grad(wanted).map_err(raise)?;
        own.same()
    }
    fn retain_grad(own) "Has backward() keep this tensor's gradient in .grad." {
        own.tensor.retain_grad().map_err(raise)?;
        own.give(own.py().None())
    }
    fn item(own) "The one element as a Python number." {
        convert::scalar_object(own.py(), rushlight::item(own.tensor).map_err(raise)?)
    }
    fn tolist(own) "The elements as nested lists; of a 0-d tensor the number." { nested::list(own.py(), own.tensor) }
    fn numpy(own, force = False) "The same elements as a NumPy array, without a copy." {
        let force = flag(force, "numpy(): argument 'force'")?.unwrap_or(false);
        numpy::export(own.py(), own.tensor, force)
    }
    fn __array__(own, dtype, copy) "The same elements as a NumPy array." {
        numpy::array(own.py(), own.tensor, dtype, copy)
    }
    fn __format__(own, spec = required) "The number of a 0-d tensor in a format; else the tensor's text." {
        let spec = spec.ok_or_else(|| PyTypeError::new_err("__format__() takes exactly one argument (0 given)"))?;
        // A parameter's text says that it is one.
        let is_plain = own.object.get_type().as_type_ptr() == object::class();
        if is_plain && own.tensor.rank() == 0 && own.tensor.device() != Device::Meta {
            let number = convert::scalar_object(own.py(), rushlight::item(own.tensor).map_err(raise)?)?;
            return number.call_method1("__format__", (spec,));
        }
        let object = own.py().get_type::<PyAny>();
        object.call_method1("__format__", (own.object, spec))
    }
    fn __complex__(own) "The one element as a complex number." {
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

/// A dimension's number, counted from the end if negative.
fn axis(own: &Own, dim: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    let Some(dim) = convert::int(dim)? else {
        let kind = kind_of(dim);
        return Err(PyTypeError::new_err(format!("{name}(): argument 'dim' (position 1) must be int, not {kind}")));
    };
    if own.tensor.rank() == 0 {
        return Err(PyIndexError::new_err(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    wrap_dim(dim, own.tensor.rank()).map_err(raise)
}

/// The address of the element whose indices are all zero; zero where there are no elements.
pub fn address(tensor: &Tensor) -> usize {
    if tensor.storage().is_empty() || tensor.device() == Device::Meta {
        return 0;
    }
    tensor.storage().address().wrapping_add_signed(tensor.layout().offset * tensor.dtype().size() as isize)
}
