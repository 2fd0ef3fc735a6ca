//! The names of marks and spans, and the places where tasks with a name were spawned. A record has
//! room for a number, so each of them has one, in the whole process.
//!
//! A thread remembers the numbers that it used lately, by the address of the name or the place. So
//! most marks ask for no lock here.

use std::{cell::Cell, collections::BTreeMap, panic::Location, ptr, sync::RwLock};

struct Numbers<T> {
    /// That of number 1 is the first.
    all: Vec<T>,
    numbers: BTreeMap<T, u16>,
}

static NAMES: RwLock<Numbers<&'static str>> = RwLock::new(Numbers::new());
static PLACES: RwLock<Numbers<&'static Location<'static>>> = RwLock::new(Numbers::new());

/// Names that a thread remembers. Guessed: more than a loop over requests has.
const REMEMBERED: usize = 32;

thread_local! {
    /// Address and length of a name, and its number. A place has the length [`PLACE`].
    static LAST: [Cell<(usize, usize, u16)>; REMEMBERED] =
        const { [const { Cell::new((0, 0, 0)) }; REMEMBERED] };
}

/// No name is as long.
const PLACE: usize = usize::MAX;

/// The number of a name; 0 if there are too many names.
pub(crate) fn number(name: &'static str) -> u64 {
    remembered(name.as_ptr().addr(), name.len(), || enter(&NAMES, name))
}

/// The number of a place; 0 if there are too many.
pub(super) fn place_number(place: &'static Location<'static>) -> u64 {
    remembered(ptr::from_ref(place).addr(), PLACE, || enter(&PLACES, place))
}

fn remembered(address: usize, length: usize, enter: impl FnOnce() -> u16) -> u64 {
    let number = LAST.with(|last| {
        let place = &last[(address ^ address >> 5 ^ length) % REMEMBERED];
        match place.get() {
            (same, also, number) if (same, also) == (address, length) => number,
            _ => {
                let number = enter();
                place.set((address, length, number));
                number
            }
        }
    });
    u64::from(number)
}

#[cold]
fn enter<T: Copy + Ord>(known: &RwLock<Numbers<T>>, new: T) -> u16 {
    // Nothing under the lock panics half-way.
    let mut known = known.write().unwrap_or_else(|error| error.into_inner());
    if let Some(&number) = known.numbers.get(&new) {
        return number;
    }
    let Ok(number) = u16::try_from(known.all.len() + 1) else {
        return 0;
    };
    known.all.push(new);
    known.numbers.insert(new, number);
    number
}

/// The name of a number.
pub(super) fn name(number: u64) -> Option<&'static str> {
    of_number(&NAMES, number)
}

/// The place of a number.
pub(super) fn place(number: u64) -> Option<&'static Location<'static>> {
    of_number(&PLACES, number)
}

fn of_number<T: Copy>(known: &RwLock<Numbers<T>>, number: u64) -> Option<T> {
    let known = known.read().unwrap_or_else(|error| error.into_inner());
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    known.all.get(at).copied()
}

impl<T> Numbers<T> {
    const fn new() -> Self {
        Self {
            all: Vec::new(),
            numbers: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_wherever_it_is_written() {
        let text = String::from("a name in two places").leak();
        let numbers = [number("a name in two places"), number(text)];
        assert_eq!(numbers[0], numbers[1]);
        assert_eq!(name(numbers[0]), Some("a name in two places"));
        assert_ne!(number("a name in one"), numbers[0]);
        // Another thread remembers nothing.
        let elsewhere = std::thread::spawn(|| number("a name in two places"));
        assert_eq!(elsewhere.join().unwrap(), numbers[0]);
        assert_eq!(name(0), None);
        assert_eq!(name(u64::MAX), None);
    }

    #[test]
    fn a_place_has_a_number() {
        let (one, other) = (Location::caller(), Location::caller());
        assert_eq!(place_number(one), place_number(one));
        assert_ne!(place_number(one), place_number(other));
        assert_eq!(place(place_number(one)), Some(one));
        assert_eq!(place(place_number(other)), Some(other));
        assert_eq!(place(0), None);
    }

    /// The places of the cache are fewer than the names.
    #[test]
    fn more_names_than_are_remembered_keep_their_numbers() {
        let names: Vec<&'static str> = (0..4 * REMEMBERED)
            .map(|n| &*format!("one of many names: {n}").leak())
            .collect();
        for _ in 0..2 {
            for of_many in &names {
                assert_eq!(name(number(of_many)), Some(*of_many));
            }
        }
    }
}
