//! Trees: statistics, and the entries of a range of keys.
//!
//! **Owns** the reads of nodes, and the view of one tree. **Called by** all modules of the offline reader.
//! **Invariants**: a node is used only if it matches its parent's entry; a node that cannot be read is reported, and
//! everything below it is skipped.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::disks::Image;
use super::found::{Finding, FindingKind, Findings};
use super::limits::ENTRIES_MAX;
use super::part::Part;
use crate::format::{Birth, BlockPtr, Key, Node, Value};
use crate::tree::{Root, Visit, Walk, WalkStep, load};

/// Statistics of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Number of nodes by level, leaves first.
    pub levels: Vec<u64>,
    /// Bytes of nodes, in whole sectors.
    pub node_bytes: u64,
    /// Number of entries in leaves.
    pub entries: u64,
    /// Number of entries that point to blocks.
    pub blocks: u64,
    /// Bytes of these blocks, as stored.
    pub block_bytes: u64,
    /// The first and the last key.
    pub keys: Option<(Key, Key)>,
}

/// An entry with its leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its key.
    pub key: Key,
    /// Its value.
    pub value: Value,
}

impl Image {
    /// Reads a node from every disk that should have it, and reports wrong copies.
    pub(super) async fn node(
        &self,
        ptr: &BlockPtr,
        tree: &str,
        part: Part,
        findings: &mut Findings,
    ) -> Option<Arc<Node>> {
        let told = |text: String| {
            let finding = Finding::new(FindingKind::Node, text).at(ptr.address());
            finding.of(tree, part.clone())
        };
        let copied = match self.read(ptr, true).await {
            Ok(copied) => copied,
            Err(defect) => {
                findings.add(told(defect.to_string()));
                return None;
            }
        };
        let Some(good) = copied.good else {
            let why = copied.lacking.first().map(|(_, flaw)| flaw.to_string());
            let why = why.unwrap_or_else(|| "every disk that should have it is missing".to_owned());
            findings.add(told(format!("{why}: everything below is unknown")));
            return None;
        };
        for (disk, flaw) in copied.lacking {
            findings.add(told(flaw.to_string()).only_on(disk));
        }
        match load(ptr, good[..ptr.physical_size as usize].to_vec()) {
            Ok(node) => {
                if let Some(keys) = node.lost() {
                    let text =
                        format!("stands for keys {keys:?}, which were lost with a damaged node");
                    findings.add(told(text));
                }
                Some(node)
            }
            Err(error) => {
                findings.add(told(error.to_string()));
                None
            }
        }
    }

    /// Returns the statistics of a tree.
    pub async fn stats(&self, root: Root, name: &str, findings: &mut Findings) -> TreeStats {
        let mut stats = TreeStats::default();
        let mut walk = Walk::new(root, Birth(0), Key::START);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let Some(node) = self.node(&need.ptr, name, Part::default(), findings).await
                    else {
                        walk.skip();
                        continue;
                    };
                    let level = usize::from(node.level());
                    if walk.supply(node).is_err() {
                        walk.skip();
                        continue;
                    }
                    if stats.levels.len() <= level {
                        stats.levels.resize(level + 1, 0);
                    }
                    stats.levels[level] += 1;
                    stats.node_bytes += self.space_of(&need.ptr).unwrap_or(0);
                }
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    stats.entries += 1;
                    if let Some(ptr) = value.block() {
                        stats.blocks += 1;
                        stats.block_bytes += u64::from(ptr.physical_size);
                    }
                    stats.keys = Some((stats.keys.map_or(key, |(first, _)| first), key));
                }
                WalkStep::Visit(Visit::Node(_) | Visit::Lost(..) | Visit::Older(_)) => {}
                WalkStep::Done => return stats,
            }
        }
    }

    /// Returns the entries of a range of keys, at most [`ENTRIES_MAX`], and whether there are more.
    pub async fn entries(
        &self,
        root: Root,
        keys: Range<Key>,
        name: &str,
        findings: &mut Findings,
    ) -> (Vec<TreeEntry>, bool) {
        let mut found = Vec::new();
        let mut has_more = false;
        self.scan(root, keys.start, name, findings, |key, value| {
            has_more = key < keys.end && found.len() == ENTRIES_MAX;
            if key >= keys.end || has_more {
                return ControlFlow::Break(());
            }
            found.push(TreeEntry { key, value });
            ControlFlow::Continue(())
        })
        .await;
        (found, has_more)
    }

    /// Calls `visit` for each entry from `start` on, until it breaks. False if a part of the tree cannot be read.
    pub(super) async fn scan(
        &self,
        root: Root,
        start: Key,
        name: &str,
        findings: &mut Findings,
        mut visit: impl FnMut(Key, Value) -> ControlFlow<()>,
    ) -> bool {
        let mut is_whole = true;
        let mut walk = Walk::new(root, Birth(0), start);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let node = self.node(&need.ptr, name, Part::default(), findings).await;
                    if node.is_none_or(|node| walk.supply(node).is_err()) {
                        walk.skip();
                        is_whole = false;
                    }
                }
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    if visit(key, value).is_break() {
                        return is_whole;
                    }
                }
                WalkStep::Visit(Visit::Lost(..)) => is_whole = false,
                WalkStep::Visit(Visit::Node(_) | Visit::Older(_)) => {}
                WalkStep::Done => return is_whole,
            }
        }
    }
}
