//! Loops that await nothing, or let no time pass: each ends, or is told with its place.
#![cfg(target_os = "linux")]
#![expect(
    unsafe_code,
    reason = "clocks of C, and a limit of the process for the loop that never ends"
)]

use std::{
    hint,
    mem::MaybeUninit,
    process::{Command, Output},
    time::{Duration, Instant, SystemTime},
};

use ws::{task::yield_now, time::sleep};
use ws_sim::{Sim, millis, secs};

unsafe extern "C" {
    fn clock() -> libc::clock_t;
    fn timespec_get(out: *mut libc::timespec, base: libc::c_int) -> libc::c_int;
}

/// Spins until so much time has passed on the clock of the host.
fn spin(time: Duration) -> Duration {
    let begin = Instant::now();
    while begin.elapsed() < time {
        hint::spin_loop();
    }
    begin.elapsed()
}

#[test]
fn a_loop_that_waits_for_the_clock_ends() {
    let run = || {
        let sim = Sim::new(1);
        sim.client("client", async {
            for time in [Duration::from_micros(20), millis(1), secs(1), secs(3600)] {
                let spun = spin(time);
                let late = spun - time;
                assert!(late <= Duration::from_micros(1) + time / 50_000, "{late:?}");
                // A new step begins with a fresh count.
                sleep(millis(1)).await;
            }
            let until = SystemTime::now() + secs(2);
            while SystemTime::now() < until {}
            let spun = ws::spawn_blocking(|| spin(secs(5))).await.unwrap();
            assert!(spun >= secs(5));
        });
        sim.try_run().unwrap();
        (sim.elapsed(), sim.digest())
    };
    let (elapsed, digest) = run();
    assert!(elapsed >= secs(3608) && elapsed < secs(3609), "{elapsed:?}");
    assert_eq!(run(), (elapsed, digest));
}

#[test]
fn a_loop_that_waits_for_a_clock_of_c_ends() {
    let calendar = || {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the place is valid. The base 1 is the calendar.
        unsafe { timespec_get(&raw mut now, 1) };
        now.tv_sec
    };
    let usage = || {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: there is room for one, which is written.
        unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init().ru_utime.tv_sec
        }
    };
    let ticks = || {
        let mut all = MaybeUninit::<libc::tms>::uninit();
        // SAFETY: as above.
        unsafe {
            let ticks = libc::times(all.as_mut_ptr());
            assert_eq!(all.assume_init().tms_utime, ticks);
            ticks / 100
        }
    };
    // SAFETY: they take no pointers, or null.
    let (time, clock) = (
        || unsafe { libc::time(std::ptr::null_mut()) },
        || unsafe { clock() / 1_000_000 },
    );
    let sim = Sim::new(1);
    sim.client("client", async move {
        let shows: [&dyn Fn() -> i64; 5] = [&calendar, &usage, &ticks, &time, &clock];
        for shows in shows {
            let begin = shows();
            while shows() < begin + 10 {}
            sleep(millis(1)).await;
        }
    });
    sim.try_run().unwrap();
    assert!(sim.elapsed() > secs(45), "{:?}", sim.elapsed());
}

// As flume does: the last wait is for nothing.
#[test]
fn a_loop_that_waits_for_what_is_left_of_a_time_ends() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let until = Instant::now() + millis(5);
        let mut rounds = 0;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            std::thread::park_timeout(left);
            rounds += 1;
            assert!(rounds < 10, "no time passes");
        }
    });
    sim.try_run().unwrap();
}

#[test]
fn reads_of_the_clock_take_no_time_if_they_are_not_too_many() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let begin = Instant::now();
        for _ in 0..30 {
            for _ in 0..50_000 {
                assert_eq!(begin.elapsed(), Duration::ZERO);
            }
            yield_now().await;
        }
    });
    sim.try_run().unwrap();
    assert_eq!(sim.elapsed(), Duration::ZERO);
}

#[test]
fn steps_without_time_between_them_are_told() {
    let sim = Sim::builder().moment_limit(5_000).build();
    sim.client("client", async {
        sleep(secs(2)).await;
        while hint::black_box(true) {
            yield_now().await;
        }
    });
    let text = sim.try_run().unwrap_err().to_string();
    assert!(
        text.starts_with("no time passes: 5000 steps were in one moment."),
        "{text}"
    );
    assert!(text.contains("after 2s of simulated time"), "{text}");

    let sim = Sim::builder().moment_limit(5_000).build();
    sim.client("client", async {
        for _ in 0..10_000 {
            sleep(Duration::from_nanos(1)).await;
        }
    });
    sim.try_run().unwrap();

    fn again(sim: &Sim) {
        sim.after(Duration::ZERO, again);
    }
    let sim = Sim::builder().moment_limit(5_000).build();
    sim.client("client", async { sleep(secs(1)).await });
    sim.after(Duration::ZERO, again);
    let text = sim.try_run().unwrap_err().to_string();
    assert!(text.starts_with("no time passes: 5000 steps"), "{text}");
}

// It is this program once more, in which one test runs that never ends.
fn this_program(test: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args([test, "--exact", "--nocapture"]);
    command.env("WS_SIM_SPINS", "1").output().unwrap()
}

#[test]
fn a_step_without_an_end_ends_the_process_with_the_place() {
    let output = this_program("spins_for_ever_if_it_is_told_to");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        text.contains(r#"host "stuck" does not end a step, with seed 77"#),
        "{text}"
    );
    assert!(text.contains("the_place_that_spins"), "{text}");
}

#[test]
fn spins_for_ever_if_it_is_told_to() {
    #[inline(never)]
    fn the_place_that_spins() {
        while hint::black_box(true) {
            hint::spin_loop();
        }
    }
    if std::env::var_os("WS_SIM_SPINS").is_some() {
        // If nothing ends it, the system does.
        let limit = libc::rlimit {
            rlim_cur: 20,
            rlim_max: 20,
        };
        // SAFETY: the limit is valid for reads.
        let set = unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raw const limit) };
        assert_eq!(set, 0);
        let sim = Sim::builder().seed(77).poll_limit(millis(200)).build();
        sim.client("stuck", async { the_place_that_spins() });
        sim.try_run().unwrap();
    }
}

#[test]
fn a_run_of_many_short_steps_has_no_such_end() {
    let output = this_program("takes_many_steps_if_it_is_told_to");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

#[test]
fn takes_many_steps_if_it_is_told_to() {
    if std::env::var_os("WS_SIM_SPINS").is_some() {
        let sim = Sim::builder().poll_limit(millis(16)).build();
        sim.client("client", async {
            // 100,000 rounds need far more than 16 ms of processor time.
            for _ in 0..100_000 {
                yield_now().await;
            }
        });
        sim.try_run().unwrap();
    }
}

#[test]
fn the_end_of_a_run_ends_its_timer() {
    // Not all systems tell of the timers of a process.
    let timers = || std::fs::read_to_string("/proc/self/timers").unwrap_or_default();
    let count = || timers().matches("ID:").count();
    let before = count();
    for seed in 0..200 {
        let sim = Sim::new(seed);
        sim.client("client", async {});
        sim.try_run().unwrap();
    }
    // Other tests of this process have one each.
    assert!(count() < before + 100, "{before} before");
}

#[test]
fn a_program_keeps_its_handler_of_the_signal() {
    let output = this_program("has_a_handler_if_it_is_told_to");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

#[test]
fn has_a_handler_if_it_is_told_to() {
    extern "C" fn handler(_: libc::c_int) {}
    if std::env::var_os("WS_SIM_SPINS").is_some() {
        let own = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(libc::SIGVTALRM, own) };
        let sim = Sim::builder().poll_limit(millis(16)).build();
        sim.client("client", async { sleep(secs(1)).await });
        sim.try_run().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::signal(libc::SIGVTALRM, own) }, own);
    }
}
