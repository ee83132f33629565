//! Reading the source tree: its files, and the lists of the tools.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of sources; the rest of the root is documentation and configuration.
const SOURCES: [&str; 5] = ["rust", "python", "tests", "benches", "examples"];

/// The path of every file from the root.
pub fn files(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut folders: Vec<PathBuf> = SOURCES.iter().map(|name| root.join(name)).filter(|path| path.is_dir()).collect();
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let path = entry.map_err(|error| error.to_string())?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !path.is_dir() {
                found.insert(path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned());
            } else if !name.starts_with('.') && name != "__pycache__" && name != "target" {
                folders.push(path);
            }
        }
    }
    Ok(found)
}

/// Every source file as (path from the root, text), in order of path.
pub fn sources(root: &Path) -> Result<Vec<(String, String)>, String> {
    let kinds = [".rs", ".py", ".pyi", ".cu", ".cuh"];
    let is_source = |path: &String| kinds.iter().any(|kind| path.ends_with(kind));
    files(root)?.into_iter().filter(is_source).map(|path| Ok((path.clone(), read(&root.join(&path))?))).collect()
}

pub fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
