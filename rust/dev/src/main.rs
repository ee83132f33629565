//! `cargo dev`: the project's own tools, one short module each.

mod budget;
mod coverage;
#[cfg(feature = "table")]
mod devices;
#[cfg(feature = "table")]
mod generate;
mod graph;
mod modules;
mod overviews;
mod rebuild;
mod tokens;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
cargo dev <tool> [--root FOLDER]

  budget             files above 600 lines must be listed with a reason in rust/dev/budget.txt
  graph              print the dependencies of crates and files; an upward dependency or a cycle is an error
  overviews          the files and modules that the READMEs and the overviews of crates name must exist
  coverage           print which names of torch's API exist, and write docs/coverage.md
  devices            print the operators by kind and by the devices that they run on
  rebuild [FILE]     edit one source file, time build and import, restore the file
  generate [--check] write the operators' stubs, reference pages and device functions; --check only compares";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = match take_root(&mut arguments) {
        Ok(root) => root,
        Err(message) => return fail(&message),
    };
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["budget"] => budget::run(&root),
        ["coverage"] => coverage::run(&root),
        #[cfg(feature = "table")]
        ["devices"] => {
            devices::run();
            Ok(())
        }
        ["graph"] => graph::run(&root),
        ["overviews"] => overviews::run(&root),
        ["rebuild"] => rebuild::run(&root, rebuild::USUAL),
        ["rebuild", file] => rebuild::run(&root, file),
        #[cfg(feature = "table")]
        ["generate"] => generate::write(&root),
        #[cfg(feature = "table")]
        ["generate", "--check"] => generate::check(&root),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => Err(format!("no such tool: {}\n\n{HELP}", words.join(" "))),
    };
    outcome.map_or_else(|message| fail(&message), |()| ExitCode::SUCCESS)
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

/// The repository: `--root FOLDER`, or two levels above this crate.
fn take_root(arguments: &mut Vec<String>) -> Result<PathBuf, String> {
    let Some(at) = arguments.iter().position(|word| word == "--root") else {
        return Ok(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    };
    arguments.remove(at);
    if at == arguments.len() {
        return Err("--root needs a folder".into());
    }
    Ok(PathBuf::from(arguments.remove(at)))
}
