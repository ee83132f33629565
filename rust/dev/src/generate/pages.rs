//! Reference pages: one for each namespace of the operators, and a table of contents. Names with a leading underscore
//! are private and have no entry.

use std::collections::BTreeMap;
use std::fmt::Write;

use rushlight::table::OPERATORS;

use super::stub::summary;
use crate::budget::GENERATED;
use rushlight::names::{CallForm, Names, of_function};
use rushlight::reference::{SAMPLES, facts, sample_call};
use rushlight_dispatch::operator::{Operator, Variants};

pub const FOLDER: &str = "docs/reference";

pub fn all(names: &Names) -> Vec<(String, String)> {
    let mut pages: BTreeMap<&str, Vec<&Operator>> = BTreeMap::new();
    for op in public() {
        pages.entry(op.namespace).or_default().push(op);
    }
    let mut files = vec![(format!("{FOLDER}/README.md"), contents(&pages, names))];
    for (namespace, mut operators) in pages {
        operators.sort_by_key(|op| op.name);
        let module = module(namespace);
        let legend = format!("In calls that raise an error, {SAMPLES}. The messages begin with torch's own sentence.");
        let mut text = format!("<!-- {GENERATED} -->\n\n# {module}\n\n{legend}\n");
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
                let is_function = op.variants.has(Variants::FUNCTION);
                let about = cell(&summary(op, if is_function { CallForm::Function } else { CallForm::Method }));
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
    for fact in facts(op) {
        let _ = writeln!(text, "- {fact}");
    }
    for (sample, class, sentence) in op.errors {
        let sentence = sentence.lines().next().unwrap_or_default();
        let _ = writeln!(
            text,
            "- `{}` raises `{class}`: {}",
            sample_call(name, sample, false),
            sentence.replace('<', "\\<")
        );
    }
}

/// torch's indented examples become code blocks; the rest is unchanged.
fn paragraphs(doc: &str) -> String {
    doc.trim().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
