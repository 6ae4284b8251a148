//! Live changes of the configuration, made in its text.
//!
//! **Called by** [`super::ConfigFile`]. **Invariants**: the rest of the text (comments, order, spelling) stays. An
//! edit does not check: the edited text is parsed and checked as a whole.

use super::edit_target::set_chap;
use super::{ChapNames, DiskConfig, HostList, Medium, NamespaceConfig, PoolConfig, TargetEdit};
use crate::size::ByteSize;
use iscsi::wire::IscsiName;
use nvmf::wire::nqn::Nqn;
use std::path::PathBuf;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, RawString, Table, value};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// A new disk.
    AddDisk(DiskConfig),
    /// A disk was removed.
    RemoveDisk(String),
    /// New size of a disk whose size is in the file.
    ResizeDisk(String, ByteSize),
    /// A new pool.
    AddPool(PoolConfig),
    /// A pool was removed.
    RemovePool(String),
    /// New paths of a pool's disks.
    SetPoolDisks(String, Vec<PathBuf>),
    /// A new subsystem without namespaces.
    AddSubsystem(Nqn),
    /// A subsystem was removed with its namespaces.
    RemoveSubsystem(Nqn),
    /// A new namespace.
    AddNamespace(Nqn, NamespaceConfig),
    /// A namespace was removed.
    RemoveNamespace(Nqn, u32),
    /// New host list of a subsystem.
    SetHosts(Nqn, HostList),
    /// A change of a target.
    Target(IscsiName, TargetEdit),
    /// CHAP names of discovery sessions, if any.
    SetDiscoveryChap(Option<ChapNames>),
}

impl Edit {
    pub(super) fn apply(&self, document: &mut DocumentMut) {
        match self {
            Edit::AddDisk(disk) => {
                if let Some(disks) = tables(document.as_table_mut(), "disk") {
                    disks.push(disk_table(disk));
                }
            }
            Edit::RemoveDisk(name) => {
                remove(document.as_table_mut(), "disk", |d| is(d, "name", name))
            }
            Edit::ResizeDisk(name, size) => {
                let disk =
                    tables(document.as_table_mut(), "disk").and_then(|t| find(t, "name", name));
                if let Some(size_now) = disk.and_then(|d| d.get_mut("size")) {
                    set(size_now, size.to_string().into());
                }
            }
            Edit::AddPool(pool) => {
                if let Some(pools) = tables(document.as_table_mut(), "pool") {
                    pools.push(pool_table(pool));
                }
            }
            Edit::RemovePool(name) => {
                remove(document.as_table_mut(), "pool", |p| is(p, "name", name));
            }
            Edit::SetPoolDisks(name, disks) => {
                let pool =
                    tables(document.as_table_mut(), "pool").and_then(|t| find(t, "name", name));
                if let Some(pool) = pool {
                    set_disks(pool, disks);
                }
            }
            Edit::AddSubsystem(nqn) => {
                if let Some(subsystems) = tables(document.as_table_mut(), "subsystem") {
                    let mut table = Table::new();
                    table["nqn"] = value(nqn.as_str());
                    table["hosts"] = value(Array::new());
                    subsystems.push(table);
                }
            }
            Edit::RemoveSubsystem(nqn) => {
                remove(document.as_table_mut(), "subsystem", |s| {
                    is(s, "nqn", nqn.as_str())
                });
            }
            Edit::AddNamespace(nqn, namespace) => {
                if let Some(namespaces) =
                    subsystem(document, nqn).and_then(|s| tables(s, "namespace"))
                {
                    let mut table = Table::new();
                    table["nsid"] = value(i64::from(namespace.nsid));
                    table["disk"] = value(&namespace.disk);
                    table["uuid"] = value(namespace.uuid.to_string());
                    namespaces.push(table);
                }
            }
            Edit::RemoveNamespace(nqn, nsid) => {
                if let Some(s) = subsystem(document, nqn) {
                    let same = |n: &Table| {
                        n.get("nsid").and_then(Item::as_integer) == Some(i64::from(*nsid))
                    };
                    remove(s, "namespace", same);
                }
            }
            Edit::SetHosts(nqn, hosts) => {
                if let Some(s) = subsystem(document, nqn) {
                    set_hosts(s, hosts);
                }
            }
            Edit::Target(iqn, edit) => edit.apply(document, iqn),
            Edit::SetDiscoveryChap(names) => {
                let iscsi = document.entry("iscsi").or_insert(Item::Table(Table::new()));
                if let Some(iscsi) = iscsi.as_table_mut() {
                    let keys = ["discovery_chap", "discovery_chap_mutual"];
                    set_chap(iscsi, keys, names.as_ref());
                }
            }
        }
    }
}

/// The array of tables under `key`, created if it does not exist; an array of inline tables becomes one.
pub(super) fn tables<'a>(parent: &'a mut Table, key: &str) -> Option<&'a mut ArrayOfTables> {
    let item = parent
        .entry(key)
        .or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    if !item.is_array_of_tables() {
        let old = std::mem::take(item);
        *item = match old.into_array_of_tables() {
            Ok(tables) => Item::ArrayOfTables(tables),
            Err(other) => other,
        };
    }
    item.as_array_of_tables_mut()
}

fn is(table: &Table, key: &str, text: &str) -> bool {
    table.get(key).and_then(Item::as_str) == Some(text)
}

fn find<'a>(tables: &'a mut ArrayOfTables, key: &str, text: &str) -> Option<&'a mut Table> {
    tables.iter_mut().find(|t| is(t, key, text))
}

fn subsystem<'a>(document: &'a mut DocumentMut, nqn: &Nqn) -> Option<&'a mut Table> {
    tables(document.as_table_mut(), "subsystem").and_then(|t| find(t, "nqn", nqn.as_str()))
}

pub(super) fn remove(parent: &mut Table, key: &str, same: impl Fn(&Table) -> bool) {
    if let Some(tables) = tables(parent, key) {
        tables.retain(|t| !same(t));
        if tables.is_empty() {
            parent.remove(key);
        }
    }
}

/// Replaces a value and keeps the comment behind it.
fn set(item: &mut Item, new: toml_edit::Value) {
    let decor = item.as_value().map(|v| v.decor().clone());
    *item = Item::Value(new);
    if let (Some(v), Some(d)) = (item.as_value_mut(), decor) {
        *v.decor_mut() = d;
    }
}

fn set_disks(pool: &mut Table, disks: &[PathBuf]) {
    let wanted: Vec<_> = disks.iter().map(|p| p.to_string_lossy()).collect();
    let wanted: Vec<&str> = wanted.iter().map(|p| p.as_ref()).collect();
    let item = pool.entry("disks").or_insert(value(Array::new()));
    if let Some(list) = item.as_array_mut() {
        set_entries(list, &wanted);
    }
}

fn set_hosts(subsystem: &mut Table, hosts: &HostList) {
    let wanted: Vec<&str> = match hosts {
        HostList::Any => vec!["any"],
        HostList::Listed(names) => names.iter().map(Nqn::as_str).collect(),
    };
    let item = subsystem.entry("hosts").or_insert(value(Array::new()));
    let Some(list) = item.as_array_mut() else {
        return;
    };
    set_entries(list, &wanted);
}

/// Changes an array entry by entry, so that the comments of remaining entries stay.
pub(super) fn set_entries(list: &mut Array, wanted: &[&str]) {
    for at in (0..list.len()).rev() {
        if !list
            .get(at)
            .and_then(toml_edit::Value::as_str)
            .is_some_and(|h| wanted.contains(&h))
        {
            remove_entry(list, at);
        }
    }
    for h in wanted {
        if !list.iter().any(|v| v.as_str() == Some(h)) {
            list.push(*h);
        }
    }
}

/// Removes an entry of an array and the comment behind it, which the text stores in front of the next entry.
fn remove_entry(list: &mut Array, at: usize) {
    let removed = list.remove(at);
    let before = removed
        .decor()
        .prefix()
        .and_then(RawString::as_str)
        .unwrap_or_default();
    let comment_before = before.split('\n').next().unwrap_or_default();
    let shift = |next: &str| {
        next.split_once('\n')
            .map(|(_, rest)| format!("{comment_before}\n{rest}"))
    };
    match list.get_mut(at).map(toml_edit::Value::decor_mut) {
        Some(decor) => {
            if let Some(prefix) = decor.prefix().and_then(RawString::as_str).and_then(shift) {
                decor.set_prefix(prefix);
            }
        }
        None => {
            if let Some(trailing) = list.trailing().as_str().and_then(shift) {
                list.set_trailing(trailing);
            }
        }
    }
}

fn disk_table(disk: &DiskConfig) -> Table {
    let mut table = Table::new();
    table["name"] = value(&disk.name);
    table["kind"] = value(disk.medium.kind());
    if let Some(path) = disk.medium.path() {
        table["path"] = value(path.to_string_lossy().into_owned());
    }
    match &disk.medium {
        Medium::Memory { size } | Medium::Null { size } => table["size"] = value(size.to_string()),
        Medium::File {
            create, buffered, ..
        } => {
            if let Some(size) = create {
                table["size"] = value(size.to_string());
            }
            if *buffered {
                table["buffered"] = value(true);
            }
        }
        Medium::Block { .. } => {}
    }
    if let Some(block_size) = disk.block_size {
        table["block_size"] = value(i64::from(block_size));
    }
    if disk.read_only {
        table["read_only"] = value(true);
    }
    table
}

fn pool_table(pool: &PoolConfig) -> Table {
    let mut table = Table::new();
    let paths = pool.disks.iter().map(|p| p.to_string_lossy().into_owned());
    table["name"] = value(&pool.name);
    table["disks"] = value(paths.collect::<Array>());
    for (key, mib) in [
        ("cache_mib", pool.cache_mib),
        ("dirty_mib", pool.dirty_mib),
        ("record_cache_mib", pool.record_cache_mib),
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
