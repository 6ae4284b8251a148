//! The whole pool against itself: every block can be read, and space is what the trees say.
//!
//! **Owns** that comparison. **Called by** simulations and whoever wants to know. **Invariant**: it changes nothing, and no
//! checkpoint begins meanwhile. It wants volumes that nobody writes to: what changes meanwhile may look wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use super::blocks::{Holds, Visitor};
use super::{Owner, Pool, Stage};
use crate::format::{Address, Birth, BlockPtr, TreeId};
use crate::{Error, Result};

/// How often is looked whether a checkpoint has ended.
const PAUSE_POLL: Duration = Duration::from_millis(1);

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Blocks: records and nodes.
    pub blocks: u64,
    /// Their bytes, in whole sectors.
    pub bytes: u64,
    /// What is wrong, a sentence each.
    pub problems: Vec<String>,
}

struct Verifier<'a> {
    owner: &'a Owner,
    /// By where they begin: bytes, and who came by first.
    blocks: BTreeMap<Address, (u32, TreeId)>,
    found: Verified,
}

impl Visitor for Verifier<'_> {
    async fn block(&mut self, tree: TreeId, ptr: &BlockPtr, holds: Holds) -> Result<()> {
        let sector = self.owner.shared.vdevs.sector();
        let bytes = ptr.physical_size.next_multiple_of(sector);
        // what snapshots and clones share is met again
        match self.blocks.insert(ptr.address(), (bytes, tree)) {
            None => {
                self.found.blocks += 1;
                self.found.bytes += u64::from(bytes);
            }
            Some((before, _)) if before == bytes => return Ok(()),
            Some((before, other)) => {
                let what = format!(
                    "{} has {before} bytes in tree {} and {bytes} in tree {}",
                    ptr.address(),
                    other.0,
                    tree.0
                );
                self.found.problems.push(what);
            }
        }
        if holds == Holds::Record
            && let Err(e) = self.owner.shared.vdevs.read(ptr).await
        {
            self.damaged(tree, e);
        }
        Ok(())
    }

    fn damaged(&mut self, tree: TreeId, error: Error) {
        self.found
            .problems
            .push(format!("tree {}: {error}", tree.0));
    }
}

impl Verifier<'_> {
    /// Blocks neither overlap nor lie in free space, and nothing else is used.
    fn compare_space(&mut self) {
        let state = self.owner.state.borrow();
        let problems = &mut self.found.problems;
        let mut end: Option<Address> = None;
        for (at, (bytes, tree)) in &self.blocks {
            if end.is_some_and(|end| end.vdev == at.vdev && end.offset > at.offset) {
                problems.push(format!("{at} of tree {} overlaps another block", tree.0));
            }
            if !state.space.is_used(*at) {
                problems.push(format!("{at} of tree {} is free", tree.0));
            }
            let mut after = *at;
            after.offset.0 += u64::from(*bytes);
            end = Some(after);
        }
        let (used, bytes) = (state.space.used(), self.found.bytes);
        if used != bytes {
            problems.push(format!("{used} bytes are used and {bytes} are pointed to"));
        }
        if state.leaked > 0 {
            problems.push(format!("{} blocks were freed twice", state.leaked));
        }
    }
}

/// No checkpoint is written as long as it is there.
struct Pause<'a>(&'a Owner);

impl Owner {
    async fn pause(&self) -> Pause<'_> {
        self.state.borrow_mut().pauses += 1;
        let pause = Pause(self);
        while self.state.borrow().stage != Stage::Idle {
            io::time::sleep(PAUSE_POLL).await;
        }
        pause
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().pauses -= 1;
        self.0.shared.bell.ring();
    }
}

impl Pool {
    /// Reads everything that the pool's checkpoint and its layers point to, and compares space with it.
    ///
    /// # Errors
    /// [`crate::Error::Device`]. Damage is no error here: it is reported.
    pub async fn verify(&self) -> Result<Verified> {
        let _pause = self.owner.pause().await;
        let _reader = self.owner.shared.readers.enter();
        let mut verifier = Verifier {
            owner: &self.owner,
            blocks: BTreeMap::new(),
            found: Verified::default(),
        };
        self.owner.each_block(Birth(0), &mut verifier).await?;
        verifier.compare_space();
        Ok(verifier.found)
    }
}
