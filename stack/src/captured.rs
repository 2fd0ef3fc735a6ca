//! A stack that was copied, and is walked when somebody wants to see it.

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock},
};

use crate::{Stack, system::Raw};

/// A copy of a thread's stack. Clones share it, and what was found in it.
#[derive(Clone)]
pub struct Captured(Arc<Shared>);

struct Shared {
    /// The copy; None when it was walked.
    raw: Mutex<Option<Raw>>,
    stack: OnceLock<Stack>,
}

impl Captured {
    #[allow(dead_code, reason = "called where there are stacks")]
    pub(crate) fn new(raw: Raw) -> Self {
        Self(Arc::new(Shared {
            raw: Mutex::new(Some(raw)),
            stack: OnceLock::new(),
        }))
    }

    /// Walks the copy and finds the names. The first call may take long: it reads debug
    /// information. The copy is freed then.
    pub fn resolve(&self) -> &Stack {
        self.0.stack.get_or_init(|| {
            let raw = self.0.raw.lock().map(|mut raw| raw.take());
            match raw.ok().flatten() {
                Some(raw) => raw.resolve(),
                // A walk has panicked.
                None => Stack::default(),
            }
        })
    }
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Captured")
            .field(&self.0.stack.get())
            .finish()
    }
}
