//! Churn of the volume's size beside its workload.
//!
//! **Owns** that churn. **Called by** scenarios `pool` and `full`. For the model a shrink is a write of zeroes: durable once
//! it is acknowledged; before that it happened or not. Requests beyond the end of the volume are refused.

use super::VOLUME;
use crate::model::{Model, Violation, WriteEnd};
use crate::workload::Asked;
use backend::BlockBackend;
use io::rng::Prng;
use io::time::sleep;
use pool::{Error, Pool};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Grows the volume back to all blocks of the model: an incarnation may have ended while it was smaller.
pub(super) async fn restore(pool: &Pool, model: &Rc<RefCell<Model>>) -> Result<(), Violation> {
    let Some(volume) = pool.volume(VOLUME) else {
        return Ok(());
    };
    let size = model.borrow().len() * u64::from(volume.geometry().block_size);
    let grown = pool.resize_volume(VOLUME, size).await;
    grown.map_err(|e| Violation(format!("a volume cannot grow: {e}")))
}

/// Shrinks and grows the volume. A full pool may have no space for the part of a record before the new end.
pub(super) async fn churn(
    pool: Rc<Pool>,
    model: Rc<RefCell<Model>>,
    crowded: bool,
    seed: u64,
) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    for _ in 0..1 + rng.below(6) {
        sleep(Duration::from_micros(rng.below(3000))).await;
        let volume = pool.volume(VOLUME);
        let volume = volume.ok_or_else(|| Violation("the volume is gone".into()))?;
        let block_size = u64::from(volume.geometry().block_size);
        let blocks = model.borrow().len();
        // Clones of its snapshots are written to, and need one block at least.
        let end = 1 + rng.below(blocks);
        let asked = Asked::write(&model, end..blocks, true);
        match pool.resize_volume(VOLUME, end * block_size).await {
            Err(Error::NoSpace) if crowded => asked.end_as(WriteEnd::Failed),
            other => {
                other.map_err(|e| Violation(format!("a volume cannot shrink: {e}")))?;
                asked.end_as(WriteEnd::Durable);
            }
        }
        sleep(Duration::from_micros(rng.below(1000))).await;
        restore(&pool, &model).await?;
    }
    Ok(())
}
