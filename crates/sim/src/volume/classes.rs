//! The size of the records that special vdevs take.
//!
//! **Called by** scenarios `pool` and `aimed`. **Invariant**: a pool has a normal vdev with room for everything, so that no request depends
//! on the special one.

use crate::model::Violation;
use io::rng::Prng;
use pool::Pool;
use pool::format::{DatasetProperty, RECORD_SIZE_MIN, Setting};

/// Sets the size of the records that special vdevs take: none, or those up to a power of two.
pub(super) async fn set_threshold(pool: &Pool, rng: &mut Prng) -> Result<(), Violation> {
    let value = match rng.below(4) {
        0 => 0,
        _ => u64::from(RECORD_SIZE_MIN) << rng.below(9),
    };
    let setting = Setting {
        value,
        is_received: false,
    };
    let property = DatasetProperty::SpecialSmallBlocks;
    match pool.set_own(None, property, Some(setting)).await {
        Err(_) if pool.trouble().is_some() => Ok(()),
        set => set.map_err(|e| Violation(format!("the size of small records is not set: {e}"))),
    }
}
