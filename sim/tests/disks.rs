//! What a crash leaves of a disk, and what a disk does wrong.
#![cfg(target_os = "linux")]

#[path = "disks/crashes.rs"]
mod crashes;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    io::{self, ErrorKind},
    rc::Rc,
    time::Duration,
};

use ws::{
    fs::{self, File},
    io::AsyncWriteExt,
    time::sleep,
};
use ws_sim::{DiskFaults, Sim, network::Latency};

const SEEDS: u64 = 60;

/// Runs `before` on a host that crashes after it, and gives what its disk has then.
fn crashed<R>(
    seed: u64,
    faults: DiskFaults,
    before: impl AsyncFn() -> io::Result<()> + Clone + 'static,
    after: impl FnOnce(&ws_sim::Disk) -> R,
) -> R {
    let sim = Sim::new(seed);
    sim.host("n0", move || {
        let before = before.clone();
        async move { before().await }
    });
    sim.client("clock", async { sleep(Duration::from_secs(10)).await });
    sim.after(Duration::from_secs(5), |sim| sim.crash("n0"));
    sim.set_disk("n0", faults);
    sim.try_run().unwrap();
    after(&sim.disk("n0"))
}

/// What is left of the file `f` after a crash, over all seeds.
fn left(
    faults: DiskFaults,
    before: impl AsyncFn() -> io::Result<()> + Clone + 'static,
) -> BTreeSet<Option<Vec<u8>>> {
    let seeds = 0..SEEDS;
    seeds
        .map(|seed| crashed(seed, faults, before.clone(), |disk| disk.read("f").ok()))
        .collect()
}

async fn sync_folder() -> io::Result<()> {
    File::open(".").await?.sync_all().await
}

#[test]
fn a_write_without_a_sync_is_lost_by_some_seed() {
    let seen = left(DiskFaults::default(), async || fs::write("f", "text").await);
    assert!(seen.contains(&None), "the name is lost: {seen:?}");
    assert!(
        seen.contains(&Some(b"text".to_vec())),
        "all is kept: {seen:?}"
    );
    assert!(
        seen.contains(&Some(b"".to_vec())),
        "the length is lost: {seen:?}"
    );
    assert!(
        seen.contains(&Some(vec![0; 4])),
        "the bytes are lost: {seen:?}"
    );
}

async fn write_durably(text: &str) -> io::Result<()> {
    let mut file = File::create("f").await?;
    file.write_all(text.as_bytes()).await?;
    file.sync_all().await
}

#[test]
fn a_write_with_a_sync_is_lost_by_no_seed() {
    let seen = left(DiskFaults::default(), async || {
        write_durably("text").await?;
        sync_folder().await
    });
    assert_eq!(seen, BTreeSet::from([Some(b"text".to_vec())]));
}

#[test]
fn a_sync_of_a_file_alone_keeps_its_name_if_that_is_asked_for() {
    let write = async || write_durably("text").await;
    let seen = left(DiskFaults::default(), write);
    assert_eq!(seen, BTreeSet::from([None, Some(b"text".to_vec())]));
    let faults = DiskFaults {
        sync_keeps_names: true,
        ..DiskFaults::default()
    };
    assert_eq!(
        left(faults, write),
        BTreeSet::from([Some(b"text".to_vec())])
    );
}

#[test]
fn a_rename_is_atomic_and_durable_after_a_sync_of_its_folder() {
    let replace = async |syncs: bool| {
        write_durably("old").await?;
        sync_folder().await?;
        let mut file = File::create("new").await?;
        file.write_all(b"new").await?;
        file.sync_all().await?;
        fs::rename("new", "f").await?;
        if syncs { sync_folder().await } else { Ok(()) }
    };
    let (old, new) = (Some(b"old".to_vec()), Some(b"new".to_vec()));
    let seen = left(DiskFaults::default(), async move || replace(false).await);
    assert_eq!(seen, BTreeSet::from([old, new.clone()]));
    let seen = left(DiskFaults::default(), async move || replace(true).await);
    assert_eq!(seen, BTreeSet::from([new]));
}

#[test]
fn what_is_older_than_half_a_minute_is_durable() {
    for seed in 0..SEEDS {
        let sim = Sim::new(seed);
        sim.host("n0", || fs::write("f", "text"));
        sim.client("clock", async { sleep(Duration::from_secs(60)).await });
        sim.after(Duration::from_secs(40), |sim| sim.crash("n0"));
        sim.try_run().unwrap();
        assert_eq!(sim.disk("n0").read("f").unwrap(), b"text", "seed {seed}");
    }
}

/// Of a file of 8 sectors of ones that are written over by twos, without a sync.
fn overwritten(tear_ppm: u32) -> BTreeSet<Option<Vec<u8>>> {
    let faults = DiskFaults {
        tear_ppm,
        ..DiskFaults::default()
    };
    left(faults, async || {
        write_durably(&"1".repeat(4096)).await?;
        sync_folder().await?;
        let mut file = fs::OpenOptions::new().write(true).open("f").await?;
        file.write_all(&[b'2'; 4096]).await?;
        file.flush().await
    })
}

#[test]
fn sectors_are_lost_one_by_one_and_torn_if_that_is_asked_for() {
    let whole = |bytes: &[u8]| bytes.chunks(512).all(|s| s.iter().all(|b| *b == s[0]));
    let seen = overwritten(0);
    assert!(seen.iter().flatten().all(|bytes| whole(bytes)));
    for all in [b'1', b'2'] {
        assert!(seen.contains(&Some(vec![all; 4096])), "none or all of them");
    }
    assert!(seen.len() > 10, "and some of them: {}", seen.len());
    let seen = overwritten(500_000);
    let torn = seen.iter().flatten().filter(|bytes| !whole(bytes)).count();
    assert!(torn > 10, "{torn}");
}

#[test]
fn of_two_changes_of_names_the_second_is_not_kept_alone() {
    let seen: BTreeSet<Vec<String>> = (0..SEEDS)
        .map(|seed| {
            let make = async || {
                fs::create_dir("d").await?;
                fs::write("d/one", "").await?;
                fs::write("two", "").await
            };
            crashed(seed, DiskFaults::default(), make, |disk| {
                let files = disk.files();
                files
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect()
            })
        })
        .collect();
    let one = "/home/host/d/one".to_owned();
    let both = vec![one.clone(), "/home/host/two".to_owned()];
    assert_eq!(seen, BTreeSet::from([vec![], vec![one], both]));
}

#[test]
fn a_restarted_program_begins_with_what_is_left() {
    let sim = Sim::new(3);
    sim.host("n0", || async {
        let count = fs::read_to_string("count")
            .await
            .map_or(0, |text| text.parse().unwrap());
        let mut file = File::create("next").await?;
        file.write_all((count + 1_u32).to_string().as_bytes())
            .await?;
        file.sync_all().await?;
        fs::rename("next", "count").await?;
        sync_folder().await
    });
    sim.client("clock", async { sleep(Duration::from_secs(20)).await });
    for seconds in [1, 2, 3] {
        sim.after(Duration::from_secs(seconds), |sim| sim.restart("n0"));
    }
    sim.try_run().unwrap();
    assert_eq!(sim.disk("n0").read("count").unwrap(), b"4");
}

// A buffer that is written when it is dropped comes too late, and so does a kept file.
#[test]
fn a_crashed_program_writes_no_more() {
    let kept = Rc::new(RefCell::new(None));
    let keeps = kept.clone();
    let sim = Sim::new(3);
    sim.host("n0", move || {
        let keeps = keeps.clone();
        async move {
            use std::io::Write;

            let mut buffer = std::io::BufWriter::new(std::fs::File::create("buffered")?);
            buffer.write_all(b"x")?;
            *keeps.borrow_mut() = Some(std::fs::File::create("kept")?);
            std::fs::File::open(".")?.sync_all()?;
            sleep(Duration::from_secs(100)).await;
            drop(buffer);
            io::Result::Ok(())
        }
    });
    sim.client("clock", async { sleep(Duration::from_secs(3)).await });
    sim.after(Duration::from_secs(1), move |sim| {
        sim.crash("n0");
        sim.after(Duration::from_secs(1), move |_| {
            use std::io::Write;

            let mut file: std::fs::File = kept.take().expect("it was opened");
            let error = file.write(b"late").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        });
    });
    sim.try_run().unwrap();
    for file in ["buffered", "kept"] {
        assert_eq!(sim.disk("n0").read(file).unwrap(), b"", "{file}");
    }
}

#[test]
fn a_file_that_was_cut_is_whole_or_cut() {
    let seen = left(DiskFaults::default(), async || {
        write_durably(&"1".repeat(4096)).await?;
        sync_folder().await?;
        let file = fs::OpenOptions::new().write(true).open("f").await?;
        file.set_len(100).await
    });
    let both = BTreeSet::from([4096, 100].map(|len| Some(vec![b'1'; len])));
    assert!(seen == both, "{} kinds", seen.len());
}

#[test]
fn what_a_crash_cut_off_does_not_come_back() {
    for seed in 0..SEEDS {
        let sim = Sim::new(seed);
        sim.host("n0", || async {
            if let Ok(bytes) = fs::read("f").await {
                let file = fs::OpenOptions::new().write(true).open("f").await?;
                file.set_len(400).await?;
                let longer = fs::read("f").await?;
                assert!(longer[bytes.len()..].iter().all(|byte| *byte == 0));
                return Ok(());
            }
            write_durably(&"1".repeat(100)).await?;
            sync_folder().await?;
            fs::write("f", "2".repeat(300)).await
        });
        sim.client("clock", async { sleep(Duration::from_secs(3)).await });
        sim.after(Duration::from_secs(1), |sim| sim.restart("n0"));
        sim.try_run().unwrap();
    }
}

#[test]
fn a_file_that_was_open_before_a_restart_is_none_after_it() {
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keeps = kept.clone();
    let sim = Sim::new(3);
    sim.host("n0", move || {
        keeps.borrow_mut().push(std::fs::File::create("f").unwrap());
        std::fs::File::open(".").unwrap().sync_all().unwrap();
        std::future::pending::<()>()
    });
    sim.client("clock", async { sleep(Duration::from_secs(3)).await });
    sim.after(Duration::from_secs(1), |sim| sim.restart("n0"));
    sim.after(Duration::from_secs(2), move |_| {
        use std::io::Write;

        let mut files = kept.borrow_mut();
        let error = files[0].write(b"late").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        files[1].write_all(b"in time").unwrap();
    });
    sim.try_run().unwrap();
}

#[test]
fn a_failed_sync_is_not_made_good_by_the_next_one() {
    let seen = left(DiskFaults::default(), async || {
        write_durably("old").await?;
        sync_folder().await
    });
    assert_eq!(seen.len(), 1);
    let mut lost = 0;
    for seed in 0..SEEDS {
        let sim = Sim::new(seed);
        let faults = sim.clone();
        sim.host("n0", move || {
            let faults = faults.clone();
            async move {
                write_durably("old").await?;
                sync_folder().await?;
                let mut file = fs::OpenOptions::new().write(true).open("f").await?;
                file.write_all(b"new").await?;
                file.flush().await?;
                let fails = DiskFaults {
                    sync_error_ppm: 1_000_000,
                    ..DiskFaults::default()
                };
                faults.set_disk("n0", fails);
                let error = file.sync_all().await.unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EIO));
                faults.set_disk("n0", DiskFaults::default());
                file.sync_all().await?;
                assert_eq!(fs::read("f").await?, b"new", "the cache has it");
                io::Result::Ok(())
            }
        });
        sim.client("clock", async { sleep(Duration::from_secs(10)).await });
        sim.after(Duration::from_secs(5), |sim| sim.crash("n0"));
        sim.try_run().unwrap();
        lost += u32::from(sim.disk("n0").read("f").unwrap() == b"old");
    }
    assert!((10..50).contains(&lost), "{lost}");
}

/// Runs a program on a host whose disk has faults.
fn with_disk(faults: DiskFaults, program: impl AsyncFnOnce() + 'static) -> Sim {
    let sim = Sim::new(5);
    sim.client("n0", async move { program().await });
    sim.set_disk("n0", faults);
    sim.try_run().unwrap();
    sim
}

#[test]
fn a_full_disk_takes_a_part_and_then_none() {
    let faults = DiskFaults {
        capacity: Some(3 * 4096),
        ..DiskFaults::default()
    };
    with_disk(faults, async || {
        use std::{io::Write, os::unix::fs::FileExt};

        let mut file = std::fs::File::create("f").unwrap();
        assert_eq!(file.write(&[1; 20_000]).unwrap(), 3 * 4096);
        let full = file.write(b"x").unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        file.write_at(b"y", 5)
            .expect("what is there can be written over");
        let full = std::fs::write("g", "z").unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        file.set_len(4096).unwrap();
        std::fs::write("g", "z").expect("there is room again");
        drop(file);
        std::fs::remove_file("f").unwrap();
        std::fs::write("h", [0; 8192]).expect("a removed file gives its pages back");
    });
}

#[test]
fn reads_writes_and_syncs_fail_at_their_rates() {
    let faults = DiskFaults {
        read_error_ppm: 200_000,
        write_error_ppm: 400_000,
        sync_error_ppm: 600_000,
        ..DiskFaults::default()
    };
    with_disk(faults, async || {
        use std::os::unix::fs::FileExt;

        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open("f");
        let file = file.unwrap();
        let mut fails = [0; 3];
        for _ in 0..1_000 {
            let results = [
                file.read_at(&mut [0], 0).map(drop),
                file.write_at(b"x", 0).map(drop),
                file.sync_all(),
            ];
            for (count, result) in fails.iter_mut().zip(results) {
                if let Err(error) = result {
                    assert_eq!(error.raw_os_error(), Some(libc::EIO));
                    *count += 1;
                }
            }
        }
        let rates = [150..250, 350..450, 550..650];
        assert!(
            fails
                .iter()
                .zip(rates)
                .all(|(count, rate)| rate.contains(count)),
            "{fails:?}"
        );
    });
}

#[test]
fn rot_turns_one_bit_for_good() {
    let sim = Sim::new(5);
    let (first, second) = (
        Rc::new(RefCell::new(Vec::new())),
        Rc::new(RefCell::new(Vec::new())),
    );
    let (sees, sees_later) = (first.clone(), second.clone());
    sim.host("n0", || async { io::Result::Ok(()) });
    sim.client("clock", async { sleep(Duration::from_secs(9)).await });
    let disk = sim.disk("n0");
    disk.write("f", [0; 1_000]).unwrap();
    sim.after(Duration::from_secs(1), move |sim| {
        sim.rot("n0", "f");
        *sees.borrow_mut() = sim.disk("n0").read("f").unwrap();
        sim.crash("n0");
    });
    sim.after(Duration::from_secs(2), move |sim| {
        *sees_later.borrow_mut() = sim.disk("n0").read("f").unwrap();
    });
    sim.try_run().unwrap();
    let bits = first
        .borrow()
        .iter()
        .map(|byte| byte.count_ones())
        .sum::<u32>();
    assert_eq!(bits, 1);
    assert_eq!(first, second, "after a crash");
    assert!(disk.rot("nothing").is_err());
}

#[test]
fn a_slow_disk_takes_its_time() {
    let faults = DiskFaults {
        latency: Latency::Constant(1_000_000),
        sync_latency: Latency::Constant(10_000_000),
        ..DiskFaults::default()
    };
    let sim = with_disk(faults, async || {
        let begin = ws::time::Instant::now();
        let file = File::create("f").await.unwrap();
        file.sync_all().await.unwrap();
        assert_eq!(begin.elapsed(), Duration::from_millis(11));
    });
    assert_eq!(sim.elapsed(), Duration::from_millis(11));
}

#[test]
fn a_slow_disk_holds_up_nobody_else() {
    let sync_latency = Latency::Constant(1_000_000_000);
    let faults = DiskFaults {
        sync_latency,
        ..DiskFaults::default()
    };
    let sim = with_disk(faults, async || {
        let begin = ws::time::Instant::now();
        let slow = ws::spawn(async { write_durably("text").await });
        let sleeps = ws::spawn_blocking(|| {
            let begin = std::time::Instant::now();
            std::thread::sleep(Duration::from_millis(300));
            std::thread::sleep(Duration::from_millis(400));
            begin.elapsed()
        });
        for tick in 1..=100 {
            sleep(Duration::from_millis(5)).await;
            assert_eq!(begin.elapsed(), Duration::from_millis(5 * tick));
        }
        assert!(!slow.is_finished() && !sleeps.is_finished());
        assert_eq!(sleeps.await.unwrap(), Duration::from_millis(700));
        assert_eq!(begin.elapsed(), Duration::from_millis(700));
        slow.await.unwrap().unwrap();
        assert!(begin.elapsed() > Duration::from_secs(1));
    });
    assert!(sim.elapsed() < Duration::from_millis(1_001));
}

#[test]
fn a_call_that_does_not_run_elsewhere_holds_up_its_host() {
    let latency = Latency::Constant(50_000_000);
    let sim = with_disk(
        DiskFaults {
            latency,
            ..DiskFaults::default()
        },
        async || {
            let begin = ws::time::Instant::now();
            let other = ws::spawn(sleep(Duration::from_millis(10)));
            std::fs::create_dir("d").unwrap();
            other.await.unwrap();
            assert_eq!(begin.elapsed(), Duration::from_millis(50));
        },
    );
    assert_eq!(sim.elapsed(), Duration::from_millis(50));
}

#[test]
fn two_runs_of_a_seed_are_the_same() {
    let run = |seed: u64| {
        let sim = Sim::new(seed);
        sim.host("n0", || async {
            for n in 0..20 {
                fs::write(format!("f{n}"), vec![n; 3_000]).await?;
                sleep(Duration::from_millis(10)).await;
            }
            io::Result::Ok(())
        });
        sim.client("clock", async { sleep(Duration::from_secs(1)).await });
        let crash = Duration::from_micros(sim.below(200_000));
        sim.after(crash, |sim| sim.restart("n0"));
        sim.set_disk(
            "n0",
            DiskFaults {
                tear_ppm: 100_000,
                ..DiskFaults::default()
            },
        );
        sim.try_run().unwrap();
        let disk = sim.disk("n0");
        let files = disk.files();
        let contents: Vec<_> = files.iter().map(|path| disk.read(path).unwrap()).collect();
        (sim.digest(), files, contents)
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    let digests: BTreeSet<u64> = (0..20).map(|seed| run(seed).0).collect();
    assert_eq!(digests.len(), 20);
}

#[test]
fn the_digest_covers_what_a_disk_draws() {
    let run = |rots: bool| {
        let sim = Sim::new(1);
        sim.client("n0", async { sleep(Duration::from_secs(2)).await });
        sim.disk("n0").write("f", "text").unwrap();
        sim.after(Duration::from_secs(1), move |sim| {
            if rots {
                sim.rot("n0", "f");
            }
        });
        sim.try_run().unwrap();
        sim.digest()
    };
    assert_eq!(run(true), run(true));
    assert_ne!(run(true), run(false));
}

#[test]
fn what_the_system_has_can_be_read_and_not_written() {
    let seen = Rc::new(Cell::new(0));
    let sees = seen.clone();
    let sim = Sim::new(1);
    sim.client("n0", async move {
        let status = fs::read_to_string("/proc/self/status").await?;
        assert!(status.contains("Pid:"));
        sees.set(fs::read_dir("/proc/self").await.is_ok().into());
        let refused = fs::write("/etc/of-no-use", "x").await.unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
        fs::write("/dev/null", "x").await?;
        assert!(fs::metadata("/usr").await?.is_dir());
        let outside = fs::metadata(env!("CARGO_MANIFEST_DIR")).await.unwrap_err();
        assert_eq!(outside.kind(), ErrorKind::NotFound);
        assert_eq!(std::env::current_dir()?, std::path::Path::new("/home/host"));
        std::fs::create_dir("d")?;
        std::env::set_current_dir("d")?;
        std::fs::write("f", "x")?;
        assert_eq!(fs::read("/home/host/d/f").await?, b"x");
        let program = std::env::current_exe()?;
        assert!(fs::read(program).await?.starts_with(b"\x7fELF"));
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
    assert_eq!(seen.get(), 1);
    assert_ne!(
        std::env::current_dir().unwrap(),
        std::path::Path::new("/home/host")
    );
}
