//! Requests and answers about filesystems.

use super::{DiskState, Volume, VolumeSync};
use crate::config::MountFlags;
use crate::size::ByteSize;
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A filesystem of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Filesystem {
    /// Such as `tank/home`.
    pub name: String,
    /// Its mount, if it has one.
    pub mount: Option<Mount>,
    /// Bytes of it and its snapshots as stored, as of the last checkpoint.
    pub used: u64,
    /// Bytes that only its snapshots hold.
    pub by_snapshots: u64,
    /// Bytes of its records as stored, including shared ones, as of the last checkpoint.
    pub referenced: u64,
    /// Bytes of its records before compression.
    pub logical: u64,
    /// Bytes that can still be written.
    pub available: u64,
    /// Maximum bytes of it and its snapshots; 0 for no limit.
    pub quota: u64,
    /// Bytes reserved for it and its snapshots.
    pub reservation: u64,
    /// The snapshot that it was cloned from.
    pub origin: Option<String>,
    /// Maximum bytes of a record of files that are created.
    pub record_size: u32,
    /// When writes become durable.
    pub sync: VolumeSync,
    /// Compression of records.
    pub compression: String,
    /// Checksum of records.
    pub checksum: String,
    /// Time of its creation, ms since 1970.
    pub created_ms: u64,
}

/// The mount of a filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mount {
    /// The mount point.
    pub at: PathBuf,
    /// `online` if it is mounted, `held` if it could not be mounted or was unmounted by another program.
    pub state: DiskState,
    /// Why it is not mounted.
    pub reason: Option<String>,
    /// Its options, such as `ro,suid`.
    pub options: MountFlags,
    /// Files that are open.
    pub open_files: usize,
}

/// A volume or a filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Dataset {
    /// A volume.
    Volume(Volume),
    /// A filesystem.
    Filesystem(Filesystem),
}

/// The filesystems of all pools.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListFilesystems {}

/// Creates a filesystem.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct CreateFilesystem {
    /// The pool and the name of the filesystem, such as tank/home.
    pub name: String,
    /// Maximum record size of files that are created: a power of two from 4K to 1M. Inherited if it is not given, 128K by
    /// default; `wirepool set recordsize=...` changes it.
    #[serde(default)]
    #[arg(long, visible_alias = "recordsize")]
    pub record_size: Option<ByteSize>,
    /// When writes become durable: standard (when the client asks for it), always (before they are acknowledged), or disabled
    /// (never awaited, although the client is told otherwise). Inherited if it is not given.
    #[serde(default)]
    #[arg(long, value_enum)]
    pub sync: Option<VolumeSync>,
    /// Compression of records: off, lz4, or zstd-1 (fast) to zstd-19 (small). Inherited if it is not given.
    #[serde(default)]
    #[arg(long)]
    pub compression: Option<String>,
    /// Checksum of records: xxh3 detects damage, blake3 also detects forgery. Inherited if it is not given.
    #[serde(default)]
    #[arg(long)]
    pub checksum: Option<String>,
    /// Maximum space of the filesystem and its snapshots.
    #[serde(default)]
    #[arg(long)]
    pub quota: Option<ByteSize>,
    /// Space reserved for the filesystem and its snapshots.
    #[serde(default)]
    #[arg(long)]
    pub reservation: Option<ByteSize>,
    /// Names that differ only in case are the same. Names must be UTF-8 then.
    #[serde(default)]
    #[arg(long)]
    pub case_insensitive: bool,
    /// Values of properties by name, such as `atime`; also of those above, and `casesensitivity`, which only a creation can set.
    #[serde(default)]
    #[arg(skip)]
    pub properties: BTreeMap<String, String>,
    /// Also create missing filesystems above it. It is no error then if the filesystem exists.
    #[serde(default)]
    #[arg(short, long)]
    pub parents: bool,
}

/// Destroys a filesystem that is not mounted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct DestroyFilesystem {
    /// The filesystem.
    pub name: String,
    /// Confirm the destruction.
    #[serde(default)]
    #[arg(short, long)]
    pub force: bool,
    /// Destroy its snapshots and all datasets below it, too.
    #[serde(default)]
    #[arg(short, long)]
    pub recursive: bool,
}

/// Renames a filesystem that is not mounted, with its snapshots.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct RenameFilesystem {
    /// The filesystem, such as tank/home.
    pub name: String,
    /// The new name, such as tank/users.
    pub new: String,
}

/// Promotes a clone: the snapshots of its origin filesystem up to its origin become its own.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct PromoteFilesystem {
    /// The clone, such as tank/home2.
    pub name: String,
}

/// Rolls a filesystem back to its newest snapshot. It must not be mounted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct RollbackFilesystem {
    /// The snapshot, such as tank/home@monday.
    pub snapshot: String,
    /// Confirm that changes since the snapshot are lost.
    #[serde(default)]
    #[arg(short, long)]
    pub force: bool,
}

/// Mounts a filesystem on the server's machine, now and at each start of the server.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MountFilesystem {
    /// Such as `tank/home`.
    pub name: String,
    /// The mount point: an absolute path of an empty directory. Optional if the filesystem has a mount in the configuration.
    #[serde(default)]
    pub at: Option<PathBuf>,
    /// Its options, such as `ro,suid`. `allow_other` is always set if the server runs as root; else it needs `user_allow_other`
    /// in /etc/fuse.conf. `suid` and `dev` need root.
    #[serde(default)]
    pub options: MountFlags,
}

/// Unmounts a filesystem, after all of its changes are on stable storage.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct UnmountFilesystem {
    /// The filesystem, such as tank/home, or its mount point.
    pub name: String,
    /// Detach it although it is in use: open files work until they are closed.
    #[serde(default)]
    #[arg(short, long, conflicts_with = "force")]
    pub lazy: bool,
    /// Detach it, and let requests fail that are in flight. Data that is not on stable storage may be lost.
    #[serde(default)]
    #[arg(short, long)]
    pub force: bool,
}

/// Users, or groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OwnerKind {
    /// Users.
    User,
    /// Groups.
    Group,
}

/// Lists the users or groups with files, or with a quota, in a filesystem or a snapshot of one. The files of a filesystem of an
/// earlier release are counted first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListOwnerSpace {
    /// Such as `tank/home` or `tank/home@monday`.
    pub name: String,
    /// Users, or groups.
    pub owners: OwnerKind,
}

/// The space of a user's or a group's files in a filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerSpace {
    /// Number of the user or group.
    pub id: u32,
    /// Name of the user or group on the server's machine, if there is one.
    pub name: Option<String>,
    /// Bytes of its files before compression.
    pub used: u64,
    /// Maximum bytes of its files; 0 for no limit.
    pub quota: u64,
}

/// Lists the files that differ between a snapshot and a newer snapshot, or the filesystem as it is now. For the latter, a snapshot
/// is taken (its name begins with `.diff-`), and destroyed at the end, or when the pool is opened the next time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffFilesystem {
    /// The older snapshot, such as `tank/home@monday`.
    pub from: String,
    /// A newer snapshot of the same filesystem, or the filesystem (default).
    #[serde(default)]
    pub to: Option<String>,
}

/// The kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DifferenceKind {
    /// The file is new.
    Added,
    /// The file was removed.
    Removed,
    /// Contents, attributes or entries changed.
    Modified,
    /// The file has another name or directory.
    Renamed,
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    Char,
    /// A block device.
    Block,
}

/// A file that differs between two states of a filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The kind of the difference.
    pub change: DifferenceKind,
    /// The kind of the file.
    pub file: FileType,
    /// Its path from the root of the filesystem; of a renamed file, the one before. A backslash, and a byte that is no printable
    /// UTF-8, is a backslash and four octal digits.
    pub path: String,
    /// The new path of a renamed file.
    pub new_path: Option<String>,
    /// Names that it has more, or fewer, than before; 0 for directories.
    pub links: i64,
    /// Time of its last change, nanoseconds since 1970.
    pub changed_ns: i64,
}
