//! The names of marks and spans. A record has room for a number, so each name has one, in the whole
//! process.
//!
//! A thread remembers the numbers of names that it used lately, by their address. So most marks ask
//! for no lock here.

use std::{cell::Cell, collections::BTreeMap, sync::RwLock};

#[derive(Default)]
struct Names {
    /// The name of number 1 is the first.
    all: Vec<&'static str>,
    numbers: BTreeMap<&'static str, u16>,
}

static NAMES: RwLock<Names> = RwLock::new(Names {
    all: Vec::new(),
    numbers: BTreeMap::new(),
});

/// Names that a thread remembers. Guessed: more than a loop over requests has.
const REMEMBERED: usize = 32;

thread_local! {
    /// Address and length of a name, and its number.
    static LAST: [Cell<(usize, usize, u16)>; REMEMBERED] =
        const { [const { Cell::new((0, 0, 0)) }; REMEMBERED] };
}

/// The number of a name; 0 if there are too many names.
pub(crate) fn number(name: &'static str) -> u64 {
    let (address, length) = (name.as_ptr().addr(), name.len());
    let number = LAST.with(|last| {
        let place = &last[(address ^ address >> 5 ^ length) % REMEMBERED];
        match place.get() {
            (same, also, number) if (same, also) == (address, length) => number,
            _ => {
                let number = enter(name);
                place.set((address, length, number));
                number
            }
        }
    });
    u64::from(number)
}

#[cold]
fn enter(name: &'static str) -> u16 {
    // Nothing under the lock panics half-way.
    let mut names = NAMES.write().unwrap_or_else(|error| error.into_inner());
    if let Some(&number) = names.numbers.get(name) {
        return number;
    }
    let Ok(number) = u16::try_from(names.all.len() + 1) else {
        return 0;
    };
    names.all.push(name);
    names.numbers.insert(name, number);
    number
}

/// The name of a number.
pub(super) fn name(number: u64) -> Option<&'static str> {
    let names = NAMES.read().unwrap_or_else(|error| error.into_inner());
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    names.all.get(at).copied()
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
