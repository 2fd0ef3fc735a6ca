//! Linux: see the head of `lib.rs`.
//!
//! | file | asks |
//! | --- | --- |
//! | `registry.rs` | which threads may be signalled? |
//! | `proc.rs` | what does a thread do, and what is in its memory? |
//! | `signal.rs` | how is a thread interrupted? (`unsafe` code) |
//! | `alternate.rs` | where does the handler find room? (`unsafe` code) |
//! | `own.rs` | and the stack of the calling thread? (`unsafe` code) |
//! | `registers.rs` | what is in the registers? |
//! | `module.rs` | which file is mapped at an address? |
//! | `mapped.rs` | how is a file read? (`unsafe` code) |
//! | `unwind.rs` | which function called this one? |
//! | `frame_pointer.rs` | what if a register is needed that is not known? |
//! | `names.rs` | what are the names of an address? |
//! | `calls.rs` | what are the names of system calls? |

mod alternate;
mod calls;
mod frame_pointer;
mod mapped;
mod module;
mod names;
mod own;
mod proc;
mod registers;
mod registry;
mod signal;
mod unwind;

use std::{
    fs::File,
    time::{Duration, Instant},
};

use proc::Activity;
use registers::Registers;

pub(crate) use calls::name_of_call;
pub(crate) use own::here;
pub(crate) use registry::register_thread;

use crate::{Captured, Look, NoStack, Stack, SystemCall, no_stack::Why};

/// Bytes of a stack that are copied at most: some hundred frames.
const COPIED_MAX: usize = 128 * 1024;

/// Looks at a thread that may be blocked before it is signalled all the same.
const LOOKS: usize = 4;

/// A copy of the upper end of a stack.
#[derive(Debug)]
pub(crate) struct Raw {
    registers: Registers,
    /// What is in memory from the stack pointer on.
    bytes: Vec<u8>,
}

impl Raw {
    pub(crate) fn resolve(self) -> Stack {
        names::resolve(&self.registers, &self.bytes)
    }
}

pub(crate) fn capture(thread: u32, limit: Duration) -> Look {
    let until = Instant::now() + limit;
    let mut system_call = None;
    let raw = registry::with(thread, || {
        let memory = proc::memory().map_err(|error| Why::Memory(error.to_string()))?;
        if let Some(raw) = of_a_blocked_thread(thread, &memory, &mut system_call)? {
            return Ok(raw);
        }
        signal::ask(thread, memory, until)
    });
    Look {
        system_call,
        stack: raw.map(Captured::new).map_err(NoStack),
    }
}

/// None: it runs, or the system does not tell.
fn of_a_blocked_thread(
    thread: u32,
    memory: &File,
    call: &mut Option<SystemCall>,
) -> Result<Option<Raw>, Why> {
    for _ in 0..LOOKS {
        let before = signal::cpu_time(thread);
        let Activity::Blocked { number, sp, pc } = proc::activity(thread) else {
            *call = None;
            return Ok(None);
        };
        *call = number.map(SystemCall);
        let mut bytes = vec![0; COPIED_MAX];
        let length = proc::read(memory, sp, &mut bytes)?;
        // It has not run in between, so the copy is of one moment.
        if before.is_some() && before == signal::cpu_time(thread) {
            bytes.truncate(length);
            bytes.shrink_to_fit();
            let registers = Registers::in_a_call(pc, sp);
            return Ok(Some(Raw { registers, bytes }));
        }
    }
    Ok(None)
}
