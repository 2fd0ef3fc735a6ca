//! Small machines: a runtime starts and works with one CPU, little memory, a small quota, few
//! descriptors, no `/proc`, and in a sandbox that refuses system calls. It says once what it does
//! without. What it cannot start without is an error that says what to do.
//! `work_waits_when_there_is_no_thread.rs` of the executor has the limits of threads.
//!
//! Each scenario needs a limit of the whole process, so it runs in a child (`support/child.rs`):
//! this program once more, with the name of the test. The child does what programs do
//! (`support/work.rs`), and writes a line for each part. The parent compares these lines with what
//! is expected.
//!
//! `docs/platforms.md` has the table of what is lost where. Each test says in its own file what
//! makes it fail.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "limits of a process have no face in std")]

#[path = "../net_support/mod.rs"]
mod net_support;

mod a_sandbox_refuses_calls;
mod few_of_everything;
mod support;
mod what_is_refused_is_noted;
