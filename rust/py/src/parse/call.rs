//! The two sides of a call: the parameters of an overload, and the arguments of a vectorcall.

use std::ffi::{CStr, CString};

use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::{Borrowed, ffi};
use rushlight_dispatch::operator::Operator;
use rushlight_dispatch::signature::{Kind, Param};

/// One overload in the parser's form: the parameters with interned names.
pub struct Overload {
    pub op: &'static Operator,
    /// The number of visible parameters: only functions of `torch.nn.functional` have `inplace`.
    pub(super) shown: usize,
    pub(super) names: Vec<Raw>,
    /// Whether it accepts `out=`, which signatures do not list.
    pub takes_out: bool,
    /// Whether some overload of the name takes a `dim`.
    pub(super) is_one_with_dim: bool,
    /// Whether torch writes the function in Python.
    pub(super) in_python: bool,
    /// Whether it is the method, of those that torch writes in Python.
    is_method: bool,
    /// Whether sizes are a number or a list of full length: `adaptive_avg_pool2d(x, 3)` means `[3, 3]`, and `[3]` is an error.
    pub(super) takes_pairs: bool,
    /// Whether bytes are no word for it: the function compares its words in Python.
    pub(super) compares_words: bool,
    /// Whether one of the operands has to be a tensor.
    pub(super) needs_tensor: bool,
}

// SAFETY: the names are interned strings that live as long as the interpreter.
unsafe impl Send for Overload {}
// SAFETY: see above.
unsafe impl Sync for Overload {}

pub(super) fn intern(text: &str) -> Raw {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: a null-terminated string; the reference is kept forever.
    unsafe { ffi::PyUnicode_InternFromString(text.as_ptr()) }
}

/// torch's other spellings of a parameter's name, those of NumPy.
pub(super) fn synonyms(name: &str) -> &'static [&'static str] {
    match name {
        "input" => &["x", "a", "x1"],
        "dim" => &["axis"],
        "keepdim" => &["keepdims"],
        "other" => &["x2"],
        // What torch calls a number in their place.
        "elements" => &["element"],
        "test_elements" => &["test_element"],
        _ => &[],
    }
}

impl Overload {
    pub fn new(op: &'static Operator, params: &[Param], takes_out: bool, is_one_with_dim: bool) -> Overload {
        let names = params.iter().map(|param| intern(shown(param))).collect();
        let (shown, [in_python, is_method, takes_pairs, compares_words, needs_tensor]) = (params.len(), [false; 5]);
        Overload {
            op,
            shown,
            names,
            takes_out,
            is_one_with_dim,
            in_python,
            is_method,
            takes_pairs,
            compares_words,
            needs_tensor,
        }
    }

    /// The overload of a function that torch writes in Python, which has no synonyms. A method's object is `self` there.
    pub(super) fn in_python(mut self, is_method: bool) -> Overload {
        self.in_python = true;
        self.names = (0..self.shown).map(|place| intern(self.python_name(place, is_method))).collect();
        Overload { is_method, ..self }
    }

    /// Whether torch writes the function in Python.
    pub fn is_in_python(&self) -> bool {
        self.in_python
    }

    fn python_name(&self, place: usize, is_method: bool) -> &'static str {
        let param = &self.op.schema().params[place];
        match (self.op.python_name(), param.name) {
            _ if is_method && place == 0 => "self",
            ("split", "self") => "tensor",
            ("split", "split_size") if !is_method => "split_size_or_sections",
            _ => shown(param),
        }
    }

    /// A parameter's name in messages, and the only one by which a function written in Python takes it.
    pub(super) fn name_of(&self, place: usize) -> &'static str {
        if self.in_python { self.python_name(place, self.is_method) } else { shown(&self.op.schema().params[place]) }
    }

    /// The overload with what it refuses besides arguments of wrong kinds.
    pub(super) fn refusing(self, takes_pairs: bool, needs_tensor: bool, compares_words: bool) -> Overload {
        Overload { takes_pairs, needs_tensor, compares_words, ..self }
    }

    /// The visible parameters.
    pub fn params(&self) -> &'static [Param] {
        &self.op.schema().params[..self.shown]
    }

    /// How many of them are positional.
    pub(super) fn positional(&self) -> usize {
        self.op.schema().positional.min(self.shown)
    }

    /// Whether a keyword names a parameter.
    pub fn has_name(&self, keyword: Borrowed<'_, '_, PyString>) -> bool {
        self.place(keyword).is_some() || self.takes_out && says(keyword, c"out")
    }

    /// The index of the parameter with a keyword's name.
    pub(super) fn place(&self, keyword: Borrowed<'_, '_, PyString>) -> Option<usize> {
        let params = self.params();
        // torch's `atleast_1d` and its like take a tensor as one of several.
        let is_one_of_many = self.in_python && self.op.python_name().starts_with("atleast");
        let is_unnamed =
            |param: &Param| param.separate || is_one_of_many || (self.in_python && param.kind == Kind::Tensors);
        if let Some(place) = self.names.iter().position(|name| *name == keyword.as_ptr()) {
            return (!is_unnamed(&params[place])).then_some(place);
        }
        let same = |text: &str| CString::new(text).is_ok_and(|text| says(keyword, &text));
        let is_called = |place: &usize| !is_unnamed(&params[*place]) && same(self.name_of(*place));
        let is_also_called = |param: &Param| synonyms(shown(param)).iter().any(|name| same(name));
        (0..params.len()).find(is_called).or_else(|| params.iter().position(is_also_called).filter(|_| !self.in_python))
    }
}

/// Whether a string equals this text.
pub(super) fn says(string: Borrowed<'_, '_, PyString>, text: &CStr) -> bool {
    // SAFETY: a living string and a terminated text.
    unsafe { ffi::PyUnicode_CompareWithASCIIString(string.as_ptr(), text.as_ptr()) == 0 }
}

pub type Raw = *mut ffi::PyObject;
pub(super) type Object<'a, 'py> = Borrowed<'a, 'py, PyAny>;

/// The arguments of a vectorcall, alive for `'a`.
#[derive(Clone, Copy)]
pub struct Call<'a, 'py> {
    pub py: Python<'py>,
    /// The object before the dot, for a method.
    pub(super) receiver: Option<Raw>,
    pub positional: &'a [Raw],
    /// A tuple of the keywords, or null.
    pub(super) names: Raw,
    /// A value for each keyword.
    pub values: &'a [Raw],
}

impl<'a, 'py> Call<'a, 'py> {
    /// A call without keywords.
    ///
    /// # Safety
    /// All are living objects, and stay so for `'a`.
    #[inline]
    pub unsafe fn new(py: Python<'py>, positional: &'a [Raw]) -> Call<'a, 'py> {
        Call { py, receiver: None, positional, names: std::ptr::null_mut(), values: &[] }
    }

    /// # Safety
    /// All are living objects, and stay so for `'a`; `names` is a tuple of strings, with as many as there are values.
    #[inline]
    pub unsafe fn with_keywords(
        py: Python<'py>,
        receiver: Option<Raw>,
        positional: &'a [Raw],
        names: Raw,
        values: &'a [Raw],
    ) -> Call<'a, 'py> {
        Call { py, receiver, positional, names, values }
    }

    /// The arguments in the form of CPython's protocol: `count` positional ones, then a value for each name.
    ///
    /// # Safety
    /// CPython passed the arguments and keeps them alive for `'a`.
    #[inline]
    pub unsafe fn fastcall(
        py: Python<'py>,
        receiver: Option<Raw>,
        args: *const Raw,
        count: ffi::Py_ssize_t,
        names: Raw,
    ) -> Call<'a, 'py> {
        let count = count as usize;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let positional = if count == 0 { &[] } else { std::slice::from_raw_parts(args, count) };
            let values = if names.is_null() {
                &[]
            } else {
                std::slice::from_raw_parts(args.add(count), ffi::PyTuple_Size(names) as usize)
            };
            Call { py, receiver, positional, names, values }
        }
    }

    /// The number of positional arguments, including the receiver.
    #[inline]
    pub(super) fn given(&self) -> usize {
        self.positional.len() + usize::from(self.receiver.is_some())
    }

    #[inline]
    pub(super) fn at(&self, place: usize) -> Option<Object<'a, 'py>> {
        let raw = match self.receiver {
            Some(receiver) if place == 0 => Some(receiver),
            Some(_) => self.positional.get(place - 1).copied(),
            None => self.positional.get(place).copied(),
        };
        // SAFETY: guaranteed by the caller of `new`.
        raw.map(|raw| unsafe { Borrowed::from_ptr(self.py, raw) })
    }

    /// The positional arguments after the receiver.
    #[inline]
    pub fn positional(&self) -> impl ExactSizeIterator<Item = Object<'a, 'py>> + use<'a, 'py> {
        let py = self.py;
        // SAFETY: guaranteed by the caller of `new`.
        self.positional.iter().map(move |raw| unsafe { Borrowed::from_ptr(py, *raw) })
    }

    /// All positional arguments, including the receiver.
    pub fn all_positional(&self) -> impl Iterator<Item = Object<'a, 'py>> + use<'a, 'py> {
        let call = *self;
        (0..self.given()).filter_map(move |place| call.at(place))
    }

    #[inline]
    pub fn keywords(
        &self,
    ) -> impl DoubleEndedIterator<Item = (Borrowed<'a, 'py, PyString>, Object<'a, 'py>)> + use<'a, 'py> {
        let (py, names) = (self.py, self.names);
        self.values.iter().enumerate().map(move |(at, value)| {
            // SAFETY: guaranteed by the caller of `new`; the tuple keeps its strings alive.
            unsafe {
                let keyword = ffi::PyTuple_GetItem(names, at as ffi::Py_ssize_t);
                (Borrowed::from_ptr(py, keyword).cast_unchecked(), Borrowed::from_ptr(py, *value))
            }
        })
    }
}

/// The name that torch shows for a parameter: a number has no other.
pub(super) fn shown(param: &Param) -> &'static str {
    if param.name == "self" && param.kind != Kind::Scalar { "input" } else { param.name }
}
