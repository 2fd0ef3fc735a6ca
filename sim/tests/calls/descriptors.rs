//! Pipes and timers that are descriptors.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use libc::{EPOLL_CTL_ADD, EPOLLIN, EPOLLOUT, c_int};
use ws::io::Interest;
use ws_sim::Sim;

use super::{add, compare, control, epoll, eventfd, owned, read, ready, result, say};

pub(super) fn pipe(flags: c_int) -> (OwnedFd, OwnedFd) {
    let mut both = [-1; 2];
    // SAFETY: there is room for two.
    assert_eq!(unsafe { libc::pipe2(both.as_mut_ptr(), flags) }, 0);
    (owned(both[0]), owned(both[1]))
}

pub(super) fn write(fd: &OwnedFd, len: usize) -> Result<isize, Option<i32>> {
    let bytes = vec![7_u8; len];
    // SAFETY: there are as many bytes.
    result(unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), len) })
}

pub(super) fn get(fd: &OwnedFd, command: c_int) -> Result<isize, Option<i32>> {
    // SAFETY: these commands take no argument.
    result(unsafe { libc::fcntl(fd.as_raw_fd(), command) } as isize)
}

#[test]
fn a_pipe_has_two_ends() {
    compare(|seen| {
        let (reader, writer) = pipe(libc::O_NONBLOCK);
        let (epoll, both) = (epoll(), EPOLLIN | EPOLLOUT);
        say(seen, "add", control(&epoll, EPOLL_CTL_ADD, &reader, both));
        say(seen, "nothing", read(&reader, 9));
        say(seen, "no room", read(&reader, 0));
        say(seen, "ready", ready(&epoll));
        say(seen, "write", write(&writer, 5));
        say(seen, "ready", ready(&epoll));
        say(seen, "read", read(&reader, 3));
        say(seen, "ready", ready(&epoll));
        say(seen, "read", read(&reader, 9));
        say(seen, "wrong end", read(&writer, 9));
        say(seen, "wrong end", write(&reader, 9));
        say(seen, "write nothing", write(&writer, 0));
        for end in [&reader, &writer] {
            say(seen, "mode", get(end, libc::F_GETFL));
            say(seen, "size", get(end, libc::F_GETPIPE_SZ));
        }
        say(seen, "write", write(&writer, 2));
        drop(writer);
        say(seen, "ready", ready(&epoll));
        say(seen, "rest", read(&reader, 9));
        say(seen, "end", read(&reader, 9));
        say(seen, "ready", ready(&epoll));
    });
}

#[test]
fn a_pipe_is_full_and_then_has_room() {
    compare(|seen| {
        let (reader, writer) = pipe(libc::O_NONBLOCK);
        let (epoll, both) = (epoll(), EPOLLIN | EPOLLOUT);
        say(seen, "add", control(&epoll, EPOLL_CTL_ADD, &writer, both));
        say(seen, "ready", ready(&epoll));
        say(seen, "too much", write(&writer, 70_000));
        say(seen, "full", write(&writer, 1));
        say(seen, "ready", ready(&epoll));
        say(seen, "read", read(&reader, 4_096).0);
        say(seen, "ready", ready(&epoll));
        say(seen, "page", write(&writer, 4_096));
        say(seen, "ready", ready(&epoll));
        drop(reader);
        say(seen, "ready", ready(&epoll));
        say(seen, "broken", write(&writer, 1));
    });
}

#[test]
fn wrong_pipes_are_refused() {
    compare(|seen| {
        let mut both = [0; 2];
        // SAFETY: there is room for two.
        let made = unsafe { libc::pipe2(both.as_mut_ptr(), libc::O_APPEND) };
        say(seen, "flags", result(made as isize));
        let (reader, writer) = pipe(0);
        let mut one = 0_u8;
        // SAFETY: there is room for a byte.
        let got = unsafe { libc::recv(reader.as_raw_fd(), (&raw mut one).cast(), 1, 0) };
        say(seen, "no socket", result(got));
        say(seen, "write", write(&writer, 1));
        say(seen, "read", read(&reader, 1));
    });
}

fn timer(clock: c_int) -> OwnedFd {
    // SAFETY: it takes no pointers.
    owned(unsafe { libc::timerfd_create(clock, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) })
}

fn spec(value: Duration, interval: Duration) -> libc::itimerspec {
    let time = |time: Duration| libc::timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos().into(),
    };
    libc::itimerspec {
        it_interval: time(interval),
        it_value: time(value),
    }
}

/// Sets a timer, and gives the seconds of its last setting.
fn set(
    fd: &OwnedFd,
    flags: c_int,
    new: &libc::itimerspec,
) -> Result<(isize, i64, i64), Option<i32>> {
    let mut old = spec(Duration::ZERO, Duration::ZERO);
    // SAFETY: both are valid.
    let set = unsafe { libc::timerfd_settime(fd.as_raw_fd(), flags, new, &mut old) };
    let seconds = |time: libc::timespec| time.tv_sec + i64::from(time.tv_nsec > 0);
    result(set as isize).map(|set| (set, seconds(old.it_value), seconds(old.it_interval)))
}

#[test]
fn a_timer_that_is_not_due() {
    const HOUR: Duration = Duration::from_secs(3_600);
    compare(|seen| {
        for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
            let (timer, epoll) = (timer(clock), epoll());
            say(seen, "add", control(&epoll, EPOLL_CTL_ADD, &timer, EPOLLIN));
            say(seen, "disarmed", read(&timer, 8));
            say(seen, "short", read(&timer, 7).0);
            say(seen, "write", add(&timer, 1));
            say(seen, "set", set(&timer, 0, &spec(HOUR, HOUR / 2)));
            say(seen, "again", set(&timer, 0, &spec(HOUR, Duration::ZERO)));
            say(seen, "ready", ready(&epoll));
            say(
                seen,
                "past",
                set(&timer, libc::TFD_TIMER_ABSTIME, &spec(HOUR / 3_600, HOUR)),
            );
            say(seen, "ready", ready(&epoll));
            say(seen, "due", read(&timer, 8).0);
            say(
                seen,
                "disarm",
                set(&timer, 0, &spec(Duration::ZERO, HOUR)).map(|set| set.0),
            );
            say(
                seen,
                "disarmed",
                set(&timer, 0, &spec(Duration::ZERO, Duration::ZERO)),
            );
            let mut wrong = spec(HOUR, HOUR);
            wrong.it_value.tv_nsec = 1_000_000_000;
            say(seen, "wrong time", set(&timer, 0, &wrong));
            say(seen, "wrong flags", set(&timer, 64, &spec(HOUR, HOUR)));
        }
        // SAFETY: these take no pointers.
        let wrong = unsafe { [libc::timerfd_create(99, 0), libc::timerfd_create(1, 1)] };
        say(seen, "wrong", wrong.map(|fd| result(fd as isize)));
    });
}

#[test]
fn a_timer_is_due_in_simulated_time() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let timer = timer(libc::CLOCK_MONOTONIC);
        let interval = Duration::from_secs(60);
        set(&timer, 0, &spec(Duration::from_millis(1_500), interval)).unwrap();
        let (timer, begin) = (ws::io::AsyncFd::new(timer).unwrap(), Instant::now());
        for (count, at) in [(1, 1_500), (1, 61_500), (1, 121_500)] {
            let due = || match read(timer.get_ref(), 8) {
                (Ok(8), bytes) => Ok(bytes[0]),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            };
            assert_eq!(timer.io(Interest::READABLE, due).await.unwrap(), count);
            assert_eq!(begin.elapsed(), Duration::from_millis(at));
        }
        // What nobody reads is counted.
        ws::time::sleep(Duration::from_secs(181)).await;
        assert_eq!(read(timer.get_ref(), 8).1[0], 3);
    });
    sim.try_run().unwrap();
}

/// Waits until a timer fires.
async fn fires(timer: OwnedFd) -> io::Result<()> {
    let timer = ws::io::AsyncFd::new(timer)?;
    let due = || match read(timer.get_ref(), 8).0 {
        Ok(_) => Ok(()),
        Err(_) => Err(io::ErrorKind::WouldBlock.into()),
    };
    timer.io(Interest::READABLE, due).await
}

#[test]
fn a_timer_of_the_calendar_is_that_of_the_host() {
    for skew in [0, 10, -10, 3_600, -3_600] {
        let sim = Sim::new(1);
        sim.client("host", async {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let timer = timer(libc::CLOCK_REALTIME);
            let at = spec(now + Duration::from_secs(1), Duration::ZERO);
            set(&timer, libc::TFD_TIMER_ABSTIME, &at).unwrap();
            fires(timer).await
        });
        sim.skew("host", skew * 1_000_000_000);
        sim.try_run().unwrap();
        assert_eq!(sim.elapsed().as_secs(), 1, "{skew} s");
    }
}

#[test]
fn a_time_of_the_calendar_before_the_begin_of_the_host_is_due_at_once() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let timer = timer(libc::CLOCK_REALTIME);
        let at = spec(Duration::from_secs(1), Duration::ZERO);
        set(&timer, libc::TFD_TIMER_ABSTIME, &at).unwrap();
        fires(timer).await
    });
    sim.skew("host", 3_600_000_000_000);
    sim.try_run().unwrap();
    assert_eq!(sim.elapsed().as_secs(), 0);
}

#[test]
fn a_jump_of_the_clock_brings_a_timer_forward() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let timer = timer(libc::CLOCK_MONOTONIC);
        let at = spec(Duration::from_secs(10), Duration::ZERO);
        set(&timer, 0, &at).unwrap();
        fires(timer).await
    });
    let jump = Duration::from_secs(20);
    sim.after(Duration::from_secs(1), move |sim| sim.jump("host", jump));
    sim.try_run().unwrap();
    assert_eq!(sim.elapsed().as_secs(), 1);
}

#[test]
fn a_timer_counts_the_times_that_nobody_read() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let timer = timer(libc::CLOCK_MONOTONIC);
        let second = Duration::from_secs(1);
        set(&timer, 0, &spec(second, second)).unwrap();
        ws::time::sleep(Duration::from_millis(3_500)).await;
        assert_eq!(read(&timer, 8).1[0], 3);
    });
    sim.try_run().unwrap();
}

#[test]
fn what_is_left_of_a_timer_that_nobody_reads_is_the_time_to_its_next() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let timer = timer(libc::CLOCK_MONOTONIC);
        let ten = Duration::from_secs(10);
        set(&timer, 0, &spec(ten / 10, ten)).unwrap();
        ws::time::sleep(Duration::from_secs(4)).await;
        let never = spec(Duration::ZERO, Duration::ZERO);
        assert_eq!(set(&timer, 0, &never), Ok((0, 7, 10)));
    });
    sim.try_run().unwrap();
}

#[test]
fn a_timer_keeps_to_a_clock_that_drifts() {
    for (drift, millis) in [(1_000_000, 5_500), (-500_000, 19_000)] {
        let sim = Sim::new(1);
        sim.client("host", async {
            let timer = timer(libc::CLOCK_MONOTONIC);
            let at = spec(Duration::from_secs(10), Duration::ZERO);
            set(&timer, 0, &at).unwrap();
            fires(timer).await
        });
        sim.after(Duration::from_secs(1), move |sim| sim.drift("host", drift));
        sim.try_run().unwrap();
        assert_eq!(sim.elapsed(), Duration::from_millis(millis));
    }
}

#[test]
fn an_epoll_that_is_closed_is_told_no_more() {
    compare(|seen| {
        let (event, first, second) = (eventfd(0, 0), epoll(), epoll());
        for epoll in [&first, &second] {
            say(seen, "add", control(epoll, EPOLL_CTL_ADD, &event, EPOLLIN));
        }
        drop(first);
        say(seen, "write", add(&event, 1));
        say(seen, "second", ready(&second));
        drop(second);
        say(seen, "write", add(&event, 1));
        say(seen, "read", read(&event, 8));
    });
}

#[test]
fn a_descriptor_may_be_told_to_wait_again() {
    compare(|seen| {
        let event = eventfd(0, 0);
        for on in [0, 1, 2, 0] {
            let (fd, on): (_, c_int) = (event.as_raw_fd(), on);
            // SAFETY: this request has a pointer to a number.
            let set = unsafe { libc::ioctl(fd, libc::FIONBIO, &raw const on) };
            say(seen, "set", result(set as isize));
            let mode = get(&event, libc::F_GETFL).unwrap() as c_int;
            say(seen, "does not wait", mode & libc::O_NONBLOCK != 0);
        }
    });
}
