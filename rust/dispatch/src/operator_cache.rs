//! What follows from what an operator states: its signature taken apart, its names, how its results are handed out.

use std::sync::atomic::Ordering;

use crate::naming;
use crate::operator::{Cached, Implementation, Operator, Tags};
use crate::signature::{Kind, Param, Returns, Schema};
use crate::value::{Output, Results};

impl Operator {
    /// The parsed signature.
    #[inline]
    pub fn schema(&self) -> &'static Schema {
        &self.cached().schema
    }

    /// The positions, as bits, that have an edge in the graph even if no tensor is there.
    #[inline]
    pub fn optional_edges(&self) -> u64 {
        self.cached().optional_edges
    }

    /// The name in error messages, also of the in-place form: `linalg.inv`, `add_`.
    pub fn display_name(&self, in_place: bool) -> &'static str {
        self.cached().display_names[usize::from(in_place)]
    }

    #[inline]
    fn cached(&self) -> &'static Cached {
        let cached = self.cached.load(Ordering::Acquire);
        if cached.is_null() {
            return self.cache();
        }
        // SAFETY: only `cache` stores a pointer here; the value behind it is leaked, so it lives forever.
        unsafe { &*cached }
    }

    #[cold]
    fn cache(&self) -> &'static Cached {
        // The table's tests parse every signature, so users never see this.
        let schema = Schema::parse(self.signature)
            .unwrap_or_else(|| panic!("the signature of {} cannot be read: {}", self.name, self.signature));
        let display_name = match self.namespace {
            "" => self.python_name().to_owned(),
            namespace => format!("{namespace}.{}", self.python_name()),
        };
        let in_place = if display_name.ends_with('_') { display_name.clone() } else { format!("{display_name}_") };
        let optional_edges = naming::optional_edges(self, &schema.params);
        let cached: &'static Cached = Box::leak(Box::new(Cached {
            schema,
            display_names: [display_name.leak(), in_place.leak()],
            optional_edges,
        }));
        self.cached.store(std::ptr::from_ref(cached).cast_mut(), Ordering::Release);
        cached
    }

    /// The name without that of the overload.
    pub fn python_name(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(name, _)| name)
    }

    /// torch's name in places without modules: classes of results, some errors and profiles. `linalg_svd`, but `linear`
    /// for `nn.functional`.
    pub fn flat_name(&self) -> String {
        match self.namespace {
            "" | "nn.functional" => self.python_name().to_owned(),
            namespace => format!("{}_{}", namespace.replace('.', "_"), self.python_name()),
        }
    }

    /// The arguments that broadcast to a common shape; empty if there is at most one tensor.
    pub fn broadcasting(&self) -> Vec<&'static str> {
        let takes_part = |param: &&Param| matches!(param.kind, Kind::Tensor | Kind::Operand);
        let shown = |param: &Param| if param.name == "self" { "input" } else { param.name };
        let all: Vec<_> = self.schema().params.iter().filter(takes_part).map(shown).collect();
        let meet = matches!(self.implementation, Implementation::Pointwise(_)) || self.tags.has(Tags::BROADCASTS);
        if meet && all.len() > 1 { all } else { Vec::new() }
    }

    pub fn is_view(&self) -> bool {
        matches!(
            self.implementation,
            Implementation::View(_) | Implementation::ViewDtype(_) | Implementation::MultiView(_)
        )
    }

    /// Results in the form that the signature promises.
    pub fn gather(&self, mut results: Results) -> Output {
        match self.schema().returns {
            Returns::List => Output::List(results.into_vec()),
            Returns::Named(_) => Output::Tuple(results.into_vec()),
            _ if results.len() == 1 => results.pop().map_or(Output::Nothing, Output::Tensor),
            _ => Output::Tuple(results.into_vec()),
        }
    }
}
