//! Random programs of file calls.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, MetadataExt, symlink},
    path::Path,
};

use proptest::prelude::*;

use super::{both, trace::Trace};

/// A call of a random program. Paths are of few names, so that they meet.
#[derive(Clone, Debug)]
enum Call {
    Open(String, bool, bool, bool),
    Close(usize),
    Write(usize, u16, u8, u16),
    Read(usize, u16, u16),
    SetLen(usize, u16),
    Sync(usize),
    MakeFolder(String),
    RemoveFolder(String),
    Unlink(String),
    Rename(String, String),
    Link(String, String),
    Symlink(String, String),
    Look(String),
    List(String),
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c", ".", ".."]);
    prop::collection::vec(name, 1..4).prop_map(|parts| {
        // A name first, and no way out of the folder of the test.
        let path = parts.join("/");
        if path.starts_with('.') || path.contains("/../..") {
            "a".to_owned()
        } else {
            path
        }
    })
}

/// What a link leads to: something below the folder that the link is in. So a path through links
/// that has one `..` stays in the folder of the test.
fn target() -> impl Strategy<Value = String> {
    let first = prop::sample::select(vec!["a", "b", "c"]);
    let name = prop::sample::select(vec!["a", "b", "c", "."]);
    (first, prop::collection::vec(name, 0..3))
        .prop_map(|(first, rest)| [vec![first], rest].concat().join("/"))
}

fn call() -> impl Strategy<Value = Call> {
    let file = 0_usize..4;
    prop_oneof![
        4 => (path(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(path, write, create, cut)| Call::Open(path, write, create, cut)),
        1 => file.clone().prop_map(Call::Close),
        3 => (file.clone(), 0_u16..20_000, any::<u8>(), 0_u16..9_000)
            .prop_map(|(file, at, byte, len)| Call::Write(file, at, byte, len)),
        2 => (file.clone(), 0_u16..20_000, 0_u16..9_000)
            .prop_map(|(file, at, len)| Call::Read(file, at, len)),
        1 => (file.clone(), 0_u16..20_000).prop_map(|(file, len)| Call::SetLen(file, len)),
        1 => file.prop_map(Call::Sync),
        3 => path().prop_map(Call::MakeFolder),
        1 => path().prop_map(Call::RemoveFolder),
        2 => path().prop_map(Call::Unlink),
        3 => (path(), path()).prop_map(|(a, b)| Call::Rename(a, b)),
        1 => (path(), path()).prop_map(|(a, b)| Call::Link(a, b)),
        1 => (target(), path()).prop_map(|(a, b)| Call::Symlink(a, b)),
        2 => path().prop_map(Call::Look),
        1 => path().prop_map(Call::List),
    ]
}

fn run(calls: &[Call], at: &Path, t: &mut Trace) {
    let mut files: [Option<File>; 4] = Default::default();
    for (number, call) in calls.iter().enumerate() {
        let what = format!("{number} {call:?}");
        match call {
            Call::Open(path, write, create, cut) => {
                let mut options = OpenOptions::new();
                options.read(true).write(*write);
                if *write {
                    options.create(*create).truncate(*cut);
                }
                files[number % 4] = t.done(&what, options.open(at.join(path)));
            }
            Call::Close(file) => files[*file] = None,
            Call::Write(file, place, byte, len) => {
                let bytes = vec![*byte; (*len).into()];
                if let Some(file) = &files[*file] {
                    t.say(&what, file.write_at(&bytes, (*place).into()));
                }
            }
            Call::Read(file, place, len) => {
                let mut bytes = vec![0; (*len).into()];
                if let Some(file) = &files[*file] {
                    t.say(&what, file.read_at(&mut bytes, (*place).into()));
                    t.note(
                        "sum",
                        bytes
                            .iter()
                            .fold(0_u64, |sum, b| sum * 31 % 65_521 + u64::from(*b)),
                    );
                }
            }
            Call::SetLen(file, len) => {
                if let Some(file) = &files[*file] {
                    t.done(&what, file.set_len((*len).into()));
                }
            }
            Call::Sync(file) => {
                if let Some(file) = &files[*file] {
                    t.done(&what, file.sync_data());
                }
            }
            Call::MakeFolder(path) => drop(t.done(&what, fs::create_dir(at.join(path)))),
            Call::RemoveFolder(path) => drop(t.done(&what, fs::remove_dir(at.join(path)))),
            Call::Unlink(path) => drop(t.done(&what, fs::remove_file(at.join(path)))),
            Call::Rename(a, b) => drop(t.done(&what, fs::rename(at.join(a), at.join(b)))),
            Call::Link(a, b) => drop(t.done(&what, fs::hard_link(at.join(a), at.join(b)))),
            Call::Symlink(a, b) => drop(t.done(&what, symlink(a, at.join(b)))),
            Call::Look(path) => {
                let about = fs::symlink_metadata(at.join(path));
                // The length of a folder is the file system's matter.
                let len = |a: &fs::Metadata| if a.is_dir() { 0 } else { a.len() };
                let about = about.map(|a| (a.file_type(), a.nlink(), len(&a)));
                let about =
                    about.map(|(kind, links, len)| (kind.is_dir(), kind.is_symlink(), links, len));
                t.say(&what, about);
            }
            Call::List(path) => {
                let names = fs::read_dir(at.join(path)).map(|entries| {
                    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
                    names.sort();
                    names
                });
                t.say(&what, names);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(300)
    })]

    #[test]
    fn random_programs_see_the_same(calls in prop::collection::vec(call(), 1..60)) {
        let (real, simulated) = both(move |at, t| run(&calls, at, t));
        prop_assert_eq!(simulated, real);
    }
}
