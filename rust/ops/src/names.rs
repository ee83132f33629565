//! The names that Python can call: the table's operators by name, with aliases, in-place forms and overloads.

use rushlight_dispatch::operator::{Operator, Variants};
use rushlight_dispatch::signature::Param;
use std::collections::BTreeMap;

use crate::linalg::out_dtype;
use crate::table::OPERATORS;

/// How a name is called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CallForm {
    Function,
    Method,
    InPlaceFunction,
    InPlaceMethod,
}

impl CallForm {
    pub fn is_method(self) -> bool {
        matches!(self, CallForm::Method | CallForm::InPlaceMethod)
    }

    pub fn is_in_place(self) -> bool {
        matches!(self, CallForm::InPlaceFunction | CallForm::InPlaceMethod)
    }
}

/// (namespace, name, form) to the operators of that name, in the table's order.
pub type Names = BTreeMap<(&'static str, String, CallForm), Vec<&'static Operator>>;

pub fn collect() -> Names {
    let mut names = Names::new();
    for op in OPERATORS.iter().chain(out_dtype::OPERATORS).copied() {
        let own = (op.namespace, op.python_name());
        let aliases = op.aliases.iter().map(|alias| alias.rsplit_once('.').unwrap_or(("", alias)));
        for (namespace, name) in std::iter::once(own).chain(aliases) {
            for form in forms(op) {
                if form.is_method() && namespace != op.namespace {
                    continue;
                }
                let name = if form.is_in_place() { format!("{name}_") } else { name.to_owned() };
                let namespace = if form.is_method() { "" } else { namespace };
                names.entry((namespace, name, form)).or_default().push(op);
            }
        }
    }
    names
}

fn forms(op: &Operator) -> Vec<CallForm> {
    let has = |variant| op.variants.has(variant);
    let schema = op.schema();
    let alone = has(Variants::INPLACE) && schema.params.len() == 1 || schema.inplace.is_some();
    [
        (has(Variants::FUNCTION), CallForm::Function),
        (has(Variants::METHOD), CallForm::Method),
        (alone && has(Variants::FUNCTION) || has(Variants::INPLACE_FUNCTION), CallForm::InPlaceFunction),
        (has(Variants::INPLACE), CallForm::InPlaceMethod),
    ]
    .into_iter()
    .filter_map(|(there, form)| there.then_some(form))
    .collect()
}

/// The parameters of an operator under a name: torch gives `inplace` only to functions of `nn.functional`.
pub fn params(op: &'static Operator, namespace: &str, form: CallForm) -> &'static [Param] {
    let schema = op.schema();
    let takes_inplace = form == CallForm::Function && namespace == "nn.functional";
    &schema.params
        [..schema.inplace.filter(|_| !takes_inplace).map_or(schema.params.len(), |inplace| inplace.position())]
}

/// An operator's documentation for a method, adapted to the function: its object is the `input`.
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
