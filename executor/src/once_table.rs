//! A table of values that are made once, each when it is needed, and stay.
//!
//! A runtime may have some 1,000 Ps, and a recorder's ring 500 pieces of memory, and mostly it has
//! two of them. So only the first places are there from the begin. The others come in segments,
//! when a value goes into one of them: as many places as there are before it. No value ever moves,
//! so a reader takes no lock.

use std::sync::OnceLock;

/// The places that are there from the begin.
const FIRST: usize = 8;

/// Places that come together.
type Segment<T> = Box<[OnceLock<T>]>;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct OnceTable<T> {
    first: [OnceLock<T>; FIRST],
    rest: Box<[OnceLock<Segment<T>>]>,
}

/// In which segment a place is that is not one of the first, and where in it.
fn place(index: usize) -> (usize, usize) {
    let segment = (index / FIRST).ilog2();
    (segment as usize, index - (FIRST << segment))
}

impl<T> OnceTable<T> {
    /// A table with room for so many values, or some more.
    pub(crate) fn new(most: usize) -> Self {
        let rest = match most {
            0..=FIRST => 0,
            most => place(most - 1).0 + 1,
        };
        Self {
            first: [const { OnceLock::new() }; FIRST],
            rest: (0..rest).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The value in a place, if there are the place and the value.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        if let Some(place) = self.first.get(index) {
            return place.get();
        }
        let (segment, at) = place(index);
        self.rest.get(segment)?.get()?[at].get()
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
        let (segment, at) = place(index);
        let places = self.rest[segment].get_or_init(|| {
            let places = FIRST << segment;
            (0..places).map(|_| OnceLock::new()).collect()
        });
        places[at].get_or_init(make)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_stays_in_its_place() {
        for most in [0, 1, 8, 9, 16, 17, 100] {
            let table = OnceTable::new(most);
            for index in (0..most).rev() {
                assert_eq!(table.get(index), None);
                assert_eq!(*table.get_or_init(index, || index), index);
                assert_eq!(*table.get_or_init(index, || unreachable!()), index);
            }
            assert!((0..most).all(|index| table.get(index) == Some(&index)));
            assert_eq!(table.get(most.next_power_of_two().max(FIRST)), None);
        }
    }

    /// Fails if the list has a place for each value from the begin.
    #[test]
    fn places_come_when_they_are_needed() {
        let table = OnceTable::<u64>::new(1024);
        assert_eq!(table.rest.len(), 7);
        table.get_or_init(100, || 1);
        let there = table.rest.iter().filter_map(OnceLock::get);
        assert_eq!(there.map(|places| places.len()).collect::<Vec<_>>(), [64]);
    }
}
