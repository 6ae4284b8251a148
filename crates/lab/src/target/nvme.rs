//! A namespace over NVMe/TCP, through the userspace initiator.

use super::address::NvmeTcp;
use super::{Facts, Session, Target};
use crate::{Error, Result};
use io::IoBuf;

/// A namespace of a subsystem.
#[derive(Clone)]
pub struct NvmeTarget {
    facts: Facts,
}

impl NvmeTarget {
    /// Opens.
    pub async fn open(t: &NvmeTcp) -> Result<NvmeTarget> {
        Err(Error::target(&t.host, "no initiator"))
    }
}

impl Target for NvmeTarget {
    type Session = NvmeSession;

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    async fn connect(&self, _depth: u32) -> Result<NvmeSession> {
        Ok(NvmeSession(self.facts.clone()))
    }
}

/// A session.
pub struct NvmeSession(Facts);

impl Session for NvmeSession {
    async fn read(&self, buf: IoBuf, _offset: u64) -> (Result<()>, IoBuf) {
        (Ok(()), buf)
    }
    async fn write(&self, buf: IoBuf, _offset: u64, _durable: bool) -> (Result<()>, IoBuf) {
        (Ok(()), buf)
    }
    async fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn facts(&self) -> Facts {
        self.0.clone()
    }
    fn epoch(&self) -> u64 {
        0
    }
    async fn close(self) {}
}
