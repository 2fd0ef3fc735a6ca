//! A map that forgets.

use std::{hash::Hash, mem};

use super::super::map::Map;

/// A map of the newest entries. It has some [`KEPT`] of them at least, and at most twice as
/// many.
///
/// New entries go into `young`. If that is full, it becomes `old`, and what was old is forgotten.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    young: Map<K, V>,
    old: Map<K, V>,
}

/// Guessed: more tasks than wait in the queues of a busy program. Some megabytes.
pub(super) const KEPT: usize = 1 << 16;

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            young: Map::default(),
            old: Map::default(),
        }
    }
}

impl<K, V> Recent<K, V> {
    /// All entries, in any order.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (K, V)> {
        self.young.into_iter().chain(self.old)
    }
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    /// Enters a value as the newest. A former one of the key is replaced.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() == KEPT {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    /// A value, if it is there.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Takes a value out, if it is there.
    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let young = self.young.remove(key);
        young.or_else(|| self.old.remove(key))
    }

    /// Makes an entry as new as one that was just inserted. Whether it is there.
    pub(super) fn renew(&mut self, key: &K) -> bool {
        if self.young.contains_key(key) {
            return true;
        }
        match self.old.remove(key) {
            Some(value) => {
                self.insert(key.clone(), value);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails if one of the newest is forgotten, or if no entry ever is.
    #[test]
    fn the_newest_are_kept() {
        let mut recent = Recent::default();
        let many = 5 * KEPT;
        for n in 0..many {
            recent.insert(n, n);
            assert!(recent.renew(&0), "it was renewed all the time");
            assert!(recent.young.len() + recent.old.len() <= 2 * KEPT);
        }
        for n in many - KEPT + 1..many {
            assert_eq!(recent.remove(&n), Some(n));
            assert_eq!(recent.remove(&n), None);
        }
        assert!(!recent.renew(&(many / 2)));
    }

    #[test]
    fn a_key_has_one_value() {
        let mut recent = Recent::default();
        (0..KEPT).for_each(|n| recent.insert(n, 0));
        recent.insert(1, 1);
        recent.insert(1, 2);
        assert_eq!(recent.get(&1), Some(&2));
        assert_eq!((recent.remove(&1), recent.remove(&1)), (Some(2), None));
    }
}
