//! The stack of the calling thread, which is copied as that of another one is.
#![expect(unsafe_code, reason = "registers are read")]

use gimli::Register;

use super::{
    COPIED_MAX, Raw, proc,
    registers::{FRAME_POINTER, Registers},
};
use crate::no_stack::Why;

/// Bytes above the end, so that the frame that the end lies in can be walked.
const SLACK: u64 = 1024;

/// Copies from here up to an address on the stack.
#[inline(never)]
pub(crate) fn here(up_to: usize) -> Result<Raw, Why> {
    let (pc, sp, frame_pointer): (u64, u64, u64);
    // SAFETY: three registers are read, and nothing is written.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "lea {pc}, [rip]", "mov {sp}, rsp", "mov {frame_pointer}, rbp",
            pc = out(reg) pc, sp = out(reg) sp, frame_pointer = out(reg) frame_pointer,
            options(nomem, nostack, preserves_flags),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "adr {pc}, .", "mov {sp}, sp", "mov {frame_pointer}, x29",
            pc = out(reg) pc, sp = out(reg) sp, frame_pointer = out(reg) frame_pointer,
            options(nomem, nostack, preserves_flags),
        );
    }
    let mut registers = Registers::in_a_call(pc, sp);
    registers.set(Register(FRAME_POINTER), frame_pointer);
    let memory = proc::memory().map_err(|error| Why::Memory(error.to_string()))?;
    let length = (up_to as u64).saturating_sub(sp).saturating_add(SLACK);
    let mut bytes = vec![0; length.min(COPIED_MAX as u64) as usize];
    // What this reads is above the stack pointer: no call from here writes there.
    let length = proc::read(&memory, sp, &mut bytes)?;
    bytes.truncate(length);
    Ok(Raw { registers, bytes })
}
