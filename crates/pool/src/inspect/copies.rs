//! Checks of the copies of labels and uberblocks, and of missing disks.
//!
//! **Owns** the distinction between damage and states that a power cut may leave. **Called by** the offline reader.
//! `docs/format.md`, "Labels".

use super::disks::{Image, SeenDisk, Slot};
use super::found::{Finding, FindingKind, Findings};
use crate::format::{Membership, VdevClass, VdevId};
use crate::vdev::{RING_SLOTS, data_size, first_apart, least_size};

impl Image {
    /// Whether the journal of the newest checkpoint is on a vdev.
    fn needs_log(&self, vdev: VdevId) -> bool {
        let newest = self.uberblocks.first();
        newest.is_none_or(|newest| {
            let segment = newest.journal.position.segment;
            self.label.rings.is_on(segment, vdev)
        })
    }

    /// Reports damaged labels and uberblocks, and missing disks.
    pub fn check_disks(&self, findings: &mut Findings) {
        self.check_forks(findings);
        for (index, vdev) in self.vdevs.iter().enumerate() {
            if vdev.members.is_empty() && !vdev.entry.is_removed {
                if vdev.entry.class == VdevClass::Log && !self.needs_log(VdevId(index as u16)) {
                    findings.note(format!(
                        "vdev {index}, a log: all of its disks are missing, and the newest checkpoint does not need them"
                    ));
                    continue;
                }
                let text = format!("vdev {index}: all of its disks are missing");
                findings.add(Finding::new(FindingKind::Missing, text));
            }
            for member in &vdev.members {
                let text = match (member.membership, member.disk) {
                    (Membership::In, None) => format!("member {:016x} is missing", member.guid.0),
                    (Membership::In, Some(disk)) if !vdev.fits(&self.seen[disk]) => {
                        let (path, size) = (self.path(disk), self.seen[disk].size);
                        let least = least_size(vdev.entry.data_size);
                        format!(
                            "{} has {size} bytes; its label requires {least}",
                            path.display()
                        )
                    }
                    (Membership::In, Some(disk)) => {
                        self.seen[disk].check(self, findings);
                        continue;
                    }
                    (Membership::Stale | Membership::Offline, _) => {
                        findings.note(format!(
                            "vdev {index}: member {:016x} missed writes and is not checked",
                            member.guid.0
                        ));
                        continue;
                    }
                };
                let mut finding =
                    Finding::new(FindingKind::Missing, format!("vdev {index}: {text}"));
                let present = self.members_in(VdevId(index as u16)).count();
                finding.lost = present < vdev.entry.needed();
                findings.add(finding);
            }
        }
        for disk in self.seen.iter().filter(|disk| disk.label().is_none()) {
            let text = "no copy of its label is readable: the member is unknown";
            let mut finding = Finding::new(FindingKind::Label, text);
            finding.disk = Some(disk.path.clone());
            findings.add(finding);
        }
    }

    /// Reports a disk that was used apart from the others, with which the pool does not open.
    fn check_forks(&self, findings: &mut Findings) {
        let labels: Vec<_> = self.seen.iter().filter_map(SeenDisk::label).collect();
        let Some(apart) = first_apart(&labels, &self.label) else {
            return;
        };
        let text =
            "was used apart from the other disks: the newest label does not replace its label";
        let mut finding = Finding::new(FindingKind::Label, text);
        let is_it = |disk: &&SeenDisk| disk.label().is_some_and(|l| l.disk == apart.disk);
        finding.disk = self.seen.iter().find(is_it).map(|disk| disk.path.clone());
        findings.add(finding);
    }
}

impl SeenDisk {
    /// Whether the disk grew and nothing was written to its new end yet.
    fn grew(&self) -> bool {
        let label = self.label();
        // By its own label: the label of another disk may already have the new size.
        let entry = label.and_then(|label| label.vdevs.get(usize::from(label.vdev.0)));
        entry.is_some_and(|entry| data_size(self.size) > entry.data_size)
            && self.labels.iter().skip(2).all(|copy| copy.label.is_err())
    }

    /// Whether the disk has a copy of an uberblock.
    fn has_uberblock(&self, image: &Image, sequence: u64) -> bool {
        let whole = self.slots.iter().filter_map(|s| s.uberblock.as_ref().ok());
        let mut ours = whole.filter(|u| u.pool == image.label.pool);
        ours.any(|u| u.sequence == sequence)
    }

    /// Whether the disk has a copy of an uberblock in an area that is written later.
    fn has_behind(&self, slot: &Slot, sequence: u64) -> bool {
        let behind = |s: &&Slot| s.slot == slot.slot && s.area > slot.area;
        let mut whole = self.slots.iter().filter(behind);
        whole.any(|s| s.uberblock.is_ok_and(|u| u.sequence == sequence))
    }

    /// Reports damage of its labels and rings. A power cut tears at most the copies in one half of the areas, and the
    /// uberblock that was being written.
    pub(super) fn check(&self, image: &Image, findings: &mut Findings) {
        let newest = self.label().map(|label| label.epoch);
        let grew = self.grew();
        let note_end = "the disk has grown: the opening of the pool writes this copy";
        let wrong = |areas: [usize; 2]| areas.iter().any(|a| self.labels[*a].label.is_err());
        let torn = !(wrong([0, 2]) && wrong([1, 3]));
        for (area, copy) in self.labels.iter().enumerate() {
            if grew && area >= 2 {
                let disk = self.path.display();
                findings.note(format!("label of {disk}, copy {area}: {note_end}"));
                continue;
            }
            let (text, may_be) = match &copy.label {
                Ok(label) if Some(label.epoch) == newest => continue,
                Ok(label) => (
                    format!("of epoch {}, older than others", label.epoch.0),
                    true,
                ),
                Err(flaw) => (flaw.to_string(), torn),
            };
            if may_be {
                findings.note(format!(
                    "label of {}, copy {area}: {text}: a power cut may leave this; the opening of the pool rewrites it",
                    self.path.display()
                ));
            } else {
                let finding = Finding::new(FindingKind::Label, format!("copy {area}: {text}"));
                findings.add(finding.only_on(self.path.clone()));
            }
        }
        let newest = image.uberblocks.first().map_or(0, |u| u.sequence);
        for slot in self.slots.iter().filter(|s| !grew || s.area < 2) {
            let Err(flaw) = slot.uberblock else {
                continue;
            };
            // A slot that was never written may have any contents.
            let twins = self.slots.iter().filter(|s| s.slot == slot.slot);
            let twins = twins.filter_map(|s| s.uberblock.as_ref().ok());
            let ours = twins.filter(|u| u.pool == image.label.pool);
            let Some(sequence) = ours.map(|u| u.sequence).max() else {
                continue;
            };
            // The uberblock was being written: now, by a scrub, or when the disk left the pool for a while. Then it lacks the
            // next uberblock, or later areas lack this one.
            let being_written = [newest, newest + 1]
                .map(|n| n % RING_SLOTS)
                .contains(&slot.slot)
                || !self.has_uberblock(image, sequence + 1)
                || !self.has_behind(slot, sequence);
            let text = format!("copy {} of uberblock {sequence}: {flaw}", slot.area);
            if being_written {
                findings.note(format!(
                    "{}, {text}: a power cut, or the absence of a disk, may leave this; a scrub rewrites it",
                    self.path.display()
                ));
            } else {
                findings.add(Finding::new(FindingKind::Uberblock, text).only_on(self.path.clone()));
            }
        }
    }
}
