//! Reference pages: one for each namespace of the operators, and their contents. Names with a leading underscore are
//! the engine's own and have no entry.

use std::collections::BTreeMap;
use std::fmt::Write;

use rushlight::Row;
use rushlight::derive::Derivative;
use rushlight::row::{DTypes, Run, Variants};
use rushlight::table::ROWS;

use super::stub::summary;
use crate::budget::GENERATED;
use rushlight::names::{Form, Names, of_function};

pub const FOLDER: &str = "docs/reference";

const LEGEND: &str = "In the calls that raise an error, `t(2, 3)` stands for a tensor of 2 by 3 random numbers, `i(5, 2, 3)` for one of \
                      whole numbers below 5, `b(2)` for one of bools; what begins the message is torch's own sentence.";

pub fn all(names: &Names) -> Vec<(String, String)> {
    let mut pages: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in public() {
        pages.entry(row.namespace).or_default().push(row);
    }
    let mut files = vec![(format!("{FOLDER}/README.md"), contents(&pages, names))];
    for (namespace, mut rows) in pages {
        rows.sort_by_key(|row| row.name);
        let module = module(namespace);
        let mut text = format!("<!-- {GENERATED} -->\n\n# {module}\n\n{LEGEND}\n");
        for row in rows {
            entry(&mut text, &module, row);
        }
        files.push((format!("{FOLDER}/{}.md", file(namespace)), text));
    }
    files
}

fn public() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().copied().filter(|row| !row.name.starts_with('_'))
}

fn module(namespace: &str) -> String {
    if namespace.is_empty() { "torch".into() } else { format!("torch.{namespace}") }
}

fn file(namespace: &str) -> &str {
    if namespace.is_empty() { "torch" } else { namespace }
}

fn contents(pages: &BTreeMap<&str, Vec<&Row>>, names: &Names) -> String {
    let count = |wanted: fn(Form) -> bool| {
        names.keys().filter(|(_, name, form)| !name.starts_with('_') && wanted(*form)).count()
    };
    let functions = count(|form| !form.is_method());
    let methods = count(Form::is_method);
    let mut text = format!(
        "<!-- {GENERATED} -->\n\n# Operators\n\n\
         {} rows give {functions} functions and {methods} methods; `torch` is what `import rushlight as torch` binds.\n",
        public().count()
    );
    for (namespace, rows) in pages {
        let mut lines: Vec<String> = rows
            .iter()
            .map(|row| {
                let about = cell(&summary(row, !row.variants.has(Variants::FUNCTION)));
                format!("| [`{0}`]({1}.md#{2}) | {about} |", row.name, file(namespace), anchor(row))
            })
            .collect();
        lines.sort();
        let _ = write!(text, "\n## {}\n\n| operator | |\n|---|---|\n{}\n", module(namespace), lines.join("\n"));
    }
    text
}

/// The fragment that Markdown makes of a heading.
fn anchor(row: &Row) -> String {
    row.name.replace('.', "").to_lowercase()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn entry(text: &mut String, module: &str, row: &Row) {
    let name = row.python_name();
    let has = |variant| row.variants.has(variant);
    let said = |words: &str| if row.variants.has(Variants::FUNCTION) { of_function(words) } else { words.to_owned() };
    let (signature, doc) = (said(row.signature), said(&paragraphs(row.doc)));
    let _ = write!(text, "\n## {}\n\n    {module}.{name}{signature}\n\n{doc}\n\n", row.name);
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
    forms.extend(row.aliases.iter().map(|alias| format!("`torch.{alias}`")));
    if !forms.is_empty() {
        let _ = writeln!(text, "- Also as {}.", forms.join(", "));
    }
    let broadcasting = row.broadcasting();
    if !broadcasting.is_empty() {
        let _ = writeln!(text, "- Broadcast together: `{}`.", broadcasting.join("`, `"));
    }
    let _ = writeln!(text, "- Element types: {}.", dtypes(row.dtypes));
    let _ = writeln!(text, "- Derivative: {}.", derivative(row));
    for (sample, class, sentence) in row.errors {
        let sentence = sentence.lines().next().unwrap_or_default();
        let _ = writeln!(text, "- `{name}({sample})` raises `{class}`: {}", sentence.replace('<', "\\<"));
    }
}

/// Torch's indented examples become code blocks; the rest stays as it is.
fn paragraphs(doc: &str) -> String {
    doc.trim().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn dtypes(set: DTypes) -> String {
    if set == DTypes::ALL {
        return "all".into();
    }
    set.list().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ")
}

fn derivative(row: &Row) -> String {
    match (&row.derivative, &row.run) {
        (Derivative::Missing(_), _) => "none, and going back through a result is refused".into(),
        (Derivative::NonDifferentiable(why), _) => format!("none, {}", why.trim_end_matches('.')),
        (Derivative::Composed, _) => "yes, through the operators that it consists of".into(),
        (_, Run::View(_) | Run::Views(_)) => "yes; the result shares memory with its input".into(),
        (Derivative::Unstated, _) => "not stated".into(),
        _ => "yes, of any order".into(),
    }
}
