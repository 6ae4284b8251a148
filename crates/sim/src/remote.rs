//! Access to a namespace through the NVMe/TCP initiator.

use crate::access::{Access, Failure, buffer_of};
use nvmf::wire::dsm::DsmRange;
use nvmf::wire::status::Status;
use nvmf_initiator::{Error, Namespace, WriteOptions};
use std::rc::Rc;
use std::sync::Arc;

/// A namespace of a connected controller.
#[derive(Clone)]
pub struct Remote(pub Rc<Namespace>);

/// The model's failure for an initiator's error. A status that no fault explains is `Wrong`.
#[must_use]
pub fn failure(e: &Error) -> Failure {
    match e {
        Error::Refused(s) if s.is(Status::COMPARE_FAILURE) => Failure::Miscompare,
        Error::Refused(s) if s.is(Status::UNRECOVERED_READ) || s.is(Status::WRITE_FAULT) => {
            Failure::Media
        }
        Error::Refused(s) if s.is(Status::CAPACITY_EXCEEDED) => Failure::NoSpace,
        Error::Refused(s) if s.is(Status::COMMAND_INTERRUPTED) => Failure::NotNow,
        Error::Refused(s) if s.is(Status::LBA_OUT_OF_RANGE) => Failure::OutOfRange,
        Error::Refused(s)
            if s.is(Status::NAMESPACE_NOT_READY) || s.is(Status::INVALID_NAMESPACE) =>
        {
            Failure::Gone
        }
        Error::Refused(s) => Failure::Wrong(s.name().unwrap_or("a status without a name")),
        Error::Timeout | Error::Disconnected | Error::Closed | Error::Unreachable(_) => {
            Failure::Unknown
        }
        Error::Invalid(what) | Error::NotReady(what) => Failure::Wrong(what),
        Error::Rejected(_) => Failure::Wrong("the connection request was rejected"),
        Error::ConnectRefused(_) => Failure::Wrong("connect was refused"),
        Error::Protocol(_) => Failure::Wrong("the target broke the protocol"),
        Error::Terminated { .. } => Failure::Wrong("the target says that we broke the protocol"),
        Error::Malformed(_) => Failure::Wrong("a malformed answer"),
        Error::DataDigest => {
            Failure::Wrong("a data digest differs on a network that flips no bits")
        }
    }
}

fn told(r: nvmf_initiator::Result<()>) -> Result<(), Failure> {
    r.map_err(|e| failure(&e))
}

async fn shared(data: &[u8]) -> Arc<io::IoBuf> {
    Arc::new(buffer_of(data).await)
}

impl Access for Remote {
    async fn read(&self, lba: u64, blocks: u64) -> Result<Vec<u8>, Failure> {
        let len = blocks as usize * self.0.block_size() as usize;
        let (r, buf) = self.0.read(lba, io::pool().alloc(len).await).await;
        told(r).map(|()| buf.to_vec())
    }

    async fn write(&self, lba: u64, data: &[u8], fua: bool) -> Result<(), Failure> {
        told(
            self.0
                .write(lba, shared(data).await, WriteOptions { fua })
                .await,
        )
    }

    async fn flush(&self) -> Result<(), Failure> {
        told(self.0.flush().await)
    }

    async fn write_zeroes(&self, lba: u64, blocks: u64, deallocate: bool) -> Result<(), Failure> {
        told(
            self.0
                .write_zeroes(lba, blocks, deallocate, WriteOptions::default())
                .await,
        )
    }

    async fn deallocate(&self, lba: u64, blocks: u64) -> Result<(), Failure> {
        let blocks = u32::try_from(blocks).expect("extents are small");
        told(self.0.deallocate(&[DsmRange::new(lba, blocks)]).await)
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
        told(
            self.0
                .compare_and_write(lba, shared(expected).await, shared(data).await)
                .await,
        )
    }
}
