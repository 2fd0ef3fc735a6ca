//! The registers of a thread, by the numbers that DWARF gives them. Each is known or not.

use gimli::Register;

/// x86-64: `System V ABI, AMD64 supplement`, figure 3.36.
#[cfg(target_arch = "x86_64")]
mod numbers {
    pub(in super::super) const COUNT: usize = 17;
    pub(in super::super) const SP: u16 = 7;
    pub(in super::super) const FRAME_POINTER: u16 = 6;
    /// Registers that a function leaves as they were: rbx, rbp, r12 to r15.
    pub(in super::super) const KEPT: u64 = 0b1111_0000_0100_1000;
}

/// AArch64: `DWARF for the Arm 64-bit Architecture`, section 4.1.
#[cfg(target_arch = "aarch64")]
mod numbers {
    pub(in super::super) const COUNT: usize = 32;
    pub(in super::super) const SP: u16 = 31;
    pub(in super::super) const FRAME_POINTER: u16 = 29;
    /// x19 to x29.
    pub(in super::super) const KEPT: u64 = 0x3ff8_0000;
}

pub(super) use numbers::{FRAME_POINTER, KEPT, SP};

/// Registers at some place of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub(super) pc: u64,
    values: [u64; numbers::COUNT],
    /// A bit for each that is known.
    known: u64,
}

impl Registers {
    pub(super) const fn unknown() -> Self {
        Self {
            pc: 0,
            values: [0; numbers::COUNT],
            known: 0,
        }
    }

    /// Of a thread that is blocked in the kernel, which tells no more.
    pub(super) fn in_a_call(pc: u64, sp: u64) -> Self {
        let mut registers = Self::unknown();
        registers.pc = pc;
        registers.set(Register(SP), sp);
        registers
    }

    /// Of a thread that was interrupted.
    pub(super) fn of(context: &libc::mcontext_t) -> Self {
        let mut registers = Self::unknown();
        #[cfg(target_arch = "x86_64")]
        {
            use libc::{
                REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RAX,
                REG_RBP, REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RIP, REG_RSI, REG_RSP,
            };
            let order = [
                REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
            ];
            for (number, index) in order.into_iter().enumerate() {
                let value = context.gregs[index as usize].cast_unsigned();
                registers.set(Register(number as u16), value);
            }
            registers.pc = context.gregs[REG_RIP as usize].cast_unsigned();
        }
        #[cfg(target_arch = "aarch64")]
        {
            for (number, value) in context.regs.iter().enumerate() {
                registers.set(Register(number as u16), *value);
            }
            registers.set(Register(SP), context.sp);
            registers.pc = context.pc;
        }
        registers
    }

    pub(super) fn get(&self, register: Register) -> Option<u64> {
        let number = usize::from(register.0);
        let is_known = number < self.values.len() && self.known >> number & 1 == 1;
        is_known.then(|| self.values[number])
    }

    pub(super) fn set(&mut self, register: Register, value: u64) {
        if let Some(place) = self.values.get_mut(usize::from(register.0)) {
            *place = value;
            self.known |= 1 << register.0;
        }
    }

    pub(super) fn forget(&mut self, register: Register) {
        if usize::from(register.0) < self.values.len() {
            self.known &= !(1 << register.0);
        }
    }

    /// What the caller has of them, if its callee says nothing else.
    pub(super) fn kept(&self) -> Self {
        Self {
            known: self.known & KEPT,
            ..*self
        }
    }

    pub(super) fn sp(&self) -> Option<u64> {
        self.get(Register(SP))
    }
}
