//! Measures how long an edit of one file takes until Python can import it; more than a minute is an error.
//!
//! The edit is a comment line at the top of the file. It moves every line number, so that the compiler generates the
//! code of that file again, as it does after a real edit. The original text is restored, also if the build fails.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::tree;

pub const USUAL: &str = "rust/ops/src/pointwise/explog.rs";
const LIMIT: f64 = 60.0;

pub fn run(root: &Path, file: &str) -> Result<(), String> {
    let path = root.join(file);
    let text = tree::read(&path)?;
    let save = |text: &str| fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()));
    build_and_import(root)?;
    save(&format!("// An edit that `cargo dev rebuild` times.\n{text}"))?;
    let begin = Instant::now();
    let outcome = build_and_import(root);
    let seconds = begin.elapsed().as_secs_f64();
    save(&text)?;
    outcome?;
    println!("{file}: {seconds:.1} s from the edit to the import");
    if seconds > LIMIT { Err(format!("more than {LIMIT} s")) } else { Ok(()) }
}

fn build_and_import(root: &Path) -> Result<(), String> {
    command(root, "make", &["--no-print-directory", "build"])?;
    command(root, ".venv/bin/python", &["-c", "import rushlight"])
}

fn command(root: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new(program).args(arguments).current_dir(root).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} {}: {status}", arguments.join(" "))),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
