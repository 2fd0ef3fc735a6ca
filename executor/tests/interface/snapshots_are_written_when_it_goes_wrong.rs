//! Recordings in files: when they are written, what they are called, how many there are.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use ws_executor::{
    runtime::{Builder, Runtime, Sysmon},
    trace::Snapshots,
};

/// A folder that is not there yet, and goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir = env::temp_dir().join(format!("ws-snapshots-{}-{name}", process::id()));
        Self(dir.join("below"))
    }

    /// The reasons in the names of its files, in the order of their numbers.
    fn reasons(&self) -> Vec<String> {
        let Ok(files) = fs::read_dir(&self.0) else {
            return Vec::new();
        };
        let mut names: Vec<_> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            // It has that end until it is whole.
            .filter(|name| !name.ends_with(".part"))
            .collect();
        names.sort_unstable();
        let reason = |name: String| {
            let of_process = format!("-{}-", process::id());
            let (program, rest) = name.split_once(&of_process).expect("its process");
            assert!(program.starts_with("interface"), "{name}");
            let mut parts = rest.splitn(3, '-');
            for _ in ["the seconds", "the number"] {
                let digits = parts.next().expect("it is there");
                assert!(digits.chars().all(|c| c.is_ascii_digit()), "{name}");
            }
            let reason = parts.next().and_then(|rest| rest.strip_suffix(".pftrace"));
            reason.unwrap_or_else(|| panic!("{name}")).to_owned()
        };
        names.into_iter().map(reason).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let dir = self.0.parent().unwrap();
        if dir.exists() {
            fs::remove_dir_all(dir).unwrap();
        }
    }
}

fn builder(snapshots: Snapshots) -> Builder {
    let builder = Builder::new().workers(1).snapshots(snapshots);
    // The end waits for the file.
    builder.shutdown_grace(Duration::from_secs(60))
}

/// One that reports no stall: a panic may take long.
fn runtime(snapshots: Snapshots) -> Runtime {
    builder(snapshots).stall_threshold(None).build().unwrap()
}

/// A poll that is over when its begin was reported.
fn stalls(snapshots: Snapshots) {
    let (tell, told) = mpsc::channel();
    let builder = builder(snapshots).stall_threshold(Some(Duration::from_millis(5)));
    let builder = builder.on_stall(move |_| _ = tell.send(()));
    let runtime = builder.build().unwrap();
    runtime
        .block_on(runtime.spawn(async move { told.recv().unwrap() }))
        .unwrap();
}

fn panics(runtime: &Runtime) {
    let panics = runtime.spawn(async { panic!("it goes wrong") });
    assert!(runtime.block_on(panics).unwrap_err().is_panic());
}

#[test]
fn a_stall_and_a_panic_write_one() {
    let folder = Folder::new("stall");
    stalls(Snapshots::to(&folder.0));
    assert_eq!(folder.reasons(), ["stall"]);
    let runtime = runtime(Snapshots::to(&folder.0));
    panics(&runtime);
    drop(runtime);
    assert_eq!(folder.reasons(), ["stall", "panic"]);
}

#[test]
fn what_is_not_wanted_writes_none() {
    let folder = Folder::new("none");
    let neither = || Snapshots::to(&folder.0).not_on_stall().not_on_panic();
    stalls(neither());
    let runtime = runtime(neither());
    panics(&runtime);
    drop(runtime);
    assert_eq!(folder.reasons(), [""; 0]);
    // Nor does a runtime that was told no folder.
    if env::var_os(VARIABLE).is_none() {
        let runtime = Builder::new().workers(1).build().unwrap();
        assert!(!runtime.handle().snapshot("nobody reads it"));
    }
}

/// Waits until there are so many files.
fn wait_for(folder: &Folder, files: usize) {
    while folder.reasons().len() < files {
        thread::yield_now();
    }
}

// Its worker is stuck, and stays so until the file is there. At the end of the runtime, its thread
// goes: the drop joins it.
#[cfg(unix)]
#[test]
fn a_signal_writes_one_though_every_worker_is_stuck() {
    let folder = Folder::new("signal");
    let snapshots = Snapshots::to(&folder.0).on_signal(libc::SIGUSR2);
    let runtime = builder(snapshots).sysmon(Sysmon::Off).build().unwrap();
    let (end, ends) = mpsc::channel::<()>();
    let (begin, begins) = mpsc::channel();
    let stuck = runtime.spawn(async move {
        begin.send(()).unwrap();
        ends.recv().unwrap();
    });
    begins.recv().unwrap();
    signal_hook::low_level::raise(libc::SIGUSR2).unwrap();
    wait_for(&folder, 1);
    end.send(()).unwrap();
    runtime.block_on(stuck).unwrap();
    drop(runtime);
    assert_eq!(folder.reasons(), ["signal"]);
    // The handler of a runtime that has ended does nothing, and ends nothing.
    signal_hook::low_level::raise(libc::SIGUSR2).unwrap();
}

#[cfg(unix)]
#[test]
fn a_signal_that_has_no_handler_is_refused() {
    for signal in [libc::SIGKILL, libc::SIGSEGV, 0, -1] {
        let error = builder(Snapshots::to("nowhere").on_signal(signal))
            .build()
            .unwrap_err();
        assert_eq!(error.knob_name(), Some("snapshots"), "{error}");
        assert!(error.to_string().contains(&signal.to_string()), "{error}");
    }
    // No signal of this system has that number.
    let error = builder(Snapshots::to("nowhere").on_signal(4000))
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the system refused the signal for snapshots"
    );
}

#[test]
fn there_is_one_a_second_and_its_name_is_plain() {
    loop {
        let folder = Folder::new("asked");
        let runtime = runtime(Snapshots::to(&folder.0));
        let handle = runtime.handle().clone();
        let begin = Instant::now();
        assert!(handle.snapshot("../../etc/a b\0é"));
        let again = handle.snapshot("again");
        panics(&runtime);
        let in_time = begin.elapsed() < Duration::from_secs(1);
        drop(runtime);
        assert!(!handle.snapshot("too late"));
        // Else its thread was off its core for too long: once more.
        if in_time {
            assert!(!again);
            assert_eq!(folder.reasons(), ["------etc-a-b-é"]);
            return;
        }
    }
}

#[test]
fn the_oldest_goes() {
    let folder = Folder::new("keep");
    let names = ["first", "second", "third"];
    let runtime = runtime(Snapshots::to(&folder.0).keep(2));
    // One a second: so many are asked for until it is written.
    for name in names {
        while !runtime.handle().snapshot(name) {
            std::thread::yield_now();
        }
    }
    drop(runtime);
    assert_eq!(folder.reasons(), ["second", "third"]);
}

#[test]
fn a_folder_that_cannot_be_written_harms_nobody() {
    let runtime = runtime(Snapshots::to("/proc/none"));
    runtime.handle().snapshot("nowhere to go");
    panics(&runtime);
    drop(runtime);
    assert!(!Path::new("/proc/none").exists());
}

/// The folder that the variable names in the child.
const VARIABLE: &str = "WS_SNAPSHOTS";

// Not a test by itself.
#[test]
fn a_panic_in_the_child() {
    if env::var_os(VARIABLE).is_some() {
        let builder = Builder::new().workers(1).stall_threshold(None);
        let runtime = builder.shutdown_grace(Duration::from_secs(60)).build();
        // The path is a relative one.
        env::set_current_dir("/").unwrap();
        panics(&runtime.unwrap());
    }
}

#[test]
fn the_environment_names_the_folder() {
    let folder = Folder::new("environment");
    let name = "snapshots_are_written_when_it_goes_wrong::a_panic_in_the_child";
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name])
        .current_dir(folder.0.parent().unwrap().parent().unwrap())
        .env(VARIABLE, folder.0.strip_prefix(env::temp_dir()).unwrap())
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    let files: Vec<_> = fs::read_dir(&folder.0).unwrap().collect();
    let [Ok(file)] = &files[..] else {
        panic!("one file: {files:?}");
    };
    assert!(file.path().to_str().unwrap().ends_with("-panic.pftrace"));
    assert!(file.metadata().unwrap().len() > 100);
}
