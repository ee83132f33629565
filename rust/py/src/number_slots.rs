//! Python's arithmetic operators on tensors: the number slots, written by hand because they are the fastest way to call
//! an operator.

use pyo3::impl_::trampoline as shell;
use pyo3::prelude::*;
use pyo3::{Borrowed, ffi};
use rushlight::Tensor;
use rushlight::linalg::matrix::MATMUL;
use rushlight::pointwise::{arith, bitwise, compare, divide, power, sign};
use rushlight_dispatch::fast_path::GilHeld;
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::value::{Operand, Output, Target, Value};

use crate::errors::raise;
use crate::{numpy, numpy_types, object, overrides, scalars};

type Raw = *mut ffi::PyObject;

/// An operand; `None` if it is neither a tensor nor a number.
///
/// # Safety
/// `raw` lives as long as the result is used.
#[inline]
unsafe fn operand<'a>(py: Python<'_>, raw: Raw) -> PyResult<Option<Operand<'a>>> {
    // SAFETY: CPython keeps the operands alive during the call.
    unsafe {
        if let Some(tensor) = object::tensor_of(raw) {
            return Ok(Some(Operand::Tensor(tensor)));
        }
        let object = Borrowed::from_ptr(py, raw);
        Ok(scalars::number(&object)?.map(Operand::Number))
    }
}

fn not_implemented(py: Python<'_>) -> Raw {
    py.NotImplemented().into_ptr()
}

/// An operator's call with these first arguments; the missing ones take their defaults.
fn arguments<'a, const N: usize>(op: &'static Operator, operands: [Operand<'a>; N]) -> Args<'a> {
    Args::new(op, operands.map(Value::from))
}

fn fresh(py: Python<'_>, args: Args) -> PyResult<Raw> {
    object::wrap(py, args.call().and_then(Output::into_tensor).map_err(raise)?)
}

/// Both operands, if both are tensors or numbers.
///
/// # Safety
/// Both live as long as the result is used.
#[inline]
unsafe fn operands<'a>(py: Python<'_>, left: Raw, right: Raw) -> PyResult<Option<(Operand<'a>, Operand<'a>)>> {
    // SAFETY: CPython keeps the operands alive during the call.
    unsafe {
        Ok(match operand(py, left)? {
            Some(left) => operand(py, right)?.map(|right| (left, right)),
            None => None,
        })
    }
}

/// The methods for an operator that overrides see: of a tensor on the left, and of one on the right of another object.
struct MethodNames(&'static str, &'static str);

impl MethodNames {
    /// The result of `__torch_function__` for the operator, if there is an override.
    ///
    /// # Safety
    /// Both are living objects.
    #[cold]
    unsafe fn answer(&self, py: Python<'_>, left: Raw, right: Raw) -> PyResult<Option<Raw>> {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            match object::tensor_of(left) {
                Some(_) => overrides::operator(py, self.0, &[left, right]),
                None if object::tensor_of(right).is_some() => overrides::operator(py, self.1, &[right, left]),
                None => Ok(None),
            }
        }
    }
}

/// `a op b`.
///
/// # Safety
/// Both are living objects.
unsafe fn binary(py: Python<'_>, op: &'static Operator, names: &MethodNames, left: Raw, right: Raw) -> PyResult<Raw> {
    if overrides::ever_overridden()
        // SAFETY: CPython keeps the operands alive during the call.
        && let Some(answer) = unsafe { names.answer(py, left, right)? }
    {
        return Ok(answer);
    }
    // SAFETY: as above.
    match unsafe { operands(py, left, right)? } {
        Some((left, right)) => {
            // SAFETY: CPython calls slots with the GIL.
            let gil = unsafe { GilHeld::assume() };
            let result = match (left, right) {
                (Operand::Number(_), Operand::Tensor(own)) => from_number(op, left, own, gil),
                _ => op.binary(left, right, Some(gil)),
            };
            object::wrap(py, result.map_err(raise)?)
        }
        // SAFETY: as above.
        None => Ok(unsafe { names.answer(py, left, right)? }.unwrap_or_else(|| not_implemented(py))),
    }
}

/// `number op own`, kept apart from the path of most calls.
#[inline(never)]
fn from_number(op: &'static Operator, number: Operand, own: &Tensor, gil: GilHeld) -> rushlight::Result<Tensor> {
    if std::ptr::eq(op, &divide::DIV) {
        return reversed_quotient(number, own, gil);
    }
    // A sum or product with a number is computed by the tensor, as in torch.
    match [&arith::ADD, &arith::MUL].iter().any(|turned| std::ptr::eq(*turned, op)) {
        true => op.binary(Operand::Tensor(own), number, Some(gil)),
        false => op.binary(number, Operand::Tensor(own), Some(gil)),
    }
}

/// A number divided by a tensor: the number times the reciprocals.
fn reversed_quotient(number: Operand, own: &Tensor, gil: GilHeld) -> rushlight::Result<Tensor> {
    let inverse = divide::RECIPROCAL.tensor([own.into()])?;
    arith::MUL.binary(Operand::Tensor(&inverse), number, Some(gil))
}

/// `a op= b`.
///
/// # Safety
/// Both are living objects.
unsafe fn in_place(py: Python<'_>, op: &'static Operator, names: &str, left: Raw, right: Raw) -> PyResult<Raw> {
    // SAFETY: CPython keeps the operands alive during the call.
    unsafe {
        if overrides::ever_overridden()
            && let Some(answer) = overrides::operator(py, names, &[left, right])?
        {
            return Ok(answer);
        }
        let Some((own, right)) = operands(py, left, right)? else { return Ok(not_implemented(py)) };
        arguments(op, [own, right]).call_into(Target::InPlace).map_err(raise)?;
        ffi::Py_IncRef(left);
        Ok(left)
    }
}

/// # Safety
/// `own` is a living object.
unsafe fn unary(py: Python<'_>, op: &'static Operator, names: &str, own: Raw) -> PyResult<Raw> {
    if overrides::ever_overridden()
        // SAFETY: CPython keeps the operand alive during the call.
        && let Some(answer) = unsafe { overrides::unary_operator(py, names, own)? }
    {
        return Ok(answer);
    }
    // SAFETY: as above.
    match unsafe { operand(py, own)? } {
        Some(own) => fresh(py, arguments(op, [own])),
        None => Ok(not_implemented(py)),
    }
}

/// `~a`, which has its own error message for dtypes without bits.
///
/// # Safety
/// `own` is a living object.
unsafe fn invert(py: Python<'_>, own: Raw) -> PyResult<Raw> {
    if overrides::ever_overridden()
        // SAFETY: CPython keeps the operand alive during the call.
        && let Some(answer) = unsafe { overrides::unary_operator(py, "__invert__", own)? }
    {
        return Ok(answer);
    }
    // SAFETY: as above.
    if let Some(own) = unsafe { object::tensor_of(own) } {
        bitwise::check_invert(own.dtype()).map_err(raise)?;
    }
    // SAFETY: as above.
    unsafe { unary(py, &bitwise::BITWISE_NOT, "__invert__", own) }
}

/// Powers with a number and with a tensor as exponent are two operators.
fn power_operator(exponent: &Operand) -> &'static Operator {
    if let Operand::Tensor(_) = exponent { &power::POW_TENSOR } else { &power::POW }
}

/// # Safety
/// All are living objects.
unsafe fn power(py: Python<'_>, base: Raw, exponent: Raw, modulus: Raw) -> PyResult<Raw> {
    // SAFETY: CPython keeps the operands alive during the call, and passes None for no modulus.
    unsafe {
        if overrides::ever_overridden()
            && let Some(answer) = MethodNames("__pow__", "__rpow__").answer(py, base, exponent)?
        {
            return Ok(answer);
        }
        match operands(py, base, exponent)? {
            Some((base, exponent)) if modulus == ffi::Py_None() => {
                fresh(py, arguments(power_operator(&exponent), [base, exponent]))
            }
            _ => Ok(not_implemented(py)),
        }
    }
}

/// # Safety
/// The first two are living objects.
unsafe fn power_in_place(py: Python<'_>, base: Raw, exponent: Raw, _modulus: Raw) -> PyResult<Raw> {
    // SAFETY: CPython keeps the operands alive during the call.
    unsafe {
        if overrides::ever_overridden()
            && let Some(answer) = overrides::operator(py, "__ipow__", &[base, exponent])?
        {
            return Ok(answer);
        }
        let Some((own, exponent)) = operands(py, base, exponent)? else { return Ok(not_implemented(py)) };
        arguments(power_operator(&exponent), [own, exponent]).call_into(Target::InPlace).map_err(raise)?;
        ffi::Py_IncRef(base);
        Ok(base)
    }
}

/// `a < b` and so on; Python itself reflects them.
///
/// # Safety
/// Both are living objects.
unsafe fn compared(py: Python<'_>, left: Raw, right: Raw, op: std::ffi::c_int) -> PyResult<Raw> {
    let (operator, names) = match op {
        ffi::Py_LT => (&compare::LT, MethodNames("lt", "gt")),
        ffi::Py_LE => (&compare::LE, MethodNames("le", "ge")),
        ffi::Py_EQ => (&compare::EQ, MethodNames("__eq__", "__eq__")),
        ffi::Py_NE => (&compare::NE, MethodNames("ne", "ne")),
        ffi::Py_GT => (&compare::GT, MethodNames("gt", "lt")),
        _ => (&compare::GE, MethodNames("ge", "le")),
    };
    // SAFETY: CPython keeps the operands alive during the call.
    unsafe {
        if matches!(op, ffi::Py_EQ | ffi::Py_NE)
            && let Some(array) = array(py, right)?
        {
            if overrides::ever_overridden()
                && let Some(answer) = names.answer(py, left, right)?
            {
                return Ok(answer);
            }
            // Python would try the array next, which returns NotImplemented for tensors, and would then compare the
            // objects' identity.
            return match object::tensor_of(left) {
                Some(left) => fresh(py, arguments(operator, [Operand::Tensor(left), Operand::Tensor(&array)])),
                None => Ok(not_implemented(py)),
            };
        }
        binary(py, operator, &names, left, right)
    }
}

/// The elements of a NumPy array.
///
/// # Safety
/// `raw` is a living object.
#[inline]
unsafe fn array(py: Python<'_>, raw: Raw) -> PyResult<Option<Tensor>> {
    // SAFETY: CPython keeps the operands alive during the call.
    unsafe {
        if object::tensor_of(raw).is_some() {
            return Ok(None);
        }
        let object = Borrowed::from_ptr(py, raw);
        if numpy_types::is_array(&object)? { numpy::import(&object).map(Some) } else { Ok(None) }
    }
}

/// `a @ b`.
///
/// # Safety
/// Both are living objects.
unsafe fn product(py: Python<'_>, left: Raw, right: Raw) -> PyResult<Raw> {
    let names = MethodNames("matmul", "__rmatmul__");
    // SAFETY: CPython keeps the operands alive during the call.
    let answer = || unsafe { names.answer(py, left, right) };
    if overrides::ever_overridden()
        && let Some(answer) = answer()?
    {
        return Ok(answer);
    }
    // SAFETY: as above.
    let tensors = unsafe { object::tensor_of(left).zip(object::tensor_of(right)) };
    match tensors {
        Some((left, right)) => fresh(py, arguments(&MATMUL, [Operand::Tensor(left), Operand::Tensor(right)])),
        None => Ok(answer()?.unwrap_or_else(|| not_implemented(py))),
    }
}

/// A slot's number and its C function, made from a function of this module.
macro_rules! slot {
    ($number:ident, $shell:ident, $function:expr) => {{
        struct Def;
        impl shell::MethodDef<shell::$shell::Func> for Def {
            const METH: shell::$shell::Func = $function;
        }
        ffi::PyType_Slot { slot: ffi::$number, pfunc: shell::$shell::<Def> as *mut std::ffi::c_void }
    }};
}

macro_rules! binary_slots {
    ($($number:ident $op:path, $names:literal $reflected:literal;)*) => { [$(slot!($number, binaryfunc, |py, left, right| {
        // SAFETY: called by CPython with living operands.
        unsafe { binary(py, &$op, &MethodNames($names, $reflected), left, right) }
    })),*] };
}

macro_rules! in_place_slots {
    ($($number:ident $op:path, $names:literal;)*) => { [$(slot!($number, binaryfunc, |py, left, right| {
        // SAFETY: called by CPython with living operands.
        unsafe { in_place(py, &$op, $names, left, right) }
    })),*] };
}

macro_rules! unary_slots {
    ($($number:ident $op:path, $names:literal;)*) => { [$(slot!($number, unaryfunc, |py, own| {
        // SAFETY: called by CPython with a living operand.
        unsafe { unary(py, &$op, $names, own) }
    })),*] };
}

/// The operators in the form of CPython's type constructor.
pub fn slots() -> Vec<ffi::PyType_Slot> {
    let mut slots = Vec::new();
    slots.extend(binary_slots! {
        Py_nb_add arith::ADD, "add" "add";
        Py_nb_subtract arith::SUB, "sub" "__rsub__";
        Py_nb_multiply arith::MUL, "mul" "mul";
        Py_nb_true_divide divide::DIV, "div" "__rtruediv__";
        Py_nb_floor_divide divide::FLOOR_DIVIDE, "__floordiv__" "__rfloordiv__";
        Py_nb_remainder divide::REMAINDER, "remainder" "__rmod__";
        Py_nb_and bitwise::BITWISE_AND, "__and__" "bitwise_and";
        Py_nb_or bitwise::BITWISE_OR, "__or__" "bitwise_or";
        Py_nb_xor bitwise::BITWISE_XOR, "__xor__" "bitwise_xor";
        Py_nb_lshift bitwise::LEFT_SHIFT, "__lshift__" "__rlshift__";
        Py_nb_rshift bitwise::RIGHT_SHIFT, "__rshift__" "__rrshift__";
    });
    slots.extend(in_place_slots! {
        Py_nb_inplace_add arith::ADD, "add_";
        Py_nb_inplace_subtract arith::SUB, "sub_";
        Py_nb_inplace_multiply arith::MUL, "mul_";
        Py_nb_inplace_true_divide divide::DIV, "div_";
        Py_nb_inplace_floor_divide divide::FLOOR_DIVIDE, "floor_divide_";
        Py_nb_inplace_remainder divide::REMAINDER, "remainder_";
        Py_nb_inplace_and bitwise::BITWISE_AND, "__iand__";
        Py_nb_inplace_or bitwise::BITWISE_OR, "__ior__";
        Py_nb_inplace_xor bitwise::BITWISE_XOR, "__ixor__";
        Py_nb_inplace_lshift bitwise::LEFT_SHIFT, "__ilshift__";
        Py_nb_inplace_rshift bitwise::RIGHT_SHIFT, "__irshift__";
    });
    slots.extend(unary_slots! {
        Py_nb_negative arith::NEG, "neg";
        Py_nb_positive arith::POSITIVE, "positive";
        Py_nb_absolute sign::ABS, "abs";
    });
    slots.extend([
        slot!(Py_nb_invert, unaryfunc, |py, own| {
            // SAFETY: called by CPython with a living operand.
            unsafe { invert(py, own) }
        }),
        slot!(Py_nb_power, ternaryfunc, |py, base, exponent, modulus| {
            // SAFETY: called by CPython with living operands.
            unsafe { power(py, base, exponent, modulus) }
        }),
        slot!(Py_nb_inplace_power, ternaryfunc, |py, base, exponent, modulus| {
            // SAFETY: called by CPython with living operands.
            unsafe { power_in_place(py, base, exponent, modulus) }
        }),
        slot!(Py_nb_matrix_multiply, binaryfunc, |py, left, right| {
            // SAFETY: called by CPython with living operands.
            unsafe { product(py, left, right) }
        }),
        slot!(Py_tp_richcompare, richcmpfunc, |py, left, right, op| {
            // SAFETY: called by CPython with living operands.
            unsafe { compared(py, left, right, op) }
        }),
    ]);
    slots
}
