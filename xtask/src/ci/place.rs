//! Where the sections work, the logs that they keep, and what they leave out.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use crate::{Failure, cargo, process, results::Results, tree::at};

/// The variable that names the file of skips, for the tests as well.
const SKIPS: &str = "WS_SKIPS";

pub(super) struct Place {
    pub(super) root: PathBuf,
    pub(super) target: PathBuf,
    logs: PathBuf,
}

impl Place {
    pub(super) fn new(root: &Path) -> Self {
        let target = cargo::target(root);
        Self {
            root: root.to_path_buf(),
            logs: target.join("ci"),
            target,
        }
    }

    /// Takes away the logs of an earlier run, which would be counted.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        if self.logs.exists() {
            fs::remove_dir_all(&self.logs).map_err(at(&self.logs))?;
        }
        fs::create_dir_all(&self.logs).map_err(at(&self.logs))
    }

    /// The environment of a section.
    pub(super) fn environment(&self) -> [(&'static str, OsString); 6] {
        [
            ("CARGO_TERM_COLOR", "never".into()),
            // Servers that are missing, and instructions and messages that cannot be compared since
            // the compiler is not theirs, are failures, and not left out with a word.
            ("CI", "true".into()),
            // Nearly all of it is built once, and nobody steps through it. Without these two the
            // target folder takes several times the disk.
            ("CARGO_INCREMENTAL", "0".into()),
            ("CARGO_PROFILE_DEV_DEBUG", "line-tables-only".into()),
            // A test that hangs is given five minutes instead of one: other work may take the cores
            // away for a part of them.
            ("WS_TEST_PATIENCE", "5".into()),
            (SKIPS, self.log("skips").into()),
        ]
    }

    /// Where the log of that name is.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    /// What a log says. Nothing if it is not there.
    pub(super) fn read(&self, name: &str) -> Result<String, Failure> {
        let path = self.log(name);
        match fs::read(&path) {
            // A test may print any bytes.
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// Runs cargo with these words.
    pub(super) fn cargo(&self, words: &str) -> Result<(), Failure> {
        cargo::run(&self.root, words)
    }

    /// Runs tests, with all that they write in a log as well. Fails if there were none.
    pub(super) fn tests(
        &self,
        name: &str,
        commands: impl IntoIterator<Item = Command>,
    ) -> Result<(), Failure> {
        let path = self.log(name);
        let log = File::create(&path).map_err(at(&path))?;
        for command in commands {
            tee(command, &log)?;
        }
        if Results::of(&self.read(name)?).passed == 0 {
            return Err(format!("no test ran; see {}", path.display()));
        }
        Ok(())
    }
}

/// Runs a command with its output and its errors on our output and in a log.
fn tee(mut command: Command, log: &File) -> Result<(), Failure> {
    let pipe = |error: io::Error| format!("a pipe: {error}");
    let (reader, writer) = io::pipe().map_err(pipe)?;
    command.stdout(writer.try_clone().map_err(pipe)?);
    command.stderr(writer);
    let log = log.try_clone().map_err(pipe)?;
    let copier = thread::spawn(|| copy(BufReader::new(reader), log));
    let ran = process::run(&mut command);
    // The command holds the last end of the pipe that writes.
    drop(command);
    let copied = copier.join().expect("copying does not panic");
    copied.map_err(pipe).and(ran)
}

fn copy(mut reader: impl BufRead, mut log: File) -> io::Result<()> {
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        log.write_all(&line)?;
        print!("{}", String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(())
}

/// Says what this run leaves out, and why. The end of the run repeats it.
pub(crate) fn skipped(why: &str) -> Result<(), Failure> {
    let line = format!("SKIPPED: {why}");
    println!("{line}");
    let Some(path) = env::var_os(SKIPS).map(PathBuf::from) else {
        return Ok(());
    };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| writeln!(file, "{line}"))
        .map_err(at(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place below the folder of temporary files, which is gone with it.
    struct Temporary(Place);

    impl Temporary {
        fn new(name: &str) -> Self {
            let root = env::temp_dir().join(format!("ws-xtask-{name}-{}", std::process::id()));
            let place = Place {
                target: root.join("target"),
                logs: root.join("logs"),
                root,
            };
            place.clear().unwrap();
            Self(place)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.root);
        }
    }

    fn says(words: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", words]);
        command
    }

    #[test]
    fn a_log_has_all_that_the_tests_of_a_section_write() {
        let Temporary(place) = &Temporary::new("tests");
        let first = says("echo 'test result: ok. 2 passed; 0 failed' >&2");
        let second = says("echo 'test result: ok. 3 passed; 0 failed'");
        place.tests("planted", [first, second]).unwrap();
        let log = place.read("planted").unwrap();
        assert_eq!(Results::of(&log).passed, 5);
        place.clear().unwrap();
        assert_eq!(place.read("planted").unwrap(), "");
    }

    #[test]
    fn no_test_is_a_failure_and_so_is_a_test_that_fails() {
        let Temporary(place) = &Temporary::new("no-test");
        let nothing = says("echo 'test result: ok. 0 passed; 0 failed'");
        let failure = place.tests("nothing", [nothing]).unwrap_err();
        assert!(failure.starts_with("no test ran"), "{failure}");
        let fails = says("echo 'test result: FAILED. 2 passed; 1 failed'; exit 101");
        let failure = place.tests("fails", [fails]).unwrap_err();
        assert!(failure.contains("exit status: 101"), "{failure}");
    }
}
