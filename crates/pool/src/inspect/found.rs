//! Findings: kind, place, dataset and blocks of each damage.
//!
//! **Owns** findings and their text. **Called by** all modules of the offline reader. **Invariants**: a block is reported
//! once per kind; at most [`FINDINGS_MAX`] findings are kept, the others are counted.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use super::limits::FINDINGS_MAX;
use super::part::Part;
use crate::format::Address;
use crate::format::filesystem::FilePart;

/// Kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// A missing disk.
    Missing,
    /// A copy of a label.
    Label,
    /// A copy of an uberblock.
    Uberblock,
    /// A batch of the journal.
    Journal,
    /// A tree's node.
    Node,
    /// A record of a volume or of a file.
    Record,
    /// An entry of a filesystem that contradicts others.
    File,
    /// Properties or a root in the pool's own tree.
    Dataset,
    /// A saved bitmap.
    Space,
    /// Used space in the bitmaps without an owner.
    Leak,
    /// Space with more than one owner.
    DoubleUse,
    /// Used space that the bitmaps have as free.
    NotMarked,
    /// A deadlist that differs from its definition: `blocks(S) − blocks(next(S))`.
    DeadList,
    /// The recorded size of a deadlist.
    ListSize,
    /// A recorded sum of a dataset's blocks.
    Referenced,
}

impl FindingKind {
    /// The kind's name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Missing => "missing",
            FindingKind::Label => "label",
            FindingKind::Uberblock => "uberblock",
            FindingKind::Journal => "journal",
            FindingKind::Node => "node",
            FindingKind::Record => "record",
            FindingKind::File => "file",
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

/// One damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// Its place in the pool.
    pub at: Option<Address>,
    /// The disk, if not every disk that should have the data is affected.
    pub disk: Option<PathBuf>,
    /// The dataset, such as `vm1@monday`.
    pub dataset: Option<String>,
    /// The logical blocks of the dataset.
    pub blocks: Option<Range<u64>>,
    /// The objects of the filesystem.
    pub file: Option<FilePart>,
    /// Whether no disk has an intact copy. If one has, a scrub or the opening of the pool repairs the others.
    pub lost: bool,
    /// Description of the damage.
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
            file: None,
            lost: true,
            text: text.into(),
        }
    }

    pub(super) fn at(mut self, at: Address) -> Self {
        self.at = Some(at);
        self
    }

    /// Adds the dataset and its part.
    pub(super) fn of(mut self, dataset: &str, part: Part) -> Self {
        self.dataset = Some(dataset.to_owned());
        self.blocks = part.blocks;
        self.file = part.file;
        self
    }

    /// Restricts the finding to one disk. Another disk has an intact copy.
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
        if let Some(file) = &self.file {
            write!(f, " {}", objects(&file.objects))?;
            if let Some(bytes) = file.bytes.as_ref().filter(|bytes| **bytes != (0..u64::MAX)) {
                write!(f, " bytes {}..{}", bytes.start, bytes.end)?;
            }
        }
        write!(f, ": {}", self.text)
    }
}

/// Numbers of objects, as text.
fn objects(numbers: &Range<u64>) -> String {
    match *numbers {
        Range { start, end } if start.checked_add(1) == Some(end) => format!("object {start}"),
        Range {
            start,
            end: u64::MAX,
        } => format!("objects from {start} on"),
        Range { start, end } => format!("objects {start}..{end}"),
    }
}

/// All findings.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// The findings.
    pub damage: Vec<Finding>,
    /// Number of further findings.
    pub more: u64,
    /// States that a power cut may leave and that the opening of the pool repairs.
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
