//! `docs/guarantees.md` and the tests speak of each other: every id has a row with a test, and the
//! head of that test names the id; every test file is on the page, and one whose head names no id
//! is in the second table; every file, model and mutant on the page is there, and so is the code
//! that heads of tests say they break by.
//!
//! It fails when a row, a test file or an id in a head is taken away.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The ids that there are: a letter, and how many.
const IDS: [(char, usize); 7] = [
    ('I', 10),
    ('L', 6),
    ('S', 9),
    ('F', 7),
    ('O', 5),
    ('J', 6),
    ('H', 6),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The ids in a text: words of one of the letters and a number.
fn ids(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| {
            IDS.iter().any(|(letter, count)| {
                word.strip_prefix(*letter)
                    .and_then(|number| number.parse().ok())
                    .is_some_and(|number: usize| (1..=*count).contains(&number))
            })
        })
        .map(str::to_owned)
        .collect()
}

/// The comment at the head of a file.
fn head(path: &Path) -> String {
    let text = read(path);
    let lines = text.lines().take_while(|line| line.starts_with("//!"));
    lines.collect::<Vec<_>>().join("\n")
}

/// A path as the page has it, in this workspace.
fn find(path: &str) -> Option<PathBuf> {
    let below = [
        "tests/",
        "queue/",
        "reactor/",
        "stack/",
        "inspect/",
        "macros/",
        "benches/",
        "executor/",
        "src/",
    ];
    let candidates = if below.iter().any(|folder| path.starts_with(folder)) {
        vec![root().join(path)]
    } else {
        let executor = root().join("executor");
        let mut candidates = vec![executor.join("src").join(path)];
        candidates.extend(folders(&executor.join("tests")).map(|folder| folder.join(path)));
        candidates
    };
    candidates.into_iter().find(|path| path.is_file())
}

/// A folder of tests, and the folders in it. Each is one program.
fn folders(tests: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let programs = fs::read_dir(tests)
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.join("main.rs").is_file());
    [tests.to_owned()].into_iter().chain(programs)
}

struct Row {
    ids: BTreeSet<String>,
    name: String,
    tests: Vec<String>,
    models: Vec<String>,
    mutants: Vec<String>,
}

struct Page {
    text: String,
    rows: Vec<Row>,
}

fn page() -> Page {
    let text = read(&root().join("docs/guarantees.md"));
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(str::trim)
                .collect::<Vec<_>>()
        })
        .filter(|cells| cells.len() == 6 && cells[0] != "id" && !cells[0].starts_with("---"))
        .map(|cells| {
            let list = |cell: &str| quoted(cell).map(str::to_owned).collect::<Vec<_>>();
            Row {
                ids: ids(cells[0]),
                name: cells[0].to_owned(),
                tests: list(cells[3])
                    .into_iter()
                    .filter(|name| name.ends_with(".rs"))
                    .collect(),
                models: list(cells[4]),
                mutants: list(cells[5]),
            }
        })
        .collect();
    Page { text, rows }
}

/// The path of a test file on the page: the bare name of the executor's, and that from the root of
/// others'.
fn on_the_page(path: &Path) -> String {
    let path = path.strip_prefix(root()).expect("it is in the workspace");
    let name = match path.strip_prefix("executor/tests") {
        Ok(_) => Path::new(path.file_name().expect("a file")),
        Err(_) => path,
    };
    name.to_str().expect("text").to_owned()
}

/// All files of tests, by their paths on the page.
fn test_files() -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    for tests in [
        "executor/tests",
        "inspect/tests",
        "tests",
        "tests/ui/tests",
        "queue/tests",
        "reactor/tests",
        "stack/tests",
    ] {
        // The example `serve` has one test file and helpers.
        let folders = folders(&root().join(tests)).filter(|folder| !folder.ends_with("serve"));
        for folder in folders {
            for entry in fs::read_dir(&folder).expect("the folder is there") {
                let path = entry.expect("it can be read").path();
                let is_test = path.extension().is_some_and(|extension| extension == "rs")
                    && path.file_name().is_some_and(|name| name != "main.rs");
                if is_test {
                    files.push((on_the_page(&path), path));
                }
            }
        }
    }
    assert!(files.len() > 40, "the test files are not found");
    files
}

#[test]
fn every_id_has_a_row() {
    let page = page();
    let rows: BTreeSet<String> = page.rows.iter().flat_map(|row| row.ids.clone()).collect();
    for (letter, count) in IDS {
        for number in 1..=count {
            let id = format!("{letter}{number}");
            assert!(rows.contains(&id), "{id} has no row");
        }
    }
}

#[test]
fn every_row_has_tests_that_name_it() {
    for row in page().rows {
        assert!(!row.tests.is_empty(), "{} has no test", row.name);
        for test in &row.tests {
            let path = find(test).unwrap_or_else(|| panic!("{}: {test} is not there", row.name));
            let named = ids(&head(&path));
            for id in &row.ids {
                assert!(named.contains(id), "the head of {test} does not name {id}");
            }
        }
    }
}

#[test]
fn every_test_file_is_on_the_page() {
    let page = page();
    let (_, beyond) = page
        .text
        .split_once("\n## Tests of what is not in the table")
        .expect("the second table");
    let beyond: BTreeSet<&str> = quoted(beyond).collect();
    for (name, path) in test_files() {
        let named = ids(&head(&path));
        let in_a_row = page.rows.iter().any(|row| row.tests.contains(&name));
        if named.is_empty() {
            assert!(beyond.contains(&*name), "{name} names no id");
        } else {
            assert!(in_a_row, "{name} names {named:?}, and is in no row");
        }
    }
    for name in beyond.into_iter().filter(|name| name.ends_with(".rs")) {
        assert!(find(name).is_some(), "{name} is not there");
    }
}

#[test]
fn every_model_and_mutant_is_there() {
    let packages = ["queue", "executor", "reactor", "stack"].map(|folder| root().join(folder));
    let mutants: Vec<String> = packages
        .iter()
        .flat_map(|package| fs::read_dir(package.join("mutants")).expect("the folder is there"))
        .map(|entry| {
            entry
                .expect("it can be read")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    for row in page().rows {
        for model in &row.models {
            let (file, name) = model.split_once("::").expect("file::name");
            let path = packages
                .iter()
                .map(|package| package.join(format!("src/models/{file}.rs")))
                .find(|path| path.is_file())
                .unwrap_or_else(|| panic!("{}: there is no file of models {file}", row.name));
            let text = read(&path);
            let function = match name.strip_suffix('*') {
                Some(prefix) => format!("fn {prefix}"),
                None => format!("fn {name}("),
            };
            assert!(
                text.contains(&function),
                "{}: there is no model {model}",
                row.name
            );
        }
        for mutant in &row.mutants {
            let there = match mutant.strip_suffix('*') {
                Some(prefix) => mutants.iter().any(|file| file.starts_with(prefix)),
                None => mutants.contains(&format!("{mutant}.patch")),
            };
            assert!(there, "{}: there is no mutant {mutant}", row.name);
        }
    }
}

/// A head says "`start_worker` in `sched/threads.rs`".
#[test]
fn what_heads_of_tests_speak_of_is_there() {
    let mut found = 0;
    for (name, path) in test_files() {
        let head = head(&path).replace("//!", "").replace('\n', " ");
        let head = head.split_whitespace().collect::<Vec<_>>().join(" ");
        let parts: Vec<&str> = head.split('`').collect();
        for window in parts.windows(3).filter(|window| window[1] == " in ") {
            let (what, file) = (window[0], window[2]);
            let below = match name.split_once('/') {
                Some(("reactor", _)) => "reactor/src",
                Some(("stack", _)) => "stack/src",
                _ => "executor/src",
            };
            let candidates = [root().join(below).join(file), root().join(file)];
            let Some(code) = candidates.iter().find(|path| path.is_file()) else {
                panic!("{name} speaks of {file}, which is not there");
            };
            let what = what.rsplit("::").next().expect("a name");
            assert!(
                read(code).contains(what),
                "{name} speaks of {what} in {file}, which is not there"
            );
            found += 1;
        }
    }
    assert!(found > 20, "only {found} were found");
}
