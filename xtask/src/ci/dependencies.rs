//! What the runtime brings into a user's build: few crates, and no other runtime.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{Failure, cargo, process, tree::at};

/// The most crates in a user's build beside our own, on the system that CI runs on.
const MOST: usize = 30;

/// The parts of tokio that are its runtime. Adapters bring the crate if their library uses its
/// channels or its traits.
const RUNTIME: [&str; 7] = [
    "rt",
    "rt-multi-thread",
    "time",
    "fs",
    "process",
    "signal",
    "full",
];

pub(super) fn check(root: &Path) -> Result<(), Failure> {
    let tree = tree(root, &["--edges", "normal,build"])?;
    let crates = crates(&tree);
    if crates.len() > MOST {
        let names = crates.iter().copied().collect::<Vec<_>>().join(" ");
        return Err(format!(
            "dependencies: {} crates, more than {MOST}: {names}",
            crates.len()
        ));
    }
    if crates.contains("tokio") {
        return Err("dependencies: tokio is in the default tree".into());
    }
    let mut counts = Vec::new();
    for feature in features(root)? {
        counts.push(format!("{feature} {}", check_feature(root, &feature)?));
    }
    println!(
        "dependencies: {} crates by default; with a feature: {}; no tokio runtime",
        crates.len(),
        counts.join(", ")
    );
    Ok(())
}

/// How many crates a feature brings. Fails if it brings a part of tokio's runtime.
fn check_feature(root: &Path, feature: &str) -> Result<usize, Failure> {
    let with = ["--features", feature, "--edges"];
    let features = tree(root, &[&with[..], &["normal,features"]].concat())?;
    if let Some(line) = runtime_in(&features, feature) {
        return Err(format!(
            "dependencies: the feature {feature} brings tokio's runtime, or parts of it: {line}"
        ));
    }
    let features = tree(root, &[&with[..], &["normal,build"]].concat())?;
    Ok(crates(&features).len())
}

fn tree(root: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let tree = ["tree", "--package", "ws-runtime", "--prefix", "none"];
    process::output(cargo::command(root).args(tree).args(arguments))
}

/// The names of all crates of a tree, without ours.
fn crates(tree: &str) -> BTreeSet<&str> {
    tree.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| !name.starts_with("ws-"))
        .collect()
}

/// The first line of a tree that is a part of tokio's runtime.
fn runtime_in<'a>(tree: &'a str, feature: &str) -> Option<&'a str> {
    tree.lines().find(|line| {
        let part = line
            .strip_prefix("tokio feature \"")
            .and_then(|rest| rest.split('"').next());
        part.is_some_and(|part| {
            // hyper-util's legacy client comes with a connector of its own, on tokio's sockets.
            RUNTIME.contains(&part) || part == "net" && feature != "hyper-util"
        })
    })
}

/// The features of the library, as its `Cargo.toml` has them.
pub(super) fn features(root: &Path) -> Result<Vec<String>, Failure> {
    let path = root.join("Cargo.toml");
    let manifest = fs::read_to_string(&path).map_err(at(&path))?;
    let features = features_in(&manifest);
    if features.is_empty() {
        return Err(format!("{} has no features", path.display()));
    }
    Ok(features.into_iter().map(str::to_owned).collect())
}

fn features_in(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_counts_once_and_ours_do_not() {
        let tree =
            "ws-runtime v0.1.0 (/ws)\nmio v1.0\nlibc v0.2\nws-reactor v0.1.0\nmio v1.0 (*)\n";
        assert_eq!(Vec::from_iter(crates(tree)), ["libc", "mio"]);
    }

    #[test]
    fn a_part_of_tokios_runtime_is_found() {
        let tree = "tokio v1.44\ntokio feature \"sync\"\ntokio feature \"net\" (*)\n";
        let net = Some("tokio feature \"net\" (*)");
        assert_eq!(runtime_in(tree, "zbus"), net);
        assert_eq!(runtime_in(tree, "hyper-util"), None);
        let tree = "other feature \"rt\"\ntokio feature \"rt\"\n";
        let rt = Some("tokio feature \"rt\"");
        assert_eq!(runtime_in(tree, "hyper-util"), rt);
    }

    #[test]
    fn features_are_those_of_their_section() {
        let manifest = "\
[lib]
name = \"ws\"
[features]
# An adapter each.
hyper = [\"dep:hyper\"]
hyper-util = [\"hyper\"]

[dependencies]
libc = \"1\"
";
        assert_eq!(features_in(manifest), ["hyper", "hyper-util"]);
    }

    #[test]
    fn the_library_has_features() {
        features(&crate::root()).unwrap();
    }
}
