//! Buffers that the kernel takes from a ring when bytes have come.
//!
//! *Invariant*: a buffer is with the kernel from [`Buffers::give`] until a completion names it.
//! The kernel writes to it in between, and not after. It never writes to the ring of entries.

use std::{
    alloc::{self, Layout},
    io,
    ptr::NonNull,
    slice,
    sync::atomic::{AtomicU16, Ordering},
};

use io_uring::{IoUring, types::BufRingEntry};

/// As many as one connection each may need, and a power of two.
const COUNT: u16 = 1024;
const SIZE: usize = 4096;
const ENTRIES: usize = COUNT as usize * size_of::<BufRingEntry>();
/// The name of the group in a ring.
pub(super) const GROUP: u16 = 0;

#[derive(Debug)]
pub(super) struct Buffers {
    /// The ring of entries, which begins at a page, and behind it the buffers.
    memory: NonNull<u8>,
    tail: u16,
}

const LAYOUT: Layout = match Layout::from_size_align(ENTRIES + COUNT as usize * SIZE, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("it is smaller than the address space"),
};

impl Buffers {
    /// They are there until [`Buffers::free`]: without it they are leaked.
    pub(super) fn new(ring: &IoUring) -> io::Result<Buffers> {
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc::alloc_zeroed(LAYOUT) });
        let memory = memory.ok_or(io::ErrorKind::OutOfMemory)?;
        let mut buffers = Buffers { memory, tail: 0 };
        let (submitter, entries) = (ring.submitter(), memory.as_ptr() as u64);
        // SAFETY: there is room for as many entries, until `free`. The kernel looks at entries for
        // a receive alone, and the caller of `free` has none then.
        unsafe { submitter.register_buf_ring_with_flags(entries, COUNT, GROUP, 0) }?;
        (0..COUNT).for_each(|id| buffers.give(id));
        Ok(buffers)
    }

    /// # Safety
    ///
    /// No receive of the ring and no send from a buffer is under way, and none begins later.
    pub(super) unsafe fn free(self) {
        // SAFETY: it was allocated so, and the kernel does not use it, as the caller promises.
        unsafe { alloc::dealloc(self.memory.as_ptr(), LAYOUT) };
    }

    /// Gives a buffer to the kernel. It must be one that the kernel does not have.
    pub(super) fn give(&mut self, id: u16) {
        let address = self.buffer(id) as u64;
        let base = self.memory.cast::<BufRingEntry>();
        // SAFETY: the place is within the ring. It is free: no more than `COUNT` buffers are with
        // the kernel. And the kernel does not read it before the tail says so.
        let entry = unsafe { base.add(usize::from(self.tail % COUNT)).as_mut() };
        entry.set_addr(address);
        entry.set_len(SIZE as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `base` is the first entry of the ring.
        let tail = unsafe { BufRingEntry::tail(base.as_ptr()) }.cast_mut();
        // SAFETY: it is aligned, lives as long as the memory, and is only written here. The kernel
        // reads it, as one word.
        let tail = unsafe { AtomicU16::from_ptr(tail) };
        // Ordering: the kernel acquires it, and sees the entry.
        tail.store(self.tail, Ordering::Release);
    }

    /// What a completion says is in a buffer.
    pub(super) fn filled(&self, id: u16, length: usize) -> &[u8] {
        assert!(length <= SIZE);
        // SAFETY: the buffer has as many bytes, all of them initialised. The kernel has given it
        // back, and it gets it again by `give` alone, which borrows all buffers.
        unsafe { slice::from_raw_parts(self.buffer(id), length) }
    }

    fn buffer(&self, id: u16) -> *mut u8 {
        assert!(id < COUNT);
        // SAFETY: the buffer is within the memory.
        unsafe { self.memory.as_ptr().add(ENTRIES + usize::from(id) * SIZE) }
    }
}
