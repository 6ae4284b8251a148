//! Forks: detects members whose labels do not follow from each other, because the pool was used on both sides of a fork.
//!
//! **Owns** the rule that distinguishes a stale member from one that was used apart. **Called by** the scan. **Invariant**:
//! of two labels of a branch, the newer one was written by a host that relied on nothing unknown to the older one.
//! `docs/decisions/0115`.

use crate::format::{Label, LabelBranch, MemberGuid, Membership};

/// Returns the first label of a member that claims to be in although the newest label of the pool, or of its vdev, does not
/// replace its label.
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

/// The newest label of the same vdev as `other`.
fn of_vdev<'a>(labels: &[&'a Label], other: &'a Label) -> &'a Label {
    let vdev = |l: &Label| Some((l.vdev, l.vdevs.get(usize::from(l.vdev.0))?.guid));
    let same = labels.iter().filter(|l| vdev(l) == vdev(other));
    same.max_by_key(|l| l.epoch).copied().unwrap_or(other)
}

/// Whether another member of the vdev has a label of the same branch and epoch with other contents.
fn differs(labels: &[&Label], other: &Label) -> bool {
    let twin = |l: &&&Label| {
        l.vdev == other.vdev && l.epoch == other.epoch && l.history.branch == other.history.branch
    };
    labels
        .iter()
        .filter(twin)
        .any(|l| l.members != other.members)
}

fn is_in(label: &Label, guid: MemberGuid) -> bool {
    let mut members = label.members.iter();
    members.any(|s| s.guid == guid && s.membership == Membership::In)
}

/// For labels of version 1, which have no branch: whether `other` may come from another half of a split mirror than the
/// newest label of its vdev. True if it excludes a member (or has a single one), shares no member that is in with the newest
/// label, and no newer label of its own members excludes it. A label that excludes no member and needs others is not from a
/// half.
fn is_apart_by_members(labels: &[&Label], newest: &Label, other: &Label) -> bool {
    let mut same = labels.iter().filter(|l| l.vdev == other.vdev);
    let is_alone = other.members.len() == 1;
    let left_out = other.members.iter().any(|s| s.membership != Membership::In);
    let belongs = newest.members.iter().any(|s| s.guid == other.disk);
    let mut members = newest.members.iter();
    let needs_none = !members.any(|s| is_in(newest, s.guid) && is_in(other, s.guid));
    let dropped =
        same.any(|l| l.epoch > other.epoch && is_in(other, l.disk) && !is_in(l, other.disk));
    belongs && (left_out || is_alone) && needs_none && !dropped
}
