//! Files and block devices: opening, and the properties that the kernel reports.
//!
//! **Invariants**: an open disk belongs to this process alone: files are locked (flock), and block devices are opened with
//! O_EXCL, which the kernel refuses while they are mounted or in use.

use crate::disk::{DiskInfo, DiskKind, OpenOptions};
use crate::{Error, Result};
use std::fs::{File, OpenOptions as FsOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Size of a block device in bytes. Source: linux/fs.h, `_IOR(0x12, 114, size_t)`.
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;

/// Discards a range of a block device: offset and length, bytes. Source: linux/fs.h, `_IO(0x12, 119)`.
const BLKDISCARD: libc::c_ulong = 0x1277;

/// File systems in memory, as statfs(2) names them. Source: linux/magic.h, TMPFS_MAGIC and RAMFS_MAGIC.
const IN_MEMORY: [libc::c_long; 2] = [0x0102_1994, 0x8584_58f6];

/// Permissions of files that are created for disks: their owner's alone, because they hold the data of all clients.
const FILE_MODE: u32 = 0o600;

/// An open file or block device.
pub(crate) struct LinuxDisk {
    file: File,
    in_memory: bool,
}

impl LinuxDisk {
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The file, if its file system is in memory: a request to it is a copy that waits for nothing.
    pub(crate) fn in_memory(&self) -> Option<&File> {
        self.in_memory.then_some(&self.file)
    }
}

impl Drop for LinuxDisk {
    /// Unlocks before closing. A kernel thread does the flush, and may release the file only after the completion was seen
    /// and the descriptor closed; the lock would last until then.
    fn drop(&mut self) {
        // SAFETY: no memory is passed.
        unsafe { libc::flock(self.fd(), libc::LOCK_UN) };
    }
}

/// Opens `path`. Blocks. Without O_DIRECT if the file system does not support it ([`DiskInfo::direct`]).
pub(crate) fn open_disk(path: &Path, o: &OpenOptions) -> Result<(LinuxDisk, DiskInfo)> {
    let found = std::fs::metadata(path);
    let is_block = found
        .as_ref()
        .is_ok_and(|m| m.file_type().is_block_device());
    if let Ok(m) = &found
        && !is_block
        && !m.is_file()
    {
        return Err(Error::Unsupported(libc::ENOTTY));
    }
    let mut flags = libc::O_CLOEXEC;
    if is_block && !o.shared {
        flags |= libc::O_EXCL;
    }
    if o.read_only
        && !is_block
        && let Some(size) = o.create_size
    {
        create(path, size)?;
    }
    let open = |extra: i32| {
        FsOptions::new()
            .read(true)
            .write(!o.read_only)
            .create(!is_block && !o.read_only && o.create_size.is_some())
            .truncate(false)
            .mode(FILE_MODE)
            .custom_flags(flags | extra)
            .open(path)
    };
    let (file, direct) = match open(if o.buffered { 0 } else { libc::O_DIRECT }) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) && !o.buffered => (open(0)?, false),
        other => (other?, !o.buffered),
    };
    if !is_block {
        if !o.shared {
            lock(&file, o.read_only)?;
        }
        let meta = file.metadata()?;
        match o.create_size {
            Some(size) if meta.len() == 0 && !o.read_only => file.set_len(size)?,
            _ => {}
        }
    }
    let info = describe(&file, path, direct, o.read_only)?;
    let disk = LinuxDisk {
        in_memory: is_in_memory(&file)?,
        file,
    };
    Ok((disk, info))
}

/// Creates a missing or empty file of `size` bytes, which an open for reading alone would not create.
fn create(path: &Path, size: u64) -> Result<()> {
    let file = FsOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .custom_flags(libc::O_CLOEXEC)
        .open(path)?;
    if file.metadata()?.len() == 0 {
        lock(&file, false)?;
        file.set_len(size)?;
    }
    Ok(())
}

/// Whether a file is in memory. False for a device, although its node is in devtmpfs.
fn is_in_memory(file: &File) -> Result<bool> {
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    // SAFETY: fills a local statfs.
    let found = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        if libc::fstatfs(file.as_raw_fd(), &raw mut found) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        found
    };
    Ok(IN_MEMORY.contains(&found.f_type))
}

fn lock(file: &File, shared: bool) -> Result<()> {
    let how = if shared { libc::LOCK_SH } else { libc::LOCK_EX };
    // SAFETY: no memory is passed.
    if unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}

fn describe(file: &File, path: &Path, direct: bool, read_only: bool) -> Result<DiskInfo> {
    let meta = file.metadata()?;
    let mut info = DiskInfo {
        path: path.to_path_buf(),
        kind: DiskKind::File,
        size: meta.len(),
        logical_block: if direct { file_dio_align(file) } else { 1 },
        physical_block: u32::try_from(meta.blksize()).unwrap_or(4096),
        direct,
        read_only,
        rotational: is_rotational(&sysfs_queue(meta.dev())),
        volatile_cache: true,
    };
    if meta.file_type().is_block_device() {
        info.kind = DiskKind::Block;
        info.size = ioctl_u64(file, BLKGETSIZE64)?;
        info.logical_block = ioctl_u32(file, libc::BLKSSZGET as libc::c_ulong)?;
        info.physical_block =
            ioctl_u32(file, libc::BLKPBSZGET as libc::c_ulong)?.max(info.logical_block);
        let queue = sysfs_queue(meta.rdev());
        info.rotational = is_rotational(&queue);
        info.volatile_cache =
            read_trimmed(&queue.join("write_cache")).is_none_or(|v| v == "write back");
    }
    Ok(info)
}

fn read_trimmed(path: &Path) -> Option<String> {
    std::fs::read_to_string(path)
        .ok()
        .map(|s| s.trim().to_owned())
}

/// Whether a block device's queue reports a hard disk. False if there is no queue (memory, or a file system on several
/// devices).
/// devices, or memory) is none.
fn is_rotational(queue: &Path) -> bool {
    read_trimmed(&queue.join("rotational")).is_some_and(|v| v == "1")
}

/// The sysfs folder of the queue of the block device with this number.
fn sysfs_queue(device: u64) -> PathBuf {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let dev = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    // A partition has no queue of its own; the queue of its disk applies.
    if dev.join("queue").exists() {
        dev.join("queue")
    } else {
        dev.join("../queue")
    }
}

/// The O_DIRECT alignment of a file, bytes (statx STATX_DIOALIGN, Linux 6.1); 4096 if the kernel does not report it.
fn file_dio_align(file: &File) -> u32 {
    // SAFETY: the path is an empty C string, which with AT_EMPTY_PATH means the descriptor itself; the buffer is
    // a local statx.
    let stx = unsafe {
        let mut stx: libc::statx = std::mem::zeroed();
        let flags = libc::AT_EMPTY_PATH;
        if libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            flags,
            libc::STATX_DIOALIGN,
            &raw mut stx,
        ) != 0
        {
            return 4096;
        }
        stx
    };
    match stx.stx_dio_offset_align {
        n if n.is_power_of_two() && (512..=4096).contains(&n) => n,
        _ => 4096,
    }
}

fn ioctl_u64(file: &File, request: libc::c_ulong) -> Result<u64> {
    let mut out = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64.
    if unsafe { libc::ioctl(file.as_raw_fd(), request as _, &raw mut out) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(out)
}

fn ioctl_u32(file: &File, request: libc::c_ulong) -> Result<u32> {
    let mut out = 0u32;
    // SAFETY: BLKSSZGET and BLKPBSZGET write one int.
    if unsafe { libc::ioctl(file.as_raw_fd(), request as _, &raw mut out) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(out)
}

/// The present size, bytes. Blocks.
pub(crate) fn stat_disk(disk: &LinuxDisk) -> Result<u64> {
    let meta = disk.file.metadata()?;
    if meta.file_type().is_block_device() {
        return ioctl_u64(&disk.file, BLKGETSIZE64);
    }
    Ok(meta.len())
}

/// Allocated bytes; all bytes of a block device. Blocks.
pub(crate) fn allocated(disk: &LinuxDisk) -> Result<u64> {
    let meta = disk.file.metadata()?;
    if meta.file_type().is_block_device() {
        return stat_disk(disk);
    }
    // st_blocks counts units of 512 bytes, independent of the file system's block size (stat(2)).
    Ok(meta.blocks() * 512)
}

/// Allocates space for a range of a file. The file keeps its size. Blocks.
pub(crate) fn reserve(disk: &LinuxDisk, offset: u64, len: u64) -> Result<()> {
    let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else {
        return Err(Error::Os(libc::EFBIG));
    };
    loop {
        // SAFETY: no memory is passed.
        if unsafe { libc::fallocate(disk.fd(), libc::FALLOC_FL_KEEP_SIZE, offset, len) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        // Allocating a large range of a file in memory takes long enough to be interrupted by a signal.
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error.into());
        }
    }
}

/// Discards a range of a block device. Blocks.
pub(crate) fn discard(disk: &LinuxDisk, offset: u64, len: u64) -> Result<()> {
    let range = [offset, len];
    // SAFETY: BLKDISCARD reads two u64.
    if unsafe { libc::ioctl(disk.fd(), BLKDISCARD as _, range.as_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}

/// Sets the size of a file. Blocks. Errors: `Unsupported` for a block device.
pub(crate) fn resize_disk(disk: &LinuxDisk, size: u64) -> Result<()> {
    if disk.file.metadata()?.file_type().is_block_device() {
        return Err(Error::Unsupported(libc::ENOTTY));
    }
    disk.file.set_len(size)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: devices were taken for files in memory because of their nodes, so no flush reached a disk.
    #[test]
    fn a_device_is_not_in_memory_though_its_node_is() {
        let device = File::open("/dev/null").expect("it is everywhere");
        assert_eq!(is_in_memory(&device), Ok(false));
        let file = tempfile::tempfile_in("/dev/shm").expect("a file");
        assert_eq!(is_in_memory(&file), Ok(true));
    }
}
