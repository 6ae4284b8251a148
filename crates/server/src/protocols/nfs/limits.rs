//! The named limits of exports over NFS.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Most exports in one configuration.
pub(super) const EXPORTS_MAX: usize = 1024;
/// Most client rules of one export.
pub(super) const CLIENTS_MAX: usize = 1024;
/// Allowed leases of clients, s. Linux clients renew after two thirds of a lease, and retry a request after seconds.
pub(super) const LEASE_S_RANGE: RangeInclusive<u64> = 10..=3600;
/// Longest time for which a client may leave the recall of a delegation unanswered.
pub(super) const RECALL_MAX: Duration = Duration::from_secs(60);
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
/// Longest wait for name services before an export is published, or changed, by the last answers.
pub(super) const LOOKUP_WAIT_MAX: Duration = Duration::from_secs(3);
/// Interval at which names without an answer are asked for again.
pub(super) const NAMES_RETRY: Duration = Duration::from_secs(5);
/// Time for which a name keeps its addresses after the resolver said that it does not exist.
pub(super) const NAME_GONE_KEPT: Duration = Duration::from_secs(3600);
/// Most host names whose addresses are kept.
pub(super) const NAMES_KEPT: usize = 1 << 16;
/// Longest interval at which clients whose courtesy is over are removed, host names and netgroups resolved again, and certificates read again.
pub(super) const UPKEEP_EVERY: Duration = Duration::from_secs(60);
/// How long an answer about a user or group is used.
pub(super) const ACCOUNTS_KEPT: Duration = Duration::from_secs(300);
