//! Lines of text have at most 100 columns, in comments and on pages. Code is rustfmt's; that of the
//! live page, which no tool formats, has the same limit.
//!
//! Free of it are rows of tables, code that text shows, drawings (indented by five columns or
//! more), and one word that is longer by itself. Not looked at are the pages that `ws-bench`
//! writes, and the programs in `tests/ui/`, whose messages name lines.

use std::{fs, path::Path};

use crate::{
    Failure,
    tree::{at, entries},
};

const MOST: usize = 100;
/// Files and folders, from the root.
const LEFT_OUT: [&str; 5] = [
    "target",
    ".git",
    "docs/benchmarks",
    "docs/benchmarks.md",
    "tests/ui",
];

/// Looks at each file.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let mut faults = Vec::new();
    look(root, "", &mut faults)?;
    if faults.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "text beyond column {MOST}:\n  {}",
            faults.join("\n  ")
        ))
    }
}

fn look(folder: &Path, path: &str, faults: &mut Vec<String>) -> Result<(), Failure> {
    for entry in entries(folder)? {
        let file = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = match path {
            "" => name,
            _ => format!("{path}/{name}"),
        };
        if LEFT_OUT.contains(&&*path) || path.ends_with("/target") {
            continue;
        }
        if file.is_dir() {
            look(&file, &path, faults)?;
        } else if path.ends_with(".rs") || path.ends_with(".md") {
            let text = fs::read_to_string(&file).map_err(at(&file))?;
            let lines = too_long(&text, path.ends_with(".rs"));
            faults.extend(lines.into_iter().map(|line| format!("{path}:{line}")));
        } else if path.starts_with("src/inspect/page/") {
            let text = fs::read_to_string(&file).map_err(at(&file))?;
            let lines = text.lines().zip(1..);
            let long = lines.filter(|(line, _)| line.chars().count() > MOST);
            faults.extend(long.map(|(_, number)| format!("{path}:{number}")));
        }
    }
    Ok(())
}

/// The numbers of the lines that are too long, of a source file or of a page.
fn too_long(text: &str, is_source: bool) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (line, number) in text.lines().zip(1..) {
        let words = match is_source {
            true => comment(line),
            false => Some(line),
        };
        let Some(words) = words else {
            is_code = false;
            continue;
        };
        let trimmed = words.trim();
        if trimmed.starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let is_free = is_code
            || trimmed.starts_with('|')
            || words.starts_with("     ")
            || !trimmed.contains(' ');
        if !is_free && line.chars().count() > MOST {
            found.push(number);
        }
    }
    found
}

/// What stands in a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let words = line.trim_start().strip_prefix("//")?;
    Some(words.strip_prefix(['/', '!']).unwrap_or(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(begin: &str) -> String {
        format!("{begin} {}", "word ".repeat(20))
    }

    #[test]
    fn comments_and_pages_are_looked_at() {
        for begin in ["//", "    ///", "//!"] {
            assert_eq!(too_long(&long(begin), true), [1], "{begin}");
        }
        assert_eq!(
            too_long(&format!("short\n{}", long("a page's")), false),
            [2]
        );
        assert!(too_long(&long("let code ="), true).is_empty());
    }

    #[test]
    fn what_cannot_be_broken_is_free() {
        for begin in ["// |", "//      drawn:"] {
            assert!(too_long(&long(begin), true).is_empty(), "{begin}");
        }
        let code = format!("/// ```\n{}\n/// ```\n{}", long("///"), long("///"));
        assert_eq!(too_long(&code, true), [4]);
        let link = format!("// https://{}", "a".repeat(100));
        assert!(too_long(&link, true).is_empty());
    }
}
