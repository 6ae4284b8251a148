//! Results of a COMPOUND, read one after the other (§16.2).
//!
//! **Called by** everything that calls a server. **Invariants**: nothing is read beyond the reply; a result of another operation
//! than the expected one is an error.

use super::error::{Error, ProtocolError, Result};
use nfs::limits::{HANDLE_LEN_MAX, TAG_MAX};
use nfs::wire::{Bitmap, Stateid, Status};
use nfs::xdr::{self, Reader, Xdr};

/// The results that were not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results {
    /// The status of the COMPOUND: that of the last operation that was executed.
    pub status: Status,
    /// Number of operations that were executed.
    pub count: u32,
    bytes: Vec<u8>,
    at: usize,
}

/// Reads the head of a COMPOUND's results: its status code, and the number of results.
pub(super) fn head(reader: &mut Reader<'_>) -> xdr::Result<(u32, u32)> {
    let code = reader.u32()?;
    reader.opaque(TAG_MAX)?;
    Ok((code, reader.u32()?))
}

/// Reads the number and the status of a result. Errors: a result of another operation; its status.
pub(super) fn succeeded(reader: &mut Reader<'_>, operation: u32) -> Result<()> {
    let found = reader.u32()?;
    if found != operation {
        return Err(ProtocolError::Operation(found, operation).into());
    }
    match reader.u32()? {
        0 => Ok(()),
        code => Err(failure(operation, code)),
    }
}

fn failure(operation: u32, code: u32) -> Error {
    match Status::from_code(code) {
        Some(status) => Error::Status { operation, status },
        None => Error::UnknownStatus { operation, code },
    }
}

impl Results {
    /// The results of a COMPOUND with this many operations that began at the reader's position.
    pub(super) fn of(reader: &mut Reader<'_>) -> Result<Self> {
        let (code, count) = head(reader)?;
        Self::behind_head(code, count, reader.rest().to_vec())
    }

    /// The results behind the head.
    pub(super) fn behind_head(code: u32, count: u32, bytes: Vec<u8>) -> Result<Self> {
        let status = Status::from_code(code);
        Ok(Self {
            // The last operation with an unknown status is where the caller ends.
            status: status.unwrap_or(Status::Serverfault),
            count,
            bytes,
            at: 0,
        })
    }

    /// Reads a value.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the bytes are none.
    pub fn read<T>(&mut self, read: impl FnOnce(&mut Reader<'_>) -> xdr::Result<T>) -> Result<T> {
        self.with(|reader| read(reader).map_err(Error::from))
    }

    fn with<T>(&mut self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        let mut reader = Reader::new(&self.bytes[self.at..]);
        let value = read(&mut reader);
        self.at = self.bytes.len() - reader.rest().len();
        value
    }

    /// Reads a value in the encoding of its type.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the bytes are none.
    #[allow(clippy::redundant_closure)] // `T::decode` is of one lifetime only
    pub fn value<T: for<'a> Xdr<'a>>(&mut self) -> Result<T> {
        self.read(|reader| T::decode(reader))
    }

    /// The next result is of this operation, and is a success.
    ///
    /// # Errors
    /// [`Error::Status`] with its status; [`Error::Protocol`] if it is of another operation, or missing.
    pub fn ok(&mut self, operation: u32) -> Result<()> {
        if self.at == self.bytes.len() && self.status != Status::Ok {
            // The COMPOUND as a whole was refused, before its first operation.
            return Err(failure(operation, self.status.code()));
        }
        self.with(|reader| succeeded(reader, operation))
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn u32(&mut self) -> Result<u32> {
        self.value()
    }

    /// A number of 64 bits.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn u64(&mut self) -> Result<u64> {
        self.value()
    }

    /// A fixed number of bytes.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.read(|reader| reader.array())
    }

    /// Passes over bytes.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn skip(&mut self, len: usize) -> Result<()> {
        self.read(|reader| reader.take(len).map(drop))
    }

    /// A stateid.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn stateid(&mut self) -> Result<Stateid> {
        self.value()
    }

    /// A set of attributes.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn bitmap(&mut self) -> Result<Bitmap> {
        self.value()
    }

    /// A file handle.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn handle(&mut self) -> Result<Vec<u8>> {
        self.read(|reader| reader.opaque(HANDLE_LEN_MAX).map(<[u8]>::to_vec))
    }
}
