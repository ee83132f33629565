//! Requirements on every operator definition, checked on the table itself. Python tests check their results
//! (`tests/ops/test_table_*.py`) against NumPy.

use rushlight::linalg::out_dtype;
use rushlight::sparse::bodies::BODIES;
use rushlight::{sparse, table, vmap};
use rushlight_dispatch::operator::{Derivative, Implementation, OnCuda, Operator, Promote, Sparse};
use rushlight_dispatch::signature::{Kind, Param, Returns, Schema};
use rushlight_dispatch::value::Arg;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of operators without a form of their own for CUDA: those that run through the host, and those that are refused there.
/// A new operator of either kind must be added here; otherwise the number may only decrease.
const WITHOUT_OWN_CUDA_FORM: usize = 8;

/// Fails with a line for every operator for which `wrong` returns an error.
fn every_operator(wrong: impl Fn(&'static Operator) -> Option<String>) {
    let rows = table::OPERATORS.iter().chain(sparse::OPERATORS).chain(vmap::OPERATORS).chain(out_dtype::OPERATORS);
    let lines: Vec<String> = rows.filter_map(|op| wrong(op).map(|text| format!("{}: {text}", op.name))).collect();
    assert!(lines.is_empty(), "{} rows\n{}", lines.len(), lines.join("\n"));
}

/// Whether an operator is not in the table: its documentation is in Python, and samples are dense tensors outside of
/// `vmap`.
fn is_apart(op: &'static Operator) -> bool {
    sparse::OPERATORS.iter().chain(vmap::OPERATORS).chain(out_dtype::OPERATORS).any(|other| std::ptr::eq(*other, op))
}

fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Tensor => "Tensor",
        Kind::Operand => "Tensor|Scalar",
        Kind::TensorOrFloat => "Tensor|float",
        Kind::Scalar => "Scalar",
        Kind::Int => "int",
        Kind::Float => "float",
        Kind::Bool => "bool",
        Kind::Truth => "truth",
        Kind::Ints => "int[]",
        Kind::IntOrInts => "int[1]",
        Kind::Floats => "float[]",
        Kind::Scalars => "Scalar[]",
        Kind::Object => "object",
        Kind::Tensors => "Tensor[]",
        Kind::DType => "ScalarType",
        Kind::Device => "Device",
        Kind::Str => "str",
        Kind::Generator => "Generator",
        Kind::Layout => "Layout",
        Kind::MemoryFormat => "MemoryFormat",
    }
}

fn param_text(param: &Param) -> String {
    let optional = if param.optional { "?" } else { "" };
    let default = param.default.map(|text| format!("={text}")).unwrap_or_default();
    let variadic = if param.variadic { "*" } else { "" };
    let kind = if param.separate { kind_text(Kind::Tensor) } else { kind_text(param.kind) };
    format!("{kind}{optional} {variadic}{}{default}", param.name)
}

fn signature_text(schema: &Schema) -> String {
    let mut parts: Vec<String> = schema.params.iter().map(param_text).collect();
    if let Some(first) = schema.params.iter().position(|param| param.keyword_only) {
        parts.insert(first, "*".into());
    }
    let returns = match schema.returns {
        Returns::Tensor => "Tensor".into(),
        Returns::List => "Tensor[]".into(),
        Returns::Other(kind) => kind.into(),
        Returns::Named(fields) => {
            let fields: Vec<String> = fields.iter().map(|field| format!("Tensor {field}").trim().into()).collect();
            format!("({})", fields.join(", "))
        }
    };
    format!("({}) -> {returns}", parts.join(", "))
}

#[test]
fn signatures_print_back_to_themselves() {
    every_operator(|op| match Schema::parse(op.signature) {
        None => Some(format!("{} cannot be read", op.signature)),
        Some(schema) => {
            let text = signature_text(&schema);
            (text != op.signature.replace("Tensor?[]", "Tensor[]")).then(|| format!("{} became {text}", op.signature))
        }
    });
}

#[test]
fn a_signature_with_a_mistake_is_not_read() {
    for text in [
        "(Tensor self)",
        "Tensor self -> Tensor",
        "(Matrix self) -> Tensor",
        "(Tensor) -> Tensor",
        "(Tensor self, int dim=two) -> Tensor",
        "(Tensor self, float p=x) -> Tensor",
        "(Tensor self, bool flag=true) -> Tensor",
        "(Tensor self, int[] dims=[1, two]) -> Tensor",
        "(Tensor self, Scalar alpha=one) -> Tensor",
        "(Tensor self, str mode=mean) -> Tensor",
        "(Tensor self, ScalarType dtype=flaot32) -> Tensor",
    ] {
        assert!(Schema::parse(text).is_none(), "{text}");
    }
}

#[test]
fn names_are_unique() {
    let mut seen = BTreeSet::new();
    every_operator(|op| (op.name.is_empty() || op.python_name().is_empty()).then(|| "no name".into()));
    for op in table::OPERATORS {
        assert!(seen.insert((op.namespace, op.name)), "{} stands twice", op.name);
    }
    let own: BTreeSet<_> = table::OPERATORS.iter().map(|op| (op.namespace, op.python_name())).collect();
    every_operator(|op| {
        let taken = |alias: &&&str| own.contains(&alias.rsplit_once('.').unwrap_or(("", alias)));
        let alias = op.aliases.iter().find(taken)?;
        // Overloads of one operator share their aliases; no other operator may have them.
        Some(format!("its alias {alias} is another operator's name"))
    });
}

#[test]
fn a_derivative_or_a_reason_is_stated() {
    every_operator(|op| match (&op.derivative, &op.implementation) {
        (Derivative::Unspecified, _) => Some("says nothing of its derivative".into()),
        (Derivative::NonDifferentiable(reason), _) if reason.len() < 8 => Some("no reason given".into()),
        (Derivative::Formulas(_) | Derivative::Joint(_), Implementation::CompositeImplicit(_)) => {
            Some("a composition takes the derivatives of its parts".into())
        }
        (
            Derivative::CompositeImplicit,
            Implementation::Pointwise(_)
            | Implementation::Kernel(_)
            | Implementation::View(_)
            | Implementation::MultiView(_),
        ) => Some("is no composition".into()),
        (Derivative::Formulas([]), _) => Some("an empty list of formulas".into()),
        (Derivative::Formulas(list), _) => list.iter().find_map(|formula| tensor_at(op, formula.input)),
        (Derivative::Joint(joint), _) => joint.inputs.iter().find_map(|&arg| tensor_at(op, arg)),
        _ => None,
    });
}

/// Checks a derivative for an argument.
fn tensor_at(op: &Operator, arg: Arg) -> Option<String> {
    arg.check(op, &[]);
    let place = arg.position();
    match op.schema().params.get(place).map(|param| param.kind) {
        Some(Kind::Tensor | Kind::Operand | Kind::Tensors) => None,
        Some(kind) => Some(format!("a derivative for parameter {place}, which is {kind:?}")),
        None => Some(format!("a derivative for parameter {place}, which does not exist")),
    }
}

/// Whether arguments of the right types may still be invalid: shapes that do not match, dimensions out of range.
fn can_fail(op: &Operator) -> bool {
    let kinds: Vec<Kind> = op.schema().params.iter().map(|param| param.kind).collect();
    let operands = kinds.iter().filter(|kind| matches!(kind, Kind::Tensor | Kind::Operand)).count();
    operands > 1 || kinds.iter().any(|kind| matches!(kind, Kind::Int | Kind::Ints | Kind::IntOrInts | Kind::Tensors))
}

#[test]
fn samples_and_bad_calls_are_given() {
    const CLASSES: [&str; 9] = [
        "RuntimeError",
        "IndexError",
        "TypeError",
        "ValueError",
        "NotImplementedError",
        "MemoryError",
        "OverflowError",
        "ZeroDivisionError",
        "LinAlgError",
    ];
    // Overloads of one name share their invalid calls.
    let refused: BTreeSet<&str> =
        table::OPERATORS.iter().filter(|op| !op.errors.is_empty()).map(|op| op.python_name()).collect();
    every_operator(|op| {
        if is_apart(op) {
            return None;
        }
        if op.samples.is_empty() {
            return Some("no sample".into());
        }
        if !refused.contains(op.python_name()) && can_fail(op) && !op.name.starts_with('_') {
            return Some("can fail and has no bad call".into());
        }
        let mut seen = BTreeSet::new();
        let mut calls = op.samples.iter().chain(op.errors.iter().map(|(sample, ..)| sample));
        if let Some(twice) = calls.find(|sample| !seen.insert(**sample)) {
            return Some(format!("the call {twice} stands twice"));
        }
        let odd = op.errors.iter().find(|(_, class, text)| !CLASSES.contains(class) || text.is_empty());
        odd.map(|(sample, class, _)| format!("the bad call {sample} gives {class} or no sentence"))
    });
}

#[test]
fn documentation_has_an_example() {
    every_operator(|op| {
        if op.name.starts_with('_') || is_apart(op) {
            return None;
        }
        let example = op.doc.lines().find(|line| line.trim_start().starts_with(">>> "));
        match (op.doc.chars().next(), example) {
            (None, _) => Some("no documentation".into()),
            (_, None) => Some("no example".into()),
            (Some(first), _) if first.is_whitespace() => Some("documentation that starts with a space".into()),
            _ => None,
        }
    });
}

#[test]
fn pointwise_rows_compute_what_they_accept() {
    every_operator(|op| {
        let Implementation::Pointwise(body) = &op.implementation else { return None };
        let computes = |dtype: &rushlight::DType| body.promote != Promote::IntToFloat || dtype.is_differentiable();
        let missing: Vec<&str> = op
            .dtypes
            .list()
            .filter(computes)
            .map(rushlight::DType::compute)
            .filter(|&dtype| (body.loops.cpu)(dtype).is_none() || body.loops.expression(dtype).is_none())
            .map(|dtype| dtype.name())
            .collect();
        (!missing.is_empty()).then(|| format!("no loop, or no expression, for {}", missing.join(", ")))
    });
}

#[test]
fn accepted_dtypes_are_stated() {
    every_operator(|op| op.dtypes.list().next().is_none().then(|| "accepts no dtype".into()));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A missing body would be an error at the call only, and an unused one would never run.
#[test]
fn each_body_for_sparse_operands_is_listed_once() {
    every_operator(|op| {
        let declared = usize::from(matches!(op.sparse, Sparse::ExplicitAutograd | Sparse::CompositeImplicit));
        let listed = BODIES.iter().filter(|(own, _)| std::ptr::eq(*own, op)).count();
        (declared != listed).then(|| format!("declares {declared} bodies for sparse operands, {listed} are listed"))
    });
}

#[test]
fn the_pool_of_entry_points_is_large_enough() {
    let source = read(&root().join("rust/py/src/entry.rs"));
    let number = source.split("const POOL: usize = ").nth(1).and_then(|rest| rest.split(';').next());
    let pool: usize = number.and_then(|text| text.parse().ok()).expect("the pool's size stands in entry.rs");
    let needed = rushlight::names::collect().len();
    assert!(needed < pool, "{needed} names, {pool} entry points: enlarge POOL in rust/py/src/entry.rs");
}

/// Files that contain a word, outside of tests, documentation and generated files.
fn files_with(word: &str, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder's entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let skipped = ["tests", "tests.rs", "target", "__pycache__"].contains(&name.as_str());
        let source = [".rs", ".py", ".cu", ".cuh"].iter().any(|end| name.ends_with(end));
        if path.is_dir() && !skipped {
            files_with(word, &path, found);
        } else if source && !skipped {
            let text = read(&path).to_lowercase();
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            if !text.contains("generated by `cargo dev") && text.split(|c| !is_word(c)).any(|part| part == word) {
                found.insert(path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned());
            }
        }
    }
}

#[test]
fn an_operator_is_its_definition_and_a_line_of_the_table() {
    // An operator of which no other is composed. Its mathematics (`simd`, `cpu`) is in lower crates.
    let mut found = BTreeSet::new();
    for folder in ["rust/ops", "rust/py", "rust/autograd", "rust/dev", "rust/cuda", "python"] {
        files_with("bessel_j0", &root().join(folder), &mut found);
    }
    let definitions: Vec<&String> = found.iter().filter(|file| *file != "rust/ops/src/table.rs").collect();
    assert!(found.contains("rust/ops/src/table.rs"), "{found:?}");
    assert!(definitions.len() == 1 && definitions[0].starts_with("rust/ops/src/pointwise/"), "{found:?}");
}

#[test]
fn the_number_of_operators_without_a_form_for_cuda_is_recorded() {
    let without = |op: &&&Operator| !matches!(op.implementation.on_cuda(), OnCuda::Own(()));
    let names: Vec<&str> = table::OPERATORS.iter().filter(without).map(|op| op.name).collect();
    assert!(
        names.len() <= WITHOUT_OWN_CUDA_FORM,
        "{names:?} have no form of their own for CUDA, {WITHOUT_OWN_CUDA_FORM} had none: raise the number if that is meant"
    );
    assert_eq!(names.len(), WITHOUT_OWN_CUDA_FORM, "lower WITHOUT_OWN_CUDA_FORM in {}", file!());
}
