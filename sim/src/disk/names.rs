//! Names: folders, links, renames, and what is known of a file.

use std::io;

use libc::c_int;

use super::{
    contents::{Contents, PAGE},
    open::{Open, is_special},
    store::{Kind, NodeId, ROOT, Store, Times},
    walk::{Found, Here, Last},
};
use crate::error::os;

/// What is known of a file, for `stat`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) node: u64,
    /// With the type.
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) len: u64,
    /// Of 512 bytes.
    pub(crate) blocks: u64,
    pub(crate) times: Times,
}

impl About {
    /// Of what is no file, and has only a type.
    pub(crate) fn other(mode: u32) -> Self {
        let times = Times {
            accessed: 0,
            modified: 0,
            changed: 0,
            born: 0,
        };
        Self {
            node: 0,
            mode,
            links: 1,
            len: 0,
            blocks: 0,
            times,
        }
    }
}

/// The pages of a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) blocks: u64,
    pub(crate) free: u64,
}

/// Pages that a disk without an end tells: a tebibyte.
const ENDLESS: u64 = 1 << 28;

/// An entry of a folder: its node, its type as of `stat`, and its name.
pub(crate) type Entry = (u64, u32, Vec<u8>);

impl Store {
    /// The folder at which relative paths begin.
    pub(crate) fn start(&self) -> NodeId {
        self.current
    }

    /// What a path leads to. It takes time if that is on this disk: the system's files take none,
    /// and neither does what is nowhere. A panic reads such files for its backtrace, as many as it
    /// does not know yet. That must not change the run.
    pub(super) fn find(&mut self, start: NodeId, path: &[u8], follow: bool) -> io::Result<Found> {
        let found = self.walk(start, path, follow)?;
        if matches!(&found, Found::Here(here) if here.node.is_some()) {
            self.takes_time(self.faults.latency);
        }
        Ok(found)
    }

    /// The name that a path ends with, and that is changed: `EROFS` if it is the system's.
    fn own(&mut self, start: NodeId, path: &[u8]) -> io::Result<Here> {
        self.takes_time(self.faults.latency);
        match self.walk_to_name(start, path, false)? {
            Found::Here(here) => Ok(here),
            Found::System(_) => Err(os(libc::EROFS)),
        }
    }

    /// The node that a path leads to, and that is changed.
    fn own_node(&mut self, start: NodeId, path: &[u8], follow: bool) -> io::Result<NodeId> {
        self.takes_time(self.faults.latency);
        match self.walk(start, path, follow)? {
            Found::Here(here) => here.node(),
            Found::System(_) => Err(os(libc::EROFS)),
        }
    }

    pub(crate) fn make_folder(&mut self, start: NodeId, path: &[u8], mode: u32) -> io::Result<()> {
        let here = self.own(start, path)?;
        let name = here.new_name()?;
        self.is_linked(here.folder)?;
        let node = self.add(Self::folder(here.folder), mode & !self.umask);
        self.change(vec![(here.folder, name, Some(node))]);
        Ok(())
    }

    /// Makes all folders of a path.
    pub(super) fn make_folders(&mut self, path: &[u8]) -> io::Result<()> {
        let ends = path.iter().enumerate().skip(1);
        let ends = ends.filter_map(|(at, byte)| (*byte == b'/').then_some(at));
        for end in ends.chain([path.len()]) {
            match self.make_folder(self.start(), &path[..end], 0o755) {
                Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn remove_folder(&mut self, start: NodeId, path: &[u8]) -> io::Result<()> {
        let here = self.own(start, path)?;
        let name = match here.last {
            Last::Name(name) => name,
            Last::Dot => return Err(os(libc::EINVAL)),
            Last::DotDot => return Err(os(libc::ENOTEMPTY)),
            Last::Root => return Err(os(libc::EBUSY)),
        };
        let node = here.node.ok_or_else(|| os(libc::ENOENT))?;
        if !self.names(node)?.is_empty() {
            return Err(os(libc::ENOTEMPTY));
        }
        self.change(vec![(here.folder, name, None)]);
        Ok(())
    }

    pub(crate) fn unlink(&mut self, start: NodeId, path: &[u8]) -> io::Result<()> {
        let here = self.own(start, path)?;
        let node = here.node()?;
        match (here.last, &self.node(node).kind) {
            (_, Kind::Folder(_)) => Err(os(libc::EISDIR)),
            _ if here.is_folder => Err(os(libc::ENOTDIR)),
            (Last::Name(name), _) => {
                self.change(vec![(here.folder, name, None)]);
                Ok(())
            }
            _ => Err(os(libc::EBUSY)),
        }
    }

    /// Whether `inner` is `outer`, or in it.
    fn is_within(&self, outer: NodeId, mut inner: NodeId) -> bool {
        loop {
            if inner == outer {
                return true;
            }
            match &self.node(inner).kind {
                Kind::Folder(folder) if inner != ROOT => inner = folder.parent,
                _ => return false,
            }
        }
    }

    pub(crate) fn rename(
        &mut self,
        (from_start, from): (NodeId, &[u8]),
        (to_start, to): (NodeId, &[u8]),
        flags: u32,
    ) -> io::Result<()> {
        let (keeps, swaps) = match flags {
            0 => (false, false),
            libc::RENAME_NOREPLACE => (true, false),
            libc::RENAME_EXCHANGE => (false, true),
            _ => return Err(os(libc::EINVAL)),
        };
        let from = self.own(from_start, from)?;
        let to = match self.walk_to_name(to_start, to, false)? {
            Found::Here(to) => to,
            Found::System(_) => return Err(os(libc::EXDEV)),
        };
        match (is_special(&from.last), is_special(&to.last)) {
            (false, true) if keeps => return Err(os(libc::EEXIST)),
            (false, false) => {}
            _ => return Err(os(libc::EBUSY)),
        }
        let node = from.node()?;
        let is_folder = self.names(node).is_ok();
        match to.node {
            Some(_) if keeps => return Err(os(libc::EEXIST)),
            None if swaps => return Err(os(libc::ENOENT)),
            _ => {}
        }
        let is_other_folder = to.node.is_some_and(|other| self.names(other).is_ok());
        let asks = from.is_folder || to.is_folder && !swaps;
        if !is_folder && asks || swaps && to.is_folder && !is_other_folder {
            return Err(os(libc::ENOTDIR));
        }
        if is_folder && self.is_within(node, to.folder) {
            return Err(os(libc::EINVAL));
        }
        self.is_linked(to.folder)?;
        match to.node {
            Some(other) if other == node => return Ok(()),
            Some(other) if swaps && self.is_within(other, from.folder) => {
                return Err(os(libc::EINVAL));
            }
            Some(other) if !swaps => {
                if self.is_within(other, from.folder) {
                    return Err(os(libc::ENOTEMPTY));
                }
                match (is_folder, self.names(other)) {
                    (true, Ok(names)) if !names.is_empty() => return Err(os(libc::ENOTEMPTY)),
                    (true, Err(_)) => return Err(os(libc::ENOTDIR)),
                    (false, Ok(_)) => return Err(os(libc::EISDIR)),
                    _ => {}
                }
            }
            _ => {}
        }
        let (Last::Name(from_name), Last::Name(to_name)) = (from.last, to.last) else {
            unreachable!("neither is special");
        };
        let other = to.node.filter(|_| swaps);
        self.change(vec![
            (to.folder, to_name, Some(node)),
            (from.folder, from_name, other),
        ]);
        Ok(())
    }

    /// Gives a file one more name.
    pub(crate) fn link(
        &mut self,
        (from_start, from): (NodeId, &[u8]),
        (to_start, to): (NodeId, &[u8]),
        follow: bool,
    ) -> io::Result<()> {
        let node = self.own_node(from_start, from, follow)?;
        self.link_node(node, to_start, to)
    }

    /// Gives a node one more name.
    pub(crate) fn link_node(
        &mut self,
        node: NodeId,
        to_start: NodeId,
        to: &[u8],
    ) -> io::Result<()> {
        let to = match self.walk_to_name(to_start, to, false)? {
            Found::Here(to) => to,
            Found::System(_) => return Err(os(libc::EXDEV)),
        };
        if to.is_folder && to.node.is_none() {
            return Err(os(libc::ENOENT));
        }
        let name = to.new_name()?;
        if self.names(node).is_ok() {
            return Err(os(libc::EPERM));
        }
        self.is_linked(to.folder)?;
        self.node_mut(node).awaits_name = false;
        self.change(vec![(to.folder, name, Some(node))]);
        Ok(())
    }

    pub(crate) fn symlink(&mut self, target: &[u8], start: NodeId, path: &[u8]) -> io::Result<()> {
        if target.is_empty() {
            return Err(os(libc::ENOENT));
        }
        let here = self.own(start, path)?;
        if here.is_folder && here.node.is_none() {
            return Err(os(libc::ENOENT));
        }
        let name = here.new_name()?;
        self.is_linked(here.folder)?;
        let node = self.add(Kind::Link(target.to_vec()), 0o777);
        self.change(vec![(here.folder, name, Some(node))]);
        Ok(())
    }

    /// Makes an empty file, or the file of a socket that is nowhere.
    pub(crate) fn make_file(
        &mut self,
        start: NodeId,
        path: &[u8],
        mode: u32,
        is_socket: bool,
    ) -> io::Result<()> {
        let here = self.own(start, path)?;
        if here.is_folder && here.node.is_none() {
            return Err(os(libc::ENOENT));
        }
        let name = here.new_name()?;
        self.is_linked(here.folder)?;
        let kind = match is_socket {
            true => Kind::Socket,
            false => Kind::File(Contents::default()),
        };
        let node = self.add(kind, mode & !self.umask);
        self.change(vec![(here.folder, name, Some(node))]);
        Ok(())
    }

    /// Makes the node of a Unix socket. `EADDRINUSE` if something has the path. It takes no time.
    pub(crate) fn make_socket(&mut self, path: &[u8]) -> io::Result<NodeId> {
        let here = match self.walk_to_name(self.current, path, false)? {
            Found::Here(here) => here,
            Found::System(_) => return Err(os(libc::EROFS)),
        };
        if here.is_folder && here.node.is_none() {
            return Err(os(libc::ENOENT));
        }
        let name = here.new_name().map_err(|_| os(libc::EADDRINUSE))?;
        self.is_linked(here.folder)?;
        let node = self.add(Kind::Socket, 0o777 & !self.umask);
        self.change(vec![(here.folder, name, Some(node))]);
        Ok(node)
    }

    /// Removes what [`make_socket`](Self::make_socket) has made just now.
    pub(crate) fn remove_socket(&mut self, path: &[u8]) -> io::Result<()> {
        if let Found::Here(here) = self.walk(self.current, path, false)?
            && let Last::Name(name) = here.last
        {
            self.change(vec![(here.folder, name, None)]);
        }
        Ok(())
    }

    /// The node of a Unix socket, or `ECONNREFUSED` if it is something else. It takes no time.
    pub(crate) fn socket_at(&self, path: &[u8]) -> io::Result<NodeId> {
        if let Found::Here(here) = self.walk(self.current, path, true)? {
            let node = here.node()?;
            if matches!(self.node(node).kind, Kind::Socket) {
                return Ok(node);
            }
        }
        Err(os(libc::ECONNREFUSED))
    }

    /// Sets the umask. Answers the one before.
    pub(crate) fn set_umask(&mut self, mask: u32) -> u32 {
        std::mem::replace(&mut self.umask, mask & 0o777)
    }

    pub(crate) fn space(&self) -> Space {
        let capacity = self.faults.capacity;
        let blocks = capacity.map_or(ENDLESS, |bytes| bytes / PAGE as u64);
        let free = blocks.saturating_sub(self.used);
        Space { blocks, free }
    }

    pub(crate) fn target(&self, node: NodeId) -> io::Result<&[u8]> {
        match &self.node(node).kind {
            Kind::Link(target) => Ok(target),
            _ => Err(os(libc::EINVAL)),
        }
    }

    /// The node that a path leads to, or a path of the system's.
    pub(crate) fn look(
        &mut self,
        start: NodeId,
        path: &[u8],
        follow: bool,
    ) -> io::Result<Result<NodeId, Vec<u8>>> {
        match self.find(start, path, follow)? {
            Found::Here(here) => here.node().map(Ok),
            Found::System(path) => Ok(Err(path)),
        }
    }

    /// The path of what a path leads to, without links. Or a path of the system's.
    pub(crate) fn real_path(
        &mut self,
        start: NodeId,
        path: &[u8],
    ) -> io::Result<Result<Vec<u8>, Vec<u8>>> {
        let here = match self.find(start, path, true)? {
            Found::Here(here) => here,
            Found::System(path) => return Ok(Err(path)),
        };
        let node = here.node()?;
        let Last::Name(name) = here.last else {
            return self.path_of(node).map(Ok);
        };
        let mut path = self.path_of(here.folder)?;
        if path != b"/" {
            path.push(b'/');
        }
        path.extend(name);
        Ok(Ok(path))
    }

    pub(crate) fn about(&self, node: NodeId) -> About {
        let of = self.node(node);
        let (kind, len, pages, links) = match &of.kind {
            Kind::File(contents) => (libc::S_IFREG, contents.len(), contents.pages(), of.links),
            Kind::Folder(folder) => {
                let is_folder = |node: &&NodeId| self.names(**node).is_ok();
                let folders = folder.names.values().filter(is_folder).count() as u32;
                let own = if node != ROOT && of.links == 0 { 0 } else { 2 };
                (libc::S_IFDIR, PAGE as u64, 1, own + folders)
            }
            Kind::Link(target) => (libc::S_IFLNK, target.len() as u64, 0, of.links),
            Kind::Socket => (libc::S_IFSOCK, 0, 0, of.links),
            Kind::System(_) => (libc::S_IFDIR, PAGE as u64, 1, 2),
        };
        About {
            node,
            mode: kind | of.mode,
            links,
            len,
            blocks: pages * (PAGE / 512) as u64,
            times: of.times,
        }
    }

    /// What is known of an open file.
    pub(crate) fn about_open(&self, open: &Open) -> io::Result<About> {
        self.node_of(open).map(|node| self.about(node))
    }

    pub(crate) fn node_of(&self, open: &Open) -> io::Result<NodeId> {
        self.is_usable(open)?;
        Ok(open.node)
    }

    pub(crate) fn set_mode(&mut self, node: NodeId, mode: u32) {
        let now = self.calendar;
        let node = self.node_mut(node);
        node.mode = mode & 0o7777;
        node.times.changed = now;
    }

    /// Sets the times of the last access and the last change of contents. None leaves one.
    pub(crate) fn set_times(
        &mut self,
        node: NodeId,
        accessed: Option<i128>,
        modified: Option<i128>,
    ) {
        let now = self.calendar;
        let times = &mut self.node_mut(node).times;
        times.accessed = accessed.unwrap_or(times.accessed);
        times.modified = modified.unwrap_or(times.modified);
        times.changed = now;
    }

    /// Whether it may be accessed so. Programs are root: only what nobody may execute is refused.
    pub(crate) fn may_access(&self, node: NodeId, how: c_int) -> io::Result<()> {
        let of = self.node(node);
        let is_file = matches!(of.kind, Kind::File(_));
        if how & libc::X_OK != 0 && is_file && of.mode & 0o111 == 0 {
            return Err(os(libc::EACCES));
        }
        Ok(())
    }

    pub(crate) fn truncate(&mut self, start: NodeId, path: &[u8], len: i64) -> io::Result<()> {
        let node = self.own_node(start, path, true)?;
        self.set_len_of(node, len)
    }

    pub(crate) fn change_folder(&mut self, node: NodeId) -> io::Result<()> {
        self.names(node)?;
        self.node_mut(node).opens += 1;
        let old = std::mem::replace(&mut self.current, node);
        self.node_mut(old).opens -= 1;
        self.let_go(old);
        Ok(())
    }

    /// The entries of a folder, in the order of their names, with `.` and `..`.
    pub(crate) fn entries(&self, open: &Open) -> io::Result<Vec<Entry>> {
        let node = self.folder_of(open)?;
        let parent = match &self.node(node).kind {
            Kind::Folder(folder) => folder.parent,
            _ => node,
        };
        let mut all = vec![
            (node, libc::S_IFDIR, b".".to_vec()),
            (parent, libc::S_IFDIR, b"..".to_vec()),
        ];
        for (name, node) in self.names(node)? {
            let kind = self.about(*node).mode & libc::S_IFMT;
            all.push((*node, kind, name.clone()));
        }
        Ok(all)
    }

    /// The paths of all files and links.
    pub(super) fn files(&self) -> Vec<Vec<u8>> {
        let (mut all, mut folders) = (Vec::new(), vec![(Vec::new(), ROOT)]);
        while let Some((path, folder)) = folders.pop() {
            for (name, node) in self.names(folder).into_iter().flatten() {
                let path = [&path, b"/".as_slice(), name].concat();
                match &self.node(*node).kind {
                    Kind::Folder(_) => folders.push((path, *node)),
                    Kind::File(_) | Kind::Link(_) => all.push(path),
                    Kind::Socket | Kind::System(_) => {}
                }
            }
        }
        all.sort_unstable();
        all
    }
}
