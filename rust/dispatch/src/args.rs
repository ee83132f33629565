//! The arguments of a call, by name.

use crate::signature::{Kind, Param};
use crate::value::{Arg, Value, Values};
use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result, Scalar};

use crate::generator::Generator;
use crate::operator::{Args, Operator, Variants};

impl<'a> Args<'a> {
    /// These first arguments; the rest take their defaults.
    #[inline]
    pub fn new(op: &'static Operator, first: impl IntoIterator<Item = Value<'a>>) -> Self {
        let mut values = Values::new();
        for value in first {
            values.push(value);
        }
        for param in op.schema().params.iter().skip(values.len()) {
            values.push(param.default_value());
        }
        Args { op, values }
    }

    #[inline]
    fn get(&self, arg: Arg, kinds: &[Kind]) -> &Value<'a> {
        arg.check(self.op, kinds);
        self.values.get(arg.position()).unwrap_or(&Value::None)
    }

    /// The value of an argument.
    #[inline]
    pub fn value(&self, arg: Arg) -> &Value<'a> {
        self.get(arg, &[])
    }

    /// The declaration of an argument in the operator's signature.
    pub fn param(&self, arg: Arg) -> &'static Param {
        &self.op.schema().params[arg.position()]
    }

    /// Gives an argument another value.
    pub fn set(&mut self, arg: Arg, value: Value<'a>) {
        arg.check(self.op, &[]);
        self.values[arg.position()] = value;
    }

    #[cold]
    fn wrong(&self, arg: Arg, wanted: &str) -> Error {
        let name = self.op.schema().params.get(arg.position()).map_or("?", |param| param.name);
        Error::type_(format!("{}(): argument '{name}' must be {wanted}", self.op.python_name()))
    }

    pub fn tensor(&self, arg: Arg) -> Result<&Tensor> {
        self.value(arg).as_tensor().ok_or_else(|| self.wrong(arg, "Tensor"))
    }

    /// A tensor whose values, not only its sizes, determine the result: an error on `meta`.
    pub fn valued(&self, arg: Arg) -> Result<&Tensor> {
        match self.tensor(arg)? {
            tensor if tensor.device() == Device::Meta => Err(self.needs_values()),
            tensor => Ok(tensor),
        }
    }

    #[cold]
    fn needs_values(&self) -> Error {
        Error::not_implemented(format!(
            "aten::{}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel registered.",
            self.op.name
        ))
        .hint("The result depends on values, and a meta tensor has none.")
    }

    pub fn optional_tensor(&self, arg: Arg) -> Option<&Tensor> {
        self.value(arg).as_tensor()
    }

    pub fn has_number(&self, arg: Arg) -> bool {
        self.has(arg) && !self.has_tensor(arg)
    }

    pub fn has_tensor(&self, arg: Arg) -> bool {
        self.optional_tensor(arg).is_some()
    }

    /// The error for a call with numbers alone of an operator that takes numbers beside tensors.
    #[cold]
    pub fn needs_tensor(&self) -> Error {
        self.invalid_combination()
    }

    /// The error for arguments that fit no overload of torch's; omitted ones are not listed.
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
            self.op.flat_name(),
            kinds.collect::<Vec<_>>().join(", ")
        ))
    }

    /// The error for a list of tensors with a missing element. The object of a method does not count.
    #[cold]
    fn no_tensor(&self, at: usize, arg: Arg) -> Error {
        let place = arg.position().saturating_sub(usize::from(self.op.variants.has(Variants::METHOD)));
        Error::type_(format!("expected Tensor as element {at} in argument {place}, but got NoneType"))
    }

    pub fn tensors(&self, arg: Arg) -> Result<Vec<&Tensor>> {
        match self.get(arg, &[Kind::Tensors]) {
            Value::Tensors(list) => {
                let each = list.iter().enumerate();
                each.map(|(at, item)| item.as_ref().ok_or_else(|| self.no_tensor(at, arg))).collect()
            }
            _ => Err(self.wrong(arg, "tuple of Tensors")),
        }
    }

    pub fn optional_tensors(&self, arg: Arg) -> Result<&[Option<Tensor>]> {
        match self.get(arg, &[Kind::Tensors]) {
            Value::Tensors(list) => Ok(list),
            _ => Err(self.wrong(arg, "tuple of Tensors")),
        }
    }

    pub fn scalar(&self, arg: Arg) -> Result<Scalar> {
        self.optional_scalar(arg).ok_or_else(|| self.wrong(arg, "Number"))
    }

    /// A number that is not complex. `kind` is C's name of the type in which torch uses it.
    pub fn real(&self, arg: Arg, kind: &str) -> Result<f64> {
        match self.scalar(arg)? {
            Scalar::Complex(number) if number.im != 0.0 => {
                let sentence = format!("value cannot be converted to type {kind} without overflow");
                Err(Error::runtime(sentence).hint("The number must be real."))
            }
            number => Ok(number.f64()),
        }
    }

    pub fn optional_scalar(&self, arg: Arg) -> Option<Scalar> {
        match self.value(arg) {
            Value::Scalar(scalar) => Some(*scalar),
            Value::Bool(flag) => Some(Scalar::Bool(*flag)),
            Value::Int(number) => Some(Scalar::Int(*number)),
            Value::Float(number) => Some(Scalar::Float(*number)),
            _ => None,
        }
    }

    pub fn int(&self, arg: Arg) -> Result<i64> {
        self.optional_int(arg).ok_or_else(|| self.wrong(arg, "int"))
    }

    pub fn optional_int(&self, arg: Arg) -> Option<i64> {
        match self.value(arg) {
            Value::Int(number) | Value::Scalar(Scalar::Int(number)) => Some(*number),
            Value::Bool(flag) => Some(i64::from(*flag)),
            _ => None,
        }
    }

    pub fn float(&self, arg: Arg) -> Result<f64> {
        self.optional_scalar(arg).map(Scalar::f64).ok_or_else(|| self.wrong(arg, "float"))
    }

    pub fn bool(&self, arg: Arg) -> Result<bool> {
        self.optional_bool(arg).ok_or_else(|| self.wrong(arg, "bool"))
    }

    pub fn optional_bool(&self, arg: Arg) -> Option<bool> {
        match self.value(arg) {
            Value::Bool(flag) | Value::Scalar(Scalar::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    pub fn ints(&self, arg: Arg) -> Result<&[i64]> {
        self.optional_ints(arg).ok_or_else(|| self.wrong(arg, "tuple of ints"))
    }

    pub fn optional_ints(&self, arg: Arg) -> Option<&[i64]> {
        match self.value(arg) {
            Value::Ints(numbers) => Some(numbers),
            _ => None,
        }
    }

    pub fn optional_floats(&self, arg: Arg) -> Option<&[f64]> {
        match self.get(arg, &[Kind::Floats]) {
            Value::Floats(list) => Some(list),
            _ => None,
        }
    }

    pub fn dtype(&self, arg: Arg) -> Option<DType> {
        match self.get(arg, &[Kind::DType]) {
            Value::DType(dtype) => Some(*dtype),
            _ => None,
        }
    }

    pub fn device(&self, arg: Arg) -> Option<Device> {
        match self.get(arg, &[Kind::Device]) {
            Value::Device(device) => Some(*device),
            _ => None,
        }
    }

    pub fn str(&self, arg: Arg) -> Result<&str> {
        self.optional_str(arg).ok_or_else(|| self.wrong(arg, "str"))
    }

    pub fn optional_str(&self, arg: Arg) -> Option<&str> {
        match self.value(arg) {
            Value::Str(text) => Some(text),
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn generator(&self, arg: Arg) -> Option<&Generator> {
        match self.get(arg, &[Kind::Generator]) {
            Value::Generator(generator) => Some(generator),
            _ => None,
        }
    }

    /// Whether an optional argument was given.
    pub fn has(&self, arg: Arg) -> bool {
        !matches!(self.value(arg), Value::None)
    }

    /// Every tensor among the arguments with its position; the tensors of a list share the list's position.
    pub fn each_tensor(&self) -> EachTensor<'_> {
        EachTensor { values: &self.values, place: 0, list: &[] }
    }

    /// Whether a predicate holds for every tensor among the arguments.
    #[inline]
    pub fn all_tensors(&self, mut holds: impl FnMut(&Tensor) -> bool) -> bool {
        self.values.iter().all(|value| match value {
            Value::Tensor(tensor) => holds(tensor),
            Value::Own(tensor) => holds(tensor),
            Value::Tensors(list) => list.iter().flatten().all(&mut holds),
            _ => true,
        })
    }

    /// Whether all arguments other than tensors equal the signature's defaults.
    pub fn are_defaults(&self) -> bool {
        let params = &self.op.schema().params;
        self.values.iter().zip(params).all(|(value, param)| value.is_tensor_or(param.preset()))
    }

    /// Whether an argument equals its default; a tensor does not, nor does one that must be given.
    pub fn is_default(&self, place: usize) -> bool {
        let (value, param) = (&self.values[place], &self.op.schema().params[place]);
        let is_tensor = value.as_tensor().is_some() || matches!(value, Value::Tensors(_));
        param.default.is_some() && !is_tensor && value.is_tensor_or(param.preset())
    }

    /// The arguments with each tensor replaced.
    pub fn replaced(&self, with: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Args<'a>> {
        let mut args = self.clone();
        replace_where(&mut args.values, |_| true, with)?;
        Ok(args)
    }

    /// The arguments that a graph node stores besides saved tensors.
    pub fn stored(&self) -> Args<'static> {
        Args { op: self.op, values: self.values.iter().map(Value::stored).collect() }
    }
}

/// Replaces those tensors among `values` for which `applies` holds.
pub fn replace_where(
    values: &mut [Value],
    applies: impl Fn(&Tensor) -> bool,
    with: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<()> {
    for value in values {
        match value {
            Value::Tensors(list) => {
                for tensor in list.iter_mut().flatten().filter(|tensor| applies(tensor)) {
                    *tensor = with(tensor)?;
                }
            }
            value => {
                if let Some(tensor) = value.as_tensor().filter(|tensor| applies(tensor)) {
                    *value = Value::Own(with(tensor)?);
                }
            }
        }
    }
    Ok(())
}

/// The iterator of `Args::each_tensor`: every call uses it several times, so it is written by hand.
pub struct EachTensor<'a> {
    /// The values from `place` on.
    values: &'a [Value<'a>],
    place: usize,
    /// The rest of the list before `place`.
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
