//! Tests of calls against signatures, in an embedded Python interpreter.

use std::ffi::CString;
use std::sync::Once;

use pyo3::sync::OnceExt;
use pyo3::types::PyDict;
use rushlight::Scalar;
use rushlight_dispatch::operator::operator;

use super::*;

#[operator]
static FILL: Operator = Operator {
    name: "fill",
    signature: "(Tensor self, int[] size, Scalar value=1, *, bool twice=False) -> Tensor",
    ..Operator::BASE
};
#[operator]
static SUM: Operator =
    Operator { name: "total", signature: "(Tensor self, int dim, bool keepdim=False) -> Tensor", ..Operator::BASE };
#[operator]
static VIEW: Operator = Operator { name: "view", signature: "(Tensor self, int[] size) -> Tensor", ..Operator::BASE };

fn in_python<R>(test: impl FnOnce(Python<'_>) -> R) -> R {
    static READY: Once = Once::new();
    Python::initialize();
    Python::attach(|py| {
        READY.call_once_py_attached(py, || {
            rushlight::install();
            crate::class::make(py).unwrap();
        });
        test(py)
    })
}

/// Calls `test` with the call that has the arguments of this Python text; a method's `self` is a tensor of three elements.
fn given<R>(method: bool, arguments: &str, test: impl FnOnce(&Call) -> R) -> R {
    in_python(|py| {
        let text = CString::new(format!("(lambda *args, **named: (args, named))({arguments})")).unwrap();
        let (positional, named): (Bound<PyTuple>, Bound<PyDict>) =
            py.eval(&text, None, None).unwrap().extract().unwrap();
        let own = object::wrap_bound(py, rushlight::from_slice(&[1.0, 2.0, 3.0]).unwrap()).unwrap();
        let positional: Vec<_> = positional.iter().collect();
        let (keywords, values): (Vec<_>, Vec<_>) = named.iter().unzip();
        let raw = |objects: &[Bound<PyAny>]| objects.iter().map(Bound::as_ptr).collect::<Vec<_>>();
        let (positional, names, values) = (raw(&positional), PyTuple::new(py, &keywords).unwrap(), raw(&values));
        let receiver = method.then_some(own.as_ptr());
        // SAFETY: all objects live until the end of this function, and each keyword has its value.
        test(&unsafe { Call::with_keywords(py, receiver, &positional, names.as_ptr(), &values) })
    })
}

fn overload(op: &'static Operator) -> Overload {
    Overload::new(op, &op.schema().params, false, false)
}

/// The values to which a method's arguments are bound.
fn bound<R>(op: &'static Operator, arguments: &str, read: impl FnOnce(&Args) -> R) -> R {
    given(true, arguments, |call| {
        let mut args = Args { op, values: Default::default() };
        let fits = bind(&overload(op), call, &mut args).is_ok();
        assert!(fits, "{arguments}");
        read(&args)
    })
}

/// The message about a method's arguments that do not match.
fn refused(op: &'static Operator, arguments: &str) -> String {
    given(true, arguments, |call| {
        let overloads = [overload(op)];
        let mut args = Args { op, values: Default::default() };
        match bind(&overloads[0], call, &mut args).expect_err("arguments that do not match") {
            BindError::Raised(error) => error.value(call.py).to_string(),
            BindError::Mismatch => no_match_of(op.name, &overloads, call),
        }
    })
}

fn no_match_of(name: &str, overloads: &[Overload], call: &Call) -> String {
    let signatures = Signatures::new(overloads, call.receiver.is_some());
    no_match(name, overloads, &signatures, call).value(call.py).to_string()
}

#[test]
fn positions_names_and_defaults_are_bound() {
    let read = |args: &Args| {
        let value = match args.values[FILL::VALUE.position()] {
            Value::Scalar(Scalar::Int(value)) => value,
            _ => -1,
        };
        (args.ints(FILL::SIZE).unwrap().to_vec(), value, args.bool(FILL::TWICE).unwrap())
    };
    assert_eq!(bound(&FILL, "(2, 3)", read), (vec![2, 3], 1, false));
    assert_eq!(bound(&FILL, "[4], 5, twice=True", read), (vec![4], 5, true));
    assert_eq!(bound(&FILL, "value=7, size=()", read), (vec![], 7, false));
}

#[test]
fn names_of_numpy_are_accepted() {
    let read = |args: &Args| (args.int(SUM::DIM).unwrap(), args.bool(SUM::KEEPDIM).unwrap());
    assert_eq!(bound(&SUM, "axis=1, keepdims=True", read), (1, true));
    let function = given(false, "x=None, dim=0", |call| {
        let overload = overload(&SUM);
        call.keywords().map(|(keyword, _)| overload.place(keyword)).collect::<Vec<_>>()
    });
    assert_eq!(function, [Some(0), Some(1)]);
}

#[test]
fn trailing_numbers_fill_a_list() {
    let sizes = |args: &Args| args.ints(VIEW::SIZE).unwrap().to_vec();
    assert_eq!(bound(&VIEW, "3, 1", sizes), [3, 1]);
    assert_eq!(bound(&VIEW, "(3, 1)", sizes), [3, 1]);
    assert_eq!(bound(&VIEW, "-1", sizes), [-1]);
}

#[test]
fn messages_are_those_of_torch() {
    for (row, arguments, message) in [
        (&FILL, "", "fill() missing 1 required positional arguments: \"size\""),
        (&FILL, "(2,), 1, True", "fill() takes from 1 to 2 positional arguments but 3 were given"),
        (&FILL, "(2,), size=(3,)", "fill() got multiple values for argument 'size'"),
        (&FILL, "(2,), colour=1", "fill() got an unexpected keyword argument 'colour'\nIts arguments are: "),
        (&FILL, "(2,), 'a'", "fill(): argument 'value' (position 2) must be Number, not str"),
        (&FILL, "(2,), twice=1", "fill(): argument 'twice' must be bool, not int"),
        (
            &FILL,
            "(2.5,)",
            "fill(): argument 'size' (position 1) must be tuple of ints, but found element of type float at pos 0",
        ),
        (
            &FILL,
            "(2, 'a')",
            "fill(): argument 'size' failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got str\"",
        ),
        (&SUM, "1 << 80", "Overflow when unpacking long"),
    ] {
        let found = refused(row, arguments);
        assert!(found.starts_with(message), "{arguments}: {found}");
    }
}

#[test]
fn several_overloads_are_listed() {
    let message = given(true, "'a', 'b', 'c'", |call| no_match_of("sum", &[overload(&SUM), overload(&VIEW)], call));
    assert_eq!(
        message,
        "sum() received an invalid combination of arguments - got (str, str, str), but expected one of:\n * (int dim, bool keepdim = False)\n * (tuple of ints size)"
    );
}

#[test]
fn arguments_are_sorted_by_name() {
    let sorted = |arguments: &str| {
        given(false, arguments, |call| match sort("size", ["dim", "step"], call) {
            Ok(sorted) => sorted.map(|value| value.map_or("-".to_owned(), |value| value.to_string())).join(" "),
            Err(error) => error.value(call.py).to_string(),
        })
    };
    assert_eq!(sorted(""), "- -");
    assert_eq!(sorted("1, 2"), "1 2");
    assert_eq!(sorted("step=2"), "- 2");
    assert_eq!(sorted("1, step=2"), "1 2");
    assert_eq!(sorted("1, 2, 3"), "size() takes from 0 to 2 positional arguments but 3 were given");
    assert_eq!(sorted("1, dim=2"), "size() got multiple values for argument 'dim'");
    assert_eq!(sorted("colour=2"), "size() got an unexpected keyword argument 'colour'");
    let none = given(false, "1", |call| sort::<0>("dim", [], call).unwrap_err().value(call.py).to_string());
    assert_eq!(none, "TensorBase.dim() takes no arguments (1 given)");
}
