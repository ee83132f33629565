//! Checks the dependencies between crates, which must point to a lower level, and those between the files of a crate
//! (`modules`). The former are read from the manifests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::{modules, tree};

/// The levels, the lowest first, as folders of `rust/`.
const LEVELS: [&[&str]; 6] = [
    &["core", "par", "simd", "rng", "macros"],
    &["cpu", "cuda", "io"],
    &["autograd"],
    &["dispatch"],
    &["ops", "tasks", "dist", "stable"],
    &["py", "dev", "proofs", "softcuda"],
];

/// The one dependency within a level: the pool registers with the fork registry.
const ALLOWED: (&str, &str) = ("par", "core");

pub fn run(root: &Path) -> Result<(), String> {
    let graph = read(root)?;
    let mut wrong = Vec::new();
    for (height, names) in LEVELS.iter().enumerate().rev() {
        println!("level {height}");
        for name in *names {
            let Some(below) = graph.get(*name) else { continue };
            println!("  {name:<9} -> {}", below.join(", "));
            for other in below {
                match level(other) {
                    Some(lower) if lower < height || (*name, other.as_str()) == ALLOWED => {}
                    Some(_) => wrong.push(format!("{name} -> {other} does not point down")),
                    None => wrong.push(format!("{name} -> {other}: no such crate has a level")),
                }
            }
        }
    }
    for name in graph.keys().filter(|name| level(name).is_none()) {
        wrong.push(format!("rust/{name} has no level; give it one in rust/dev/src/graph.rs"));
    }
    wrong.extend(files(root)?);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Prints what `modules` finds in each crate; returns the errors.
fn files(root: &Path) -> Result<Vec<String>, String> {
    let crates = modules::read(root)?;
    let mut wrong = Vec::new();
    println!("\n  {:<9} {:>5} {:>6} {:>6} {:>6}", "", "files", "lines", "cycles", "upward");
    for (name, report) in &crates {
        println!(
            "  {name:<9} {:>5} {:>6} {:>6} {:>6}",
            report.files,
            report.lines,
            report.cycles.len(),
            report.upward.len()
        );
        for cycle in &report.cycles {
            let shortest =
                cycle.shortest.iter().chain(cycle.shortest.first()).cloned().collect::<Vec<_>>().join(" -> ");
            wrong.push(format!("{name}: a cycle among {} files: {shortest}", cycle.files));
        }
        wrong.extend(
            report.upward.iter().map(|(file, item)| format!("{name}: {file} names {item} of the crate's root")),
        );
    }
    if let Some((name, report)) = crates.iter().max_by_key(|(_, report)| report.lines) {
        println!("largest: {name}, {} lines", report.lines);
    }
    Ok(wrong)
}

fn level(name: &str) -> Option<usize> {
    LEVELS.iter().position(|names| names.contains(&name))
}

/// Folder to the folders it depends on.
fn read(root: &Path) -> Result<BTreeMap<String, Vec<String>>, String> {
    let rust = root.join("rust");
    let entries = fs::read_dir(&rust).map_err(|error| format!("{}: {error}", rust.display()))?;
    let mut graph = BTreeMap::new();
    for entry in entries {
        let folder = entry.map_err(|error| error.to_string())?.path();
        let manifest = folder.join("Cargo.toml");
        if manifest.is_file() {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            graph.insert(name, own_dependencies(&tree::read(&manifest)?));
        }
    }
    Ok(graph)
}

/// The folders of the workspace's crates that a manifest names, in any kind of dependency table.
///
/// Reads the plain form that the workspace uses: a table header, then one crate a line; or a table of its own.
fn own_dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        let key = if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            inside = header.ends_with("dependencies");
            header.rsplit_once("dependencies.").map(|(_, name)| name)
        } else if inside {
            line.split(['.', '=', ' ']).next()
        } else {
            None
        };
        if let Some(folder) = key.and_then(folder_of) {
            found.push(folder);
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Package `rushlight-x` lies in folder `x`, package `rushlight` in `ops`.
fn folder_of(package: &str) -> Option<String> {
    match package.trim().trim_matches('"') {
        "rushlight" => Some("ops".into()),
        other => other.strip_prefix("rushlight-").map(str::to_owned),
    }
}
