//! What Python can call: the table's rows by name, with aliases, in-place forms and overloads.

use std::collections::BTreeMap;

use crate::row::{Row, Variants};
use crate::signature::Param;
use crate::table::ROWS;

/// How a name is called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    Function,
    Method,
    InPlaceFunction,
    InPlaceMethod,
}

impl Form {
    pub fn is_method(self) -> bool {
        matches!(self, Form::Method | Form::InPlaceMethod)
    }

    pub fn is_in_place(self) -> bool {
        matches!(self, Form::InPlaceFunction | Form::InPlaceMethod)
    }
}

/// (namespace, name, form) to the rows of that name, in the table's order.
pub type Names = BTreeMap<(&'static str, String, Form), Vec<&'static Row>>;

pub fn collect() -> Names {
    let mut names = Names::new();
    for row in ROWS {
        let own = (row.namespace, row.python_name());
        let aliases = row.aliases.iter().map(|alias| alias.rsplit_once('.').unwrap_or(("", alias)));
        for (namespace, name) in std::iter::once(own).chain(aliases) {
            for form in forms(row) {
                if form.is_method() && namespace != row.namespace {
                    continue;
                }
                let name = if form.is_in_place() { format!("{name}_") } else { name.to_owned() };
                let namespace = if form.is_method() { "" } else { namespace };
                names.entry((namespace, name, form)).or_default().push(row);
            }
        }
    }
    names
}

fn forms(row: &Row) -> Vec<Form> {
    let has = |variant| row.variants.has(variant);
    let schema = row.schema();
    let alone = has(Variants::INPLACE) && schema.params.len() == 1 || schema.inplace.is_some();
    [
        (has(Variants::FUNCTION), Form::Function),
        (has(Variants::METHOD), Form::Method),
        (alone && has(Variants::FUNCTION) || has(Variants::INPLACE_FUNCTION), Form::InPlaceFunction),
        (has(Variants::INPLACE), Form::InPlaceMethod),
    ]
    .into_iter()
    .filter_map(|(there, form)| there.then_some(form))
    .collect()
}

/// The parameters that a row has under a name: torch gives `inplace` to functions of networks alone.
pub fn params(row: &'static Row, namespace: &str, form: Form) -> &'static [Param] {
    let schema = row.schema();
    let takes_inplace = form == Form::Function && namespace == "nn.functional";
    &schema.params[..schema.inplace.filter(|_| !takes_inplace).unwrap_or(schema.params.len())]
}

/// What a row's documentation says of a method's object, for the function: there it is the `input`.
pub fn of_function(words: &str) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '.';
    let mut shown = String::with_capacity(words.len());
    let mut rest = words;
    while let Some(at) = rest.find("self") {
        let (before, behind) = (&rest[..at], &rest[at + 4..]);
        let alone = !before.chars().next_back().is_some_and(is_word)
            && !behind.chars().next().is_some_and(|letter| is_word(letter) && letter != '.');
        shown.push_str(before);
        shown.push_str(if alone { "input" } else { "self" });
        rest = behind;
    }
    shown + rest
}
