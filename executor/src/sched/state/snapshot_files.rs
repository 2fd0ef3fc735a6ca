//! Which recordings are written to files, and where; `snapshots.rs` writes them.

#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::{
    collections::VecDeque,
    fmt,
    path::{self, PathBuf},
};

#[cfg(unix)]
use signal_hook::SigId;

use crate::{
    sync::Mutex,
    throttle::{REPORT_EVERY, Throttle},
};

/// When recordings are written to files, and where; see
/// [`Builder::snapshots`](crate::runtime::Builder::snapshots).
///
/// # Examples
///
/// ```
/// use ws::trace::Snapshots;
///
/// let snapshots = Snapshots::to("/var/log/orders").keep(20).not_on_panic();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshots {
    pub(in crate::sched) dir: PathBuf,
    pub(in crate::sched) keep: usize,
    pub(in crate::sched) on_stall: bool,
    pub(in crate::sched) on_panic: bool,
    #[cfg(unix)]
    on_signal: Option<i32>,
}

impl Snapshots {
    /// To files in this folder, which is made if it is not there. A relative path begins where the
    /// program is when the runtime is built.
    ///
    /// Their names are `PROGRAM-PID-SECONDS-NUMBER-REASON.pftrace`, with the seconds since 1970 and
    /// a number that grows. They are for
    /// [Perfetto](crate::trace::Recording::write_perfetto), and `ws-inspect` opens them: see
    /// [`Handle::write_snapshot`](crate::runtime::Handle::write_snapshot).
    pub fn to(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            keep: 8,
            on_stall: true,
            on_panic: true,
            #[cfg(unix)]
            on_signal: None,
        }
    }

    /// How many files of a runtime are kept: 8 by default. With the next one, the oldest goes.
    /// Those of earlier processes stay.
    pub fn keep(mut self, files: usize) -> Self {
        self.keep = files;
        self
    }

    /// Writes none when a [stall](crate::runtime::Builder::on_stall) begins. By default it does.
    pub fn not_on_stall(mut self) -> Self {
        self.on_stall = false;
        self
    }

    /// Writes none when a task panics. By default it does, if the program goes on: one that is
    /// built with `panic = "abort"` ends before.
    pub fn not_on_panic(mut self) -> Self {
        self.on_panic = false;
        self
    }

    /// Writes one when the process gets this signal, at most one a second: none, by default. A
    /// thread of its own waits for the signal, so this works also while every worker is stuck.
    ///
    /// Handlers that other code has for the signal are called as before. What the system does at
    /// this signal by default, such as to end the process, it does no more. A signal that no
    /// program can have a handler for, such as `SIGKILL`, is an error of
    /// [`Builder::build`](crate::runtime::Builder::build).
    ///
    /// ```
    /// use ws::{runtime::Builder, signal::unix::SignalKind, trace::Snapshots};
    ///
    /// let usr1 = SignalKind::user_defined1().as_raw();
    /// let snapshots = Snapshots::to("/var/log/orders").on_signal(usr1);
    /// let runtime = Builder::new().snapshots(snapshots).build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// Then `kill -USR1 PID` writes a file.
    #[cfg(unix)]
    pub fn on_signal(mut self, signal: i32) -> Self {
        self.on_signal = Some(signal);
        self
    }

    /// What cannot be done of that, in words.
    pub(crate) fn problem(&self) -> Option<String> {
        #[cfg(unix)]
        if let Some(signal) = self.on_signal
            && !may_listen(signal)
        {
            return Some(format!(
                "no program can have a handler for signal {signal}: choose another one, such as SIGUSR1"
            ));
        }
        None
    }
}

/// Why one is written.
#[derive(Clone, Copy)]
pub(crate) enum Why<'a> {
    Stall,
    Panic,
    /// A signal came.
    #[cfg(unix)]
    Signal,
    /// The program asked for it.
    Asked(&'a str),
}

/// Those of a runtime.
pub(crate) struct SnapshotFiles {
    pub(in crate::sched) config: Option<Snapshots>,
    pub(in crate::sched) throttle: Throttle,
    pub(in crate::sched) errors: Throttle,
    pub(in crate::sched) written: Mutex<Written>,
    #[cfg(unix)]
    pub(in crate::sched) listening: Listening,
}

#[derive(Default)]
pub(in crate::sched) struct Written {
    /// A thread writes one.
    pub(in crate::sched) writes: bool,
    /// The files that are kept, the oldest first.
    pub(in crate::sched) files: VecDeque<PathBuf>,
}

impl fmt::Debug for SnapshotFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotFiles")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl SnapshotFiles {
    pub(in crate::sched) fn new(config: Option<Snapshots>) -> Self {
        // The program may change its folder later.
        let config = config.map(|config| Snapshots {
            dir: path::absolute(&config.dir).unwrap_or(config.dir),
            ..config
        });
        Self {
            config,
            throttle: Throttle::new(REPORT_EVERY),
            errors: Throttle::new(REPORT_EVERY),
            written: Mutex::default(),
            #[cfg(unix)]
            listening: Default::default(),
        }
    }

    /// The signal that asks for one.
    #[cfg(unix)]
    pub(in crate::sched) fn signal(&self) -> Option<i32> {
        self.config.as_ref()?.on_signal
    }

    /// Where to, if one is to be written now. From then on no other one is, until that is over.
    pub(in crate::sched) fn begin(&self, why: Why<'_>) -> Option<&Snapshots> {
        let config = self.config.as_ref()?;
        let wanted = match why {
            Why::Stall => config.on_stall,
            Why::Panic => config.on_panic,
            #[cfg(unix)]
            Why::Signal => true,
            Why::Asked(_) => true,
        };
        let mut written = self.written.lock();
        let begins = wanted && !written.writes && self.throttle.passes();
        written.writes |= begins;
        begins.then_some(config)
    }
}

/// The handler of a runtime and its end of the socket, while they are there.
#[cfg(unix)]
#[derive(Debug, Default)]
pub(in crate::sched) struct Listening(pub(in crate::sched) Mutex<Option<(SigId, UnixStream)>>);

/// Whether a program may have a handler for this signal.
#[cfg(unix)]
pub(crate) fn may_listen(signal: i32) -> bool {
    signal > 0 && !signal_hook::consts::FORBIDDEN.contains(&signal)
}
