//! How a child is started.

use std::{
    ffi::OsStr,
    future::Future,
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command as StdCommand, ExitStatus, Output, Stdio},
};

use super::{Child, ws};
use crate::runtime::io_handle;

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/process/struct.Command.html).
#[derive(Debug)]
pub struct Command {
    std: StdCommand,
    kill_on_drop: bool,
}

macro_rules! std {
    ($($(#[$meta:meta])* fn $name:ident $([$($param:ident: $bound:path),+])? ($($arg:ident: $type:ty),*);)+) => {$(
        $(#[$meta])*
        pub fn $name $(<$($param: $bound),+>)? (&mut self, $($arg: $type),*) -> &mut Self {
            self.std.$name($($arg),*);
            self
        }
    )+};
}

impl Command {
    /// A program, without arguments.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Self {
        Self::from(StdCommand::new(program))
    }

    /// The command of std.
    pub fn as_std(&self) -> &StdCommand {
        &self.std
    }

    /// The command of std.
    pub fn as_std_mut(&mut self) -> &mut StdCommand {
        &mut self.std
    }

    /// The command of std.
    pub fn into_std(self) -> StdCommand {
        self.std
    }

    std! {
        /// One more argument.
        fn arg[S: AsRef<OsStr>](arg: S);
        /// More arguments.
        fn args[I: IntoIterator<Item = S>, S: AsRef<OsStr>](args: I);
        /// The name by which the program is called.
        fn arg0[S: AsRef<OsStr>](arg: S);
        /// A variable of the environment.
        fn env[K: AsRef<OsStr>, V: AsRef<OsStr>](key: K, value: V);
        /// Variables of the environment.
        fn envs[I: IntoIterator<Item = (K, V)>, K: AsRef<OsStr>, V: AsRef<OsStr>](vars: I);
        /// Takes a variable out of the environment.
        fn env_remove[K: AsRef<OsStr>](key: K);
        /// Takes all variables out of the environment.
        fn env_clear();
        /// The directory to run in.
        fn current_dir[P: AsRef<Path>](directory: P);
        /// What the child reads.
        fn stdin[T: Into<Stdio>](stdin: T);
        /// What the child writes.
        fn stdout[T: Into<Stdio>](stdout: T);
        /// What the child writes as errors.
        fn stderr[T: Into<Stdio>](stderr: T);
        /// The user to run as.
        fn uid(id: u32);
        /// The group to run as.
        fn gid(id: u32);
        /// The group of processes to run in.
        fn process_group(group: i32);
    }

    /// Whether the child is killed when its [`Child`] is dropped.
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Self {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// Whether the child is killed when its [`Child`] is dropped.
    pub fn get_kill_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// Runs a closure in the child, before the program.
    ///
    /// # Safety
    ///
    /// As std's function.
    #[expect(unsafe_code, reason = "std's function is unsafe")]
    pub unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Self
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller promises what std's function asks for.
        unsafe { self.std.pre_exec(f) };
        self
    }

    /// Starts the child.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        // Before there is a child that nobody would wait for.
        io_handle();
        Child::new(ws::spawn(&mut self.std)?, self.kill_on_drop)
    }

    /// Starts the child, and waits for its end.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + use<> {
        let child = self.spawn();
        async {
            let mut child = child?;
            // A child that waits for them would not end.
            drop((child.stdin.take(), child.stdout.take(), child.stderr.take()));
            child.wait().await
        }
    }

    /// Starts the child, waits for its end, and reads what it writes meanwhile.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + use<> {
        self.std.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.spawn();
        async { child?.wait_with_output().await }
    }
}

impl From<StdCommand> for Command {
    fn from(std: StdCommand) -> Self {
        Self {
            std,
            kill_on_drop: false,
        }
    }
}
