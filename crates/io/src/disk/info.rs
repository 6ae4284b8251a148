//! Properties of a disk, and how to open one.

use std::path::PathBuf;

/// File or block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskKind {
    /// A regular file.
    File,
    /// A block device.
    Block,
}

/// Properties of a disk. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskInfo {
    /// Its path.
    pub path: PathBuf,
    /// File or block device.
    pub kind: DiskKind,
    /// Its size when it was opened; [`Disk::size`](super::Disk::size) returns the present size.
    pub size: u64,
    /// Alignment of offsets and lengths.
    pub logical_block: u32,
    /// The unit that the device writes without a read-modify-write.
    pub physical_block: u32,
    /// Direct I/O: the page cache is bypassed.
    pub direct: bool,
    /// Opened for reading only.
    pub read_only: bool,
    /// A hard disk, or a file on one, as the kernel reports it. Virtual disks often report flash as rotational.
    pub rotational: bool,
    /// Completed writes may be lost in a power cut until a flush.
    pub volatile_cache: bool,
}

/// How to open a disk.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Open for reading only; several processes may then open it.
    pub read_only: bool,
    /// Create the file, sparse and of this size, if it is missing or empty.
    pub create_size: Option<u64>,
    /// Use the page cache.
    pub buffered: bool,
    /// Do not lock the file or device: to measure or look beside another process that has it open.
    pub shared: bool,
}
