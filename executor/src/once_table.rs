//! A table of values that are made once, each when it is needed, and stay.
//!
//! A runtime may have some 1,000 Ps, and a recorder's ring 256 pieces of memory, and mostly it has
//! two of them. So only the first places are there from the begin. The rest comes [`AT_ONCE`] at a
//! time, when a value goes into one of them. No value ever moves, so a reader takes no lock.

use std::sync::OnceLock;

/// Places that come together.
const AT_ONCE: usize = 16;

type Places<T> = [OnceLock<T>; AT_ONCE];

/// See the module's head.
#[derive(Debug)]
pub(crate) struct OnceTable<T> {
    first: Places<T>,
    rest: Box<[OnceLock<Box<Places<T>>>]>,
}

impl<T> OnceTable<T> {
    /// A table with room for so many values, or some more.
    pub(crate) fn new(most: usize) -> Self {
        let rest = most.div_ceil(AT_ONCE).saturating_sub(1);
        Self {
            first: [const { OnceLock::new() }; AT_ONCE],
            rest: (0..rest).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The value in a place, if there are the place and the value.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        if let Some(place) = self.first.get(index) {
            return place.get();
        }
        self.rest.get(index / AT_ONCE - 1)?.get()?[index % AT_ONCE].get()
    }

    /// The value in a place, which is made if it is not there.
    ///
    /// # Panics
    ///
    /// If the table has no such place.
    #[inline]
    pub(crate) fn get_or_init(&self, index: usize, make: impl FnOnce() -> T) -> &T {
        if let Some(place) = self.first.get(index) {
            return place.get_or_init(make);
        }
        let places = self.rest[index / AT_ONCE - 1]
            .get_or_init(|| Box::new([const { OnceLock::new() }; AT_ONCE]));
        places[index % AT_ONCE].get_or_init(make)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_stays_in_its_place() {
        for most in [0, 1, 16, 17, 100] {
            let table = OnceTable::new(most);
            for index in (0..most).rev() {
                assert_eq!(table.get(index), None);
                assert_eq!(*table.get_or_init(index, || index), index);
                assert_eq!(*table.get_or_init(index, || unreachable!()), index);
            }
            assert!((0..most).all(|index| table.get(index) == Some(&index)));
            assert_eq!(table.get(most.next_multiple_of(AT_ONCE).max(AT_ONCE)), None);
        }
    }

    /// Fails if the list has a place for each value from the begin.
    #[test]
    fn places_come_when_they_are_needed() {
        let table = OnceTable::<u64>::new(1024);
        assert_eq!(table.rest.len(), 63);
        table.get_or_init(100, || 1);
        let there = table.rest.iter().filter(|places| places.get().is_some());
        assert_eq!(there.count(), 1);
    }
}
