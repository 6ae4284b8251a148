//! Command line: `wirepool fs`.

use clap::{Args, Subcommand};
use server::api::{
    CreateFilesystem, DestroyFilesystem, PromoteFilesystem, RenameFilesystem, RollbackFilesystem,
    UnmountFilesystem,
};
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
    Unmount(UnmountFilesystem),
    /// Destroy a filesystem that is not mounted.
    Destroy(DestroyFilesystem),
    /// Rename a filesystem that is not mounted.
    Rename(RenameFilesystem),
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
    Promote(PromoteFilesystem),
    /// Roll a filesystem back to its newest snapshot. It must not be mounted.
    Rollback(RollbackFilesystem),
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
    #[command(flatten)]
    pub(crate) call: CreateFilesystem,
    /// Set a property, such as atime=off or casesensitivity=insensitive; see `wirepool set --help`.
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = assignment)]
    pub(crate) properties: Vec<(String, String)>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=');
    let (property, value) = parts.ok_or("use PROPERTY=VALUE, such as atime=off")?;
    Ok((property.to_owned(), value.to_owned()))
}
