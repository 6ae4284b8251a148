//! Changes of a volume's size and settings.
//!
//! **Owns** these operations. **Called by** [`Pool`]'s users. **Invariants**: the bytes between the old and the new
//! end are zero on stable storage before the journal has the new size, so that no crash brings back data behind a
//! shrunk end; changes that overlap these bytes wait until the new size is durable, and are refused if they lie behind
//! it. `docs/decisions/0124`.

use super::inherit::{make_durable, own_changes};
use crate::format::{Dataset, Sync, dataset_key};
use crate::owner::{Pool, State};
use crate::{Error, Result};

impl Pool {
    /// Changes the settings of a volume: values that differ afterwards are its own. Durable when this returns. If clients may rely on more from now on, all
    /// earlier acknowledged writes are durable too.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`], [`Error::Device`].
    ///
    /// # Panics
    /// If `change` sets another size: [`Pool::resize_volume`] does that.
    pub async fn change_volume(&self, name: &str, change: impl Fn(&mut Dataset)) -> Result<()> {
        let keep_size = |dataset: &mut Dataset| {
            let size = dataset.size;
            change(dataset);
            assert_eq!(dataset.size, size, "a size is changed by resizing");
        };
        self.set_volume(name, keep_size).await
    }

    /// As [`Pool::change_volume`], for any property.
    async fn set_volume(&self, name: &str, change: impl Fn(&mut Dataset)) -> Result<()> {
        let now = self.volume(name).ok_or(Error::NotFound)?.dataset();
        let mut wanted = now.clone();
        change(&mut wanted);
        own_changes(&now, &mut wanted);
        if wanted.needs_feature() {
            self.require_settings().await?;
        }
        let set = |state: &mut State| {
            let found = state.datasets.volume(name).cloned();
            let volume = found.ok_or(Error::NotFound)?;
            let before = volume.dataset();
            let mut dataset = before.clone();
            change(&mut dataset);
            own_changes(&before, &mut dataset);
            dataset.check().map_err(Error::Invalid)?;
            let ticket = state.change(
                Vec::new(),
                vec![(dataset_key(volume.id), Some(dataset.encode()))],
            )?;
            let promises_more = before.sync != dataset.sync && dataset.sync != Sync::Disabled;
            state.datasets.set(volume.id, dataset);
            volume.changed();
            let mut heirs = state.inherit_again(Some(name));
            heirs.extend(promises_more.then_some(volume));
            Ok((heirs, ticket))
        };
        let heirs = self.owner.change_durably(set).await?;
        make_durable(heirs).await
    }

    /// Resizes a volume to `size` bytes. Durable when this returns. Data behind a smaller size is lost. Bytes that a
    /// larger size adds read as zero. A crash before the return leaves the old size, with zeroes where data was to be
    /// cut off.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`] for a size that is not a multiple of the block size, [`Error::NoSpace`]
    /// if the new end lies within a record and the pool has no space for the record's shorter contents,
    /// [`Error::Device`].
    pub async fn resize_volume(&self, name: &str, size: u64) -> Result<()> {
        let volume = self.volume(name).ok_or(Error::NotFound)?;
        let wanted = Dataset {
            size,
            ..volume.dataset()
        };
        wanted.check().map_err(Error::Invalid)?;
        let (tail, before) = loop {
            let from = size.min(volume.dataset().size);
            let mut tail = volume.claim_tail(from);
            tail.come().await;
            let before = volume.dataset().size;
            // another resize may have come first
            if before >= from {
                break (tail, before);
            }
        };
        match size < before {
            true => volume.clear(size..before).await?,
            false => volume.clear_added(before..size).await?,
        }
        let set = self.set_volume(name, |dataset| dataset.size = size).await;
        drop(tail);
        set
    }
}
