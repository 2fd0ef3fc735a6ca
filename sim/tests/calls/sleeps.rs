//! Waits of C with a time sleep in simulated time, as nothing can come meanwhile.

use std::{
    mem, ptr,
    time::{Duration, Instant},
};

use libc::{c_int, c_void, timespec, timeval};
use ws_sim::Sim;

use super::{compare, result, say};

const SECOND: Duration = Duration::from_secs(1);

/// What the functions of `threads.h` answer.
const SUCCESS: c_int = 0;
const TIMED_OUT: c_int = 4;

unsafe extern "C" {
    fn thrd_sleep(time: *const timespec, left: *mut timespec) -> c_int;
    fn mtx_init(mutex: *mut c_void, kind: c_int) -> c_int;
    fn mtx_lock(mutex: *mut c_void) -> c_int;
    fn mtx_unlock(mutex: *mut c_void) -> c_int;
    fn mtx_timedlock(mutex: *mut c_void, until: *const timespec) -> c_int;
    fn cnd_init(condition: *mut c_void) -> c_int;
    fn cnd_timedwait(condition: *mut c_void, mutex: *mut c_void, until: *const timespec) -> c_int;
    #[cfg(target_env = "gnu")]
    fn sem_clockwait(
        semaphore: *mut libc::sem_t,
        clock: libc::clockid_t,
        until: *const timespec,
    ) -> c_int;
}

fn in_host(f: impl FnOnce() + 'static) {
    let sim = Sim::new(1);
    sim.client("host", async { f() });
    sim.try_run().unwrap();
}

/// Sees how long a call takes.
#[track_caller]
fn takes(time: Duration, call: impl FnOnce()) {
    let begin = Instant::now();
    call();
    assert_eq!(begin.elapsed(), time);
}

/// What a clock shows in so many seconds.
fn after(clock: libc::clockid_t, seconds: i64) -> timespec {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: there is room for a time.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    time.tv_sec += seconds;
    time
}

#[test]
fn a_select_of_nothing_sleeps() {
    in_host(|| {
        let none = ptr::null_mut();
        // SAFETY: the sets are null or valid, and so are the times.
        unsafe {
            takes(2 * SECOND, || {
                let mut time = timeval {
                    tv_sec: 1,
                    tv_usec: 1_000_000,
                };
                assert_eq!(libc::select(0, none, none, none, &raw mut time), 0);
                assert_eq!((time.tv_sec, time.tv_usec), (0, 0));
            });
            let mut empty = mem::zeroed();
            takes(SECOND, || {
                let mut time = timeval {
                    tv_sec: 1,
                    tv_usec: 0,
                };
                let set = &raw mut empty;
                assert_eq!(libc::select(70, set, none, set, &raw mut time), 0);
            });
            let mut second = timespec {
                tv_sec: 1,
                tv_nsec: 5,
            };
            let time = &raw mut second;
            takes(SECOND + Duration::from_nanos(5), || {
                let mask = ptr::null();
                assert_eq!(libc::pselect(0, none, none, none, time, mask), 0);
            });
            takes(SECOND + Duration::from_nanos(5), || {
                let call = libc::SYS_pselect6;
                assert_eq!(libc::syscall(call, 0, none, none, none, time, none), 0);
            });
            takes(Duration::ZERO, || {
                let waits = libc::select(0, none, none, none, ptr::null_mut());
                assert_eq!(result(waits as isize), Err(Some(libc::EDEADLK)));
                let waits = libc::poll(ptr::null_mut(), 0, -1);
                assert_eq!(result(waits as isize), Err(Some(libc::EDEADLK)));
            });
        }
    });
}

#[test]
fn what_a_select_answers() {
    compare(|seen| {
        let none = ptr::null_mut();
        // SAFETY: the sets are null or valid, and so are the times.
        unsafe {
            for (tv_sec, tv_usec) in [(-1, 0), (0, -1), (0, 0), (i64::MIN, i64::MIN)] {
                let mut time = timeval { tv_sec, tv_usec };
                let answer = libc::select(0, none, none, none, &raw mut time);
                say(seen, "select", result(answer as isize));
                let mut time = timespec {
                    tv_sec,
                    tv_nsec: tv_usec,
                };
                let answer = libc::pselect(0, none, none, none, &raw mut time, ptr::null());
                say(seen, "pselect", result(answer as isize));
            }
            let mut time = timeval {
                tv_sec: 0,
                tv_usec: 0,
            };
            let answer = libc::select(-1, none, none, none, &raw mut time);
            say(seen, "below", result(answer as isize));
            // A file of the system is always ready.
            let file = libc::open(c"/etc/passwd".as_ptr(), libc::O_RDONLY);
            let mut set = mem::zeroed();
            libc::FD_ZERO(&raw mut set);
            libc::FD_SET(file, &raw mut set);
            time.tv_sec = 3_600;
            let answer = libc::select(file + 1, &raw mut set, none, none, &raw mut time);
            say(seen, "file", result(answer as isize));
            say(seen, "is set", libc::FD_ISSET(file, &raw const set));
            let answer = libc::close(file);
            say(seen, "close", answer);
        }
    });
}

#[test]
fn a_sleep_of_a_thread_of_c_takes_simulated_time() {
    in_host(|| {
        let second = timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        // SAFETY: the time is valid.
        takes(SECOND, || unsafe {
            assert_eq!(thrd_sleep(&raw const second, ptr::null_mut()), SUCCESS);
        });
    });
}

#[test]
fn a_timed_wait_for_a_semaphore_sleeps() {
    in_host(|| {
        // SAFETY: the semaphore is made first, and stays where it is.
        unsafe {
            let mut place: libc::sem_t = mem::zeroed();
            let semaphore = &raw mut place;
            assert_eq!(libc::sem_init(semaphore, 0, 1), 0);
            let real = || after(libc::CLOCK_REALTIME, 1);
            takes(Duration::ZERO, || {
                assert_eq!(libc::sem_timedwait(semaphore, &real()), 0);
            });
            takes(SECOND, || {
                let waited = libc::sem_timedwait(semaphore, &real());
                assert_eq!(result(waited as isize), Err(Some(libc::ETIMEDOUT)));
            });
            let mut wrong = real();
            wrong.tv_nsec = -1;
            let waited = libc::sem_timedwait(semaphore, &wrong);
            assert_eq!(result(waited as isize), Err(Some(libc::EINVAL)));
            #[cfg(target_env = "gnu")]
            takes(SECOND, || {
                let clock = libc::CLOCK_MONOTONIC;
                let waited = sem_clockwait(semaphore, clock, &after(clock, 1));
                assert_eq!(result(waited as isize), Err(Some(libc::ETIMEDOUT)));
            });
            assert_eq!(libc::sem_post(semaphore), 0);
            takes(Duration::ZERO, || assert_eq!(libc::sem_wait(semaphore), 0));
        }
    });
}

#[test]
fn timed_waits_of_c_for_locks_and_conditions_sleep() {
    /// What may be locked with a time.
    const TIMED: c_int = 2;
    in_host(|| {
        // SAFETY: lock and condition are made first, and stay where they are. C's have no more
        // room than those of POSIX.
        unsafe {
            let (mut lock, mut condition) = (
                libc::PTHREAD_MUTEX_INITIALIZER,
                libc::PTHREAD_COND_INITIALIZER,
            );
            let mutex = (&raw mut lock).cast();
            let condition = (&raw mut condition).cast();
            assert_eq!(mtx_init(mutex, TIMED), SUCCESS);
            assert_eq!(cnd_init(condition), SUCCESS);
            let until = || after(libc::CLOCK_REALTIME, 1);
            takes(Duration::ZERO, || {
                assert_eq!(mtx_timedlock(mutex, &until()), SUCCESS);
            });
            takes(SECOND, || {
                assert_eq!(cnd_timedwait(condition, mutex, &until()), TIMED_OUT);
            });
            takes(SECOND, || {
                assert_eq!(mtx_timedlock(mutex, &until()), TIMED_OUT);
            });
            assert_eq!(mtx_unlock(mutex), SUCCESS);
            assert_eq!(mtx_lock(mutex), SUCCESS);
        }
    });
}

#[test]
fn outside_of_a_host_they_last_in_real_time() {
    const LEAST: Duration = Duration::from_millis(10);
    let soon = || {
        let mut time = after(libc::CLOCK_REALTIME, 0);
        time.tv_nsec += LEAST.as_nanos() as i64;
        time.tv_sec += time.tv_nsec / 1_000_000_000;
        time.tv_nsec %= 1_000_000_000;
        time
    };
    let lasts = |call: &dyn Fn()| {
        let begin = Instant::now();
        call();
        assert!(begin.elapsed() >= LEAST - Duration::from_millis(1));
    };
    // SAFETY: semaphore, lock and condition are made first, and stay where they are.
    unsafe {
        let (mut semaphore, mut lock, mut condition) = (
            mem::zeroed(),
            libc::PTHREAD_MUTEX_INITIALIZER,
            libc::PTHREAD_COND_INITIALIZER,
        );
        let (semaphore, mutex) = (&raw mut semaphore, (&raw mut lock).cast());
        let condition = (&raw mut condition).cast();
        assert_eq!(libc::sem_init(semaphore, 0, 1), 0);
        assert_eq!(mtx_init(mutex, 2), SUCCESS);
        assert_eq!(cnd_init(condition), SUCCESS);
        assert_eq!(libc::sem_wait(semaphore), 0);
        lasts(&|| {
            let waited = libc::sem_timedwait(semaphore, &soon());
            assert_eq!(result(waited as isize), Err(Some(libc::ETIMEDOUT)));
        });
        assert_eq!(mtx_timedlock(mutex, &soon()), SUCCESS);
        lasts(&|| assert_eq!(cnd_timedwait(condition, mutex, &soon()), TIMED_OUT));
        lasts(&|| assert_eq!(mtx_timedlock(mutex, &soon()), TIMED_OUT));
        let time = timespec {
            tv_sec: 0,
            tv_nsec: LEAST.as_nanos() as i64,
        };
        lasts(&|| assert_eq!(thrd_sleep(&raw const time, ptr::null_mut()), SUCCESS));
        let none = ptr::null_mut();
        lasts(&|| {
            let mut time = timeval {
                tv_sec: 0,
                tv_usec: LEAST.as_micros() as i64,
            };
            assert_eq!(libc::select(0, none, none, none, &raw mut time), 0);
        });
        lasts(&|| {
            let mut time = time;
            let mask = ptr::null();
            assert_eq!(libc::pselect(0, none, none, none, &raw mut time, mask), 0);
        });
    }
}
