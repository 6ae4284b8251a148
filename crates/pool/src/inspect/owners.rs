//! Walk of datasets' trees: the owner of each block, and the disks that have it.
//!
//! **Owns** marks, sums and reads of the blocks below a root. **Called by** verification, which determines the order.
//! **Invariants**: a node is used only if it matches its parent's entry; each owner marks a block once; at most [`READS_MAX`]
//! records are read at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::contents::Contents;
use super::disks::Image;
use super::found::{Finding, FindingKind};
use super::inspected::{Inspected, Progress};
use super::limits::READS_MAX;
use super::part::{Part, Who};
use super::relocated::MetRelocations;
use super::space::Sectors;
use super::sums::{Memo, Sums};
use crate::format::{Block, BlockPtr, Key, Node, TreeId};

/// A node to be read, as its parent describes it.
pub(super) struct Expected {
    pub(super) ptr: BlockPtr,
    pub(super) level: Option<u8>,
    pub(super) keys: Range<Key>,
    pub(super) old: bool,
}

pub(super) struct Frame {
    pub(super) expected: Expected,
    pub(super) node: Arc<Node>,
    pub(super) next: usize,
    pub(super) below: Sums,
}

/// Sums of a walk: of all blocks, and of the old ones.
#[derive(Default, Clone, Copy)]
pub(super) struct Walked {
    pub(super) below: Sums,
    pub(super) old: Sums,
}

/// A record to be read.
pub(super) struct Check {
    pub(super) block: Block,
    pub(super) dataset: String,
    pub(super) part: Part,
    /// Whether its absence on a disk is damage even after a power cut.
    pub(super) durable: bool,
}

pub(super) struct Verifier<'a, P> {
    pub(super) image: &'a Rc<Image>,
    pub(super) contents: &'a Contents,
    pub(super) met: Sectors,
    pub(super) relocated: MetRelocations,
    pub(super) memo: Memo,
    /// Sums of the snapshots that were walked.
    pub(super) held: BTreeMap<TreeId, Sums>,
    pub(super) keep_memo: bool,
    pub(super) checks: Vec<Check>,
    pub(super) unread: u64,
    pub(super) found: Inspected,
    pub(super) progress: P,
    pub(super) total: u64,
    pub(super) done: u64,
}

impl<P: FnMut(Progress)> Verifier<'_, P> {
    pub(super) fn add(&mut self, finding: Finding) {
        self.found.findings.add(finding);
    }

    /// Marks a block as owned by the dataset `name`. Returns its bytes.
    pub(super) fn own(&mut self, ptr: &BlockPtr, name: &str, part: Part) -> u64 {
        let space = match self.image.space_of(ptr) {
            Ok(space) => space,
            Err(defect) => {
                let finding = Finding::new(FindingKind::Node, defect.to_string());
                self.add(finding.at(ptr.address()).of(name, part));
                return 0;
            }
        };
        let at = self.meet(ptr, space);
        if !self.met.mark(self.image, at, space) {
            let text = format!("{space} bytes, some of which have another owner");
            let finding = Finding::new(FindingKind::DoubleUse, text).at(ptr.address());
            self.add(finding.of(name, part));
        }
        self.found.blocks += 1;
        self.done += space;
        (self.progress)(Progress {
            done: self.done,
            total: self.total,
        });
        space
    }

    /// Checks that an old block was marked by an earlier dataset.
    pub(super) fn shared(&mut self, ptr: &BlockPtr, who: &Who, part: Part) {
        if self.met.has_all(self.image, ptr) || self.unread > 0 {
            return;
        }
        let text = "it is older than the previous snapshot, which does not hold it";
        let finding = Finding::new(FindingKind::DoubleUse, text).at(ptr.address());
        self.add(finding.of(&who.name, part));
    }

    /// The sums of one block.
    pub(super) fn weigh(&self, ptr: &BlockPtr, is_record: bool) -> Sums {
        let space = self.image.space_of(ptr).unwrap_or(0);
        Sums::of(ptr, space, is_record)
    }

    /// The sums of the blocks below an old node, if they are known.
    fn remembered(&self, expected: &Expected) -> Option<Sums> {
        self.memo.get(&expected.ptr).filter(|_| expected.old)
    }

    pub(super) async fn node(&mut self, expected: &Expected, who: &Who) -> Option<Frame> {
        let part = who.part(&expected.keys);
        let findings = &mut self.found.findings;
        let read = self
            .image
            .node(&expected.ptr, &who.name, part.clone(), findings);
        let node = read.await?;
        let differs = if node.birth() != expected.ptr.birth {
            "birth"
        } else if node.as_bytes().len() != expected.ptr.logical_size as usize {
            "size"
        } else if expected.level.is_some_and(|level| level != node.level()) {
            "level"
        } else if expected.level.is_some() && node.first_key() != expected.keys.start {
            "first key"
        } else if node.last_key() >= expected.keys.end {
            "last key"
        } else {
            return Some(Frame {
                expected: Expected {
                    keys: expected.keys.clone(),
                    ..*expected
                },
                node,
                next: 0,
                below: Sums::default(),
            });
        };
        let text =
            format!("an intact node, but not the one that its parent describes: other {differs}");
        let finding = Finding::new(FindingKind::Node, text).at(expected.ptr.address());
        self.add(finding.of(&who.name, part));
        None
    }

    /// Walks a dataset's tree. Marks its own nodes and records, and queues the records for reading.
    pub(super) async fn walk(&mut self, root: Option<BlockPtr>, who: &Who) -> Walked {
        let mut walked = Walked::default();
        let mut frames: Vec<Frame> = Vec::new();
        let mut next = root.map(|ptr| Expected {
            ptr,
            level: None,
            keys: Key::START..Key::END,
            old: ptr.birth <= who.since,
        });
        loop {
            if let Some(expected) = next.take() {
                let inside_old = frames.last().is_some_and(|f| f.expected.old);
                if expected.old && !inside_old {
                    self.shared(&expected.ptr, who, who.part(&expected.keys));
                }
                if let Some(below) = self.remembered(&expected) {
                    add(&mut frames, &mut walked, below, expected.old);
                    continue;
                }
                if !expected.old {
                    let part = who.part(&expected.keys);
                    self.own(&expected.ptr, &who.name, part);
                }
                match self.node(&expected, who).await {
                    Some(mut frame) => {
                        if frame.node.lost().is_some() {
                            self.unread += 1;
                            frame.below += Sums::unread();
                        }
                        frames.push(frame);
                    }
                    None => {
                        self.unread += 1;
                        let mut below = self.weigh(&expected.ptr, false);
                        below += Sums::unread();
                        add(&mut frames, &mut walked, below, expected.old);
                    }
                }
                continue;
            }
            let Some(frame) = frames.last_mut() else {
                return walked;
            };
            let index = frame.next;
            if index == frame.node.count() {
                let Frame {
                    expected,
                    mut below,
                    ..
                } = frames.pop().expect("it was there");
                below += self.weigh(&expected.ptr, false);
                if self.keep_memo {
                    self.memo.put(&expected.ptr, below);
                }
                add(&mut frames, &mut walked, below, expected.old);
                continue;
            }
            frame.next += 1;
            if frame.node.is_leaf() {
                let (key, value) = (frame.node.key(index), frame.node.value(index).to_value());
                let inside_old = frame.expected.old;
                if let Some((below, old)) =
                    self.record(key, value.as_block(), inside_old, who).await
                {
                    let frame = frames.last_mut().expect("its leaf");
                    frame.below += below;
                    if old && !inside_old {
                        walked.old += below;
                    }
                }
            } else {
                next = Some(child(frame, index, who));
            }
        }
    }

    /// Handles an entry of a leaf. Returns its sums, and whether it is old.
    pub(super) async fn record(
        &mut self,
        key: Key,
        block: Option<&Block>,
        inside_old: bool,
        who: &Who,
    ) -> Option<(Sums, bool)> {
        let part = who.part(&(key..key.next()));
        let Some(block) = block else {
            // The values of filesystems are checked with their contents.
            if !who.has_files {
                let finding = Finding::new(FindingKind::Record, "a value that is not a record");
                self.add(finding.of(&who.name, part));
            }
            return None;
        };
        let ptr = block.ptr();
        let old = inside_old || ptr.birth <= who.since;
        if old && !inside_old {
            self.shared(ptr, who, part);
        } else if !old && self.own(ptr, &who.name, part.clone()) > 0 {
            let check = Check {
                block: block.clone(),
                dataset: who.name.clone(),
                part,
                durable: true,
            };
            self.check(check).await;
        }
        Some((self.weigh(ptr, true), old))
    }

    /// Queues a record for reading.
    pub(super) async fn check(&mut self, check: Check) {
        if !self.found.read_records {
            return;
        }
        self.checks.push(check);
        if self.checks.len() >= READS_MAX {
            self.finish_checks().await;
        }
    }

    pub(super) async fn finish_checks(&mut self) {
        let start = |check: Check| {
            let image = self.image.clone();
            io::spawn(async move {
                let copied = image.check(&check.block).await;
                (check, copied)
            })
        };
        let running: Vec<_> = std::mem::take(&mut self.checks)
            .into_iter()
            .map(start)
            .collect();
        for task in running {
            let Some((check, copied)) = task.await else {
                continue;
            };
            let told = |text: String| {
                let finding =
                    Finding::new(FindingKind::Record, text).at(check.block.ptr().address());
                finding.of(&check.dataset, check.part.clone())
            };
            match copied {
                Err(defect) => self.add(told(defect.to_string())),
                // If no disk has the blocks of a batch that is not durable, the journal ends before it.
                Ok((false, _)) if !check.durable => {
                    let note = format!(
                        "the block at {} of the journal's last batches was readable at first, and then not",
                        check.block.ptr().address()
                    );
                    self.found.findings.note(note);
                }
                Ok((false, lacking)) => {
                    let why = lacking.first().map(|(_, flaw)| flaw.to_string());
                    let why =
                        why.unwrap_or_else(|| "every disk that should have it is missing".into());
                    self.add(told(format!("{why}, on every disk")));
                }
                Ok((true, lacking)) if !check.durable => {
                    for (disk, _) in lacking {
                        let (disk, at) = (disk.display(), check.block.ptr().address());
                        let note = format!(
                            "{disk} lacks the block at {at} of the journal's last batches: a power cut may leave this"
                        );
                        self.found.findings.note(note);
                    }
                }
                Ok((true, lacking)) => {
                    for (disk, flaw) in lacking {
                        self.add(told(flaw.to_string()).only_on(disk));
                    }
                }
            }
        }
    }
}

/// Child `index` of a frame's node.
fn child(frame: &Frame, index: usize, who: &Who) -> Expected {
    let node = &frame.node;
    let ptr = node.child(index);
    let end = if index + 1 < node.count() {
        node.key(index + 1)
    } else {
        frame.expected.keys.end
    };
    Expected {
        ptr,
        level: Some(node.level() - 1),
        keys: node.key(index)..end,
        old: frame.expected.old || ptr.birth <= who.since,
    }
}

/// Adds the sums of a finished subtree to the node above, and to the old sums if old blocks begin there.
fn add(frames: &mut [Frame], walked: &mut Walked, below: Sums, old: bool) {
    let inside_old = frames.last().is_some_and(|f| f.expected.old);
    if old && !inside_old {
        walked.old += below;
    }
    match frames.last_mut() {
        Some(frame) => frame.below += below,
        None => walked.below += below,
    }
}
