//! The heap against a sorted map, and each of its invariants after each operation.

use std::collections::BTreeMap;
use std::task::Wake;

use proptest::prelude::*;

use super::*;
use crate::sync::{Arc, Mutex};

impl TimerHeap {
    /// Returns the number of armed timers.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - self.dead
    }
}

/// The ids of the wakers that were woken, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u64>>>);

struct Tagged {
    id: u64,
    log: Log,
}

impl Wake for Tagged {
    fn wake(self: Arc<Self>) {
        self.log.0.lock().push(self.id);
    }
}

impl Log {
    fn waker(&self, id: u64) -> Waker {
        Arc::new(Tagged {
            id,
            log: self.clone(),
        })
        .into()
    }

    /// Wakes them all and tells their ids.
    fn ids(&self, wakers: impl IntoIterator<Item = Waker>) -> Vec<u64> {
        wakers.into_iter().for_each(Waker::wake);
        mem::take(&mut *self.0.lock())
    }
}

impl TimerHeap {
    fn assert_invariants(&self) {
        let mut nodes_of = vec![0; self.slots.capacity()];
        let mut dead = 0;
        for (place, node) in self.nodes.iter().enumerate() {
            nodes_of[node.slot as usize] += 1;
            if place > 0 {
                assert!(
                    self.nodes[(place - 1) / 4].rank() <= node.rank(),
                    "the heap is in order"
                );
            }
            match &self.slots[node.slot as usize] {
                Entry::Armed {
                    deadline, order, ..
                } => {
                    assert!(
                        (node.deadline, node.order) <= (*deadline, *order),
                        "invariant 2"
                    );
                }
                Entry::Dead => dead += 1,
                Entry::Fired => panic!("invariant 1: a fired entry has a node"),
            }
        }
        for (slot, entry) in &self.slots {
            let expected = usize::from(!matches!(entry, Entry::Fired));
            assert_eq!(nodes_of[slot], expected, "invariant 1");
        }
        assert_eq!(self.dead, dead);
        assert!(
            dead <= DEAD_KEPT.max(self.nodes.len() - dead),
            "invariant 3"
        );
    }

    /// Tells whether the top is a timer, and at its deadline; also if there is none.
    fn is_settled(&self) -> bool {
        self.nodes.first().is_none_or(|top| {
            matches!(
                self.slots[top.slot as usize],
                Entry::Armed { deadline, order, .. } if (deadline, order) == (top.deadline, top.order)
            )
        })
    }
}

/// What the heap should be: a sorted map, and where each timer stands in it.
#[derive(Default)]
struct Model {
    heap: TimerHeap,
    log: Log,
    sorted: BTreeMap<(u64, u64), u64>,
    timers: Vec<(Key, Option<(u64, u64)>)>,
    order: u64,
    ids: u64,
}

impl Model {
    fn insert(&mut self, deadline: u64) {
        (self.order, self.ids) = (self.order + 1, self.ids + 1);
        let key = self.heap.insert(deadline, self.log.waker(self.ids));
        self.sorted.insert((deadline, self.order), self.ids);
        self.timers.push((key, Some((deadline, self.order))));
    }

    fn cancel(&mut self, pick: usize) {
        let (key, place) = self.timers.swap_remove(pick);
        assert_eq!(self.heap.is_fired(&key), place.is_none());
        let ids = self.log.ids(self.heap.cancel(key));
        let expected: Vec<u64> = place
            .map(|at| self.sorted.remove(&at).unwrap())
            .into_iter()
            .collect();
        assert_eq!(
            ids, expected,
            "a cancel gives the waker of an armed timer back"
        );
    }

    fn reset(&mut self, pick: usize, deadline: u64) {
        let (key, place) = self.timers.swap_remove(pick);
        let key = self.heap.reset(key, deadline);
        assert_eq!(key.is_some(), place.is_some());
        if let (Some(key), Some(place)) = (key, place) {
            self.order += 1;
            let id = self.sorted.remove(&place).unwrap();
            self.sorted.insert((deadline, self.order), id);
            self.timers.push((key, Some((deadline, self.order))));
        }
    }

    fn change_waker(&mut self, pick: usize) {
        self.ids += 1;
        let waker = self.log.waker(self.ids);
        let (key, place) = &self.timers[pick];
        let look = self.heap.look(key, &waker);
        match (self.heap.update_waker(key, waker.clone()), place) {
            (Update::Registered(old), Some(place)) => {
                assert_eq!(look, Look::OtherWaker);
                assert_eq!(self.heap.look(key, &waker), Look::Registered);
                let id = self.sorted.insert(*place, self.ids).unwrap();
                assert_eq!(self.log.ids([old]), [id]);
            }
            (Update::Fired(unused), None) => {
                assert_eq!(look, Look::Fired);
                assert!(unused.will_wake(&waker));
            }
            (update, place) => panic!("{update:?}, and the model says {place:?}"),
        }
    }

    fn fire(&mut self, now: u64, limit: usize) {
        let mut batch = Vec::new();
        self.heap.fire_due(now, &mut batch, limit);
        assert!(batch.len() <= limit);
        for id in self.log.ids(batch) {
            let (place, expected) = self.sorted.pop_first().expect("it was armed");
            assert_eq!(
                id, expected,
                "the earliest, and of those the first that was armed"
            );
            assert!(place.0 <= now, "never early");
            let timer = self
                .timers
                .iter_mut()
                .find(|timer| timer.1 == Some(place))
                .unwrap();
            timer.1 = None;
        }
        if limit > 10_000 {
            let left = self
                .sorted
                .first_key_value()
                .map_or(NEVER, |(place, _)| place.0);
            assert!(left > now || left == NEVER, "all that was due");
        }
    }

    fn settle(&mut self) {
        self.heap.settle();
        assert!(self.heap.is_settled());
    }

    fn check(&self) {
        self.heap.assert_invariants();
        assert_eq!(self.heap.len(), self.sorted.len());
        let earliest = self
            .sorted
            .first_key_value()
            .map_or(NEVER, |(place, _)| place.0);
        assert!(self.heap.next_deadline() <= earliest);
        if self.heap.is_settled() {
            assert_eq!(self.heap.next_deadline(), earliest);
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Insert {
        deadline: u64,
        step: u64,
        count: usize,
    },
    Cancel {
        pick: usize,
        count: usize,
    },
    Reset {
        pick: usize,
        deadline: u64,
        count: usize,
    },
    ChangeWaker {
        pick: usize,
    },
    Fire {
        now: u64,
        limit: usize,
    },
    Settle,
}

fn a_deadline() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0..300_u64, 1 => Just(NEVER)]
}

fn an_op() -> impl Strategy<Value = Op> {
    let count = || prop_oneof![3 => Just(1_usize), 1 => 1..150_usize];
    prop_oneof![
        4 => (a_deadline(), 0..3_u64, count())
            .prop_map(|(deadline, step, count)| Op::Insert { deadline, step, count }),
        3 => (any::<usize>(), count()).prop_map(|(pick, count)| Op::Cancel { pick, count }),
        2 => (any::<usize>(), a_deadline(), count())
            .prop_map(|(pick, deadline, count)| Op::Reset { pick, deadline, count }),
        1 => any::<usize>().prop_map(|pick| Op::ChangeWaker { pick }),
        2 => (0..300_u64, prop_oneof![1..20_usize, Just(usize::MAX)])
            .prop_map(|(now, limit)| Op::Fire { now, limit }),
        1 => Just(Op::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

    #[test]
    fn agrees_with_a_sorted_map(ops in prop::collection::vec(an_op(), 1..60)) {
        let mut model = Model::default();
        for op in ops {
            match op {
                Op::Insert { deadline, step, count } => for i in 0..count as u64 {
                    model.insert(deadline.saturating_add(i * step));
                    model.check();
                },
                Op::Cancel { pick, count } => for _ in 0..count.min(model.timers.len()) {
                    model.cancel(pick % model.timers.len());
                    model.check();
                },
                Op::Reset { pick, deadline, count } => for _ in 0..count.min(model.timers.len()) {
                    model.reset(pick % model.timers.len(), deadline);
                    model.check();
                    if model.timers.is_empty() {
                        break;
                    }
                },
                Op::ChangeWaker { pick } => if !model.timers.is_empty() {
                    model.change_waker(pick % model.timers.len());
                    model.check();
                },
                Op::Fire { now, limit } => {
                    model.fire(now, limit);
                    model.check();
                }
                Op::Settle => {
                    model.settle();
                    model.check();
                }
            }
        }
        while !model.timers.is_empty() {
            model.cancel(model.timers.len() / 2);
            model.check();
        }
        model.settle();
        prop_assert!(model.heap.slots.is_empty());
    }
}

fn fired(heap: &mut TimerHeap, log: &Log, now: u64) -> Vec<u64> {
    let mut batch = Vec::new();
    heap.fire_due(now, &mut batch, usize::MAX);
    log.ids(batch)
}

#[test]
fn equal_deadlines_fire_in_the_order_in_which_they_were_set() {
    let (mut heap, log) = (TimerHeap::default(), Log::default());
    let mut keys: Vec<Key> = (0..10).map(|id| heap.insert(5, log.waker(id))).collect();
    let moved = heap.reset(keys.remove(3), 5).unwrap();
    let earlier = heap.reset(keys.remove(0), 4).unwrap();
    let also_moved = heap.reset(earlier, 5).unwrap();
    assert_eq!(fired(&mut heap, &log, 4), []);
    assert_eq!(fired(&mut heap, &log, 5), [1, 2, 4, 5, 6, 7, 8, 9, 3, 0]);
    for key in keys.into_iter().chain([moved, also_moved]) {
        assert!(heap.cancel(key).is_none());
    }
    assert!(heap.slots.is_empty());
}

#[test]
fn a_timer_that_never_fires_does_not_fire_at_the_end_of_time() {
    let (mut heap, log) = (TimerHeap::default(), Log::default());
    let key = heap.insert(NEVER, log.waker(1));
    assert_eq!(heap.next_deadline(), NEVER);
    assert_eq!(fired(&mut heap, &log, NEVER), []);
    let key = heap.reset(key, 7).unwrap();
    assert_eq!(heap.next_deadline(), 7);
    assert_eq!(fired(&mut heap, &log, 7), [1]);
    assert!(heap.is_fired(&key));
    assert!(heap.cancel(key).is_none());
}

#[test]
fn the_dead_are_bounded_and_an_empty_heap_gives_its_memory_back() {
    let (mut heap, log) = (TimerHeap::default(), Log::default());
    let waker = log.waker(0);
    let mut keys: Vec<Key> = (0..10_000).map(|i| heap.insert(i, waker.clone())).collect();
    assert!(heap.slots.capacity() >= 10_000);
    // The earliest first: each leaves a dead node, until they are swept.
    for key in keys.drain(..) {
        assert!(heap.cancel(key).is_some());
        assert!(heap.dead <= DEAD_KEPT.max(heap.len()));
    }
    heap.settle();
    assert_eq!((heap.nodes.capacity(), heap.slots.capacity()), (0, 0));
}

#[test]
fn a_timer_that_is_reset_again_and_again_leaves_no_trail() {
    let (mut heap, log) = (TimerHeap::default(), Log::default());
    let others: Vec<Key> = (0..100).map(|_| heap.insert(50, log.waker(0))).collect();
    let mut key = heap.insert(100, log.waker(1));
    for round in 0..10_000 {
        key = heap
            .reset(key, if round % 3 == 0 { 60 } else { 60 + round })
            .unwrap();
        heap.assert_invariants();
    }
    assert!(heap.nodes.len() <= 300);
    assert_eq!(heap.len(), others.len() + 1);
}

#[test]
fn the_wrap_of_the_order_swaps_equals_and_breaks_nothing_else() {
    let (mut heap, log) = (TimerHeap::default(), Log::default());
    heap.order = u32::MAX - 5;
    let mut keys: Vec<Key> = (0..10)
        .map(|id| heap.insert(5 + id % 2, log.waker(id)))
        .collect();
    heap.order = u32::MAX;
    let key = heap.reset(keys.remove(0), 5).unwrap();
    heap.assert_invariants();
    assert_eq!(heap.len(), 10);
    let mut evens = fired(&mut heap, &log, 5);
    evens.sort_unstable();
    assert_eq!(evens, [0, 2, 4, 6, 8]);
    let mut odds = fired(&mut heap, &log, 6);
    odds.sort_unstable();
    assert_eq!(odds, [1, 3, 5, 7, 9]);
    assert!(heap.is_fired(&key));
}

#[test]
fn take_all_hands_out_what_is_armed() {
    let (mut heap, log) = (TimerHeap::default(), Log::default());
    let keys: Vec<Key> = (1..=4).map(|id| heap.insert(id, log.waker(id))).collect();
    assert_eq!(fired(&mut heap, &log, 1), [1]);
    let mut keys = keys.into_iter();
    let (_fired, second) = (keys.next(), keys.next().unwrap());
    assert!(heap.cancel(second).is_some());
    let all = heap.take_all();
    assert_eq!(log.ids(all), [3, 4]);
    assert_eq!((heap.len(), heap.next_deadline()), (0, NEVER));
}
