//! Trees of pending destroys.
//!
//! **Owns** the marks of their blocks, and the walk from the key at which freeing continues: blocks born after their floor.
//! **Called by** verification, also for the deadlists of destroyed snapshots. **Invariants**: blocks before that key may have
//! been reused and are not visited; records are not read, because no client can request them. `docs/format.md`, "What is being
//! freed".

use super::inspected::Progress;
use super::owners::Verifier;
use super::part::Part;
use crate::format::{Birth, BlockPtr, Freeing, Key};
use crate::tree::{Visit, Walk, WalkStep};

/// Name of a pending destroy in findings.
fn name_of(number: u64) -> String {
    format!("pending destroy {number}")
}

impl<P: FnMut(Progress)> Verifier<'_, P> {
    /// Marks the remaining blocks of destroyed trees.
    pub(super) async fn freed_trees(&mut self) {
        let contents = self.contents;
        for (number, job) in &contents.freeing {
            self.found.freeing.entry(*number).or_default();
            if let Freeing::Tree {
                root, floor, from, ..
            } = *job
            {
                self.freed_tree(*number, root, floor, from).await;
            }
        }
    }

    /// Marks a block of a pending destroy.
    pub(super) fn freeing(&mut self, number: u64, ptr: &BlockPtr) {
        let space = self.own(ptr, &name_of(number), Part::default());
        *self.found.freeing.entry(number).or_default() += space;
    }

    async fn freed_tree(&mut self, number: u64, root: BlockPtr, floor: Birth, from: Key) {
        let mut walk = Walk::new(Some(root), floor, from);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let name = name_of(number);
                    let findings = &mut self.found.findings;
                    let node = self
                        .image
                        .node(&need.ptr, &name, Part::default(), findings)
                        .await;
                    if node.is_none_or(|node| walk.supply(node).is_err()) {
                        self.unread += 1;
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Node(ptr)) => self.freeing(number, &ptr),
                WalkStep::Visit(Visit::Entry(_, value)) => {
                    if let Some(ptr) = value.block().filter(|ptr| ptr.birth > floor) {
                        self.freeing(number, ptr);
                    }
                }
                WalkStep::Visit(Visit::Older(_) | Visit::Lost(..)) => {}
                WalkStep::Done => return,
            }
        }
    }
}
