//! What every row of the operator table must state, checked on the table itself. What the rows compute is checked from
//! Python (`tests/ops/test_table_*.py`), where NumPy can say what is right.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rushlight::derive::Derivative;
use rushlight::row::{Promote, Run};
use rushlight::signature::{Kind, Param, Returns, Schema};
use rushlight::{Row, mapped, sparse, table};

/// Rows with a kernel for the host and none for CUDA. Whoever adds a row says here whether it is one more; there are no
/// kernels for CUDA yet, and once there are the number may only fall.
const WITHOUT_CUDA: usize = 330;

/// Fails with a line for every row that `wrong` has something to say about.
fn every_row(wrong: impl Fn(&'static Row) -> Option<String>) {
    let rows = table::ROWS.iter().chain(sparse::ROWS).chain(mapped::rows::ROWS);
    let lines: Vec<String> = rows.filter_map(|row| wrong(row).map(|text| format!("{}: {text}", row.name))).collect();
    assert!(lines.is_empty(), "{} rows\n{}", lines.len(), lines.join("\n"));
}

/// Whether a row stands in no table: Python has its documentation, and samples are of dense tensors outside of `vmap`.
fn is_apart(row: &'static Row) -> bool {
    sparse::ROWS.iter().chain(mapped::rows::ROWS).any(|other| std::ptr::eq(*other, row))
}

fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Tensor => "Tensor",
        Kind::Operand => "Tensor|Scalar",
        Kind::Scalar => "Scalar",
        Kind::Int => "int",
        Kind::Float => "float",
        Kind::Bool => "bool",
        Kind::Truth => "truth",
        Kind::Ints => "int[]",
        Kind::IntOrInts => "int[1]",
        Kind::Floats => "float[]",
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
    let loose = if param.loose { "*" } else { "" };
    format!("{}{optional} {loose}{}{default}", kind_text(param.kind), param.name)
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
    every_row(|row| match Schema::parse(row.signature) {
        None => Some(format!("{} cannot be read", row.signature)),
        Some(schema) => {
            let text = signature_text(&schema);
            (text != row.signature.replace("Tensor?[]", "Tensor[]")).then(|| format!("{} became {text}", row.signature))
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
    every_row(|row| (row.name.is_empty() || row.python_name().is_empty()).then(|| "no name".into()));
    for row in table::ROWS {
        assert!(seen.insert((row.namespace, row.name)), "{} stands twice", row.name);
    }
    let own: BTreeSet<_> = table::ROWS.iter().map(|row| (row.namespace, row.python_name())).collect();
    every_row(|row| {
        let taken = |alias: &&&str| own.contains(&alias.rsplit_once('.').unwrap_or(("", alias)));
        let alias = row.aliases.iter().find(taken)?;
        // Overloads of one operator share their aliases with nobody else's name.
        Some(format!("its alias {alias} is another row's name"))
    });
}

#[test]
fn a_derivative_or_a_reason_is_stated() {
    every_row(|row| match (&row.derivative, &row.run) {
        (Derivative::Unstated, _) => Some("says nothing of its derivative".into()),
        (Derivative::NonDifferentiable(reason), _) if reason.len() < 8 => Some("no reason given".into()),
        (Derivative::Formulas(_) | Derivative::Joint(_), Run::Compose(_)) => {
            Some("a composition takes the derivatives of its parts".into())
        }
        (Derivative::Composed, Run::Pointwise(_) | Run::Kernel(_) | Run::View(_) | Run::Views(_)) => {
            Some("is no composition".into())
        }
        (Derivative::Formulas([]), _) => Some("an empty list of formulas".into()),
        (Derivative::Formulas(list), _) => list.iter().find_map(|formula| tensor_at(row, formula.input)),
        (Derivative::Joint(joint), _) => joint.inputs.iter().find_map(|&place| tensor_at(row, place)),
        _ => None,
    });
}

/// What is wrong with a derivative for the parameter at `place`.
fn tensor_at(row: &Row, place: usize) -> Option<String> {
    match row.schema().params.get(place).map(|param| param.kind) {
        Some(Kind::Tensor | Kind::Operand | Kind::Tensors) => None,
        Some(kind) => Some(format!("a derivative for parameter {place}, which is {kind:?}")),
        None => Some(format!("a derivative for parameter {place}, which does not exist")),
    }
}

/// Whether some arguments of the right types are still wrong: shapes that do not fit, dimensions out of range.
fn can_fail(row: &Row) -> bool {
    let kinds: Vec<Kind> = row.schema().params.iter().map(|param| param.kind).collect();
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
    // Overloads of one name share their bad calls.
    let refused: BTreeSet<&str> =
        table::ROWS.iter().filter(|row| !row.errors.is_empty()).map(|row| row.python_name()).collect();
    every_row(|row| {
        if is_apart(row) {
            return None;
        }
        if row.samples.is_empty() {
            return Some("no sample".into());
        }
        if !refused.contains(row.python_name()) && can_fail(row) && !row.name.starts_with('_') {
            return Some("can fail and has no bad call".into());
        }
        let mut seen = BTreeSet::new();
        let mut calls = row.samples.iter().chain(row.errors.iter().map(|(sample, ..)| sample));
        if let Some(twice) = calls.find(|sample| !seen.insert(**sample)) {
            return Some(format!("the call {twice} stands twice"));
        }
        let odd = row.errors.iter().find(|(_, class, text)| !CLASSES.contains(class) || text.is_empty());
        odd.map(|(sample, class, _)| format!("the bad call {sample} gives {class} or no sentence"))
    });
}

#[test]
fn documentation_has_an_example() {
    every_row(|row| {
        if row.name.starts_with('_') || is_apart(row) {
            return None;
        }
        let example = row.doc.lines().find(|line| line.trim_start().starts_with(">>> "));
        match (row.doc.chars().next(), example) {
            (None, _) => Some("no documentation".into()),
            (_, None) => Some("no example".into()),
            (Some(first), _) if first.is_whitespace() => Some("documentation that starts with a space".into()),
            _ => None,
        }
    });
}

#[test]
fn pointwise_rows_compute_what_they_accept() {
    every_row(|row| {
        let Run::Pointwise(body) = &row.run else { return None };
        let computes = |dtype: &rushlight::DType| body.promote != Promote::IntToFloat || dtype.is_differentiable();
        let missing: Vec<&str> = row
            .dtypes
            .list()
            .filter(computes)
            .filter(|dtype| (body.cpu)(dtype.compute()).is_none())
            .map(|dtype| dtype.name())
            .collect();
        (!missing.is_empty()).then(|| format!("no loop for {}", missing.join(", ")))
    });
}

#[test]
fn accepted_dtypes_are_stated() {
    every_row(|row| row.dtypes.list().next().is_none().then(|| "accepts no dtype".into()));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_pool_of_entry_points_is_large_enough() {
    let source = read(&root().join("rust/py/src/entry.rs"));
    let number = source.split("const POOL: usize = ").nth(1).and_then(|rest| rest.split(';').next());
    let pool: usize = number.and_then(|text| text.parse().ok()).expect("the pool's size stands in entry.rs");
    let needed = rushlight::names::collect().len();
    assert!(needed < pool, "{needed} names, {pool} entry points: enlarge POOL in rust/py/src/entry.rs");
}

#[test]
fn the_count_of_rows_without_cuda_is_stated() {
    let computes =
        |row: &Row| !matches!(row.run, Run::Compose(_) | Run::Defer(_) | Run::View(_) | Run::Retype(_) | Run::Views(_));
    let lacks = |row: &&&Row| row.cuda.is_none() && computes(row);
    let count = table::ROWS.iter().filter(lacks).count();
    assert!(
        count <= WITHOUT_CUDA,
        "{count} rows lack a CUDA kernel, {WITHOUT_CUDA} did: raise the number if that is meant"
    );
    assert_eq!(count, WITHOUT_CUDA, "fewer rows lack one: lower WITHOUT_CUDA in {}", file!());
}

/// Files in which a word occurs, outside tests, papers and what is generated.
fn files_with(word: &str, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder's entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let skipped = ["tests", "tests.rs", "target", "__pycache__"].contains(&name.as_str());
        let source = [".rs", ".py", ".cu"].iter().any(|end| name.ends_with(end));
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
fn an_operator_is_its_room_and_a_line_of_the_table() {
    // An operator that nothing else is made of. Its mathematics (`simd`, `cpu`) stands below the operators.
    let mut found = BTreeSet::new();
    for folder in ["rust/ops", "rust/py", "rust/autograd", "rust/dev", "rust/cuda", "python"] {
        files_with("heaviside", &root().join(folder), &mut found);
    }
    let room: Vec<&String> = found.iter().filter(|file| *file != "rust/ops/src/table.rs").collect();
    assert!(found.contains("rust/ops/src/table.rs"), "{found:?}");
    assert!(room.len() == 1 && room[0].starts_with("rust/ops/src/pointwise/"), "{found:?}");
}
