//! What the scheduler knows of a thread in `block_on`: what wakes it.
//!
//! What such a thread does is in `block_on.rs` and `nested.rs`.

use std::{
    cell::{Cell, RefCell},
    sync::OnceLock,
    task::{RawWakerVTable, Wake, Waker},
};

use ws_reactor::Netpoll;

use super::processor::Peer;
use crate::{cell::joiner, notification::Notification, park::Parker, sync::Arc};

/// What wakes a thread that waits for its own future.
#[derive(Debug)]
pub(crate) struct Root {
    notified: Notification,
    own: Parker,
    /// Set before the thread first waits.
    place: OnceLock<Place>,
}

/// Where the thread of a root sleeps.
#[derive(Debug)]
enum Place {
    /// On the parker of its P, if it takes any work; else on its root's.
    Processor {
        netpoll: Arc<Netpoll>,
        peer: Option<Arc<Peer>>,
    },
    /// Where it does for the root below; see `nested.rs`.
    Above(Arc<Root>),
}

thread_local! {
    /// A root that was used before: a call that is ready at once then allocates nothing (H4).
    static SPARE: Cell<Option<Arc<Root>>> = const { Cell::new(None) };
}

impl Root {
    /// One whose first poll is due.
    pub(crate) fn new() -> Arc<Self> {
        Self::with(Notification::already_set())
    }

    fn with(notified: Notification) -> Arc<Self> {
        joiner::knows(table());
        Arc::new(Self::fresh(notified))
    }

    fn fresh(notified: Notification) -> Self {
        Self {
            notified,
            own: Parker::new(),
            place: OnceLock::new(),
        }
    }

    /// The thread's spare root, or a new one. The caller polls its future at once.
    pub(crate) fn take_spare() -> Arc<Self> {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        spare.unwrap_or_else(|| Self::with(Notification::default()))
    }

    /// Keeps the root for the next call of this thread, unless a waker of it is still about.
    pub(crate) fn spare(mut root: Arc<Self>) {
        if let Some(fresh) = Arc::get_mut(&mut root) {
            *fresh = Self::fresh(Notification::default());
            // At the thread's end there is no next call.
            let _ = SPARE.try_with(|spare| spare.set(Some(root)));
        }
    }

    pub(crate) fn settle(&self, netpoll: &Arc<Netpoll>, peer: Option<Arc<Peer>>) {
        self.settle_in(Place::Processor {
            netpoll: netpoll.clone(),
            peer,
        });
    }

    pub(crate) fn settle_above(&self, below: &Arc<Self>) {
        self.settle_in(Place::Above(below.clone()));
    }

    /// Whether its thread may wait for it by now.
    pub(crate) fn is_settled(&self) -> bool {
        self.place.get().is_some()
    }

    fn settle_in(&self, place: Place) {
        let fresh = self.place.set(place).is_ok();
        debug_assert!(fresh, "a root has one place");
    }

    pub(crate) fn parker(&self) -> &Parker {
        match self.place.get() {
            Some(Place::Above(below)) => below.parker(),
            Some(Place::Processor {
                peer: Some(peer), ..
            }) => &peer.thread.parker,
            Some(Place::Processor { peer: None, .. }) | None => &self.own,
        }
    }

    /// A waker of it. Never inlined: in a crate of a user's it would have functions of its own, by
    /// which no waker is known.
    #[inline(never)]
    pub(crate) fn waker(self: Arc<Self>) -> Waker {
        Waker::from(self)
    }

    /// Ends the thread's sleep, for whatever reason.
    pub(crate) fn unpark(&self) {
        if let Some(Place::Above(below)) = self.place.get() {
            return below.unpark();
        }
        self.parker().unpark(|| match self.place.get() {
            Some(Place::Processor { netpoll, .. }) => netpoll.interrupt(),
            _ => unreachable!("a thread in the netpoll has its place"),
        });
    }

    /// Whether the root is to be polled.
    pub(crate) fn is_notified(&self) -> bool {
        self.notified.is_set()
    }

    /// Consumes the notification.
    pub(crate) fn take(&self) -> bool {
        self.notified.take()
    }
}

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.notified.set() {
            self.unpark();
        }
    }
}

/// The functions of the wakers of roots.
fn table() -> &'static RawWakerVTable {
    static TABLE: OnceLock<&'static RawWakerVTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        Arc::new(Root::fresh(Notification::default()))
            .waker()
            .vtable()
    })
}

/// Whether a waker is one of a root. It may miss one, for a table of functions may be there several
/// times.
pub(super) fn is_of_a_root(waker: &Waker) -> bool {
    std::ptr::eq(waker.vtable(), table())
}

/// What is noted of a thread while one wait of it is above another.
#[derive(Default)]
pub(crate) struct Nested {
    /// While it waits for a permit above a poll: what it waits for there.
    pub(crate) above: RefCell<Option<Arc<Root>>>,
    /// The user's code that runs between two polls has pinned a task to this thread.
    pub(crate) pinned: Cell<bool>,
}

#[cfg(test)]
mod tests {
    use std::{ptr, task::Poll, time::Instant};

    use super::*;
    use crate::{cell::joiner::Joiner, runtime::Runtime};

    fn spare() -> Option<Arc<Root>> {
        SPARE.take()
    }

    #[test]
    fn a_spare_root_is_as_new() {
        let runtime = Runtime::new().unwrap();
        let root = (0..10_000).find_map(|_| {
            // It becomes a worker and waits, so the root gets a place and a notification.
            runtime.block_on(async { crate::spawn(async {}).await.unwrap() });
            // The thread that has woken it may hold it for a moment more.
            spare()
        });
        let root = root.expect("nothing holds the root any more");
        assert!(root.place.get().is_none(), "it would keep the runtime");
        assert!(!root.is_notified(), "the first poll comes at once");
    }

    #[test]
    fn a_root_whose_waker_is_about_is_not_used_again() {
        let runtime = Runtime::new().unwrap();
        let stale = runtime.block_on(std::future::poll_fn(|cx| Poll::Ready(cx.waker().clone())));
        assert!(spare().is_none(), "a wake would reach the next call");
        stale.wake();
    }

    #[test]
    fn a_notification_is_consumed_once() {
        let root = Root::new();
        assert!(root.is_notified() && root.take(), "the first poll is due");
        assert!(!root.is_notified() && !root.take());
        root.wake_by_ref();
        root.wake_by_ref();
        assert!(root.is_notified() && root.take());
        assert!(!root.is_notified() && !root.take());
    }

    // Fails if the table is not told, or if its tag stays in the address.
    #[test]
    fn a_root_joins_a_task_without_a_box() {
        let root = Root::new();
        let waker = root.clone().waker();
        let joiner = Joiner::new(waker.clone());
        assert!(!joiner.is_boxed());
        assert_eq!(Arc::strong_count(&root), 3);
        drop(joiner);
        assert_eq!(Arc::strong_count(&root), 2);
        let again = Joiner::new(waker.clone()).into_waker();
        assert!(again.will_wake(&waker));
        assert!(root.take());
        again.wake();
        assert!(root.is_notified());
        assert_eq!(Arc::strong_count(&root), 2);
    }

    #[test]
    fn a_root_is_woken_where_its_thread_sleeps() {
        let runtime = Runtime::new().unwrap();
        let shared = runtime.handle().shared();
        let processor = shared.take_processor().expect("there is room for it");
        let [alone, own, worker, above] = [(); 4].map(|()| Root::new());
        let its_own = |root: &Root| ptr::eq(root.parker(), &raw const root.own);
        let of_the_p =
            |root: &Root| ptr::eq(root.parker(), &raw const processor.peer.thread.parker);
        assert!(its_own(&alone));
        own.settle(&shared.io.netpoll, None);
        assert!(its_own(&own), "it takes nothing but its own");
        worker.settle(&shared.io.netpoll, Some(processor.peer.clone()));
        assert!(of_the_p(&worker));
        above.settle_above(&worker);
        assert!(of_the_p(&above));
        above.unpark();
        assert!(processor.peer.thread.parker.wake_up());
        shared.return_processor(processor);
    }

    #[test]
    fn a_root_calls_its_thread_back_from_the_netpoll() {
        let runtime = Runtime::new().unwrap();
        let shared = runtime.handle().shared();
        let root = Root::new();
        root.settle(&shared.io.netpoll, None);
        root.parker().park_polling(|| {
            let mut poller = shared.io.netpoll.try_poller().expect("nobody is there");
            poller.prepare();
            root.unpark();
            let waited = poller.wait(Some(Instant::now()), &mut Vec::new());
            assert!(waited.unwrap().interrupted);
        });
    }
}
