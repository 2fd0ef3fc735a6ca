//! A hash map with the same keys in each run.
//!
//! `HashMap::new` counts the keys of its thread up by one. A simulated program runs on the thread
//! that records it, so with such maps a recorded run would have other hash maps than one that is
//! not recorded. The keys here are numbers and names of tasks, which no stranger chooses.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, DefaultHasher},
};

/// See the module's head. `default` makes one.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
