//! Directories: LOOKUP, READDIR, CREATE, REMOVE, RENAME (§18.13, §18.23, §18.4, §18.25, §18.26).
//!
//! **Called by** users of a session. **Invariants**: entries of one reply, names and paths have named limits; a listing ends, as
//! each reply of a server must bring it further.

use super::attributes::{Attributes, LISTED};
use super::error::{Error, ProtocolError, Result};
use super::files::FileHandle;
use super::limits::{COMPONENTS_MAX, ENTRIES_MAX, NAME_LEN_MAX, READDIR_BYTES};
use super::session::Session;
use nfs::wire::attribute::{MODE, TYPE};
use nfs::wire::files::{NewType, ReadDir};
use nfs::wire::{Attrs, Bitmap, Op, Verifier, operation};
use nfs::xdr::{self, Reader, Writer};

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The position behind it.
    pub cookie: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// Its attributes.
    pub attributes: Attributes,
}

/// Entries of a directory, from a position on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Whether the directory ends with them.
    pub is_end: bool,
    verifier: Verifier,
}

fn page(reader: &mut Reader<'_>) -> xdr::Result<Page> {
    let mut page = Page {
        verifier: reader.array()?,
        entries: Vec::new(),
        is_end: false,
    };
    while reader.bool()? {
        if page.entries.len() == ENTRIES_MAX {
            return Err(xdr::XdrError::TooLong);
        }
        page.entries.push(Entry {
            cookie: reader.u64()?,
            name: reader.opaque(NAME_LEN_MAX)?.to_vec(),
            attributes: Attributes::decode(reader)?,
        });
    }
    page.is_end = reader.bool()?;
    Ok(page)
}

impl Session {
    /// The object at an absolute path, from the server's root on. Empty components are ignored.
    ///
    /// # Errors
    /// [`Error::Status`] with the operation that failed; [`Error::Invalid`] for a path with too many components.
    pub async fn walk(&self, path: &str) -> Result<FileHandle> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if parts.len() > COMPONENTS_MAX {
            return Err(Error::Invalid("a path with too many components"));
        }
        let mut operations = vec![Op::PutRootFh];
        operations.extend(parts.iter().map(|part| Op::Lookup {
            name: part.as_bytes(),
        }));
        operations.push(Op::GetFh);
        let mut results = self.call(&operations).await?;
        results.ok(operation::PUTROOTFH)?;
        for _ in &parts {
            results.ok(operation::LOOKUP)?;
        }
        results.ok(operation::GETFH)?;
        Ok(FileHandle(results.handle()?))
    }

    /// The object `name` in a directory, with attributes.
    ///
    /// # Errors
    /// [`Error::Status`], and errors of the connection.
    pub async fn lookup(&self, dir: &FileHandle, name: &str) -> Result<(FileHandle, Attributes)> {
        let operations = [
            Op::PutFh(&dir.0),
            Op::Lookup {
                name: name.as_bytes(),
            },
            Op::GetFh,
            Op::GetAttr(super::attributes::STAT),
        ];
        let mut results = self.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::LOOKUP)?;
        results.ok(operation::GETFH)?;
        let handle = FileHandle(results.handle()?);
        results.ok(operation::GETATTR)?;
        Ok((handle, results.read(Attributes::decode)?))
    }

    /// Entries of a directory with their attributes: the first ones, or those behind a page.
    ///
    /// # Errors
    /// [`Error::Status`], and errors of the connection.
    pub async fn read_directory(&self, dir: &FileHandle, behind: Option<&Page>) -> Result<Page> {
        let last = behind.and_then(|page| page.entries.last());
        let read = ReadDir {
            cookie: last.map_or(0, |entry| entry.cookie),
            verifier: behind.map_or([0; 8], |page| page.verifier),
            names_max: READDIR_BYTES.min(self.reply_max()),
            bytes_max: READDIR_BYTES.min(self.reply_max()),
            attributes: LISTED,
        };
        let operations = [Op::PutFh(&dir.0), Op::ReadDir(read)];
        let mut results = self.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::READDIR)?;
        let page = results.read(page)?;
        match page.entries.is_empty() && !page.is_end {
            true => Err(ProtocolError::Limit("a page of a directory without entries").into()),
            false => Ok(page),
        }
    }

    /// Creates a directory with mode 0755.
    ///
    /// # Errors
    /// [`Error::Status`], and errors of the connection.
    pub async fn create_directory(&self, dir: &FileHandle, name: &str) -> Result<FileHandle> {
        let mut values = Writer::new();
        values.u32(0o755);
        let values = values.to_vec();
        let operations = [
            Op::PutFh(&dir.0),
            Op::Create {
                kind: NewType::Directory,
                name: name.as_bytes(),
                attributes: Attrs {
                    mask: Bitmap::of(&[MODE]),
                    values: &values,
                },
            },
            Op::GetFh,
            Op::GetAttr(Bitmap::of(&[TYPE])),
        ];
        let mut results = self.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::CREATE)?;
        // Change information, and the attributes that were set.
        results.skip(4 + 8 + 8)?;
        results.bitmap()?;
        results.ok(operation::GETFH)?;
        Ok(FileHandle(results.handle()?))
    }

    /// Removes the name of a file, or an empty directory.
    ///
    /// # Errors
    /// [`Error::Status`], and errors of the connection.
    pub async fn remove(&self, dir: &FileHandle, name: &str) -> Result<()> {
        let operations = [
            Op::PutFh(&dir.0),
            Op::Remove {
                name: name.as_bytes(),
            },
        ];
        let mut results = self.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::REMOVE)
    }

    /// Gives an object another name, in the same directory or another one. An object that has the new name is replaced.
    ///
    /// # Errors
    /// [`Error::Status`], and errors of the connection.
    pub async fn rename(
        &self,
        (from, old): (&FileHandle, &str),
        (to, new): (&FileHandle, &str),
    ) -> Result<()> {
        let operations = [
            Op::PutFh(&from.0),
            Op::SaveFh,
            Op::PutFh(&to.0),
            Op::Rename {
                old: old.as_bytes(),
                new: new.as_bytes(),
            },
        ];
        let mut results = self.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::SAVEFH)?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::RENAME)
    }
}
