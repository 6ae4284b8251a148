//! Command line: `wirepool fs`.

use clap::{Args, Subcommand};
use server::ByteSize;
use server::api::VolumeSync;
use server::config::MountFlags;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum FilesystemCommand {
    /// Create a filesystem.
    #[command(after_help = "\
Examples:
  wirepool fs create tank/home --quota 2T
  wirepool fs create -p -o atime=off -o snapdir=visible tank/home/ann/mail
  wirepool fs mount tank/home /mnt/home")]
    Create(CreateArgs),
    /// List the filesystems.
    List,
    /// Mount a filesystem on this machine, now and whenever the server starts.
    #[command(after_help = "\
The server holds the mount (FUSE): it needs /dev/fuse, and root or fusermount3. The mount point must be an empty directory.
Snapshots are below MOUNT_POINT/.zfs/snapshot.

Examples:
  wirepool fs mount tank/home /mnt/home
  wirepool fs mount tank/home /mnt/home -o ro,noexec")]
    Mount {
        /// The filesystem, such as tank/home.
        name: String,
        /// The mount point (default: the one in the configuration).
        mount_point: Option<PathBuf>,
        /// Options of mount(8), separated by commas: ro, suid, dev, noexec, allow_other, and shared (the filesystem has other
        /// users: the kernel keeps nothing back), acl (access control lists, which the filesystem checks).
        #[arg(short, long, default_value_t, hide_default_value = true)]
        options: MountFlags,
        /// Refuse every change: -o ro.
        #[arg(long, visible_alias = "readonly")]
        read_only: bool,
        /// Let other users use the mount, if the server does not run as root: -o allow_other. It needs user_allow_other in
        /// /etc/fuse.conf.
        #[arg(long)]
        allow_other: bool,
    },
    /// Unmount a filesystem, after all of its changes are on stable storage.
    #[command(visible_alias = "umount")]
    Unmount {
        /// The filesystem, such as tank/home, or its mount point.
        name: String,
        /// Detach it although it is in use: open files work until they are closed.
        #[arg(short, long, conflicts_with = "force")]
        lazy: bool,
        /// Detach it, and let requests fail that are in flight. Data that is not on stable storage may be lost.
        #[arg(short, long)]
        force: bool,
    },
    /// Destroy a filesystem that is not mounted.
    Destroy {
        /// The filesystem.
        name: String,
        /// Confirm the destruction.
        #[arg(short, long)]
        force: bool,
        /// Destroy its snapshots and all datasets below it, too.
        #[arg(short, long)]
        recursive: bool,
    },
    /// Rename a filesystem that is not mounted.
    Rename {
        /// The filesystem, such as tank/home.
        name: String,
        /// The new name, such as tank/users.
        new: String,
    },
    /// Show the space of each user's files, and the users' quotas.
    #[command(after_help = "\
Space is counted before compression. `wirepool set userquota@ann=10G tank/home` sets a quota.")]
    Userspace {
        #[command(flatten)]
        of: OwnersArgs,
    },
    /// Show the space of each group's files, and the groups' quotas.
    #[command(after_help = "\
Space is counted before compression. `wirepool set groupquota@staff=1T tank/home` sets a quota.")]
    Groupspace {
        #[command(flatten)]
        of: OwnersArgs,
    },
    /// Promote a clone: the filesystem that it was cloned from becomes a clone of it.
    Promote {
        /// The clone, such as tank/home2.
        name: String,
    },
    /// Roll a filesystem back to its newest snapshot. It must not be mounted.
    Rollback {
        /// The snapshot, such as tank/home@monday.
        snapshot: String,
        /// Confirm that changes since the snapshot are lost.
        #[arg(short, long)]
        force: bool,
    },
}

/// Help of `wirepool diff`.
pub(crate) const DIFF_HELP: &str = "\
Each line has + (new), - (removed), M (changed) or R (renamed), and the path from the root of the filesystem.
A file below a renamed directory is not listed. Other characters than printable ASCII are shown in octal.

Examples:
  wirepool diff tank/home@monday
  wirepool diff -F tank/home@monday tank/home@tuesday";

#[derive(Args)]
pub(crate) struct DiffArgs {
    /// The older snapshot, such as tank/home@monday.
    pub(crate) from: String,
    /// A newer snapshot, or the filesystem (default).
    pub(crate) to: Option<String>,
    /// Show the kind of each file: / directory, F file, @ symbolic link, | named pipe, = socket, C and B devices.
    #[arg(short = 'F')]
    pub(crate) kinds: bool,
    /// For scripts: columns separated by tabs, and no arrow before a new name.
    #[arg(short = 'H', long)]
    pub(crate) script: bool,
    /// Show the time of each file's last change first, seconds since 1970.
    #[arg(short)]
    pub(crate) times: bool,
}

#[derive(Args)]
pub(crate) struct OwnersArgs {
    /// The filesystem or snapshot, such as tank/home or tank/home@monday.
    pub(crate) name: String,
    /// Show numbers instead of names.
    #[arg(short, long)]
    pub(crate) numeric: bool,
    /// For scripts: no header, columns separated by tabs.
    #[arg(short = 'H', long)]
    pub(crate) script: bool,
    /// Show exact numbers of bytes.
    #[arg(short = 'p', long)]
    pub(crate) exact: bool,
}

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// The pool and the name of the filesystem, such as tank/home.
    pub(crate) name: String,
    /// Maximum record size of files that are created: a power of two from 4K to 1M. Inherited if it is not given, 128K by
    /// default; `wirepool set recordsize=...` changes it.
    #[arg(long, visible_alias = "recordsize")]
    pub(crate) record_size: Option<ByteSize>,
    /// When writes become durable: standard (when the client asks for it), always (before they are acknowledged), or disabled
    /// (never awaited, although the client is told otherwise).
    /// Inherited if it is not given.
    #[arg(long, value_enum)]
    pub(crate) sync: Option<SyncArg>,
    /// Compression of records: off, lz4, or zstd-1 (fast) to zstd-19 (small). Inherited if it is not given.
    #[arg(long)]
    pub(crate) compression: Option<String>,
    /// Checksum of records: xxh3 detects damage, blake3 also detects forgery. Inherited if it is not given.
    #[arg(long)]
    pub(crate) checksum: Option<String>,
    /// Maximum space of the filesystem and its snapshots.
    #[arg(long)]
    pub(crate) quota: Option<ByteSize>,
    /// Space reserved for the filesystem and its snapshots.
    #[arg(long)]
    pub(crate) reservation: Option<ByteSize>,
    /// Names that differ only in case are the same. Names must be UTF-8 then.
    #[arg(long)]
    pub(crate) case_insensitive: bool,
    /// Set a property, such as atime=off or casesensitivity=insensitive; see `wirepool set --help`.
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = assignment)]
    pub(crate) properties: Vec<(String, String)>,
    /// Also create missing filesystems above it. It is no error then if the filesystem exists.
    #[arg(short, long)]
    pub(crate) parents: bool,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=');
    let (property, value) = parts.ok_or("use PROPERTY=VALUE, such as atime=off")?;
    Ok((property.to_owned(), value.to_owned()))
}

/// When writes to a volume or filesystem become durable.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum SyncArg {
    Standard,
    Always,
    Disabled,
}

impl From<SyncArg> for VolumeSync {
    fn from(sync: SyncArg) -> VolumeSync {
        match sync {
            SyncArg::Standard => VolumeSync::Standard,
            SyncArg::Always => VolumeSync::Always,
            SyncArg::Disabled => VolumeSync::Disabled,
        }
    }
}
