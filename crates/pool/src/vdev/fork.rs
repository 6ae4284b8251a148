//! Labels of one pool that do not follow from each other: the pool was used on both sides of a fork.
//!
//! **Owns** the rule that tells a stale member from one that was used apart. **Called by** the scan. **Invariant**: of two
//! labels of a branch, the newer one was written by a host that relied on nothing that the older one does not know of.
//! `docs/decisions/0115`.

use crate::format::{Label, LabelBranch, Membership, SideGuid};

/// The first label that claims to be in and that the newest label of all, or that of its vdev, does not replace.
pub(crate) fn first_apart<'a>(labels: &[&'a Label], newest: &Label) -> Option<&'a Label> {
    let claims = |l: &&&Label| l.membership() == Some(Membership::In);
    let found = labels.iter().filter(claims).find(|other| {
        let (branch, epoch) = (other.history.branch, other.epoch);
        let of_vdev = of_vdev(labels, other);
        !newest.history.replaces(newest.epoch, branch, epoch)
            || !of_vdev
                .history
                .replaces_on_vdev(of_vdev.epoch, branch, epoch)
            || differs(labels, other)
            || branch == LabelBranch(0) && is_apart_by_members(labels, of_vdev, other)
    });
    found.copied()
}

/// The newest label of a label's vdev.
fn of_vdev<'a>(labels: &[&'a Label], other: &'a Label) -> &'a Label {
    let vdev = |l: &Label| Some((l.vdev, l.vdevs.get(usize::from(l.vdev.0))?.guid));
    let same = labels.iter().filter(|l| vdev(l) == vdev(other));
    same.max_by_key(|l| l.epoch).copied().unwrap_or(other)
}

/// Whether another member of the vdev has a label of the same branch and epoch that says something else.
fn differs(labels: &[&Label], other: &Label) -> bool {
    let twin = |l: &&&Label| {
        l.vdev == other.vdev && l.epoch == other.epoch && l.history.branch == other.history.branch
    };
    labels.iter().filter(twin).any(|l| l.sides != other.sides)
}

fn is_in(label: &Label, guid: SideGuid) -> bool {
    let mut sides = label.sides.iter();
    sides.any(|s| s.guid == guid && s.membership == Membership::In)
}

/// Whether a label of version 1, which has no branch, may be of another half than the newest label of its vdev: it left out
/// members, needs none that the newest one says is in, and none that it needs has dropped it. A label that left out no
/// member and needs others was not written by a half.
fn is_apart_by_members(labels: &[&Label], newest: &Label, other: &Label) -> bool {
    let mut same = labels.iter().filter(|l| l.vdev == other.vdev);
    let is_alone = other.sides.len() == 1;
    let left_out = other.sides.iter().any(|s| s.membership != Membership::In);
    let belongs = newest.sides.iter().any(|s| s.guid == other.disk);
    let mut sides = newest.sides.iter();
    let needs_none = !sides.any(|s| is_in(newest, s.guid) && is_in(other, s.guid));
    let dropped =
        same.any(|l| l.epoch > other.epoch && is_in(other, l.disk) && !is_in(l, other.disk));
    belongs && (left_out || is_alone) && needs_none && !dropped
}
