//! Cycles and upward uses are found in sources of a few lines.

use super::{Source, add_included, examine, module_of};
use crate::tokens;

fn source((path, text): &(&str, &str)) -> Source {
    let module = module_of(path.strip_suffix(".rs").expect("a Rust file"));
    Source { module, path: format!("rust/dev/src/{path}"), tokens: tokens::read(text) }
}

/// The errors of a crate with these files.
fn errors(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<Source> = files.iter().map(source).collect();
    let (cycles, upward) = examine(&sources);
    let cycles = cycles.into_iter().map(|cycle| format!("{} of {}", cycle.shortest.join(" -> "), cycle.files));
    cycles.chain(upward.into_iter().map(|(file, item)| format!("{file} names {item}"))).collect()
}

#[test]
fn a_cycle_is_found() {
    let files =
        [("a.rs", "use crate::b::f;"), ("b.rs", "fn f() { crate::c::g() }"), ("c.rs", "use super::a;\na::h();")];
    assert_eq!(errors(&files), ["a -> b -> c of 3"]);
    assert_eq!(errors(&files[..2]), [""; 0]);
}

#[test]
fn a_cycle_is_reported_once_with_a_shortest_path() {
    let files = [
        ("a.rs", "use crate::b::f; use crate::d::f as g;"),
        ("b.rs", "use crate::c::f;"),
        ("c.rs", "use crate::a::f;"),
        ("d.rs", "use crate::a::f;"),
        ("e.rs", "use crate::{a, b};\nfn f() { a::f(); b::f(); }"),
    ];
    assert_eq!(errors(&files), ["a -> d of 4"]);
}

#[test]
fn an_upward_import_is_found() {
    assert_eq!(errors(&[("lib.rs", "mod a; struct T;"), ("a.rs", "use crate::T;")]), ["a names T"]);
    assert_eq!(errors(&[("main.rs", "mod a; struct T;"), ("a/mod.rs", "fn f(_: super::T) {}")]), ["a names T"]);
    let nested = [("lib.rs", "mod a; fn t() {}"), ("a.rs", "mod inner { fn f() { super::super::t() } }")];
    assert_eq!(errors(&nested), ["a names t"]);
    assert_eq!(errors(&[("lib.rs", "mod a;"), ("a.rs", "mod inner { fn f() { super::t() } }\nfn t() {}")]), [""; 0]);
}

#[test]
fn a_child_may_not_name_a_parent_that_calls_it() {
    let child = ("a/b.rs", "use super::T;");
    assert_eq!(errors(&[("a/mod.rs", "mod b; pub struct T;\nfn f() { b::g() }"), child]), ["a -> a/b of 2"]);
    assert_eq!(errors(&[("a/mod.rs", "mod b; pub use b::g;\npub struct T;"), child]), [""; 0]);
}

#[test]
fn an_import_through_a_re_export_is_an_edge_to_the_definition() {
    let lib = ("lib.rs", "mod a; mod b; pub(crate) use a::T; pub use other::U;");
    assert_eq!(errors(&[lib, ("a.rs", "use crate::b::V;"), ("b.rs", "use crate::T;")]), ["a -> b of 2"]);
    assert_eq!(errors(&[lib, ("a.rs", ""), ("b.rs", "use crate::{T, U};")]), [""; 0]);
}

#[test]
fn imports_have_trees_and_other_names() {
    let a = ("a.rs", "use crate::{b::{self as other, c::{f, g as h}}, d};\nfn i() { other::j(); d::k(); }");
    let back = "use crate::a::i;";
    assert_eq!(errors(&[a, ("b.rs", back)]), ["a -> b of 2"]);
    assert_eq!(errors(&[a, ("b/c.rs", back)]), ["a -> b/c of 2"]);
    assert_eq!(errors(&[a, ("d.rs", back)]), ["a -> d of 2"]);
}

#[test]
fn arguments_of_macros_count() {
    let b = ("b.rs", "use crate::a::f;");
    assert_eq!(errors(&[("a.rs", "fn f() { assert!(x, \"{}\", crate::b::g()) }"), b]), ["a -> b of 2"]);
    assert_eq!(errors(&[("a.rs", "macro_rules! m { ($x:ty) => { crate::b::g::<$x>() } }"), b]), ["a -> b of 2"]);
}

#[test]
fn exported_macros_belong_to_the_file_that_defines_them() {
    let files = [
        ("lib.rs", "#[macro_use] mod a; mod b;"),
        ("a.rs", "#[macro_export]\n/// Text.\n#[doc(hidden)]\nmacro_rules! m { () => {} }"),
        ("b.rs", "crate::m!();"),
    ];
    assert_eq!(errors(&files), [""; 0]);
    assert_eq!(errors(&[files[0], ("a.rs", &format!("{}\nuse crate::b::f;", files[1].1)), files[2]]), ["a -> b of 2"]);
}

#[test]
fn what_is_no_edge_is_not_counted() {
    let b = ("b.rs", "use crate::a::f;");
    for text in [
        "macro_rules! m { () => { $crate::b::g() } }",
        "mod b;",
        "#[cfg(test)]\nmod tests { use crate::b::g; }",
        "#[cfg(test)]\nuse crate::b::{g, h};",
        "// crate::b::g\n/* /* crate::b::g */ crate::b::g */",
        "const A: &str = \"crate::b::g\"; const B: &str = r#\" \"crate::b::g\" \"#; const C: char = '\"';",
        "fn g(x: X) { x.b.g() }",
        "use other::crate_b::g; fn h() { other::b::g() }",
    ] {
        assert_eq!(errors(&[("a.rs", text), b]), [""; 0], "{text}");
    }
    // What follows them counts again.
    for text in ["#[cfg(test)]\nuse x::{y, z};\n", "const A: char = '\\'';", "fn f<'a>() {}", "r#type();", "'\"';"] {
        assert_eq!(errors(&[("a.rs", &format!("{text} use crate::b::g;")), b]), ["a -> b of 2"], "{text}");
    }
}

#[test]
fn included_files_are_modules() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = vec![source(&("main.rs", "#[path = \"../../core/src/fork.rs\"]\nmod fork;\nmod sync;"))];
    sources.push(source(&("sync.rs", "fn f() { crate::fork::install() }")));
    add_included(&root, &mut sources).expect("the file is there");
    assert_eq!(sources[2].module, ["fork"]);
    let (cycles, upward) = examine(&sources);
    assert!(upward.is_empty());
    assert_eq!(cycles[0].shortest, ["sync", "fork"]);
}
