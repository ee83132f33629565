//! The files and modules that overviews name must exist: so a newcomer can follow them after a file was renamed. And an
//! overview that lists most modules lists all, so that none is overlooked. Each file begins with a comment that explains it.
//!
//! The overviews are the pages in `PAGES`, and the comment at the head of each `lib.rs` and `mod.rs` that declares modules.
//! Backticks around a path (`cpu/src/folds.rs`, or its end, `folds.rs`) mean a file or folder. In a comment, a lone
//! lowercase name (`folds`, `call::devices`) means a module of the crate, or a crate; other names are written so that they do not
//! look like one: a function as `fork()`, an argument as `dtype=`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tree;

const PAGES: [&str; 4] = ["CONTRIBUTING.md", "rust/README.md", "rust/ops/README.md", "tests/README.md"];

pub fn run(root: &Path) -> Result<(), String> {
    let files = tree::files(root)?;
    let modules = modules(&files);
    let mut wrong = Vec::new();
    let mut checked = 0;
    for page in PAGES.iter().filter(|page| root.join(page).is_file()) {
        checked += 1;
        let text = tree::read(&root.join(page))?;
        let folder = Path::new(page).parent().unwrap_or(Path::new(""));
        let is_missing = |path: &&str| !root.join(folder).join(path).exists();
        wrong.extend(links(&text).filter(is_missing).map(|path| format!("{page}: no file {path}")));
        wrong.extend(missing_paths(&text, root, &files).map(|path| format!("{page}: no file {path}")));
    }
    for (path, text) in tree::sources(root)? {
        if path.ends_with(".rs") && !text.starts_with("//!") {
            wrong.push(format!("{path}: no comment at the head"));
        }
        let Some((name, module)) = module_of(&path).filter(|_| path.ends_with("/lib.rs") || path.ends_with("/mod.rs"))
        else {
            continue;
        };
        if !text.lines().any(declares) {
            continue;
        }
        checked += 1;
        let head = overview(&text);
        wrong.extend(missing_paths(&head, root, &files).map(|missing| format!("{path}: no file {missing}")));
        let own = &modules[name];
        let exists = |named: &str| is_module(named, &module, own) || modules.contains_key(named);
        let is_missing = |named: &&str| is_module_name(named) && !exists(named);
        wrong.extend(code(&head).filter(is_missing).map(|named| format!("{path}: no module {named}")));
        wrong.extend(left_out(&text, &head).into_iter().map(|module| format!("{path}: does not name module {module}")));
    }
    if wrong.is_empty() {
        println!("{checked} overviews name files and modules that exist, and leave out none of a list");
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// Whether a line declares a module that has a file, other than tests.
fn declares(line: &str) -> bool {
    declared(line).is_some()
}

/// The module that a line declares.
fn declared(line: &str) -> Option<&str> {
    let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?.strip_suffix(';')?;
    (name != "tests").then_some(name)
}

/// The modules of a file that its overview does not name, if it names most of them.
fn left_out<'a>(text: &'a str, head: &str) -> Vec<&'a str> {
    // A module is named alone, with an item of it, or as a file.
    let is_named = |module: &str| {
        code(head)
            .any(|word| word.split("::").next() == Some(module) || word.split(['/', '.']).any(|part| part == module))
    };
    let (named, others): (Vec<&str>, Vec<&str>) =
        text.lines().filter_map(declared).partition(|module| is_named(module));
    if named.len() > others.len() { others } else { Vec::new() }
}

/// The comment at the head of a file, without its code blocks.
fn overview(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let mut is_block = false;
    let mut head = String::new();
    for line in lines {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if !is_block {
            head.push_str(line);
            head.push('\n');
        }
    }
    head
}

/// What stands between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The targets of links to files.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// The paths between backticks that are neither a path from the root or from `rust`, nor the end of one.
fn missing_paths<'a>(text: &'a str, root: &Path, files: &BTreeSet<String>) -> impl Iterator<Item = &'a str> {
    let known = ["rs", "md", "py", "pyi", "cuh", "txt", "toml"];
    let is_path = move |word: &&str| {
        let is_plain = word.chars().all(|sign| sign.is_alphanumeric() || "/._-".contains(sign));
        let is_file = word.rsplit_once('.').is_some_and(|(name, kind)| !name.is_empty() && known.contains(&kind));
        is_plain && !word.starts_with(['/', '.']) && (is_file || word.contains('/'))
    };
    let exists = |word: &str| {
        let word = word.trim_end_matches('/');
        let (end, inner) = (format!("/{word}"), format!("/{word}/"));
        let is_part = |path: &String| path.ends_with(&end) || path.contains(&inner);
        root.join(word).exists() || root.join("rust").join(word).exists() || files.iter().any(is_part)
    };
    code(text).filter(is_path).filter(move |word| !exists(word)).collect::<Vec<_>>().into_iter()
}

/// Whether code between backticks looks like the name of a module. `x` and `f32` do not.
fn is_module_name(word: &str) -> bool {
    let is_name = |part: &str| {
        let mut signs = part.chars();
        signs.next().is_some_and(|first| first.is_ascii_lowercase())
            && signs.clone().all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '_')
            && !signs.all(|sign| sign.is_ascii_digit())
    };
    word.split("::").all(is_name)
}

/// Whether the name, or the part of it before `::item`, is a module within `module` or within a module around it.
fn is_module(name: &str, module: &[&str], modules: &BTreeSet<Vec<&str>>) -> bool {
    let name: Vec<&str> = name.split("::").collect();
    let ends = (name.len().max(2) - 1)..=name.len();
    let mut around = (0..=module.len()).flat_map(|depth| ends.clone().map(move |end| (depth, end)));
    around.any(|(depth, end)| modules.contains(&[&module[..depth], &name[..end]].concat()))
}

/// The modules of each folder of `rust`.
fn modules(files: &BTreeSet<String>) -> BTreeMap<&str, BTreeSet<Vec<&str>>> {
    let mut modules: BTreeMap<&str, BTreeSet<Vec<&str>>> = BTreeMap::new();
    for (name, module) in files.iter().filter_map(|path| module_of(path)) {
        modules.entry(name).or_default().insert(module);
    }
    modules
}

/// A file's folder in `rust`, and the path of its module.
fn module_of(path: &str) -> Option<(&str, Vec<&str>)> {
    let (name, file) = path.strip_prefix("rust/")?.split_once("/src/")?;
    let mut module: Vec<&str> = file.strip_suffix(".rs")?.split('/').collect();
    if matches!(module.last(), Some(&"lib" | &"main" | &"mod")) {
        module.pop();
    }
    Some((name, module))
}
