//! Volumes: creation and destruction.
//!
//! **Owns** these operations, and the properties of a new volume ([`NewVolume`]). **Called by** [`Pool`]'s users. **Invariants**:
//! all changes of an operation are in one batch of the journal; a volume with snapshots is not destroyed.

use std::sync::Arc;

use crate::dataset::{self, OpenDataset};
use crate::format::{
    Autodefrag, ChecksumKind, Dataset, DatasetKind, DatasetProperty, DatasetRoot, Defect,
    FILE_RECORD_SIZE, Key, ListId, Packing, Record, Settings, Switches, Sync, Value, dataset_key,
    root_key,
};
use crate::owner::capacity::usage::Owned;
use crate::owner::pool_tree::Changes;
use crate::owner::{Pool, State};
use crate::volume::Volume;
use crate::{Error, Result};

/// The properties of a new volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVolume {
    /// The name within the pool.
    pub name: String,
    /// Bytes that the client sees.
    pub size: u64,
    /// Bytes of a logical block: 512 or 4096.
    pub block_size: u32,
    /// Bytes of a record: a power of two from 4 KiB to 1 MiB.
    pub record_size: u32,
    /// When writes become durable.
    pub sync: Sync,
    /// How its records are compressed.
    pub compression: Packing,
    /// How its records' checksums are made.
    pub checksum: ChecksumKind,
}

impl NewVolume {
    /// A volume of `size` bytes with the default properties: blocks and records of 4 KiB, writes durable when the
    /// client asks for it, compression by LZ4, checksums by XXH3.
    #[must_use]
    pub fn new(name: impl Into<String>, size: u64) -> Self {
        Self {
            name: name.into(),
            size,
            block_size: 4096,
            record_size: 4096,
            sync: Sync::Standard,
            compression: Packing::Lz4,
            checksum: ChecksumKind::Xxh3,
        }
    }
}

/// The properties of a new dataset.
pub(super) struct NewDataset {
    pub(in crate::owner) name: String,
    pub(in crate::owner) kind: DatasetKind,
    pub(in crate::owner) size: u64,
    pub(super) block_size: u32,
    pub(in crate::owner) record_size: u32,
    pub(in crate::owner) sync: Sync,
    pub(in crate::owner) compression: Packing,
    pub(in crate::owner) checksum: ChecksumKind,
    /// Properties that it does not inherit although they have their defaults.
    pub(in crate::owner) own: Vec<DatasetProperty>,
    /// Own values of other properties.
    pub(in crate::owner) values: Vec<(DatasetProperty, u64)>,
}

impl State {
    /// Refuses records smaller than a sector: a record takes whole sectors.
    pub(super) fn check_record_size(&self, size: u32) -> Result<()> {
        if size < self.shared.vdevs.sector() {
            return Err(Error::Invalid(Defect::Field {
                field: "record size, less than a sector of the pool",
                value: size.into(),
            }));
        }
        Ok(())
    }
}

impl Pool {
    /// Creates a volume. Properties that differ from the default are its own; it inherits the others. It is durable when this
    /// returns.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::BadName`], [`Error::NoParent`], [`Error::NotAParent`], [`Error::Invalid`] with the wrong
    /// property, such as a record smaller than a sector, [`Error::Device`].
    pub async fn create_volume(&self, new: NewVolume) -> Result<Volume> {
        self.create_volume_with(new, &[]).await
    }

    /// Creates a volume. The properties in `own`, and values that differ from the defaults, are its own; it inherits the others.
    /// It is durable when this returns.
    ///
    /// # Errors
    /// As [`Pool::create_volume`].
    pub async fn create_volume_with(
        &self,
        new: NewVolume,
        own: &[DatasetProperty],
    ) -> Result<Volume> {
        let properties = NewDataset {
            name: new.name,
            kind: DatasetKind::Volume,
            size: new.size,
            block_size: new.block_size,
            record_size: new.record_size,
            sync: new.sync,
            compression: new.compression,
            checksum: new.checksum,
            own: own.to_vec(),
            values: Vec::new(),
        };
        Ok(Volume(self.create_dataset(properties, &[]).await?))
    }

    /// Creates a dataset with these values in its tree. It is durable when this returns.
    pub(super) async fn create_dataset(
        &self,
        new: NewDataset,
        values: &[(Key, Box<[u8]>)],
    ) -> Result<Arc<OpenDataset>> {
        self.prepare_name(&new.name).await?;
        if !new.own.is_empty() || !new.values.is_empty() {
            self.require_settings().await?;
        }
        let created = io::time::wall_clock_ms() * 1_000_000;
        let guid = io::rng::u64();
        let create = |state: &mut State| {
            state.check_new_name(&new.name)?;
            let mut dataset = Dataset {
                name: new.name.clone(),
                kind: new.kind,
                sync: new.sync,
                compression: new.compression,
                checksum: new.checksum,
                settings: Settings::default(),
                switches: Switches::default(),
                refquota: 0,
                autodefrag: Autodefrag::On,
                special_small_blocks: 0,
                has_fragments: false,
                has_blocks: false,
                block_size: new.block_size,
                record_size: new.record_size,
                file_record_size: match new.kind.has_files() {
                    true => new.record_size,
                    false => FILE_RECORD_SIZE,
                },
                size: new.size,
                created,
                birth: state.journal.epoch(),
                of: None,
                previous: None,
                origin: None,
                quota: 0,
                reservation: 0,
                guid,
                list: ListId(state.pool_tree.next_dataset()),
            };
            for (property, value) in &new.values {
                dataset.put_value(*property, *value);
                dataset.settings.put_local(*property, *value);
            }
            for property in DatasetProperty::all() {
                let value = dataset.value(property);
                if new.own.contains(&property) || value != property.default() {
                    dataset.settings.put_local(property, value);
                }
            }
            state.inherit(&mut dataset);
            dataset.check().map_err(Error::Invalid)?;
            state.check_record_size(dataset.record_size)?;
            let mut changes = Changes::new();
            let id = state.pool_tree.claim_id(&mut changes);
            changes.push((dataset_key(id), Some(dataset.encode())));
            let put = |(key, value): &(Key, Box<[u8]>)| {
                Record::Put(id, *key, Value::Inline(value.clone()))
            };
            let records = values.iter().map(put).collect();
            let ticket = state.change_with(Vec::new(), changes, records)?;
            let mut inner = dataset::State::new(dataset, DatasetRoot::empty());
            for (key, value) in values {
                inner.layers.put(*key, Value::Inline(value.clone()));
            }
            let opened = OpenDataset::new(id, self.owner.shared.clone(), inner);
            state.datasets.insert(opened.clone());
            if !values.is_empty() {
                state.datasets.mark_changed(id);
            }
            state.open_account(&opened, Owned::default());
            Ok((opened, ticket))
        };
        self.owner.change_durably(create).await
    }

    /// Destroys a volume. Its name is free at once; checkpoints free its space.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Busy`] if it has snapshots or datasets below it, [`Error::Device`].
    pub async fn destroy_volume(&self, name: &str) -> Result<()> {
        let destroy = |state: &mut State| {
            let found = state.datasets.volume(name).cloned();
            let volume = found.ok_or(Error::NotFound)?;
            let id = volume.id;
            let newest = state.datasets.newest_snapshot(id);
            let has_children = state.datasets.below(name).next().is_some();
            if newest.is_some() || has_children || state.pending_snapshots.has(id) {
                return Err(Error::Busy);
            }
            let changes = vec![(dataset_key(id), None), (root_key(id), None)];
            let ticket = state.change(Vec::new(), changes)?;
            volume.end();
            state.begin_destroy(&volume);
            Ok(((), ticket))
        };
        self.owner.change_durably(destroy).await
    }
}
