//! From a frame to its caller, by `.eh_frame`, over a copy of the stack.
//!
//! Each step computes the canonical frame address (CFA), which is the stack pointer of the caller,
//! and the registers of the caller from what the function has saved. A register that is not known
//! stays so. If the CFA needs one, `frame_pointer.rs` may find it again.
//!
//! *The walk ends*: each step has to go up the stack, the copy has an end, and there is a limit on
//! frames. Nothing outside of the copy is read.

use gimli::{
    CfaRule, EvaluationResult, EvaluationStorage, Expression, Location, Piece, Register,
    RegisterRule, UnwindContext, UnwindExpression, Value,
};

use super::{
    frame_pointer,
    module::{Bytes, Image, Mapping},
    names::Modules,
    registers::{FRAME_POINTER, Registers, SP},
};

/// Frames of a walk at most.
const FRAMES_MAX: usize = 512;
/// Steps of an expression at most.
const EXPRESSION_MAX: u32 = 1_000;
/// Addresses of programs have so many bits; above them AArch64 may have a signature.
const ADDRESS_BITS: u32 = 48;

/// A copy of the stack.
#[derive(Clone, Copy)]
pub(super) struct Copy<'a> {
    /// Where it was.
    pub(super) start: u64,
    pub(super) bytes: &'a [u8],
}

impl Copy<'_> {
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let word = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Where a function goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) address: u64,
    /// It has called the function of the frame before. So the call is before the address.
    pub(super) has_called: bool,
}

impl Place {
    /// An address in the instruction that is executed.
    pub(super) fn inside(self) -> u64 {
        self.address - u64::from(self.has_called)
    }
}

/// Why a walk ends.
enum End {
    /// The function has no caller.
    Begin,
    Cut(&'static str),
}

/// All frames, and why there are no more, if the last one is not the first function of the thread.
pub(super) fn walk(
    registers: &Registers,
    bytes: &[u8],
    modules: &mut Modules,
) -> (Vec<Place>, Option<&'static str>) {
    let mut registers = *registers;
    let mut places = Vec::new();
    let mut has_called = false;
    let Some(start) = registers.sp() else {
        return (places, Some("the stack pointer is not known"));
    };
    let copy = Copy { start, bytes };
    while places.len() < FRAMES_MAX {
        let address = registers.pc;
        let place = Place {
            address,
            has_called,
        };
        places.push(place);
        let stepped = match modules.at(place.inside()) {
            Some((mapping, image)) => step(&registers, place, copy, mapping, image),
            None => by_frame_pointer(&registers, copy)
                .ok_or(End::Cut("there is code that belongs to no file"))
                .map(|caller| (caller, true)),
        };
        let (caller, called) = match stepped {
            Ok(stepped) => stepped,
            Err(End::Begin) => return (places, None),
            Err(End::Cut(why)) => return (places, Some(why)),
        };
        has_called = called;
        let (from, to) = (registers.sp(), caller.sp());
        // The first function may have no frame, where the return address is in a register.
        if to < from || (to == from && places.len() > 1) {
            return (places, Some("the stack does not go on upwards"));
        }
        registers = caller;
    }
    (places, Some("there are more frames than are shown"))
}

/// The caller's registers, and whether it is in a call (and was not interrupted by a signal).
fn step(
    registers: &Registers,
    place: Place,
    copy: Copy<'_>,
    mapping: &Mapping,
    image: &Image,
) -> Result<(Registers, bool), End> {
    let unknown = || match by_frame_pointer(registers, copy) {
        Some(caller) => Ok((caller, true)),
        None => Err(End::Cut("a function has no unwind information")),
    };
    let Some(address) = image.address(mapping, place.inside()) else {
        return unknown();
    };
    let (Some(entry), Some(eh_frame)) = (image.frame_entry(address), &image.eh_frame) else {
        return unknown();
    };
    let mut context = UnwindContext::new();
    let row = entry.unwind_info_for_address(eh_frame, &image.bases, &mut context, address);
    let row = row.map_err(|_| End::Cut("unwind information is not understood"))?;
    let mut registers = *registers;
    let frame = Frame {
        copy,
        image,
        encoding: entry.cie().encoding(),
    };
    let cfa = match *row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            if registers.get(register).is_none() && register == Register(FRAME_POINTER) {
                let found = frame_pointer::find(&registers, copy, image, &entry);
                registers.set(
                    register,
                    found.ok_or(End::Cut("the frame pointer is lost"))?,
                );
            }
            let base = registers.get(register);
            base.map(|base| base.wrapping_add_signed(offset))
        }
        CfaRule::Expression(ref expression) => frame.evaluate(expression, &registers, None),
    };
    let cfa = cfa.ok_or(End::Cut("a register is lost"))?;
    let mut caller = registers.kept();
    let return_register = entry.cie().return_address_register();
    let mut return_address = None;
    for (register, rule) in row.registers() {
        let value = match rule {
            RegisterRule::Undefined if *register == return_register => return Err(End::Begin),
            RegisterRule::SameValue => registers.get(*register),
            RegisterRule::Offset(offset) => copy.word(cfa.wrapping_add_signed(*offset)),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => registers.get(*other),
            RegisterRule::Expression(expression) => frame
                .evaluate(expression, &registers, Some(cfa))
                .and_then(|address| copy.word(address)),
            RegisterRule::ValExpression(expression) => {
                frame.evaluate(expression, &registers, Some(cfa))
            }
            RegisterRule::Constant(value) => Some(*value),
            _ => None,
        };
        match value {
            _ if *register == return_register => return_address = Some(value),
            Some(value) => caller.set(*register, value),
            None => caller.forget(*register),
        }
    }
    // AArch64: the function has not saved it.
    let return_address = return_address.unwrap_or_else(|| registers.get(return_register));
    if caller.sp().is_none() {
        caller.set(Register(SP), cfa);
    }
    let Some(pc) = return_address else {
        return Err(End::Cut(if cfa > copy.end() {
            "it is longer than what is copied"
        } else {
            "a return address is not known"
        }));
    };
    caller.pc = pc & ((1 << ADDRESS_BITS) - 1);
    if caller.pc == 0 {
        return Err(End::Begin);
    }
    Ok((caller, !entry.is_signal_trampoline()))
}

/// The caller of a function without unwind information, if it has kept the frame pointer as code of
/// many compilers does.
fn by_frame_pointer(registers: &Registers, copy: Copy<'_>) -> Option<Registers> {
    let frame = registers.get(Register(FRAME_POINTER))?;
    let mut caller = registers.kept();
    caller.set(Register(FRAME_POINTER), copy.word(frame)?);
    caller.set(Register(SP), frame.checked_add(16)?);
    caller.pc = copy.word(frame.checked_add(8)?)? & ((1 << ADDRESS_BITS) - 1);
    (caller.pc != 0).then_some(caller)
}

struct Frame<'a> {
    copy: Copy<'a>,
    image: &'a Image,
    encoding: gimli::Encoding,
}

/// An expression without allocations that grow.
struct Storage;

impl<R: gimli::Reader> EvaluationStorage<R> for Storage {
    type Stack = [Value; 64];
    type ExpressionStack = [(R, R); 4];
    type Result = [Piece<R>; 1];
}

impl Frame<'_> {
    /// What an expression comes to. It begins with the CFA on its stack, if there is one.
    fn evaluate(
        &self,
        expression: &UnwindExpression<usize>,
        registers: &Registers,
        cfa: Option<u64>,
    ) -> Option<u64> {
        let expression: Expression<Bytes> = expression.get(self.image.eh_frame.as_ref()?).ok()?;
        let mut evaluation: gimli::Evaluation<Bytes, Storage> =
            gimli::Evaluation::new_in(expression.0, self.encoding);
        evaluation.set_max_iterations(EXPRESSION_MAX);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = Value::Generic(registers.get(register)?);
                    evaluation.resume_with_register(value).ok()?
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let word = self.copy.word(address).filter(|_| size == 8)?;
                    evaluation.resume_with_memory(Value::Generic(word)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result() {
            [
                Piece {
                    location: Location::Address { address },
                    ..
                },
            ] => Some(*address),
            _ => None,
        }
    }
}
