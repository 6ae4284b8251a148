//! The configuration: disks, pools, exports and hosts.
//!
//! **Owns** the TOML file, its meaning and its changes. **Called by** [`crate::server`] at the start and by live
//! changes. **Invariants**: a [`Config`] is consistent (names resolve, nothing occurs twice, every value is within
//! [`crate::limits`]); a live change is parsed and checked like a file written by hand; comments and order survive.
//! An unknown key is an error; a value that is checked later keeps its position. The sections of a protocol are in
//! the protocol's folder. Described in `docs/config.md`.

pub(crate) mod checker;
mod congestion;
mod console;
mod disks;
pub(crate) mod edit;
mod error;
pub(crate) mod exports;
mod file;
mod listening;
mod mount_flags;
mod mounts;
mod pools;
mod server;
mod wear;

pub(crate) use checker::{UUID_SPACE, random_uuid};
pub use console::{ConsoleConfig, ConsoleIdentity};
pub use disks::{DiskConfig, DiskEdit, Medium};
pub use edit::Edit;
pub use error::ConfigError;
pub use exports::ExportedAs;
pub use file::ConfigFile;
pub use listening::ListenEdit;
pub use mount_flags::{FlagsError, MountFlags};
pub use mounts::{MountConfig, MountEdit};
pub(crate) use pools::split_volume;
pub use pools::{PoolConfig, PoolEdit};
pub use server::{ROOT_CONTROL, ServerConfig, default_control};
pub use wear::WearConfig;

use crate::protocols::protocols;
use checker::Checker;
use console::RawConsole;
use disks::RawDisk;
use exports::{Exports, ProtocolConfig};
use mounts::RawMount;
use pools::RawPool;
use serde::Deserialize;
use server::RawServer;
use std::net::SocketAddr;
use std::path::Path;
use toml::Spanned;
use wear::RawWear;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawMetrics {
    listen: Option<Spanned<String>>,
}

/// Makes the file's schema and the checked configuration, each with the sections of every protocol: `[protocol]` and
/// the array of tables with its exports.
macro_rules! config {
    ($($protocol:ident $type:ident $exports:ident;)*) => {
        $(pub use crate::protocols::$protocol::config as $protocol;)*

        /// Every key of the file.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct RawConfig {
            #[serde(default)]
            server: RawServer,
            #[serde(default)]
            metrics: RawMetrics,
            console: Option<RawConsole>,
            #[serde(default)]
            wear: RawWear,
            #[serde(default)]
            disk: Vec<Spanned<RawDisk>>,
            #[serde(default)]
            pool: Vec<Spanned<RawPool>>,
            #[serde(default)]
            mount: Vec<Spanned<RawMount>>,
            $(
                #[serde(default)]
                $protocol: crate::protocols::$protocol::config::RawSection,
                #[serde(default)]
                $exports: Vec<Spanned<crate::protocols::$protocol::config::RawExport>>,
            )*
        }

        /// A checked configuration.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Config {
            /// The process.
            pub server: ServerConfig,
            /// Address of the metrics port, if any.
            pub metrics: Option<SocketAddr>,
            /// The web console, if there is one.
            pub console: Option<ConsoleConfig>,
            /// The rated endurance of disks.
            pub wear: WearConfig,
            /// The disks, in the order they are opened.
            pub disks: Vec<DiskConfig>,
            /// The pools, in the order they are opened.
            pub pools: Vec<PoolConfig>,
            /// The mounts of filesystems.
            pub mounts: Vec<MountConfig>,
            $(
                #[doc = concat!("`[", stringify!($protocol), "]` and `[[", stringify!($exports), "]]`.")]
                pub $protocol: crate::protocols::$protocol::config::Settings,
            )*
        }

        impl Config {
            /// Parses and checks the text of `path`; relative paths in it start from the file's directory.
            pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
                let raw: RawConfig = toml::from_str(text)
                    .map_err(|e| ConfigError::of_toml(path, text, &e))?;
                let c = Checker { text, path };
                let disks = c.disks(raw.disk)?;
                let pools = c.pools(raw.pool, &disks)?;
                let mounts = c.mounts(raw.mount, &pools)?;
                let mut exports = Exports::new(&disks, &pools);
                $(let $protocol = crate::protocols::$protocol::config::check(
                    &c, raw.$protocol, raw.$exports, &mut exports,
                )?;)*
                let metrics = raw.metrics.listen.map(|a| c.address(&a)).transpose()?;
                let console = c.console(raw.console)?;
                let wear = c.wear(raw.wear)?;
                Ok(Config { server: c.server(raw.server)?, metrics, console, wear, disks, pools, mounts, $($protocol,)* })
            }

            /// The part of each protocol.
            pub(crate) fn protocols(&self) -> impl Iterator<Item = &dyn ProtocolConfig> {
                [$(&self.$protocol as &dyn ProtocolConfig),*].into_iter()
            }
        }
    };
}
protocols!(config);

impl Config {
    /// The disk of that name.
    #[must_use]
    pub fn disk(&self, name: &str) -> Option<&DiskConfig> {
        self.disks.iter().find(|d| d.name == name)
    }

    /// The pool of that name.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&PoolConfig> {
        self.pools.iter().find(|p| p.name == name)
    }

    /// The mount of a filesystem.
    #[must_use]
    pub fn mount_of(&self, filesystem: &str) -> Option<&MountConfig> {
        self.mounts.iter().find(|m| m.filesystem == filesystem)
    }

    /// The disks and volumes that have an export.
    pub(crate) fn exported_disks(&self) -> impl Iterator<Item = &str> {
        self.protocols().flat_map(|p| p.exported_disks())
    }

    /// The filesystems that have an export.
    pub(crate) fn exported_filesystems(&self) -> impl Iterator<Item = &str> {
        self.protocols().flat_map(|p| p.exported_filesystems())
    }

    /// `volume` or `filesystem`, for messages about an exported dataset.
    pub(crate) fn kind_of_exported(&self, name: &str) -> &'static str {
        match self.exported_filesystems().any(|other| other == name) {
            true => "filesystem",
            false => "volume",
        }
    }

    /// The export of a disk, which has at most one, over any protocol; or the first one of a filesystem.
    #[must_use]
    pub fn exported_as(&self, disk: &str) -> Option<ExportedAs> {
        self.protocols().find_map(|p| p.exported_as(disk))
    }
}
