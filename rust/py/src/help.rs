//! The texts that `help()` shows of the operators' functions and methods. They are made when the module is loaded, because a function
//! of CPython has its text from the beginning.

use rushlight::names::of_function;
use rushlight::reference::{SAMPLES, facts, in_place, in_place_text, sample_call};
use rushlight_dispatch::operator::{Operator, Variants};

use crate::parse::Overload;

/// A name under which operators are called.
pub struct Shown<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub is_method: bool,
    pub is_in_place: bool,
}

/// The text: one overload's signature in the format of `inspect`, or those of all; what it does, its dtypes and its errors.
/// Overloads that do the same have these once.
pub fn text(shown: &Shown, overloads: &[Overload]) -> String {
    let of = |words: &str| if shown.is_method { words.to_owned() } else { of_function(words) };
    if let [overload] = overloads {
        return format!(
            "{}\n--\n\n{}{}",
            signature(shown, overload),
            described(shown, overload.op),
            errors(shown, &[overload.op])
        );
    }
    let mut parts: Vec<(String, Vec<&'static Operator>)> = Vec::new();
    for op in overloads.iter().map(|overload| overload.op) {
        let text = described(shown, op);
        match parts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, operators)) => operators.push(op),
            None => parts.push((text, vec![op])),
        }
    }
    let part = |(text, operators): (String, Vec<&'static Operator>)| {
        let signatures: Vec<String> =
            operators.iter().map(|op| format!("{}{}", shown.name, of(op.signature))).collect();
        format!("{}\n\n{text}{}", signatures.join("\n"), errors(shown, &operators))
    };
    parts.into_iter().map(part).collect::<Vec<_>>().join("\n\n")
}

fn signature(shown: &Shown, overload: &Overload) -> String {
    let schema = overload.op.schema();
    let mut parameters: Vec<String> = Vec::new();
    let mut starred = false;
    for (place, param) in overload.params().iter().enumerate() {
        let name = match (place, param.name, shown.is_method) {
            (0, _, true) => "$self",
            (_, "self", false) => "input",
            (_, name, _) => name,
        };
        if place + 1 == schema.positional && schema.takes_variadic(shown.is_method) {
            parameters.push(format!("*{name}"));
            starred = true;
            continue;
        }
        if param.keyword_only && !starred {
            parameters.push("*".into());
            starred = true;
        }
        parameters.push(match param.default {
            Some(default) => format!("{name}={}", default.replace('[', "(").replace(']', ",)")),
            None => name.into(),
        });
    }
    if overload.takes_out {
        if !starred {
            parameters.push("*".into());
        }
        parameters.push("out=None".into());
    }
    format!("{}({})", shown.name, parameters.join(", "))
}

/// What an operator does, and its dtypes.
fn described(shown: &Shown, op: &Operator) -> String {
    let doc = op.doc.trim();
    let mut text = match (shown.is_in_place, shown.is_method) {
        (true, _) => {
            format!("{}\n\n{}", in_place(op), in_place_text(op, shown.namespace, shown.name, shown.is_method))
        }
        (false, true) => doc.to_owned(),
        (false, false) => of_function(doc),
    };
    let mut before = "\n\n";
    for fact in facts(op) {
        text.push_str(before);
        wrap(&mut text, "", &fact);
        before = "\n";
    }
    text
}

/// The calls that raise an error, with the error. An in-place form shows those of the other forms, if there are any.
fn errors(shown: &Shown, operators: &[&Operator]) -> String {
    let mut text = String::new();
    for (op, (sample, class, sentence)) in
        operators.iter().flat_map(|op| op.errors.iter().map(move |error| (op, error)))
    {
        if text.is_empty() {
            text.push_str("\n\n");
            wrap(&mut text, "", &format!("Raises, where {SAMPLES}:"));
        }
        let has_other_forms = op.variants.has(Variants::FUNCTION) || op.variants.has(Variants::METHOD);
        let name = if shown.is_in_place && has_other_forms { op.python_name() } else { shown.name };
        let call = sample_call(name, sample, shown.is_method);
        let sentence = sentence.lines().next().unwrap_or_default();
        text.push_str(&format!("\n    {call}\n"));
        wrap(&mut text, "        ", &format!("{class}: {sentence}"));
    }
    text
}

/// Appends an indented line, broken where it is longer than a terminal is wide.
fn wrap(text: &mut String, indent: &str, line: &str) {
    const WIDTH: usize = 120;
    const MORE: &str = "    ";

    text.push_str(indent);
    let (mut rest, mut room) = (line, WIDTH - indent.len());
    while rest.len() > room
        && let Some(end) = rest[..rest.floor_char_boundary(room)].rfind(' ')
    {
        text.push_str(&rest[..end]);
        text.extend(["\n", indent, MORE]);
        rest = &rest[end + 1..];
        room = WIDTH - indent.len() - MORE.len();
    }
    text.push_str(rest);
}
