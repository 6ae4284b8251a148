//! Disks in the configuration: `[[disk]]`.

use super::checker::{Checker, Result};
use super::edit::{Edit, find, is, remove, set, tables};
use crate::limits::{DISK_NAME_LEN_MAX, DISK_SIZE_MAX, DISK_SIZE_MIN, DISKS_MAX};
use crate::size::ByteSize;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml_edit::{DocumentMut, Table, value};

/// `[[disk]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskConfig {
    /// Its name, unique.
    pub name: String,
    /// Its medium.
    pub medium: Medium,
    /// Logical block size, bytes; by default it depends on the medium.
    pub block_size: Option<u32>,
    /// Refuse writes.
    pub read_only: bool,
}

/// Medium of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// A file.
    File {
        /// Where it is.
        path: PathBuf,
        /// Create it with this size if it is missing; without it a missing file holds its exports back.
        create: Option<ByteSize>,
        /// Use the page cache.
        buffered: bool,
    },
    /// A block device.
    Block {
        /// Where it is.
        path: PathBuf,
    },
    /// RAM, lost with the process.
    Memory {
        /// Its size.
        size: ByteSize,
    },
    /// A null disk: discards writes and reads as zeroes. For measurements.
    Null {
        /// Its size.
        size: ByteSize,
    },
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum RawKind {
    File,
    Block,
    Mem,
    Null,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDisk {
    name: Spanned<String>,
    kind: Spanned<RawKind>,
    path: Option<Spanned<PathBuf>>,
    size: Option<Spanned<ByteSize>>,
    block_size: Option<Spanned<u64>>,
    #[serde(default)]
    read_only: bool,
    buffered: Option<Spanned<bool>>,
}

impl Medium {
    /// Its word in the file: `file`, `block`, `mem` or `null`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Medium::File { .. } => "file",
            Medium::Block { .. } => "block",
            Medium::Memory { .. } => "mem",
            Medium::Null { .. } => "null",
        }
    }

    /// Its path, if it has one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Medium::File { path, .. } | Medium::Block { path } => Some(path),
            Medium::Memory { .. } | Medium::Null { .. } => None,
        }
    }
}

/// A change of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskEdit {
    /// A new disk.
    Add(DiskConfig),
    /// A disk was removed.
    Remove(String),
    /// New size of a disk whose size is in the file.
    Resize(String, ByteSize),
}

impl Edit for DiskEdit {
    fn apply(&self, document: &mut DocumentMut) {
        let document = document.as_table_mut();
        match self {
            DiskEdit::Add(disk) => {
                if let Some(disks) = tables(document, "disk") {
                    disks.push(disk_table(disk));
                }
            }
            DiskEdit::Remove(name) => remove(document, "disk", |d| is(d, "name", name)),
            DiskEdit::Resize(name, size) => {
                let disk = tables(document, "disk").and_then(|t| find(t, "name", name));
                if let Some(size_now) = disk.and_then(|d| d.get_mut("size")) {
                    set(size_now, size.to_string().into());
                }
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

/// Whether `name` can name a disk.
fn valid_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=DISK_NAME_LEN_MAX).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
}

impl Checker<'_> {
    pub(super) fn disks(&self, raw: Vec<Spanned<RawDisk>>) -> Result<Vec<DiskConfig>> {
        let mut disks: Vec<DiskConfig> = Vec::new();
        let mut named = BTreeSet::new();
        for d in raw {
            let span = d.span();
            if disks.len() == DISKS_MAX {
                return self.fail(span, format!("expected at most {DISKS_MAX} disks"));
            }
            let d = d.into_inner();
            let name_span = d.name.span();
            let path_span = d.path.as_ref().map_or(span.clone(), Spanned::span);
            let disk = self.disk(d, span)?;
            if !named.insert(disk.name.clone()) {
                return self.fail(
                    name_span,
                    format!("there is another disk named {:?}", disk.name),
                );
            }
            let same = |o: &&DiskConfig| {
                o.medium.path().is_some() && o.medium.path() == disk.medium.path()
            };
            if let Some(other) = disks.iter().find(same) {
                return self.fail(
                    path_span,
                    format!("the disk {:?} has this path already", other.name),
                );
            }
            disks.push(disk);
        }
        Ok(disks)
    }

    fn disk(&self, d: RawDisk, whole: Range<usize>) -> Result<DiskConfig> {
        if !valid_name(d.name.get_ref()) {
            return self.fail(
                d.name.span(),
                format!(
                    "expected a name of letters, digits, '.', '_' and '-', at most {DISK_NAME_LEN_MAX}, found {:?}",
                    d.name.get_ref()
                ),
            );
        }
        if let Some(b) = &d.block_size
            && !matches!(b.get_ref(), 512 | 4096)
        {
            return self.fail(
                b.span(),
                format!("expected 512 or 4096, found {}", b.get_ref()),
            );
        }
        let kind = *d.kind.get_ref();
        if let Some(b) = &d.buffered
            && kind != RawKind::File
        {
            return self.fail(b.span(), "only a disk of kind \"file\" can be buffered");
        }
        let medium = match kind {
            RawKind::File => Medium::File {
                path: self.disk_path(&d, &whole)?,
                create: d.size.as_ref().map(|s| self.disk_size(&d, s)).transpose()?,
                buffered: d.buffered.as_ref().is_some_and(|b| *b.get_ref()),
            },
            RawKind::Block => {
                if let Some(s) = &d.size {
                    return self.fail(s.span(), "a block device has its own size: leave this out");
                }
                Medium::Block {
                    path: self.disk_path(&d, &whole)?,
                }
            }
            RawKind::Mem => Medium::Memory {
                size: self.ram_size(&d, &whole)?,
            },
            RawKind::Null => Medium::Null {
                size: self.ram_size(&d, &whole)?,
            },
        };
        Ok(DiskConfig {
            name: d.name.into_inner(),
            medium,
            block_size: d.block_size.map(|b| *b.get_ref() as u32),
            read_only: d.read_only,
        })
    }

    fn disk_path(&self, d: &RawDisk, whole: &Range<usize>) -> Result<PathBuf> {
        match &d.path {
            Some(p) if p.get_ref().as_os_str().is_empty() => self.fail(p.span(), "expected a path"),
            Some(p) => Ok(self.resolve(p.get_ref())),
            None => self.fail(
                whole.clone(),
                format!("the disk {:?} needs a path", d.name.get_ref()),
            ),
        }
    }

    fn ram_size(&self, d: &RawDisk, whole: &Range<usize>) -> Result<ByteSize> {
        if let Some(p) = &d.path {
            return self.fail(p.span(), "this kind of disk has no path");
        }
        match &d.size {
            Some(s) => self.disk_size(d, s),
            None => self.fail(
                whole.clone(),
                format!(
                    "the disk {:?} needs a size such as \"4G\"",
                    d.name.get_ref()
                ),
            ),
        }
    }

    fn disk_size(&self, d: &RawDisk, size: &Spanned<ByteSize>) -> Result<ByteSize> {
        let bytes = size.get_ref().0;
        if !(DISK_SIZE_MIN..=DISK_SIZE_MAX).contains(&bytes) {
            let (min, max) = (ByteSize(DISK_SIZE_MIN), ByteSize(DISK_SIZE_MAX));
            return self.fail(
                size.span(),
                format!(
                    "expected a size from {min} to {max}, found {}",
                    size.get_ref()
                ),
            );
        }
        let block = d.block_size.as_ref().map_or(512, |b| *b.get_ref());
        if !bytes.is_multiple_of(block) {
            return self.fail(
                size.span(),
                format!("expected a multiple of the block size ({block}), found {bytes}"),
            );
        }
        Ok(*size.get_ref())
    }
}
