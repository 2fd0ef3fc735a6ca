//! Times that are none, or that are too long to come.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    ptr,
    time::{Duration, Instant},
};

use libc::{c_int, c_long, timespec};
use ws_sim::Sim;

use super::{compare, epoll, eventfd, owned, read, result, say};

const WRONG: [(i64, c_long); 5] = [
    (-1, 0),
    (0, -1),
    (0, 1_000_000_000),
    (0, c_long::MAX),
    (i64::MIN, c_long::MIN),
];

fn spec((tv_sec, tv_nsec): (i64, c_long)) -> timespec {
    timespec { tv_sec, tv_nsec }
}

#[test]
fn what_is_no_time_is_refused() {
    compare(|seen| {
        let (epoll, event) = (epoll(), eventfd(0, 0));
        for time in WRONG {
            let time = &spec(time);
            let mut entry = libc::pollfd {
                fd: event.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 1];
            let none = ptr::null();
            // SAFETY: all pointers are valid, or null where that may be.
            unsafe {
                let slept = libc::nanosleep(time, ptr::null_mut());
                say(seen, "sleep", result(slept as isize));
                for flags in [0, libc::TIMER_ABSTIME] {
                    let clock = libc::CLOCK_MONOTONIC;
                    let slept = libc::clock_nanosleep(clock, flags, time, ptr::null_mut());
                    say(seen, "sleep", slept);
                }
                let polled = libc::ppoll(&raw mut entry, 1, time, none);
                say(seen, "poll", result(polled as isize));
                let polled = libc::ppoll(ptr::null_mut(), 0, time, none);
                say(seen, "poll nothing", result(polled as isize));
                let (fd, out) = (epoll.as_raw_fd(), events.as_mut_ptr());
                let waited = libc::epoll_pwait2(fd, out, 1, time, none);
                say(seen, "epoll", result(waited as isize));
            }
        }
        // SAFETY: nothing is read.
        let polled = unsafe { libc::poll(ptr::null_mut(), u64::MAX, 0) };
        say(seen, "too many", result(polled as isize));
    });
}

#[test]
fn what_is_no_clock_is_refused() {
    compare(|seen| {
        // Three of them show a time, and cannot be slept on.
        for clock in [-1, 4, 5, 6, 10, 11, 12, 99] {
            let mut time = spec((0, 0));
            // SAFETY: the time is valid.
            let (shown, slept) = unsafe {
                (
                    libc::clock_gettime(clock, &raw mut time),
                    // A time that is over, on each clock that there is.
                    libc::clock_nanosleep(
                        clock,
                        libc::TIMER_ABSTIME,
                        &spec((0, 1)),
                        ptr::null_mut(),
                    ),
                )
            };
            say(seen, &format!("show {clock}"), result(shown as isize));
            say(seen, &format!("sleep {clock}"), slept);
        }
        let clock = libc::CLOCK_THREAD_CPUTIME_ID;
        // SAFETY: the time is valid.
        let slept = unsafe { libc::clock_nanosleep(clock, 0, &spec((0, 1)), ptr::null_mut()) };
        say(seen, "sleep of a thread", slept);
        let mut usage = std::mem::MaybeUninit::uninit();
        // SAFETY: there is room for one.
        let used = unsafe { libc::getrusage(99, usage.as_mut_ptr()) };
        say(seen, "usage", result(used as isize));
    });
}

/// Sets a timer, and answers the interval that it has then.
fn set(timer: &OwnedFd, flags: c_int, value: timespec, interval: timespec) -> Option<timespec> {
    let (it_value, it_interval) = (value, interval);
    let new = libc::itimerspec {
        it_interval,
        it_value,
    };
    let mut known = new;
    // SAFETY: both are valid.
    unsafe {
        let set = libc::timerfd_settime(timer.as_raw_fd(), flags, &new, ptr::null_mut());
        (set == 0).then(|| {
            libc::timerfd_gettime(timer.as_raw_fd(), &mut known);
            known.it_interval
        })
    }
}

#[test]
fn a_timer_takes_any_time() {
    compare(|seen| {
        let flags = libc::TFD_NONBLOCK;
        // SAFETY: it takes no pointers.
        let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) });
        let far = spec((i64::MAX, 999_999_999));
        for interval in [far, spec((i64::MAX / 1_000_000_000, 5)), spec((0, 0))] {
            // It was due long ago.
            let known = set(&timer, libc::TFD_TIMER_ABSTIME, spec((0, 1)), interval);
            say(seen, "past", known.map(|time| (time.tv_sec, time.tv_nsec)));
            say(seen, "read", read(&timer, 8));
            say(seen, "again", read(&timer, 8));
            let known = set(&timer, 0, far, interval);
            say(seen, "far", known.map(|time| (time.tv_sec, time.tv_nsec)));
            say(seen, "read", read(&timer, 8));
        }
        for wrong in WRONG.map(spec) {
            say(seen, "wrong", set(&timer, 0, wrong, far).is_some());
            say(seen, "wrong", set(&timer, 0, far, wrong).is_some());
        }
    });
}

#[test]
fn sleeps_of_c_take_simulated_time() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let begin = Instant::now();
        // SAFETY: they take no pointers.
        unsafe {
            assert_eq!(libc::sleep(3_600), 0);
            assert_eq!(libc::usleep(2_500_000), 0);
        }
        assert_eq!(begin.elapsed(), Duration::from_millis(3_602_500));
    });
    sim.try_run().unwrap();
}

#[test]
fn a_sleep_may_end_at_a_time_of_the_calendar() {
    let sim = Sim::new(1);
    sim.client("host", async {
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
            let (begin, mut until) = (Instant::now(), spec((0, 0)));
            // SAFETY: the time is valid.
            let slept = unsafe {
                libc::clock_gettime(clock, &raw mut until);
                until.tv_sec += 5;
                libc::clock_nanosleep(clock, libc::TIMER_ABSTIME, &until, ptr::null_mut())
            };
            assert_eq!((slept, begin.elapsed()), (0, Duration::from_secs(5)));
        }
    });
    sim.try_run().unwrap();
}

#[test]
fn a_poll_takes_no_less_than_its_time() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let begin = Instant::now();
        let time = spec((0, 500_001));
        // SAFETY: there are no entries, and the time is valid.
        let polled = unsafe { libc::ppoll(ptr::null_mut(), 0, &time, ptr::null()) };
        assert_eq!((polled, begin.elapsed()), (0, Duration::from_millis(1)));
    });
    sim.try_run().unwrap();
}
