//! Pools and volumes in the configuration.
//!
//! **Owns** `[[pool]]`, and `POOL/VOLUME` in place of a disk's name. **Called by** the check of the configuration.
//! **Invariants**: a path belongs to one pool or to one disk; pools may share spares. Only the pool itself knows its volumes.

use super::checker::{Checker, Result};
use super::disks::DiskConfig;
use super::edit::{Edit, find, is, remove, set_list, tables};
use crate::limits::{
    CACHE_DAILY_MIB, POOL_DISKS_MAX, POOL_MIB, POOLS_MAX, SPARE_AFTER_S_MAX, VOLUME_NAME_LEN_MAX,
};
use pool::format::check_name;
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;
use toml_edit::{Array, DocumentMut, Table, value};

/// `[[pool]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Its name, unique.
    pub name: String,
    /// Paths of its disks.
    pub disks: Vec<PathBuf>,
    /// Paths of its spares, which other pools may share.
    pub spares: Vec<PathBuf>,
    /// Seconds for which a disk must be away or faulted before a spare takes its place; `None` for the default.
    pub spare_after_s: Option<u64>,
    /// Paths of its cache devices.
    pub caches: Vec<PathBuf>,
    /// MiB that may be written to each cache device in 24 hours; `None` for its size.
    pub cache_daily_mib: Option<u64>,
    /// Memory for tree nodes, MiB; `None` for the pool's default.
    pub cache_mib: Option<u64>,
    /// Memory for dirty records, MiB; `None` for the pool's default.
    pub dirty_mib: Option<u64>,
    /// Memory of the record cache, MiB, 0 for none; `None` for the pool's default.
    pub record_cache_mib: Option<u64>,
    /// Memory for maps of used space, MiB; `None` for the pool's default.
    pub space_mib: Option<u64>,
    /// Open it read-only.
    pub read_only: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPool {
    name: Spanned<String>,
    disks: Spanned<Vec<Spanned<PathBuf>>>,
    spares: Option<Spanned<Vec<Spanned<PathBuf>>>>,
    spare_after_s: Option<Spanned<u64>>,
    caches: Option<Spanned<Vec<Spanned<PathBuf>>>>,
    cache_daily_mib: Option<Spanned<u64>>,
    cache_mib: Option<Spanned<u64>>,
    dirty_mib: Option<Spanned<u64>>,
    record_cache_mib: Option<Spanned<u64>>,
    space_mib: Option<Spanned<u64>>,
    #[serde(default)]
    read_only: bool,
}

/// The pool and the volume that `tank/vm1` or `tank/home/vm1` names.
pub(crate) fn split_volume(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
        .filter(|(pool, volume)| check_name(pool).is_ok() && volume_name_fits(volume))
}

/// Whether a name is valid for a volume, without its pool: parts with slashes between them.
fn volume_name_fits(name: &str) -> bool {
    name.len() <= VOLUME_NAME_LEN_MAX && name.split('/').all(|part| check_name(part).is_ok())
}

/// A change of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolEdit {
    /// A new pool.
    Add(PoolConfig),
    /// A pool was removed.
    Remove(String),
    /// New paths of a pool's disks.
    SetDisks(String, Vec<PathBuf>),
    /// New paths of a pool's spares.
    SetSpares(String, Vec<PathBuf>),
    /// New paths of a pool's cache devices.
    SetCaches(String, Vec<PathBuf>),
}

impl Edit for PoolEdit {
    fn apply(&self, document: &mut DocumentMut) {
        let document = document.as_table_mut();
        match self {
            PoolEdit::Add(pool) => {
                if let Some(pools) = tables(document, "pool") {
                    pools.push(pool_table(pool));
                }
            }
            PoolEdit::Remove(name) => remove(document, "pool", |p| is(p, "name", name)),
            PoolEdit::SetDisks(name, disks) => set_paths(document, name, "disks", disks),
            PoolEdit::SetSpares(name, spares) => set_or_remove(document, name, "spares", spares),
            PoolEdit::SetCaches(name, caches) => set_or_remove(document, name, "caches", caches),
        }
    }
}

/// Sets a list of paths of a pool, which is absent if it is empty.
fn set_or_remove(document: &mut Table, name: &str, key: &str, paths: &[PathBuf]) {
    set_paths(document, name, key, paths);
    let pool = tables(document, "pool").and_then(|t| find(t, "name", name));
    if let Some(pool) = pool.filter(|_| paths.is_empty()) {
        pool.remove(key);
    }
}

/// Sets a list of paths of a pool.
fn set_paths(document: &mut Table, name: &str, key: &str, paths: &[PathBuf]) {
    let pool = tables(document, "pool").and_then(|t| find(t, "name", name));
    if let Some(pool) = pool {
        let paths: Vec<_> = paths.iter().map(|p| p.to_string_lossy()).collect();
        let paths: Vec<&str> = paths.iter().map(|p| p.as_ref()).collect();
        set_list(pool, key, &paths);
    }
}

fn pool_table(pool: &PoolConfig) -> Table {
    let mut table = Table::new();
    let array = |paths: &[PathBuf]| {
        let texts = paths.iter().map(|p| p.to_string_lossy().into_owned());
        value(texts.collect::<Array>())
    };
    table["name"] = value(&pool.name);
    table["disks"] = array(&pool.disks);
    if !pool.spares.is_empty() {
        table["spares"] = array(&pool.spares);
    }
    if !pool.caches.is_empty() {
        table["caches"] = array(&pool.caches);
    }
    for (key, mib) in [
        ("spare_after_s", pool.spare_after_s),
        ("cache_daily_mib", pool.cache_daily_mib),
        ("cache_mib", pool.cache_mib),
        ("dirty_mib", pool.dirty_mib),
        ("record_cache_mib", pool.record_cache_mib),
        ("space_mib", pool.space_mib),
    ] {
        if let Some(mib) = mib {
            table[key] = value(mib as i64);
        }
    }
    if pool.read_only {
        table["read_only"] = value(true);
    }
    table
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
            let spares = self.pool_extras(p.spares.as_ref(), disks)?;
            let caches = self.pool_extras(p.caches.as_ref(), disks)?;
            let after = p.spare_after_s.as_ref();
            let after = after.map(|s| self.number(Some(s), 0, 0..=SPARE_AFTER_S_MAX));
            let daily = p.cache_daily_mib.as_ref();
            let daily = daily.map(|mib| self.number(Some(mib), 0, CACHE_DAILY_MIB));
            let mib = |value: &Option<Spanned<u64>>, least| {
                let value = value.as_ref();
                let range = least..=*POOL_MIB.end();
                let checked = value.map(|v| self.number(Some(v), least, range));
                checked.transpose()
            };
            pools.push(PoolConfig {
                caches,
                cache_daily_mib: daily.transpose()?,
                cache_mib: mib(&p.cache_mib, 1)?,
                dirty_mib: mib(&p.dirty_mib, 1)?,
                record_cache_mib: mib(&p.record_cache_mib, 0)?,
                space_mib: mib(&p.space_mib, 1)?,
                read_only: p.read_only,
                name: p.name.into_inner(),
                disks: paths,
                spares,
                spare_after_s: after.transpose()?,
            });
        }
        Ok(pools)
    }

    /// The paths of a pool's spares or cache devices. A spare that is in use is in the list of disks of its pool as well.
    fn pool_extras(
        &self,
        list: Option<&Spanned<Vec<Spanned<PathBuf>>>>,
        disks: &[DiskConfig],
    ) -> Result<Vec<PathBuf>> {
        let Some(list) = list else {
            return Ok(Vec::new());
        };
        let count = list.get_ref().len();
        if count > POOL_DISKS_MAX {
            let message = format!("expected at most {POOL_DISKS_MAX} paths, found {count}");
            return self.fail(list.span(), message);
        }
        self.pool_paths(list, disks, &[])
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
        self.pool_paths(list, disks, pools)
    }

    /// A list of paths, none of which is there twice, or belongs to one of `disks` or to a disk of one of `pools`.
    fn pool_paths(
        &self,
        list: &Spanned<Vec<Spanned<PathBuf>>>,
        disks: &[DiskConfig],
        pools: &[PoolConfig],
    ) -> Result<Vec<PathBuf>> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for p in list.get_ref() {
            if p.get_ref().as_os_str().is_empty() {
                return self.fail(p.span(), "expected a path");
            }
            let path = self.resolve(p.get_ref());
            if paths.contains(&path) {
                return self.fail(p.span(), format!("{} is there twice", path.display()));
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
}
