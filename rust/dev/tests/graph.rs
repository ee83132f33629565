//! The crates of this repository point down, and the tool reports one that does not.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn graph(root: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rushlight-dev"))
        .arg("graph")
        .arg("--root")
        .arg(root)
        .output()
        .expect("the tool runs")
}

/// A workspace with these crates, each a folder and its manifest.
fn workspace(name: &str, crates: &[(&str, &str)]) -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    for (folder, manifest) in crates {
        let folder = root.join("rust").join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
    }
    root
}

#[test]
fn this_workspace_points_down() {
    let output = graph(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_upward_edge_is_an_error_in_every_spelling() {
    let spellings = [
        "[dependencies]\nrushlight.workspace = true\n",
        "[dev-dependencies]\nrushlight = { path = \"../ops\" }\n",
        "[dependencies.rushlight]\nworkspace = true\n",
        "[target.'cfg(unix)'.build-dependencies]\n\"rushlight\" = \"*\"\n",
    ];
    for (number, spelling) in spellings.iter().enumerate() {
        let root = workspace(&format!("upward{number}"), &[("core", spelling), ("ops", "[dependencies]\n")]);
        let output = graph(&root);
        assert!(!output.status.success(), "not noticed: {spelling}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("core -> ops does not point down"));
    }
}

#[test]
fn neighbours_on_one_level_do_not_know_each_other() {
    let root = workspace("sideways", &[("cpu", "[dependencies]\nrushlight-cuda.workspace = true\n"), ("cuda", "")]);
    assert!(String::from_utf8_lossy(&graph(&root).stderr).contains("cpu -> cuda does not point down"));
}

#[test]
fn a_crate_without_a_level_is_an_error() {
    let root = workspace("unknown", &[("attic", "[dependencies]\n")]);
    assert!(String::from_utf8_lossy(&graph(&root).stderr).contains("rust/attic has no level"));
}
