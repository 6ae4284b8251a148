//! Inheritance: values of properties, and the datasets that they come from.
//!
//! **Owns** the search for a value, and changes of settings. **Called by** [`Pool`]'s users, the opening, and operations that
//! give a dataset a name. **Invariants**: stored are only values that a dataset or the pool has of its own; a value in effect
//! is the nearest one on the way from the dataset up to the pool, or the default. It is searched when a dataset is created,
//! opened or renamed, and when a value above it changes. `docs/decisions/0132`.

use std::sync::Arc;

use crate::dataset::OpenDataset;
use crate::format::{
    Dataset, DatasetKind, DatasetProperty, FEATURE_RECORD_SIZES, FEATURE_SETTINGS, Setting,
    Settings, Sync, TextProperty, TextSetting, dataset_key, settings_key,
};
use crate::owner::{Pool, State};
use crate::{Error, Result};
use io::sync::lock;

/// The origin of a property's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// It was set for this dataset.
    Local,
    /// It came with a received stream.
    Received,
    /// It is a value of the dataset of this name.
    Inherited(String),
    /// It is a value of the pool.
    FromPool,
    /// It was set nowhere.
    Default,
}

/// Datasets whose clients may rely on more from now on: [`make_durable`] is to be called.
pub(super) type Heirs = Vec<Arc<OpenDataset>>;

/// The name of the dataset above; `None` if that is the pool.
pub(in crate::owner) fn parent(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(above, _)| above)
}

/// Makes acknowledged writes durable that were made under a weaker `sync`.
pub(super) async fn make_durable(heirs: Heirs) -> Result<()> {
    for heir in heirs {
        match heir.durable(true).await {
            // destroyed meanwhile
            Ok(_) | Err(Error::Closed) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// Marks those values as a dataset's own that differ from the values before a change.
pub(super) fn own_changes(before: &Dataset, dataset: &mut Dataset) {
    for property in DatasetProperty::all() {
        let value = dataset.value(property);
        if value != before.value(property) {
            dataset.settings.put_local(property, value);
        }
    }
}

impl State {
    /// The value of a property for a dataset of this name with these settings.
    fn search(&self, name: &str, own: &Settings, property: DatasetProperty) -> (u64, Source) {
        if let Some(Setting { value, is_received }) = own.get(property) {
            return match is_received {
                true => (value, Source::Received),
                false => (value, Source::Local),
            };
        }
        if !property.is_inherited() {
            return (property.default(), Source::Default);
        }
        let found = self.search_above(name, |settings| settings.get(property));
        found.map_or((property.default(), Source::Default), |(own, source)| {
            (own.value, source)
        })
    }

    /// The nearest own value of the datasets above a name and the pool.
    fn search_above<T>(
        &self,
        name: &str,
        own: impl Fn(&Settings) -> Option<T>,
    ) -> Option<(T, Source)> {
        let mut above = parent(name);
        while let Some(name) = above {
            let found = self.datasets.volume(name);
            if let Some(value) = found.and_then(|f| own(&lock(&f.state).dataset.settings)) {
                return Some((value, Source::Inherited(name.to_owned())));
            }
            above = parent(name);
        }
        own(self.pool_tree.settings()).map(|value| (value, Source::FromPool))
    }

    /// Bytes of a record of new files that a dataset of this name would inherit.
    pub(super) fn inherited_record_size(&self, name: &str) -> u64 {
        let (value, _) = self.search(name, &Settings::default(), DatasetProperty::Recordsize);
        value
    }

    /// Whether new files of a filesystem have records of another size than files without a size of their own.
    pub(in crate::owner) fn has_record_sizes(&self) -> bool {
        self.datasets.volumes().any(|dataset| {
            let settings = &dataset.settings;
            settings.has_files() && settings.file_record_size() != settings.record_size
        })
    }

    /// Puts the values that a dataset has of its own or inherits into effect.
    pub(in crate::owner) fn inherit(&self, dataset: &mut Dataset) {
        for property in DatasetProperty::all() {
            let (value, _) = self.search(&dataset.name, &dataset.settings, property);
            dataset.put_value(property, value);
        }
    }

    /// Puts the values that datasets inherit into effect: of a dataset and all below it, or of all datasets.
    pub(in crate::owner) fn inherit_again(&mut self, top: Option<&str>) -> Heirs {
        let found: Vec<_> = match top {
            Some(name) => {
                let top = self.datasets.volume(name).into_iter();
                top.chain(self.datasets.below(name)).cloned().collect()
            }
            None => self.datasets.volumes().cloned().collect(),
        };
        let mut heirs = Heirs::new();
        for volume in found {
            let before = volume.dataset();
            let mut dataset = before.clone();
            self.inherit(&mut dataset);
            if dataset == before {
                continue;
            }
            let promises_more = before.sync != dataset.sync && dataset.sync != Sync::Disabled;
            self.datasets.set(volume.id, dataset);
            volume.changed();
            if promises_more {
                heirs.push(volume);
            }
        }
        heirs
    }
}

impl Pool {
    /// Records on the labels that records may be of version 2, before one is.
    pub(super) async fn require_settings(&self) -> Result<()> {
        self.vdevs().require(FEATURE_SETTINGS).await
    }

    /// Records on the labels that files of a filesystem may have records of different sizes, before one has.
    pub(super) async fn require_record_sizes(&self) -> Result<()> {
        self.vdevs().require(FEATURE_RECORD_SIZES).await
    }

    /// Records on the labels that settings may have a property that earlier versions do not know, before one has.
    pub(super) async fn require_for(&self, property: DatasetProperty) -> Result<()> {
        match property.feature() {
            Some(feature) => self.vdevs().require(feature).await,
            None => Ok(()),
        }
    }

    /// The value of a property of a dataset, or of the pool if it is `None`, and its source. `None` if there is no such
    /// dataset.
    #[must_use]
    pub fn property(
        &self,
        dataset: Option<&str>,
        property: DatasetProperty,
    ) -> Option<(u64, Source)> {
        let state = self.owner.state.borrow();
        let Some(name) = dataset else {
            let setting = state.pool_tree.settings().get(property);
            return Some(match setting {
                Some(Setting { value, is_received }) => match is_received {
                    true => (value, Source::Received),
                    false => (value, Source::Local),
                },
                None => (property.default(), Source::Default),
            });
        };
        let settings = state.datasets.volume(name)?.dataset().settings;
        Some(state.search(name, &settings, property))
    }

    /// Sets a property of a dataset, or of the pool if it is `None`, for it and all datasets that inherit it; without a
    /// setting, it is inherited from now on. Durable when this returns. If clients may rely on more from now on, all earlier
    /// acknowledged writes are durable too.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NoProperty`], [`Error::Invalid`] for records smaller than a sector, [`Error::Device`].
    ///
    /// # Panics
    /// If the property cannot have the value.
    pub async fn set_own(
        &self,
        dataset: Option<&str>,
        property: DatasetProperty,
        setting: Option<Setting>,
    ) -> Result<()> {
        let needs_feature = match (dataset, setting) {
            (Some(name), Some(own)) => {
                let is_default = own.value == property.default();
                name.contains('/') || own.is_received || is_default || !property.is_recorded()
            }
            (None, _) if !property.is_inherited() => {
                return Err(Error::NoProperty(property.name()));
            }
            _ => true,
        };
        if needs_feature {
            self.require_settings().await?;
        }
        self.require_for(property).await?;
        if property == DatasetProperty::Recordsize {
            if let Some(Setting { value, .. }) = setting {
                let size = u32::try_from(value).expect("a possible value");
                self.owner.state.borrow().check_record_size(size)?;
            }
            self.require_record_sizes().await?;
        }
        let change = |class: Option<DatasetKind>, settings: &mut Settings| {
            if class.is_some_and(|class| !property.is_of(class)) {
                return Err(Error::NoProperty(property.name()));
            }
            settings.put(property, setting);
            Ok(())
        };
        self.change_settings(dataset, change).await
    }

    /// Changes the settings of a dataset, or of the pool if it is `None`. `change` gets the class of the dataset.
    async fn change_settings(
        &self,
        dataset: Option<&str>,
        change: impl Fn(Option<DatasetKind>, &mut Settings) -> Result<()>,
    ) -> Result<()> {
        let set = |state: &mut State| {
            let (key, value) = match dataset {
                None => {
                    let mut settings = state.pool_tree.settings().clone();
                    change(None, &mut settings)?;
                    let value = (!settings.is_empty()).then(|| settings.encode().into());
                    (settings_key(), value)
                }
                Some(name) => {
                    let found = state.datasets.volume(name).ok_or(Error::NotFound)?;
                    let mut changed = found.dataset();
                    change(Some(changed.kind), &mut changed.settings)?;
                    state.inherit(&mut changed);
                    (dataset_key(found.id), Some(changed.encode()))
                }
            };
            let ticket = state.change(Vec::new(), vec![(key, value)])?;
            if let Some(found) = dataset.and_then(|name| state.datasets.volume(name)) {
                change(None, &mut lock(&found.state).dataset.settings)?;
            }
            Ok((state.inherit_again(dataset), ticket))
        };
        let heirs = self.owner.change_durably(set).await?;
        make_durable(heirs).await
    }

    /// The text of a property of a dataset, or of the pool if it is `None`, and its source. `None` if there is no such dataset.
    #[must_use]
    pub fn text(&self, dataset: Option<&str>, property: TextProperty) -> Option<(String, Source)> {
        let state = self.owner.state.borrow();
        let own = match dataset {
            Some(name) => state.datasets.volume(name)?.dataset().settings,
            None => state.pool_tree.settings().clone(),
        };
        if let Some(TextSetting { text, is_received }) = own.text(property) {
            let source = match is_received {
                true => Source::Received,
                false => Source::Local,
            };
            return Some((text.clone(), source));
        }
        let above = |name| state.search_above(name, |s| Some(s.text(property)?.text.clone()));
        let found = dataset.and_then(above);
        Some(found.unwrap_or((property.default_text().to_owned(), Source::Default)))
    }

    /// Sets the text of a property of a dataset, or of the pool if it is `None`, for it and all datasets that inherit it; without
    /// a setting, it is inherited from now on. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NoProperty`], [`Error::Device`].
    ///
    /// # Panics
    /// If the property cannot have the text.
    pub async fn set_text(
        &self,
        dataset: Option<&str>,
        property: TextProperty,
        setting: Option<TextSetting>,
    ) -> Result<()> {
        self.require_settings().await?;
        let change = |class: Option<DatasetKind>, settings: &mut Settings| {
            if class.is_some_and(|class| !property.is_of(class)) {
                return Err(Error::NoProperty(property.name()));
            }
            settings.put_text(property, setting.clone());
            Ok(())
        };
        self.change_settings(dataset, change).await
    }
}
