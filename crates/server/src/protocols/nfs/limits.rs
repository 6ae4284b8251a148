//! The named limits of exports over NFS.

use std::time::Duration;

/// Most exports in one configuration.
pub(super) const EXPORTS_MAX: usize = 1024;
/// Most client rules of one export.
pub(super) const CLIENTS_MAX: usize = 1024;
/// Most filesystems that were ever exported: each has a number.
pub(super) const NUMBERS_MAX: usize = 1 << 16;
/// Most addresses that the rules of one export stand for.
pub(super) const ADDRESSES_MAX: usize = 1 << 14;
/// Depth to which netgroups may contain others.
pub(super) const NETGROUP_DEPTH_MAX: usize = 16;
/// Longest netgroup file that is read, bytes.
pub(super) const NETGROUP_FILE_LEN_MAX: u64 = 4 << 20;
/// Longest file with certificates or a key, bytes.
pub(super) const PEM_LEN_MAX: u64 = 4 << 20;
/// Interval at which clients whose courtesy is over are removed, host names and netgroups resolved again, and certificates read again.
pub(super) const UPKEEP_EVERY: Duration = Duration::from_secs(60);
/// How long an answer about a user or group is used.
pub(super) const ACCOUNTS_KEPT: Duration = Duration::from_secs(300);
