//! The load that forks and joins. Its numbers are borrowed, and its sums are known beforehand.

use std::{
    future::Future,
    hint::black_box,
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use ws::{Scope, task};

use crate::{books::Books, loads::EXPECTED};

/// What has fewer numbers does not fork.
const LEAF: usize = 16;

/// Adds numbers up in every way that there is.
pub(crate) async fn forks(books: Books) {
    let numbers: Arc<[u64]> = (0..1 + books.below(4000))
        .map(|_| books.below(1000))
        .collect();
    let sum: u64 = numbers.iter().sum();

    assert_eq!(joined(&numbers, &books), sum, "by joins");
    let by_scope = AtomicU64::new(0);
    ws::scope(|scope| spread(scope, &numbers, &by_scope, &books));
    assert_eq!(by_scope.into_inner(), sum, "by a scope");
    let by_forks = forked(books.clone(), numbers.clone()).await;
    assert_eq!(by_forks, sum, "by forks");

    let mut computation = books.enter(ws::compute({
        // What a computation owns is in the books as well.
        let (numbers, books, owned) = (numbers.clone(), books.clone(), books.enter(async {}));
        move || {
            let _owned = owned;
            joined(&numbers, &books)
        }
    }));
    if books.below(3) == 0 {
        let polled = futures::poll!(&mut computation);
        for _ in 0..books.below(4) {
            task::yield_now().await;
        }
        drop(computation);
        drop(polled);
    } else {
        let by_compute = computation.await.expect("a computation does not panic");
        assert_eq!(by_compute, sum, "by a computation");
    }
    panics(&books);
    books.done("forks and joins", 5);
}

/// Forks until it is cancelled.
pub(crate) fn for_ever() {
    loop {
        ws::join(|| black_box(1), || black_box(2));
    }
}

/// Splits them anywhere.
fn split<'a>(numbers: &'a [u64], books: &Books) -> (&'a [u64], &'a [u64]) {
    numbers.split_at(1 + books.below(numbers.len() as u64 - 1) as usize)
}

fn joined(numbers: &[u64], books: &Books) -> u64 {
    if numbers.len() < LEAF {
        return numbers.iter().sum();
    }
    let (one, other) = split(numbers, books);
    let (one, other) = ws::join(|| joined(one, books), || joined(other, books));
    one + other
}

fn spread<'scope>(
    scope: &Scope<'scope>,
    numbers: &'scope [u64],
    sum: &'scope AtomicU64,
    books: &'scope Books,
) {
    if numbers.len() < LEAF {
        sum.fetch_add(numbers.iter().sum(), Relaxed);
        return;
    }
    let (one, other) = split(numbers, books);
    scope.spawn(move |scope| spread(scope, one, sum, books));
    spread(scope, other, sum, books);
}

fn forked(books: Books, numbers: Arc<[u64]>) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    let own = books.clone();
    Box::pin(own.enter(async move {
        if numbers.len() < 10 * LEAF {
            return joined(&numbers, &books);
        }
        let (one, other) = split(&numbers, &books);
        let (one, other): (Arc<[u64]>, Arc<[u64]>) = (one.into(), other.into());
        let one = ws::fork(forked(books.clone(), one)).await;
        if books.below(8) == 0 {
            // It goes on by itself.
            drop(ws::fork(forked(books.clone(), other.clone())).await);
        }
        let other = forked(books, other).await;
        one.await.expect("a fork does not panic") + other
    }))
}

/// A branch panics: its caller learns of it when all have ended.
fn panics(books: &Books) {
    const BRANCHES: u64 = 10;
    let (which, ended) = (books.below(BRANCHES), AtomicUsize::new(0));
    let branch = |number| {
        ended.fetch_add(1, Relaxed);
        if number == which {
            panic_any(EXPECTED);
        }
    };
    let result = catch_unwind(AssertUnwindSafe(|| {
        ws::scope(|scope| {
            for number in 0..BRANCHES {
                let branch = &branch;
                scope.spawn(move |_| {
                    ws::join(|| (), || branch(number));
                });
            }
        });
    }));
    let payload = result.expect_err("a branch panics");
    assert_eq!(payload.downcast_ref(), Some(&EXPECTED));
    assert_eq!(ended.into_inner(), BRANCHES as usize, "a branch was left");
}
