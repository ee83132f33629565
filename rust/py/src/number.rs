//! Python's operators on tensors: the number slots, written by hand because they are the shortest way in.

use pyo3::ffi;
use pyo3::impl_::trampoline as shell;
use pyo3::prelude::*;
use rushlight::call::{Target, call_into};
use rushlight::{Args, Row, Value};

use crate::errors::raise;
use crate::{convert, object};

type Raw = *mut ffi::PyObject;

/// An operand of a binary operator; nothing where it is neither a tensor nor a number.
unsafe fn operand<'a>(py: Python<'_>, raw: Raw) -> PyResult<Option<Value<'a>>> {
    // SAFETY: CPython keeps the operands alive during the call.
    unsafe {
        if let Some(tensor) = object::tensor_of(raw) {
            return Ok(Some(Value::Tensor(tensor)));
        }
        let bound = Bound::from_borrowed_ptr(py, raw);
        Ok(convert::number(&bound)?.map(Value::Scalar))
    }
}

fn not_implemented(py: Python<'_>) -> Raw {
    py.NotImplemented().into_ptr()
}

/// `a op b`; the missing arguments of the row take their defaults.
#[inline]
unsafe fn binary(py: Python<'_>, row: &'static Row, left: Raw, right: Raw) -> PyResult<Raw> {
    // SAFETY: CPython keeps the operands alive during the call.
    let (left, right) = unsafe {
        let (Some(left), Some(right)) = (operand(py, left)?, operand(py, right)?) else { return Ok(not_implemented(py)) };
        (left, right)
    };
    object::wrap(py, rushlight::short::binary(row, left, right).map_err(raise)?)
}

/// `a op= b`.
unsafe fn in_place(py: Python<'_>, row: &'static Row, left: Raw, right: Raw) -> PyResult<Raw> {
    // SAFETY: CPython keeps the operands alive during the call.
    unsafe {
        let (Some(own), Some(right)) = (operand(py, left)?, operand(py, right)?) else { return Ok(not_implemented(py)) };
        let mut args = Args::new(row, [own, right]);
        for param in row.schema().params.iter().skip(2) {
            args.values.push(param.default_value());
        }
        call_into(args, Target::InPlace).map_err(raise)?;
        ffi::Py_IncRef(left);
        Ok(left)
    }
}

unsafe fn unary(py: Python<'_>, row: &'static Row, own: Raw) -> PyResult<Raw> {
    // SAFETY: CPython keeps the operand alive during the call.
    let Some(own) = (unsafe { operand(py, own)? }) else { return Ok(not_implemented(py)) };
    object::wrap(py, rushlight::call(Args::new(row, [own])).and_then(rushlight::Output::into_tensor).map_err(raise)?)
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
    ($($number:ident $row:path;)*) => { [$(slot!($number, binaryfunc, |py, left, right| {
        // SAFETY: called by CPython with living operands.
        unsafe { binary(py, &$row, left, right) }
    })),*] };
}

macro_rules! in_place_slots {
    ($($number:ident $row:path;)*) => { [$(slot!($number, binaryfunc, |py, left, right| {
        // SAFETY: called by CPython with living operands.
        unsafe { in_place(py, &$row, left, right) }
    })),*] };
}

macro_rules! unary_slots {
    ($($number:ident $row:path;)*) => { [$(slot!($number, unaryfunc, |py, own| {
        // SAFETY: called by CPython with a living operand.
        unsafe { unary(py, &$row, own) }
    })),*] };
}

/// The operators as CPython's type constructor wants them.
pub fn slots() -> Vec<ffi::PyType_Slot> {
    use rushlight::pointwise::arith;
    let mut slots = Vec::new();
    slots.extend(binary_slots! {
        Py_nb_add arith::ADD;
        Py_nb_subtract arith::SUB;
        Py_nb_multiply arith::MUL;
        Py_nb_true_divide arith::DIV;
    });
    slots.extend(in_place_slots! {
        Py_nb_inplace_add arith::ADD;
        Py_nb_inplace_subtract arith::SUB;
        Py_nb_inplace_multiply arith::MUL;
        Py_nb_inplace_true_divide arith::DIV;
    });
    slots.extend(unary_slots! {
        Py_nb_negative arith::NEG;
    });
    slots
}
