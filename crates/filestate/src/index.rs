//! The opens of one file: an open is found by its owner, and a conflict by the bits of access and deny.
//!
//! **Owns** [`OpenIndex`]. **Called by** the table and the operations of opens, which tell it of every change. **Invariants**: it has the access
//! and deny bits of each open of the file as they are now; no question takes longer with more opens (but for a logarithm).

use crate::{READ, WRITE};
use std::collections::{BTreeSet, HashMap};

/// Access and deny bits of an open.
pub(crate) type Share = (u32, u32);

/// See the module header.
#[derive(Debug, Default)]
pub(crate) struct OpenIndex {
    by_owner: HashMap<(u64, Vec<u8>), u64>,
    /// Opens for reading, and for writing.
    access: [BTreeSet<u64>; 2],
    /// Opens that deny reading, and writing.
    deny: [BTreeSet<u64>; 2],
    /// Numbers of opens, and of those for writing, by client.
    by_client: HashMap<u64, (usize, usize)>,
    count: usize,
}

/// The places of bits in the arrays.
const BITS: [u32; 2] = [READ, WRITE];

impl OpenIndex {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// An open is entered; its share follows with [`OpenIndex::set_share`].
    pub(crate) fn enter(&mut self, id: u64, client: u64, owner: &[u8]) {
        self.by_owner.insert((client, owner.to_vec()), id);
        self.by_client.entry(client).or_default().0 += 1;
        self.count += 1;
    }

    /// The bits of an open changed.
    pub(crate) fn set_share(&mut self, id: u64, client: u64, (access, deny): Share) {
        let was_writer = self.access[1].contains(&id);
        for (n, bit) in BITS.into_iter().enumerate() {
            for (set, bits) in [(&mut self.access[n], access), (&mut self.deny[n], deny)] {
                match bits & bit != 0 {
                    true => set.insert(id),
                    false => set.remove(&id),
                };
            }
        }
        let writers = &mut self.by_client.entry(client).or_default().1;
        match (was_writer, access & WRITE != 0) {
            (false, true) => *writers += 1,
            (true, false) => *writers -= 1,
            _ => {}
        }
    }

    /// An open is gone.
    pub(crate) fn leave(&mut self, id: u64, client: u64, owner: &[u8]) {
        self.set_share(id, client, (0, 0));
        self.by_owner.remove(&(client, owner.to_vec()));
        if let Some(of_client) = self.by_client.get_mut(&client) {
            of_client.0 -= 1;
            if of_client.0 == 0 {
                self.by_client.remove(&client);
            }
        }
        self.count -= 1;
    }

    /// The open of an owner.
    pub(crate) fn of_owner(&self, client: u64, owner: &[u8]) -> Option<u64> {
        self.by_owner.get(&(client, owner.to_vec())).copied()
    }

    /// An open, except one, that excludes this access or that this reservation excludes.
    pub(crate) fn conflict(&self, except: Option<u64>, (access, deny): Share) -> Option<u64> {
        let excluding = BITS.into_iter().enumerate().flat_map(|(n, bit)| {
            let denies = (access & bit != 0).then_some(&self.deny[n]);
            let has = (deny & bit != 0).then_some(&self.access[n]);
            [denies, has]
        });
        let mut opens = excluding.flatten().filter_map(|set| {
            let mut others = set.iter().filter(|id| Some(**id) != except);
            others.next()
        });
        opens.next().copied()
    }

    /// Whether a client other than this one has an open; with `writes`, one for writing.
    pub(crate) fn has_others(&self, client: u64, writes: bool) -> bool {
        let own = self.by_client.get(&client).copied().unwrap_or_default();
        match writes {
            true => self.access[1].len() > own.1,
            false => self.count > own.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The same questions, answered by a search.
    #[derive(Default)]
    struct Model(BTreeMap<u64, (u64, Vec<u8>, Share)>);

    impl Model {
        fn conflicts(&self, except: Option<u64>, (access, deny): Share) -> Vec<u64> {
            let others = self.0.iter().filter(|(id, _)| Some(**id) != except);
            let conflicting =
                others.filter(|(_, (_, _, (has, denies)))| access & denies != 0 || deny & has != 0);
            conflicting.map(|(id, _)| *id).collect()
        }

        fn has_others(&self, client: u64, writes: bool) -> bool {
            let mut all = self.0.values();
            all.any(|(of, _, (access, _))| *of != client && (!writes || access & WRITE != 0))
        }
    }

    proptest! {
        /// Opens of one file were searched one by one, under the lock of all states: 8 ms for each open of a file with 32,000.
        #[test]
        fn questions_are_answered_as_by_a_search(
            steps in prop::collection::vec((0..3u8, 0..12u64, 0..3u64, 1..4u32, 0..4u32), 1..80)
        ) {
            let (mut index, mut model) = (OpenIndex::default(), Model::default());
            for (step, id, client, access, deny) in steps {
                let owner = vec![id as u8];
                match (step, model.0.get(&id).cloned()) {
                    (0 | 1, None) => {
                        index.enter(id, client, &owner);
                        index.set_share(id, client, (access, deny));
                        model.0.insert(id, (client, owner, (access, deny)));
                    }
                    (0 | 1, Some((client, owner, _))) => {
                        index.set_share(id, client, (access, deny));
                        model.0.insert(id, (client, owner, (access, deny)));
                    }
                    (_, Some((client, owner, _))) => {
                        index.leave(id, client, &owner);
                        model.0.remove(&id);
                    }
                    (_, None) => {}
                }
                prop_assert_eq!(index.is_empty(), model.0.is_empty());
                for except in [None, Some(id)] {
                    let found = index.conflict(except, (access, deny));
                    let all = model.conflicts(except, (access, deny));
                    prop_assert_eq!(found.is_some(), !all.is_empty());
                    prop_assert!(found.is_none_or(|found| all.contains(&found)));
                }
                for client in 0..3 {
                    for writes in [false, true] {
                        let model = model.has_others(client, writes);
                        prop_assert_eq!(index.has_others(client, writes), model);
                    }
                    for (id, (of, owner, _)) in &model.0 {
                        let found = index.of_owner(client, owner);
                        prop_assert_eq!(found, (*of == client).then_some(*id));
                    }
                }
            }
        }
    }
}
