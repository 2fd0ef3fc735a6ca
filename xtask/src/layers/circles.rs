//! Circles inside a module of the executor: files that import one another, directly or through
//! others.
//!
//! A name that is re-exported counts as an import of the file that has it. So two files that take
//! `super::Shared` and `super::Worker` from the file of their folder do not import each other.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_of_word, without_comments, without_tests};

/// The most files of a circle. A runtime, its configuration and its workers refer to one another;
/// so do a task's cell, its references and its handle.
const MOST: usize = 6;

/// A module by the names on the way to it.
type Module = Vec<String>;
/// What a file imports, and where from.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// The largest circle, and what is said of those that are too large.
pub(super) fn check(files: &[(Module, String)]) -> (usize, Vec<String>) {
    let circles = circles(&imports(files));
    let most = circles.iter().map(BTreeSet::len).max().unwrap_or(0);
    let too_large = circles.iter().filter(|circle| circle.len() > MOST);
    let faults = too_large.map(|circle| {
        let names: Vec<_> = circle.iter().map(|module| module.join("/")).collect();
        let count = names.len();
        format!(
            "{count} files import one another, and at most {MOST} may: {}",
            names.join(", ")
        )
    });
    (most, faults.collect())
}

fn imports(files: &[(Module, String)]) -> Imports {
    let modules: BTreeSet<&Module> = files.iter().map(|(path, _)| path).collect();
    let statements: Vec<_> = files
        .iter()
        .map(|(path, text)| (path, statements(text)))
        .collect();
    let mut exported = BTreeMap::new();
    for (path, statements) in &statements {
        for (_, names) in statements.iter().filter(|(is_exported, _)| *is_exported) {
            if let Some((module, rest)) = found(&modules, path, names)
                && let [.., name] = names.as_slice()
                && !rest.is_empty()
                && module != **path
            {
                exported.insert(((*path).clone(), name.clone()), module);
            }
        }
    }
    let mut imports = Imports::new();
    for (path, statements) in &statements {
        let of_file = imports.entry((*path).clone()).or_default();
        for (_, names) in statements.iter().filter(|(is_exported, _)| !is_exported) {
            let Some((mut module, rest)) = found(&modules, path, names) else {
                continue;
            };
            // Each step leads to another module, so there are no more than there are modules.
            for _ in &modules {
                let name = rest.first().cloned().unwrap_or_default();
                let Some(next) = exported.get(&(module.clone(), name)) else {
                    break;
                };
                module.clone_from(next);
            }
            if module != **path {
                of_file.insert(module);
            }
        }
    }
    imports
}

/// The module that has what a path names, and the rest of the path.
fn found(
    modules: &BTreeSet<&Module>,
    file: &[String],
    names: &[String],
) -> Option<(Module, Vec<String>)> {
    let mut base = file.to_vec();
    let mut rest = names;
    while let [first, after @ ..] = rest {
        match first.as_str() {
            "crate" => base.clear(),
            "super" => _ = base.pop(),
            "self" => {}
            _ => break,
        }
        rest = after;
    }
    (0..=rest.len()).rev().find_map(|count| {
        let module = [&base, &rest[..count]].concat();
        modules
            .contains(&module)
            .then(|| (module, rest[count..].to_vec()))
    })
}

/// The paths from the crate, a folder or the file itself: those that a `pub use` exports, and all
/// others.
fn statements(text: &str) -> Vec<(bool, Vec<String>)> {
    let text = without_tests(&without_comments(text));
    let mut paths = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = ["crate::", "super::", "self::"]
        .iter()
        .filter_map(|begin| rest.find(begin))
        .min()
    {
        let (before, path) = rest.split_at(at);
        if before.ends_with(is_of_word) || before.ends_with("::") {
            rest = &path[1..];
            continue;
        }
        let line = before.rsplit('\n').next().unwrap_or("");
        let is_exported = line.starts_with("pub") && line.ends_with("use ");
        let mut names = Vec::new();
        rest = tree(path, &mut Vec::new(), &mut names);
        paths.extend(names.into_iter().map(|names| (is_exported, names)));
    }
    paths
}

/// Reads a path, or a tree of paths, and returns what is behind it.
fn tree<'a>(text: &'a str, above: &mut Vec<String>, paths: &mut Vec<Vec<String>>) -> &'a str {
    let depth = above.len();
    let mut rest = text;
    loop {
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        above.push(rest[..end].to_owned());
        rest = &rest[end..];
        let Some(below) = rest.strip_prefix("::") else {
            paths.push(above.clone());
            break;
        };
        rest = below;
        if let Some(mut branch) = below.strip_prefix('{') {
            while let Some(next) = branch.find(|c: char| is_of_word(c) || c == '}' || c == '{') {
                branch = &branch[next..];
                if !branch.starts_with(is_of_word) {
                    branch = &branch[1..];
                    break;
                }
                branch = tree(branch, above, paths);
            }
            rest = branch;
            break;
        }
        if !below.starts_with(is_of_word) {
            paths.push(above.clone());
            break;
        }
    }
    above.truncate(depth);
    rest
}

/// The files of each circle, or a file alone.
fn circles(imports: &Imports) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<_, _> = imports
        .keys()
        .map(|file| (file, reached_from(imports, file)))
        .collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, from_here) in &reached {
        if !seen.insert(*file) {
            continue;
        }
        let leads_back = |other: &&Module| reached.get(other).is_some_and(|it| it.contains(*file));
        let others = from_here.iter().filter(leads_back).cloned();
        let circle: BTreeSet<Module> = others.chain([(*file).clone()]).collect();
        seen.extend(reached.keys().filter(|it| circle.contains(**it)));
        circles.push(circle);
    }
    circles
}

fn reached_from(imports: &Imports, file: &Module) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        for next in imports.get(file).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> (Module, String) {
        (
            path.split('/').map(str::to_owned).collect(),
            text.to_owned(),
        )
    }

    #[test]
    fn paths_are_read_from_trees_and_from_code() {
        let text = "use super::{A, b::{self, C}, d};\npub(crate) use self::e::F;\n\
                    fn f() -> crate::g::H { my_crate::x() }\n// crate::no\n";
        let read: Vec<_> = statements(text)
            .into_iter()
            .map(|(is_exported, names)| (is_exported, names.join(" ")))
            .collect();
        let expected = [
            (false, "super A"),
            (false, "super b self"),
            (false, "super b C"),
            (false, "super d"),
            (true, "self e F"),
            (false, "crate g H"),
        ];
        assert_eq!(read, expected.map(|(is, names)| (is, names.to_owned())));
    }

    #[test]
    fn a_name_that_is_exported_leads_to_its_file() {
        let files = [
            file("s", "pub(crate) use self::{one::One, two::Two};"),
            file("s/one", "struct One;"),
            file("s/two", "use super::One;"),
            file(
                "s/three",
                "use super::{One, Two};\nuse crate::other::X;\npub use self::X;",
            ),
            file("other", "use crate::s::three::Three;"),
        ];
        let imports = imports(&files);
        let of = |path: &str| {
            let (path, _) = file(path, "");
            let names = imports[&path].iter().map(|module| module.join("/"));
            names.collect::<Vec<_>>()
        };
        assert_eq!(of("s/two"), ["s/one"]);
        assert_eq!(of("s/three"), ["other", "s/one", "s/two"]);
        let circles = circles(&imports);
        assert_eq!(circles.iter().map(BTreeSet::len).max(), Some(2));
    }

    #[test]
    fn a_circle_of_too_many_files_is_told() {
        let of = |count: usize| {
            let import = |at: usize| format!("use super::f{}::X;", (at + 1) % count);
            let files = (0..count).map(|at| file(&format!("s/f{at}"), &import(at)));
            check(&files.collect::<Vec<_>>())
        };
        assert_eq!(of(MOST), (MOST, Vec::new()));
        let (most, faults) = of(MOST + 1);
        assert_eq!((most, faults.len()), (MOST + 1, 1));
        assert!(faults[0].contains("s/f0, s/f1"), "{}", faults[0]);
    }
}
