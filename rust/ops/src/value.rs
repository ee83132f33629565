//! What goes into an operator and what comes out, free of Python.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use smallvec::SmallVec;

use crate::generator::Generator;
use crate::row::Row;

/// Whole numbers; few stand inline, so that a value stays small.
pub type Ints = SmallVec<[i64; 2]>;
pub type Floats = SmallVec<[f64; 2]>;

/// One argument of a call.
#[derive(Clone)]
pub enum Value<'a> {
    /// An optional argument that was not given.
    None,
    Tensor(&'a Tensor),
    /// A tensor that the call owns, such as a number turned into one.
    Own(Tensor),
    Scalar(Scalar),
    Bool(bool),
    Int(i64),
    Float(f64),
    Ints(Ints),
    Floats(Floats),
    Tensors(Vec<Option<Tensor>>),
    DType(DType),
    Device(Device),
    Str(&'a str),
    /// A word that a graph node keeps.
    Text(Box<str>),
    Generator(Generator),
}

impl<'a> From<&'a Tensor> for Value<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Value::Tensor(tensor)
    }
}
impl From<Tensor> for Value<'_> {
    fn from(tensor: Tensor) -> Self {
        Value::Own(tensor)
    }
}
impl From<Scalar> for Value<'_> {
    fn from(scalar: Scalar) -> Self {
        Value::Scalar(scalar)
    }
}
impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}
impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}
impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        Value::Int(number as i64)
    }
}
impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Value::Scalar(Scalar::Float(number))
    }
}
impl From<&[i64]> for Value<'_> {
    fn from(numbers: &[i64]) -> Self {
        Value::Ints(Ints::from_slice(numbers))
    }
}
impl From<Ints> for Value<'_> {
    fn from(numbers: Ints) -> Self {
        Value::Ints(numbers)
    }
}
impl From<DType> for Value<'_> {
    fn from(dtype: DType) -> Self {
        Value::DType(dtype)
    }
}
impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Str(text)
    }
}
impl From<Vec<Tensor>> for Value<'_> {
    fn from(tensors: Vec<Tensor>) -> Self {
        Value::Tensors(tensors.into_iter().map(Some).collect())
    }
}
impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::None, Into::into)
    }
}

impl Value<'_> {
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            Value::Own(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Whether this is a tensor, or certainly the same as `preset`.
    fn is_tensor_or(&self, preset: &Value<'static>) -> bool {
        match (self, preset) {
            (Value::Tensor(_) | Value::Own(_) | Value::Tensors(_) | Value::None, Value::None) => true,
            (Value::Scalar(Scalar::Int(a)), Value::Scalar(Scalar::Int(b))) | (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Ints(a), Value::Ints(b)) => a == b,
            _ => false,
        }
    }

    /// The same value without a borrow, for a graph node to keep; tensors are kept apart from it.
    fn keep(&self) -> Value<'static> {
        match self {
            Value::None | Value::Tensor(_) | Value::Own(_) | Value::Tensors(_) => Value::None,
            Value::Str(x) => Value::Text((*x).into()),
            Value::Text(x) => Value::Text(x.clone()),
            Value::Scalar(x) => Value::Scalar(*x),
            Value::Bool(x) => Value::Bool(*x),
            Value::Int(x) => Value::Int(*x),
            Value::Float(x) => Value::Float(*x),
            Value::Ints(x) => Value::Ints(x.clone()),
            Value::Floats(x) => Value::Floats(x.clone()),
            Value::DType(x) => Value::DType(*x),
            Value::Device(x) => Value::Device(*x),
            Value::Generator(x) => Value::Generator(x.clone()),
        }
    }
}

pub type Values<'a> = SmallVec<[Value<'a>; 4]>;

/// The arguments of one call, in the order of the row's signature; defaults are filled in.
#[derive(Clone)]
pub struct Args<'a> {
    pub row: &'static Row,
    pub values: Values<'a>,
}

impl<'a> Args<'a> {
    /// These first arguments; those behind them take their defaults.
    #[inline]
    pub fn new(row: &'static Row, first: impl IntoIterator<Item = Value<'a>>) -> Self {
        let mut values = Values::new();
        for value in first {
            values.push(value);
        }
        for param in row.schema().params.iter().skip(values.len()) {
            values.push(param.default_value());
        }
        Args { row, values }
    }

    fn get(&self, place: usize) -> &Value<'a> {
        self.values.get(place).unwrap_or(&Value::None)
    }

    #[cold]
    fn wrong(&self, place: usize, wanted: &str) -> Error {
        let name = self.row.schema().params.get(place).map_or("?", |param| param.name);
        Error::type_(format!("{}(): argument '{name}' must be {wanted}", self.row.python_name()))
    }

    pub fn tensor(&self, place: usize) -> Result<&Tensor> {
        self.get(place).as_tensor().ok_or_else(|| self.wrong(place, "Tensor"))
    }

    /// A tensor whose values, and not only its sizes, decide what the call gives: an error on `meta`.
    pub fn valued(&self, place: usize) -> Result<&Tensor> {
        match self.tensor(place)? {
            tensor if tensor.device() == Device::Meta => Err(self.needs_values()),
            tensor => Ok(tensor),
        }
    }

    #[cold]
    fn needs_values(&self) -> Error {
        Error::not_implemented(format!(
            "aten::{}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel registered.",
            self.row.name
        ))
        .hint("What it gives depends on values, which a tensor on meta does not have.")
    }

    pub fn optional_tensor(&self, place: usize) -> Option<&Tensor> {
        self.get(place).as_tensor()
    }

    pub fn has_number(&self, place: usize) -> bool {
        self.has(place) && !self.has_tensor(place)
    }

    pub fn has_tensor(&self, place: usize) -> bool {
        self.optional_tensor(place).is_some()
    }

    /// The error where numbers alone were given to an operator that takes numbers beside tensors.
    #[cold]
    pub fn needs_tensor(&self) -> Error {
        self.invalid_combination()
    }

    /// The error where arguments fit no overload of torch's; those that were left away are not told.
    #[cold]
    pub fn invalid_combination(&self) -> Error {
        let given = self.values.iter().filter(|value| !matches!(value, Value::None));
        let kinds = given.map(|value| match value {
            value if value.as_tensor().is_some() => "Tensor",
            Value::Scalar(Scalar::Bool(_)) | Value::Bool(_) => "bool",
            Value::Scalar(Scalar::Int(_) | Scalar::UInt(_)) | Value::Int(_) => "int",
            Value::Scalar(Scalar::Complex(_)) => "complex",
            _ => "float",
        });
        Error::type_(format!(
            "{}() received an invalid combination of arguments - got ({}), but expected one of:",
            self.row.python_name(),
            kinds.collect::<Vec<_>>().join(", ")
        ))
    }

    /// The error where a list of tensors has a hole; of a method the list is argument 0.
    #[cold]
    fn no_tensor(at: usize, place: usize) -> Error {
        let place = place.saturating_sub(1);
        Error::type_(format!("expected Tensor as element {at} in argument {place}, but got NoneType"))
    }

    pub fn tensors(&self, place: usize) -> Result<Vec<&Tensor>> {
        match self.get(place) {
            Value::Tensors(list) => {
                let each = list.iter().enumerate();
                each.map(|(at, item)| item.as_ref().ok_or_else(|| Self::no_tensor(at, place))).collect()
            }
            _ => Err(self.wrong(place, "tuple of Tensors")),
        }
    }

    pub fn optional_tensors(&self, place: usize) -> Result<&[Option<Tensor>]> {
        match self.get(place) {
            Value::Tensors(list) => Ok(list),
            _ => Err(self.wrong(place, "tuple of Tensors")),
        }
    }

    pub fn scalar(&self, place: usize) -> Result<Scalar> {
        self.optional_scalar(place).ok_or_else(|| self.wrong(place, "Number"))
    }

    pub fn optional_scalar(&self, place: usize) -> Option<Scalar> {
        match self.get(place) {
            Value::Scalar(scalar) => Some(*scalar),
            Value::Bool(flag) => Some(Scalar::Bool(*flag)),
            Value::Int(number) => Some(Scalar::Int(*number)),
            Value::Float(number) => Some(Scalar::Float(*number)),
            _ => None,
        }
    }

    pub fn int(&self, place: usize) -> Result<i64> {
        self.optional_int(place).ok_or_else(|| self.wrong(place, "int"))
    }

    pub fn optional_int(&self, place: usize) -> Option<i64> {
        match self.get(place) {
            Value::Int(number) | Value::Scalar(Scalar::Int(number)) => Some(*number),
            Value::Bool(flag) => Some(i64::from(*flag)),
            _ => None,
        }
    }

    pub fn float(&self, place: usize) -> Result<f64> {
        self.optional_scalar(place).map(Scalar::f64).ok_or_else(|| self.wrong(place, "float"))
    }

    pub fn bool(&self, place: usize) -> Result<bool> {
        self.optional_bool(place).ok_or_else(|| self.wrong(place, "bool"))
    }

    pub fn optional_bool(&self, place: usize) -> Option<bool> {
        match self.get(place) {
            Value::Bool(flag) | Value::Scalar(Scalar::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    pub fn ints(&self, place: usize) -> Result<&[i64]> {
        self.optional_ints(place).ok_or_else(|| self.wrong(place, "tuple of ints"))
    }

    pub fn optional_ints(&self, place: usize) -> Option<&[i64]> {
        match self.get(place) {
            Value::Ints(numbers) => Some(numbers),
            _ => None,
        }
    }

    pub fn optional_floats(&self, place: usize) -> Option<&[f64]> {
        match self.get(place) {
            Value::Floats(list) => Some(list),
            _ => None,
        }
    }

    pub fn dtype(&self, place: usize) -> Option<DType> {
        match self.get(place) {
            Value::DType(dtype) => Some(*dtype),
            _ => None,
        }
    }

    pub fn device(&self, place: usize) -> Option<Device> {
        match self.get(place) {
            Value::Device(device) => Some(*device),
            _ => None,
        }
    }

    pub fn str(&self, place: usize) -> Result<&str> {
        self.optional_str(place).ok_or_else(|| self.wrong(place, "str"))
    }

    pub fn optional_str(&self, place: usize) -> Option<&str> {
        match self.get(place) {
            Value::Str(text) => Some(text),
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn generator(&self, place: usize) -> Option<&Generator> {
        match self.get(place) {
            Value::Generator(generator) => Some(generator),
            _ => None,
        }
    }

    /// Whether an optional argument was given.
    pub fn has(&self, place: usize) -> bool {
        !matches!(self.get(place), Value::None)
    }

    /// Every tensor among the arguments with its place; the tensors of a list share the list's place.
    pub fn each_tensor(&self) -> EachTensor<'_> {
        EachTensor { values: &self.values, place: 0, list: &[] }
    }

    /// Whether something holds of every tensor among the arguments: the questions that each call asks.
    #[inline]
    pub fn all_tensors(&self, mut holds: impl FnMut(&Tensor) -> bool) -> bool {
        self.values.iter().all(|value| match value {
            Value::Tensor(tensor) => holds(tensor),
            Value::Own(tensor) => holds(tensor),
            Value::Tensors(list) => list.iter().flatten().all(&mut holds),
            _ => true,
        })
    }

    /// Whether all arguments but tensors are what the signature says for those that are not given.
    pub fn are_defaults(&self) -> bool {
        let params = &self.row.schema().params;
        self.values.iter().zip(params).all(|(value, param)| value.is_tensor_or(param.preset()))
    }

    /// What a graph node keeps of the arguments beside saved tensors.
    pub fn keep(&self) -> Args<'static> {
        Args { row: self.row, values: self.values.iter().map(Value::keep).collect() }
    }
}

/// The walk of `Args::each_tensor`: every call takes it several times, so it is written out.
pub struct EachTensor<'a> {
    /// The values from `place` on.
    values: &'a [Value<'a>],
    place: usize,
    /// What is left of the list before `place`.
    list: &'a [Option<Tensor>],
}

impl<'a> Iterator for EachTensor<'a> {
    type Item = (usize, &'a Tensor);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let [first, rest @ ..] = self.list {
                self.list = rest;
                if let Some(tensor) = first {
                    return Some((self.place - 1, tensor));
                }
            }
            let [first, rest @ ..] = self.values else { return None };
            self.values = rest;
            self.place += 1;
            match first {
                Value::Tensor(tensor) => return Some((self.place - 1, tensor)),
                Value::Own(tensor) => return Some((self.place - 1, tensor)),
                Value::Tensors(list) => self.list = list,
                _ => {}
            }
        }
    }
}

/// What a call gives back.
#[derive(Clone)]
pub enum Output {
    Tensor(Tensor),
    /// Several results: a tuple, with names where the row says so.
    Tuple(Vec<Tensor>),
    /// As many results as the call asked for: a tuple without names (`split`, `unbind`).
    List(Vec<Tensor>),
    Bool(bool),
    Int(i64),
    Float(f64),
    DType(DType),
    Nothing,
}

impl Output {
    pub fn tensors(&self) -> &[Tensor] {
        match self {
            Output::Tensor(tensor) => std::slice::from_ref(tensor),
            Output::Tuple(list) | Output::List(list) => list,
            _ => &[],
        }
    }

    pub fn into_tensor(self) -> Result<Tensor> {
        match self {
            Output::Tensor(tensor) => Ok(tensor),
            _ => Err(Error::runtime("an operator that gives one tensor gave something else")),
        }
    }

    pub fn into_tensors(self) -> Vec<Tensor> {
        match self {
            Output::Tensor(tensor) => vec![tensor],
            Output::Tuple(list) | Output::List(list) => list,
            _ => Vec::new(),
        }
    }
}
