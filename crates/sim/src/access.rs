//! Access to a disk for workloads: through the backend directly, or over the network.

use crate::model::WriteEnd;
use backend::{BlockBackend, Extent, Lba, StorageError};
use io::{IoBuf, Payload};
use std::sync::Arc;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// A compare found other data; nothing was written.
    Miscompare,
    /// The medium failed: a write happened or not.
    Media,
    /// The medium is full: a write happened or not.
    NoSpace,
    /// The server refused temporarily; nothing happened.
    NotNow,
    /// The request is beyond the end of the disk; nothing happened.
    OutOfRange,
    /// The disk disappeared during the request.
    Gone,
    /// No answer will arrive.
    Unknown,
    /// An error that no fault explains.
    Wrong(&'static str),
}

impl Failure {
    /// The effect of a write that failed in this way.
    #[must_use]
    pub fn of_write(self) -> WriteEnd {
        match self {
            Failure::Miscompare | Failure::NotNow | Failure::OutOfRange => WriteEnd::Refused,
            Failure::Media | Failure::NoSpace | Failure::Gone | Failure::Wrong(_) => {
                WriteEnd::Failed
            }
            Failure::Unknown => WriteEnd::Unknown,
        }
    }
}

/// A block device with one request per call. Lengths are whole blocks.
#[expect(async_fn_in_trait, reason = "the simulation has one thread")]
pub trait Access {
    /// Reads `blocks` blocks.
    async fn read(&self, lba: u64, blocks: u64) -> Result<Vec<u8>, Failure>;
    /// Writes; with `fua`, to stable storage.
    async fn write(&self, lba: u64, data: &[u8], fua: bool) -> Result<(), Failure>;
    /// Makes acknowledged writes durable.
    async fn flush(&self) -> Result<(), Failure>;
    /// Zeroes blocks; with `deallocate` their space may be freed.
    async fn write_zeroes(&self, lba: u64, blocks: u64, deallocate: bool) -> Result<(), Failure>;
    /// Deallocates blocks.
    async fn deallocate(&self, lba: u64, blocks: u64) -> Result<(), Failure>;
    /// Compares blocks with `expected`.
    async fn compare(&self, lba: u64, expected: &[u8]) -> Result<(), Failure>;
    /// Compares and writes as one atomic operation.
    async fn compare_and_write(
        &self,
        lba: u64,
        expected: &[u8],
        data: &[u8],
    ) -> Result<(), Failure>;
}

/// Returns a buffer with a copy of `data`.
pub async fn buffer_of(data: &[u8]) -> IoBuf {
    let mut buf = io::pool().alloc(data.len()).await;
    buf.copy_from_slice(data);
    buf
}

fn failure(e: StorageError) -> Failure {
    match e {
        StorageError::Miscompare(_) => Failure::Miscompare,
        StorageError::MediaRead | StorageError::MediaWrite => Failure::Media,
        StorageError::NoSpace => Failure::NoSpace,
        StorageError::Exhausted => Failure::NotNow,
        StorageError::OutOfRange => Failure::OutOfRange,
        StorageError::Offline | StorageError::Aborted => Failure::Gone,
        StorageError::ReadOnly => Failure::Wrong("a writable disk says that it is read-only"),
        StorageError::Corrupt => Failure::Wrong("undamaged data is said to be damaged"),
        StorageError::Unsupported => {
            Failure::Wrong("an operation that every disk has is unsupported")
        }
    }
}

fn copied(p: &Payload) -> Vec<u8> {
    let mut out = vec![0; p.len()];
    p.copy_to(&mut out);
    out
}

/// Access to a backend without a network.
#[derive(Clone)]
pub struct Direct(pub Arc<dyn BlockBackend>);

impl Access for Direct {
    async fn read(&self, lba: u64, blocks: u64) -> Result<Vec<u8>, Failure> {
        let at = Extent {
            start: Lba(lba),
            blocks,
        };
        self.0.read(at).await.map(|p| copied(&p)).map_err(failure)
    }

    async fn write(&self, lba: u64, data: &[u8], fua: bool) -> Result<(), Failure> {
        let buf = buffer_of(data).await;
        match fua {
            true => self
                .0
                .write_durable(Lba(lba), buf)
                .await
                .map(drop)
                .map_err(failure),
            false => self.0.write(Lba(lba), buf).await.map_err(failure),
        }
    }

    async fn flush(&self) -> Result<(), Failure> {
        self.0.flush().await.map(drop).map_err(failure)
    }

    async fn write_zeroes(&self, lba: u64, blocks: u64, deallocate: bool) -> Result<(), Failure> {
        let at = Extent {
            start: Lba(lba),
            blocks,
        };
        self.0.write_zeroes(at, deallocate).await.map_err(failure)
    }

    async fn deallocate(&self, lba: u64, blocks: u64) -> Result<(), Failure> {
        let at = Extent {
            start: Lba(lba),
            blocks,
        };
        self.0.deallocate(at).await.map_err(failure)
    }

    async fn compare(&self, lba: u64, expected: &[u8]) -> Result<(), Failure> {
        self.0
            .compare(Lba(lba), buffer_of(expected).await)
            .await
            .map_err(failure)
    }

    async fn compare_and_write(
        &self,
        lba: u64,
        expected: &[u8],
        data: &[u8],
    ) -> Result<(), Failure> {
        let (expected, data) = (buffer_of(expected).await, buffer_of(data).await);
        self.0
            .compare_and_write(Lba(lba), expected, data)
            .await
            .map_err(failure)
    }
}
