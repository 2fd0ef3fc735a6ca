//! A copy of the workspace that a mutant may change.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use crate::Failure;

/// What is no part of the source.
fn is_left_out(name: &std::ffi::OsStr) -> bool {
    name == ".git" || name.to_string_lossy().starts_with("target")
}

/// Makes `to` equal to `from`. A file that is equal already is not touched, so that cargo does not
/// build anew what has not changed.
pub(crate) fn mirror(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(at(to))?;
    let mut wanted = BTreeSet::<OsString>::new();
    for entry in entries(from)? {
        let name = entry.file_name();
        if is_left_out(&name) {
            continue;
        }
        let (source, copy) = (entry.path(), to.join(&name));
        if entry.file_type().map_err(at(&source))?.is_dir() {
            mirror(&source, &copy)?;
        } else {
            copy_if_different(&source, &copy)?;
        }
        wanted.insert(name);
    }
    for entry in entries(to)? {
        if !wanted.contains(&entry.file_name()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn copy_if_different(from: &Path, to: &Path) -> Result<(), Failure> {
    let content = fs::read(from).map_err(at(from))?;
    let is_equal = fs::read(to).is_ok_and(|there| there == content);
    if is_equal {
        return Ok(());
    }
    fs::write(to, content).map_err(at(to))
}

fn remove(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        fs::remove_dir_all(path).map_err(at(path))
    } else {
        fs::remove_file(path).map_err(at(path))
    }
}

/// What is in a folder, in the order of the names.
pub(crate) fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, Failure> {
    let mut entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(at(folder))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

/// Says which file an error is about.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Failure + use<> {
    let path: PathBuf = path.to_path_buf();
    move |error| format!("{}: {error}", path.display())
}
