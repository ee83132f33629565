//! The arguments of functions that torch compiles and that are written in Python here: they are checked like those of an
//! operator, before the function sees them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::call::{Call, Raw};
use super::refusal::check_call;
use super::signatures::Signatures;

/// torch's signatures of a function.
#[pyclass(frozen, name = "_Signatures", module = "rushlight._C")]
pub struct PySignatures {
    name: String,
    is_method: bool,
    signatures: Signatures,
}

#[pymethods]
impl PySignatures {
    /// Signatures in the syntax of operators, without parentheses and result.
    #[new]
    fn new(name: String, texts: Vec<String>, is_method: bool) -> PyResult<PySignatures> {
        // A parameter's name lives as long as the program, like those of operators.
        let kept: Vec<&'static str> = texts.into_iter().map(|text| &*text.leak()).collect();
        match Signatures::written(&kept) {
            Some(signatures) => Ok(PySignatures { name, is_method, signatures }),
            None => Err(PyValueError::new_err(format!("not signatures of {name}: {}", kept.join("; ")))),
        }
    }

    /// Raises torch's error if no signature takes the arguments.
    fn check(&self, args: &Bound<'_, PyTuple>, kwargs: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut positional: Vec<Raw> = args.iter_borrowed().map(|argument| argument.as_ptr()).collect();
        let receiver = (self.is_method && !positional.is_empty()).then(|| positional.remove(0));
        let named: Vec<(Bound<'_, PyString>, Bound<'_, PyAny>)> =
            kwargs.iter().map(|(name, value)| Ok((name.cast_into()?, value))).collect::<PyResult<_>>()?;
        let names = PyTuple::new(args.py(), named.iter().map(|(name, _)| name))?;
        let values: Vec<Raw> = named.iter().map(|(_, value)| value.as_ptr()).collect();
        // SAFETY: the tuple and `named` own the arguments until the end of this function, and there is a name for each
        // value.
        let call = unsafe { Call::with_keywords(args.py(), receiver, &positional, names.as_ptr(), &values) };
        check_call(&self.name, &self.signatures, &call)
    }
}
