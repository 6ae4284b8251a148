//! The process in the configuration: `[server]`.

use super::checker::{Checker, Result};
use crate::limits::{
    BUFFER_MIB, DISK_WAIT_S_MAX, SHARDS_MAX, SOCKET_PATH_LEN_MAX, SPIN_US_MAX, WATCHDOG_S_MAX,
    WATCHDOG_S_MIN,
};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// Default of `server.buffer_mib`.
const BUFFER_MIB_DEFAULT: u64 = 64;
/// Default of `server.spin_us`.
const SPIN_US_DEFAULT: u64 = 50;
/// Default of `server.disk_directories`: names of disks that stay the same after a restart. Source: udev's 60-persistent-storage.rules.
const DISK_DIRECTORY: &str = "/dev/disk/by-id";

/// Default of `server.watchdog_s`.
const WATCHDOG_S_DEFAULT: u64 = 60;
/// Default of `server.disk_wait_s`.
const DISK_WAIT_S_DEFAULT: u64 = 60;

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Threads that serve; 0 means one per processor.
    pub shards: usize,
    /// The control socket.
    pub control: PathBuf,
    /// Directory of reservations and other stored state.
    pub state_dir: PathBuf,
    /// Directories in which disks of pools are looked for that are not at their configured paths.
    pub disk_directories: Vec<PathBuf>,
    /// Longest adaptive polling of a shard.
    pub spin: Duration,
    /// Limit of the buffer pool of each shard, bytes.
    pub buffer_limit: usize,
    /// Congestion control of all connections; `None` leaves it to the system.
    pub congestion: Option<String>,
    /// Time without progress of a shard after which the process ends; `None` for no watchdog.
    pub watchdog: Option<Duration>,
    /// Time from the start for which hosts wait for disks that are missing.
    pub disk_wait: Duration,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawServer {
    shards: Option<Spanned<u64>>,
    control: Option<Spanned<PathBuf>>,
    state_dir: Option<PathBuf>,
    disk_directories: Option<Vec<PathBuf>>,
    spin_us: Option<Spanned<u64>>,
    buffer_mib: Option<Spanned<u64>>,
    congestion: Option<Spanned<String>>,
    watchdog_s: Option<Spanned<u64>>,
    disk_wait_s: Option<Spanned<u64>>,
}

/// The default control socket of root's server.
pub const ROOT_CONTROL: &str = "/run/wirepool/control.sock";

/// The default control socket: [`ROOT_CONTROL`] for root, else in `$XDG_RUNTIME_DIR`.
#[must_use]
pub fn default_control() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        Some(dir) if !io::linux::is_root() => PathBuf::from(dir).join("wirepool/control.sock"),
        _ => PathBuf::from(ROOT_CONTROL),
    }
}

impl Checker<'_> {
    pub(super) fn server(&self, raw: RawServer) -> Result<ServerConfig> {
        let shards = self.number(raw.shards.as_ref(), 0, 0..=SHARDS_MAX as u64)?;
        let buffer_mib = self.number(raw.buffer_mib.as_ref(), BUFFER_MIB_DEFAULT, BUFFER_MIB)?;
        let spin_us = self.number(raw.spin_us.as_ref(), SPIN_US_DEFAULT, 0..=SPIN_US_MAX)?;
        let control = match raw.control {
            Some(c) => {
                let path = self.resolve(c.get_ref());
                if path.as_os_str().len() > SOCKET_PATH_LEN_MAX {
                    return self.fail(
                        c.span(),
                        format!("expected a path of at most {SOCKET_PATH_LEN_MAX} bytes"),
                    );
                }
                path
            }
            None => default_control(),
        };
        let state_dir = match raw.state_dir {
            Some(d) => self.resolve(&d),
            None => self.path.with_extension("state"),
        };
        let disk_directories = match raw.disk_directories {
            Some(all) => all.iter().map(|d| self.resolve(d)).collect(),
            None => vec![PathBuf::from(DISK_DIRECTORY)],
        };
        Ok(ServerConfig {
            shards: shards as usize,
            control,
            state_dir,
            disk_directories,
            spin: Duration::from_micros(spin_us),
            buffer_limit: (buffer_mib << 20) as usize,
            congestion: self.congestion(raw.congestion.as_ref())?,
            watchdog: self.watchdog(raw.watchdog_s.as_ref())?,
            disk_wait: self.disk_wait(raw.disk_wait_s.as_ref())?,
        })
    }

    fn disk_wait(&self, raw: Option<&Spanned<u64>>) -> Result<Duration> {
        let seconds = self.number(raw, DISK_WAIT_S_DEFAULT, 0..=DISK_WAIT_S_MAX)?;
        Ok(Duration::from_secs(seconds))
    }

    fn watchdog(&self, raw: Option<&Spanned<u64>>) -> Result<Option<Duration>> {
        if raw.is_some_and(|s| *s.get_ref() == 0) {
            return Ok(None);
        }
        let seconds = self.number(raw, WATCHDOG_S_DEFAULT, WATCHDOG_S_MIN..=WATCHDOG_S_MAX)?;
        Ok(Some(Duration::from_secs(seconds)))
    }
}
