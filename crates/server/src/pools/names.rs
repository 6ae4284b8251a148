//! Names of volumes and snapshots in requests.

use crate::config::split_volume;
use crate::{Error, Result};

/// The pool and the volume that `tank/vm1` names. Errors: `Invalid`.
pub(super) fn names(full: &str) -> Result<(&str, &str)> {
    split_volume(full).ok_or_else(|| {
        Error::Invalid(format!(
            "{full:?} names no volume: take POOL/VOLUME, each 1 to 255 letters, digits, '_', '-', '.' and ':', the \
             first a letter or digit"
        ))
    })
}

/// The volume and the snapshot that `tank/vm1@monday` names.
pub(super) fn split(full: &str) -> Result<(&str, &str)> {
    full.split_once('@').ok_or_else(|| {
        Error::Invalid(format!(
            "{full:?} names no snapshot: take POOL/VOLUME@NAME, such as tank/vm1@monday"
        ))
    })
}
