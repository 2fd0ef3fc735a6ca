//! What these tests share.

pub(crate) mod child;
pub(crate) mod seccomp;
pub(crate) mod work;

use std::{io, os::unix::process::CommandExt, process::Command};

/// Runs a step in the child before it becomes the program.
pub(crate) fn before_start(command: &mut Command, step: fn() -> io::Result<()>) {
    // SAFETY: the steps here make system calls alone, and take no lock.
    unsafe { command.pre_exec(step) };
}
