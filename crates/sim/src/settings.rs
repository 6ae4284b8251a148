//! Properties of a volume, chosen by a seed.

use crate::model::{Model, Promise, Violation};
use io::rng::Prng;
use pool::Pool;
use pool::format::{ChecksumKind, Packing, Sync};
use std::cell::RefCell;
use std::rc::Rc;

/// The properties that a volume has in turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimSettings {
    sync: Sync,
    pub(crate) compression: Packing,
    pub(crate) checksum: ChecksumKind,
}

impl SimSettings {
    pub(crate) fn new(rng: &mut Prng) -> Self {
        Self {
            sync: match rng.below(5) {
                0 => Sync::Always,
                1 => Sync::Disabled,
                _ => Sync::Standard,
            },
            compression: match rng.below(4) {
                0 => Packing::Off,
                1 => Packing::Zstd(1 + rng.below(4) as u8),
                _ => Packing::Lz4,
            },
            checksum: match rng.below(3) {
                0 => ChecksumKind::Blake3,
                _ => ChecksumKind::Xxh3,
            },
        }
    }

    /// Sets the next properties of the model's volume. If the new sync mode promises durability, earlier acknowledged writes
    /// are made durable.
    pub(crate) async fn apply(
        self,
        pool: &Pool,
        name: &str,
        model: &Rc<RefCell<Model>>,
    ) -> Result<(), Violation> {
        let changes = pool.volume(name).map(|v| v.dataset().sync) != Some(self.sync);
        let token = model.borrow_mut().begin_flush();
        let changed = pool.change_volume(name, |dataset| {
            dataset.sync = self.sync;
            dataset.compression = self.compression;
            dataset.checksum = self.checksum;
        });
        let changed = changed.await;
        changed.map_err(|e| Violation(format!("a volume cannot be set: {e}")))?;
        let mut model = model.borrow_mut();
        model.set_promise(match self.sync {
            Sync::Standard => Promise::Standard,
            Sync::Always => Promise::Always,
            Sync::Disabled => Promise::Nothing,
        });
        if changes {
            model.end_flush(&token);
        }
        Ok(())
    }
}
