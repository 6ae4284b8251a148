//! The record size of new files, in the record of a dataset.
//!
//! The record of a dataset has one record size, which never changes. Of a filesystem, files without a size of their own have it
//! ([`crate::format::filesystem::record_size_of`]). A filesystem of an earlier release has no other: there it counts as the
//! dataset's own value of the property, unless it is the default.
//!
//! **Owns** this rule, and the mark that says otherwise. **Called by** the encoding of datasets. **Invariant**: one state of a
//! dataset has one encoding. `docs/format.md`, "Settings"; `docs/decisions/0135`.

use super::{Dataset, DatasetProperty, Defect, FILE_RECORD_SIZE, Setting, Settings};

impl Dataset {
    /// The own value that the record size is in a record without setting and mark.
    fn implied(&self) -> Option<Setting> {
        let is_own = self.kind.has_files() && self.record_size != FILE_RECORD_SIZE;
        is_own.then_some(Setting {
            value: self.record_size.into(),
            is_received: false,
        })
    }

    /// Adds the own value that the record size implies.
    pub(super) fn put_implied(&self, settings: &mut Settings) {
        if let Some(implied) = self.implied() {
            settings.put(DatasetProperty::Recordsize, Some(implied));
        }
    }

    /// Whether the record has the mark: it inherits the record size of new files, although its own one is not the default.
    pub(super) fn has_record_size_mark(&self) -> bool {
        self.implied().is_some() && self.settings.get(DatasetProperty::Recordsize).is_none()
    }

    /// The settings that the record has.
    pub(super) fn stored_settings(&self) -> Settings {
        let mut stored = self.settings.clone();
        let own = stored.get(DatasetProperty::Recordsize);
        if own.is_some() && own == self.implied() {
            stored.put(DatasetProperty::Recordsize, None);
        }
        stored
    }

    /// The own values of a record with these settings. Errors: a form in which no record is written.
    pub(super) fn own_settings(
        &self,
        stored: Settings,
        has_mark: bool,
    ) -> Result<Settings, Defect> {
        let refused = |field, value| Err(Defect::Field { field, value });
        let own = stored.get(DatasetProperty::Recordsize);
        if has_mark && (self.implied().is_none() || own.is_some()) {
            return refused("dataset's mark of an inherited record size", 1);
        }
        if own.is_some() && own == self.implied() {
            return refused("setting of the record size", self.record_size.into());
        }
        let mut settings = stored;
        if own.is_none() && !has_mark {
            self.put_implied(&mut settings);
        }
        Ok(settings)
    }
}
