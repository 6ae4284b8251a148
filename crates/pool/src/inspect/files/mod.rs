//! Contents of filesystems: the rules of `docs/format.md` that tie one entry to another.
//!
//! The tree at the checkpoint is judged; the journal behind it is not applied. Snapshots are not judged: their trees were a
//! filesystem's own once. Two passes at most: the first one checks each object and sums up its ties to others, the second
//! one runs only if sums differ, and finds the objects that are wrong.
//!
//! **Owns** this check. **Called by** verification. **Invariants**: memory is bounded by the limits, not by the number of
//! files; nothing of the filesystem's own code is used but the folding of names; a tree that cannot be read completely is not
//! judged, because entries may be missing.

mod charges;
mod directories;
mod object;
mod space;
mod ties;

use std::ops::ControlFlow;

use object::{Pass, Passed, Wrong};
use ties::{TieSums, Ties};

use super::contents::SeenDataset;
use super::disks::Image;
use super::found::{Finding, FindingKind, Findings};
use super::part::Part;
use crate::format::filesystem::{FilePart, HEADER_OBJECT};
use crate::format::{Key, ObjectId};

/// Findings of one filesystem.
struct Report<'a> {
    name: &'a str,
    findings: &'a mut Findings,
}

impl Report<'_> {
    fn wrong(&mut self, object: ObjectId, text: String) {
        let of_object = FilePart {
            objects: object.0..object.0 + 1,
            bytes: None,
        };
        let part = Part {
            blocks: None,
            file: (object != HEADER_OBJECT).then_some(of_object),
        };
        let finding = Finding::new(FindingKind::File, text);
        self.findings.add(finding.of(self.name, part));
    }

    fn note(&mut self, text: &str) {
        self.findings.note(format!("{}: {text}", self.name));
    }
}

impl Image {
    /// Checks the contents of a filesystem.
    pub(super) async fn check_files(&self, of: &SeenDataset, findings: &mut Findings) {
        if of.root.root.is_none() {
            // It was created after the checkpoint; the journal has all of it.
            return;
        }
        let mut report = Report {
            name: &of.name,
            findings,
        };
        let Some(passed) = self.pass(of, TieSums::new()).await else {
            report.note("the files were not checked, because a part of the tree cannot be read");
            return;
        };
        for Wrong { object, text } in passed.wrong {
            report.wrong(object, text);
        }
        report.findings.more += passed.more;
        if passed.has_more_owners {
            report.note("the space of some owners was not compared, because there are too many");
        }
        let Some(header) = passed.header else {
            return;
        };
        let Some(suspects) = passed.ties.suspects() else {
            for directory in passed.directories.lost(header.root) {
                report.wrong(
                    directory,
                    "no way leads from the root to this directory".into(),
                );
            }
            if passed.directories.more > 0 {
                report.note(
                    "some directories were not searched for circles, because there are too many",
                );
            }
            return;
        };
        // The defects of single objects are those of the first pass.
        let Some(Passed { ties, .. }) = self.pass(of, suspects).await else {
            return;
        };
        for (object, text) in ties.wrong() {
            report.wrong(object, text);
        }
        if ties.more > 0 {
            report.note("more names are wrong than were examined: mend these first");
        }
    }

    /// Reads the whole tree. `None` if a part of it cannot be read; the walk that determines owners reports this part.
    async fn pass<T: Ties>(&self, of: &SeenDataset, ties: T) -> Option<Passed<T>> {
        let mut pass = Pass::new(ties, of.dataset.record_size);
        let mut unreadable = Findings::default();
        let scanned = self.scan(
            of.root.root,
            Key::START,
            "",
            &mut unreadable,
            |key, value| {
                pass.entry(key, &value);
                ControlFlow::Continue(())
            },
        );
        let is_whole = scanned.await;
        is_whole.then(|| pass.finish())
    }
}
