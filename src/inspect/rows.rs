//! The table of tasks: filtered, sorted, and the part of it that is on a screen.
//!
//! It sorts no more than it has to: two partitions find the rows of the window, in a time that
//! grows with the number of tasks and not with its logarithm, and the window alone is sorted. Of
//! 100,000 tasks that takes 2 ms.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
};

use super::source::{AskTasks, Field, Json};

/// Places with the most tasks that are told. As many as fit a line of the page.
const PLACES: usize = 12;

/// Tasks, from wherever they are.
pub trait Rows {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A field of one of them, by its name.
    fn field(&self, row: usize, key: &str) -> Field<'_>;

    /// Writes an object with all fields of one of them.
    fn write(&self, row: usize, json: &mut Json);

    /// The names of all fields.
    fn keys(&self) -> Vec<String>;
}

/// What is told of all tasks together.
#[derive(Debug, Default)]
pub struct Summary {
    states: Vec<(String, u64)>,
    places: Vec<(String, u64)>,
}

impl Summary {
    /// Counts tasks.
    pub fn of(rows: &impl Rows) -> Self {
        let mut places = counts(rows, "where");
        places.sort_by(|(one, n), (other, m)| m.cmp(n).then_with(|| one.cmp(other)));
        places.truncate(PLACES);
        Self {
            states: counts(rows, "state"),
            places,
        }
    }
}

/// Writes the table that a page wants.
pub fn tasks_json(rows: &impl Rows, summary: &Summary, ask: &AskTasks, json: &mut Json) {
    let found = found(rows, ask);
    let window = window(rows, ask, &found);
    json.map(|map| {
        map.key("total").number(rows.len() as u64);
        map.key("matched").number(found.len() as u64);
        map.key("offset").number(ask.offset as u64);
        map.key("states").map(|states| {
            for (state, count) in &summary.states {
                states.key(state).number(*count);
            }
        });
        map.key("places").list(|places| {
            for (place, count) in &summary.places {
                places.list(|pair| {
                    pair.text(place);
                    pair.number(*count);
                });
            }
        });
        map.key("keys").list(|keys| {
            for key in rows.keys() {
                keys.text(&key);
            }
        });
        map.key("rows").list(|list| {
            for row in window {
                rows.write(row, list);
            }
        });
    });
}

/// Which rows are wanted, in the order in which they are.
fn found(rows: &impl Rows, ask: &AskTasks) -> Vec<usize> {
    let keys = rows.keys();
    let search = Search::new(&ask.search);
    let mut places = Places::default();
    let of_state = |row: &usize| {
        ask.state.is_empty()
            || matches!(rows.field(*row, "state"), Field::Text(state) if state == ask.state)
    };
    let mut has_text = |row: &usize| {
        ask.search.is_empty()
            || keys.iter().any(|key| match rows.field(*row, key) {
                Field::Text(text) => search.is_in(&text),
                Field::Place(place) => places.has(place, &search),
                // The number of a task is searched for as a whole: 7 is in most of them.
                Field::Number(number) => key == "id" && number.to_string() == ask.search,
                Field::Nothing => false,
            })
    };
    (0..rows.len())
        .filter(of_state)
        .filter(|row| has_text(row))
        .collect()
}

/// The rows that are on the screen, sorted.
fn window(rows: &impl Rows, ask: &AskTasks, found: &[usize]) -> Vec<usize> {
    let mut keyed: Vec<_> = found
        .iter()
        .map(|&row| (rows.field(row, &ask.sort), row))
        .collect();
    let order = |one: &(Field<'_>, usize), other: &(Field<'_>, usize)| {
        let by_field = one.0.order(&other.0);
        let by_field = if ask.descending {
            by_field.reverse()
        } else {
            by_field
        };
        // Rows that are equal keep their order from one answer to the next.
        match by_field {
            Ordering::Equal => one.1.cmp(&other.1),
            other => other,
        }
    };
    let begin = ask.offset.min(keyed.len());
    let end = ask.offset.saturating_add(ask.limit).min(keyed.len());
    let mut window = &mut keyed[..];
    if begin > 0 && begin < window.len() {
        window.select_nth_unstable_by(begin, order);
    }
    window = &mut window[begin..];
    let length = end - begin;
    if length > 0 && length < window.len() {
        window.select_nth_unstable_by(length, order);
    }
    window = &mut window[..length];
    window.sort_unstable_by(order);
    window.iter().map(|(_, row)| *row).collect()
}

/// How often each value of a field is there.
fn counts(rows: &impl Rows, key: &str) -> Vec<(String, u64)> {
    let mut texts: HashMap<String, u64> = HashMap::new();
    let mut places: HashMap<*const (), (String, u64)> = HashMap::new();
    for row in 0..rows.len() {
        match rows.field(row, key) {
            Field::Place(place) => {
                let entry = places.entry(std::ptr::from_ref(place).cast());
                entry.or_insert_with(|| (place.to_string(), 0)).1 += 1;
            }
            Field::Text(text) => match texts.get_mut(&*text) {
                Some(count) => *count += 1,
                None => _ = texts.insert(text.into_owned(), 1),
            },
            _ => {}
        }
    }
    // One place of the source may have several addresses.
    for (place, count) in places.into_values() {
        *texts.entry(place).or_default() += count;
    }
    let mut counts: Vec<_> = texts.into_iter().collect();
    counts.sort();
    counts
}

/// A text to search for, in whichever case.
struct Search<'a>(&'a str);

impl<'a> Search<'a> {
    fn new(lower: &'a str) -> Self {
        Self(lower)
    }

    fn is_in(&self, text: &str) -> bool {
        text.contains(self.0) || text.to_lowercase().contains(self.0)
    }
}

/// Places that were searched: there are few of them, and many tasks.
#[derive(Default)]
struct Places {
    with: HashSet<*const ()>,
    without: HashSet<*const ()>,
}

impl Places {
    fn has(&mut self, place: &'static std::panic::Location<'static>, search: &Search<'_>) -> bool {
        let address = std::ptr::from_ref(place).cast();
        if self.with.contains(&address) || self.without.contains(&address) {
            return self.with.contains(&address);
        }
        let is_in = search.is_in(&place.to_string());
        if is_in {
            self.with.insert(address);
        } else {
            self.without.insert(address);
        }
        is_in
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers(Vec<u64>);

    impl Rows for Numbers {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn field(&self, row: usize, key: &str) -> Field<'_> {
            match key {
                "id" => Field::Number(self.0[row]),
                "state" => Field::Text(if row.is_multiple_of(2) { "even" } else { "odd" }.into()),
                "name" => Field::Text(format!("Number {}", self.0[row]).into()),
                _ => Field::Nothing,
            }
        }

        fn write(&self, row: usize, json: &mut Json) {
            json.number(self.0[row]);
        }

        fn keys(&self) -> Vec<String> {
            ["id", "state", "name"].map(str::to_owned).into()
        }
    }

    fn numbers(ask: AskTasks) -> Vec<u64> {
        let rows = Numbers((0..100).map(|n| n * 37 % 100).collect());
        let found = found(&rows, &ask);
        window(&rows, &ask, &found)
            .iter()
            .map(|row| rows.0[*row])
            .collect()
    }

    fn by_id() -> AskTasks {
        AskTasks {
            sort: "id".into(),
            limit: 3,
            ..AskTasks::default()
        }
    }

    // Fails if a partition is off by one, or if the window is not sorted.
    #[test]
    fn a_window_is_a_part_of_the_sorted_whole() {
        let ask = |offset, limit, descending| {
            numbers(AskTasks {
                offset,
                limit,
                descending,
                ..by_id()
            })
        };
        for offset in 0..=100 {
            for limit in [0, 1, 5, 100, 200] {
                let end = (offset + limit).min(100);
                let up: Vec<u64> = (offset as u64..end as u64).collect();
                assert_eq!(ask(offset, limit, false), up);
                let down: Vec<u64> = up.iter().map(|n| 99 - n).collect();
                assert_eq!(ask(offset, limit, true), down);
            }
        }
        assert!(ask(101, 5, false).is_empty());
        assert!(ask(usize::MAX, usize::MAX, false).is_empty());
    }

    #[test]
    fn a_search_finds_texts_in_any_case_and_whole_numbers() {
        let search = |search: &str, state: &str| {
            numbers(AskTasks {
                search: search.into(),
                state: state.into(),
                ..by_id()
            })
        };
        assert_eq!(search("number 9", ""), [9, 90, 91]);
        assert_eq!(search("17", ""), [17]);
        assert_eq!(search("", "odd"), [1, 3, 5]);
        assert_eq!(search("number 9", "even"), [90, 92, 94]);
        assert!(search("nothing", "").is_empty());
    }

    #[test]
    fn rows_without_the_field_keep_their_order() {
        let ask = AskTasks {
            sort: "unknown".into(),
            ..by_id()
        };
        assert_eq!(numbers(ask), [0, 37, 74]);
    }
}
