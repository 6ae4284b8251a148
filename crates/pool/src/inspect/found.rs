//! What is wrong: what, where, of which dataset and blocks.
//!
//! **Owns** findings and their words. **Called by** all of the offline reader. **Invariants**: one block is told of once
//! for each kind; there are no more than [`FINDINGS_MAX`], the rest is counted.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use super::limits::FINDINGS_MAX;
use crate::format::Address;

/// What kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// A disk that should be there is not.
    Missing,
    /// A copy of a label.
    Label,
    /// A copy of an uberblock.
    Uberblock,
    /// A batch of the journal.
    Journal,
    /// A tree's node.
    Node,
    /// A record of a volume.
    Record,
    /// Properties or a root in the pool's own tree.
    Dataset,
    /// A saved bitmap.
    Space,
    /// Space that is used by nothing.
    Leak,
    /// Space that more than one owner uses.
    DoubleUse,
    /// Space that is used and said to be free.
    NotMarked,
    /// A list of dead blocks that is not what one dataset holds and the next does not.
    DeadList,
    /// The sum of what is on such a list.
    ListSize,
    /// A sum of what a dataset holds.
    Referenced,
}

impl FindingKind {
    /// One word for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Missing => "missing",
            FindingKind::Label => "label",
            FindingKind::Uberblock => "uberblock",
            FindingKind::Journal => "journal",
            FindingKind::Node => "node",
            FindingKind::Record => "record",
            FindingKind::Dataset => "dataset",
            FindingKind::Space => "space",
            FindingKind::Leak => "leak",
            FindingKind::DoubleUse => "double-use",
            FindingKind::NotMarked => "not-marked",
            FindingKind::DeadList => "dead-list",
            FindingKind::ListSize => "list-size",
            FindingKind::Referenced => "referenced",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub kind: FindingKind,
    /// Where in the pool.
    pub at: Option<Address>,
    /// On which disk, if not on all that should have it.
    pub disk: Option<PathBuf>,
    /// Of which dataset, such as `vm1@monday`.
    pub dataset: Option<String>,
    /// Logical blocks of it.
    pub blocks: Option<Range<u64>>,
    /// Whether no disk has it whole. What is not lost is repaired by a scrub, or by opening the pool.
    pub lost: bool,
    /// What is wrong.
    pub text: String,
}

impl Finding {
    pub(super) fn new(kind: FindingKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            at: None,
            disk: None,
            dataset: None,
            blocks: None,
            lost: true,
            text: text.into(),
        }
    }

    pub(super) fn at(mut self, at: Address) -> Self {
        self.at = Some(at);
        self
    }

    /// One disk has it wrong and another has it.
    pub(super) fn only_on(mut self, disk: PathBuf) -> Self {
        self.disk = Some(disk);
        self.lost = false;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind.name())?;
        if let Some(at) = self.at {
            write!(f, " at {at}")?;
        }
        if let Some(disk) = &self.disk {
            write!(f, " on {}", disk.display())?;
        }
        if let Some(dataset) = &self.dataset {
            write!(f, ", {dataset}")?;
        }
        if let Some(blocks) = &self.blocks {
            write!(f, " blocks {}..{}", blocks.start, blocks.end)?;
        }
        write!(f, ": {}", self.text)
    }
}

/// All that was found.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// What is wrong.
    pub damage: Vec<Finding>,
    /// How much more is.
    pub more: u64,
    /// What a power cut may leave, and opening the pool settles.
    pub notes: Vec<String>,
    seen: BTreeSet<(FindingKind, Address, Option<PathBuf>)>,
}

impl Findings {
    pub(super) fn add(&mut self, finding: Finding) {
        if self.damage.len() >= FINDINGS_MAX {
            self.more += 1;
            return;
        }
        let key = finding
            .at
            .map(|at| (finding.kind, at, finding.disk.clone()));
        if key.is_none_or(|key| self.seen.insert(key)) {
            self.damage.push(finding);
        }
    }

    pub(super) fn note(&mut self, note: String) {
        if self.notes.len() < FINDINGS_MAX {
            self.notes.push(note);
        }
    }
}
