//! The bytes between a task and a thread that reads or writes for it.

use std::io::{self, ErrorKind, IoSlice, Read, Write};

/// Bytes that wait to be taken by the task, or to be written.
#[derive(Debug, Default)]
pub(crate) struct Buf {
    bytes: Vec<u8>,
    /// Those of them that wait. The others are there so that a read needs no new ones.
    start: usize,
    end: usize,
}

impl Buf {
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// What waits.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Takes some of what waits.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start = self.end.min(self.start + len);
    }

    /// Forgets what waits.
    fn discard(&mut self) {
        self.start = self.end;
    }

    /// Forgets what waits, if `f` succeeds. It is told how many bytes that are.
    pub(crate) fn forget_if_ok<T>(
        &mut self,
        f: impl FnOnce(usize) -> io::Result<T>,
    ) -> io::Result<T> {
        f(self.bytes().len()).inspect(|_| self.discard())
    }

    /// Takes out what waits.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let waits = self.bytes().to_vec();
        self.discard();
        waits
    }

    /// Puts back what was taken out, in place of what waits.
    pub(crate) fn put_back(&mut self, bytes: Vec<u8>) {
        self.start = 0;
        self.end = bytes.len();
        self.bytes = bytes;
    }

    /// Takes at most this many bytes from the task, and says how many.
    pub(crate) fn copy_from(&mut self, from: &[IoSlice<'_>], max: usize) -> usize {
        self.bytes.clear();
        for slice in from {
            let room = max - self.bytes.len();
            self.bytes
                .extend_from_slice(&slice[..slice.len().min(room)]);
        }
        self.start = 0;
        self.end = self.bytes.len();
        self.end
    }

    /// Reads at most this many bytes.
    pub(crate) fn read_from(&mut self, from: &mut impl Read, max: usize) -> io::Result<()> {
        self.start = 0;
        self.end = 0;
        if self.bytes.len() < max {
            // The system has zeroes: this costs no time for what the read does not fill.
            self.bytes = vec![0; max];
        }
        self.end = loop {
            match from.read(&mut self.bytes[..max]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        Ok(())
    }

    /// Writes what waits.
    pub(crate) fn write_to(&mut self, to: &mut impl Write) -> io::Result<()> {
        let written = to.write_all(self.bytes());
        self.discard();
        written
    }
}
