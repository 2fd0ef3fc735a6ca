//! The layers of the executor: which module may use which.
//!
//! `executor/layers.txt` has the order, from the ground up: a line is a layer, and its modules may
//! use those of the lines above it in the file. `A -> B` below the order is an import against it
//! that is still there. So the list of those can only become shorter: an import against the order
//! that is not listed fails, and so does a listed one that is gone.
//!
//! A module is a file or a folder directly below `executor/src`. What only tests and models use is
//! left out. Paths are read from the text, behind `crate::` and `super::`, in `use` and elsewhere:
//! comments and strings are passed over, and a macro that makes a path up is not seen.
//!
//! Inside a module no more than a handful of files may import one another (`layers/circles.rs`).

mod circles;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::{
    Failure,
    tree::{at, entries},
};

/// Files of these names, and folders, are no part of what ships.
const OF_TESTS: [&str; 6] = ["tests", "test_util", "models", "steps", "sim", "lib"];

/// Which module uses which, each with one place where it does.
type Uses = BTreeMap<(String, String), String>;

/// Compares the imports with the order.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let source = root.join("executor/src");
    let mut uses = Uses::new();
    let mut modules = BTreeSet::new();
    let files = files(&source, &[])?;
    for (path, text) in &files {
        modules.insert(path[0].clone());
        for (used, line) in used_by(path, text) {
            if used != path[0] {
                let place = format!("executor/src/{}.rs:{line}", path.join("/"));
                uses.entry((path[0].clone(), used)).or_insert(place);
            }
        }
    }
    uses.retain(|(_, used), _| modules.contains(used));
    let file = root.join("executor/layers.txt");
    let order = Order::parse(&fs::read_to_string(&file).map_err(at(&file))?)?;
    let (largest, circles) = circles::check(&files);
    let faults = [order.faults(&modules, &uses), circles].concat();
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    println!(
        "{} modules in {} layers; {} imports against the order are left; at most {largest} files \
         import one another",
        modules.len(),
        order.layers.len(),
        order.known.len()
    );
    Ok(())
}

/// What `executor/layers.txt` says.
#[derive(Debug, Default)]
struct Order {
    /// From the ground up.
    layers: Vec<Vec<String>>,
    known: BTreeSet<(String, String)>,
}

impl Order {
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut order = Self::default();
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or(""));
        for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
            match line.split_once("->") {
                Some((from, to)) => {
                    let pair = (from.trim().to_owned(), to.trim().to_owned());
                    if !order.known.insert(pair) {
                        return Err(format!("executor/layers.txt has `{line}` twice"));
                    }
                }
                None => {
                    let layer = line.split_whitespace().map(str::to_owned).collect();
                    order.layers.push(layer);
                }
            }
        }
        Ok(order)
    }

    fn layer_of(&self, module: &str) -> Option<usize> {
        self.layers
            .iter()
            .position(|layer| layer.iter().any(|other| other == module))
    }

    fn faults(&self, modules: &BTreeSet<String>, uses: &Uses) -> Vec<String> {
        let mut faults = Vec::new();
        for module in modules {
            if self.layer_of(module).is_none() {
                faults.push(format!("`{module}` is in no layer of executor/layers.txt"));
            }
        }
        for module in self.layers.iter().flatten() {
            if !modules.contains(module) {
                faults.push(format!(
                    "executor/layers.txt has `{module}`, and there is no such module"
                ));
            }
        }
        let is_against = |(from, to): &(String, String)| self.layer_of(to) >= self.layer_of(from);
        for (pair, place) in uses {
            if is_against(pair) && !self.known.contains(pair) {
                let (from, to) = pair;
                faults.push(format!(
                    "{place}: `{from}` uses `{to}`, which is not below it in executor/layers.txt"
                ));
            }
        }
        for pair in &self.known {
            if !uses.contains_key(pair) || !is_against(pair) {
                let (from, to) = pair;
                faults.push(format!(
                    "`{from} -> {to}` is not there any more: take it out of executor/layers.txt"
                ));
            }
        }
        faults
    }
}

/// The files below a folder, by their paths without `.rs`, and what is in them.
fn files(folder: &Path, path: &[String]) -> Result<Vec<(Vec<String>, String)>, Failure> {
    let mut files = Vec::new();
    for entry in entries(folder)? {
        let file = entry.path();
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        // The drivers in `sched/sim.rs` are of tests. The module `sim` ships.
        let ships = path.is_empty() && stem == "sim";
        if OF_TESTS.contains(&&*stem) && !ships {
            continue;
        }
        let path = [path, &[stem.into_owned()]].concat();
        if file.is_dir() {
            files.extend(self::files(&file, &path)?);
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&file).map_err(at(&file))?;
            files.push((path, text));
        }
    }
    Ok(files)
}

/// The modules that a file names, each with the line where it does.
fn used_by(path: &[String], text: &str) -> Vec<(String, usize)> {
    let text = without_tests(&without_comments(text));
    let mut used = Vec::new();
    let mut words = words(&text).peekable();
    while let Some((at, word)) = words.next() {
        // Else it is a `pub(crate)`.
        if !text[at + word.len()..].starts_with("::") {
            continue;
        }
        let depth = match word {
            "crate" => path.len(),
            "super" => {
                let mut depth = 1;
                while words.next_if(|(_, next)| *next == "super").is_some() {
                    depth += 1;
                }
                depth
            }
            _ => continue,
        };
        // `super` of a file in a folder is that folder; only what goes beyond the top one names
        // another module.
        if depth < path.len() {
            continue;
        }
        let line = 1 + text[..at].matches('\n').count();
        let mut rest = &text[at..];
        while let Some(below) = ["crate::", "super::"]
            .iter()
            .find_map(|up| rest.strip_prefix(up))
        {
            rest = below;
        }
        let Some(rest) = rest.strip_prefix('{') else {
            if let Some((_, next)) = words.peek() {
                used.push(((*next).to_owned(), line));
            }
            continue;
        };
        used.extend(
            first_words(rest)
                .into_iter()
                .map(|name| (name.to_owned(), line)),
        );
    }
    used
}

/// The first word of each branch of a group, behind its brace.
fn first_words(group: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut begins) = (0, true);
    let mut rest = group;
    while let Some(c) = rest.chars().next() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && is_of_word(c) => {
                let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
                found.push(&rest[..end]);
                begins = false;
                rest = &rest[end..];
                continue;
            }
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
    found
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a text, each with where it begins.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split(|c| !is_of_word(c))
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr().addr() - text.as_ptr().addr(), word))
}

/// The text with blanks in the place of comments and of what stands in strings.
fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if c == '"' {
            end_of_string(rest)
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        let (skipped, after) = rest.split_at(length);
        code.extend(skipped.chars().map(|c| if c == '\n' { c } else { ' ' }));
        rest = after;
    }
    code
}

/// Where a string ends that begins here.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The text without the modules that only tests have.
fn without_tests(code: &str) -> String {
    match code
        .find("#[cfg(test)]\nmod ")
        .or_else(|| code.find("#[cfg(all(test"))
    {
        // They come last in a file.
        Some(at) if code[at..].contains("mod tests") => code[..at].to_owned(),
        _ => code.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(path: &str, text: &str) -> Vec<String> {
        let path: Vec<_> = path.split('/').map(str::to_owned).collect();
        used_by(&path, text)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    #[test]
    fn paths_are_found_where_they_stand() {
        let text = "use crate::{\n    sync::{Arc, Mutex},\n    task::Task,\n};\nuse crate::queue;\nuse crate::netpoll::{Park, park};\nfn f() -> crate::time::Instant {}";
        let expected = ["sync", "task", "queue", "netpoll", "time"];
        assert_eq!(used("sched/find", text), expected);
    }

    #[test]
    fn super_counts_only_beyond_the_folder() {
        assert!(used("sched/find", "use super::worker::Worker;").is_empty());
        assert_eq!(
            used("sched/find", "use super::super::task::Task;"),
            ["task"]
        );
        assert_eq!(used("budget", "use super::context;"), ["context"]);
    }

    #[test]
    fn what_is_no_path_names_nothing() {
        let text = "struct S { pub(crate) e: u8 }\n// crate::a\n/// [x](crate::b)\nfn f() { \"crate::c\"; }\n#[cfg(test)]\nmod tests { use crate::d; }";
        assert!(used("budget", text).is_empty());
    }

    fn uses(pairs: &[(&str, &str)]) -> Uses {
        let place =
            |&(from, to): &(&str, &str)| ((from.to_owned(), to.to_owned()), "here".to_owned());
        pairs.iter().map(place).collect()
    }

    fn faults(order: &str, pairs: &[(&str, &str)]) -> Vec<String> {
        let modules = ["a", "b", "c"].map(str::to_owned).into();
        Order::parse(order).unwrap().faults(&modules, &uses(pairs))
    }

    #[test]
    fn an_import_goes_down_or_is_listed() {
        assert!(faults("a\nb c", &[("b", "a"), ("c", "a")]).is_empty());
        assert!(faults("a\nb c\na -> b", &[("a", "b")]).is_empty());
        for (order, pair) in [("a\nb c", ("a", "b")), ("a\nb c", ("b", "c"))] {
            let faults = faults(order, &[pair]);
            assert!(faults[0].contains("is not below it"), "{faults:?}");
        }
    }

    #[test]
    fn a_list_that_is_not_true_any_more_fails() {
        assert!(faults("a\nb c\na -> b", &[])[0].contains("not there any more"));
        assert!(faults("a\nb c\nb -> a", &[("b", "a")])[0].contains("not there any more"));
        assert!(faults("a\nb", &[])[0].contains("in no layer"));
        assert!(faults("a\nb c d", &[])[0].contains("no such module"));
    }
}
