//! Access to the file that all clients write, as to a disk.
//!
//! **Called by** the jobs of the workload. FUA is a WRITE with DATA_SYNC4 or FILE_SYNC4, other writes are UNSTABLE4, a flush is a
//! COMMIT. A compare-and-write reads and writes under a lock; every other write has one, too, if the plan has that.

use super::expectations::failure;
use super::mount::{EXCLUSIVE, Live, SimMount, patiently};
use crate::access::{Access, Failure, buffer_of};
use io::time::sleep;
use nfs::wire::Status;
use nfs_initiator::{Error, LockOwner, Stable};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Pause before a lock is asked for again.
const LOCKED_PAUSE: Duration = Duration::from_millis(100);

/// See the module header.
#[derive(Clone)]
pub(super) struct RemoteFile(Rc<SimMount>);

impl RemoteFile {
    pub(super) fn new(mounted: Rc<SimMount>) -> RemoteFile {
        RemoteFile(mounted)
    }

    fn block_size(&self) -> u64 {
        self.0.share.block_size.into()
    }

    fn bytes(&self, lba: u64, len: usize) -> Range<u64> {
        let start = lba * self.block_size();
        start..start + len as u64
    }

    /// Makes calls of one session. An error that ends the session makes the next call connect again.
    async fn with<T>(
        &self,
        calls: impl AsyncFnOnce(&Live) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let live = self.0.live().await;
        let began = self.0.share.epoch();
        let answer = calls(&live).await;
        match answer {
            Ok(answer) => {
                self.0.share.verified(began, live.disk.verifier());
                Ok(answer)
            }
            Err(error) => {
                self.0.failed(&live, &error);
                Err(failure(&error))
            }
        }
    }

    /// Makes calls of one session while the bytes are locked.
    async fn locked<T>(
        &self,
        at: Range<u64>,
        calls: impl AsyncFnOnce(&Live) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        self.with(async |live| {
            let owner = self.0.new_owner();
            lock(live, &owner, at.clone()).await?;
            let answer = calls(live).await;
            // While the export is away, it is refused. Else the lock ends with the session.
            let unlocked = patiently(async || live.disk.unlock(&owner, at.clone()).await).await;
            let answer = answer?;
            unlocked.map(|()| answer)
        })
        .await
    }
}

async fn lock(live: &Live, owner: &LockOwner, at: Range<u64>) -> Result<(), Error> {
    loop {
        match live.disk.lock(owner, at.clone(), EXCLUSIVE).await {
            Err(error) if error.status() == Some(Status::Denied) => sleep(LOCKED_PAUSE).await,
            ended => return ended,
        }
    }
}

/// Reads bytes; those behind the end of the file are zeroes.
async fn read(live: &Live, at: Range<u64>) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let len = (at.end - at.start) as usize;
    while bytes.len() < len {
        let most = (len - bytes.len()).min(live.session.transfer_max() as usize);
        let buf = io::pool().alloc(most).await;
        let (answer, buf) = live.disk.read(at.start + bytes.len() as u64, buf).await;
        match answer? {
            0 => bytes.resize(len, 0),
            received => bytes.extend_from_slice(&buf[..received]),
        }
    }
    Ok(bytes)
}

async fn write(live: &Live, start: u64, data: &[u8], stable: Stable) -> Result<(), Error> {
    let mut done = 0;
    while done < data.len() {
        let most = (data.len() - done).min(live.session.transfer_max() as usize);
        let buf = Arc::new(buffer_of(&data[done..done + most]).await);
        done += live.disk.write(start + done as u64, buf, stable).await?;
    }
    Ok(())
}

impl Access for RemoteFile {
    async fn read(&self, lba: u64, blocks: u64) -> Result<Vec<u8>, Failure> {
        let at = self.bytes(lba, (blocks * self.block_size()) as usize);
        self.with(async |live| read(live, at).await).await
    }

    async fn write(&self, lba: u64, data: &[u8], fua: bool) -> Result<(), Failure> {
        let stable = match (fua, lba % 2) {
            (false, _) => Stable::Unstable,
            (true, 0) => Stable::Data,
            (true, _) => Stable::File,
        };
        let at = self.bytes(lba, data.len());
        let start = at.start;
        let calls = async |live: &Live| write(live, start, data, stable).await;
        match self.0.share.locks_blocks {
            true => self.locked(at, calls).await,
            false => self.with(calls).await,
        }
    }

    async fn flush(&self) -> Result<(), Failure> {
        self.with(async |live| live.disk.commit().await).await
    }

    async fn write_zeroes(&self, lba: u64, blocks: u64, _deallocate: bool) -> Result<(), Failure> {
        let zeroes = vec![0; (blocks * self.block_size()) as usize];
        self.write(lba, &zeroes, false).await
    }

    async fn deallocate(&self, lba: u64, blocks: u64) -> Result<(), Failure> {
        self.write_zeroes(lba, blocks, true).await
    }

    async fn compare(&self, lba: u64, expected: &[u8]) -> Result<(), Failure> {
        let at = self.bytes(lba, expected.len());
        let found = self.with(async |live| read(live, at).await).await?;
        match found == expected {
            true => Ok(()),
            false => Err(Failure::Miscompare),
        }
    }

    async fn compare_and_write(
        &self,
        lba: u64,
        expected: &[u8],
        data: &[u8],
    ) -> Result<(), Failure> {
        let at = self.bytes(lba, data.len());
        let calls = async |live: &Live| {
            if read(live, at.clone()).await? != expected {
                return Ok(Err(Failure::Miscompare));
            }
            let written = write(live, at.start, data, Stable::Unstable).await;
            written.map(Ok)
        };
        self.locked(at.clone(), calls).await?
    }
}
