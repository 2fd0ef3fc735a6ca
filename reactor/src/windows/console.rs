//! Ctrl-C and the other events of a console. An island of `unsafe` code.
//!
//! # How it works
//!
//! The system calls [`handle`] on a thread of its own, so the handler may take a lock, and wakes
//! the listeners itself. Each listener counts its event, and a task takes the count.
//!
//! | event | after the first listener |
//! | --- | --- |
//! | Ctrl-C, Ctrl-Break | the default action, the end of the process, does not come back |
//! | close, logoff, shutdown | once a listener was told, the handler does not return: the system ends the process when it does, or after some seconds |
//!
//! Rejected: a handler for each runtime. The system calls handlers in turn until one has taken the
//! event, so all but one would miss it.

#![expect(unsafe_code, reason = "the handler of a console has no face in std")]

use std::{
    io,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

use crate::sync::Mutex;

/// What a console tells its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConsoleEvent {
    /// Ctrl-C.
    CtrlC,
    /// Ctrl-Break.
    CtrlBreak,
    /// The console's window is closed.
    Close,
    /// The user logs off.
    Logoff,
    /// The system ends.
    Shutdown,
}

impl ConsoleEvent {
    fn of(number: u32) -> Option<Self> {
        match number {
            CTRL_C_EVENT => Some(Self::CtrlC),
            CTRL_BREAK_EVENT => Some(Self::CtrlBreak),
            CTRL_CLOSE_EVENT => Some(Self::Close),
            CTRL_LOGOFF_EVENT => Some(Self::Logoff),
            CTRL_SHUTDOWN_EVENT => Some(Self::Shutdown),
            _ => None,
        }
    }

    /// Whether the process ends as soon as its handler returns.
    fn ends_the_process(self) -> bool {
        !matches!(self, Self::CtrlC | Self::CtrlBreak)
    }
}

/// A listener for one event, until it is dropped.
#[derive(Debug)]
pub struct ConsoleListener(Arc<Place>);

#[derive(Debug)]
struct Place {
    event: ConsoleEvent,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    has_come: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Listeners {
    is_installed: bool,
    /// Ctrl-C and Ctrl-Break have their default action no more.
    taken: Vec<ConsoleEvent>,
    places: Vec<Arc<Place>>,
}

/// Those of the process. By std, since a lock of loom's cannot be a static.
static LISTENERS: std::sync::Mutex<Listeners> = std::sync::Mutex::new(Listeners {
    is_installed: false,
    taken: Vec::new(),
    places: Vec::new(),
});

fn listeners() -> std::sync::MutexGuard<'static, Listeners> {
    LISTENERS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl ConsoleListener {
    /// Listens for an event, from now on.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new(event: ConsoleEvent) -> io::Result<Self> {
        let place = Arc::new(Place {
            event,
            seen: Mutex::default(),
        });
        let mut all = listeners();
        if !all.is_installed {
            // SAFETY: the function is there for the life of the process, and may be called by any
            // thread at any time.
            if unsafe { SetConsoleCtrlHandler(Some(handle), 1) } == 0 {
                return Err(io::Error::last_os_error());
            }
            all.is_installed = true;
        }
        if !all.taken.contains(&event) {
            all.taken.push(event);
        }
        all.places.push(place.clone());
        Ok(Self(place))
    }

    /// Polls until the event has come at least once since the last time. The last task that polled
    /// is woken.
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut seen = self.0.seen.lock();
        if std::mem::take(&mut seen.has_come) {
            return Poll::Ready(());
        }
        let replaced = seen.waker.replace(waker);
        drop(seen);
        drop(replaced);
        Poll::Pending
    }

    /// Takes the event if it has come.
    pub fn take(&self) -> bool {
        std::mem::take(&mut self.0.seen.lock().has_come)
    }
}

impl Drop for ConsoleListener {
    fn drop(&mut self) {
        let mut all = listeners();
        all.places.retain(|place| !Arc::ptr_eq(place, &self.0));
    }
}

/// Tells all that listen for an event, and whether the default action is to be left out.
fn tell(event: ConsoleEvent) -> bool {
    let all = listeners();
    let told: Vec<_> = all
        .places
        .iter()
        .filter(|place| place.event == event)
        .cloned()
        .collect();
    let takes = if event.ends_the_process() {
        !told.is_empty()
    } else {
        all.taken.contains(&event)
    };
    drop(all);
    let wakers = told.iter().filter_map(|place| {
        let mut seen = place.seen.lock();
        seen.has_come = true;
        seen.waker.take()
    });
    let wakers = wakers.collect();
    crate::wakers::wake_all(wakers);
    takes
}

/// What the system calls.
extern "system" fn handle(number: u32) -> BOOL {
    let Some(event) = ConsoleEvent::of(number) else {
        return 0;
    };
    if !tell(event) {
        return 0;
    }
    if event.ends_the_process() {
        // The program ends in its own way meanwhile, and this thread with it.
        loop {
            std::thread::park();
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reaches_each_of_its_listeners() {
        let listen = |event| ConsoleListener::new(event).unwrap();
        let first = listen(ConsoleEvent::CtrlBreak);
        let second = listen(ConsoleEvent::CtrlBreak);
        let other = listen(ConsoleEvent::Logoff);
        assert_eq!(handle(CTRL_BREAK_EVENT), 1);
        assert!(first.take() && second.take() && !other.take());
        assert!(!first.take());
        drop((first, second));
        // The default action does not come back.
        assert_eq!(handle(CTRL_BREAK_EVENT), 1);
    }

    #[test]
    fn an_event_that_nobody_listens_for_has_its_default_action() {
        assert_eq!(handle(CTRL_SHUTDOWN_EVENT), 0);
        drop(ConsoleListener::new(ConsoleEvent::Close).unwrap());
        assert_eq!(handle(CTRL_CLOSE_EVENT), 0);
        assert_eq!(handle(99), 0);
    }
}
