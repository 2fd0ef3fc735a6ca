//! The end of a process, as something that a task waits for. An island of `unsafe` code.
//!
//! # How it works
//!
//! A thread pool of the system waits for the handle of the process (`RegisterWaitForSingleObject`),
//! up to 63 handles a thread. At the end another thread of the pool calls [`ended`], once, which
//! wakes the task. So a waker that takes long, or drops another watch, holds up no other wait. No
//! netpoll takes part, so a wait also ends while no runtime is there.
//!
//! # What frees the parts
//!
//! The callback has an `Arc` of its own. It gives that up when it runs. If it never runs, the drop
//! of the [`ExitWatch`] gives it up, after the system has said that no callback is under way.
//!
//! *Invariant*: the drop never waits for user code. The callback sets `ended` under the lock before
//! it wakes. A drop that finds `ended` does not wait for the callback. A drop that does not find it
//! takes the waker away first, so the callback that it waits for has nothing to wake. Hence a waker
//! may drop the watch.
//!
//! Rejected: a thread that waits for each child.

#![expect(unsafe_code, reason = "a wait in the system's pool has no face in std")]

use std::{
    ffi::c_void,
    io,
    os::windows::io::{AsRawHandle, BorrowedHandle, OwnedHandle},
    ptr,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use windows_sys::Win32::{
    Foundation::{HANDLE, INVALID_HANDLE_VALUE},
    System::Threading::{
        INFINITE, RegisterWaitForSingleObject, UnregisterWaitEx, WT_EXECUTEONLYONCE,
    },
};

use crate::sync::Mutex;

/// Tells a task of the end of a process.
#[derive(Debug)]
pub struct ExitWatch {
    state: Arc<Mutex<State>>,
    /// The wait in the system's pool.
    wait: Wait,
    /// A duplicate of the process's handle. The pool needs it until the wait is over.
    _process: OwnedHandle,
}

#[derive(Debug, Default)]
struct State {
    ended: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Wait(HANDLE);

// SAFETY: the number of a wait may be used by any thread, and only the drop uses it.
unsafe impl Send for Wait {}
// SAFETY: the same; nothing uses it by reference.
unsafe impl Sync for Wait {}

impl ExitWatch {
    /// Begins to wait for the end of a process.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new(process: BorrowedHandle<'_>) -> io::Result<Self> {
        let process = process.try_clone_to_owned()?;
        let state = Arc::new(Mutex::new(State::default()));
        let for_callback = Arc::into_raw(state.clone());
        let mut wait = ptr::null_mut();
        // SAFETY: `wait` is valid for a write. The handle is ours, and stays open until the drop
        // has ended the wait. The context is an `Arc` that the callback alone has.
        let answer = unsafe {
            RegisterWaitForSingleObject(
                &raw mut wait,
                process.as_raw_handle(),
                Some(ended),
                for_callback.cast(),
                INFINITE,
                WT_EXECUTEONLYONCE,
            )
        };
        if answer == 0 {
            let error = io::Error::last_os_error();
            // SAFETY: the system has refused, so nobody else has this `Arc`.
            drop(unsafe { Arc::from_raw(for_callback) });
            return Err(error);
        }
        Ok(Self {
            state,
            wait: Wait(wait),
            _process: process,
        })
    }

    /// Polls for the end. The last task that polled is woken.
    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.state.lock();
        if state.ended {
            return Poll::Ready(());
        }
        let replaced = state.waker.replace(waker);
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

/// The process has ended.
///
/// # Safety
///
/// The context is the `Arc` that [`ExitWatch::new`] gave to this wait, and this is the only call.
unsafe extern "system" fn ended(context: *mut c_void, _timed_out: bool) {
    // SAFETY: by the contract above.
    let state = unsafe { Arc::from_raw(context.cast_const().cast::<Mutex<State>>()) };
    let mut guard = state.lock();
    guard.ended = true;
    let waker = guard.waker.take();
    drop(guard);
    if let Some(waker) = waker {
        crate::wakers::wake_all(vec![waker]);
    }
}

impl Drop for ExitWatch {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let has_ended = state.ended;
        let waker = state.waker.take();
        drop(state);
        drop(waker);
        let until = if has_ended {
            ptr::null_mut()
        } else {
            INVALID_HANDLE_VALUE
        };
        // SAFETY: the wait is ours, and this is its only end. With the second value the call
        // returns after a callback that is under way; see the invariant for why that is soon.
        unsafe { UnregisterWaitEx(self.wait.0, until) };
        let never_called = !has_ended && !self.state.lock().ended;
        if never_called {
            // SAFETY: the wait is over and its callback has not run, so the `Arc` that was given to
            // it is still there, and no one else drops it.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(&self.state)) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::windows::io::AsHandle,
        process::{Child, Command, Stdio},
        sync::mpsc::{Sender, channel},
        task::Wake,
    };

    use super::*;

    struct Told(Sender<()>);

    impl Wake for Told {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    /// A process that ends when its input does.
    fn waits_for_input() -> Child {
        let mut command = Command::new("cmd");
        command.args(["/c", "set /p x="]).stdin(Stdio::piped());
        command.stdout(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn a_task_is_told_of_the_end() {
        let mut child = waits_for_input();
        let watch = ExitWatch::new(child.as_handle()).unwrap();
        let (tell, told) = channel();
        let waker = Waker::from(Arc::new(Told(tell)));
        let mut cx = Context::from_waker(&waker);
        assert!(watch.poll_ended(&mut cx).is_pending());
        drop(child.stdin.take());
        told.recv().unwrap();
        assert!(watch.poll_ended(&mut cx).is_ready());
        assert!(child.try_wait().unwrap().is_some());
    }

    // Fails if the drop leaves the callback's `Arc`, or frees it twice.
    #[test]
    fn a_watch_may_go_before_the_end_and_after_it() {
        for ends_first in [false, true] {
            let mut child = waits_for_input();
            let watch = ExitWatch::new(child.as_handle()).unwrap();
            let state = watch.state.clone();
            if ends_first {
                drop(child.stdin.take());
                while !state.lock().ended {
                    std::thread::yield_now();
                }
            }
            drop(watch);
            drop(child.stdin.take());
            child.wait().unwrap();
            // The callback gives its `Arc` up a moment after it says so.
            while Arc::strong_count(&state) > 1 {
                std::thread::yield_now();
            }
            assert_eq!(state.lock().ended, ends_first);
        }
    }
}
