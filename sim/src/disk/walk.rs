//! How a path leads to a node.

use std::io;

use super::store::{Kind, Name, NodeId, ROOT, Store};
use crate::error::os;

/// Links on the way at most, as in Linux.
const LINKS: usize = 40;

const NAME_MAX: usize = 255;
const PATH_MAX: usize = 4096;

/// Where a path leads to.
#[derive(Debug)]
pub(crate) enum Found {
    Here(Here),
    /// To a path of the system's.
    System(Vec<u8>),
}

#[derive(Debug)]
pub(crate) struct Here {
    pub(super) folder: NodeId,
    pub(super) last: Last,
    pub(super) node: Option<NodeId>,
    /// The path ends with a slash.
    pub(super) is_folder: bool,
}

/// The last part of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Last {
    Name(Name),
    Dot,
    DotDot,
    Root,
}

impl Here {
    /// The node, or `ENOENT`.
    pub(super) fn node(&self) -> io::Result<NodeId> {
        self.node.ok_or_else(|| os(libc::ENOENT))
    }

    /// The name of something new. `EEXIST` if it is there.
    pub(super) fn new_name(&self) -> io::Result<Name> {
        match (&self.last, self.node) {
            (Last::Name(name), None) => Ok(name.clone()),
            _ => Err(os(libc::EEXIST)),
        }
    }
}

impl Store {
    /// Follows a path that begins at `start`, or at the root. `follow`: also a link at its end. A
    /// slash at the end follows it as well, and asks for a folder.
    pub(crate) fn walk(&self, start: NodeId, path: &[u8], follow: bool) -> io::Result<Found> {
        let is_folder = path.ends_with(b"/");
        let found = self.walk_to_name(start, path, follow || is_folder)?;
        match &found {
            Found::Here(Here {
                node: Some(node), ..
            }) if is_folder && !matches!(self.node(*node).kind, Kind::Folder(_)) => {
                Err(os(libc::ENOTDIR))
            }
            _ => Ok(found),
        }
    }

    /// The same for a call that makes, moves or removes a name: without `follow` a slash at the end
    /// does not follow a link either. What the name stands for is any node.
    pub(super) fn walk_to_name(
        &self,
        start: NodeId,
        path: &[u8],
        follow: bool,
    ) -> io::Result<Found> {
        if path.is_empty() {
            return Err(os(libc::ENOENT));
        }
        if path.len() >= PATH_MAX {
            return Err(os(libc::ENAMETOOLONG));
        }
        let mut here = if path[0] == b'/' { ROOT } else { start };
        // The parts that are left, the next one last.
        let mut parts = parts(path);
        let is_folder = path.ends_with(b"/");
        let mut links = 0;
        let mut last = (here, Last::Root);
        while let Some(part) = parts.pop() {
            let next = match &self.node(here).kind {
                Kind::Folder(folder) => match part.as_slice() {
                    b"." => {
                        last = (here, Last::Dot);
                        here
                    }
                    b".." => {
                        last = (here, Last::DotDot);
                        folder.parent
                    }
                    name if name.len() > NAME_MAX => return Err(os(libc::ENAMETOOLONG)),
                    name => {
                        last = (here, Last::Name(part.clone()));
                        match folder.names.get(name) {
                            Some(next) => *next,
                            None if parts.is_empty() => {
                                return Ok(found(last, None, is_folder));
                            }
                            None => return Err(os(libc::ENOENT)),
                        }
                    }
                },
                _ => return Err(os(libc::ENOTDIR)),
            };
            match &self.node(next).kind {
                Kind::Link(target) if follow || !parts.is_empty() => {
                    links += 1;
                    if links > LINKS {
                        return Err(os(libc::ELOOP));
                    }
                    if target[0] == b'/' {
                        here = ROOT;
                    }
                    last = (here, Last::Root);
                    parts.extend(self::parts(target));
                }
                Kind::System(path) => match below(path, &mut parts) {
                    Some(path) if leads_out(&path) => return Err(os(libc::EACCES)),
                    Some(path) if is_of_groups(&path) || is_of_descriptor(&path) => {
                        return Err(os(libc::ENOENT));
                    }
                    Some(path) => return Ok(Found::System(path)),
                    // It came back to the folder above.
                    None => {
                        here = ROOT;
                        last = (ROOT, Last::Root);
                    }
                },
                _ => here = next,
            }
        }
        Ok(found(last, Some(here), is_folder))
    }

    /// The folder of a path in this disk.
    pub(super) fn find_folder(&self, path: &[u8]) -> io::Result<NodeId> {
        match self.walk(self.current, path, true)? {
            Found::Here(here) => {
                let node = here.node()?;
                self.names(node)?;
                Ok(node)
            }
            Found::System(_) => Err(os(libc::EROFS)),
        }
    }

    /// The folder that a folder is in, and its name there. `ENOENT` if it was removed.
    fn place_of(&self, node: NodeId) -> io::Result<(NodeId, &Name)> {
        let Some(Kind::Folder(folder)) = self.nodes.get(&node).map(|node| &node.kind) else {
            return Err(os(libc::ENOENT));
        };
        let mut names = self.names(folder.parent)?.iter();
        let name = names.find(|(_, child)| **child == node);
        let (name, _) = name.ok_or_else(|| os(libc::ENOENT))?;
        Ok((folder.parent, name))
    }

    /// The names that lead from the root to what a path stands for, each with its folder.
    pub(super) fn names_of_path(&self, path: &[u8]) -> io::Result<Vec<(NodeId, Name)>> {
        let Found::Here(here) = self.walk(self.start(), path, true)? else {
            return Err(os(libc::EROFS));
        };
        let mut folder = here.folder;
        let mut names = Vec::new();
        if let Last::Name(name) = here.last {
            names.push((folder, name));
        }
        while folder != ROOT {
            let (parent, name) = self.place_of(folder)?;
            names.push((parent, name.clone()));
            folder = parent;
        }
        Ok(names)
    }

    /// The path of a folder, or `ENOENT` if it was removed.
    pub(crate) fn path_of(&self, mut node: NodeId) -> io::Result<Vec<u8>> {
        let mut parts = Vec::new();
        while node != ROOT {
            let (parent, name) = self.place_of(node)?;
            parts.push(name.clone());
            node = parent;
        }
        parts.push(Vec::new());
        parts.reverse();
        let path = parts.join(&b'/');
        Ok(if path.is_empty() { b"/".to_vec() } else { path })
    }
}

fn found((folder, last): (NodeId, Last), node: Option<NodeId>, is_folder: bool) -> Found {
    Found::Here(Here {
        folder,
        last,
        node,
        is_folder,
    })
}

/// The parts of a path, the first one last.
fn parts(path: &[u8]) -> Vec<Name> {
    let parts = path.split(|byte| *byte == b'/').rev();
    parts
        .filter(|part| !part.is_empty())
        .map(Name::from)
        .collect()
}

/// Whether a path in a folder of the system leads to files of the machine that are not the
/// system's.
pub(crate) fn leads_out(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/').skip(1);
    match parts.next() {
        Some(b"dev") => matches!(parts.next(), Some(b"shm" | b"mqueue")),
        Some(b"proc") => parts.any(|part| matches!(part, b"cwd" | b"root" | b"map_files")),
        _ => false,
    }
}

/// Whether a path in a folder of the system is about control groups, by its parts alone. A host is
/// in none: it would have fewer CPUs where the machine's group has a quota.
pub(crate) fn is_of_groups(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/');
    let may_be = match parts.next() {
        Some(b"") => matches!(parts.next(), Some(b"proc" | b"sys")),
        _ => true, // it begins in a folder of the system that is open
    };
    may_be && parts.any(|part| matches!(part, b"cgroup" | b"cgroups"))
}

/// Whether a path begins with a folder or file of the machine that is open: `/proc/self/fd/3/name`
/// is in what the test, or another process, has open. A host has no such descriptor. What the
/// program's input and output are is there, and nothing below it.
pub(crate) fn is_of_descriptor(path: &[u8]) -> bool {
    const STANDARD: [&[u8]; 3] = [b"0", b"1", b"2"];

    let mut parts = path
        .split(|byte| *byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."));
    let number = match (parts.next(), parts.next()) {
        (Some(b"dev"), Some(b"fd")) => parts.next(),
        (Some(b"dev"), Some(b"stdin" | b"stdout" | b"stderr")) => Some(STANDARD[0]),
        (Some(b"proc"), Some(_)) => parts.find(|part| *part == b"fd").and_then(|_| parts.next()),
        _ => None,
    };
    number.is_some_and(|number| !STANDARD.contains(&number) || parts.next().is_some())
}

/// The path of what `parts` lead to in a folder of the system. None if they lead out of it, and
/// then the others are left in `parts`.
fn below(folder: &[u8], parts: &mut Vec<Name>) -> Option<Vec<u8>> {
    let mut path = vec![folder.to_vec()];
    while let Some(part) = parts.pop() {
        match part.as_slice() {
            b"." => {}
            b".." => {
                path.pop();
                if path.is_empty() {
                    return None;
                }
            }
            _ => path.push(part),
        }
    }
    Some(path.join(&b'/'))
}
