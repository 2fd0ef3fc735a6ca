//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/watch/), which this is, but for the order
//! in which receivers are woken.
//!
//! tokio draws it from random numbers that no run can repeat, to spread the receivers over eight
//! locks. Here they are woken in the order in which they came, so a simulated run can be repeated.
//!
//! The value, its lock, and the counts of both sides are those of tokio's channel. Nobody waits for
//! a change there. Beside it are a version and a [`Notify`]:
//!
//! - A sender counts the version on while it has the lock of the value, and wakes after that.
//! - A receiver first asks to be woken, and then looks at the version.
//!
//! Checked by tokio's own tests, and by `simulated/tests/chance.rs`.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio_real::{
    sync::{Notify, watch as real},
    task::coop::cooperative,
};

pub use tokio_real::sync::watch::error;

use error::{RecvError, SendError};

/// What both sides share, beside tokio's channel.
#[derive(Debug, Default)]
struct Changes {
    /// Written under the lock of the value.
    version: AtomicUsize,
    notify: Notify,
    /// The count of [`Wakes`].
    senders: AtomicUsize,
}

impl Changes {
    fn version(&self) -> usize {
        // Ordering: with the `Release` in `note`, a receiver that sees the version waits for the
        // lock until the value is there. It may have left that lock before.
        self.version.load(Ordering::Acquire)
    }

    fn note(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// A sender's part of it. With the last one ends the channel.
#[derive(Debug)]
struct Wakes(Arc<Changes>);

impl Wakes {
    fn of(changes: &Arc<Changes>) -> Self {
        changes.senders.fetch_add(1, Ordering::Relaxed);
        Self(changes.clone())
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        // Ordering: the last one comes after the drops of all senders of tokio's channel. So a
        // receiver that it wakes finds that closed.
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.notify.notify_waiters();
        }
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/watch/fn.channel.html).
pub fn channel<T>(init: T) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = real::channel(init);
    let changes = Arc::<Changes>::default();
    let sender = Sender {
        real: sender,
        wakes: Wakes::of(&changes),
    };
    let receiver = Receiver {
        real: receiver,
        version: 0,
        changes,
    };
    (sender, receiver)
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/watch/struct.Sender.html).
pub struct Sender<T> {
    // Dropped first: the channel is closed when receivers are woken.
    real: real::Sender<T>,
    wakes: Wakes,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            real: self.real.clone(),
            wakes: Wakes::of(&self.wakes.0),
        }
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.real.fmt(f)
    }
}

impl<T> Sender<T> {
    /// A channel without a receiver.
    pub fn new(init: T) -> Self {
        Self {
            real: real::Sender::new(init),
            wakes: Wakes::of(&Arc::default()),
        }
    }

    /// Sends a value.
    ///
    /// # Errors
    ///
    /// If there is no receiver.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError(value));
        }
        self.send_replace(value);
        Ok(())
    }

    /// Changes the value, and tells the receivers.
    pub fn send_modify<F>(&self, modify: F)
    where
        F: FnOnce(&mut T),
    {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value, and tells the receivers if `modify` says so.
    pub fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let changes = &self.wakes.0;
        let modified = self.real.send_if_modified(|value| {
            let modified = modify(value);
            if modified {
                changes.note();
            }
            modified
        });
        if modified {
            changes.notify.notify_waiters();
        }
        modified
    }

    /// Sends a value, and gives back the one before.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|old| std::mem::swap(old, &mut value));
        value
    }

    /// The value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref {
            real: self.real.borrow(),
            has_changed: false,
        }
    }

    /// Whether there is no receiver.
    pub fn is_closed(&self) -> bool {
        self.real.is_closed()
    }

    /// Waits until there is no receiver.
    pub async fn closed(&self) {
        self.real.closed().await;
    }

    /// A receiver that has seen the value of now.
    pub fn subscribe(&self) -> Receiver<T> {
        let changes = self.wakes.0.clone();
        Receiver {
            real: self.real.subscribe(),
            version: changes.version(),
            changes,
        }
    }

    /// How many receivers there are.
    pub fn receiver_count(&self) -> usize {
        self.real.receiver_count()
    }

    /// How many senders there are.
    pub fn sender_count(&self) -> usize {
        self.real.sender_count()
    }

    /// Whether both are of one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.real.same_channel(&other.real)
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/watch/struct.Receiver.html).
pub struct Receiver<T> {
    real: real::Receiver<T>,
    /// The version that it has seen.
    version: usize,
    changes: Arc<Changes>,
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self {
            real: self.real.clone(),
            version: self.version,
            changes: self.changes.clone(),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("shared", &self.real)
            .field("version", &self.version)
            .finish()
    }
}

impl<T> Receiver<T> {
    /// The value. It does not count as seen.
    pub fn borrow(&self) -> Ref<'_, T> {
        let real = self.real.borrow();
        Ref {
            has_changed: self.version != self.changes.version(),
            real,
        }
    }

    /// The value, which counts as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let real = self.real.borrow();
        // The lock is held, so it is the version of this value.
        let seen = std::mem::replace(&mut self.version, self.changes.version());
        Ref {
            has_changed: seen != self.version,
            real,
        }
    }

    /// Whether there is a value that was not seen.
    ///
    /// # Errors
    ///
    /// If there is no sender.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        self.real.has_changed()?;
        Ok(self.version != self.changes.version())
    }

    /// Whether there is no sender.
    pub fn is_closed(&self) -> bool {
        self.real.is_closed()
    }

    /// The value counts as not seen.
    pub fn mark_changed(&mut self) {
        self.version = self.version.wrapping_sub(1);
    }

    /// The value counts as seen.
    pub fn mark_unchanged(&mut self) {
        self.version = self.changes.version();
    }

    /// Waits for a value that was not seen, which then counts as seen.
    ///
    /// # Errors
    ///
    /// If there is no sender, and none of its values is left.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        cooperative(changed(&self.real, &self.changes, &mut self.version)).await
    }

    /// Waits for a value for which `f` is true.
    ///
    /// # Errors
    ///
    /// If there is no sender, and the last value is none.
    pub async fn wait_for(&mut self, f: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, RecvError> {
        cooperative(self.wait_until(f)).await
    }

    async fn wait_until(&mut self, mut f: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, RecvError> {
        let (real, mut end) = (&self.real, None);
        loop {
            let value = real.borrow();
            let seen = std::mem::replace(&mut self.version, self.changes.version());
            let has_changed = seen != self.version;
            if (end.is_none() || has_changed) && f(&value) {
                return Ok(Ref {
                    real: value,
                    has_changed,
                });
            }
            drop(value);
            if let Some(end) = end {
                return Err(end);
            }
            end = changed(real, &self.changes, &mut self.version).await.err();
        }
    }

    /// Whether both are of one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.real.same_channel(&other.real)
    }
}

async fn changed<T>(
    real: &real::Receiver<T>,
    changes: &Changes,
    version: &mut usize,
) -> Result<(), RecvError> {
    loop {
        let notified = changes.notify.notified();
        // Asked first: the last values come before the end.
        let end = real.has_changed();
        let current = changes.version();
        if *version != current {
            *version = current;
            return Ok(());
        }
        end?;
        notified.await;
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/watch/struct.Ref.html).
#[derive(Debug)]
pub struct Ref<'a, T> {
    real: real::Ref<'a, T>,
    has_changed: bool,
}

impl<T> Ref<'_, T> {
    /// Whether the receiver had not seen it.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.real
    }
}
