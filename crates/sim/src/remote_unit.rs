//! Access to a logical unit through the iSCSI initiator.

use crate::access::{Access, Failure, buffer_of};
use iscsi_initiator::{Error, Unit, WriteOptions};
use std::rc::Rc;
use std::sync::Arc;

/// A logical unit of a session.
#[derive(Clone)]
pub struct RemoteUnit(pub Rc<Unit>);

/// LOGICAL BLOCK ADDRESS OUT OF RANGE, and LOGICAL UNIT NOT SUPPORTED.
const OUT_OF_RANGE: u16 = 0x2100;
const NO_UNIT: u16 = 0x2500;

/// The model's failure for an initiator's error. A condition that no fault explains is `Wrong`.
#[must_use]
pub fn failure(e: &Error) -> Failure {
    match e {
        Error::Miscompare(_) => Failure::Miscompare,
        Error::Media(_) => Failure::Media,
        Error::NoSpace(_) => Failure::NoSpace,
        Error::Busy => Failure::NotNow,
        Error::Refused(s) if s.asc == OUT_OF_RANGE => Failure::OutOfRange,
        Error::Refused(s) if s.asc == NO_UNIT => Failure::Gone,
        Error::NotReady(_) => Failure::Gone,
        Error::Timeout
        | Error::Aborted
        | Error::Disconnected
        | Error::Closed
        | Error::Unreachable(_)
        | Error::NotAccepted => Failure::Unknown,
        Error::Refused(_) => Failure::Wrong("the unit refused a command"),
        Error::Protected(_) => Failure::Wrong("the unit is not write-protected"),
        Error::ReservationConflict => Failure::Wrong("nobody reserves the unit"),
        Error::UnexpectedStatus(_) => Failure::Wrong("an unexpected status"),
        Error::Invalid(what) | Error::Malformed(what) | Error::Authentication(what) => {
            Failure::Wrong(what)
        }
        Error::Protocol(_) => Failure::Wrong("the target broke the protocol"),
        Error::Rejected(_) => Failure::Wrong("the target says that we broke the protocol"),
        Error::LoginRefused(_) => Failure::Wrong("the login was refused"),
        Error::DataDigest => {
            Failure::Wrong("a data digest differs on a network that flips no bits")
        }
    }
}

fn told(r: iscsi_initiator::Result<()>) -> Result<(), Failure> {
    r.map_err(|e| failure(&e))
}

async fn shared(data: &[u8]) -> Arc<io::IoBuf> {
    Arc::new(buffer_of(data).await)
}

fn count(blocks: u64) -> u32 {
    u32::try_from(blocks).expect("extents are small")
}

impl Access for RemoteUnit {
    async fn read(&self, lba: u64, blocks: u64) -> Result<Vec<u8>, Failure> {
        let len = blocks as usize * self.0.block_size() as usize;
        let (r, buf) = self.0.read(lba, io::pool().alloc(len).await).await;
        told(r).map(|()| buf.to_vec())
    }

    async fn write(&self, lba: u64, data: &[u8], fua: bool) -> Result<(), Failure> {
        let options = WriteOptions { fua };
        told(self.0.write(lba, shared(data).await, options).await)
    }

    async fn flush(&self) -> Result<(), Failure> {
        told(self.0.flush().await)
    }

    async fn write_zeroes(&self, lba: u64, blocks: u64, deallocate: bool) -> Result<(), Failure> {
        // WRITE SAME may unmap blocks only if the unit supports it.
        let unmap = deallocate && self.0.capacity().provisioning;
        told(self.0.write_zeroes(lba, count(blocks), unmap).await)
    }

    async fn deallocate(&self, lba: u64, blocks: u64) -> Result<(), Failure> {
        if !self.0.capacity().provisioning {
            return Ok(());
        }
        told(self.0.unmap(&[(lba, count(blocks))]).await)
    }

    async fn compare(&self, lba: u64, expected: &[u8]) -> Result<(), Failure> {
        told(self.0.compare(lba, shared(expected).await).await)
    }

    async fn compare_and_write(
        &self,
        lba: u64,
        expected: &[u8],
        data: &[u8],
    ) -> Result<(), Failure> {
        let options = WriteOptions::default();
        told(self.0.compare_and_write(lba, expected, data, options).await)
    }
}
