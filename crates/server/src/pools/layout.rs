//! Layouts of vdevs: the API's words for those of the pool, and the reasons not to take a proposed one.
//!
//! **Called by** views of pools, and by new and added vdevs. **Invariant**: a reason names what would be lost or wasted, and `-f` accepts it.

use crate::api::{self, ClassReason, LastChange, LostChanges, VdevClass, VdevLayout};
use crate::size::ByteSize;
use crate::{Error, Result};
use pool::format::VdevKind;
use pool::vdev::{Layout, VdevSpec, VdevStatus};
use std::fmt;

/// Disks of a raidz differ in size if the largest has more than this part of the smallest more.
const UNEQUAL_PART: u64 = 20;

impl From<VdevKind> for VdevLayout {
    fn from(kind: VdevKind) -> Self {
        match kind {
            VdevKind::Disk => Self::Disk,
            VdevKind::Mirror => Self::Mirror,
            VdevKind::Raidz { parity: 1 } => Self::Raidz1,
            VdevKind::Raidz { parity: 2 } => Self::Raidz2,
            VdevKind::Raidz { .. } => Self::Raidz3,
        }
    }
}

impl From<pool::format::VdevClass> for VdevClass {
    fn from(class: pool::format::VdevClass) -> Self {
        match class {
            pool::format::VdevClass::Normal => Self::Normal,
            pool::format::VdevClass::Log => Self::Log,
            pool::format::VdevClass::Special => Self::Special,
        }
    }
}

impl From<VdevClass> for pool::format::VdevClass {
    fn from(class: VdevClass) -> Self {
        match class {
            VdevClass::Normal => Self::Normal,
            VdevClass::Log => Self::Log,
            VdevClass::Special => Self::Special,
        }
    }
}

impl From<pool::ClassReason> for ClassReason {
    fn from(reason: pool::ClassReason) -> Self {
        match reason {
            pool::ClassReason::Opened => Self::Opened,
            pool::ClassReason::Added => Self::Added,
            pool::ClassReason::Threshold => Self::Threshold,
            pool::ClassReason::Room => Self::Room,
        }
    }
}

impl From<pool::LostChanges> for LostChanges {
    fn from(lost: pool::LostChanges) -> Self {
        let changed = lost.changed.into_iter().map(|last| LastChange {
            dataset: last.dataset,
            time_ms: last.time_ms,
        });
        Self {
            since_ms: lost.since_ms,
            known_ms: lost.known_ms,
            changed: changed.collect(),
        }
    }
}

impl From<VdevLayout> for Layout {
    fn from(layout: VdevLayout) -> Self {
        match layout {
            VdevLayout::Disk | VdevLayout::Mirror => Self::Mirror,
            VdevLayout::Raidz1 => Self::Raidz { parity: 1 },
            VdevLayout::Raidz2 => Self::Raidz { parity: 2 },
            VdevLayout::Raidz3 => Self::Raidz { parity: 3 },
        }
    }
}

/// A layout with its number of disks, and the class of its vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    class: VdevClass,
    layout: VdevLayout,
    disks: usize,
}

impl Shape {
    fn failures(self) -> usize {
        self.layout.failures(self.disks)
    }
}

impl From<&VdevStatus> for Shape {
    fn from(status: &VdevStatus) -> Self {
        Self {
            class: status.class.into(),
            layout: status.kind.into(),
            disks: status.members.len(),
        }
    }
}

impl From<&VdevSpec> for Shape {
    fn from(spec: &VdevSpec) -> Self {
        Self {
            class: spec.class.into(),
            layout: spec.layout.kind(spec.members.len()).into(),
            disks: spec.members.len(),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.layout, self.disks) {
            (VdevLayout::Disk, _) => f.write_str("a single disk"),
            (layout, n) => write!(f, "a {layout} of {n} disks"),
        }
    }
}

/// Refuses vdevs whose layout cannot have their number of disks. Errors: `Invalid`.
pub(super) fn check_disks(vdevs: &[api::VdevSpec]) -> Result<()> {
    let wrong = |v: &&api::VdevSpec| !v.layout.takes(v.members.len());
    match vdevs.iter().find(wrong) {
        Some(v) => Err(Error::Invalid(format!(
            "a vdev of layout {} cannot have {} disks: give {} of them, or another layout",
            v.layout,
            v.members.len(),
            v.layout.least_disks()
        ))),
        None => Ok(()),
    }
}

/// The reason why a pool of the vdevs `old` that gets the vdevs `new` would lose data after fewer failed disks than some of its vdevs.
pub(super) fn lower_redundancy(old: &[Shape], new: &[Shape]) -> Option<String> {
    let blocks = |shapes: &[Shape]| -> Vec<Shape> {
        let normal = shapes.iter().filter(|s| s.class == VdevClass::Normal);
        normal.copied().collect()
    };
    let (old, new_blocks) = (blocks(old), blocks(new));
    let least_old = old.iter().min_by_key(|s| s.failures());
    let of_blocks = || {
        let least = new_blocks.iter().min_by_key(|s| s.failures())?;
        let usual = least_old.or(new_blocks.iter().max_by_key(|s| s.failures()))?;
        (least.failures() < usual.failures())
            .then(|| format!("{least} beside {usual} lowers the redundancy of the whole pool"))
    };
    // a vdev of another class with less redundancy than any vdev for data
    let weaker = |class| {
        let of_class = new.iter().filter(|s| s.class == class);
        let least = of_class.min_by_key(|s| s.failures())?;
        let usual = least_old.or(new_blocks.iter().min_by_key(|s| s.failures()))?;
        (least.failures() < usual.failures()).then_some((least, usual))
    };
    let of_log = || {
        let (least, usual) = weaker(VdevClass::Log)?;
        Some(format!(
            "{least} for the journal beside {usual}: if it fails at the same time as the machine, the durable writes of the last seconds are lost"
        ))
    };
    let of_special = || {
        let (least, usual) = weaker(VdevClass::Special)?;
        let failures = match least.failures() {
            0 => "if its disk fails".to_owned(),
            n => format!("if {} of its disks fail", n + 1),
        };
        Some(format!(
            "{least} for metadata and small records beside {usual}: {failures}, the whole pool is lost, although all disks with data are there"
        ))
    };
    of_blocks().or_else(of_special).or_else(of_log)
}

/// The reason why a raidz wastes space: each of its disks counts as the smallest one.
pub(super) fn unequal_disks(spec: &VdevSpec) -> Option<String> {
    if spec.layout == Layout::Mirror {
        return None;
    }
    let infos = || spec.members.iter().map(io::disk::Disk::info);
    let least = infos().min_by_key(|i| i.size)?;
    let most = infos().max_by_key(|i| i.size)?;
    (most.size - least.size > least.size / UNEQUAL_PART).then(|| {
        format!(
            "{} of different sizes: {} has {}, {} has {}, and each counts as the smallest",
            Shape::from(spec),
            least.path.display(),
            ByteSize(least.size).human(),
            most.path.display(),
            ByteSize(most.size).human()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(text: &str) -> Vec<Shape> {
        let one = |word: &str| {
            let (class, word) = match word.split_once('-') {
                Some(("log", word)) => (VdevClass::Log, word),
                Some((_, word)) => (VdevClass::Special, word),
                None => (VdevClass::Normal, word),
            };
            let (layout, disks) = word.split_once(':').unwrap();
            let layout = VdevLayout::ALL
                .into_iter()
                .find(|l| l.to_string() == layout);
            Shape {
                class,
                layout: layout.unwrap(),
                disks: disks.parse().unwrap(),
            }
        };
        text.split_whitespace().map(one).collect()
    }

    /// A request for a mirror of one disk made a disk without redundancy, and one for a disk of two made a mirror.
    #[test]
    fn a_layout_has_the_disks_that_it_needs() {
        let asked = |layout, disks: usize| api::VdevSpec {
            layout,
            ..api::VdevSpec::mirror(vec!["/d".into(); disks])
        };
        for (layout, disks, is_right) in [
            (VdevLayout::Disk, 1, true),
            (VdevLayout::Disk, 2, false),
            (VdevLayout::Mirror, 1, false),
            (VdevLayout::Mirror, 3, true),
            (VdevLayout::Raidz2, 2, false),
            (VdevLayout::Raidz2, 3, true),
        ] {
            let checked = check_disks(&[asked(layout, disks)]);
            assert_eq!(checked.is_ok(), is_right, "{layout} of {disks}");
        }
    }

    #[test]
    fn redundancy_is_lowered_by_fewer_failures_only() {
        for (old, new, is_lower) in [
            ("", "disk:1", false),
            ("", "disk:1 disk:1", false),
            ("", "mirror:2 disk:1", true),
            ("mirror:2 mirror:2", "disk:1", true),
            ("mirror:3 mirror:2", "mirror:2", false),
            ("mirror:2", "mirror:3", false),
            ("disk:1 mirror:2", "disk:1", false),
            ("raidz2:10", "mirror:2", true),
            ("raidz2:10", "mirror:3", false),
            ("raidz2:10", "raidz1:3", true),
            ("raidz1:3", "mirror:2", false),
            ("", "raidz3:8 raidz2:8", true),
            ("", "mirror:2 log-disk:1", true),
            ("", "mirror:2 log-mirror:2", false),
            ("", "disk:1 log-disk:1", false),
            ("raidz2:10", "log-mirror:2", true),
            ("raidz2:10", "log-mirror:3", false),
            ("mirror:3 log-disk:1", "mirror:3", false),
            ("mirror:2 log-disk:1", "disk:1", true),
            ("", "disk:1 special-disk:1", false),
            ("", "mirror:2 special-disk:1", true),
            ("raidz2:10", "special-mirror:2", true),
            ("raidz2:10", "special-mirror:3", false),
            ("mirror:2 special-mirror:2", "special-disk:1", true),
            ("disk:1 special-mirror:2", "disk:1", false),
        ] {
            let reason = lower_redundancy(&shapes(old), &shapes(new));
            assert_eq!(reason.is_some(), is_lower, "{old} | {new}: {reason:?}");
        }
    }

    /// The reason says what would be lost.
    #[test]
    fn a_special_vdev_with_less_redundancy_puts_the_whole_pool_at_risk() {
        for (new, said) in [
            (
                "special-disk:1",
                "if its disk fails, the whole pool is lost",
            ),
            (
                "special-mirror:2",
                "if 2 of its disks fail, the whole pool is lost",
            ),
        ] {
            let reason = lower_redundancy(&shapes("raidz2:6"), &shapes(new)).expect(new);
            assert!(reason.contains(said), "{reason}");
        }
    }
}
