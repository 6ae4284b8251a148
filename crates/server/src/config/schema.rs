//! Schema of the configuration file: every key, with its position.
//!
//! **Invariants**: an unknown key is an error; a value that is checked later keeps its span.

use super::ConfigError;
use crate::size::ByteSize;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    #[serde(default)]
    pub(super) server: RawServer,
    #[serde(default)]
    pub(super) nvmf: RawNvmf,
    #[serde(default)]
    pub(super) iscsi: RawIscsi,
    #[serde(default)]
    pub(super) metrics: RawMetrics,
    #[serde(default)]
    pub(super) disk: Vec<Spanned<RawDisk>>,
    #[serde(default)]
    pub(super) pool: Vec<Spanned<RawPool>>,
    #[serde(default)]
    pub(super) subsystem: Vec<Spanned<RawSubsystem>>,
    #[serde(default)]
    pub(super) target: Vec<Spanned<RawTarget>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawServer {
    pub(super) shards: Option<Spanned<u64>>,
    pub(super) control: Option<Spanned<PathBuf>>,
    pub(super) state_dir: Option<PathBuf>,
    pub(super) spin_us: Option<Spanned<u64>>,
    pub(super) buffer_mib: Option<Spanned<u64>>,
    pub(super) congestion: Option<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNvmf {
    pub(super) listen: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) discovery: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) advertise: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) referrals: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) connections_max: Option<Spanned<u64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawIscsi {
    pub(super) listen: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) advertise: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) connections_max: Option<Spanned<u64>>,
    pub(super) naming_authority: Option<Spanned<String>>,
    pub(super) discovery_chap: Option<Spanned<String>>,
    pub(super) discovery_chap_mutual: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) group: Vec<Spanned<RawGroup>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGroup {
    pub(super) tag: Spanned<u64>,
    pub(super) listen: Spanned<Vec<Spanned<String>>>,
    pub(super) advertise: Option<Spanned<Vec<Spanned<String>>>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMetrics {
    pub(super) listen: Option<Spanned<String>>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawKind {
    File,
    Block,
    Mem,
    Null,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDisk {
    pub(super) name: Spanned<String>,
    pub(super) kind: Spanned<RawKind>,
    pub(super) path: Option<Spanned<PathBuf>>,
    pub(super) size: Option<Spanned<ByteSize>>,
    pub(super) block_size: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) read_only: bool,
    pub(super) buffered: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPool {
    pub(super) name: Spanned<String>,
    pub(super) disks: Spanned<Vec<Spanned<PathBuf>>>,
    pub(super) cache_mib: Option<Spanned<u64>>,
    pub(super) dirty_mib: Option<Spanned<u64>>,
    pub(super) record_cache_mib: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) read_only: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSubsystem {
    pub(super) nqn: Spanned<String>,
    pub(super) serial: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) hosts: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) namespace: Vec<Spanned<RawNamespace>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNamespace {
    pub(super) nsid: Spanned<u64>,
    pub(super) disk: Spanned<String>,
    pub(super) uuid: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTarget {
    pub(super) iqn: Spanned<String>,
    pub(super) alias: Option<Spanned<String>>,
    pub(super) portal_group: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) initiators: Vec<Spanned<String>>,
    pub(super) chap: Option<Spanned<String>>,
    pub(super) chap_mutual: Option<Spanned<String>>,
    pub(super) moved_to: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) moved_permanently: bool,
    #[serde(default)]
    pub(super) lun: Vec<Spanned<RawLun>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLun {
    pub(super) lun: Spanned<u64>,
    pub(super) disk: Spanned<String>,
    pub(super) uuid: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) read_only: bool,
    pub(super) threshold: Option<Spanned<u64>>,
}

pub(super) fn parse(text: &str, path: &Path) -> Result<RawConfig, ConfigError> {
    toml::from_str(text).map_err(|e| {
        let span = e.span().unwrap_or(0..0);
        ConfigError::at(path, text, span, e.message())
    })
}
