//! What `/proc` tells of a thread of this process, and of its memory.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read},
    os::unix::fs::FileExt,
    str,
};

use crate::no_stack::Why;

/// Bytes of `/proc/self/task/TID/syscall`: nine numbers of 64 bits, in hexadecimal.
const CALL_MAX: usize = 256;

/// What a thread does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// It waits, in a system call, or for a page of memory (no number).
    Blocked {
        number: Option<i64>,
        sp: u64,
        pc: u64,
    },
    /// It runs, or waits for a core.
    Running,
    /// The system does not tell.
    Unknown,
}

pub(super) fn activity(thread: u32) -> Activity {
    let mut text = [0; CALL_MAX];
    File::open(format!("/proc/self/task/{thread}/syscall"))
        .and_then(|mut file| file.read(&mut text))
        .ok()
        .and_then(|length| parse_activity(str::from_utf8(&text[..length]).ok()?))
        .unwrap_or(Activity::Unknown)
}

/// `running`, or the number of the call (-1: none), its arguments, stack pointer and program
/// counter.
fn parse_activity(text: &str) -> Option<Activity> {
    let text = text.trim_end();
    if text == "running" {
        return Some(Activity::Running);
    }
    let mut words = text.split(' ');
    let number: i64 = words.next()?.parse().ok()?;
    let mut from_the_end = words.rev();
    let mut address = || u64::from_str_radix(from_the_end.next()?.strip_prefix("0x")?, 16).ok();
    let (pc, sp) = (address()?, address()?);
    // 0: it ends.
    (sp != 0).then(|| Activity::Blocked {
        number: (number >= 0).then_some(number),
        sp,
        pc,
    })
}

/// Whether a thread has blocked that signal.
pub(super) fn blocks(thread: u32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status"));
    status.is_ok_and(|status| parse_blocks(&status, signal) == Some(true))
}

fn parse_blocks(status: &str, signal: i32) -> Option<bool> {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigBlk:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> (signal - 1) & 1 == 1)
}

/// The memory of this process, as a file. It is opened for each capture: a program may close all
/// descriptors, and after a `fork` it would still be the parent's.
pub(super) fn memory() -> io::Result<File> {
    File::open("/proc/self/mem")
}

/// How many bytes are there.
pub(super) fn read(memory: &File, address: u64, bytes: &mut [u8]) -> Result<usize, Why> {
    loop {
        match memory.read_at(bytes, address) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Why::Memory(error.to_string())),
            Ok(length) => return Ok(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_does_is_read() {
        assert_eq!(parse_activity("running\n"), Some(Activity::Running));
        let blocked = |number| {
            Some(Activity::Blocked {
                number,
                sp: 0x7fff_a676_e2f8,
                pc: 0x7fb8_3da8_02ad,
            })
        };
        let text = "230 0x3 0x0 0x2 0x7f 0xffffffff 0x0 0x7fffa676e2f8 0x7fb83da802ad\n";
        assert_eq!(parse_activity(text), blocked(Some(230)));
        let text = "-1 0x7fffa676e2f8 0x7fb83da802ad\n";
        assert_eq!(parse_activity(text), blocked(None));
        for text in ["", "0", "0 0x0 0x0", "-1 7 8", "a 0x1 0x2"] {
            assert_eq!(parse_activity(text), None, "{text}");
        }
    }

    #[test]
    fn a_blocked_signal_is_seen() {
        let status = "Name:\tx\nSigPnd:\t0000000000000000\nSigBlk:\t0000010000000000\n";
        assert_eq!(parse_blocks(status, 41), Some(true));
        assert_eq!(parse_blocks(status, 40), Some(false));
        assert_eq!(parse_blocks("Name:\tx\n", 41), None);
    }
}
