//! The names of the frames of a stack, and the files that they are in.
//!
//! What was read of a file is kept for the next walk. One thread at a time walks.

use std::sync::{Mutex, PoisonError};

use super::{
    module::{Image, Mapping, Module, mappings},
    registers::Registers,
    unwind::{self, Place},
};
use crate::{Frame, Stack};

/// The files that were read.
static MODULES: Mutex<Vec<Module>> = Mutex::new(Vec::new());

/// The files that are mapped.
pub(super) struct Modules<'a> {
    mappings: Vec<Mapping>,
    modules: &'a mut Vec<Module>,
}

impl Modules<'_> {
    fn module(&mut self, address: u64) -> Option<(&Mapping, &Module)> {
        let mut mappings = self.mappings.iter();
        let mapping = mappings.find(|mapping| mapping.has_code_at(address))?;
        let known = self.modules.iter().position(|known| mapping.is_of(known));
        let index = known.unwrap_or_else(|| {
            self.modules.push(Module::open(mapping));
            self.modules.len() - 1
        });
        Some((mapping, &self.modules[index]))
    }

    /// The file that is mapped at an address.
    pub(super) fn at(&mut self, address: u64) -> Option<(&Mapping, &Image)> {
        let (mapping, module) = self.module(address)?;
        Some((mapping, module.image.as_ref()?))
    }
}

pub(super) fn resolve(registers: &Registers, bytes: &[u8]) -> Stack {
    // What is there is whole: a file is put there when it was read.
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut modules = Modules {
        mappings: mappings(),
        modules: &mut modules,
    };
    let (places, cut) = unwind::walk(registers, bytes, &mut modules);
    let mut frames = Vec::new();
    for place in places {
        name(place, &mut modules, &mut frames);
    }
    Stack {
        frames,
        cut: cut.map(str::to_owned),
    }
}

/// The function at a place, after those that were inlined into it there.
fn name(place: Place, modules: &mut Modules<'_>, frames: &mut Vec<Frame>) {
    let mut frame = Frame {
        address: place.address,
        function: None,
        file: None,
        line: None,
        module: None,
    };
    let Some((mapping, module)) = modules.module(place.inside()) else {
        frames.push(frame);
        return;
    };
    frame.module = Some(module.name().to_owned());
    let image = module.image.as_ref();
    let address = image.and_then(|image| image.address(mapping, place.inside()));
    let Some((image, address)) = image.zip(address) else {
        frames.push(frame);
        return;
    };
    let symbol = image.symbol(address).map(demangled);
    let before = frames.len();
    if let Some(lines) = &image.lines
        && let Ok(mut inlined) = lines.find_frames(address).skip_all_loads()
    {
        while let Ok(Some(found)) = inlined.next() {
            let name = found.function.as_ref();
            let name = name.and_then(|name| name.raw_name().ok());
            let location = found.location.as_ref();
            let line = location.and_then(|location| location.line);
            frames.push(Frame {
                function: name.map(|name| demangled(&name)),
                file: location.and_then(|location| location.file.map(str::to_owned)),
                line: line.filter(|line| *line > 0),
                ..frame.clone()
            });
        }
    }
    match frames[before..].last_mut() {
        None => {
            frame.function = symbol;
            frames.push(frame);
        }
        // The function itself. Its symbol has the whole path, debug information often has not.
        Some(last) => last.function = symbol.or(last.function.take()),
    }
}

fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}
