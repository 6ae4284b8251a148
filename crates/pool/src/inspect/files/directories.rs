//! Directories of a filesystem: each of them is below the root.
//!
//! **Owns** the parents of directories. **Called by** the check of a filesystem's contents, once their names are known to be
//! right. **Invariant**: 17 bytes for each directory, of at most [`DIRECTORIES_MAX`].

use crate::format::ObjectId;
use crate::inspect::limits::DIRECTORIES_MAX;

/// The parent of each directory.
#[derive(Default)]
pub(super) struct Directories {
    /// Directory and parent, by directory.
    parents: Vec<(ObjectId, ObjectId)>,
    /// Directories that found no place.
    pub(super) more: u64,
}

/// The state of a directory in the search for the root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Unknown,
    Searched,
    Below,
    Lost,
}

impl Directories {
    /// Adds a directory. They come in the order of their numbers.
    pub(super) fn add(&mut self, directory: ObjectId, parent: ObjectId) {
        match self.parents.len() < DIRECTORIES_MAX {
            true => self.parents.push((directory, parent)),
            false => self.more += 1,
        }
    }

    fn index(&self, directory: ObjectId) -> Option<usize> {
        let found = self.parents.binary_search_by_key(&directory, |(of, _)| *of);
        found.ok()
    }

    /// Directories from which no way leads to the root.
    pub(super) fn lost(&self, root: ObjectId) -> Vec<ObjectId> {
        let mut ways = vec![Way::Unknown; self.parents.len()];
        for start in 0..self.parents.len() {
            let mut path = Vec::new();
            let mut at = start;
            let end = loop {
                match ways[at] {
                    Way::Unknown if self.parents[at].0 == root => {
                        path.push(at);
                        break Way::Below;
                    }
                    Way::Unknown => {
                        ways[at] = Way::Searched;
                        path.push(at);
                    }
                    // a circle
                    Way::Searched => break Way::Lost,
                    known => break known,
                }
                match self.index(self.parents[at].1) {
                    Some(parent) => at = parent,
                    None => break Way::Lost,
                }
            };
            for at in path {
                ways[at] = end;
            }
        }
        let all = self.parents.iter().zip(&ways);
        all.filter(|(_, way)| **way == Way::Lost)
            .map(|((directory, _), _)| *directory)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_and_their_branches_are_not_below_the_root() {
        let mut directories = Directories::default();
        for (of, parent) in [
            (2, 2),
            (16, 2),
            (17, 18),
            (18, 17),
            (19, 18),
            (20, 16),
            (21, 9),
        ] {
            directories.add(ObjectId(of), ObjectId(parent));
        }
        let lost = directories.lost(ObjectId(2));
        assert_eq!(lost, [17, 18, 19, 21].map(ObjectId));
    }
}
