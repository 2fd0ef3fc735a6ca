//! Which states a crash may leave, and which never: syncs, names, lengths, locks and folders.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    fs::{self, File},
    future::pending,
    io::{self, Seek, SeekFrom, Write},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    rc::Rc,
};

use ws::time::sleep;
use ws_sim::{Disk, DiskFaults, Sim, secs};

use super::{SEEDS, crashed, left, with_disk};

fn sync(path: &str) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// What `look` sees after a crash, over all seeds.
fn looks<R: Ord>(
    before: impl AsyncFn() -> io::Result<()> + Clone + 'static,
    look: impl Fn(&Disk) -> R,
) -> BTreeSet<R> {
    let one = |seed| crashed(seed, DiskFaults::default(), before.clone(), &look);
    (0..SEEDS).map(one).collect()
}

/// Writes the file `f`, and makes it durable.
fn write_durably(bytes: &[u8]) -> io::Result<()> {
    fs::write("f", bytes)?;
    sync("f")?;
    sync(".")
}

fn open_again() -> io::Result<File> {
    File::options().write(true).open("f")
}

/// A simulation whose host `n0` runs a program, and its crash after so many seconds.
fn crash_after<F>(seed: u64, seconds: u64, program: impl Fn() -> F + 'static) -> Sim
where
    F: Future<Output = io::Result<()>> + 'static,
{
    let sim = Sim::new(seed);
    sim.host("n0", program);
    sim.client("clock", async move { sleep(secs(seconds + 5)).await });
    sim.after(secs(seconds), |sim| sim.crash("n0"));
    sim
}

#[test]
fn a_rename_without_a_sync_leaves_one_of_the_two_names() {
    let seen = looks(
        async || {
            fs::write("a", "text")?;
            sync("a")?;
            sync(".")?;
            fs::rename("a", "b")
        },
        |disk| (disk.read("a").is_ok(), disk.read("b").is_ok()),
    );
    assert_eq!(seen, BTreeSet::from([(true, false), (false, true)]));
}

#[test]
fn what_is_written_again_after_a_failed_sync_is_kept_by_the_next_one() {
    for seed in 0..SEEDS {
        let sim = Sim::new(seed);
        let faults = sim.clone();
        sim.host("n0", move || {
            let faults = faults.clone();
            async move {
                write_durably(b"....")?;
                let mut file = open_again()?;
                file.write_all(b"text")?;
                let fails = DiskFaults {
                    sync_error_ppm: 1_000_000,
                    ..DiskFaults::default()
                };
                faults.set_disk("n0", fails);
                file.sync_all().unwrap_err();
                faults.set_disk("n0", DiskFaults::default());
                file.rewind()?;
                file.write_all(b"text")?;
                file.sync_all()
            }
        });
        sim.client("clock", async { sleep(secs(9)).await });
        sim.after(secs(5), |sim| sim.crash("n0"));
        sim.try_run().unwrap();
        assert_eq!(sim.disk("n0").read("f").unwrap(), b"text", "seed {seed}");
    }
}

#[test]
#[allow(unsafe_code, reason = "calls of libc")]
fn a_sync_of_everything_keeps_names_and_bytes() {
    let seen = left(DiskFaults::default(), async || {
        fs::write("f", "text")?;
        // SAFETY: it takes nothing.
        unsafe { libc::sync() };
        Ok(())
    });
    assert_eq!(seen, BTreeSet::from([Some(b"text".to_vec())]));
}

#[test]
fn a_sync_of_a_folder_keeps_no_name_of_another_one() {
    let seen = looks(
        async || {
            fs::create_dir("d")?;
            sync(".")?;
            fs::write("d/f", "text")?;
            sync(".")
        },
        |disk| disk.read("d/f").is_ok(),
    );
    assert_eq!(seen, BTreeSet::from([false, true]));
}

#[test]
fn each_write_is_durable_if_the_file_is_opened_so() {
    let seen = left(DiskFaults::default(), async || {
        write_durably(b"....")?;
        let mut options = File::options();
        options.write(true).custom_flags(libc::O_DSYNC);
        options.open("f")?.write_all(b"text")
    });
    assert_eq!(seen, BTreeSet::from([Some(b"text".to_vec())]));
}

#[test]
fn what_was_written_between_may_be_what_is_left() {
    let seen = left(DiskFaults::default(), async || {
        write_durably(b"1")?;
        let mut file = open_again()?;
        file.write_all(b"2")?;
        file.rewind()?;
        file.write_all(b"3")
    });
    let each = [b"1", b"2", b"3"].map(|text| Some(text.to_vec()));
    assert_eq!(seen, BTreeSet::from(each));
}

#[test]
fn a_length_that_was_not_synced_may_be_any_sector_between() {
    let seen = looks(
        async || {
            fs::write("f", "")?;
            sync(".")?;
            fs::write("f", [1; 2000])
        },
        |disk| disk.read("f").unwrap().len(),
    );
    assert!(seen.contains(&512) || seen.contains(&1024), "{seen:?}");
}

#[test]
fn what_is_written_late_is_not_made_durable_by_what_is_old() {
    let left = |seed| {
        let sim = crash_after(seed, 80, || async {
            write_durably(&[b'.'; 2048])?;
            let mut file = open_again()?;
            file.write_all(b"1")?;
            sleep(secs(79)).await;
            file.seek(SeekFrom::Start(1024))?;
            file.write_all(b"2")
        });
        sim.try_run().unwrap();
        let all = sim.disk("n0").read("f").unwrap();
        (all[0], all[1024])
    };
    let seen: BTreeSet<_> = (0..SEEDS).map(left).collect();
    assert_eq!(seen, BTreeSet::from([(b'1', b'.'), (b'1', b'2')]));
}

#[test]
fn a_file_that_is_cut_gives_its_room_back() {
    let faults = DiskFaults {
        capacity: Some(40_960),
        ..DiskFaults::default()
    };
    with_disk(faults, async || {
        for _ in 0..100 {
            fs::write("f", [0; 8192]).unwrap();
        }
    });
}

#[test]
fn a_second_crash_changes_nothing_that_the_first_one_left() {
    for seed in 0..SEEDS {
        let sim = crash_after(seed, 5, || async {
            match fs::metadata("f") {
                Ok(_) => Ok(()),
                Err(_) => fs::write("f", [1; 1000]),
            }
        });
        let seen = Rc::new(RefCell::new(None));
        let (sees, disk) = (seen.clone(), sim.disk("n0"));
        sim.after(secs(6), move |sim| {
            *sees.borrow_mut() = disk.read("f").ok();
            if sees.borrow().is_some() {
                sim.restart("n0");
            }
        });
        sim.after(secs(7), |sim| sim.crash("n0"));
        sim.try_run().unwrap();
        assert_eq!(sim.disk("n0").read("f").ok(), *seen.borrow(), "seed {seed}");
    }
}

#[test]
fn the_parent_of_a_folder_is_the_one_that_has_its_name() {
    for seed in 0..SEEDS {
        let sim = crash_after(seed, 5, || async {
            if fs::metadata("a").is_ok() {
                let at = if fs::metadata("a/d").is_ok() {
                    "a"
                } else {
                    "b"
                };
                let parent = fs::canonicalize(format!("{at}/d/.."))?;
                assert_eq!(parent, fs::canonicalize(at)?);
                return Ok(());
            }
            fs::create_dir_all("a/d")?;
            fs::create_dir("b")?;
            ["a", "b", "."].into_iter().try_for_each(sync)?;
            fs::rename("a/d", "b/d")
        });
        sim.after(secs(6), |sim| sim.restart("n0"));
        sim.try_run().unwrap();
    }
}

#[test]
#[allow(unsafe_code, reason = "calls of libc")]
fn a_crash_ends_the_locks_of_files() {
    let locks = Rc::new(Cell::new(0));
    let counts = locks.clone();
    let sim = Sim::new(1);
    sim.host("n0", move || {
        let counts = counts.clone();
        async move {
            let file = File::options().create(true).append(true).open("f")?;
            file.sync_all()?;
            sync(".")?;
            // SAFETY: it is a descriptor.
            let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
            assert_eq!(locked, 0);
            counts.set(counts.get() + 1);
            sleep(secs(99)).await;
            io::Result::Ok(())
        }
    });
    sim.client("clock", async { sleep(secs(9)).await });
    sim.after(secs(5), |sim| {
        sim.crash_hard("n0");
        sim.restart("n0");
    });
    sim.try_run().unwrap();
    assert_eq!(locks.get(), 2);
}

/// How many of some seeds keep a file of a program that is not synced. `test` acts before the
/// crash.
fn keep_a_file(test: fn(&Disk)) -> usize {
    let keeps = |seed: &u64| {
        let sim = Sim::new(*seed);
        sim.host("n0", || async {
            fs::create_dir("d")?;
            fs::write("d/of_program", "x")?;
            pending::<io::Result<()>>().await
        });
        sim.client("clock", async { sleep(secs(3)).await });
        sim.after(secs(1), move |sim| test(&sim.disk("n0")));
        sim.after(secs(2), |sim| sim.crash("n0"));
        sim.try_run().unwrap();
        sim.disk("n0").read("d/of_program").is_ok()
    };
    (0..60).filter(keeps).count()
}

#[test]
fn what_a_test_writes_is_durable_and_nothing_else() {
    let without = keep_a_file(|_| ());
    assert!((10..50).contains(&without), "{without}");
    let of_another_folder = keep_a_file(|disk| {
        disk.write("/tmp/new/other", "y").unwrap();
        disk.write("other", "y").unwrap();
    });
    assert_eq!(of_another_folder, without);
    // Its folder is durable then, so more is left.
    let beside = keep_a_file(|disk| disk.write("d/other", "y").unwrap());
    assert!((without..60).contains(&beside), "{beside} of {without}");
    for seed in 0..20 {
        let sim = crash_after(seed, 2, || async {
            fs::create_dir("old")?;
            fs::write("old/f", "x")?;
            fs::rename("old", "new")?;
            pending::<io::Result<()>>().await
        });
        sim.after(secs(1), |sim| sim.disk("n0").write("new/f", "y").unwrap());
        sim.try_run().unwrap();
        assert_eq!(sim.disk("n0").read("new/f").unwrap(), b"y");
        assert!(sim.disk("n0").read("old/f").is_err());
    }
}

#[test]
#[allow(unsafe_code, reason = "calls of libc")]
fn a_write_is_durable_if_the_call_says_so() {
    for flags in [libc::RWF_DSYNC, libc::RWF_SYNC] {
        let seen = left(DiskFaults::default(), async move || {
            write_durably(b"....")?;
            let file = open_again()?;
            let list = libc::iovec {
                iov_base: c"text".as_ptr().cast_mut().cast(),
                iov_len: 4,
            };
            // SAFETY: the list has one entry, whose bytes are valid.
            let put = unsafe { libc::pwritev2(file.as_raw_fd(), &list, 1, 0, flags) };
            assert_eq!(put, 4);
            Ok(())
        });
        assert_eq!(seen, BTreeSet::from([Some(b"text".to_vec())]));
    }
}

#[test]
fn a_sync_that_fails_may_have_written_all_the_same() {
    let left = |seed| {
        let sim = Sim::new(seed);
        let faults = sim.clone();
        sim.host("n0", move || {
            let faults = faults.clone();
            async move {
                write_durably(b"....")?;
                open_again()?.write_all(b"text")?;
                let fails = DiskFaults {
                    sync_error_ppm: 1_000_000,
                    ..DiskFaults::default()
                };
                faults.set_disk("n0", fails);
                sync("f").unwrap_err();
                pending::<io::Result<()>>().await
            }
        });
        sim.client("clock", async { sleep(secs(9)).await });
        sim.after(secs(5), |sim| sim.crash("n0"));
        sim.try_run().unwrap();
        sim.disk("n0").read("f").unwrap()
    };
    let seen: BTreeSet<_> = (0..SEEDS).map(left).collect();
    let each = [b"....", b"text"].map(|text| text.to_vec());
    assert_eq!(seen, BTreeSet::from(each));
}

#[test]
fn what_a_test_writes_needs_room_as_well() {
    let sim = Sim::new(1);
    sim.host("n0", pending::<()>);
    let faults = DiskFaults {
        capacity: Some(8_192),
        ..DiskFaults::default()
    };
    sim.set_disk("n0", faults);
    let disk = sim.disk("n0");
    disk.write("a", [0; 8_192]).unwrap();
    let full = disk.write("b", [0; 1]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn a_bit_that_rots_is_wrong_in_what_a_crash_brings_back_too() {
    let wrong = |bytes: &[u8]| {
        let ones = bytes.iter().map(|byte| (byte ^ byte & 0x80).count_ones());
        ones.sum::<u32>()
    };
    for seed in 0..SEEDS {
        let sim = Sim::new(seed);
        sim.host("n0", || async {
            write_durably(&[0; 8])?;
            open_again()?.write_all(&[0x80; 8])?;
            pending::<io::Result<()>>().await
        });
        sim.client("clock", async { sleep(secs(9)).await });
        sim.after(secs(4), |sim| sim.rot("n0", "f"));
        sim.after(secs(5), |sim| sim.crash("n0"));
        sim.try_run().unwrap();
        let left = sim.disk("n0").read("f").unwrap();
        let highest = left.iter().filter(|byte| **byte & 0x80 != 0).count();
        // It was one of the bits that are nought in both, or one of those that differ.
        let is_right = match wrong(&left) {
            1 => [0, 8].contains(&highest),
            _ => [1, 7].contains(&highest),
        };
        assert!(is_right, "seed {seed}: {left:?}");
    }
}

#[test]
fn what_is_removed_or_punched_out_gives_its_room_back() {
    let faults = DiskFaults {
        capacity: Some(40_960),
        ..DiskFaults::default()
    };
    with_disk(faults, async || {
        for _ in 0..5 {
            fs::write("f", [1; 40_960]).unwrap();
            fs::remove_file("f").unwrap();
        }
    });
    with_disk(faults, async || {
        fs::write("f", [1; 40_960]).unwrap();
        punch("f", 4_096, 8_192);
        fs::write("g", [1; 8_192]).unwrap();
    });
}

#[allow(unsafe_code, reason = "a call of libc")]
fn punch(path: &str, at: i64, len: i64) {
    let file = File::options().write(true).open(path).unwrap();
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: it takes no pointers.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), mode, at, len) };
    assert_eq!(done, 0);
}

#[test]
fn what_a_test_writes_is_whole_or_an_error() {
    let sim = Sim::new(1);
    sim.host("n0", pending::<()>);
    let faults = DiskFaults {
        capacity: Some(8_192),
        ..DiskFaults::default()
    };
    sim.set_disk("n0", faults);
    let long = sim.disk("n0").write("a", [0; 9_000]).unwrap_err();
    assert_eq!(long.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn sectors_are_torn_as_often_as_it_is_said() {
    let faults = DiskFaults {
        tear_ppm: 1_000_000,
        ..DiskFaults::default()
    };
    let is_torn = |seed: &u64| {
        let write = async || {
            write_durably(&[1; 512])?;
            open_again()?.write_all(&[2; 512])
        };
        let left = crashed(*seed, faults, write, |disk| disk.read("f").unwrap());
        assert!(left.is_sorted_by(|one, next| one >= next), "{left:?}");
        left.contains(&1) && left.contains(&2)
    };
    // One that is torn before its first byte is whole.
    let torn = (0..SEEDS).filter(is_torn).count();
    assert!(torn + 3 > SEEDS as usize, "{torn}");
}
