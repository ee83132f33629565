//! Reads which files of a crate name items of which other files, and finds cycles and upward imports.
//!
//! Each file is a module: `mod.rs` is the module of its folder, `lib.rs` and `main.rs` are the root, and a file of another
//! crate that `#[path]` includes is a module of the crate that includes it. An edge leads from a file to the file that
//! defines an item that the former names, by `use` or by a path that begins with `crate`, `self`, `super`, a child module
//! or an imported name. Functions, types, statics, constants and macros are items. Arguments of macros are read like
//! other code.
//!
//! These are not edges:
//!
//! - a path after `$crate`, which belongs to the code that uses the macro;
//! - the declaration of a child (`mod child;`);
//! - a re-export (`pub use`), while an import through it is an edge to the file that defines the item;
//! - tests: items under `#[cfg(test)]`, and files called `tests`;
//! - the call of a method, which no path names.
//!
//! So a parent that only declares and re-exports its children has no edge to them. A parent that calls them has one, and
//! then they may not name its items.
//!
//! Two things are errors: a cycle of files, and an upward import, which is an edge to the root.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;

use crate::tokens::{self, closing, is_word};
use crate::tree;

/// A path inside a crate, without `crate`: `["view", "reshape", "VIEW"]`.
type ItemPath = Vec<String>;

/// What the files of one crate look like.
pub struct Report {
    /// The crate's own files and their lines.
    pub files: usize,
    pub lines: usize,
    pub cycles: Vec<Cycle>,
    /// Each file that names an item of the root, and the item.
    pub upward: Vec<(String, String)>,
}

/// A strongly connected component of more than one file.
pub struct Cycle {
    pub files: usize,
    /// The files on a shortest cycle through the component's first file.
    pub shortest: Vec<String>,
}

/// A file with the path of its module.
struct Source {
    module: ItemPath,
    /// Its path from the root of the repository.
    path: String,
    tokens: Vec<String>,
}

/// A report for each folder of `rust/`.
pub fn read(root: &Path) -> Result<BTreeMap<String, Report>, String> {
    let mut crates: BTreeMap<String, (usize, Vec<Source>)> = BTreeMap::new();
    for (path, text) in tree::sources(root)? {
        let Some((folder, file)) = path.strip_prefix("rust/").and_then(|path| path.split_once("/src/")) else {
            continue;
        };
        let Some(module) = file.strip_suffix(".rs").map(module_of) else { continue };
        if module.last().is_none_or(|last| last != "tests") {
            let (lines, sources) = crates.entry(folder.to_owned()).or_default();
            *lines += text.lines().count();
            sources.push(Source { module, path, tokens: tokens::read(&text) });
        }
    }
    let mut reports = BTreeMap::new();
    for (folder, (lines, mut sources)) in crates {
        let files = sources.len();
        add_included(root, &mut sources)?;
        let (cycles, upward) = examine(&sources);
        reports.insert(folder, Report { files, lines, cycles, upward });
    }
    Ok(reports)
}

/// The module of a file, given by its path from `src` without the extension.
fn module_of(file: &str) -> ItemPath {
    let mut module: ItemPath = file.split('/').map(str::to_owned).collect();
    let is_root = module == ["lib"] || module == ["main"];
    if is_root || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

/// Adds the files that `#[path]` includes.
fn add_included(root: &Path, sources: &mut Vec<Source>) -> Result<(), String> {
    let mut at = 0;
    while at < sources.len() {
        let folder = sources[at].path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        for (file, name) in included(&sources[at].tokens) {
            let path = format!("{folder}/{file}");
            let module = child(&sources[at].module, &name);
            let tokens = tokens::read(&tree::read(&root.join(&path))?);
            sources.push(Source { module, path, tokens });
        }
        at += 1;
    }
    Ok(())
}

/// The declarations `#[path = "file"] mod name;`, as pairs of file and name.
fn included(tokens: &[String]) -> Vec<(String, String)> {
    let attribute = ["#", "[", "path", "="].map(String::from);
    let starts = (0..tokens.len()).filter(|&at| tokens[at..].starts_with(&attribute));
    let declaration = |at: usize| {
        let file = tokens.get(at + 4)?.trim_matches('"').to_owned();
        let name = at + tokens[at..].iter().position(|token| token == "mod")? + 1;
        Some((file, tokens.get(name)?.clone()))
    };
    starts.filter_map(declaration).collect()
}

fn child(module: &[String], name: &str) -> ItemPath {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// The cycles and upward imports among the files of a crate.
fn examine(sources: &[Source]) -> (Vec<Cycle>, Vec<(String, String)>) {
    let modules: HashMap<&[String], usize> =
        sources.iter().enumerate().map(|(at, source)| (source.module.as_slice(), at)).collect();
    let files: Vec<File> = sources.iter().map(|source| File::parse(source, &modules)).collect();
    let mut macros = HashMap::new();
    for (at, file) in files.iter().enumerate() {
        macros.extend(file.macros.iter().map(|name| (name.as_str(), at)));
    }
    let names = Names { modules, files: &files, macros };
    let edges: Vec<BTreeMap<usize, String>> = (0..files.len()).map(|at| names.edges(at)).collect();

    let title =
        |at: usize| if sources[at].module.is_empty() { "root".to_owned() } else { sources[at].module.join("/") };
    let root = names.modules.get(&[][..]).copied();
    let upward = edges.iter().enumerate().filter_map(|(at, edges)| Some((title(at), edges.get(&root?)?.clone())));
    let cycles = components(&edges).into_iter().map(|component| Cycle {
        files: component.len(),
        shortest: shortest_cycle(&component, &edges).into_iter().map(title).collect(),
    });
    (cycles.collect(), upward.collect())
}

/// The names in a file.
struct File {
    module: ItemPath,
    /// Names that `use` imports, with their paths.
    imports: HashMap<String, ItemPath>,
    /// Names that `pub use` re-exports, with their paths.
    exports: HashMap<String, ItemPath>,
    /// Names that `pub use` re-exports from other crates.
    foreign: BTreeSet<String>,
    /// Every path that the file names, from the crate's root on.
    named: Vec<ItemPath>,
    /// Its macros under `#[macro_export]`, whose paths begin at the crate's root.
    macros: Vec<String>,
}

impl File {
    fn parse(source: &Source, modules: &HashMap<&[String], usize>) -> File {
        let tokens = &source.tokens;
        let mut file = File {
            module: source.module.clone(),
            imports: HashMap::new(),
            exports: HashMap::new(),
            foreign: BTreeSet::new(),
            named: Vec::new(),
            macros: Vec::new(),
        };
        let is_child = |name: &str| modules.contains_key(child(&source.module, name).as_slice());
        // Paths are resolved after the imports, which may follow them.
        let mut paths = Vec::new();
        // The ends of the inline modules around a token.
        let mut inline: Vec<usize> = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            inline.retain(|&end| at < end);
            if tokens[at] == "mod" && tokens.get(at + 2).is_some_and(|token| token == "{") {
                inline.push(closing(tokens, at + 2));
            }
            if tokens[at..].starts_with(&["#", "[", "macro_export"].map(String::from)) {
                let rules = tokens[at..].iter().position(|token| token == "macro_rules");
                file.macros.extend(rules.and_then(|rules| tokens.get(at + rules + 2)).cloned());
            }
            if tokens[at] == "use" && tokens.get(at + 1).is_some_and(|next| next != "<") {
                let is_public = is_public(&tokens[..at]);
                let end = at + tokens[at..].iter().position(|token| token == ";").unwrap_or(tokens.len() - at - 1);
                for (name, path) in leaves(&tokens[at + 1..end]) {
                    match file.absolute(&path, inline.len(), &is_child) {
                        Some(path) if is_public => _ = file.exports.insert(name, path),
                        Some(path) => {
                            file.named.push(path.clone());
                            file.imports.insert(name, path);
                        }
                        // A path of one name leads to an item of this file, such as a macro.
                        None if is_public && path.len() > 1 => _ = file.foreign.insert(name),
                        None => {}
                    }
                }
                at = end;
            } else if is_word(&tokens[at]) && (at == 0 || tokens[at - 1] != "::") {
                let mut path = vec![tokens[at].clone()];
                while tokens.get(at + 1).is_some_and(|next| next == "::")
                    && tokens.get(at + 2).is_some_and(|next| is_word(next))
                {
                    path.push(tokens[at + 2].clone());
                    at += 2;
                }
                if path.len() > 1 {
                    paths.push((path, inline.len()));
                }
            }
            at += 1;
        }
        for (path, depth) in paths {
            match file.imports.get(&path[0]) {
                Some(import) => file.named.push(import.iter().chain(&path[1..]).cloned().collect()),
                None => file.named.extend(file.absolute(&path, depth, &is_child)),
            }
        }
        file
    }

    /// The path from the crate's root on; `None` for a path into another crate. `depth` is the number of inline modules
    /// around it.
    fn absolute(&self, path: &[String], depth: usize, is_child: &impl Fn(&str) -> bool) -> Option<ItemPath> {
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (&self.module[..], &path[1..]),
            "super" => {
                let supers = path.iter().take_while(|word| *word == "super").count();
                let levels = self.module.len().saturating_sub(supers.saturating_sub(depth));
                (&self.module[..levels], &path[supers..])
            }
            name if is_child(name) => (&self.module[..], path),
            _ => return None,
        };
        Some(base.iter().chain(rest).cloned().collect())
    }
}

/// Whether the `use` after these tokens is a re-export: `pub use`, `pub(crate) use`, `pub(in path) use`.
fn is_public(before: &[String]) -> bool {
    match before {
        [.., last] if last == "pub" => true,
        [.., last] if last == ")" => {
            let open = before.iter().rposition(|token| token == "(");
            open.is_some_and(|open| open > 0 && before[open - 1] == "pub")
        }
        _ => false,
    }
}

/// Each name that a tree of `use` imports, with its path.
fn leaves(tree: &[String]) -> Vec<(String, ItemPath)> {
    let mut found = Vec::new();
    let (mut path, mut at) = (ItemPath::new(), 0);
    while at < tree.len() {
        match tree[at].as_str() {
            "{" => {
                for part in split(&tree[at + 1..closing(tree, at)]) {
                    for (name, rest) in leaves(part) {
                        // `a::{self}` imports `a`, `a::{self as b}` imports it as `b`.
                        let is_self = rest == ["self"];
                        let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name };
                        let rest = if is_self { Vec::new() } else { rest };
                        found.push((name, path.iter().cloned().chain(rest).collect()));
                    }
                }
                return found;
            }
            "as" => return tree.get(at + 1).map(|name| (name.clone(), path)).into_iter().collect(),
            "::" => {}
            word => path.push(word.to_owned()),
        }
        at += 1;
    }
    path.last().cloned().map(|name| (name, path)).into_iter().collect()
}

/// The parts between commas outside brackets.
fn split(tokens: &[String]) -> Vec<&[String]> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while at < tokens.len() {
        match tokens[at].as_str() {
            "{" => at = closing(tokens, at),
            "," => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&tokens[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

struct Names<'a> {
    modules: HashMap<&'a [String], usize>,
    files: &'a [File],
    macros: HashMap<&'a str, usize>,
}

impl Names<'_> {
    /// The files whose items a file names, each with one of the items.
    fn edges(&self, at: usize) -> BTreeMap<usize, String> {
        let named = self.files[at].named.iter().filter_map(|path| self.definition(path, 0));
        named.filter(|(other, _)| *other != at).collect()
    }

    /// The file that defines the item of a path, and the item; `None` for a path to a module or into another crate.
    fn definition(&self, path: &[String], depth: usize) -> Option<(usize, String)> {
        let (length, &at) =
            (0..=path.len()).rev().find_map(|length| Some((length, self.modules.get(&path[..length])?)))?;
        let item = path.get(length)?;
        match self.files[at].exports.get(item) {
            // The limit ends a search through re-exports of each other.
            Some(target) if depth < 8 => {
                let target: ItemPath = target.iter().chain(&path[length + 1..]).cloned().collect();
                self.definition(&target, depth + 1)
            }
            _ if length == 0 && self.macros.contains_key(item.as_str()) => {
                Some((self.macros[item.as_str()], item.clone()))
            }
            _ if self.files[at].foreign.contains(item) => None,
            _ => Some((at, item.clone())),
        }
    }
}

/// The strongly connected components of more than one file: two files are in one if each reaches the other.
fn components(edges: &[BTreeMap<usize, String>]) -> Vec<BTreeSet<usize>> {
    let reachable: Vec<BTreeSet<usize>> = (0..edges.len()).map(|from| reachable(from, edges)).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for from in 0..edges.len() {
        let component: BTreeSet<usize> =
            reachable[from].iter().copied().filter(|&to| reachable[to].contains(&from)).collect();
        if component.len() > 1 && seen.insert(from) {
            seen.extend(&component);
            found.push(component);
        }
    }
    found
}

/// The files that can be reached from a file by at least one edge.
fn reachable(from: usize, edges: &[BTreeMap<usize, String>]) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        open.extend(edges[at].keys().copied().filter(|&to| seen.insert(to)));
    }
    seen
}

/// A shortest cycle through the first file of a component, by breadth-first search; its last edge leads to this file.
fn shortest_cycle(component: &BTreeSet<usize>, edges: &[BTreeMap<usize, String>]) -> Vec<usize> {
    let Some(&start) = component.first() else { return Vec::new() };
    let mut paths = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(path) = paths.pop_front() {
        for &to in edges[path[path.len() - 1]].keys().filter(|to| component.contains(to)) {
            if to == start {
                return path;
            }
            if seen.insert(to) {
                paths.push_back(path.iter().copied().chain([to]).collect());
            }
        }
    }
    Vec::new()
}
