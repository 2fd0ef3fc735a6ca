//! Recordings that are written to files when something goes wrong: the program that failed at night
//! is seen in the morning.
//!
//! A thread of its own writes each one, since neither the monitor nor a worker may wait for a disk.
//! There is one at a time, and one a second at most. What is asked for meanwhile is left out: it
//! would show the same moments. The end of the runtime joins that thread, unless it ends in the
//! background; and a process that is aborted waits for nobody.
//!
//! A file gets its name when it is whole. So whoever finds one can read it, also if the process was
//! killed in the middle.

use std::{
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed as StdRelaxed},
    time::{SystemTime, UNIX_EPOCH},
};

use super::{Shared, state::snapshot_files::Why};
use crate::{
    permit::phase::ShutdownEnv,
    sync::{Arc, thread},
};

/// Numbers of the files of this process: its runtimes may write into one folder.
static WRITTEN: AtomicU64 = AtomicU64::new(1);

/// The most characters of a reason in a file's name.
const REASON_MAX: usize = 40;

impl Shared {
    /// Where snapshots are written to, if a folder is set.
    pub(crate) fn snapshot_folder(&self) -> Option<&Path> {
        let config = self.telling.snapshots.config.as_ref()?;
        Some(&config.dir)
    }

    /// Has a recording written to a file. Whether that has begun.
    pub(crate) fn snapshot(&self, why: Why<'_>) -> bool {
        let files = &self.telling.snapshots;
        // The end joins workers and monitor before it looks for the last time whether there is a
        // thread to join. It does not wait for others that ask.
        let is_asked = !matches!(why, Why::Stall | Why::Panic);
        let too_late = is_asked && self.end.phase.is_closing();
        if too_late {
            return false;
        }
        let Some(config) = files.begin(why) else {
            return false;
        };
        let reason = match why {
            Why::Stall => "stall",
            Why::Panic => "panic",
            #[cfg(unix)]
            Why::Signal => "signal",
            Why::Asked(reason) => reason,
        };
        let path = config.dir.join(file_name(reason));
        let shared = self.strong();
        let keep = config.keep;
        let builder = thread::Builder::new().name(format!("{}-snap", self.config.name));
        let started = self.start(builder, move || {
            // A panic of the writer is none of the runtime's: it is not to write for ever.
            let over = Over(&shared);
            match write(&shared, &path) {
                Ok(()) => shared.keep(path, keep),
                Err(error) => shared.cannot_write(&path, &error),
            }
            drop(over);
            shared.join_the_one_before();
        });
        if let Err(error) = &started {
            files.written.lock().writes = false;
            self.cannot_write(&config.dir, error);
        }
        started.is_ok()
    }

    /// Enters a file that was written, and removes those that are too many.
    fn keep(&self, path: PathBuf, keep: usize) {
        let mut written = self.telling.snapshots.written.lock();
        written.files.push_back(path);
        let too_many = written.files.len().saturating_sub(keep);
        let old: Vec<_> = written.files.drain(..too_many).collect();
        drop(written);
        for path in old {
            // Somebody else may have removed it.
            let _ = fs::remove_file(path);
        }
    }

    fn cannot_write(&self, path: &Path, error: &io::Error) {
        if self.telling.snapshots.errors.passes() {
            let path = path.display();
            // With a limit of its own: the report of the panic or stall that is to be recorded
            // comes at the same moment, and must not be the line that is left out.
            self.telling.reports.tell_limited(
                || tracing::error!(%error, %path, "a recording could not be written"),
                format_args!("a recording could not be written to {path}: {error}"),
            );
        }
    }
}

/// The thread that writes does no more.
struct Over<'a>(&'a Arc<Shared>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.telling.snapshots.written.lock().writes = false;
    }
}

fn file_name(reason: &str) -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    // In a container each process may have the same number.
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.unwrap_or_default().as_secs();
    let number = WRITTEN.fetch_add(1, StdRelaxed);
    let plain = |c: char| if c.is_alphanumeric() { c } else { '-' };
    let reason: String = reason.chars().take(REASON_MAX).map(plain).collect();
    let pid = process::id();
    format!("{program}-{pid}-{seconds}-{number:04}-{reason}.pftrace")
}

fn write(shared: &Shared, path: &Path) -> io::Result<()> {
    let dir = path.parent().expect("it is in the folder");
    fs::create_dir_all(dir)?;
    let part = path.with_extension("part");
    let file = File::create(&part)?;
    let written = shared.write_snapshot(BufWriter::new(file));
    let written = written.and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        runtime::{Builder, Runtime},
        sched::{
            shutdown::tests::reported,
            state::snapshot_files::{SnapshotFiles, Snapshots},
        },
        throttle::REPORT_EVERY,
    };

    /// A runtime, and a folder of its own that goes at the end.
    struct InFolder {
        runtime: Runtime,
        dir: PathBuf,
    }

    impl InFolder {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("ws-snaps-{}-{name}", process::id()));
            fs::create_dir_all(&dir).unwrap();
            let builder = Builder::new().workers(1).snapshots(Snapshots::to(&dir));
            let runtime = builder.build().unwrap();
            Self { runtime, dir }
        }

        fn shared(&self) -> &Shared {
            self.runtime.handle().shared()
        }

        /// The names of what is there.
        fn names(&self) -> Vec<String> {
            let files = fs::read_dir(&self.dir).unwrap();
            let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> = names.collect();
            names.sort_unstable();
            names
        }
    }

    impl Drop for InFolder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.dir).unwrap();
        }
    }

    fn now() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.unwrap().as_secs()
    }

    #[test]
    fn a_name_has_the_program_the_process_the_seconds_and_a_number() {
        let before = now();
        let names = [(); 2].map(|()| file_name("of a test"));
        let after = now();
        let program = crate::recorder::program();
        // On Windows, without `.exe`.
        let program = Path::new(&program).file_stem().unwrap().display();
        let start = format!("{program}-{}-", process::id());
        let numbers = names.map(|name| {
            let rest = name.strip_prefix(&start);
            let rest = rest.and_then(|rest| rest.strip_suffix("-of-a-test.pftrace"));
            let (seconds, number) = rest.and_then(|rest| rest.split_once('-')).expect(&name);
            assert!(
                (before..=after).contains(&seconds.parse().unwrap()),
                "{name}"
            );
            // The names are in the order of their numbers.
            assert_eq!(number.len(), 4, "{name}");
            number.parse::<u64>().unwrap()
        });
        assert!(numbers[0] < numbers[1], "{numbers:?}");
    }

    // No file system takes a name of 300 characters.
    #[test]
    fn a_long_reason_is_cut() {
        let folder = InFolder::new("long");
        let name = file_name(&"é".repeat(300));
        let end = format!("-{}.pftrace", "é".repeat(REASON_MAX));
        assert!(name.ends_with(&end), "{name}");
        write(folder.shared(), &folder.dir.join(&name)).unwrap();
        assert_eq!(folder.names(), [name]);
    }

    // A folder has that name.
    #[test]
    fn nothing_is_left_of_a_file_that_gets_no_name() {
        let folder = InFolder::new("part");
        let path = folder.dir.join("taken.pftrace");
        fs::create_dir(&path).unwrap();
        write(folder.shared(), &path).unwrap_err();
        assert_eq!(folder.names(), ["taken.pftrace"]);
    }

    #[test]
    fn eight_are_kept_by_default() {
        let folder = InFolder::new("eight");
        let config = folder.shared().telling.snapshots.config.as_ref().unwrap();
        for number in 1..=9 {
            let path = folder.dir.join(number.to_string());
            File::create(&path).unwrap();
            folder.shared().keep(path, config.keep);
        }
        assert_eq!(folder.names(), ["2", "3", "4", "5", "6", "7", "8", "9"]);
    }

    #[test]
    fn none_is_begun_while_another_is_written() {
        let files = SnapshotFiles::new(Some(Snapshots::to("anywhere")));
        files.written.lock().writes = true;
        assert!(files.begin(Why::Stall).is_none());
        files.written.lock().writes = false;
        assert!(files.begin(Why::Stall).is_some());
        assert!(files.written.lock().writes);
    }

    #[test]
    fn failures_are_told_once_a_second() {
        let folder = InFolder::new("failures");
        let fails = |name| {
            let error = io::Error::other("no room");
            folder.shared().cannot_write(Path::new(name), &error);
        };
        loop {
            let begin = std::time::Instant::now();
            let lines = reported(|| ["first", "second"].into_iter().for_each(fails));
            // Else this thread was off its core for too long: once more.
            if begin.elapsed() < REPORT_EVERY {
                // What was told at the last try may hold back the first one as well.
                assert!(lines.len() <= 1, "{lines:?}");
                if let [line] = &lines[..] {
                    assert!(line.starts_with("ERROR "), "{line}");
                    assert!(line.contains("error=no room path=first"), "{line}");
                    return;
                }
            }
        }
    }
}
