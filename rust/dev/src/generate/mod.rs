//! Generates files from the operator table, and checks that they are up to date.
//!
//! `stub` and `pages` turn what Python can call (`ops/src/names.rs`) into text. `device` writes the operators'
//! expressions as C++.

mod device;
mod pages;
mod stub;

use std::fs;
use std::path::Path;

use crate::tree;

/// Every generated file as (path from the root, text).
fn files(root: &Path) -> Result<Vec<(String, String)>, String> {
    let names = rushlight::names::collect();
    let frame = tree::read(&root.join(stub::FRAME))?;
    let mut files = vec![
        ("python/rushlight/_C.pyi".to_owned(), stub::classes(&frame, &names)?),
        ("python/rushlight/return_types.pyi".to_owned(), stub::results(&names)),
    ];
    files.extend(stub::namespaces(&names, &tree::read(&root.join(stub::WRAPPERS))?)?);
    files.extend(pages::all(&names));
    files.extend(device::files(root)?);
    Ok(files)
}

pub fn write(root: &Path) -> Result<(), String> {
    let mut written = 0;
    let files = files(root)?;
    for (name, text) in &files {
        let path = root.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == *text) {
            continue;
        }
        let fail = |error: std::io::Error| format!("{}: {error}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(fail)?;
        }
        fs::write(&path, text).map_err(fail)?;
        written += 1;
    }
    for path in strangers(root, &files)? {
        fs::remove_file(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
        written += 1;
    }
    println!("{} generated files, {written} changed", files.len());
    Ok(())
}

pub fn check(root: &Path) -> Result<(), String> {
    let files = files(root)?;
    let mut stale: Vec<String> = files
        .iter()
        .filter_map(|(name, text)| {
            let old = fs::read_to_string(root.join(name)).unwrap_or_default();
            (old != *text).then(|| format!("{name}: {}", first_difference(&old, text)))
        })
        .collect();
    stale.extend(strangers(root, &files)?.into_iter().map(|path| format!("{path}: no longer generated")));
    if stale.is_empty() {
        println!("{} generated files are fresh", files.len());
        Ok(())
    } else {
        Err(format!("{}\nrun `cargo dev generate`", stale.join("\n")))
    }
}

/// Pages of operators that no longer exist.
fn strangers(root: &Path, files: &[(String, String)]) -> Result<Vec<String>, String> {
    let folder = root.join(pages::FOLDER);
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| error.to_string())?.file_name().to_string_lossy().into_owned();
        let path = format!("{}/{name}", pages::FOLDER);
        if !files.iter().any(|(known, _)| *known == path) {
            found.push(path);
        }
    }
    Ok(found)
}

fn first_difference(old: &str, new: &str) -> String {
    if old.is_empty() {
        return "missing".into();
    }
    let line = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    let at = |text: &str| text.lines().nth(line).unwrap_or("(end)").to_owned();
    format!("line {}\n  - {}\n  + {}", line + 1, at(old), at(new))
}
