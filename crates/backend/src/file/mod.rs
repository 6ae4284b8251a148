//! The file interface: [`FileBackend`], the second interface between protocols and storage.
//!
//! **Owns** the operations that NFS, SMB and FUSE need, and their types. **Called by** the file protocols (above) and
//! implemented by file systems (below): the pool's, and the one in memory. **Invariants**: protocols know nothing below this
//! interface; an answer that promises stable storage needs a [`Durable`]; each mutation is one atomic step, which every later
//! request sees whole.

mod acl;
mod attributes;
mod caller;
mod changes;
mod directory;
mod error;
mod handle;
mod lock;
pub mod memory;
mod name;
mod pass_on;
pub mod permission;
mod watch;

pub use acl::{ACES_MAX, Ace, AceFlags, AceKind, AceMask, Acl, SID_MAX, Who};
pub use attributes::{Attributes, FileKind, SetAttributes, SetTime, Timestamp};
pub use caller::{Access, Caller, CheckedBy};
pub use changes::{Change, Created, Done, Linked, Removed, Renamed, Stability, Written};
pub use directory::{Cookie, Entry, Listing};
pub use error::{FileError, FileResult};
pub use handle::{Handle, Hold};
pub use lock::{FileLock, LockKind};
pub use name::{NAME_MAX, Name};
pub use watch::{Event, Hub, WATCH_EVENTS_MAX, WATCHES_MAX, Watch};

use std::ops::Range;

use io::{Payload, SharedBuf};

use crate::{Durable, Reply};

/// A reply of a file operation.
pub type FileReply<T> = Reply<T, FileError>;

/// Most bytes of the target of a symbolic link (`PATH_MAX` of Linux with its final NUL).
pub const SYMLINK_MAX: usize = 4095;
/// Most bytes of the name of an extended attribute (`XATTR_NAME_MAX` of Linux).
pub const XATTR_NAME_MAX: usize = 255;
/// Most bytes of the value of an extended attribute (`XATTR_SIZE_MAX` of Linux).
pub const XATTR_VALUE_MAX: usize = 64 << 10;
/// Most bytes of the names of an object's extended attributes, each with a final NUL (`XATTR_LIST_MAX` of Linux).
pub const XATTR_NAMES_MAX: usize = 64 << 10;
/// Largest size of a file, bytes.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// Limits and abilities of a file system. They do not change while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Most names of one file.
    pub links_max: u32,
    /// Unit in which data is written without a read before, bytes.
    pub record_size: u32,
    /// Whether names that differ only in case name the same file.
    pub is_case_insensitive: bool,
    /// Whether every mutation is refused.
    pub is_read_only: bool,
    /// Whether files have NFSv4 ACLs.
    pub has_acls: bool,
    /// How chmod and creation change these lists.
    pub acl_rules: permission::AclRules,
}

/// Space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSpace {
    /// Bytes: used and available ones.
    pub total: u64,
    /// Bytes that can still be written, by this caller.
    pub available: u64,
    /// Number of files and directories.
    pub files: u64,
    /// Files and directories that can still be created, an estimate.
    pub files_available: u64,
}

/// A file or directory that is to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Its kind, with what only this kind has.
    pub kind: NewKind,
    /// Permission bits, below 0o10000.
    pub mode: u16,
    /// The umask of the creating process: it counts where no inherited entry does. `None` if `mode` is without its bits already.
    pub umask: Option<u16>,
    /// Its access control list, in place of the mode's permissions.
    pub acl: Option<Acl>,
}

/// The kind of a new file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewKind {
    /// A regular file, empty.
    File,
    /// A directory, empty.
    Directory,
    /// A symbolic link to this path: 1 to [`SYMLINK_MAX`] bytes without NUL.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device of this number.
    CharDevice(u64),
    /// A block device of this number.
    BlockDevice(u64),
}

/// What a creation does if the name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// It fails with [`FileError::Exists`].
    Fail,
    /// It returns the existing regular file and changes nothing; it fails with [`FileError::Exists`] for another object.
    Open,
    /// It returns the existing file if that was created with the same number, else fails with [`FileError::Exists`]: a
    /// repeated exclusive creation (RFC 8881, section 18.16.3). The number is kept until a time of access or change of the file is set.
    SameVerifier(u64),
}

/// What a rename does if the new name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    /// It replaces the file, or an empty directory by a directory.
    Replace,
    /// It fails with [`FileError::Exists`].
    NoReplace,
    /// It exchanges both; both must exist.
    Exchange,
}

/// Which object a removal accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoveKind {
    /// Every object except a directory, as unlink(2).
    File,
    /// An empty directory, as rmdir(2).
    Directory,
    /// Both, as NFSv4's REMOVE.
    Any,
}

/// How an extended attribute is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattr {
    /// Created or replaced.
    Either,
    /// Fails with [`FileError::Exists`] if it exists.
    Create,
    /// Fails with [`FileError::NoAttribute`] if it does not exist.
    Replace,
}

/// How the range of an allocation is prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocate {
    /// Space is reserved as far as the file system can; existing data stays.
    Reserve,
    /// The range reads as zero afterwards.
    Zero,
    /// The range reads as zero afterwards, and its space is freed.
    Punch,
}

/// Which part of a file a seek looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that may hold data.
    Data,
    /// The next byte of a hole. The end of the file counts as a hole.
    Hole,
}

/// Where a write begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteAt {
    /// At this byte.
    Offset(u64),
    /// At the end of the file, in one step with finding the end.
    End,
}

/// A read's data.
#[derive(Debug)]
pub struct ReadData {
    /// The bytes; fewer than requested only at the end of the file.
    pub bytes: Payload,
    /// Whether the file ends with them.
    pub is_end: bool,
}

/// A file system as a file protocol sees it. All shards share it; a reply stays on the shard that made the request.
///
/// **Permissions.** An operation with a [`Caller`] checks the caller's permissions as POSIX and the object's ACL say, unless
/// the caller was checked before ([`CheckedBy::Client`]). [`FileBackend::read`] and [`FileBackend::write`] check nothing: a
/// protocol with open files checks in [`FileBackend::open`], a protocol without asks [`FileBackend::access`].
///
/// **Stable storage.** A mutation with [`Stability::Durable`] returns a [`Durable`]; the object, its names and everything that
/// the mutation depends on are on stable storage then. With [`Stability::Cached`] it is visible at once and durable after the
/// next [`FileBackend::commit`] of the object. After a crash, names and attributes are those of a moment between the last
/// durable mutation and the crash, and a file's size never exceeds the data that was written.
///
/// **Concurrency.** Mutations of one object take effect in the order in which they were requested. A dropped reply may
/// still take effect.
///
/// **Errors** common to all operations: [`FileError::Stale`] for a handle whose object is gone or never was,
/// [`FileError::ReadOnly`] for mutations of a snapshot, and errors of the medium. Each operation names its others.
pub trait FileBackend: Send + Sync + 'static {
    /// Limits and abilities. Cheap.
    fn limits(&self) -> FileLimits;

    /// The root directory. Cheap.
    fn root(&self) -> Handle;

    /// Whether names of a directory come and go without requests for this directory, so that no client may cache them. Cheap.
    fn is_volatile(&self, _directory: Handle) -> bool {
        false
    }

    /// Space, as `caller` may use it.
    fn space(&self, caller: &Caller) -> FileReply<FileSpace>;

    /// The object of this name. Errors: `NotFound`, `NotDirectory`, `Access`.
    fn lookup(&self, caller: &Caller, directory: Handle, name: &Name) -> FileReply<Attributes>;

    /// The parent of a directory; the root's is the root. Errors: `NotDirectory`, `Access`.
    fn parent(&self, caller: &Caller, directory: Handle) -> FileReply<Attributes>;

    /// An object's attributes. Needs no permission.
    fn attributes(&self, of: Handle) -> FileReply<Attributes>;

    /// The object that has this number in the root's file system now, of any generation: for a client that kept only
    /// numbers and compares the generation itself. Errors: `Stale`, always where it is not supported.
    fn numbered(&self, _object: u64) -> FileReply<Attributes> {
        crate::Reply::now(Err(FileError::Stale))
    }

    /// Sets attributes in one step ([`permission::check_set`]). Errors: `Guard` if the guard does not match, `Access`,
    /// `NotOwner`, `IsDirectory` and `Invalid` for a size of what has none, `Invalid` for a mode with other bits, `Unsupported`
    /// for the mode of a symbolic link, `TooLarge`, `NoSpace`, `Quota`.
    fn set_attributes(
        &self,
        caller: &Caller,
        of: Handle,
        set: SetAttributes,
        stability: Stability,
    ) -> FileReply<Done<Change>>;

    /// The subset of `wanted` that the caller has.
    fn access(&self, caller: &Caller, of: Handle, wanted: Access) -> FileReply<Access>;

    /// Opens a regular file for this access. The object lives until the [`Hold`] is dropped, also without names. Errors:
    /// `Access`, `IsDirectory`, `Invalid` if it is no regular file.
    fn open(&self, caller: &Caller, of: Handle, access: Access) -> FileReply<Hold>;

    /// Creates an object. Errors: `Exists`, `NotDirectory`, `Access`, `NoSpace`, `Quota`, `NameNotUtf8`, `Links` (a directory
    /// with too many directories), `NotOwner` (a device), `Invalid` and `NameTooLong` for the target of a symbolic link.
    fn create(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        new: NewFile,
        if_exists: IfExists,
        stability: Stability,
    ) -> FileReply<Done<Created>>;

    /// The target of a symbolic link. Errors: `Invalid` if it is none.
    fn read_link(&self, of: Handle) -> FileReply<Vec<u8>>;

    /// One more name for a file. Errors: `Exists`, `NotFound` if it has no name any more, `NotOwner` for a directory, `Links`, `Access`, `NoSpace`, `Quota`.
    fn link(
        &self,
        caller: &Caller,
        of: Handle,
        directory: Handle,
        name: &Name,
        stability: Stability,
    ) -> FileReply<Done<Linked>>;

    /// Removes a name; the object with its last name, as soon as no [`Hold`] is left. Errors: `NotFound`, `Access`, `NotOwner`
    /// (sticky directory), `IsDirectory`, `NotDirectory`, `NotEmpty`. Works on a full file system.
    fn remove(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        kind: RemoveKind,
        stability: Stability,
    ) -> FileReply<Done<Removed>>;

    /// Renames an object; to another name of the same object, it changes nothing (POSIX). A replaced or exchanged name keeps
    /// its cookie. Errors: `NotFound`, `Exists`, `Invalid` (a directory
    /// into itself), `NotEmpty`, `IsDirectory`, `NotDirectory`, `Access`, `NotOwner`, `Links`, `NoSpace`, `Quota`.
    #[allow(clippy::too_many_arguments)] // two names, and how
    fn rename(
        &self,
        caller: &Caller,
        from: Handle,
        old: &Name,
        to: Handle,
        new: &Name,
        mode: RenameMode,
        stability: Stability,
    ) -> FileReply<Done<Renamed>>;

    /// Entries of a directory behind `after`, at least one unless the directory ends: at most `entries_max`, without `.` and
    /// `..`. A name that exists throughout several calls is returned exactly once. Errors: `NotDirectory`, `Access`.
    fn read_directory(
        &self,
        caller: &Caller,
        directory: Handle,
        after: Cookie,
        entries_max: usize,
        with_attributes: bool,
    ) -> FileReply<Listing>;

    /// Reads up to `len` bytes, and at most [`io::limits::BUF_LEN_MAX`]. Errors: `IsDirectory`, `Invalid` if it is no regular file.
    fn read(&self, of: Handle, offset: u64, len: usize) -> FileReply<ReadData>;

    /// Writes all of `data`, which may be a part of a request's buffer, at any alignment: whole or (on an error) not at all in each record. Removes the setuid and setgid bits as POSIX
    /// says for this caller. Errors: `IsDirectory`, `Invalid`, `TooLarge`, `NoSpace`, `Quota`.
    fn write(
        &self,
        caller: &Caller,
        of: Handle,
        at: WriteAt,
        data: SharedBuf,
        stability: Stability,
    ) -> FileReply<Done<Written>>;

    /// Makes every acknowledged mutation of an object durable, and its names.
    fn commit(&self, of: Handle) -> FileReply<Durable>;

    /// Makes every acknowledged mutation durable.
    fn commit_all(&self) -> FileReply<Durable>;

    /// Prepares a range of a file; the file grows to the range's end if `grows`. A change counts as a write by the caller; space
    /// that is only reserved is no change. Errors: as those of writing, `Invalid` for an empty range, and `Unsupported`.
    fn allocate(
        &self,
        caller: &Caller,
        of: Handle,
        range: Range<u64>,
        how: Allocate,
        grows: bool,
    ) -> FileReply<Change>;

    /// The next byte from `offset` on that the seek looks for. Errors: `NoData` if `offset` is at or behind the end of the
    /// file, or if no data follows.
    fn seek(&self, of: Handle, offset: u64, to: Seek) -> FileReply<u64>;

    /// The next byte of a range, below the end of the file, that the seek looks for; `None` if the range has none. The effort
    /// is bounded by the range.
    fn seek_within(&self, of: Handle, range: Range<u64>, to: Seek) -> FileReply<Option<u64>>;

    /// Copies up to `len` bytes between files, or within one if the ranges do not overlap, where the source ends with the file.
    /// Returns the bytes copied: 0 only at the end of the source or for no bytes. Errors: as those of reading and writing;
    /// `Invalid` if the ranges overlap.
    fn copy(
        &self,
        caller: &Caller,
        from: (Handle, u64),
        to: (Handle, u64),
        len: u64,
    ) -> FileReply<u64>;

    /// The value of an extended attribute. Errors: `NoAttribute`, `Unsupported` (unknown namespace), `Access`.
    fn xattr(&self, caller: &Caller, of: Handle, name: &[u8]) -> FileReply<Vec<u8>>;

    /// The names of the extended attributes that the caller may see, sorted.
    fn xattrs(&self, caller: &Caller, of: Handle) -> FileReply<Vec<Vec<u8>>>;

    /// Sets an extended attribute, or removes it if there is no value; `how` does not matter then. `NoSpace` also if the names would
    /// take more than [`XATTR_NAMES_MAX`] bytes. Errors: `Exists`, `NoAttribute`, `NameTooLong`,
    /// `TooLarge`, `Unsupported`, `Access`, `NotOwner`, `NoSpace`, `Quota`.
    fn set_xattr(
        &self,
        caller: &Caller,
        of: Handle,
        name: &[u8],
        value: Option<Vec<u8>>,
        how: SetXattr,
        stability: Stability,
    ) -> FileReply<Done<Change>>;

    /// The access control list; `None` if the mode says all.
    fn acl(&self, of: Handle) -> FileReply<Option<Acl>>;

    /// Sets the access control list, and the mode that follows from it (RFC 8881, section 6.4.1); with `None`, the mode says
    /// all from now on. Errors: `Access`, `NotOwner`, `Unsupported`, `NoSpace`, `Quota`.
    fn set_acl(
        &self,
        caller: &Caller,
        of: Handle,
        acl: Option<Acl>,
        stability: Stability,
    ) -> FileReply<Done<Change>>;

    /// Watches the entries of a directory from now on. Needs no permission: a protocol asks [`FileBackend::access`]. Errors:
    /// `NotDirectory`; `Exhausted` with [`WATCHES_MAX`] watches.
    fn watch(&self, directory: Handle) -> FileReply<Watch>;

    /// Whether [`FileBackend::lock`] keeps locks. Without it, a mount leaves locks to its kernel.
    fn keeps_locks(&self) -> bool {
        false
    }

    /// Locks or unlocks bytes of a file (`LockKind::Unlocked`); an owner's locks within them are replaced. Returns the lock that is in the
    /// way, if there is one: nothing was done then. Errors: `Unsupported`; `Exhausted` at a limit.
    fn lock(&self, _of: Handle, _lock: FileLock) -> FileReply<Option<FileLock>> {
        FileReply::now(Err(FileError::Unsupported))
    }

    /// The lock that would be in the way of another one. Errors: `Unsupported`.
    fn test_lock(&self, _of: Handle, _lock: FileLock) -> FileReply<Option<FileLock>> {
        FileReply::now(Err(FileError::Unsupported))
    }
}
