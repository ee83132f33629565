//! Reference pages: one for each namespace of the operators, and a table of contents. Names with a leading underscore
//! are private and have no entry.

use std::collections::BTreeMap;
use std::fmt::Write;

use rushlight::table::OPERATORS;

use super::stub::summary;
use crate::budget::GENERATED;
use rushlight::names::{CallForm, Names, of_function};
use rushlight_dispatch::operator::{DTypes, Derivative, Implementation, OnCuda, Operator, Variants};

pub const FOLDER: &str = "docs/reference";

const LEGEND: &str = "In calls that raise an error, `t(2, 3)` stands for a tensor of 2 by 3 random numbers, `i(5, 2, 3)` for one \
                      of integers below 5, `b(2)` for one of bools. The messages begin with torch's own sentence.";

pub fn all(names: &Names) -> Vec<(String, String)> {
    let mut pages: BTreeMap<&str, Vec<&Operator>> = BTreeMap::new();
    for op in public() {
        pages.entry(op.namespace).or_default().push(op);
    }
    let mut files = vec![(format!("{FOLDER}/README.md"), contents(&pages, names))];
    for (namespace, mut operators) in pages {
        operators.sort_by_key(|op| op.name);
        let module = module(namespace);
        let mut text = format!("<!-- {GENERATED} -->\n\n# {module}\n\n{LEGEND}\n");
        for op in operators {
            entry(&mut text, &module, op);
        }
        files.push((format!("{FOLDER}/{}.md", file(namespace)), text));
    }
    files
}

fn public() -> impl Iterator<Item = &'static Operator> {
    OPERATORS.iter().copied().filter(|op| !op.name.starts_with('_'))
}

fn module(namespace: &str) -> String {
    if namespace.is_empty() { "torch".into() } else { format!("torch.{namespace}") }
}

fn file(namespace: &str) -> &str {
    if namespace.is_empty() { "torch" } else { namespace }
}

fn contents(pages: &BTreeMap<&str, Vec<&Operator>>, names: &Names) -> String {
    let count = |wanted: fn(CallForm) -> bool| {
        names.keys().filter(|(_, name, form)| !name.starts_with('_') && wanted(*form)).count()
    };
    let functions = count(|form| !form.is_method());
    let methods = count(CallForm::is_method);
    let mut text = format!(
        "<!-- {GENERATED} -->\n\n# Operators\n\n\
         {} operators have {functions} functions and {methods} methods; `torch` stands for `import rushlight as torch`.\n",
        public().count()
    );
    for (namespace, operators) in pages {
        let mut lines: Vec<String> = operators
            .iter()
            .map(|op| {
                let about = cell(&summary(op, !op.variants.has(Variants::FUNCTION)));
                format!("| [`{0}`]({1}.md#{2}) | {about} |", op.name, file(namespace), anchor(op))
            })
            .collect();
        lines.sort();
        let _ = write!(text, "\n## {}\n\n| operator | |\n|---|---|\n{}\n", module(namespace), lines.join("\n"));
    }
    text
}

/// The fragment that Markdown derives from a heading.
fn anchor(op: &Operator) -> String {
    op.name.replace('.', "").to_lowercase()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn entry(text: &mut String, module: &str, op: &Operator) {
    let name = op.python_name();
    let has = |variant| op.variants.has(variant);
    let said = |words: &str| if op.variants.has(Variants::FUNCTION) { of_function(words) } else { words.to_owned() };
    let (signature, doc) = (said(op.signature), said(&paragraphs(op.doc)));
    let _ = write!(text, "\n## {}\n\n    {module}.{name}{signature}\n\n{doc}\n\n", op.name);
    let mut forms = Vec::new();
    if has(Variants::METHOD) {
        forms.push(format!("`Tensor.{name}`"));
    }
    if has(Variants::INPLACE) {
        forms.push(format!("`Tensor.{name}_`"));
    }
    if has(Variants::OUT) {
        forms.push("`out=`".into());
    }
    forms.extend(op.aliases.iter().map(|alias| format!("`torch.{alias}`")));
    if !forms.is_empty() {
        let _ = writeln!(text, "- Also as {}.", forms.join(", "));
    }
    let broadcasting = op.broadcasting();
    if !broadcasting.is_empty() {
        let _ = writeln!(text, "- Broadcast together: `{}`.", broadcasting.join("`, `"));
    }
    let _ = writeln!(text, "- Element types: {}.", dtypes(op.dtypes));
    let _ = writeln!(text, "- Derivative: {}.", derivative(op));
    match op.implementation.on_cuda() {
        OnCuda::Own(()) => {}
        OnCuda::Host => text.push_str("- On CUDA devices: through the host, with one copy each way.\n"),
        OnCuda::Refused(reason) => {
            let _ = writeln!(text, "- On CUDA devices: none, {reason}.");
        }
    }
    for (sample, class, sentence) in op.errors {
        let sentence = sentence.lines().next().unwrap_or_default();
        let _ = writeln!(text, "- `{name}({sample})` raises `{class}`: {}", sentence.replace('<', "\\<"));
    }
}

/// torch's indented examples become code blocks; the rest is unchanged.
fn paragraphs(doc: &str) -> String {
    doc.trim().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn dtypes(set: DTypes) -> String {
    if set == DTypes::ALL {
        return "all".into();
    }
    if set == DTypes::COMPUTED {
        return "all but complex32 and the 8-bit floats".into();
    }
    set.list().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ")
}

fn derivative(op: &Operator) -> String {
    match (&op.derivative, &op.implementation) {
        (Derivative::NotImplemented(_), _) => "none; backward through a result raises".into(),
        (Derivative::NonDifferentiable(why), _) => format!("none, {}", why.trim_end_matches('.')),
        (Derivative::CompositeImplicit, _) => "yes, through the operators of which it is composed".into(),
        (_, Implementation::View(_) | Implementation::MultiView(_)) => {
            "yes; the result shares memory with its input".into()
        }
        (Derivative::Unspecified, _) => "not stated".into(),
        _ => "yes, of any order".into(),
    }
}
