//! Inodes: the attributes of an object.
//!
//! **Owns** their encoding. **Called by** the filesystem and by datasets, which limit the size that they store. **Invariants**:
//! as for all formats, one value has one encoding. `docs/format.md`, "Inodes".

use backend::file::{FILE_SIZE_MAX, FileKind, Timestamp};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::OBJECT_END;
use crate::format::{Defect, Key, ObjectId, layout};

/// Length of an inode, bytes.
pub const INODE_SIZE: usize = 128;
/// Largest mode: permission, setuid, setgid and sticky bits.
pub const MODE_MAX: u16 = 0o7777;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawInode {
    version: u8,
    kind: u8,
    mode: U16,
    flags: U32,
    uid: U32,
    gid: U32,
    links: U32,
    reserved: [u8; 4],
    size: U64,
    used: U64,
    accessed: I64,
    modified: I64,
    changed: I64,
    created: I64,
    change: U64,
    generation: U64,
    parent: U64,
    entry: U64,
    device: U64,
    verifier: U64,
    reserved_2: [u8; 8],
}
layout!(RawInode, INODE_SIZE, version @ 0, kind @ 1, mode @ 2, flags @ 4, uid @ 8, gid @ 12, links @ 16, reserved @ 20,
    size @ 24, used @ 32, accessed @ 40, modified @ 48, changed @ 56, created @ 64, change @ 72, generation @ 80,
    parent @ 88, entry @ 96, device @ 104, verifier @ 112, reserved_2 @ 120);

/// Flags of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InodeFlags(u32);

impl InodeFlags {
    /// None.
    pub const NONE: Self = Self(0);
    /// The object has an access control list.
    pub const ACL: Self = Self(1);
    /// The object may have extended attributes.
    pub const XATTRS: Self = Self(2);
    /// The object may have further names.
    pub const LINKS: Self = Self(4);
    /// The object has the verifier of an exclusive creation.
    pub const VERIFIER: Self = Self(8);
    /// The file may have blocks that win over its records.
    pub const BLOCKS: Self = Self(16);
    /// The file's space is exactly that of its stored contents. Missing in inodes of earlier releases, and while some of the
    /// file's data has not left.
    pub const COUNTED: Self = Self(32);
    const ALL: u32 = 63;

    /// Whether it has all flags of `other`.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags, with the flag `of` as it is in `other`.
    #[must_use]
    pub fn taking(self, of: Self, other: Self) -> Self {
        Self(self.0 & !of.0 | other.0 & of.0)
    }

    /// These flags without those of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The attributes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inode {
    /// Its kind.
    pub kind: FileKind,
    /// Permission, setuid, setgid and sticky bits, up to [`MODE_MAX`].
    pub mode: u16,
    /// Whether there is a list, attributes, further names.
    pub flags: InodeFlags,
    /// User that owns it.
    pub uid: u32,
    /// Group that owns it.
    pub gid: u32,
    /// Number of names; of a directory: 2 and its subdirectories. Zero for an orphan.
    pub links: u32,
    /// Bytes of a file or of a symlink's target; number of entries of a directory. At most `FILE_SIZE_MAX`.
    pub size: u64,
    /// Bytes of space that its data takes, without compression. Kept by the dataset.
    pub used: u64,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of the contents.
    pub modified: Timestamp,
    /// Last change of contents or attributes.
    pub changed: Timestamp,
    /// Creation.
    pub created: Timestamp,
    /// Grows with each change of contents or attributes.
    pub change: u64,
    /// Random, so that a rollback never gives the same number and generation to another object.
    pub generation: u64,
    /// The directory of its first name; the root's is the root itself. Zero for an orphan.
    pub parent: ObjectId,
    /// Offset of the directory entry of its first name. Zero for the root and for an orphan.
    pub entry: u64,
    /// Number of a device; zero for other kinds.
    pub device: u64,
    /// The number of an exclusive creation; `None` once its times were set.
    pub verifier: Option<u64>,
}

/// The stored number of a kind.
pub(super) fn kind_number(kind: FileKind) -> u8 {
    match kind {
        FileKind::File => 1,
        FileKind::Directory => 2,
        FileKind::Symlink => 3,
        FileKind::Fifo => 4,
        FileKind::Socket => 5,
        FileKind::CharDevice => 6,
        FileKind::BlockDevice => 7,
    }
}

/// The kind of a stored number.
pub(super) fn kind_of(number: u8, field: &'static str) -> Result<FileKind, Defect> {
    match number {
        1 => Ok(FileKind::File),
        2 => Ok(FileKind::Directory),
        3 => Ok(FileKind::Symlink),
        4 => Ok(FileKind::Fifo),
        5 => Ok(FileKind::Socket),
        6 => Ok(FileKind::CharDevice),
        7 => Ok(FileKind::BlockDevice),
        _ => Err(Defect::Field {
            field,
            value: number.into(),
        }),
    }
}

impl Inode {
    /// Encodes the inode.
    ///
    /// # Panics
    /// If a field has a value that [`Inode::decode`] refuses.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        let flags = match self.verifier {
            Some(_) => self.flags.with(InodeFlags::VERIFIER),
            None => self.flags.without(InodeFlags::VERIFIER),
        };
        let raw = RawInode {
            version: 1,
            kind: kind_number(self.kind),
            mode: U16::new(self.mode),
            flags: U32::new(flags.0),
            uid: U32::new(self.uid),
            gid: U32::new(self.gid),
            links: U32::new(self.links),
            reserved: [0; 4],
            size: U64::new(self.size),
            used: U64::new(self.used),
            accessed: I64::new(self.accessed.0),
            modified: I64::new(self.modified.0),
            changed: I64::new(self.changed.0),
            created: I64::new(self.created.0),
            change: U64::new(self.change),
            generation: U64::new(self.generation),
            parent: U64::new(self.parent.0),
            entry: U64::new(self.entry),
            device: U64::new(self.device),
            verifier: U64::new(self.verifier.unwrap_or(0)),
            reserved_2: [0; 8],
        };
        if let Err(defect) = raw.check() {
            panic!("{defect}: {self:?}");
        }
        raw.as_bytes().into()
    }

    /// Decodes an inode.
    ///
    /// # Errors
    /// A wrong length, or the first field that is malformed, or reserved and not zero.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let raw = RawInode::read_from_bytes(bytes).map_err(|_| Defect::Length {
            what: "inode",
            got: bytes.len(),
            want: INODE_SIZE,
        })?;
        let kind = raw.check()?;
        let flags = InodeFlags(raw.flags.get());
        let has_verifier = flags.has(InodeFlags::VERIFIER);
        Ok(Self {
            kind,
            mode: raw.mode.get(),
            flags: flags.without(InodeFlags::VERIFIER),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            links: raw.links.get(),
            size: raw.size.get(),
            used: raw.used.get(),
            accessed: Timestamp(raw.accessed.get()),
            modified: Timestamp(raw.modified.get()),
            changed: Timestamp(raw.changed.get()),
            created: Timestamp(raw.created.get()),
            change: raw.change.get(),
            generation: raw.generation.get(),
            parent: ObjectId(raw.parent.get()),
            entry: raw.entry.get(),
            device: raw.device.get(),
            verifier: has_verifier.then_some(raw.verifier.get()),
        })
    }
}

impl RawInode {
    /// Checks all fields. Returns the kind.
    fn check(&self) -> Result<FileKind, Defect> {
        let kind = kind_of(self.kind, "kind of an inode")?;
        let flags = InodeFlags(self.flags.get());
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        let reserved = self.reserved != [0; 4] || self.reserved_2 != [0; 8];
        let checks = [
            (
                self.version == 1,
                "version of an inode",
                self.version.into(),
            ),
            (
                self.mode.get() <= MODE_MAX,
                "mode of an inode",
                self.mode.get().into(),
            ),
            (
                flags.0 & !InodeFlags::ALL == 0,
                "flags of an inode",
                flags.0.into(),
            ),
            (!reserved, "reserved bytes of an inode", 1),
            (
                self.size.get() <= FILE_SIZE_MAX,
                "size of an inode",
                self.size.get(),
            ),
            (
                self.used.get() <= FILE_SIZE_MAX,
                "space of an inode",
                self.used.get(),
            ),
            (
                self.parent.get() < OBJECT_END,
                "parent of an inode",
                self.parent.get(),
            ),
            (
                self.entry.get() < Key::OFFSET_END,
                "entry of an inode",
                self.entry.get(),
            ),
            (
                is_device || self.device.get() == 0,
                "device of an inode",
                self.device.get(),
            ),
            (
                flags.has(InodeFlags::VERIFIER) || self.verifier.get() == 0,
                "verifier of an inode",
                self.verifier.get(),
            ),
        ];
        match checks.into_iter().find(|(is_right, ..)| !is_right) {
            Some((_, field, value)) => Err(Defect::Field { field, value }),
            None => Ok(kind),
        }
    }
}
