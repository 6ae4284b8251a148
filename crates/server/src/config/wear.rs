//! Rated endurance of disks in the configuration: `[wear]`.

use super::checker::{Checker, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Bytes of a terabyte, as vendors count.
const TERABYTE: u64 = 1_000_000_000_000;
/// The most terabytes.
const TERABYTES_MAX: u64 = 10_000_000;

/// `[wear]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WearConfig {
    /// Terabytes that may be written in a disk's life, by the disk's path.
    rated_tbw: BTreeMap<PathBuf, u64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWear {
    #[serde(default)]
    rated_tbw: BTreeMap<PathBuf, Spanned<u64>>,
}

impl WearConfig {
    /// Bytes that may be written to a disk in its life, if that is configured.
    #[must_use]
    pub fn rated_bytes(&self, path: &Path) -> Option<u64> {
        self.rated_tbw.get(path).map(|tb| tb * TERABYTE)
    }
}

impl Checker<'_> {
    pub(super) fn wear(&self, raw: RawWear) -> Result<WearConfig> {
        let mut rated_tbw = BTreeMap::new();
        for (path, terabytes) in raw.rated_tbw {
            let tb = self.number(Some(&terabytes), 0, 1..=TERABYTES_MAX)?;
            let path = self.resolve(&path);
            if rated_tbw.contains_key(&path) {
                let message = format!("{} is there twice", path.display());
                return self.fail(terabytes.span(), message);
            }
            rated_tbw.insert(path, tb);
        }
        Ok(WearConfig { rated_tbw })
    }
}
