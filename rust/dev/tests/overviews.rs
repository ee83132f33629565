//! The check of overviews reports files and modules that they name and that do not exist.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the tool over one crate with the modules `folds` and `call::devices`; returns its errors, if any.
fn overviews(name: &str, page: &str, head: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("overviews-{name}"));
    let sources = root.join("rust/cpu/src");
    fs::create_dir_all(sources.join("call")).expect("a folder");
    fs::write(root.join("rust/README.md"), page).expect("a page");
    fs::write(sources.join("lib.rs"), format!("//! {head}\n\nmod call;\nmod folds;\n")).expect("a file");
    for file in ["folds.rs", "call/mod.rs", "call/devices.rs"] {
        fs::write(sources.join(file), "").expect("a file");
    }
    let tool = env!("CARGO_BIN_EXE_rushlight-dev");
    let output = Command::new(tool).arg("overviews").arg("--root").arg(&root).output().expect("the tool runs");
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
