//! The frame pointer of a function, where it is not known.
//!
//! The kernel tells stack pointer and program counter of a blocked thread, and no other register.
//! Most functions need no more. But those of std keep a frame pointer, and their CFA is counted
//! from it.
//!
//! *The begin of the function tells.* A function with a frame pointer begins so:
//!
//! ```text
//! push rbp
//! mov  rbp, rsp
//! push r15            up to six registers
//! ...
//! sub  rsp, 0x128     if there are variables
//! ```
//!
//! After that the stack pointer stays, until the function ends. In the call that it is in, the
//! stack pointer is known. So the frame pointer is as much above it as the begin of the function
//! has subtracted. The word above that is the return address. If it is none, the walk ends there:
//! it is in no code of a file.
//!
//! Rejected: to search the stack upwards for what looks like a return address. Such words also stay
//! behind from calls that have returned.
//!
//! On AArch64 the answer is none.

use gimli::{FrameDescriptionEntry, Register};

use super::{
    module::{Bytes, Image},
    registers::Registers,
    unwind::Copy,
};

/// Bytes of the begin of a function that are looked at.
const PROLOGUE_MAX: usize = 64;

pub(super) fn find(
    registers: &Registers,
    copy: Copy<'_>,
    image: &Image,
    entry: &FrameDescriptionEntry<Bytes>,
) -> Option<u64> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let code = image.code(entry.initial_address())?;
    let subtracted = subtracted(&code[..code.len().min(PROLOGUE_MAX)])?;
    let frame = registers
        .get(Register(super::registers::SP))?
        .checked_add(subtracted)?;
    // A return address is there.
    copy.word(frame.checked_add(8)?)?;
    Some(frame)
}

/// By how much the stack pointer is below the frame pointer.
fn subtracted(code: &[u8]) -> Option<u64> {
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    /// `push rbp`, `mov rbp, rsp`, in both encodings.
    const BEGINS: [&[u8]; 2] = [&[0x55, 0x48, 0x89, 0xe5], &[0x55, 0x48, 0x8b, 0xec]];

    let code = code.strip_prefix(ENDBR64).unwrap_or(code);
    let mut code = BEGINS.iter().find_map(|begin| code.strip_prefix(*begin))?;
    let mut bytes = 0;
    loop {
        match code {
            // push rax to rdi, and r8 to r15
            [0x50..=0x57, rest @ ..] | [0x41, 0x50..=0x57, rest @ ..] => {
                bytes += 8;
                code = rest;
            }
            [0x48, 0x83, 0xec, less, ..] => return Some(bytes + u64::from(*less)),
            [0x48, 0x81, 0xec, a, b, c, d, rest @ ..] => {
                let less = u64::from(u32::from_le_bytes([*a, *b, *c, *d]));
                return (!realigns(rest)).then_some(bytes + less);
            }
            // Aligned to more than the ABI: not by a fixed number.
            _ if realigns(code) => return None,
            _ => return Some(bytes),
        }
    }
}

/// `and rsp, -32`, in both encodings.
fn realigns(code: &[u8]) -> bool {
    matches!(code, [0x48, 0x83 | 0x81, 0xe4, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_begin_of_a_function_is_read() {
        let begin = [0x55, 0x48, 0x89, 0xe5];
        let with = |rest: &[u8]| subtracted(&[&begin, rest].concat());
        assert_eq!(with(&[0x90]), Some(0));
        assert_eq!(with(&[0x41, 0x57, 0x41, 0x56, 0x53, 0x50, 0x90]), Some(32));
        assert_eq!(with(&[0x53, 0x48, 0x83, 0xec, 0x18]), Some(32));
        assert_eq!(with(&[0x53, 0x48, 0x81, 0xec, 0, 1, 0, 0]), Some(264));
        let realigned = [0x48, 0x83, 0xe4, 0xe0, 0x48, 0x81, 0xec, 0, 1, 0, 0];
        assert_eq!(with(&realigned), None);
        assert_eq!(subtracted(&[0x48, 0x83, 0xec, 0x18]), None);
        let with_endbr = [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x53, 0x90];
        assert_eq!(subtracted(&with_endbr), Some(8));
    }
}
