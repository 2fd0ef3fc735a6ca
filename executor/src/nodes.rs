//! The nodes of a machine: which CPUs share their memory, so that a thief tries victims near it
//! first.
//!
//! A machine with several sockets, or with a socket of several parts, has its memory in *nodes*. A
//! line of cache that comes from a CPU of another node takes about twice as long. Linux tells the
//! nodes in `/sys/devices/system/node/node*/cpulist`. Where that is absent or of no use, all CPUs
//! are one node, and nothing is near or far.
//!
//! [`Nodes`] is the map from CPU to node, read once. [`Placed`] says on which node the thread of
//! each P ran when it last looked, as one set of Ps for each node. A thread looks when it begins
//! and after each sleep, since the system moves a thread mostly then. The sets are a hint. If a
//! thread was moved meanwhile, its P comes earlier or later in the round, and is not left out.
//!
//! *Invariant*: [`Placed::split`] puts each P of the word that it is given into exactly one of two
//! words, whatever other threads change meanwhile.
//!
//! Rejected:
//!
//! - A number at each P: to sort the victims a thief would fetch a line of each before it looks at
//!   the first.
//! - More than two classes, by the table of distances: the second class is tried only if the first
//!   has nothing.
//! - Caches that some CPUs of a node share (`cpu*/cache`): there is no machine here to measure it.
//! - To pin each worker to a node: a thread then waits for a CPU there beside an idle one
//!   elsewhere.

use std::{fs, path::Path};

use crate::{bit_set::BitSet, kernel_file};

/// Where Linux tells it.
const SYSTEM: &str = "/sys/devices/system/node";
/// A machine with more nodes counts as one of one node.
const NODES_MAX: usize = 256;

/// The node of each CPU. Empty: one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nodes(Box<[u8]>);

impl Nodes {
    /// Those of this machine.
    pub(crate) fn of_system() -> Self {
        static READ: std::sync::OnceLock<Nodes> = std::sync::OnceLock::new();
        READ.get_or_init(|| Self::read(Path::new(SYSTEM))).clone()
    }

    /// Those that a folder tells in the form of [`SYSTEM`].
    pub(crate) fn read(folder: &Path) -> Self {
        Self::try_read(folder).unwrap_or_default()
    }

    fn try_read(folder: &Path) -> Option<Self> {
        // The most usual machine has one, and this file tells it.
        let online = kernel_file::read(&folder.join("online"));
        if online.is_ok_and(|list| list.trim() == "0") {
            return None;
        }
        let mut lists: Vec<(usize, Vec<usize>)> = fs::read_dir(folder)
            .ok()?
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name();
                let number = name.to_str()?.strip_prefix("node")?.parse().ok()?;
                let text = kernel_file::read(&entry.path().join("cpulist")).ok()?;
                let cpus = parse_list(text.trim())?;
                // A node of memory alone has no CPU.
                (!cpus.is_empty()).then_some((number, cpus))
            })
            .collect();
        if lists.len() < 2 || lists.len() > NODES_MAX {
            return None;
        }
        lists.sort_unstable();
        Some(Self::of_lists(lists.into_iter().map(|(_, cpus)| cpus)))
    }

    fn of_lists(lists: impl Iterator<Item = Vec<usize>>) -> Self {
        let mut of_cpu = Vec::new();
        for (node, cpus) in lists.enumerate() {
            for cpu in cpus {
                if of_cpu.len() <= cpu {
                    of_cpu.resize(cpu + 1, 0);
                }
                of_cpu[cpu] = node as u8;
            }
        }
        Self(of_cpu.into())
    }

    /// Those of a machine that a test has in mind: the node of each CPU.
    #[cfg(test)]
    pub(crate) fn of_cpus(nodes: Vec<u8>) -> Self {
        Self(nodes.into())
    }

    /// How many there are; 1 if there is nothing to tell apart.
    fn count(&self) -> usize {
        self.0.iter().max().map_or(1, |&last| usize::from(last) + 1)
    }

    /// The node of a CPU. One that was plugged in since the map was read is on the first.
    fn of(&self, cpu: usize) -> usize {
        self.0.get(cpu).copied().unwrap_or(0).into()
    }
}

/// A list such as `0-3,8`. None if it is none.
fn parse_list(list: &str) -> Option<Vec<usize>> {
    /// Beyond what any kernel knows.
    const CPU_MAX: usize = 1 << 16;
    let mut cpus = Vec::new();
    for range in list.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= CPU_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// On which node the thread of each P is. See the module's head.
#[derive(Debug)]
pub(crate) struct Placed {
    nodes: Nodes,
    /// The Ps of each node; empty if there is one node.
    on: Box<[BitSet]>,
}

impl Placed {
    /// For at most `most` Ps. None of them has been seen anywhere.
    pub(crate) fn new(nodes: Nodes, most: usize) -> Self {
        let sets = match nodes.count() {
            1 => 0,
            count => count,
        };
        Self {
            nodes,
            on: (0..sets).map(|_| BitSet::new(most)).collect(),
        }
    }

    /// Whether anything is near or far.
    #[inline]
    pub(crate) fn are_several(&self) -> bool {
        !self.on.is_empty()
    }

    /// The thread of the P runs on this CPU. Only that thread says so.
    pub(crate) fn note(&self, index: usize, cpu: usize) {
        let node = self.nodes.of(cpu);
        if self.on[node].contains(index) {
            return;
        }
        for on in self.on.iter().filter(|on| on.contains(index)) {
            on.remove(index);
        }
        self.on[node].insert(index);
    }

    /// The node where that thread last said that it runs.
    pub(crate) fn node_of(&self, index: usize) -> Option<usize> {
        self.on.iter().position(|on| on.contains(index))
    }

    /// Of a word of 64 Ps, those that are on a node, and the others.
    pub(crate) fn split(&self, node: Option<usize>, at: usize, word: u64) -> (u64, u64) {
        match node {
            None => (word, 0),
            Some(node) => {
                let on = self.on[node].word(at);
                (word & on, word & !on)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as Linux has it, with these files, and the list of the nodes that are online.
    fn planted(name: &str, lists: &[(&str, &str)]) -> Nodes {
        let folder = std::env::temp_dir().join(format!("ws-nodes-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (node, cpus) in lists {
            let node = folder.join(node);
            fs::create_dir_all(&node).unwrap();
            fs::write(node.join("cpulist"), cpus).unwrap();
        }
        let last = lists.iter().filter(|(node, _)| node.starts_with("node"));
        let online = match last.count() {
            0 | 1 => "0\n".to_owned(),
            more => format!("0-{}\n", more - 1),
        };
        fs::write(folder.join("online"), online).unwrap();
        let nodes = Nodes::read(&folder);
        fs::remove_dir_all(&folder).unwrap();
        nodes
    }

    #[test]
    fn two_sockets_with_two_threads_a_core_are_told_apart() {
        let nodes = planted(
            "two",
            &[
                ("node0", "0-3,8-11\n"),
                ("node1", "4-7,12-15\n"),
                ("power", "99\n"),
            ],
        );
        assert_eq!(nodes.count(), 2);
        let of: Vec<usize> = (0..17).map(|cpu| nodes.of(cpu)).collect();
        assert_eq!(of, [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn nodes_are_numbered_by_their_order_and_a_node_without_cpus_is_none() {
        let nodes = planted(
            "order",
            &[("node10", "0\n"), ("node2", "1\n"), ("node3", "\n")],
        );
        assert_eq!((nodes.count(), nodes.of(1), nodes.of(0)), (2, 0, 1));
    }

    #[test]
    fn what_makes_no_sense_is_one_node() {
        assert_eq!(Nodes::read(Path::new("/nowhere")), Nodes::default());
        for lists in [
            &[("node0", "0-127\n")][..],
            &[("node0", "0-3\n"), ("node1", "7-4\n")],
            &[("node0", "0-3\n"), ("node1", "4-99999999999\n")],
            &[("node0", "0-3\n"), ("node1", "4-99999999\n")],
            &[("node0", "none\n"), ("node1", "\n")],
        ] {
            assert_eq!(planted("nonsense", lists).count(), 1, "{lists:?}");
        }
    }

    #[test]
    fn the_folder_of_this_machine_can_be_read() {
        assert!(Nodes::of_system().count() >= 1);
    }

    #[test]
    fn a_thread_is_on_the_node_that_it_last_told_and_on_no_other() {
        let nodes = Nodes::of_lists([vec![0, 1], vec![2, 3]].into_iter());
        let placed = Placed::new(nodes, 70);
        assert!(placed.are_several());
        assert_eq!(placed.node_of(65), None);
        for (cpu, node) in [(0, 0), (3, 1), (2, 1), (1, 0), (77, 0)] {
            placed.note(65, cpu);
            assert_eq!(placed.node_of(65), Some(node), "CPU {cpu}");
        }
        placed.note(66, 2);
        assert_eq!(placed.split(Some(0), 1, 0b111), (0b010, 0b101));
        assert_eq!(placed.split(Some(1), 1, 0b111), (0b100, 0b011));
        assert_eq!(placed.split(None, 1, 0b111), (0b111, 0));
    }

    #[test]
    fn one_node_has_no_sets() {
        let placed = Placed::new(Nodes::default(), 70);
        assert!(!placed.are_several());
        assert_eq!(placed.split(placed.node_of(3), 0, 9), (9, 0));
    }
}
