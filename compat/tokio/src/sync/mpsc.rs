//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/mpsc/), which this is, but for the senders
//! of bounded channels: [`Sender::send_timeout`] needs a timer, and those are of `ws`. So senders,
//! and what becomes a sender again, are tokio's inside of a type of ours.

use std::{fmt, time::Duration};

use tokio_real::sync::mpsc as real;

pub use tokio_real::sync::mpsc::*;

/// Errors of this module.
pub mod error {
    use std::{error::Error, fmt};

    pub use tokio_real::sync::mpsc::error::*;

    /// See
    /// [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/mpsc/error/enum.SendTimeoutError.html).
    #[derive(PartialEq, Eq, Clone, Copy)]
    pub enum SendTimeoutError<T> {
        /// There was no room in time.
        Timeout(T),
        /// The receiver is gone.
        Closed(T),
    }

    impl<T> SendTimeoutError<T> {
        /// The value that was not sent.
        pub fn into_inner(self) -> T {
            match self {
                Self::Timeout(value) | Self::Closed(value) => value,
            }
        }
    }

    impl<T> fmt::Debug for SendTimeoutError<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(match self {
                Self::Timeout(_) => "Timeout(..)",
                Self::Closed(_) => "Closed(..)",
            })
        }
    }

    impl<T> fmt::Display for SendTimeoutError<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(match self {
                Self::Timeout(_) => "timed out waiting on send operation",
                Self::Closed(_) => "channel closed",
            })
        }
    }

    impl<T> Error for SendTimeoutError<T> {}
}

use error::{SendError, SendTimeoutError, TrySendError};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/mpsc/fn.channel.html).
///
/// # Panics
///
/// If `buffer` is 0, or beyond `Semaphore::MAX_PERMITS`.
#[track_caller]
pub fn channel<T>(buffer: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = real::channel(buffer);
    (Sender(sender), receiver)
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/mpsc/struct.Sender.html).
pub struct Sender<T>(real::Sender<T>);

impl<T> Sender<T> {
    /// Sends a value, as soon as there is room for it.
    ///
    /// # Errors
    ///
    /// If the receiver is gone.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.send(value).await
    }

    /// Waits until the receiver is gone.
    pub async fn closed(&self) {
        self.0.closed().await;
    }

    /// Sends a value, if there is room for it.
    ///
    /// # Errors
    ///
    /// If there is none, or the receiver is gone.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(message)
    }

    /// Sends a value, if there is room for it within this time.
    ///
    /// # Errors
    ///
    /// If there was none, or the receiver is gone.
    ///
    /// # Panics
    ///
    /// Where a sleep does.
    pub async fn send_timeout(
        &self,
        value: T,
        timeout: Duration,
    ) -> Result<(), SendTimeoutError<T>> {
        match crate::time::timeout(timeout, self.reserve()).await {
            Ok(Ok(permit)) => {
                permit.send(value);
                Ok(())
            }
            Ok(Err(_)) => Err(SendTimeoutError::Closed(value)),
            Err(_) => Err(SendTimeoutError::Timeout(value)),
        }
    }

    /// Sends a value, and blocks this thread until there is room for it.
    ///
    /// # Errors
    ///
    /// If the receiver is gone.
    ///
    /// # Panics
    ///
    /// On a thread that drives a runtime.
    #[track_caller]
    pub fn blocking_send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.blocking_send(value)
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits for room for a value.
    ///
    /// # Errors
    ///
    /// If the receiver is gone.
    pub async fn reserve(&self) -> Result<Permit<'_, T>, SendError<()>> {
        self.0.reserve().await
    }

    /// Waits for room for `n` values.
    ///
    /// # Errors
    ///
    /// If the receiver is gone.
    pub async fn reserve_many(&self, n: usize) -> Result<PermitIterator<'_, T>, SendError<()>> {
        self.0.reserve_many(n).await
    }

    /// Waits for room for a value.
    ///
    /// # Errors
    ///
    /// If the receiver is gone.
    pub async fn reserve_owned(self) -> Result<OwnedPermit<T>, SendError<()>> {
        self.0.reserve_owned().await.map(OwnedPermit)
    }

    /// Room for a value, if there is any.
    ///
    /// # Errors
    ///
    /// If there is none, or the receiver is gone.
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        self.0.try_reserve()
    }

    /// Room for `n` values, if there is any.
    ///
    /// # Errors
    ///
    /// If there is none, or the receiver is gone.
    pub fn try_reserve_many(&self, n: usize) -> Result<PermitIterator<'_, T>, TrySendError<()>> {
        self.0.try_reserve_many(n)
    }

    /// Room for a value, if there is any.
    ///
    /// # Errors
    ///
    /// If there is none, or the receiver is gone.
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, TrySendError<Self>> {
        match self.0.try_reserve_owned() {
            Ok(permit) => Ok(OwnedPermit(permit)),
            Err(TrySendError::Full(sender)) => Err(TrySendError::Full(Self(sender))),
            Err(TrySendError::Closed(sender)) => Err(TrySendError::Closed(Self(sender))),
        }
    }

    /// Whether both send to one receiver.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// How many values there is room for.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// A sender that does not keep the channel open.
    #[must_use = "Downgrade creates a WeakSender without destroying the original non-weak sender."]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender(self.0.downgrade())
    }

    /// How many values there is room for at most.
    pub fn max_capacity(&self) -> usize {
        self.0.max_capacity()
    }

    /// How many senders there are.
    pub fn strong_count(&self) -> usize {
        self.0.strong_count()
    }

    /// How many weak senders there are.
    pub fn weak_count(&self) -> usize {
        self.0.weak_count()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/mpsc/struct.WeakSender.html).
pub struct WeakSender<T>(real::WeakSender<T>);

impl<T> WeakSender<T> {
    /// A sender, if one is left.
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.0.upgrade().map(Sender)
    }

    /// How many senders there are.
    pub fn strong_count(&self) -> usize {
        self.0.strong_count()
    }

    /// How many weak senders there are.
    pub fn weak_count(&self) -> usize {
        self.0.weak_count()
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/mpsc/struct.OwnedPermit.html).
pub struct OwnedPermit<T>(real::OwnedPermit<T>);

impl<T> OwnedPermit<T> {
    /// Sends a value into the room that was kept for it.
    pub fn send(self, value: T) -> Sender<T> {
        Sender(self.0.send(value))
    }

    /// Gives the room back.
    pub fn release(self) -> Sender<T> {
        Sender(self.0.release())
    }

    /// Whether both are of one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Whether it is of the channel of this sender.
    pub fn same_channel_as_sender(&self, sender: &Sender<T>) -> bool {
        self.0.same_channel_as_sender(&sender.0)
    }
}

impl<T> fmt::Debug for OwnedPermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
