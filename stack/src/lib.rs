//! The stack of another thread of this process.
//!
//! A monitor that sees a thread make no progress wants to know where it is. [`capture`] copies the
//! stack of that thread, [`Captured::resolve`] finds the functions, files and lines. The crate
//! knows nothing of the runtime that it was made for.
//!
//! ```
//! use std::{sync::mpsc, thread, time::Duration};
//!
//! # if !cfg!(all(target_os = "linux", feature = "unwind")) { return }
//! #[inline(never)]
//! fn waits_for_word(word: &mpsc::Receiver<()>) {
//!     let _ = word.recv();
//! }
//!
//! let (tell, told) = mpsc::channel();
//! let (stop, word) = mpsc::channel::<()>();
//! let thread = thread::spawn(move || {
//!     tell.send(ws_stack::register_thread()).unwrap();
//!     waits_for_word(&word);
//! });
//! let id = told.recv().unwrap();
//! let look = loop {
//!     // It may still be on its way.
//!     let look = ws_stack::capture(id, Duration::from_millis(100));
//!     if look.system_call.is_some_and(|call| call.name() == Some("futex")) {
//!         break look;
//!     }
//! };
//! let captured = look.stack.unwrap();
//! let stack = captured.resolve();
//! let mut names = stack.frames().iter().filter_map(|frame| frame.function());
//! assert!(names.any(|name| name.contains("waits_for_word")), "{stack}");
//! drop(stop);
//! thread.join().unwrap();
//! ```
//!
//! # How it works
//!
//! 1. *The look.* `/proc/self/task/TID/syscall` says whether the thread runs. If it is blocked, the
//!    file has the system call, the stack pointer and the program counter.
//! 2. *The copy.* Up to 128 KiB from the stack pointer upwards. If the thread is blocked, the asker
//!    makes the copy. If the thread runs, a signal interrupts it, and the handler makes the copy.
//!    Both read `/proc/self/mem` with one system call.
//! 3. *The walk*, later, on any thread: the frames of the copy, by the `.eh_frame` of the files
//!    that are mapped. It touches the copy alone, never the stack of the thread.
//! 4. *The names*, with the walk: debug information, else the symbol table, else an address.
//!
//! The first two steps take some 100 us of the asker's time. The last two read debug information,
//! so the first time they may take hundreds of milliseconds. Hence they are apart.
//!
//! # Why it is safe
//!
//! - *A blocked thread gets no signal.* After a handler the kernel restarts many system calls, but
//!   not all of them: `nanosleep`, `poll`, `epoll_wait`, `select`, and a `read` of a socket with a
//!   timeout return `EINTR`. A program that has no handlers may not be ready for that. So the asker
//!   reads the stack of such a thread from outside. The thread's CPU clock is read before and
//!   after. If it has not moved, the thread has not run, and what was read belongs together.
//! - *The handler does next to nothing*: a read of its registers, one `pread`, some atomics, one
//!   `futex`. It takes no lock, allocates nothing, unwinds nothing, and keeps `errno`. The buffer
//!   is there before the signal is sent.
//! - *No read can fault.* `pread` of `/proc/self/mem` answers with fewer bytes where nothing is
//!   mapped. So the bounds of the stack need not be known, and a thread may be on a stack of its
//!   own making. An address sanitizer does not see the read, so its red zones do not matter.
//! - *No thread is waited for.* The asker gives up at its limit. A handler that comes later finds
//!   that, see *The request* in `slot.rs`.
//! - *A thread that has ended is not signalled.* Only registered threads are. The registration ends
//!   in a destructor of a thread-local of that thread, under the lock that a capture holds. So the
//!   number of the thread is not in use by another one.
//! - *The walk trusts nothing.* It reads a copy with bounds, it stops at a limit, and each step
//!   goes up the stack. If the copy is not consistent after all, the walk shows wrong frames or
//!   ends.
//!
//! # What a program can notice
//!
//! - One real-time signal has a handler from the first capture of a running thread on. It is the
//!   first one from `SIGRTMIN + 7` on that has no handler and is not ignored; each capture looks
//!   whether the handler is still there. It stays installed: the default of such a signal is the
//!   end of the process.
//! - A thread may block between the look and the signal, a few microseconds apart. Then a system
//!   call of the list above returns `EINTR`. The same holds if a thread wakes up and sleeps
//!   again more often than some 10,000 times a second, and where `/proc/self/task/TID/syscall`
//!   cannot be read, as in gVisor. What std offers retries, except single calls of `read`, `write`
//!   and their like, which say `ErrorKind::Interrupted`.
//! - A thread that is on a core within a system call is signalled as one that computes. A call that
//!   copies for long, such as a `read` of `/dev/zero`, `getrandom`, `sendfile` or
//!   `copy_file_range` of many megabytes, may then return early with what it has copied so far.
//! - A thread that has set an alternate signal stack of less than some 4 KiB may end the process,
//!   as at any signal: the kernel finds no room for the registers.
//! - A thread that has blocked the signal is not signalled, and [`NoStack`] says so.
//!
//! Frames may be wrong above a function that moves its stack pointer by an amount that is known
//! only at run time (`alloca`) and then blocks, and above assembler without unwind information.
//!
//! # What was rejected
//!
//! - *A signal for every thread*: `EINTR` for programs that were right before. And the thread that
//!   one would most like to hear of, one in uninterruptible sleep, does not answer.
//! - *To unwind in the handler*: `backtrace` allocates and takes locks. If the thread is inside
//!   `malloc` or `dl_iterate_phdr`, that hangs.
//! - *`framehop`*, which walks copies as well: it needs the frame pointer, which is not known of a
//!   blocked thread. Here each register is known or not, and `linux/frame_pointer.rs` finds the
//!   frame pointer again. That, and 200 lines of `.eh_frame` with `gimli`, takes four crates fewer.
//! - *`ptrace`*: a process must not trace itself, and a helper process needs rights.
//! - *Bounds from `pthread_getattr_np`, and plain reads in the handler*: a thread may be on another
//!   stack (coroutines, `stacker`), and the sanitizer's red zones have to be kept out.
//! - *`process_vm_readv`*: the same answer, but sandboxes refuse it, or kill the process for it.
//! - *The crate `backtrace`* for the names: the walk needs `gimli` and `object` all the same, and
//!   `backtrace` brings three crates more, for compressed debug information.
//!
//! # Where it works
//!
//! Linux, x86-64. On AArch64 it compiles, and its unit tests pass under qemu; a whole capture there
//! was not seen. A blocked thread shows its system call there, and one function if that function
//! has no frame. Elsewhere, and without the feature `unwind`, [`NoStack`] says why there is none.
//!
//! Lines need `debug = "line-tables-only"` (or more) in the profile of the program, and names need
//! a symbol table: `strip = "none"` or `"debuginfo"`. Compressed and separate debug information is
//! not read.
//!
//! Checked by `tests/`. The protocol of asker and handler is checked by `models/`, with the mutants
//! in `mutants/`.

mod captured;
#[allow(dead_code, reason = "not used where there are stacks")]
mod elsewhere;
mod frame;
// The models need the slot alone. Miri knows no signals.
#[cfg(all(
    feature = "unwind",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(all(test, ws_loom))
))]
mod linux;
#[cfg(all(test, ws_loom))]
mod models;
mod no_stack;
#[allow(dead_code, reason = "not used where there are no stacks")]
mod slot;
mod sync;
mod system_call;

use std::time::Duration;

#[cfg(not(all(
    feature = "unwind",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(all(test, ws_loom))
)))]
use elsewhere as system;
#[cfg(all(
    feature = "unwind",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(all(test, ws_loom))
))]
use linux as system;

pub use captured::Captured;
pub use frame::{Frame, Stack};
pub use no_stack::NoStack;
pub use system_call::SystemCall;

/// What [`capture`] saw of a thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Look {
    /// The system call in which the thread is blocked, if it is and the system tells.
    pub system_call: Option<SystemCall>,
    /// Its stack, or why there is none.
    pub stack: Result<Captured, NoStack>,
}

/// Makes the calling thread known until it ends, and returns the system's number of it (0 where
/// this crate does nothing).
///
/// The first call of a thread takes a lock and allocates. Others do nothing.
pub fn register_thread() -> u32 {
    system::register_thread()
}

/// Copies the stack of a thread that was [registered](register_thread), in about `limit` or less.
///
/// The thread goes on; see *What a program can notice* in the documentation of the crate. One
/// thread at a time captures, and others wait for it within their limit.
pub fn capture(thread: u32, limit: Duration) -> Look {
    system::capture(thread, limit)
}

/// Where the sources of this crate were when it was built: frames of files there are its own.
#[doc(hidden)]
pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");

/// Copies the stack of the calling thread, up to an address on it: that of a local variable of a
/// function further out.
///
/// ```
/// # if !cfg!(all(target_os = "linux", feature = "unwind")) { return }
/// #[inline(never)]
/// fn inner(up_to: usize) -> ws_stack::Captured {
///     ws_stack::here(up_to).unwrap()
/// }
///
/// let outermost = 0_u8;
/// let captured = inner(std::ptr::from_ref(&outermost).addr());
/// let frames = captured.resolve().frames();
/// assert!(frames.iter().any(|frame| frame.function().is_some_and(|it| it.ends_with("inner"))));
/// ```
///
/// # Errors
///
/// Where this crate does nothing, and if the memory of the process cannot be read.
pub fn here(up_to: usize) -> Result<Captured, NoStack> {
    system::here(up_to).map(Captured::new).map_err(NoStack)
}
