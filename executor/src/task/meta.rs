//! Where a task was spawned, and what few tasks have beside that, in one word.
#![expect(unsafe_code, reason = "a tagged pointer")]

use std::{marker::PhantomData, panic::Location, ptr::NonNull};

/// What few tasks have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) name: Option<Box<str>>,
}

#[derive(Debug)]
struct Full {
    extra: Extra,
    location: &'static Location<'static>,
}

/// Set on the address of a [`Full`]; without it the address is that of a `Location`. Both are aligned
/// to more than that.
const FULL: usize = 1;

/// See the module's head.
pub(super) struct Meta {
    word: NonNull<()>,
    owns: PhantomData<Full>,
}

// SAFETY: it is a `&'static Location` or a `Box` of plain data that is never changed.
unsafe impl Send for Meta {}
// SAFETY: as above.
unsafe impl Sync for Meta {}

impl Meta {
    pub(super) fn new(location: &'static Location<'static>, extra: Option<Box<Extra>>) -> Self {
        let word = match extra {
            None => NonNull::from(location).cast(),
            Some(extra) => NonNull::from(Box::leak(Box::new(Full {
                extra: *extra,
                location,
            })))
            .cast::<()>()
            .map_addr(|address| address | FULL),
        };
        Self {
            word,
            owns: PhantomData,
        }
    }

    fn full(&self) -> Option<NonNull<Full>> {
        let address = self.word.addr().get();
        (address & FULL != 0).then(|| {
            // The tag is the lowest bit of an address that has others.
            self.word
                .map_addr(|address| {
                    std::num::NonZero::new(address.get() & !FULL)
                        .expect("a box is not at address zero")
                })
                .cast()
        })
    }

    fn extra(&self) -> Option<&Full> {
        // SAFETY: a tagged word is the box that `new` leaked, which `drop` alone frees.
        self.full().map(|full| unsafe { full.as_ref() })
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.extra()?.extra.name.as_deref()
    }

    pub(super) fn location(&self) -> &'static Location<'static> {
        match self.extra() {
            Some(full) => full.location,
            // SAFETY: a word without a tag is a `&'static Location`.
            None => unsafe { self.word.cast().as_ref() },
        }
    }
}

impl Drop for Meta {
    fn drop(&mut self) {
        if let Some(full) = self.full() {
            // SAFETY: it is the box that `new` leaked, and nobody has a reference to it any more.
            drop(unsafe { Box::from_raw(full.as_ptr()) });
        }
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_plain_task_has_its_place_and_no_name() {
        let here = Location::caller();
        let meta = Meta::new(here, None);
        assert_eq!((meta.name(), meta.location()), (None, here));
    }

    #[test]
    fn a_named_task_has_both() {
        let here = Location::caller();
        let meta = Meta::new(
            here,
            Some(Box::new(Extra {
                name: Some("batch".into()),
            })),
        );
        assert_eq!((meta.name(), meta.location()), (Some("batch"), here));
    }
}
