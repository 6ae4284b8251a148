//! Values of the API as values of the pool, and back.
//!
//! **Called by** changes and views of datasets. **Invariant**: each conversion is here once.

use crate::api::VolumeSync;
use crate::size::ByteSize;
use crate::{Error, Result};
use pool::format::Sync;

const RECORD_SIZES: std::ops::RangeInclusive<u64> = 4096..=1 << 20;

impl From<VolumeSync> for Sync {
    fn from(sync: VolumeSync) -> Self {
        match sync {
            VolumeSync::Standard => Sync::Standard,
            VolumeSync::Always => Sync::Always,
            VolumeSync::Disabled => Sync::Disabled,
        }
    }
}

impl From<Sync> for VolumeSync {
    fn from(sync: Sync) -> Self {
        match sync {
            Sync::Standard => VolumeSync::Standard,
            Sync::Always => VolumeSync::Always,
            Sync::Disabled => VolumeSync::Disabled,
        }
    }
}

/// The record size of a new dataset, in a pool whose disks have sectors of `sector` bytes. Errors: `Invalid`.
pub(super) fn record_size(size: ByteSize, sector: u32) -> Result<u32> {
    if !size.0.is_power_of_two() || !RECORD_SIZES.contains(&size.0) {
        return Err(Error::Invalid(format!(
            "the record size is a power of two from 4K to 1M, not {size}"
        )));
    }
    if size.0 < u64::from(sector) {
        return Err(Error::Invalid(format!(
            "the pool's disks have sectors of {}: a record has as many bytes or more",
            ByteSize(sector.into())
        )));
    }
    Ok(size.0 as u32)
}

/// A number of bytes in a request. Errors: `Invalid`.
pub(super) fn size(value: &str) -> Result<ByteSize> {
    let parsed = value.parse();
    parsed.map_err(|e| Error::Invalid(format!("{value:?} is not a size: {e}")))
}

/// A limit in a request, such as `10G` or `none`, which is 0. Errors: `Invalid`.
pub(super) fn limit(value: &str) -> Result<ByteSize> {
    match value {
        "none" => Ok(ByteSize(0)),
        value => size(value),
    }
}

/// A limit in an answer.
pub(super) fn limit_text(bytes: u64) -> String {
    match bytes {
        0 => "none".to_owned(),
        bytes => bytes.to_string(),
    }
}
