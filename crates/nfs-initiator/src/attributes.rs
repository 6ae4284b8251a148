//! Values of attributes (§5), as far as this client reads them.
//!
//! **Called by** operations on files and directories. **Invariants**: values are read in the order of their numbers; an attribute
//! that was not asked for is an error.

use super::limits::PRINCIPAL_LEN_MAX;
use nfs::limits::HANDLE_LEN_MAX;
use nfs::wire::attribute::*;
use nfs::wire::{Attrs, Bitmap};
use nfs::xdr::{Reader, Result, Xdr, XdrError};

/// The kind of an object (`nfs_ftype4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// NF4REG.
    File,
    /// NF4DIR.
    Directory,
    /// NF4LNK.
    Symlink,
    /// Another kind, by its number.
    Other(u32),
}

/// Attributes of an object. A missing value is zero or empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Its kind.
    pub kind: Kind,
    /// A number that changes with the object.
    pub change: u64,
    /// Size, bytes.
    pub size: u64,
    /// Its number in the file system.
    pub id: u64,
    /// Permissions.
    pub mode: u32,
    /// Names.
    pub links: u32,
    /// Owner, as text.
    pub owner: Vec<u8>,
    /// Group, as text.
    pub group: Vec<u8>,
    /// Bytes of storage that it uses.
    pub used: u64,
    /// Last modification: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    /// Its file handle.
    pub handle: Vec<u8>,
    /// Largest READ that the server answers in full, bytes.
    pub read_max: u64,
    /// Largest WRITE that the server takes in full, bytes.
    pub write_max: u64,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            kind: Kind::Other(0),
            change: 0,
            size: 0,
            id: 0,
            mode: 0,
            links: 0,
            owner: Vec::new(),
            group: Vec::new(),
            used: 0,
            modified: (0, 0),
            handle: Vec::new(),
            read_max: 0,
            write_max: 0,
        }
    }
}

/// The attributes that `ls -l` needs, with the file handle, as a kernel asks for them in READDIR.
pub const LISTED: Bitmap = Bitmap::of(&[
    TYPE,
    CHANGE,
    SIZE,
    FSID,
    RDATTR_ERROR,
    FILEHANDLE,
    FILEID,
    MODE,
    NUMLINKS,
    OWNER,
    OWNER_GROUP,
    RAWDEV,
    SPACE_USED,
    TIME_ACCESS,
    TIME_METADATA,
    TIME_MODIFY,
    MOUNTED_ON_FILEID,
]);

/// The attributes of a GETATTR for `stat`.
pub const STAT: Bitmap = Bitmap::of(&[
    TYPE,
    CHANGE,
    SIZE,
    FSID,
    FILEID,
    MODE,
    NUMLINKS,
    OWNER,
    OWNER_GROUP,
    RAWDEV,
    SPACE_USED,
    TIME_ACCESS,
    TIME_METADATA,
    TIME_MODIFY,
    MOUNTED_ON_FILEID,
]);

/// The attributes of a file that is opened.
pub(super) const OPENED: Bitmap = Bitmap::of(&[TYPE, CHANGE, SIZE, MAXREAD, MAXWRITE, SPACE_USED]);

impl Attributes {
    /// Reads `fattr4`. Errors: `Value` for an attribute that is not in [`LISTED`] and is no limit of I/O.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let attrs = Attrs::decode(reader)?;
        let mut all = Self::default();
        let mut values = Reader::new(attrs.values);
        for attribute in attrs.mask.iter() {
            all.value(attribute, &mut values)?;
        }
        match values.is_empty() && !attrs.mask.has_unknown() {
            true => Ok(all),
            false => Err(XdrError::Value),
        }
    }

    fn value(&mut self, attribute: u32, r: &mut Reader<'_>) -> Result<()> {
        match attribute {
            TYPE => {
                self.kind = match r.u32()? {
                    1 => Kind::File,
                    2 => Kind::Directory,
                    5 => Kind::Symlink,
                    other => Kind::Other(other),
                }
            }
            CHANGE => self.change = r.u64()?,
            SIZE => self.size = r.u64()?,
            FSID => drop(r.take(16)?),
            RDATTR_ERROR => drop(r.u32()?),
            FILEHANDLE => self.handle = r.opaque(HANDLE_LEN_MAX)?.to_vec(),
            FILEID => self.id = r.u64()?,
            MAXREAD => self.read_max = r.u64()?,
            MAXWRITE => self.write_max = r.u64()?,
            MODE => self.mode = r.u32()?,
            NUMLINKS => self.links = r.u32()?,
            OWNER => self.owner = r.opaque(PRINCIPAL_LEN_MAX)?.to_vec(),
            OWNER_GROUP => self.group = r.opaque(PRINCIPAL_LEN_MAX)?.to_vec(),
            RAWDEV => drop(r.take(8)?),
            SPACE_USED => self.used = r.u64()?,
            TIME_ACCESS | TIME_METADATA => drop(r.take(12)?),
            TIME_MODIFY => self.modified = (r.i64()?, r.u32()?),
            MOUNTED_ON_FILEID => drop(r.u64()?),
            _ => return Err(XdrError::Value),
        }
        Ok(())
    }
}
