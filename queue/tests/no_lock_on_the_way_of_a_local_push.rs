//! I9: no mutex is taken on the way of a local push, a local pop or a steal.
//!
//! It fails when one of the files that they are made of names a lock, or calls into one that does.
//! (That they get on while others are stopped in the middle is what the models of the queues show.)

/// The ring, `runnext`, and the slots of both.
const FILES: [(&str, &str); 3] = [
    ("local.rs", include_str!("../src/local.rs")),
    ("runnext.rs", include_str!("../src/runnext.rs")),
    ("slot.rs", include_str!("../src/slot.rs")),
];

/// What these files may use of the crate.
const ALLOWED: [&str; 7] = [
    "super::slot::Slot;",
    "super::local::CAPACITY;",
    "super::{",
    "crate::sync::Arc;",
    "crate::sync::{Arc, MODELLED};",
    "crate::sync::Witness;",
    "crate::sync::atomic::",
];

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with("//"))
}

#[test]
fn they_name_none() {
    for (file, text) in FILES {
        assert!(code(text).count() > 20, "{file}");
        for line in code(text) {
            for lock in ["Mutex", "RwLock", "Condvar", ".lock()", "OnceLock", "park("] {
                assert!(!line.contains(lock), "{file}: {line}");
            }
        }
    }
}

#[test]
fn they_call_nobody_who_might() {
    for (file, text) in FILES {
        for line in code(text).filter_map(|line| line.strip_prefix("use ")) {
            let own =
                line.starts_with("std::") || ALLOWED.iter().any(|path| line.starts_with(path));
            assert!(own, "{file}: {line}");
        }
    }
}
