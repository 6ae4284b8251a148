//! Deadlists on disk, and their sums.
//!
//! A deadlist lies between two consecutive datasets. The list of a destroyed snapshot is freed over many checkpoints. Until
//! then its remaining blocks count for the list to which they will be handed over, except blocks that no dataset holds.
//!
//! **Owns** the sums of all lists. **Called by** verification, which compares them. **Invariant**: a list is read one chunk
//! at a time. `docs/format.md`, "Lists of dead blocks" and "What is being freed".

use std::collections::BTreeMap;

use super::contents::Contents;
use super::found::{Finding, FindingKind};
use super::inspected::Progress;
use super::owners::Verifier;
use super::part::Part;
use super::sums::Sums;
use crate::format::{
    Birth, BlockPtr, DEAD_TREE, Defect, Freeing, KIND_DEAD, Key, ListId, PrevSnapshot, Value,
    decode_dead,
};
use crate::tree::{Visit, Walk, WalkStep};

/// Name of the lists' tree in findings.
const LISTS: &str = "the deadlists";

/// A deadlist.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct List {
    /// Sums of its blocks, pending hand-overs included.
    pub(super) sums: Sums,
    /// Bytes of its blocks that no older snapshot holds.
    pub(super) unique: u64,
    /// Bytes of the blocks that are on it now.
    pub(super) size: u64,
}

/// The role of a list.
#[derive(Debug, Clone, Copy)]
enum Role {
    /// The list of a dataset. Blocks born up to this epoch are also in older snapshots.
    Between(Birth),
    /// The list of a destroyed snapshot, with the number of the pending destroy.
    Freed(u64, PrevSnapshot),
}

/// All lists.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) lists: BTreeMap<ListId, List>,
    pub(super) whole: bool,
}

fn roles(contents: &Contents) -> BTreeMap<ListId, Role> {
    let mut roles = BTreeMap::new();
    for volume in contents.volumes() {
        let origin = contents.origin(volume).map(|o| o.dataset.birth);
        if origin.is_some() {
            // An origin is not destroyed while it has a clone.
            roles.insert(volume.dataset.list, Role::Between(Birth(u64::MAX)));
        }
        let mut before = origin.unwrap_or(Birth(0));
        for snapshot in contents.snapshots(volume.id) {
            roles.insert(snapshot.dataset.list, Role::Between(before));
            before = before.max(snapshot.dataset.birth);
        }
    }
    for (number, job) in &contents.freeing {
        if let Freeing::List { list, prev } = job {
            roles.insert(*list, Role::Freed(*number, *prev));
        }
    }
    roles
}

impl<P: FnMut(Progress)> Verifier<'_, P> {
    /// Reads all lists. Marks their nodes, and the blocks that are only on them.
    pub(super) async fn lists(&mut self) -> Lists {
        let roles = roles(self.contents);
        let mut found = Lists {
            whole: true,
            ..Lists::default()
        };
        let mut walk = Walk::new(self.contents.dead, Birth(0), Key::START);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let findings = &mut self.found.findings;
                    let node = self
                        .image
                        .node(&need.ptr, LISTS, Part::default(), findings)
                        .await;
                    if node.is_none_or(|node| walk.supply(node).is_err()) {
                        found.whole = false;
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Node(ptr)) => {
                    self.found.lists += self.own(&ptr, LISTS, Part::default());
                }
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    if let Err(defect) = self.chunk(key, &value, &roles, &mut found.lists) {
                        found.whole = false;
                        let text = format!("entry {key:?} of tree {}: {defect}", DEAD_TREE.0);
                        self.add(Finding::new(FindingKind::DeadList, text));
                    }
                }
                WalkStep::Visit(Visit::Lost(..)) => found.whole = false,
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => break,
            }
        }
        if found.whole {
            self.list_sizes(&found);
        } else {
            self.unread += 1;
        }
        found
    }

    fn chunk(
        &mut self,
        key: Key,
        value: &Value,
        roles: &BTreeMap<ListId, Role>,
        lists: &mut BTreeMap<ListId, List>,
    ) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let (Value::Inline(bytes), KIND_DEAD) = (value, key.kind()) else {
            return field("kind of an entry of the lists", key.kind().0.into());
        };
        let list = ListId(key.object().0);
        let Some(role) = roles.get(&list) else {
            return field("a list with nothing before it", list.0);
        };
        for ptr in decode_dead(bytes)? {
            let space = self.image.space_of(&ptr)?;
            lists.entry(list).or_default().size += space;
            match *role {
                Role::Between(since) => put(lists, list, &ptr, space, since),
                Role::Freed(number, prev) if ptr.birth > prev.floor => {
                    self.freeing(number, &ptr);
                }
                Role::Freed(_, prev) => {
                    if let Some(to) = prev.list
                        && let Some(Role::Between(since)) = roles.get(&to)
                    {
                        put(lists, to, &ptr, space, *since);
                    }
                }
            }
        }
        Ok(())
    }

    fn list_sizes(&mut self, found: &Lists) {
        let contents = self.contents;
        let said = |list| contents.list_sizes.get(&list).copied().unwrap_or(0);
        let is = |list| found.lists.get(&list).map_or(0, |l| l.size);
        let lists = found.lists.keys().chain(contents.list_sizes.keys());
        let lists: std::collections::BTreeSet<_> = lists.copied().collect();
        for list in lists {
            let (said, is) = (said(list), is(list));
            if said != is {
                let text = format!(
                    "deadlist {} has {is} bytes of blocks; {said} are recorded",
                    list.0
                );
                self.add(Finding::new(FindingKind::ListSize, text));
            }
        }
    }
}

fn put(lists: &mut BTreeMap<ListId, List>, list: ListId, ptr: &BlockPtr, space: u64, since: Birth) {
    let list = lists.entry(list).or_default();
    list.sums += Sums::of(ptr, space, false);
    if ptr.birth > since {
        list.unique += space;
    }
}
