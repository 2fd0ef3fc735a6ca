//! Any number of tasks may await the same direction of a descriptor, and an event wakes them all;
//! of those that poll it by poll functions, it wakes the last. What waits no more leaves nothing
//! behind, and what was just registered is not ready. What goes into an `AsyncFd` may be a
//! descriptor, a bare number or a mio source, and comes out as it was.
//!
//! A mutant that keeps one waker a direction for futures as well fails the first two tests.

use crate::net_support;

use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::FutureExt;
use net_support::{Wakes, runtime, with_workers};
use ws::io::{AsyncFd, AsyncReadExt, AsyncWriteExt, Direction, Interest};
use ws::net::TcpListener;
use ws::runtime::{Builder, Sysmon};
use ws::task::coop;

/// A pair of sockets. This side is registered.
fn pair() -> io::Result<(AsyncFd<UnixStream>, UnixStream)> {
    let (here, there) = UnixStream::pair()?;
    here.set_nonblocking(true)?;
    Ok((AsyncFd::new(here)?, there))
}

#[test]
fn tasks_that_wait_for_one_direction_all_go_on() {
    with_workers(async || {
        const TASKS: usize = 16;
        let (here, mut there) = pair()?;
        let here = Arc::new(here);
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let here = here.clone();
                ws::spawn(async move {
                    let mut byte = [0];
                    // Half of them wait for both directions. Writing was not tried and never comes.
                    let both = Interest::READABLE | Interest::WRITABLE;
                    let interest = if task % 2 == 0 {
                        both
                    } else {
                        Interest::READABLE
                    };
                    let read = || here.get_ref().read(&mut byte);
                    here.io(interest, read).await?;
                    Ok::<_, io::Error>(byte[0])
                })
            })
            .collect();
        // One at a time: all are woken, one reads it, and the others wait again.
        for byte in 0..TASKS as u8 {
            there.write_all(&[byte])?;
            ws::task::yield_now().await;
        }
        let mut read = Vec::new();
        for task in tasks {
            read.push(task.await.expect("no task panics")?);
        }
        read.sort_unstable();
        assert!(read.into_iter().eq(0..TASKS as u8));
        Ok(())
    });
}

#[test]
fn one_event_wakes_every_waker() {
    let _limit = net_support::Limit::new(1);
    let runtime = runtime(1);
    let (here, mut there) = {
        let _guard = runtime.enter();
        pair().unwrap()
    };
    let wakes: [Arc<Wakes>; 4] = Default::default();
    let mut futures: Vec<_> = (0..3)
        .map(|_| Box::pin(here.ready(Direction::Read)))
        .collect();
    for (wake, future) in wakes.iter().zip(&mut futures) {
        let waker = Waker::from(wake.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(future.as_mut().poll(&mut cx).is_pending());
    }
    // A future that is gone is not woken, and of two callers of poll functions the last.
    futures.pop();
    let (gone, replaced, last) = (&wakes[2], Arc::new(Wakes::default()), &wakes[3]);
    for wake in [&replaced, last] {
        let waker = Waker::from(wake.clone());
        let mut cx = Context::from_waker(&waker);
        let read = || here.get_ref().read(&mut [0]);
        assert!(here.poll_io(&mut cx, Interest::READABLE, read).is_pending());
    }
    there.write_all(b"x").unwrap();
    runtime
        .block_on(async { here.ready(Direction::Read).await })
        .unwrap();
    // Readiness is noted before anybody is woken for it.
    while [&wakes[0], &wakes[1], last]
        .iter()
        .any(|wake| wake.count() == 0)
    {
        thread::yield_now();
    }
    assert!(
        [&wakes[0], &wakes[1], last]
            .iter()
            .all(|wake| wake.count() == 1)
    );
    assert_eq!(gone.count() + replaced.count(), 0);
}

// Fails if a source keeps the waker of each poll until its next edge.
#[test]
fn what_waits_no_more_leaves_nothing_behind() {
    let _limit = net_support::Limit::new(1);
    let runtime = runtime(1);
    let (here, _there) = {
        let _guard = runtime.enter();
        pair().unwrap()
    };
    let wakes: Vec<Arc<Wakes>> = (0..100).map(|_| Arc::default()).collect();
    for wake in &wakes {
        let waker = Waker::from(wake.clone());
        let mut cx = Context::from_waker(&waker);
        let mut bytes = [0; 2];
        assert!(
            (&mut &here)
                .read(&mut bytes)
                .poll_unpin(&mut cx)
                .is_pending()
        );
        let read = || here.get_ref().read(&mut [0]);
        assert!(here.poll_io(&mut cx, Interest::READABLE, read).is_pending());
        assert!(here.poll_ready(&mut cx, Direction::Read).is_pending());
        let both = Interest::READABLE | Interest::WRITABLE;
        let mut io = Box::pin(here.io(both, || here.get_ref().read(&mut [0])));
        assert!(io.as_mut().poll(&mut cx).is_pending());
        let mut ready = Box::pin(here.ready(Direction::Read));
        assert!(ready.as_mut().poll(&mut cx).is_pending());
    }
    // The test has one reference to each, and the descriptor one to the last. A worker may hold one
    // more for the moment of a wake: the first edge says that the socket can be written.
    let kept = || -> usize { wakes.iter().map(|wake| Arc::strong_count(wake) - 1).sum() };
    while kept() != 1 {
        thread::yield_now();
    }
}

// Fails if a source that was registered just now counts as ready.
#[test]
fn what_was_just_registered_is_not_ready() {
    with_workers(async || {
        let (here, mut there) = pair()?;
        let polled = poll_fn(|cx| Poll::Ready(here.poll_ready(cx, Direction::Read)));
        assert!(polled.await.is_pending());
        let mut ready = Box::pin(here.ready(Direction::Read));
        assert!(net_support::poll_once(&mut ready).await.is_pending());
        // The system says by itself that there is room.
        here.ready(Direction::Write).await?;
        assert!(net_support::poll_once(&mut ready).await.is_pending());
        there.write_all(b"x")?;
        ready.await?;
        assert_eq!(here.get_ref().read(&mut [0; 2])?, 1);

        // An operation is tried at once all the same.
        let (here, mut there) = pair()?;
        there.write_all(b"x")?;
        assert_eq!(
            here.try_io(Interest::READABLE, || here.get_ref().read(&mut [0]))?,
            1
        );
        Ok(())
    });
}

#[test]
fn either_direction_may_be_waited_for() {
    with_workers(async || {
        let (here, mut there) = pair()?;
        let both = Interest::READABLE | Interest::WRITABLE;
        // There is room, so writing is what succeeds.
        here.io(both, || here.get_ref().write(b"x")).await?;
        let would_block = |_: io::Error| io::ErrorKind::WouldBlock;
        let read = here
            .try_io(both, || here.get_ref().read(&mut [0]))
            .map_err(would_block);
        assert_eq!(read, Err(io::ErrorKind::WouldBlock));
        // Something to read ends a wait for either.
        let waiter = ws::spawn(async move {
            let mut byte = [0];
            let read = || here.get_ref().read(&mut byte);
            here.io(both, read).await?;
            Ok::<_, io::Error>(byte[0])
        });
        ws::task::yield_now().await;
        there.write_all(b"y")?;
        assert_eq!(waiter.await.expect("the waiter does not panic")?, b'y');
        Ok(())
    });
}

#[test]
fn readiness_is_forgotten_on_demand() {
    with_workers(async || {
        let (here, mut there) = pair()?;
        there.write_all(b"x")?;
        here.ready(Direction::Read).await?;
        assert_eq!(here.get_ref().read(&mut [0])?, 1);
        loop {
            let ready = here.ready(Direction::Read).await?;
            match here.get_ref().read(&mut [0]) {
                Ok(read) => {
                    assert_eq!(read, 1);
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    here.clear_ready(ready);
                    let mut cx = Context::from_waker(Waker::noop());
                    // An event of its registration may have come since; then it is not forgotten
                    // yet.
                    if here.poll_ready(&mut cx, Direction::Read).is_pending() {
                        there.write_all(b"x")?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    });
}

#[test]
fn what_was_not_asked_for_is_an_error_and_no_wait() {
    with_workers(async || {
        let (here, _there) = UnixStream::pair()?;
        here.set_nonblocking(true)?;
        let here = AsyncFd::with_interest(here, Interest::READABLE)?;
        let write = || here.get_ref().write(b"x");
        let error = here.io(Interest::WRITABLE, write).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let write = || here.get_ref().write(b"x");
        let polled = poll_fn(|cx| here.poll_io(cx, Interest::WRITABLE, write)).await;
        assert_eq!(polled.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let ready = poll_fn(|cx| here.poll_ready(cx, Direction::Write)).await;
        assert_eq!(ready.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        Ok(())
    });
}

/// A flush of it writes a byte, which waits while the socket is full.
struct Late(UnixStream);

impl AsRawFd for Late {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Write for &Late {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.0).write(b"!").map(drop)
    }
}

// Fails if the answer to a flush that would block is that error.
#[test]
fn a_flush_waits_for_room() {
    with_workers(async || {
        let (here, mut there) = UnixStream::pair()?;
        here.set_nonblocking(true)?;
        there.set_nonblocking(true)?;
        while (&here).write(&[0; 4096]).is_ok() {}
        let here = AsyncFd::new(Late(here))?;
        let mut flush = Box::pin(async { (&mut &here).flush().await });
        assert!(net_support::poll_once(&mut flush).await.is_pending());
        while there.read(&mut [0; 1 << 16]).is_ok() {}
        flush.await?;
        assert_eq!((there.read(&mut [0; 2])?), 1);
        Ok(())
    });
}

#[test]
fn bare_numbers_and_mio_sources() {
    with_workers(async || {
        // The number stays its owner's: it can be registered again when the first is gone.
        let (here, mut there) = UnixStream::pair()?;
        here.set_nonblocking(true)?;
        for _ in 0..3 {
            let number = AsyncFd::new(here.as_raw_fd())?;
            there.write_all(b"x")?;
            let read = number
                .io(Interest::READABLE, || (&here).read(&mut [0]))
                .await?;
            assert_eq!(read, 1);
        }

        let (sender, receiver) = ws_reactor::pipe::new()?;
        let mut receiver = AsyncFd::from_source_with_interest(receiver, Interest::READABLE)?;
        let sender = AsyncFd::new(sender)?;
        (&mut &sender).write_all(b"pipe").await?;
        drop(sender);
        let mut text = String::new();
        receiver.read_to_string(&mut text).await?;
        assert_eq!(text, "pipe");
        let receiver = AsyncFd::from_source(receiver.into_inner())?;
        assert_eq!((&mut &receiver).read(&mut [0]).await?, 0);
        Ok(())
    });
}

#[test]
fn files_are_refused() {
    with_workers(async || {
        let file = std::fs::File::open("/proc/self/exe")?;
        AsyncFd::new(file).unwrap_err();
        Ok(())
    });
}

// Fails (hangs) if an operation that always succeeds costs no budget (F2).
#[test]
fn a_task_that_is_always_ready_lets_others_run() {
    with_workers(async || {
        let (here, mut there) = pair()?;
        there.write_all(b"x")?;
        // Each operation by itself: one that pays would hide one that does not.
        for operation in 0..3 {
            let flag = Arc::new(AtomicBool::new(false));
            let other = flag.clone();
            let _other = ws::spawn(async move { other.store(true, Ordering::Release) });
            // Nothing is read, so this is ready each time; on one worker the other task needs it to
            // yield.
            while !flag.load(Ordering::Acquire) {
                let readable = Interest::READABLE;
                match operation {
                    0 => poll_fn(|cx| here.poll_io(cx, readable, || Ok(()))).await?,
                    1 => here.io(readable, || Ok(())).await?,
                    _ => here.ready(Direction::Read).await.map(drop)?,
                }
            }
        }
        Ok(())
    });
}

// Fails if `poll_io` or `try_io` looks at one direction of two.
#[test]
fn an_interest_in_both_looks_at_both() {
    with_workers(async || {
        let both = Interest::READABLE | Interest::WRITABLE;
        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        for unready in [Interest::READABLE, Interest::WRITABLE] {
            let (here, mut there) = pair()?;
            there.write_all(b"x")?;
            here.ready(Direction::Read).await?;
            here.try_io(unready, nothing).unwrap_err();
            here.try_io(both, || Ok(()))?;
            poll_fn(|cx| here.poll_io(cx, both, || Ok(()))).await?;
            here.io(both, || Ok(())).await?;
        }
        Ok(())
    });
}

// Fails if an operation is refused for the slice alone: a task that computes for a slice before its
// first operation would begin anew with each poll, and never come to it.
/// Its panic is its own: the drop of what it waits for may come while a thread unwinds, where a
/// second panic ends the process.
#[test]
fn a_waker_that_panics_harms_nobody_but_itself() {
    struct Bomb;
    impl std::task::Wake for Bomb {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    with_workers(|| async {
        let (fd, _peer) = pair()?;
        let waker = Waker::from(Arc::new(Bomb));
        let mut cx = Context::from_waker(&waker);
        assert!(fd.poll_ready(&mut cx, Direction::Read).is_pending());
        drop(fd);
        Ok(())
    });
}

#[test]
fn one_operation_goes_through_after_a_slice() {
    with_workers(async || {
        let (here, _there) = pair()?;
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            // Until the monitor asks it to make room.
            while !ws::task::should_yield() {
                std::hint::spin_loop();
            }
            here.poll_io(cx, Interest::WRITABLE, || Ok(()))
        })
        .await?;
        assert_eq!(polls, 1);
        Ok(())
    });
}

// Fails if an operation that waits keeps its unit: a task that polls many sources would be refused,
// and woken for nothing.
#[test]
fn a_poll_that_is_pending_costs_nothing() {
    // No monitor: the end of a slice takes the budget, too.
    let runtime = Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (here, _there) = pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let readable = Interest::READABLE;
        let both = Interest::READABLE | Interest::WRITABLE;
        let read = || here.get_ref().read(&mut [0]);
        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let operations: [&dyn Fn(&mut Context<'_>) -> bool; 7] = [
            &|cx| here.poll_io(cx, readable, read).is_pending(),
            &|cx| here.poll_ready(cx, Direction::Read).is_pending(),
            &|cx| pin!(here.io(readable, read)).poll(cx).is_pending(),
            &|cx| pin!(here.io(both, nothing)).poll(cx).is_pending(),
            &|cx| pin!(here.ready(Direction::Read)).poll(cx).is_pending(),
            &|cx| listener.poll_accept(cx).is_pending(),
            &|cx| pin!(listener.accept()).poll(cx).is_pending(),
        ];
        for (index, is_pending) in operations.iter().enumerate() {
            poll_fn(|cx| {
                // More polls than any budget has units.
                for _ in 0..1000 {
                    assert!(is_pending(cx), "operation {index}");
                    assert!(coop::has_budget_remaining(), "operation {index}");
                }
                Poll::Ready(())
            })
            .await;
            ws::task::yield_now().await;
        }
    });
}

// Fails if the budget is asked before readiness: a task that has used it up would be woken for what
// is not there.
#[test]
fn what_is_not_ready_waits_without_a_budget_as_well() {
    with_workers(async || {
        let (here, _there) = pair()?;
        here.ready(Direction::Write).await?;
        poll_fn(|_| {
            let mut cx = Context::from_waker(Waker::noop());
            let read = || here.get_ref().read(&mut [0]);
            assert!(here.poll_io(&mut cx, Interest::READABLE, read).is_pending());
            while here.poll_ready(&mut cx, Direction::Write).is_ready() {}
            let wakes = Arc::new(Wakes::default());
            let waker = Waker::from(wakes.clone());
            let mut cx = Context::from_waker(&waker);
            assert!(here.poll_ready(&mut cx, Direction::Read).is_pending());
            assert_eq!(wakes.count(), 0);
            Poll::Ready(())
        })
        .await;
        Ok(())
    });
}

// Fails (hangs) if the error of a source whose runtime has ended costs no budget (F2).
#[test]
fn a_task_that_ignores_errors_lets_others_run() {
    with_workers(|| {
        let gone = runtime(1);
        let (here, there) = gone.block_on(async { pair() }).unwrap();
        let read = || here.get_ref().read(&mut [0]);
        let mut cx = Context::from_waker(Waker::noop());
        let nothing = here.poll_io(&mut cx, Interest::READABLE, read);
        assert!(nothing.is_pending());
        drop(gone);
        async move {
            let _open = there;
            poll_fn(|_| {
                let mut cx = Context::from_waker(Waker::noop());
                while let Poll::Ready(answer) = here.poll_ready(&mut cx, Direction::Read) {
                    answer.unwrap_err();
                }
                Poll::Ready(Ok(()))
            })
            .await
        }
    });
}

// Fails if `try_io` does not ask for the interest, or if a hang-up, which is reported unasked,
// makes both directions ready.
#[test]
fn a_direction_that_was_not_registered_is_an_error_for_ever() {
    async fn refuses<T>(fd: &AsyncFd<T>, interest: Interest, direction: Direction) {
        let refused = |answer: io::Result<()>| {
            let kind = answer.expect_err("it is not registered").kind();
            assert_eq!(kind, io::ErrorKind::InvalidInput);
        };
        let tries = || -> io::Result<()> { panic!("there is nothing to try") };
        refused(fd.try_io(interest, tries));
        refused(fd.io(interest, tries).await);
        refused(poll_fn(|cx| fd.poll_io(cx, interest, tries)).await);
        refused(fd.ready(direction).await.map(drop));
        refused(poll_fn(|cx| fd.poll_ready(cx, direction)).await.map(drop));
    }

    with_workers(async || {
        let (reader, writer) = io::pipe()?;
        let reader = AsyncFd::with_interest(reader, Interest::READABLE)?;
        refuses(&reader, Interest::WRITABLE, Direction::Write).await;
        drop(writer);
        reader.ready(Direction::Read).await?;
        refuses(&reader, Interest::WRITABLE, Direction::Write).await;

        // The loss of its reader is an error to a pipe.
        let (reader, writer) = io::pipe()?;
        let writer = AsyncFd::with_interest(writer, Interest::WRITABLE)?;
        refuses(&writer, Interest::READABLE, Direction::Read).await;
        let first = writer.ready(Direction::Write).await?;
        drop(reader);
        writer.clear_ready(first);
        assert!(writer.ready(Direction::Write).await?.is_error());
        refuses(&writer, Interest::READABLE, Direction::Read).await;
        Ok(())
    });
}

// Fails if the "would block" of an operation that may be about either direction clears one of them.
#[test]
fn an_operation_over_both_directions_erases_no_edge() {
    with_workers(async || {
        const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);
        let (here, mut there) = pair()?;
        while here.get_ref().write(&[0; 4096]).is_ok() {}
        for way in 0..3 {
            there.write_all(b"x")?;
            here.ready(Direction::Read).await?;
            let write = || here.get_ref().write(b"y");
            match way {
                0 => assert!(here.io(BOTH, write).now_or_never().is_none()),
                1 => {
                    let poll = poll_fn(|cx| here.poll_io(cx, BOTH, write));
                    assert!(poll.now_or_never().is_none());
                }
                _ => {
                    let error = here.try_io(BOTH, write).expect_err("there is no room");
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                }
            }
            let read = || here.get_ref().read(&mut [0]);
            let read = here.io(Interest::READABLE, read).now_or_never();
            assert_eq!(read.expect("it was reported, and nobody has read it")?, 1);
        }
        Ok(())
    });
}
