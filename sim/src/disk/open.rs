//! Open files: how they are opened, read, written and synced.

use std::io;

use libc::c_int;

use super::{
    contents::{Contents, PAGE},
    store::{Kind, NodeId, Store},
    walk::{Found, Last},
};
use crate::{error::os, network as words};

/// An open file or folder.
#[derive(Debug)]
pub(crate) struct Open {
    pub(super) node: NodeId,
    /// Its own number, for locks.
    pub(super) id: u64,
    /// Programs that had ended when it was opened.
    ended: u64,
    pub(super) at: u64,
    pub(crate) flags: c_int,
}

/// What a path was opened as.
#[derive(Debug)]
pub(crate) enum Opened {
    Here(Open),
    /// The system has to open this path.
    System(Vec<u8>),
    /// The same, for a write: `EROFS` if it is no device.
    Device(Vec<u8>),
}

/// The longest file: of ext4, with blocks of 4 KiB.
const LONGEST: u64 = 1 << 44;

/// Space of a disk at most, in bytes, that a reservation may lead to. Its pages take memory.
const RESERVED: u64 = 1 << 30;

/// From where a seek counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seek {
    Start,
    Current,
    End,
    Data,
    Hole,
}

impl Open {
    pub(crate) fn reads(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_WRONLY && !self.is_path()
    }

    /// Whether it stands for a path alone, and no call uses the file itself.
    pub(crate) fn is_path(&self) -> bool {
        self.flags & libc::O_PATH != 0
    }

    pub(crate) fn writes(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY && !self.is_path()
    }
}

impl Store {
    /// `EBADF` for a file of a program that has ended.
    pub(super) fn is_usable(&self, open: &Open) -> io::Result<()> {
        if open.ended != self.ended || !self.nodes.contains_key(&open.node) {
            return Err(os(libc::EBADF));
        }
        Ok(())
    }

    /// The folder that an open one is.
    pub(crate) fn folder_of(&self, open: &Open) -> io::Result<NodeId> {
        self.is_usable(open)?;
        self.names(open.node).map(|_| open.node)
    }

    /// Opens a path that begins at `start`.
    pub(crate) fn open(
        &mut self,
        start: NodeId,
        path: &[u8],
        flags: c_int,
        mode: u32,
    ) -> io::Result<Opened> {
        let creates = flags & libc::O_CREAT != 0;
        let is_new = creates && flags & libc::O_EXCL != 0;
        let follow = flags & libc::O_NOFOLLOW == 0 && !is_new;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
        if creates && path.ends_with(b"/") {
            self.walk_to_name(start, path, false)?;
            return Err(os(libc::EISDIR));
        }
        let here = match self.find(start, path, follow)? {
            Found::System(path) => {
                if !writes && !creates {
                    return Ok(Opened::System(path));
                }
                if path.starts_with(b"/dev/") {
                    return Ok(Opened::Device(path));
                }
                return Err(os(libc::EROFS));
            }
            Found::Here(here) => here,
        };
        if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            let folder = here.node()?;
            self.names(folder)?;
            // As ext4.
            self.is_linked(folder).map_err(|_| os(libc::EPERM))?;
            let node = self.add(Kind::File(Contents::default()), mode & !self.umask);
            self.node_mut(node).awaits_name = flags & libc::O_EXCL == 0;
            return Ok(Opened::Here(self.opened(node, flags)));
        }
        let node = match here.node {
            Some(_) if is_new => return Err(os(libc::EEXIST)),
            Some(node) => node,
            None if creates => {
                self.takes_time(self.faults.latency);
                self.is_linked(here.folder)?;
                let name = here.new_name()?;
                let node = self.add(Kind::File(Contents::default()), mode & !self.umask);
                self.change(vec![(here.folder, name, Some(node))]);
                node
            }
            None => return Err(os(libc::ENOENT)),
        };
        match &self.node(node).kind {
            Kind::Folder(_) if writes || creates => return Err(os(libc::EISDIR)),
            Kind::Folder(_) => {}
            _ => self.may_be_opened(node, flags)?,
        }
        let open = self.opened(node, flags);
        if flags & libc::O_TRUNC != 0 {
            let (now, dice) = (self.now, &mut self.dice);
            let node = self.nodes.get_mut(&node).expect("it is open");
            let mut was_empty = true;
            if let Kind::File(contents) = &mut node.kind {
                was_empty = contents.len() == 0;
                let before = contents.pages();
                contents.set_len(0, now, dice);
                self.used -= before;
                (node.times.modified, node.times.changed) = (self.calendar, self.calendar);
            }
            if !was_empty {
                self.say_of(&open, |path| format!("set the length of {path} to 0"));
            }
        }
        Ok(Opened::Here(open))
    }

    /// Whether something that is no folder may be opened.
    fn may_be_opened(&self, node: NodeId, flags: c_int) -> io::Result<()> {
        match &self.node(node).kind {
            _ if flags & libc::O_DIRECTORY != 0 => Err(os(libc::ENOTDIR)),
            Kind::Link(_) if flags & libc::O_PATH == 0 => Err(os(libc::ELOOP)),
            Kind::Socket if flags & libc::O_PATH == 0 => Err(os(libc::ENXIO)),
            _ => Ok(()),
        }
    }

    /// Opens an open file once more, as by its path below `/proc/self/fd`, which is a link to it.
    pub(crate) fn open_again(
        &mut self,
        open: &Open,
        flags: c_int,
        mode: u32,
    ) -> io::Result<Opened> {
        self.is_usable(open)?;
        if flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL {
            return Err(os(libc::EEXIST));
        }
        if flags & libc::O_NOFOLLOW != 0 {
            let is_folder = flags & libc::O_DIRECTORY != 0;
            return Err(os(if is_folder {
                libc::ENOTDIR
            } else {
                libc::ELOOP
            }));
        }
        if let Kind::Folder(_) = self.node(open.node).kind {
            return self.open(open.node, b".", flags, mode);
        }
        self.may_be_opened(open.node, flags)?;
        self.takes_time(self.faults.latency);
        if flags & libc::O_TRUNC != 0 {
            self.set_len_of(open.node, 0)?;
        }
        Ok(Opened::Here(self.opened(open.node, flags)))
    }

    /// A file without a name that has a text, and can only be read. It takes no time.
    pub(crate) fn give(&mut self, text: &[u8], flags: c_int) -> io::Result<Open> {
        let node = self.add(Kind::File(Contents::default()), 0o444);
        self.change_contents(node, |contents, now, dice| {
            contents.write(0, text, now, dice);
        })?;
        Ok(self.opened(node, flags & !libc::O_ACCMODE))
    }

    /// The node of an open file that may get one more name: `ENOENT` if it lost all of them, or if
    /// it was opened with `O_TMPFILE` and `O_EXCL`.
    pub(crate) fn linkable(&self, open: &Open) -> io::Result<NodeId> {
        self.is_usable(open)?;
        let node = self.node(open.node);
        if node.links == 0 && !node.awaits_name {
            return Err(os(libc::ENOENT));
        }
        Ok(open.node)
    }

    /// `ENOENT` if a folder was removed.
    pub(super) fn is_linked(&self, folder: NodeId) -> io::Result<()> {
        if folder != super::store::ROOT && self.node(folder).links == 0 {
            return Err(os(libc::ENOENT));
        }
        Ok(())
    }

    fn opened(&mut self, node: NodeId, flags: c_int) -> Open {
        self.node_mut(node).opens += 1;
        self.opened += 1;
        Open {
            node,
            id: self.opened,
            ended: self.ended,
            at: 0,
            flags,
        }
    }

    pub(crate) fn close(&mut self, open: &Open) {
        if self.is_usable(open).is_ok() {
            self.unlock_all(open);
            self.node_mut(open.node).opens -= 1;
            self.let_go(open.node);
        }
    }

    fn contents(&self, open: &Open) -> io::Result<&Contents> {
        self.is_usable(open)?;
        match &self.node(open.node).kind {
            Kind::File(contents) => Ok(contents),
            Kind::Folder(_) => Err(os(libc::EISDIR)),
            _ => Err(os(libc::EBADF)),
        }
    }

    /// Calls `f` with the contents of a file that may be written. Counts the pages that it takes.
    fn change_contents<R>(
        &mut self,
        node: NodeId,
        f: impl FnOnce(&mut Contents, u64, &mut super::dice::Dice) -> R,
    ) -> io::Result<R> {
        let since = self.written_before();
        let node = self.nodes.get_mut(&node).ok_or_else(|| os(libc::EBADF))?;
        let contents = match &mut node.kind {
            Kind::File(contents) => contents,
            Kind::Folder(_) => return Err(os(libc::EISDIR)),
            _ => return Err(os(libc::EINVAL)),
        };
        contents.sync_if_older(since);
        self.used -= contents.pages();
        let result = f(contents, self.now, &mut self.dice);
        self.used += contents.pages();
        (node.times.modified, node.times.changed) = (self.calendar, self.calendar);
        Ok(result)
    }

    /// Reads at `at`, or at the file's position, which it moves.
    pub(crate) fn read(
        &mut self,
        open: &mut Open,
        into: &mut [u8],
        at: Option<u64>,
    ) -> io::Result<usize> {
        if !open.reads() {
            return Err(os(libc::EBADF));
        }
        self.contents(open)?;
        self.takes_time(self.faults.latency);
        self.may_fail(self.faults.read_error_ppm)?;
        let len = self.contents(open)?.read(at.unwrap_or(open.at), into);
        if at.is_none() {
            open.at += len as u64;
        }
        self.node_mut(open.node).times.accessed = self.calendar;
        Ok(len)
    }

    /// Writes at `at`, or at the file's position, which it moves; or at the end, with `O_APPEND`.
    pub(crate) fn write(
        &mut self,
        open: &mut Open,
        bytes: &[u8],
        at: Option<u64>,
    ) -> io::Result<usize> {
        if !open.writes() {
            return Err(os(libc::EBADF));
        }
        let len = self.contents(open)?.len();
        self.takes_time(self.faults.latency);
        self.may_fail(self.faults.write_error_ppm)?;
        let place = match at {
            _ if open.flags & libc::O_APPEND != 0 => len,
            Some(at) => at,
            None => open.at,
        };
        if bytes.is_empty() {
            return Ok(0);
        }
        if place >= LONGEST {
            return Err(os(libc::EFBIG));
        }
        let fits = self.fits(open.node, place, bytes.len())?;
        if fits == 0 {
            return Err(os(libc::ENOSPC));
        }
        let bytes = &bytes[..fits];
        self.change_contents(open.node, |contents, now, dice| {
            contents.write(place, bytes, now, dice);
        })?;
        if at.is_none() {
            open.at = place + fits as u64;
        }
        self.say_of(open, |path| {
            format!("wrote {} at {place} to {path}", words::bytes(bytes))
        });
        if open.flags & libc::O_DSYNC != 0 {
            self.sync(open)?;
        }
        Ok(fits)
    }

    /// How many bytes of a write there is room for.
    fn fits(&mut self, node: NodeId, at: u64, len: usize) -> io::Result<usize> {
        let missing = |store: &Self, len| match &store.node(node).kind {
            Kind::File(contents) => contents.missing(at, len),
            _ => 0,
        };
        let wanted = missing(self, len);
        let room = self.room(wanted);
        if room >= wanted {
            return Ok(len);
        }
        // The longest part for which the room is enough.
        let (mut fits, mut fails) = (0, len);
        while fits + 1 < fails {
            let middle = usize::midpoint(fits, fails);
            if missing(self, middle) <= room {
                fits = middle;
            } else {
                fails = middle;
            }
        }
        Ok(fits)
    }

    /// Where a read or a write is: at `at`, at the file's position, or at its end. None for a read
    /// that begins behind the end.
    pub(crate) fn place(
        &self,
        open: &Open,
        at: Option<u64>,
        writes: bool,
    ) -> io::Result<Option<u64>> {
        let len = self.contents(open)?.len();
        let at = match at {
            _ if writes && open.flags & libc::O_APPEND != 0 => len,
            at => at.unwrap_or(open.at),
        };
        Ok((writes || at < len).then_some(at))
    }

    pub(crate) fn seek(&mut self, open: &mut Open, from: Seek, by: i64) -> io::Result<u64> {
        self.is_usable(open)?;
        let len = match &self.node(open.node).kind {
            Kind::File(contents) => contents.len(),
            _ => 0,
        };
        let base = match from {
            Seek::Start => 0,
            Seek::Current => open.at,
            Seek::End => len,
            Seek::Data | Seek::Hole => {
                let at = u64::try_from(by).map_err(|_| os(libc::ENXIO))?;
                let found = self.contents(open)?.seek(at, matches!(from, Seek::Hole));
                open.at = found.ok_or_else(|| os(libc::ENXIO))?;
                return Ok(open.at);
            }
        };
        let to = base
            .checked_add_signed(by)
            .filter(|to| *to <= i64::MAX as u64);
        open.at = to.ok_or_else(|| os(libc::EINVAL))?;
        Ok(open.at)
    }

    /// Bytes from the position to the end of a file, which may be behind.
    pub(crate) fn unread(&self, open: &Open) -> io::Result<i64> {
        let len = self.contents(open).map_err(|_| os(libc::ENOTTY))?.len();
        Ok(len as i64 - open.at as i64)
    }

    /// Waits until the platter has a file, or a folder's names.
    pub(crate) fn sync(&mut self, open: &Open) -> io::Result<()> {
        self.is_usable(open)?;
        self.takes_time(self.faults.sync_latency);
        let fails = self.may_fail(self.faults.sync_error_ppm);
        self.say_of(open, |path| match &fails {
            Ok(()) => format!("synced {path}"),
            Err(_) => format!("could not sync {path}"),
        });
        let node = self.nodes.get_mut(&open.node).expect("it is open");
        match (&mut node.kind, &fails) {
            (Kind::File(contents), Ok(())) => {
                contents.sync();
                if self.faults.sync_keeps_names {
                    self.commit_names_of(open.node);
                }
            }
            (Kind::File(contents), Err(_)) => contents.fail_to_sync(&mut self.dice),
            (Kind::Folder(_), Ok(())) => self.commit_folder(open.node),
            _ => {}
        }
        fails
    }

    /// Waits until the platter has everything: `sync` and `syncfs`.
    pub(crate) fn sync_all(&mut self) {
        self.takes_time(self.faults.sync_latency);
        self.commit(usize::MAX);
        for node in self.nodes.values_mut() {
            if let Kind::File(contents) = &mut node.kind {
                contents.sync();
            }
        }
    }

    /// Sets the length of an open file.
    pub(crate) fn set_len(&mut self, open: &Open, len: i64) -> io::Result<()> {
        self.is_usable(open)?;
        if !open.writes() {
            return Err(os(libc::EINVAL));
        }
        self.set_len_of(open.node, len)?;
        self.say_of(open, |path| format!("set the length of {path} to {len}"));
        Ok(())
    }

    pub(super) fn set_len_of(&mut self, node: NodeId, len: i64) -> io::Result<()> {
        self.takes_time(self.faults.latency);
        let len = u64::try_from(len).map_err(|_| os(libc::EINVAL))?;
        if len > LONGEST {
            return Err(os(libc::EFBIG));
        }
        self.change_contents(node, |contents, now, dice| {
            contents.set_len(len, now, dice);
        })
    }

    /// `fallocate`.
    pub(crate) fn allocate(
        &mut self,
        open: &Open,
        mode: c_int,
        at: i64,
        len: i64,
    ) -> io::Result<()> {
        if !open.writes() {
            return Err(os(libc::EBADF));
        }
        let (Ok(at), Ok(len @ 1..)) = (u64::try_from(at), u64::try_from(len)) else {
            return Err(os(libc::EINVAL));
        };
        if at.saturating_add(len) > LONGEST {
            return Err(os(libc::EFBIG));
        }
        self.contents(open).map_err(|_| os(libc::ENODEV))?;
        self.takes_time(self.faults.latency);
        let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            what @ (0 | libc::FALLOC_FL_ZERO_RANGE) => {
                let size = len as usize;
                if len > RESERVED || self.fits(open.node, at, size)? < size {
                    return Err(os(libc::ENOSPC));
                }
                let missing = self.contents(open)?.missing(at, size);
                if self.used + missing > RESERVED / PAGE as u64 {
                    return Err(os(libc::ENOSPC));
                }
                self.change_contents(open.node, |contents, now, dice| {
                    if !keeps && at + len > contents.len() {
                        contents.set_len(at + len, now, dice);
                    }
                    contents.reserve(at, size);
                    if what != 0 {
                        contents.clear(at, len, now, dice);
                    }
                })
            }
            libc::FALLOC_FL_PUNCH_HOLE if keeps => {
                self.change_contents(open.node, |contents, now, dice| {
                    contents.punch(at, len, now, dice);
                })
            }
            _ => Err(os(libc::EOPNOTSUPP)),
        }
    }
}

/// Whether a path ends with `.` or `..`, or is the root: none of them can be made or removed.
pub(super) fn is_special(last: &Last) -> bool {
    !matches!(last, Last::Name(_))
}
