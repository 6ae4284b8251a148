//! Random operations on the contents of a few files that every task knows.
//!
//! **Owns** [`Data`]. **Called by** scenario `files`. **Invariant**: a read during which no change became visible returns the
//! newest contents of the model.

use super::owners::judge_refusal;
use super::recorded::Recorded;
use crate::access::buffer_of;
use crate::model::Violation;
use backend::file::{
    Allocate, Caller, FileBackend, FileError, FileResult, Handle, SetAttributes, Stability, WriteAt,
};
use io::rng::Prng;
use pool::filesystem::FileSystem;
use pool::format::ObjectId;
use pool::format::filesystem::BLOCK_SIZE;

/// Largest size of a file, bytes: many records, also where they are large.
const SIZE_MAX: u64 = 100_000;
/// Bytes that belong to the beginning of a file: small files have their contents among the values.
const SMALL: u64 = 900;

/// Errors of the medium, which is sound, are violations. Other refusals are none.
pub(super) fn refused<T>(done: FileResult<T>) -> Result<Option<T>, Violation> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(e @ (FileError::Storage(_) | FileError::ReadOnly)) => {
            Err(Violation(format!("an operation: {e}")))
        }
        Err(_) => Ok(None),
    }
}

/// Operations of one task.
pub(super) struct Data {
    pub(super) files: FileSystem<Recorded>,
    pub(super) handles: Vec<Handle>,
    pub(super) rng: Prng,
    /// Chance that a mutation is durable when it is answered.
    pub(super) durable: f64,
    pub(super) caller: Caller,
    /// Whether the whole filesystem may have a quota.
    pub(super) has_quota: bool,
    /// Whether most changes of contents are at the ends of files.
    pub(super) is_at_ends: bool,
}

impl Data {
    fn file(&mut self) -> Handle {
        self.handles[self.rng.below(self.handles.len() as u64) as usize]
    }

    fn stability(&mut self) -> Stability {
        match self.rng.chance(self.durable) {
            true => Stability::Durable,
            false => Stability::Cached,
        }
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.rng.fill(&mut bytes);
        // half of the data can be compressed
        if self.rng.chance(0.5) {
            bytes.fill(1 + self.rng.below(255) as u8);
        }
        bytes
    }

    /// A write of bytes that the last block of a file has already.
    async fn write_last_block(&mut self) -> FileResult<()> {
        let of = self.file();
        let size = self.files.attributes(of).await?.size;
        let Some(last) = size.checked_sub(1) else {
            return Ok(());
        };
        let block = last - last % BLOCK_SIZE;
        let start = block + self.rng.below(size - block);
        let len = 1 + self.rng.below(size - start);
        let data = buffer_of(&self.bytes(len)).await;
        let (at, stability) = (WriteAt::Offset(start), self.stability());
        let written = self
            .files
            .write(&self.caller, of, at, data.into(), stability);
        written.await.map(drop)
    }

    /// The end of a file moves by a few blocks at most.
    async fn move_end(&mut self) -> FileResult<()> {
        let of = self.file();
        let size = self.files.attributes(of).await?.size;
        let size = match self.rng.chance(0.5) {
            true => size.saturating_sub(1 + self.rng.below(BLOCK_SIZE)),
            false => size + 1 + self.rng.below(4 * BLOCK_SIZE),
        };
        self.set_size_to(of, size.min(SIZE_MAX)).await
    }

    async fn write(&mut self) -> FileResult<Option<Violation>> {
        let len = match self.rng.below(3) {
            0 => 1 + self.rng.below(500),
            1 => 1 + self.rng.below(5000),
            _ => 1 + self.rng.below(40_000),
        };
        let start = match self.rng.chance(0.3) {
            true => self.rng.below(SMALL),
            false => self.rng.below(SIZE_MAX - len),
        };
        let at = match self.rng.chance(0.1) {
            true => WriteAt::End,
            false => WriteAt::Offset(start),
        };
        let (of, stability) = (self.file(), self.stability());
        let data = buffer_of(&self.bytes(len)).await;
        let before = self.files.attributes(of).await?;
        let written = self
            .files
            .write(&self.caller, of, at, data.into(), stability);
        match written.await {
            Err(FileError::Quota) if !self.has_quota => {
                let after = self.files.attributes(of).await?;
                Ok(judge_refusal(&before, &after))
            }
            other => other.map(|_| None),
        }
    }

    async fn set_size(&mut self) -> FileResult<()> {
        let most = if self.rng.chance(0.3) {
            SMALL
        } else {
            SIZE_MAX
        };
        let size = self.rng.below(most);
        let of = self.file();
        self.set_size_to(of, size).await
    }

    async fn set_size_to(&mut self, of: Handle, size: u64) -> FileResult<()> {
        let set = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let stability = self.stability();
        let set = self.files.set_attributes(&self.caller, of, set, stability);
        set.await.map(drop)
    }

    async fn allocate(&mut self) -> FileResult<()> {
        let start = self.rng.below(SIZE_MAX);
        let end = start + 1 + self.rng.below(SIZE_MAX);
        let how = match self.rng.below(4) {
            0 => Allocate::Reserve,
            1 => Allocate::Zero,
            _ => Allocate::Punch,
        };
        let grows = how != Allocate::Punch && self.rng.chance(0.3);
        let of = self.file();
        let done = self
            .files
            .allocate(&self.caller, of, start..end, how, grows);
        done.await.map(drop)
    }

    async fn copy(&mut self) -> FileResult<()> {
        let from = (self.file(), self.rng.below(SIZE_MAX));
        let to = (self.file(), self.rng.below(SIZE_MAX));
        let len = self.rng.below(40_000);
        let copied = self.files.copy(&self.caller, from, to, len);
        copied.await.map(drop)
    }

    async fn read(&mut self) -> FileResult<Option<Violation>> {
        let of = self.file();
        let object = ObjectId(of.object);
        let (offset, len) = (self.rng.below(SIZE_MAX), self.rng.below(50_000) as usize);
        let history = self.files.store().history.clone();
        let before = history.lock().contents_version(object);
        let read = self.files.read(of, offset, len).await?;
        let history = history.lock();
        if history.contents_version(object) != before {
            return Ok(None);
        }
        let mut found = vec![0; read.bytes.len()];
        read.bytes.copy_to(&mut found);
        let now = history.contents(object);
        let start = (offset as usize).min(now.len());
        let end = (start + len).min(now.len());
        let is_same = found == now[start..end];
        Ok((!is_same).then(|| {
            let at = found.iter().zip(&now[start..end]).position(|(a, b)| a != b);
            let (found, expected) = (found.len(), end - start);
            Violation(format!(
                "{object:?}: a read of {len} bytes from {offset} has {found} bytes, not {expected}, and differs at {at:?}"
            ))
        }))
    }

    /// One operation. Fails as the operation does.
    pub(super) async fn step(&mut self) -> FileResult<Option<Violation>> {
        if self.is_at_ends && self.rng.chance(0.75) {
            match self.rng.chance(0.5) {
                true => self.write_last_block().await?,
                false => self.move_end().await?,
            }
            return Ok(None);
        }
        match self.rng.below(14) {
            0..5 => return self.write().await,
            5 | 6 => self.set_size().await?,
            7 | 8 => self.allocate().await?,
            9 => self.copy().await?,
            10 => {
                let of = self.file();
                let _proof = self.files.commit(of).await?;
            }
            11 if self.rng.chance(0.3) => {
                let _proof = self.files.commit_all().await?;
            }
            _ => return self.read().await,
        }
        Ok(None)
    }
}
