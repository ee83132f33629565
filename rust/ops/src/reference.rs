//! What the definition of an operator tells its users, as the reference pages and `help()` show it.

use std::borrow::Cow;

use rushlight_dispatch::operator::{DTypes, Derivative, Implementation, OnCuda, Operator};

use crate::names::of_function;

/// The meaning of a definition's samples.
pub const SAMPLES: &str = "`t(2, 3)` stands for a tensor of 2 by 3 random numbers, `i(5, 2, 3)` for one of integers below 5, \
                           `b(2)` for one of bools";

/// The facts that the text of an operator does not state.
pub fn facts(op: &Operator) -> impl Iterator<Item = String> {
    let broadcasting = op.broadcasting();
    let together = (!broadcasting.is_empty()).then(|| format!("Broadcast together: `{}`.", broadcasting.join("`, `")));
    let on_cuda = match op.implementation.on_cuda() {
        OnCuda::Own(()) => None,
        OnCuda::Host => Some("On CUDA devices: through the host, with one copy each way.".into()),
        OnCuda::Refused(reason) => Some(format!("On CUDA devices: none, {reason}.")),
    };
    let always = [format!("Element types: {}.", dtypes(op.dtypes)), format!("Derivative: {}.", derivative(op))];
    together.into_iter().chain(always).chain(on_cuda)
}

fn dtypes(set: DTypes) -> String {
    if set == DTypes::ALL {
        return "all".into();
    }
    if set == DTypes::COMPUTED {
        return "all but complex32 and the 8-bit floats".into();
    }
    let mut names = String::with_capacity(128);
    for dtype in set.list() {
        names.push_str(if names.is_empty() { "" } else { ", " });
        names.push_str(dtype.name());
    }
    names
}

fn derivative(op: &Operator) -> Cow<'static, str> {
    match (&op.derivative, &op.implementation) {
        (Derivative::NotImplemented(_), _) => "none; backward through a result raises".into(),
        (Derivative::NonDifferentiable(why), _) => format!("none, {}", why.trim_end_matches('.')).into(),
        (Derivative::CompositeImplicit, _) => "yes, through the operators of which it is composed".into(),
        (_, Implementation::View(_) | Implementation::MultiView(_)) => {
            "yes; the result shares memory with its input".into()
        }
        (Derivative::Unspecified, _) => "not stated".into(),
        _ => "yes, of any order".into(),
    }
}

/// The first of some arguments in Python, and what follows its comma: the others, or the bracket that closes the call.
fn first_argument(arguments: &str) -> (&str, &str) {
    let (mut depth, mut quote) = (0, None);
    for (at, letter) in arguments.char_indices() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(letter),
            ('(' | '[' | '{', None) => depth += 1,
            (')' | ']' | '}', None) if depth == 0 => return arguments.split_at(at),
            (')' | ']' | '}', None) => depth -= 1,
            (',', None) if depth == 0 => return (&arguments[..at], arguments[at + 1..].trim_start()),
            _ => {}
        }
    }
    (arguments, "")
}

/// The call of a method, for the arguments of a function and what follows them: the bracket that closes the call, and more. None if
/// the first argument can have no methods, or is named.
fn as_method(name: &str, arguments: &str) -> Option<String> {
    let (receiver, rest) = first_argument(arguments);
    let word = receiver.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(receiver.len());
    let is_call = receiver.starts_with(char::is_alphabetic) && !receiver[word..].starts_with('=');
    is_call.then(|| format!("{receiver}.{name}({rest}"))
}

/// The call with a sample's arguments, of a function or a method.
pub fn sample_call(name: &str, sample: &str, is_method: bool) -> String {
    let method = if is_method { as_method(name, &format!("{sample})")) } else { None };
    method.unwrap_or_else(|| format!("{name}({sample})"))
}

/// What an in-place form does.
pub fn in_place(op: &Operator) -> String {
    format!("In place: the tensor becomes the result of `{}`, in its own dtype, and is returned.", op.python_name())
}

/// The text of an operator with an example of its in-place form, under one of the form's names.
pub fn in_place_text(op: &Operator, namespace: &str, name: &str, is_method: bool) -> String {
    let (doc, function) = (op.doc.trim(), op.python_name());
    let (text, example) = match doc.find(">>>").filter(|_| !op.in_place_example.is_empty()) {
        Some(at) => (&doc[..at], op.in_place_example.replace(&format!(".{function}_("), &format!(".{name}("))),
        None => (doc, String::new()),
    };
    let module = if namespace.is_empty() { String::new() } else { format!("{namespace}.") };
    let call = |line: &str| -> Option<String> {
        let (indent, call) = line.split_once(">>> ")?;
        if let Some((receiver, arguments)) = call.split_once(&format!(").{function}(")) {
            return Some(format!("{indent}>>> {receiver}).{name}({arguments}"));
        }
        let (path, arguments) = call.split_once('(')?;
        let (place, called) = path.rsplit_once('.')?;
        if called != function || !place.starts_with("torch") {
            return None;
        }
        let in_place =
            if is_method { as_method(name, arguments)? } else { format!("torch.{module}{name}({arguments}") };
        Some(format!("{indent}>>> {in_place}"))
    };
    let text = if is_method { text.to_owned() } else { of_function(text) };
    let lines: Vec<String> = text.lines().map(|line| call(line).unwrap_or_else(|| line.to_owned())).collect();
    lines.join("\n") + &example
}
