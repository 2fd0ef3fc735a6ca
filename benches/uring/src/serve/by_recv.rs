//! Multishot receive into provided buffers, and sends by the same ring.
//!
//! A buffer is answered from where it is: it goes back to the kernel when the send has ended.

use std::{io, os::fd::AsRawFd};

use io_uring::{
    IoUring, cqueue,
    opcode::{RecvMulti, Send},
    squeue::Entry,
    types::Fd,
};

use super::{
    Server,
    buffers::{Buffers, GROUP},
    client_has_gone,
};
use crate::meter::Figures;

/// Marks the completion of a send. The rest of the number is the buffer; of a receive, the
/// connection.
const SEND: u64 = 1 << 63;

pub(super) fn serve(server: &mut Server, is_own: bool) -> io::Result<Figures> {
    let mut ring = super::ring(is_own)?;
    let mut completions = Completions {
        server,
        buffers: Buffers::new(&ring)?,
        submissions: Vec::new(),
        receives: 0,
        sends: 0,
        is_ending: false,
    };
    for token in 0..completions.server.connections.len() {
        completions.receive(token);
    }
    let figures = loop {
        completions.round(&mut ring, is_own)?;
        if let Some(figures) = completions.server.meter.look()? {
            break figures;
        }
    };
    completions.finish(&mut ring, is_own)?;
    Ok(figures)
}

struct Completions<'a> {
    server: &'a mut Server,
    buffers: Buffers,
    submissions: Vec<Entry>,
    /// Receives that are under way.
    receives: usize,
    sends: usize,
    is_ending: bool,
}

impl Completions<'_> {
    /// Submits what is there, waits for completions, and handles them.
    fn round(&mut self, ring: &mut IoUring, is_one_call: bool) -> io::Result<()> {
        let mut queue = ring.submission();
        for entry in self.submissions.drain(..) {
            // SAFETY: the buffer of a send is not given to the kernel before the send has ended.
            // An answer that is no buffer lives as long as the program. A receive has the buffers'
            // memory alone, which `finish` frees when all has ended, and else nobody.
            unsafe { queue.push(&entry) }.map_err(io::Error::other)?;
        }
        drop(queue);
        if is_one_call {
            // A send ends in the call that submits it, if there is room. So one completion more
            // than that is news, and the call waits for it.
            ring.submit_and_wait(self.sends + self.receives.min(1))?;
            self.server.meter.calls += 1;
        } else {
            if !ring.submission().is_empty() {
                ring.submit()?;
                self.server.meter.calls += 1;
            }
            if ring.completion().is_empty() {
                ring.submit_and_wait(1)?;
                self.server.meter.calls += 1;
            }
        }
        self.server.meter.rounds += 1;
        for entry in ring.completion() {
            match entry.user_data() & SEND {
                0 => self.received(&entry)?,
                _ => self.sent(&entry)?,
            }
        }
        Ok(())
    }

    fn receive(&mut self, token: usize) {
        let fd = Fd(self.server.connections[token].as_raw_fd());
        let entry = RecvMulti::new(fd, GROUP).build().user_data(token as u64);
        self.submissions.push(entry);
        self.receives += 1;
    }

    fn received(&mut self, entry: &cqueue::Entry) -> io::Result<()> {
        let token = entry.user_data() as usize;
        let has_ended = !cqueue::more(entry.flags());
        self.receives -= usize::from(has_ended);
        if let Some(id) = cqueue::buffer_select(entry.flags()) {
            let length = entry.result().max(0) as usize;
            self.answer(token, id, length)?;
        }
        match entry.result() {
            _ if self.is_ending => Ok(()),
            0 => Err(client_has_gone()),
            result if result < 0 && result != -libc::ENOBUFS => {
                Err(io::Error::from_raw_os_error(-result))
            }
            _ => {
                if has_ended {
                    self.receive(token);
                }
                Ok(())
            }
        }
    }

    fn answer(&mut self, token: usize, id: u16, length: usize) -> io::Result<()> {
        if length == 0 || self.is_ending {
            self.buffers.give(id);
            return Ok(());
        }
        let answer = self.server.work.answer(self.buffers.filled(id, length))?;
        let fd = Fd(self.server.connections[token].as_raw_fd());
        let send = Send::new(fd, answer.as_ptr(), answer.len() as u32).flags(libc::MSG_NOSIGNAL);
        let entry = send.build().user_data(SEND | u64::from(id));
        self.submissions.push(entry);
        self.sends += 1;
        Ok(())
    }

    fn sent(&mut self, entry: &cqueue::Entry) -> io::Result<()> {
        self.sends -= 1;
        self.buffers.give(entry.user_data() as u16);
        match entry.result() {
            _ if self.is_ending => {}
            result if result < 0 => return Err(io::Error::from_raw_os_error(-result)),
            result if result as usize == self.server.work.answer_len() => {
                self.server.meter.served += 1;
            }
            _ => return Err(io::Error::other("no room for an answer")),
        }
        Ok(())
    }

    /// Ends all operations and frees the buffers: to close a ring does not wait for them.
    fn finish(mut self, ring: &mut IoUring, is_one_call: bool) -> io::Result<()> {
        self.is_ending = true;
        self.server.shut_down();
        while self.receives + self.sends > 0 {
            self.round(ring, is_one_call)?;
        }
        // SAFETY: nothing is under way, and `round` alone begins something.
        unsafe { self.buffers.free() };
        Ok(())
    }
}
