//! What nodes of the graph are called, in torch's words, and which of their edges the name decides.

use std::collections::HashMap;

use once_cell::race::OnceBox;

use crate::operator::{Derivative, Operator};
use crate::primitives::primitives;
use crate::signature::{Kind, Param};

/// The parsed form of `Operator::node`.
#[derive(Clone, Copy)]
pub struct Names(&'static str);

pub fn names(op: &Operator) -> Names {
    Names(op.node)
}

impl Names {
    /// The name for all calls except the special cases.
    fn usual(self) -> Option<&'static str> {
        self.0.split(' ').next().filter(|word| !word.is_empty() && !word.contains('='))
    }

    pub fn case(self, case: &str) -> Option<&'static str> {
        self.0.split(' ').find_map(|word| word.strip_prefix(case)?.strip_prefix('='))
    }
}

/// torch's name of an operator's node: `SumBackward1` is the second overload of `sum`.
pub fn node_name(op: &'static Operator) -> &'static str {
    if let Some(name) = names(op).usual() {
        return name;
    }
    if let Derivative::NotImplemented(operator) = op.derivative
        && operator.starts_with("aten::")
    {
        return "torch::autograd::NotImplemented";
    }
    let Ok(primitives) = primitives() else { return "Backward0" };
    static NAMES: OnceBox<HashMap<(&'static str, &'static str), &'static str>> = OnceBox::new();
    let names = NAMES.get_or_init(|| {
        let mut overloads: HashMap<(&str, &str), usize> = HashMap::new();
        let named = primitives.table.iter().map(|op| {
            // torch's engine treats `nn.functional` and `torch` as one namespace.
            let family = if op.namespace == "nn.functional" { "" } else { op.namespace };
            let count = overloads.entry((family, op.python_name())).or_default();
            let name = format!("{}{}Backward{count}", camel(family), camel(op.python_name()));
            *count += 1;
            ((op.namespace, op.name), &*name.leak())
        });
        Box::new(named.collect())
    });
    names.get(&(op.namespace, op.name)).copied().unwrap_or("Backward0")
}

/// The name of a call in profiles: torch's own for a step that torch has under another name.
pub fn step_name(op: &'static Operator) -> String {
    match op.name {
        "_sparse_dense_mm" => "_sparse_addmm".to_owned(),
        _ => op.flat_name(),
    }
}

/// The name of the node of an in-place call.
pub fn in_place_name(op: &'static Operator) -> &'static str {
    names(op).case("in_place").unwrap_or_else(|| node_name(op))
}

/// Words are capitalised, and so is a letter after a digit: `log1p` becomes `Log1P`.
fn camel(name: &str) -> String {
    let mut begins = true;
    let shown = |letter: char| {
        let capital = std::mem::replace(&mut begins, letter == '_' || letter.is_ascii_digit());
        (letter != '_').then(|| if capital { letter.to_ascii_uppercase() } else { letter })
    };
    name.chars().filter_map(shown).collect()
}

/// The positions, as bits, that have an edge even if no tensor is there. An optional tensor has one, and so has a
/// number that torch converts to a tensor: if numbers have an overload of their own, `Operator::node` names its node.
pub fn optional_edges(op: &Operator, params: &[Param]) -> u64 {
    let is_open = |place: usize, kind: Kind| match kind {
        Kind::Tensor => names(op).case("left_out").is_none(),
        Kind::Operand if matches!(op.derivative, Derivative::NotImplemented(_)) => false,
        Kind::Operand => names(op).case(if place == 0 { "first" } else { "number" }).is_none(),
        _ => false,
    };
    let open = params.iter().enumerate().filter(|&(place, param)| is_open(place, param.kind));
    open.filter(|&(place, _)| op.derivative.has_gradient(place)).fold(0, |places, (place, _)| places | 1 << place)
}
