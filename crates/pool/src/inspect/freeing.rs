//! Trees of what was destroyed, as far as they are not free.
//!
//! **Owns** the way through them: from the key on where freeing goes on, what was born after their floor. **Called by**
//! verification. **Invariants**: what lies before that key may be others' by now and is not looked at; records are not
//! read, since nobody can ask for them any more. `docs/format.md`, "What is being freed".

use super::owners::Verifier;
use super::verify::Progress;
use crate::format::{Birth, BlockPtr, Freeing, Key};
use crate::tree::{Visit, Walk, WalkStep};

/// What is being freed has no name any more.
pub(super) fn name_of(number: u64) -> String {
    format!("what is being freed ({number})")
}

impl<P: FnMut(Progress)> Verifier<'_, P> {
    /// Marks what is left of trees.
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

    async fn freed_tree(&mut self, number: u64, root: BlockPtr, floor: Birth, from: Key) {
        let mut walk = Walk::new(Some(root), floor, from);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let name = name_of(number);
                    let findings = &mut self.found.findings;
                    let node = self.image.node(&need.ptr, &name, None, findings).await;
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
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => return,
            }
        }
    }
}
