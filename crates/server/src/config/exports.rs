//! Exports in the configuration, of any protocol.
//!
//! **Called by** the check of each protocol's section, and by the server. **Invariants**: an export names a disk of the
//! configuration, or a volume or filesystem of one of its pools; a disk has at most one export, a filesystem at most one over
//! each protocol.

use super::checker::{Checker, Result};
use super::disks::DiskConfig;
use super::pools::{PoolConfig, split_volume};
use io::net::Endpoint;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use toml::Spanned;

/// The export of a disk or filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedAs {
    /// Name of the subsystem or target, and the number in it, such as `nqn.a namespace 1`; or the path of an export.
    pub name: String,
    /// The command that removes the export.
    pub removal: String,
}

impl fmt::Display for ExportedAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A protocol's part of the configuration.
pub(crate) trait ProtocolConfig {
    /// The connections that it allows; 0 if the protocol is off.
    fn connections(&self) -> usize;

    /// Descriptors of connections beyond the limit, until they are refused.
    fn refused_connections_max(&self) -> usize {
        0
    }

    /// Names of the protocol's directories in the state directory.
    fn directories(&self) -> &'static [&'static str] {
        &[]
    }

    /// The addresses that it listens on over TCP, each with its setting.
    fn listening(&self) -> Vec<(&'static str, SocketAddr)>;

    /// The addresses that it listens on over RDMA, each with its setting.
    fn listening_rdma(&self) -> Vec<(&'static str, SocketAddr)> {
        Vec::new()
    }

    /// Most descriptors of one connection.
    fn descriptors_of_connection(&self) -> usize {
        1
    }

    /// The addresses and names that discovery tells instead of the listening addresses, or beside them.
    fn told(&self) -> Vec<Endpoint> {
        Vec::new()
    }

    /// The reasons why files of the configuration cannot be used. Blocks.
    fn unusable_files(&self) -> Vec<String> {
        Vec::new()
    }

    /// The disks and volumes that the protocol exports.
    fn exported_disks(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The filesystems that the protocol exports.
    fn exported_filesystems(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The export of a disk, volume or filesystem over this protocol.
    fn exported_as(&self, disk: &str) -> Option<ExportedAs>;
}

/// The disks and pools of the configuration, and the exports that were checked.
pub(crate) struct Exports<'a> {
    disks: BTreeSet<&'a str>,
    pools: &'a [PoolConfig],
    exported: BTreeMap<String, ExportedAs>,
}

impl<'a> Exports<'a> {
    pub(super) fn new(disks: &'a [DiskConfig], pools: &'a [PoolConfig]) -> Exports<'a> {
        Exports {
            disks: disks.iter().map(|d| d.name.as_str()).collect(),
            pools,
            exported: BTreeMap::new(),
        }
    }

    /// Checks that a disk, or a volume's pool, exists.
    pub(crate) fn check_disk(&self, c: &Checker<'_>, name: &Spanned<String>) -> Result<()> {
        let disk = name.get_ref();
        if disk.contains('/') {
            return self.check_volume(c, name);
        }
        if self.disks.contains(disk.as_str()) {
            return Ok(());
        }
        let known: Vec<&str> = self.disks.iter().copied().collect();
        let known = match known.is_empty() {
            true => "there are none".into(),
            false => format!("there are {}", known.join(", ")),
        };
        c.fail(
            name.span(),
            format!("expected the name of a disk ({known}), found {disk:?}"),
        )
    }

    /// Checks that a name with a slash is valid for a volume of a configured pool.
    fn check_volume(&self, c: &Checker<'_>, name: &Spanned<String>) -> Result<()> {
        let text = name.get_ref();
        match split_volume(text) {
            Some((pool, _)) if self.pools.iter().any(|p| p.name == pool) => Ok(()),
            Some((pool, _)) => c.fail(name.span(), format!("there is no pool named {pool:?}")),
            None => {
                let message = "expected the name of a disk, or of a volume such as \"tank/vm1\"";
                c.fail(name.span(), format!("{message}, found {text:?}"))
            }
        }
    }

    /// Checks that a name is valid for a filesystem of a configured pool.
    pub(crate) fn check_filesystem(&self, c: &Checker<'_>, name: &Spanned<String>) -> Result<()> {
        c.filesystem(name, self.pools)
    }

    /// Adds an export. Errors if the disk has an export already.
    pub(crate) fn add(
        &mut self,
        c: &Checker<'_>,
        disk: &Spanned<String>,
        export: ExportedAs,
    ) -> Result<()> {
        let name = disk.get_ref();
        match self.exported.insert(name.clone(), export) {
            None => Ok(()),
            Some(other) => c.fail(
                disk.span(),
                format!("the disk {name:?} is exported as {other} already"),
            ),
        }
    }
}
