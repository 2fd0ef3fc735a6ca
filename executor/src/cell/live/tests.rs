//! The live table against a map: under random operations, and under real threads.
//!
//! `WS_TEST_SCALE` scales the work of the latter, in percent.
#![expect(unsafe_code, reason = "a test brings references of its own")]

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::scale::scaled;

/// A reference to a number, whose count shows which side has released it.
#[derive(Clone)]
struct Ref(Arc<u64>);

// SAFETY: the pointer is that of the `Arc`.
unsafe impl Item for Ref {
    fn into_raw(self) -> NonNull<()> {
        NonNull::new(Arc::into_raw(self.0).cast_mut())
            .expect("an `Arc` is not null")
            .cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: by contract it comes from `into_raw`, once.
        Self(unsafe { Arc::from_raw(raw.cast().as_ptr()) })
    }
}

// SAFETY: the count is that of the `Arc`, and a `u64` is aligned to eight.
unsafe impl Reference for Ref {
    unsafe fn another(raw: NonNull<()>) -> Self {
        if let Some(act) = UNDER_CLAIM.take() {
            act();
        }
        let raw = raw.cast::<u64>().as_ptr();
        // SAFETY: by contract the `Arc` is there; the count is the new value's.
        unsafe {
            Arc::increment_strong_count(raw);
            Self(Arc::from_raw(raw))
        }
    }
}

thread_local! {
    /// What this thread does when it is the next time in the middle of a look.
    static UNDER_CLAIM: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

fn dump(table: &LiveTable<Ref>) -> Vec<u64> {
    let mut seen = vec![];
    table.for_each(|reference| seen.push(*reference.0));
    seen
}

#[derive(Debug, Clone)]
enum Step {
    Insert(usize),
    RemoveHere(prop::sample::Index),
    RemoveElsewhere(prop::sample::Index),
    Dump,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => Just(Step::Insert(1)),
        1 => (0..100_usize).prop_map(Step::Insert),
        4 => any::<prop::sample::Index>().prop_map(Step::RemoveHere),
        4 => any::<prop::sample::Index>().prop_map(Step::RemoveElsewhere),
        1 => Just(Step::Dump),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn table_is_a_map(steps in steps()) {
        let (table, owner) = live_table();
        let mut model = BTreeMap::new();
        let mut most = 0;
        let mut next = 0;
        for step in steps {
            match step {
                Step::Insert(count) => for _ in 0..count {
                    let cell = Ref(Arc::new(next));
                    next += 1;
                    let index = owner.insert(cell.clone());
                    prop_assert!(model.insert(index, cell).is_none(), "in use: {}", index);
                    most = most.max(model.len());
                    prop_assert!((index as usize) < most, "a free slot is used before a fresh one");
                },
                Step::RemoveHere(which) | Step::RemoveElsewhere(which) if !model.is_empty() => {
                    let index = *which.get(&model.keys().copied().collect::<Vec<_>>());
                    let cell = model.remove(&index).expect("just seen");
                    let removed = match step {
                        Step::RemoveHere(_) => owner.remove(index),
                        _ => table.remove(index),
                    };
                    match removed {
                        Removed::ReleaseReference(reference) => {
                            prop_assert!(Arc::ptr_eq(&reference.0, &cell.0));
                        }
                        Removed::ReaderReleases => prop_assert!(false, "nobody reads"),
                    }
                    prop_assert_eq!(Arc::strong_count(&cell.0), 1);
                }
                Step::RemoveHere(_) | Step::RemoveElsewhere(_) => {}
                Step::Dump => {
                    let expected: Vec<_> = model.values().map(|cell| *cell.0).collect();
                    prop_assert_eq!(dump(&table), expected);
                }
            }
            prop_assert_eq!(table.len(), model.len());
        }
        drop((table, owner));
        for cell in model.values() {
            prop_assert_eq!(Arc::strong_count(&cell.0), 1, "released with the table");
        }
    }
}

#[test]
fn slots_are_told_apart() {
    // The first of each segment, the last of each, and the very last.
    let mut first = 0;
    for segment in 0..SEGMENTS {
        assert_eq!(locate(first), (segment, 0));
        let len = segment_len(segment) as u32;
        assert_eq!(locate(first + (len - 1)), (segment, len as usize - 1));
        first = first.wrapping_add(len);
    }
    assert_eq!(
        first,
        0_u32.wrapping_sub(BASE),
        "all but one segment's worth of 2^32"
    );
    assert_eq!(next_free(link_to(u32::MAX)), u32::MAX);
    assert!(!is_live(link_to(0)) && !is_live(ptr::null_mut()));
}

#[test]
fn an_index_shows_its_task_as_long_as_it_lives() {
    let (table, owner) = live_table();
    assert!(table.get(0).is_none(), "there is no slot yet");
    let indices: Vec<_> = (0..3).map(|n| owner.insert(Ref(Arc::new(n)))).collect();
    let get = |index| table.get(index).map(|reference: Ref| *reference.0);
    for (number, &index) in indices.iter().enumerate() {
        assert_eq!(get(index), Some(number as u64));
    }
    assert_eq!(get(3), None);
    for index in indices {
        drop(table.remove(index));
        assert_eq!(get(index), None);
    }
}

/// A thread that removes a task does not wait while the task is being looked at. It leaves the
/// table's reference to the reader.
#[test]
fn a_reader_releases_what_is_removed_under_its_claim() {
    let (table, owner) = live_table();
    let cell = Ref(Arc::new(7));
    let index = owner.insert(cell.clone());
    let remover = table.clone();
    UNDER_CLAIM.set(Some(Box::new(move || {
        assert!(matches!(remover.remove(index), Removed::ReaderReleases));
    })));
    let seen = table.get(index).expect("it was there when the look began");
    assert_eq!((*seen.0, Arc::strong_count(&cell.0)), (7, 2));
    drop(seen);
    assert_eq!(Arc::strong_count(&cell.0), 1);
    assert_eq!((table.len(), table.get(index).is_none()), (0, true));
}

/// One thread spawns, it and another one end what it spawned, and two readers look.
#[test]
fn readers_and_removers_release_each_reference_once() {
    let count = scaled(20_000) as u64;
    let (table, owner) = live_table();
    let (to_remover, entered) = mpsc::channel::<(u32, Ref)>();
    let is_over = Arc::new(AtomicBool::new(false));
    let remover = {
        let table = table.clone();
        thread::spawn(move || {
            let mut cells = vec![];
            for (index, cell) in entered {
                drop(table.remove(index));
                cells.push(cell);
            }
            cells
        })
    };
    let readers = [(); 2].map(|()| {
        let (table, is_over) = (table.clone(), is_over.clone());
        thread::spawn(move || {
            let mut looks = 0;
            while !is_over.load(Relaxed) {
                let mut seen = dump(&table);
                looks += seen.len();
                seen.sort_unstable();
                seen.dedup();
                assert!(seen.iter().all(|number| *number < count));
            }
            looks
        })
    });
    let mut cells = vec![];
    for number in 0..count {
        let cell = Ref(Arc::new(number));
        let index = owner.insert(cell.clone());
        if number % 3 == 0 {
            drop(owner.remove(index));
            cells.push(cell);
        } else {
            to_remover
                .send((index, cell))
                .expect("the remover waits for all");
        }
    }
    drop(to_remover);
    cells.extend(remover.join().expect("the remover does not panic"));
    is_over.store(true, Relaxed);
    for reader in readers {
        reader.join().expect("a reader does not panic");
    }
    assert_eq!(cells.len() as u64, count);
    assert_eq!(table.len(), 0);
    assert!(cells.iter().all(|cell| Arc::strong_count(&cell.0) == 1));
}

/// From the other end, and all of it: also what came behind the first one's back. After one that
/// was left by a panic it is the first again.
#[test]
fn two_sweeps_come_from_both_ends() {
    let (table, owner) = live_table();
    let number = |number| Ref(Arc::new(number));
    let indices: Vec<_> = (0..3).map(|n| owner.insert(number(n))).collect();
    let left = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        table.sweep(|_| std::panic::resume_unwind(Box::new(())));
    }));
    left.unwrap_err();
    let (mut first, mut second) = (vec![], vec![]);
    table.sweep(|reference| {
        first.push(*reference.0);
        if *reference.0 == 2 {
            drop(owner.remove(indices[0]));
            assert_eq!(owner.insert(number(3)), indices[0]);
            table.sweep(|reference| second.push(*reference.0));
        }
    });
    assert_eq!((first, second), (vec![0, 1, 2], vec![2, 1, 3]));
    for index in indices {
        drop(owner.remove(index));
    }
}
