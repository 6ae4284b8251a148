//! Mounts of filesystems in the configuration.
//!
//! **Owns** `[[mount]]`. **Called by** the check of the configuration. **Invariants**: a filesystem is mounted once, and a mount
//! point has one filesystem. Only the pool itself knows its filesystems.

use super::checker::{Checker, Result};
use super::edit::{Edit, is, remove, tables};
use super::mount_flags::{FlagsError, MountFlags};
use super::pools::{PoolConfig, split_volume};
use crate::limits::MOUNTS_MAX;
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;
use toml_edit::{DocumentMut, Table, value};

/// `[[mount]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountConfig {
    /// The filesystem, such as `tank/home`.
    pub filesystem: String,
    /// The mount point, an absolute path.
    pub at: PathBuf,
    /// Its options.
    pub options: MountFlags,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMount {
    filesystem: Spanned<String>,
    at: Spanned<PathBuf>,
    #[serde(default)]
    options: Option<Spanned<String>>,
}

/// A change of the mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountEdit {
    /// A new mount.
    Add(MountConfig),
    /// The mount of this filesystem was removed.
    Remove(String),
}

impl Edit for MountEdit {
    fn apply(&self, document: &mut DocumentMut) {
        let document = document.as_table_mut();
        match self {
            MountEdit::Add(mount) => {
                if let Some(mounts) = tables(document, "mount") {
                    mounts.push(mount_table(mount));
                }
            }
            MountEdit::Remove(name) => remove(document, "mount", |m| is(m, "filesystem", name)),
        }
    }
}

fn mount_table(mount: &MountConfig) -> Table {
    let mut table = Table::new();
    table["filesystem"] = value(&mount.filesystem);
    table["at"] = value(mount.at.to_string_lossy().into_owned());
    if mount.options != MountFlags::default() {
        table["options"] = value(mount.options.to_string());
    }
    table
}

impl Checker<'_> {
    pub(super) fn mounts(
        &self,
        raw: Vec<Spanned<RawMount>>,
        pools: &[PoolConfig],
    ) -> Result<Vec<MountConfig>> {
        let mut mounts: Vec<MountConfig> = Vec::new();
        for m in raw {
            if mounts.len() == MOUNTS_MAX {
                return self.fail(m.span(), format!("expected at most {MOUNTS_MAX} mounts"));
            }
            let m = m.into_inner();
            let filesystem = m.filesystem.get_ref();
            match split_volume(filesystem) {
                Some((pool, _)) if pools.iter().any(|p| p.name == pool) => {}
                Some((pool, _)) => {
                    let message = format!("there is no pool named {pool:?}");
                    return self.fail(m.filesystem.span(), message);
                }
                None => {
                    let message = "expected the name of a filesystem such as \"tank/home\"";
                    let message = format!("{message}, found {filesystem:?}");
                    return self.fail(m.filesystem.span(), message);
                }
            }
            if mounts.iter().any(|o| o.filesystem == *filesystem) {
                let message = format!("the filesystem {filesystem:?} has a mount already");
                return self.fail(m.filesystem.span(), message);
            }
            if m.at.get_ref().as_os_str().is_empty() {
                return self.fail(m.at.span(), "expected a path");
            }
            let at = self.resolve(m.at.get_ref());
            if let Some(o) = mounts.iter().find(|o| o.at == at) {
                let message = format!("{:?} is mounted there already", o.filesystem);
                return self.fail(m.at.span(), message);
            }
            let options = m
                .options
                .as_ref()
                .map_or(Ok(MountFlags::default()), |text| {
                    let parsed = text.get_ref().parse();
                    parsed.or_else(|e: FlagsError| self.fail(text.span(), e.to_string()))
                })?;
            mounts.push(MountConfig {
                filesystem: m.filesystem.into_inner(),
                at,
                options,
            });
        }
        Ok(mounts)
    }
}
