//! Conversions between the types of `fuser` and those of the file interface.
//!
//! **Owns** attributes, kinds, times and device numbers on their way to and from the kernel. **Called by** every operation.
//! **Invariants**: a time before 1970 keeps its nanoseconds. Device numbers are Linux's `dev_t` (makedev(3)); FUSE has 32 bits
//! of it.

use crate::status::Answer;
use backend::file::{Attributes, FileKind, FileLock, LockKind, NewKind, SetTime, Timestamp};
use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use std::time::{Duration, SystemTime};

/// Block size that stat(2) shows, bytes.
pub(crate) const BLOCK_SIZE: u32 = 4096;

/// The kernel's attributes of an object with this inode number.
pub(crate) fn attributes(number: u64, of: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: of.size,
        blocks: of.used.div_ceil(512),
        atime: time(of.accessed),
        mtime: time(of.modified),
        ctime: time(of.changed),
        crtime: time(of.created),
        kind: kind(of.kind),
        perm: of.mode,
        nlink: of.links,
        uid: of.uid,
        gid: of.gid,
        rdev: of.device as u32,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

/// Attributes without contents: those of an absent name (number 0), and of an entry whose attributes cannot be read.
pub(crate) fn no_attributes(number: u64, of: FileKind) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(of),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

/// The kernel's word for a kind.
pub(crate) fn kind(of: FileKind) -> FileType {
    match of {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kind of a new object, from the type bits of a mode (mknod(2)). `None` for a type that mknod cannot create.
pub(crate) fn new_kind(mode: u32, device: u32) -> Option<NewKind> {
    match mode & libc::S_IFMT {
        libc::S_IFREG | 0 => Some(NewKind::File),
        libc::S_IFIFO => Some(NewKind::Fifo),
        libc::S_IFSOCK => Some(NewKind::Socket),
        libc::S_IFCHR => Some(NewKind::CharDevice(device.into())),
        libc::S_IFBLK => Some(NewKind::BlockDevice(device.into())),
        _ => None,
    }
}

/// Permission bits of a mode.
pub(crate) fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

fn time(at: Timestamp) -> SystemTime {
    let distance = Duration::from_nanos(at.0.unsigned_abs());
    match at.0 < 0 {
        true => SystemTime::UNIX_EPOCH - distance,
        false => SystemTime::UNIX_EPOCH + distance,
    }
}

/// A time that the kernel sets. `fuser` 0.18 makes `-(s + ns)` of the kernel's `-s + ns`, which is undone here.
pub(crate) fn set_time(of: Option<TimeOrNow>) -> SetTime {
    match of {
        None => SetTime::Keep,
        Some(TimeOrNow::Now) => SetTime::Now,
        Some(TimeOrNow::SpecificTime(at)) => {
            SetTime::To(match at.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(after) => Timestamp::from_parts(
                    i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
                    after.subsec_nanos(),
                ),
                Err(before) => {
                    let before = before.duration();
                    let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |s| -s);
                    Timestamp::from_parts(seconds, before.subsec_nanos())
                }
            })
        }
    }
}

/// Last byte that the kernel knows: it stands for all that follow.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// A lock of fcntl(2). Errors: EINVAL.
pub(crate) fn lock(owner: u64, (start, end): (u64, u64), kind: i32) -> Answer<FileLock> {
    let kind = match kind {
        libc::F_UNLCK => LockKind::Unlocked,
        libc::F_RDLCK => LockKind::Shared,
        libc::F_WRLCK => LockKind::Exclusive,
        _ => return Err(Errno::EINVAL),
    };
    let end = if end >= OFFSET_MAX { u64::MAX } else { end };
    match start <= end {
        true => Ok(FileLock {
            owner,
            start,
            end,
            kind,
        }),
        false => Err(Errno::EINVAL),
    }
}

/// First byte, last byte and kind of the lock that is in the way, for the kernel.
pub(crate) fn shown_lock(found: Option<FileLock>) -> (u64, u64, i32) {
    let Some(found) = found else {
        return (0, 0, libc::F_UNLCK);
    };
    let kind = match found.kind {
        LockKind::Unlocked => libc::F_UNLCK,
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    };
    (found.start.min(OFFSET_MAX), found.end.min(OFFSET_MAX), kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_1970_keeps_its_nanoseconds() {
        // as fuser gives the kernel's -2 s + 800 ms
        let given = SystemTime::UNIX_EPOCH - Duration::new(2, 800_000_000);
        let set = set_time(Some(TimeOrNow::SpecificTime(given)));
        assert_eq!(set, SetTime::To(Timestamp(-1_200_000_000)));
        let shown = time(Timestamp(-1_200_000_000));
        assert_eq!(
            SystemTime::UNIX_EPOCH.duration_since(shown).unwrap(),
            Duration::from_millis(1200)
        );
        for extreme in [i64::MIN, i64::MAX] {
            let _ = time(Timestamp(extreme));
        }
    }

    #[test]
    fn mknod_creates_no_directories_and_links() {
        assert_eq!(
            new_kind(libc::S_IFCHR | 0o600, 0x103),
            Some(NewKind::CharDevice(0x103))
        );
        assert_eq!(new_kind(0o644, 0), Some(NewKind::File));
        assert_eq!(new_kind(libc::S_IFDIR, 0), None);
        assert_eq!(new_kind(libc::S_IFLNK, 0), None);
    }
}
