//! Pools and volumes in the configuration.
//!
//! **Owns** `[[pool]]`, and `POOL/VOLUME` in place of a disk's name. **Called by** the check of the configuration.
//! **Invariants**: a path belongs to one pool or to one disk. Only the pool itself knows its volumes.

use super::check::Checker;
use super::schema::RawPool;
use super::{ConfigError, DiskConfig, PoolConfig};
use crate::limits::{POOL_DISKS_MAX, POOL_MIB, POOLS_MAX, VOLUME_NAME_LEN_MAX};
use pool::format::check_name;
use std::path::PathBuf;
use toml::Spanned;

type Result<T> = std::result::Result<T, ConfigError>;

/// The pool and the volume that `tank/vm1` names.
pub(crate) fn split_volume(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
        .filter(|(pool, volume)| check_name(pool).is_ok() && volume_name_fits(volume))
}

/// Whether a name is valid for a volume, without its pool.
fn volume_name_fits(name: &str) -> bool {
    name.len() <= VOLUME_NAME_LEN_MAX && check_name(name).is_ok()
}

impl Checker<'_> {
    pub(super) fn pools(
        &self,
        raw: Vec<Spanned<RawPool>>,
        disks: &[DiskConfig],
    ) -> Result<Vec<PoolConfig>> {
        let mut pools: Vec<PoolConfig> = Vec::new();
        for p in raw {
            if pools.len() == POOLS_MAX {
                return self.fail(p.span(), format!("expected at most {POOLS_MAX} pools"));
            }
            let p = p.into_inner();
            let name = p.name.get_ref();
            if check_name(name).is_err() {
                let message = "expected 1 to 255 letters, digits, '_', '-', '.' and ':', the first a letter or digit";
                return self.fail(p.name.span(), format!("{message}, found {name:?}"));
            }
            if pools.iter().any(|o| o.name == *name) {
                return self.fail(
                    p.name.span(),
                    format!("there is another pool named {name:?}"),
                );
            }
            let paths = self.pool_disks(&p.disks, disks, &pools)?;
            let mib = |value: &Option<Spanned<u64>>, least| {
                let value = value.as_ref();
                let checked = value.map(|v| self.number(Some(v), least, POOL_MIB));
                checked.transpose()
            };
            pools.push(PoolConfig {
                cache_mib: mib(&p.cache_mib, 1)?,
                dirty_mib: mib(&p.dirty_mib, 1)?,
                record_cache_mib: mib(&p.record_cache_mib, 0)?,
                read_only: p.read_only,
                name: p.name.into_inner(),
                disks: paths,
            });
        }
        Ok(pools)
    }

    fn pool_disks(
        &self,
        list: &Spanned<Vec<Spanned<PathBuf>>>,
        disks: &[DiskConfig],
        pools: &[PoolConfig],
    ) -> Result<Vec<PathBuf>> {
        let count = list.get_ref().len();
        if !(1..=POOL_DISKS_MAX).contains(&count) {
            let message = format!("expected 1 to {POOL_DISKS_MAX} paths, found {count}");
            return self.fail(list.span(), message);
        }
        let mut paths: Vec<PathBuf> = Vec::new();
        for p in list.get_ref() {
            if p.get_ref().as_os_str().is_empty() {
                return self.fail(p.span(), "expected a path");
            }
            let path = self.resolve(p.get_ref());
            if paths.contains(&path) {
                return self.fail(p.span(), "this path is there twice");
            }
            if let Some(d) = disks.iter().find(|d| d.medium.path() == Some(&path)) {
                return self.fail(
                    p.span(),
                    format!("the disk {:?} has this path already", d.name),
                );
            }
            if let Some(o) = pools.iter().find(|o| o.disks.contains(&path)) {
                return self.fail(
                    p.span(),
                    format!("the pool {:?} has this path already", o.name),
                );
            }
            paths.push(path);
        }
        Ok(paths)
    }

    /// Checks that a name with a slash is valid for a volume of a configured pool.
    pub(super) fn volume(&self, name: &Spanned<String>, pools: &[PoolConfig]) -> Result<()> {
        let text = name.get_ref();
        match split_volume(text) {
            Some((pool, _)) if pools.iter().any(|p| p.name == pool) => Ok(()),
            Some((pool, _)) => self.fail(name.span(), format!("there is no pool named {pool:?}")),
            None => {
                let message = "expected the name of a disk, or of a volume such as \"tank/vm1\"";
                self.fail(name.span(), format!("{message}, found {text:?}"))
            }
        }
    }
}
