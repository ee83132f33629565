//! The crates of this repository point down, and the tool reports one that does not. Their manifests leave out no test.

use std::fs;
use std::path::{Path, PathBuf};
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
fn workspace(name: &str, crates: &[(&str, &str)]) -> PathBuf {
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

#[test]
fn a_library_without_tests_of_its_own_has_none() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut left_out = 0;
    for entry in fs::read_dir(crates).expect("the crates") {
        let folder = entry.expect("a crate").path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let library = manifest.split_once("[lib]").map_or("", |(_, library)| library);
        for (line, has) in [("\ntest = false\n", has_test as Has), ("\ndoctest = false\n", has_example)] {
            if library.contains(line) {
                left_out += 1;
                let with = files_with(has, &folder.join("src"));
                assert!(with.is_empty(), "{}: `{}` leaves out those of {with:?}", folder.display(), line.trim());
            }
        }
    }
    assert!(left_out > 0);
}

type Has = fn(&str) -> bool;

fn has_test(text: &str) -> bool {
    text.contains("#[test]")
}

/// The end of a block of text is a line like the beginning of an example.
fn has_example(text: &str) -> bool {
    text.matches("/ ```\n").count() > text.matches("/ ```text\n").count()
}

/// The Rust files under a folder whose text has something.
fn files_with(has: Has, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(has, &path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a text");
            found.extend(has(&text).then_some(path));
        }
    }
    found
}
