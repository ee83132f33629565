//! Python's operators on tensors: the number slots, written by hand because they are the shortest way in.

use pyo3::Borrowed;
use pyo3::ffi;
use pyo3::impl_::trampoline as shell;
use pyo3::prelude::*;
use rushlight::call::{Target, call_into};
use rushlight::linalg::matrix::MATMUL;
use rushlight::pointwise::{arith, bitwise, compare, divide, power, sign};
use rushlight::short::{self, Locked, Operand};
use rushlight::{Args, Row, Tensor, Value};

use crate::errors::raise;
use crate::{convert, numpy, object, overrides};

type Raw = *mut ffi::PyObject;

/// An operand of an operator; nothing where it is neither a tensor nor a number.
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
        Ok(convert::number(&object)?.map(Operand::Number))
    }
}

fn not_implemented(py: Python<'_>) -> Raw {
    py.NotImplemented().into_ptr()
}

/// The row's call on these first arguments; the missing ones take their defaults.
fn arguments<'a, const N: usize>(row: &'static Row, operands: [Operand<'a>; N]) -> Args<'a> {
    Args::new(row, operands.map(Value::from))
}

fn fresh(py: Python<'_>, args: Args) -> PyResult<Raw> {
    object::wrap(py, rushlight::call(args).and_then(rushlight::Output::into_tensor).map_err(raise)?)
}

/// Both operands, where both are tensors or numbers.
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

/// The methods that handlers know an operator by: of the tensor on its left, and of one on its right behind something else.
struct Known(&'static str, &'static str);

impl Known {
    /// What whoever overrides the operator answers.
    ///
    /// # Safety
    /// Both are living objects.
    #[cold]
    unsafe fn answer(&self, py: Python<'_>, left: Raw, right: Raw) -> PyResult<Option<Raw>> {
        // SAFETY: by the caller's word.
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
unsafe fn binary(py: Python<'_>, row: &'static Row, known: &Known, left: Raw, right: Raw) -> PyResult<Raw> {
    if overrides::expected()
        // SAFETY: CPython keeps the operands alive during the call.
        && let Some(answer) = unsafe { known.answer(py, left, right)? }
    {
        return Ok(answer);
    }
    // SAFETY: as above.
    match unsafe { operands(py, left, right)? } {
        Some((left, right)) => {
            // SAFETY: CPython calls slots attached.
            let locked = unsafe { Locked::assume() };
            let result = match (left, right) {
                (Operand::Number(_), Operand::Tensor(own)) => from_number(row, left, own, locked),
                _ => short::binary(row, left, right, Some(locked)),
            };
            object::wrap(py, result.map_err(raise)?)
        }
        // SAFETY: as above.
        None => Ok(unsafe { known.answer(py, left, right)? }.unwrap_or_else(|| not_implemented(py))),
    }
}

/// `number op own`, apart from the way that most calls take.
#[inline(never)]
fn from_number(row: &'static Row, number: Operand, own: &Tensor, locked: Locked) -> rushlight::Result<Tensor> {
    if std::ptr::eq(row, &divide::DIV) {
        return reversed_quotient(number, own, locked);
    }
    // A sum or product with a number is the tensor's, as in torch.
    match [&arith::ADD, &arith::MUL].iter().any(|turned| std::ptr::eq(*turned, row)) {
        true => short::binary(row, Operand::Tensor(own), number, Some(locked)),
        false => short::binary(row, number, Operand::Tensor(own), Some(locked)),
    }
}

/// A number over a tensor: the number times the reciprocals.
fn reversed_quotient(number: Operand, own: &Tensor, locked: Locked) -> rushlight::Result<Tensor> {
    let inverse = divide::RECIPROCAL.tensor([own.into()])?;
    short::binary(&arith::MUL, Operand::Tensor(&inverse), number, Some(locked))
}

/// `a op= b`.
///
/// # Safety
/// Both are living objects.
unsafe fn in_place(py: Python<'_>, row: &'static Row, known: &str, left: Raw, right: Raw) -> PyResult<Raw> {
    // SAFETY: CPython keeps the operands alive during the call.
    unsafe {
        if overrides::expected()
            && let Some(answer) = overrides::operator(py, known, &[left, right])?
        {
            return Ok(answer);
        }
        let Some((own, right)) = operands(py, left, right)? else { return Ok(not_implemented(py)) };
        call_into(arguments(row, [own, right]), Target::InPlace).map_err(raise)?;
        ffi::Py_IncRef(left);
        Ok(left)
    }
}

/// # Safety
/// `own` is a living object.
unsafe fn unary(py: Python<'_>, row: &'static Row, known: &str, own: Raw) -> PyResult<Raw> {
    if overrides::expected()
        // SAFETY: CPython keeps the operand alive during the call.
        && let Some(answer) = unsafe { overrides::operator(py, known, &[own])? }
    {
        return Ok(answer);
    }
    // SAFETY: as above.
    match unsafe { operand(py, own)? } {
        Some(own) => fresh(py, arguments(row, [own])),
        None => Ok(not_implemented(py)),
    }
}

/// `~a`, which has a sentence of its own for what has no bits.
///
/// # Safety
/// `own` is a living object.
unsafe fn invert(py: Python<'_>, own: Raw) -> PyResult<Raw> {
    if overrides::expected()
        // SAFETY: CPython keeps the operand alive during the call.
        && let Some(answer) = unsafe { overrides::operator(py, "__invert__", &[own])? }
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

/// Powers by a number and by a tensor are two rows.
fn power_row(exponent: &Operand) -> &'static Row {
    if let Operand::Tensor(_) = exponent { &power::POW_TENSOR } else { &power::POW }
}

/// # Safety
/// All are living objects.
unsafe fn power(py: Python<'_>, base: Raw, exponent: Raw, modulus: Raw) -> PyResult<Raw> {
    // SAFETY: CPython keeps the operands alive during the call, and gives None for no modulus.
    unsafe {
        if overrides::expected()
            && let Some(answer) = Known("__pow__", "__rpow__").answer(py, base, exponent)?
        {
            return Ok(answer);
        }
        match operands(py, base, exponent)? {
            Some((base, exponent)) if modulus == ffi::Py_None() => {
                fresh(py, arguments(power_row(&exponent), [base, exponent]))
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
        if overrides::expected()
            && let Some(answer) = overrides::operator(py, "__ipow__", &[base, exponent])?
        {
            return Ok(answer);
        }
        let Some((own, exponent)) = operands(py, base, exponent)? else { return Ok(not_implemented(py)) };
        call_into(arguments(power_row(&exponent), [own, exponent]), Target::InPlace).map_err(raise)?;
        ffi::Py_IncRef(base);
        Ok(base)
    }
}

/// `a < b` and its kin; Python itself mirrors them.
///
/// # Safety
/// Both are living objects.
unsafe fn compared(py: Python<'_>, left: Raw, right: Raw, op: std::ffi::c_int) -> PyResult<Raw> {
    let (row, known) = match op {
        ffi::Py_LT => (&compare::LT, Known("lt", "gt")),
        ffi::Py_LE => (&compare::LE, Known("le", "ge")),
        ffi::Py_EQ => (&compare::EQ, Known("__eq__", "__eq__")),
        ffi::Py_NE => (&compare::NE, Known("ne", "ne")),
        ffi::Py_GT => (&compare::GT, Known("gt", "lt")),
        _ => (&compare::GE, Known("ge", "le")),
    };
    // SAFETY: CPython keeps the operands alive during the call.
    unsafe {
        if matches!(op, ffi::Py_EQ | ffi::Py_NE)
            && let Some(array) = array(py, right)?
        {
            if overrides::expected()
                && let Some(answer) = known.answer(py, left, right)?
            {
                return Ok(answer);
            }
            // Python would ask the array next, which leaves it to us, and would then compare the objects' identity.
            return match object::tensor_of(left) {
                Some(left) => fresh(py, arguments(row, [Operand::Tensor(left), Operand::Tensor(&array)])),
                None => Ok(not_implemented(py)),
            };
        }
        binary(py, row, &known, left, right)
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
        if numpy::is_array(&object)? { numpy::import(&object).map(Some) } else { Ok(None) }
    }
}

/// `a @ b`.
///
/// # Safety
/// Both are living objects.
unsafe fn product(py: Python<'_>, left: Raw, right: Raw) -> PyResult<Raw> {
    let known = Known("matmul", "__rmatmul__");
    // SAFETY: CPython keeps the operands alive during the call.
    let answer = || unsafe { known.answer(py, left, right) };
    if overrides::expected()
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

/// A slot's number and the C function for it, made of a function of this module.
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
    ($($number:ident $row:path, $known:literal $reflected:literal;)*) => { [$(slot!($number, binaryfunc, |py, left, right| {
        // SAFETY: called by CPython with living operands.
        unsafe { binary(py, &$row, &Known($known, $reflected), left, right) }
    })),*] };
}

macro_rules! in_place_slots {
    ($($number:ident $row:path, $known:literal;)*) => { [$(slot!($number, binaryfunc, |py, left, right| {
        // SAFETY: called by CPython with living operands.
        unsafe { in_place(py, &$row, $known, left, right) }
    })),*] };
}

macro_rules! unary_slots {
    ($($number:ident $row:path, $known:literal;)*) => { [$(slot!($number, unaryfunc, |py, own| {
        // SAFETY: called by CPython with a living operand.
        unsafe { unary(py, &$row, $known, own) }
    })),*] };
}

/// The operators as CPython's type constructor wants them.
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
