//! What a disk has: nodes, their names, and the changes of names that the platter does not have.
//!
//! A change is a list of places, each a name in a folder and the node that it stands for from then
//! on. A rename is one change of two places, so a crash leaves both or none. Changes wait in
//! `journal`, in the order in which they were made.
//!
//! *Invariants*:
//!
//! 1. The names on the platter are those of some moment in the past, and all changes since then are
//!    in `journal`. But those that a test has written are on the platter at once.
//! 2. A node lives as long as something holds it: a name, a name on the platter, a place in the
//!    journal, or an open file.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
};

use super::{
    DiskFaults, HOME,
    contents::{Contents, PAGE},
    dice::Dice,
};
use crate::error::os;

/// The number of a node. They are never used again.
pub(crate) type NodeId = u64;

pub(super) type Name = Vec<u8>;

/// The root folder.
pub(super) const ROOT: NodeId = 1;

/// After this time a system writes by itself, in nanoseconds. As Linux's `dirty_expire_centisecs`.
const WRITE_BACK: u64 = 30_000_000_000;

/// The umask of a program that begins.
const UMASK: u32 = 0o022;

/// Changes that wait at most: the older half is written then.
const CHANGES: usize = 2048;

/// Folders that are the system's own, and read only.
const SYSTEM: [&str; 10] = [
    "bin", "dev", "etc", "lib", "lib32", "lib64", "proc", "sbin", "sys", "usr",
];

#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// Permissions, without the type.
    pub(super) mode: u32,
    /// Names that programs see.
    pub(super) links: u32,
    pub(super) opens: u32,
    /// It was opened with `O_TMPFILE`, and may get its first name.
    pub(super) awaits_name: bool,
    /// Names on the platter, and places in the journal.
    held: u32,
    pub(super) times: Times,
}

/// Nanoseconds of the calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) accessed: i128,
    pub(crate) modified: i128,
    pub(crate) changed: i128,
    pub(crate) born: i128,
}

#[derive(Debug)]
pub(super) enum Kind {
    File(Contents),
    Folder(Folder),
    Link(Vec<u8>),
    /// The path of a Unix socket.
    Socket,
    /// A folder of the system, with its path.
    System(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Folder {
    pub(super) names: BTreeMap<Name, NodeId>,
    platter: BTreeMap<Name, NodeId>,
    pub(super) parent: NodeId,
}

/// A change of names.
#[derive(Debug)]
struct Change {
    at: u64,
    places: Vec<Place>,
}

/// From now on the name in the folder stands for the node, or for nothing.
pub(super) type Place = (NodeId, Name, Option<NodeId>);

/// The disk of one host.
#[derive(Debug)]
pub(crate) struct Store {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    next: NodeId,
    journal: VecDeque<Change>,
    pub(super) faults: DiskFaults,
    pub(super) dice: Dice,
    /// Pages in use.
    pub(super) used: u64,
    /// The folder at which relative paths begin.
    pub(super) current: NodeId,
    /// Bits of permissions that a new file of the program does not get.
    pub(super) umask: u32,
    /// Programs that have ended so far. A file that one of them had open is none after it.
    pub(super) ended: u64,
    /// The time of the simulation, and of the host's calendar.
    pub(super) now: u64,
    pub(super) calendar: i128,
    pub(super) locks: BTreeMap<NodeId, super::locks::Holders>,
    /// Files opened so far.
    pub(super) opened: u64,
    /// The time that the calls so far take, in nanoseconds, and that nobody has waited for yet.
    pub(super) cost: u64,
    /// What the last call has done, if that is kept: see `log.rs`.
    pub(super) said: Option<Vec<String>>,
}

impl Store {
    pub(crate) fn new(seed: u64) -> Self {
        let mut store = Self {
            nodes: BTreeMap::new(),
            next: ROOT,
            journal: VecDeque::new(),
            faults: DiskFaults::default(),
            dice: Dice::new(seed),
            used: 0,
            current: ROOT,
            umask: UMASK,
            ended: 0,
            now: 0,
            calendar: 0,
            locks: BTreeMap::new(),
            opened: 0,
            cost: 0,
            said: None,
        };
        store.add(Self::folder(ROOT), 0o755);
        store.node_mut(ROOT).opens = 1;
        for name in SYSTEM {
            let path = format!("/{name}").into_bytes();
            let node = store.add(Kind::System(path), 0o755);
            store.change(vec![(ROOT, name.into(), Some(node))]);
        }
        let temporary = std::env::temp_dir();
        for path in [
            HOME.as_bytes(),
            b"/run",
            b"/tmp",
            temporary.as_os_str().as_encoded_bytes(),
        ] {
            // It fails if it is in a folder of the system.
            let _ = store.make_folders(path);
        }
        store.commit(usize::MAX);
        store.go_home();
        store.cost = 0;
        store
    }

    pub(super) fn folder(parent: NodeId) -> Kind {
        Kind::Folder(Folder {
            names: BTreeMap::new(),
            platter: BTreeMap::new(),
            parent,
        })
    }

    /// Sets the clocks for the calls that follow.
    pub(crate) fn set_time(&mut self, now: u64, calendar: i128) {
        (self.now, self.calendar) = (now, calendar);
        self.take_said();
    }

    pub(crate) fn digest(&self) -> u64 {
        self.dice.digest()
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(&id).expect("what is held is there")
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("what is held is there")
    }

    /// The names of a folder.
    pub(super) fn names(&self, id: NodeId) -> io::Result<&BTreeMap<Name, NodeId>> {
        match &self.node(id).kind {
            Kind::Folder(folder) => Ok(&folder.names),
            _ => Err(os(libc::ENOTDIR)),
        }
    }

    /// A node that nothing holds yet.
    pub(super) fn add(&mut self, kind: Kind, mode: u32) -> NodeId {
        let id = self.next;
        self.next += 1;
        let now = self.calendar;
        let times = Times {
            accessed: now,
            modified: now,
            changed: now,
            born: now,
        };
        let (links, opens, held) = (0, 0, 0);
        let node = Node {
            kind,
            mode,
            links,
            opens,
            awaits_name: false,
            held,
            times,
        };
        self.nodes.insert(id, node);
        id
    }

    /// Drops a node that nothing holds.
    pub(super) fn let_go(&mut self, id: NodeId) {
        let node = self.node(id);
        if id != ROOT && node.links == 0 && node.opens == 0 && node.held == 0 {
            if let Kind::File(contents) = &node.kind {
                self.used -= contents.pages();
            }
            self.nodes.remove(&id);
            self.locks.remove(&id);
        }
    }

    /// Changes names, in the cache and in the journal.
    pub(super) fn change(&mut self, places: Vec<Place>) {
        self.write_back();
        self.say_change(&places);
        let calendar = self.calendar;
        // First, so that nothing is dropped that only changes its name.
        for node in places.iter().filter_map(|place| place.2) {
            let node = self.node_mut(node);
            node.held += 1;
            node.links += 1;
            node.times.changed = calendar;
        }
        for (folder, name, node) in &places {
            let old = self.put_name(*folder, name, *node);
            self.unlinked(old);
        }
        let at = self.now;
        self.journal.push_back(Change { at, places });
        if self.journal.len() > CHANGES {
            self.commit(CHANGES / 2);
        }
    }

    /// Gives a name in a folder another node. Answers which one it had.
    fn put_name(&mut self, folder: NodeId, name: &Name, node: Option<NodeId>) -> Option<NodeId> {
        if let Some(node) = node
            && let Kind::Folder(moved) = &mut self.node_mut(node).kind
        {
            moved.parent = folder;
        }
        let calendar = self.calendar;
        let parent = self.node_mut(folder);
        (parent.times.modified, parent.times.changed) = (calendar, calendar);
        let Kind::Folder(parent) = &mut parent.kind else {
            unreachable!("names are in folders");
        };
        match node {
            Some(node) => parent.names.insert(name.clone(), node),
            None => parent.names.remove(name),
        }
    }

    fn unlinked(&mut self, node: Option<NodeId>) {
        let Some(id) = node else { return };
        let calendar = self.calendar;
        let node = self.node_mut(id);
        node.links -= 1;
        node.times.changed = calendar;
        self.let_go(id);
    }

    /// Writes the first `count` changes of the journal to the platter.
    pub(super) fn commit(&mut self, count: usize) {
        for _ in 0..count.min(self.journal.len()) {
            let change = self.journal.pop_front().expect("it is not empty");
            self.write_change(change);
        }
    }

    fn write_change(&mut self, change: Change) {
        for (id, name, node) in change.places {
            // Its place in the journal becomes its place on the platter.
            let old = match self.nodes.get_mut(&id).map(|node| &mut node.kind) {
                Some(Kind::Folder(folder)) => match node {
                    Some(node) => folder.platter.insert(name, node),
                    None => folder.platter.remove(&name),
                },
                // Nothing holds the folder any more.
                _ => node,
            };
            self.release(old);
        }
    }

    /// Makes these names durable, each in its folder, and no others. But if one has changed twice
    /// together with others, all changes before it are made durable too.
    pub(super) fn commit_names(&mut self, names: &[(NodeId, Name)]) {
        let is_same = |a: &Place, b: &Place| a.0 == b.0 && a.1 == b.1;
        let mut at = 0;
        while let Some(change) = self.journal.get(at) {
            let mut places = change.places.iter();
            if !places
                .any(|(folder, name, _)| names.iter().any(|it| it.0 == *folder && it.1 == *name))
            {
                at += 1;
                continue;
            }
            let earlier = self.journal.iter().take(at);
            let mut earlier = earlier.flat_map(|change| &change.places);
            if earlier.any(|before| change.places.iter().any(|place| is_same(before, place))) {
                self.commit(at + 1);
                at = 0;
            } else if let Some(change) = self.journal.remove(at) {
                self.write_change(change);
            }
        }
    }

    fn release(&mut self, node: Option<NodeId>) {
        let Some(id) = node else { return };
        self.node_mut(id).held -= 1;
        self.let_go(id);
    }

    /// Makes the changes of a folder durable, and all before them.
    pub(super) fn commit_folder(&mut self, folder: NodeId) {
        let touches = |change: &Change| change.places.iter().any(|place| place.0 == folder);
        if let Some(last) = self.journal.iter().rposition(touches) {
            self.commit(last + 1);
        }
    }

    /// Makes the names of a file durable, and all changes before them.
    pub(super) fn commit_names_of(&mut self, node: NodeId) {
        let touches = |change: &Change| change.places.iter().any(|place| place.2 == Some(node));
        if let Some(last) = self.journal.iter().rposition(touches) {
            self.commit(last + 1);
        }
    }

    /// Writes the changes that are older than [`WRITE_BACK`].
    pub(super) fn write_back(&mut self) {
        let since = self.now.saturating_sub(WRITE_BACK);
        let old = self.journal.partition_point(|change| change.at < since);
        self.commit(old);
    }

    /// The time before which what was dirty is on the platter.
    pub(super) fn written_before(&self) -> u64 {
        self.now.saturating_sub(WRITE_BACK)
    }

    /// Takes so many pages. Answers how many there are, if they are fewer.
    pub(super) fn room(&mut self, pages: u64) -> u64 {
        let capacity = match self.faults.capacity {
            Some(bytes) => bytes / PAGE as u64,
            None => return pages,
        };
        if self.used + pages > capacity {
            // As a system does then, to get the pages of removed files back.
            self.commit(usize::MAX);
        }
        capacity.saturating_sub(self.used).min(pages)
    }

    /// The power is gone, and comes back: what programs see is what the platter has.
    pub(crate) fn crash(&mut self) {
        self.write_back();
        let kept = self.dice.prefix(self.journal.len() as u64);
        self.commit(kept as usize);
        self.journal.clear();
        let mut links: BTreeMap<NodeId, u32> = BTreeMap::new();
        let mut folders = vec![(ROOT, ROOT)];
        while let Some((id, parent)) = folders.pop() {
            let node = self.node_mut(id);
            *links.entry(id).or_default() += u32::from(id != ROOT);
            if let Kind::Folder(folder) = &mut node.kind {
                folder.parent = parent;
                folder.names = folder.platter.clone();
                folders.extend(folder.names.values().map(|child| (*child, id)));
            }
        }
        self.nodes.retain(|id, _| links.contains_key(id));
        let (tear, since) = (self.faults.tear_ppm, self.written_before());
        self.used = 0;
        for (id, node) in &mut self.nodes {
            (node.links, node.held) = (links[id], links[id]);
            if let Kind::File(contents) = &mut node.kind {
                contents.sync_if_older(since);
                contents.crash(tear, &mut self.dice);
                self.used += contents.pages();
            }
        }
        self.close_all();
    }

    /// The program has ended. What it had open is closed, also what nothing of it has closed.
    pub(crate) fn end_program(&mut self) {
        self.close_all();
        let all: Vec<NodeId> = self.nodes.keys().copied().collect();
        all.into_iter().for_each(|node| self.let_go(node));
    }

    /// Nothing is open any more, but for the folder in which the next program begins.
    fn close_all(&mut self) {
        self.ended += 1;
        self.locks.clear();
        self.nodes.values_mut().for_each(|node| node.opens = 0);
        self.current = ROOT;
        self.node_mut(ROOT).opens = 1;
        self.go_home();
    }

    /// What a program begins with: the current folder, unless it was removed, and the umask.
    fn go_home(&mut self) {
        self.umask = UMASK;
        if let Ok(home) = self.find_folder(HOME.as_bytes()) {
            self.change_folder(home).expect("it is a folder");
        }
    }
}
