//! Which file is mapped at an address: the program, its libraries, and the kernel's vdso.
//!
//! `/proc/self/maps` has the file, its inode and the place in it. A file on the disk that has
//! another inode than the one that is mapped (a program was updated while it runs) is not opened,
//! because its addresses mean something else. The program itself is opened by `/proc/self/exe`,
//! which is the right one also then.
//!
//! `dl_iterate_phdr` was rejected: it calls back with pointers to memory that another thread may
//! unmap. Here nothing but copies and files is read.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
};

use gimli::{BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, LittleEndian};
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind, read::elf::ElfFile64,
};

use super::{mapped, proc};

pub(super) type Bytes = EndianSlice<'static, LittleEndian>;
type Elf = ElfFile64<'static, object::LittleEndian>;

/// A part of a file in memory: a line of `/proc/self/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    start: u64,
    end: u64,
    executable: bool,
    offset: u64,
    inode: u64,
    path: String,
}

/// What is mapped at this moment.
pub(super) fn mappings() -> Vec<Mapping> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(Mapping::parse).collect()
}

impl Mapping {
    /// `START-END PERMISSIONS OFFSET DEVICE INODE PATH`.
    fn parse(line: &str) -> Option<Self> {
        let (range, rest) = line.split_once(' ')?;
        let (permissions, rest) = rest.split_once(' ')?;
        let (offset, rest) = rest.split_once(' ')?;
        let (_, rest) = rest.split_once(' ')?;
        let (inode, path) = rest.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let path = path.trim_start();
        (!path.is_empty()).then_some(Self {
            start: number(start)?,
            end: number(end)?,
            executable: permissions.contains('x'),
            offset: number(offset)?,
            inode: inode.parse().ok()?,
            path: path.to_owned(),
        })
    }

    pub(super) fn has_code_at(&self, address: u64) -> bool {
        self.executable && (self.start..self.end).contains(&address)
    }

    pub(super) fn path(&self) -> &str {
        self.path.strip_suffix(" (deleted)").unwrap_or(&self.path)
    }

    fn is_vdso(&self) -> bool {
        self.path == "[vdso]"
    }

    /// Two parts of the same file.
    pub(super) fn is_of(&self, module: &Module) -> bool {
        self.inode == module.inode && self.path == module.path
    }

    fn open(&self) -> Option<&'static [u8]> {
        if self.is_vdso() {
            let length = usize::try_from(self.end - self.start).ok()?;
            let mut bytes = vec![0; length];
            let read = proc::read(&proc::memory().ok()?, self.start, &mut bytes).ok()?;
            return (read == length).then(|| &*bytes.leak());
        }
        let is_the_one = |file: &File| {
            let metadata = file.metadata();
            metadata.is_ok_and(|metadata| metadata.ino() == self.inode)
        };
        // Inode numbers are those of a file system: another one may have the same.
        let program = fs::read_link("/proc/self/exe");
        let is_program = program.is_ok_and(|program| program.as_os_str() == &*self.path);
        let path = if is_program {
            "/proc/self/exe"
        } else {
            self.path()
        };
        // To open something else, such as a pipe, may take for ever.
        if !fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let file = File::open(path).ok().filter(is_the_one)?;
        mapped::map(&file)
    }
}

/// A file whose code is in memory.
#[derive(Debug)]
pub(super) struct Module {
    inode: u64,
    path: String,
    /// None: it could not be opened, or is no ELF file.
    pub(super) image: Option<Image>,
}

impl Module {
    pub(super) fn open(mapping: &Mapping) -> Self {
        Self {
            inode: mapping.inode,
            path: mapping.path.clone(),
            image: mapping.open().and_then(Image::parse),
        }
    }

    /// Its name, as frames show it.
    pub(super) fn name(&self) -> &str {
        let path = Path::new(self.path.trim_end_matches(" (deleted)"));
        let name = path.file_name().and_then(|name| name.to_str());
        name.unwrap_or(&self.path)
    }
}

/// What is in such a file. Addresses are those that the linker gave.
pub(super) struct Image {
    file: Elf,
    pub(super) bases: BaseAddresses,
    pub(super) eh_frame: Option<EhFrame<Bytes>>,
    eh_frame_hdr: Option<gimli::ParsedEhFrameHdr<Bytes>>,
    symbols: Vec<Symbol>,
    pub(super) lines: Option<addr2line::Context<Bytes>>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
struct Symbol {
    address: u64,
    size: u64,
    name: &'static str,
}

impl Image {
    fn parse(data: &'static [u8]) -> Option<Self> {
        let file = Elf::parse(data).ok()?;
        let address_of = |name| Some(file.section_by_name(name)?.address());
        let mut bases = BaseAddresses::default();
        if let Some(text) = address_of(".text") {
            bases = bases.set_text(text);
        }
        if let Some(address) = address_of(".eh_frame") {
            bases = bases.set_eh_frame(address);
        }
        if let Some(address) = address_of(".eh_frame_hdr") {
            bases = bases.set_eh_frame_hdr(address);
        }
        let section = |name| data_of(&file, name);
        let eh_frame = section(".eh_frame").map(EhFrame::from);
        let header =
            section(".eh_frame_hdr").map(|data| EhFrameHdr::new(data.slice(), LittleEndian));
        let eh_frame_hdr = header.and_then(|header| header.parse(&bases, 8).ok());
        let dwarf =
            gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(section(id.name()).unwrap_or_default()));
        let has_lines = section(".debug_info").is_some();
        let lines = dwarf.ok().filter(|_| has_lines);
        Some(Self {
            symbols: symbols(&file),
            lines: lines.and_then(|dwarf| addr2line::Context::from_dwarf(dwarf).ok()),
            bases,
            eh_frame,
            eh_frame_hdr,
            file,
        })
    }

    /// What the linker calls an address in memory.
    pub(super) fn address(&self, mapping: &Mapping, address: u64) -> Option<u64> {
        let offset = address - mapping.start + mapping.offset;
        self.file.segments().find_map(|segment| {
            let (start, length) = segment.file_range();
            let inside = offset.checked_sub(start).filter(|at| *at < length)?;
            Some(segment.address() + inside)
        })
    }

    /// The bytes from an address on, up to the end of its segment.
    pub(super) fn code(&self, address: u64) -> Option<&'static [u8]> {
        self.file.segments().find_map(|segment| {
            let inside = address.checked_sub(segment.address())?;
            segment.data().ok()?.get(usize::try_from(inside).ok()?..)
        })
    }

    /// How to come from the function at an address to its caller.
    pub(super) fn frame_entry(&self, address: u64) -> Option<gimli::FrameDescriptionEntry<Bytes>> {
        use gimli::UnwindSection;

        let eh_frame = self.eh_frame.as_ref()?;
        let table = self.eh_frame_hdr.as_ref().and_then(|header| header.table());
        match table {
            Some(table) => {
                table.fde_for_address(eh_frame, &self.bases, address, EhFrame::cie_from_offset)
            }
            None => eh_frame.fde_for_address(&self.bases, address, EhFrame::cie_from_offset),
        }
        .ok()
    }

    /// The function at an address, by the symbol table.
    pub(super) fn symbol(&self, address: u64) -> Option<&'static str> {
        let after = self
            .symbols
            .partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols[..after].last()?;
        // Functions in assembler may have no size.
        let is_inside = symbol.size == 0 || address < symbol.address + symbol.size;
        is_inside.then_some(symbol.name)
    }
}

/// None: it is not there, or is compressed.
fn data_of(file: &Elf, name: &str) -> Option<Bytes> {
    let section = file.section_by_name(name)?;
    let is_plain = section.compressed_file_range().ok()?.format == object::CompressionFormat::None;
    let data = section.data().ok().filter(|_| is_plain)?;
    Some(EndianSlice::new(data, LittleEndian))
}

/// The functions, by address. Those for the dynamic linker, if there are no others.
fn symbols(file: &Elf) -> Vec<Symbol> {
    let functions = |all: object::read::elf::ElfSymbolIterator64<'static, '_, _>| {
        all.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
            .filter_map(|symbol| {
                Some(Symbol {
                    address: symbol.address(),
                    size: symbol.size(),
                    name: symbol.name().ok()?,
                })
            })
            .collect::<Vec<_>>()
    };
    let mut symbols = functions(file.symbols());
    if symbols.is_empty() {
        symbols = functions(file.dynamic_symbols());
    }
    // The larger one last, where several have an address.
    symbols.sort_unstable_by_key(|symbol| (symbol.address, symbol.size));
    symbols
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read() {
        let line = "7f00-7fff r-xp 00001000 fd:00 4711      /usr/lib/a b.so (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end), (0x7f00, 0x7fff));
        assert_eq!((mapping.offset, mapping.inode), (0x1000, 4711));
        assert_eq!(mapping.path(), "/usr/lib/a b.so");
        assert!(mapping.has_code_at(0x7f00) && !mapping.has_code_at(0x7fff));
        assert_eq!(Mapping::parse("7f00-7fff rw-p 00000000 00:00 0 "), None);
    }

    /// The file of a library that was replaced is another one.
    #[test]
    fn a_file_that_is_not_the_one_in_memory_is_not_opened() {
        let own = mappings().into_iter().find(|line| line.executable).unwrap();
        assert!(Module::open(&own).image.is_some());
        let other = Mapping {
            inode: own.inode + 1,
            ..own
        };
        assert!(Module::open(&other).image.is_none());
    }
}
