//! Errors of mounting and unmounting.

use std::path::PathBuf;
use thiserror::Error;

/// Result of mounting or unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file system cannot be mounted or unmounted. Nothing was changed unless the variant says otherwise.
#[derive(Debug, Error)]
pub enum Error {
    /// The mount point does not exist.
    #[error("mount point {}: no such directory (create it first)", .0.display())]
    Missing(PathBuf),
    /// The mount point is not a directory.
    #[error("mount point {}: not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// The mount point has files.
    #[error("mount point {}: the directory is not empty (an overlay mount hides its files)", .0.display())]
    NotEmpty(PathBuf),
    /// Something is mounted there.
    #[error("mount point {}: {} is mounted there (unmount it first)", .at.display(), source_name)]
    InUse {
        /// The mount point.
        at: PathBuf,
        /// The source of the present mount.
        source_name: String,
    },
    /// A FUSE mount whose server has ended.
    #[error(
        "mount point {at}: a dead FUSE mount is there, its server has ended (run: fusermount3 -u {at})",
        at = .0.display()
    )]
    Dead(PathBuf),
    /// The mount point cannot be examined.
    #[error("mount point {}: {source}", .at.display())]
    Examine {
        /// The mount point.
        at: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The system has no FUSE.
    #[error("/dev/fuse is missing (load the kernel module: modprobe fuse)")]
    NoDevice,
    /// The server does not run as root, and the program that mounts for others is missing.
    #[error(
        "mounting needs root or fusermount3, which is not installed (Debian and Fedora: package fuse3)"
    )]
    NoHelper,
    /// `allow_other` is not allowed to users.
    #[error(
        "allow_other needs root, or the line 'user_allow_other' in /etc/fuse.conf (only root can add it)"
    )]
    AllowOther,
    /// An option that only root may use.
    #[error("option {0} needs root")]
    NeedsRoot(&'static str),
    /// The kernel or fusermount3 refused the mount.
    #[error("mount point {}: mounting failed: {reason}", .at.display())]
    Refused {
        /// The mount point.
        at: PathBuf,
        /// The reason, in the words of the system.
        reason: String,
    },
    /// Files are open, or a process works in a directory of the mount. It stays mounted.
    #[error(
        "{at}: busy: a file is open or a directory is in use (fuser -vm {at} lists the processes; a lazy unmount detaches it now)",
        at = .0.display()
    )]
    Busy(PathBuf),
    /// Not mounted: unmounted before, or by another program.
    #[error("{}: not mounted", .0.display())]
    NotMounted(PathBuf),
    /// Acknowledged changes could not be made durable. The message says whether it is still mounted.
    #[error("{}: changes could not be written: {reason} ({})", .at.display(), if *.is_mounted { "still mounted" } else { "unmounted" })]
    NotDurable {
        /// The mount point.
        at: PathBuf,
        /// The reason.
        reason: String,
        /// Whether it is still mounted.
        is_mounted: bool,
    },
    /// A thread could not be started.
    #[error("a thread of the mount could not be started: {0}")]
    Thread(std::io::Error),
}
