//! What programs do to a disk, in words, for the recording of a run.
//!
//! A call that changes something leaves a line, and the call of libc hands it to the log of its
//! host before the time of the call passes (`World::waits_for_disk`). Without a recording nothing
//! is kept. What the test itself does by a handle is no event of the host.
//!
//! *Invariant*: the log changes nothing, and draws nothing.

use std::fmt::Display;

use super::{
    open::Open,
    store::{Kind, NodeId, Place, Store},
};

impl Store {
    /// Keeps from now on what is done.
    pub(crate) fn keep_log(&mut self) {
        self.said = Some(Vec::new());
    }

    /// Takes what the last call has done.
    pub(crate) fn take_said(&mut self) -> Vec<String> {
        self.said.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Notes what was done to an open file. `text` is given its path.
    pub(super) fn say_of(&mut self, open: &Open, text: impl FnOnce(&dyn Display) -> String) {
        if self.said.is_some() {
            let path = self.a_path_of(open.node);
            let line = text(&path);
            self.said.get_or_insert_default().push(line);
        }
    }

    /// Notes a change of names, before it is made.
    pub(super) fn say_change(&mut self, places: &[Place]) {
        if self.said.is_none() {
            return;
        }
        let path = |(folder, name, _): &Place| self.joined(*folder, name);
        let line = match places {
            [one @ (_, _, None)] => format!("removed {}", path(one)),
            [one @ (_, _, Some(node))] => match self.node(*node) {
                node if node.links > 0 => format!("linked {}", path(one)),
                node if matches!(node.kind, Kind::Folder(_)) => {
                    format!("made the folder {}", path(one))
                }
                _ => format!("created {}", path(one)),
            },
            [to, from @ (_, _, None)] => format!("renamed {} to {}", path(from), path(to)),
            all => {
                let paths: Vec<_> = all.iter().map(path).collect();
                format!("exchanged {}", paths.join(" and "))
            }
        };
        self.said.get_or_insert_default().push(line);
    }

    fn joined(&self, folder: NodeId, name: &[u8]) -> String {
        let folder = self.path_of(folder).unwrap_or_default();
        let folder = String::from_utf8_lossy(&folder);
        let slash = if folder.ends_with('/') { "" } else { "/" };
        format!("{folder}{slash}{}", String::from_utf8_lossy(name))
    }

    /// One of the paths of a node.
    fn a_path_of(&self, node: NodeId) -> String {
        if let Ok(path) = self.path_of(node) {
            return String::from_utf8_lossy(&path).into_owned();
        }
        let folders = self
            .nodes
            .keys()
            .filter_map(|id| Some((*id, self.names(*id).ok()?)));
        let mut all = folders.flat_map(|(id, names)| names.iter().map(move |entry| (id, entry)));
        match all.find(|(_, (_, child))| **child == node) {
            Some((folder, (name, _))) => self.joined(folder, name),
            None => "a file without a name".to_owned(),
        }
    }
}
