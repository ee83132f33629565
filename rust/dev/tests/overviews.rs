//! The check of overviews reports files and modules that they name and that do not exist, modules that a list leaves out, and files
//! without a comment at the head.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("overviews-{name}"))
}

/// Runs the tool over one crate with the modules `folds` and `call::devices`; returns its errors, if any.
fn overviews(name: &str, page: &str, head: &str) -> Option<String> {
    let root = folder(name);
    let sources = root.join("rust/cpu/src");
    fs::create_dir_all(sources.join("call")).expect("a folder");
    fs::write(root.join("rust/README.md"), page).expect("a page");
    fs::write(sources.join("lib.rs"), format!("//! {head}\n\nmod call;\nmod folds;\n")).expect("a file");
    for file in ["folds.rs", "call/mod.rs", "call/devices.rs"] {
        fs::write(sources.join(file), "//! Part of a test.\n").expect("a file");
    }
    check(&root)
}

fn check(root: &Path) -> Option<String> {
    let tool = env!("CARGO_BIN_EXE_rushlight-dev");
    let output = Command::new(tool).arg("overviews").arg("--root").arg(root).output().expect("the tool runs");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_path_in_a_page_must_exist() {
    let page = "`cpu/src/folds.rs`, `devices.rs`, `call/`, `cpu/src/<family>/`, `a / b` and [it](cpu/src/lib.rs#head)";
    assert_eq!(overviews("paths", page, ""), None);
    let wrong = overviews("no-paths", "`cpu/src/fold.rs`, `device.rs` and [it](cpu/lib.rs)", "").expect("three errors");
    for path in ["cpu/src/fold.rs", "device.rs", "cpu/lib.rs"] {
        assert!(wrong.lines().any(|line| line == format!("rust/README.md: no file {path}")), "{wrong}");
    }
    assert_eq!(wrong.lines().count(), 3, "{wrong}");
}

#[test]
fn a_module_in_an_overview_must_exist() {
    let head =
        "`folds`, `call::devices`, `call::devices::choose`, the crate `cpu`, `fork()`, `dtype=`, `f32` and `Fold`";
    assert_eq!(overviews("modules", "", head), None);
    let wrong = overviews("no-modules", "", "`fold`, `devices` and `call::device::choose`").expect("three errors");
    let expected =
        ["fold", "devices", "call::device::choose"].map(|name| format!("rust/cpu/src/lib.rs: no module {name}"));
    assert_eq!(wrong.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn an_overview_that_names_most_modules_names_all() {
    let root = folder("list");
    assert_eq!(overviews("list", "", "Nothing is listed."), None);
    let lib = root.join("rust/cpu/src/lib.rs");
    for file in ["loops.rs", "sums.rs"] {
        fs::write(root.join("rust/cpu/src").join(file), "//! Part of a test.\n").expect("a file");
    }
    let modules = "mod call;\nmod folds;\nmod loops;\nmod sums;\n";
    fs::write(&lib, format!("//! `call`, `folds`, `loops`.\n\n{modules}")).expect("a file");
    let wrong = check(&root).expect("an error");
    assert!(wrong.contains("rust/cpu/src/lib.rs") && wrong.contains("sums"), "{wrong}");
    fs::write(&lib, format!("//! `call`, `folds`, `loops`, `sums`.\n\n{modules}")).expect("a file");
    assert_eq!(check(&root), None);
}

#[test]
fn a_file_has_a_comment_at_its_head() {
    let root = folder("heads");
    assert_eq!(overviews("heads", "", ""), None);
    fs::write(root.join("rust/cpu/src/folds.rs"), "fn fold() {}\n").expect("a file");
    assert_eq!(check(&root).as_deref(), Some("rust/cpu/src/folds.rs: no comment at the head\n"));
}
