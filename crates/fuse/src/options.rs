//! Options of a mount, and the kernel's caches that follow from them.
//!
//! **Owns** [`MountOptions`] and [`Caching`]. **Called by** the server, and by every reply that carries a validity.
//! **Invariants**: the kernel owns sizes and times of files (write-back) only if no one else changes the file system and the
//! kernel checks permissions.

use crate::limits::{EXCLUSIVE_VALIDITY, SHARED_VALIDITY};
use backend::file::{CheckedBy, FileLimits};
use std::time::Duration;

/// The system that checks permissions of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Permissions {
    /// The kernel, by mode, owner and group (`default_permissions`).
    #[default]
    Kernel,
    /// The file system, which knows access control lists. The groups of a process are read from /proc for each request.
    FileSystem,
}

/// Options of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// The name in /proc/mounts, for example `tank/home`.
    pub source: String,
    /// The system that checks permissions.
    pub permissions: Permissions,
    /// Whether users other than the one who runs the server may use the mount (`allow_other`). A server that does not run as
    /// root needs `user_allow_other` in /etc/fuse.conf.
    pub allow_other: bool,
    /// Whether every mutation is refused. Always so for a snapshot.
    pub is_read_only: bool,
    /// Whether others change the file system, too: another mount, NFS, SMB. The kernel then caches for
    /// [`SHARED_VALIDITY`], and has no write-back cache.
    pub is_shared: bool,
    /// Whether setuid and setgid bits and file capabilities have an effect. Only for root.
    pub suid: bool,
    /// Whether device files have an effect. Only for root.
    pub devices: bool,
    /// Whether programs can be executed.
    pub exec: bool,
    /// Whether to mount over a directory that has files. They are hidden until the unmount.
    pub over_files: bool,
    /// Whether to unmount a dead FUSE mount at the mount point first.
    pub replace_dead: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            source: "wirepool".to_owned(),
            permissions: Permissions::default(),
            allow_other: false,
            is_read_only: false,
            is_shared: false,
            suid: false,
            devices: false,
            exec: true,
            over_files: false,
            replace_dead: false,
        }
    }
}

/// The use of the kernel's caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caching {
    /// Validity of a name.
    pub(crate) names: Duration,
    /// Validity of the absence of a name.
    pub(crate) absent_names: Duration,
    /// Validity of attributes.
    pub(crate) attributes: Duration,
    /// Whether written data stays in the kernel until it is written back, so that the kernel owns size and times.
    pub(crate) has_write_back: bool,
    /// Whether data stays cached from one open to the next.
    pub(crate) keeps_data: bool,
    /// Whether data is dropped when the attributes show that another client changed the file.
    pub(crate) checks_data: bool,
}

impl MountOptions {
    /// The party that checks permissions, as the file system sees it.
    pub(crate) fn checked_by(&self) -> CheckedBy {
        match self.permissions {
            Permissions::Kernel => CheckedBy::Client,
            Permissions::FileSystem => CheckedBy::Us,
        }
    }

    /// The use of the kernel's caches for a file system with these limits.
    pub(crate) fn caching(&self, limits: &FileLimits) -> Caching {
        let validity = match self.is_shared {
            true => SHARED_VALIDITY,
            false => EXCLUSIVE_VALIDITY,
        };
        let is_checked_here = self.permissions == Permissions::FileSystem;
        // Names that differ in case have an entry each in the kernel's cache: a removal of one would leave the others. And
        // a path through cached names is not checked, if the kernel does not check it.
        let names = match limits.is_case_insensitive || is_checked_here {
            true => Duration::ZERO,
            false => validity,
        };
        // Write-back sets times explicitly, on behalf of any process: the file system's check would refuse it.
        let is_read_only = self.is_read_only || limits.is_read_only;
        Caching {
            names,
            absent_names: names,
            attributes: validity,
            has_write_back: !self.is_shared && !is_checked_here && !is_read_only,
            keeps_data: !self.is_shared,
            checks_data: self.is_shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FileLimits = FileLimits {
        links_max: 1000,
        record_size: 131_072,
        is_case_insensitive: false,
        is_read_only: false,
        has_acls: false,
        acl_rules: backend::file::permission::AclRules::STANDARD,
    };

    #[test]
    fn write_back_needs_an_exclusive_file_system_and_the_kernels_checks() {
        let options = MountOptions::default();
        assert!(options.caching(&LIMITS).has_write_back);
        for other in [
            MountOptions {
                is_shared: true,
                ..options.clone()
            },
            MountOptions {
                permissions: Permissions::FileSystem,
                ..options.clone()
            },
            MountOptions {
                is_read_only: true,
                ..options.clone()
            },
        ] {
            assert!(!other.caching(&LIMITS).has_write_back, "{other:?}");
        }
    }

    #[test]
    fn names_of_a_case_insensitive_file_system_are_not_cached() {
        let limits = FileLimits {
            is_case_insensitive: true,
            ..LIMITS
        };
        let caching = MountOptions::default().caching(&limits);
        assert_eq!(caching.names, Duration::ZERO);
        assert_eq!(caching.absent_names, Duration::ZERO);
        assert_ne!(caching.attributes, Duration::ZERO);
    }
}
