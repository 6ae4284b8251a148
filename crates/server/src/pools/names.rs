//! Names of volumes, filesystems and snapshots in requests.

use crate::config::split_volume;
use crate::limits::VOLUME_NAME_LEN_MAX;
use crate::{Error, Result};
use std::cmp::Ordering;

/// The pool and the volume or filesystem that `tank/vm1` or `tank/home/vm1` names. Errors: `Invalid`.
pub(super) fn names(full: &str) -> Result<(&str, &str)> {
    split_volume(full).ok_or_else(|| Error::Invalid(problem(full)))
}

/// The order of names in lists: a dataset is followed by the datasets below it.
pub(super) fn by_hierarchy(a: &str, b: &str) -> Ordering {
    a.split('/').cmp(b.split('/'))
}

/// The reason why a name is no dataset's.
fn problem(full: &str) -> String {
    let volume = full.split_once('/').map_or("", |(_, volume)| volume);
    if volume.len() > VOLUME_NAME_LEN_MAX {
        return format!(
            "the name {full:?} is too long: without the pool it has {} bytes, and {VOLUME_NAME_LEN_MAX} are possible",
            volume.len()
        );
    }
    if full.contains('/') && full.split('/').any(str::is_empty) {
        return format!("the name {full:?} has an empty part before, between or after its slashes");
    }
    format!(
        "{full:?} names no volume or filesystem: take POOL/NAME, each part 1 to 255 letters, digits, '_', '-', '.' and ':', the \
         first a letter or digit"
    )
}

/// The volume or filesystem, and the snapshot, that `tank/vm1@monday` names.
pub(super) fn split(full: &str) -> Result<(&str, &str)> {
    full.split_once('@').ok_or_else(|| {
        Error::Invalid(format!(
            "{full:?} names no snapshot: take POOL/DATASET@NAME, such as tank/vm1@monday"
        ))
    })
}

/// The error for a name at which no dataset can be: the reason is the dataset above it, or below. `None` for errors of
/// other kinds.
pub(super) fn misplaced(full: &str, e: &pool::Error) -> Option<Error> {
    let above = full.rsplit_once('/').map_or(full, |(above, _)| above);
    let text = match e {
        pool::Error::NoParent => {
            format!("{full:?} would be below {above:?}, which does not exist: create that first")
        }
        pool::Error::NotAParent => {
            format!(
                "{full:?} would be below {above:?}, which is a volume: only filesystems have datasets below them"
            )
        }
        pool::Error::BelowItself => format!("{full:?}: {e}"),
        pool::Error::BadName => format!(
            "{full:?}, or a name below it, is invalid: names have at most {VOLUME_NAME_LEN_MAX} bytes without the pool"
        ),
        _ => return None,
    };
    Some(Error::Invalid(text))
}

/// Whether a dataset is the one of this name, or below it.
pub(super) fn is_at(name: &str, top: &str) -> bool {
    let rest = name.strip_prefix(top);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
