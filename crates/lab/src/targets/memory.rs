//! Memory of this process: the limit of the machine's memory and of the engine.

use super::{Engine, Facts, Medium, Session, Target};
use crate::limits::BLOCK_SIZE_MAX;
use crate::size;
use crate::{Error, Result};
use io::IoBuf;
use io::ram::Region;
use std::sync::Arc;

/// A region of memory.
#[derive(Clone)]
pub struct MemoryTarget(Arc<Region>);

impl MemoryTarget {
    /// `bytes` of memory, written once so that it is allocated. Errors: `Usage` for none, `Io` without memory.
    pub fn new(bytes: u64) -> Result<MemoryTarget> {
        const PAGE: u64 = 4096;
        if bytes < PAGE {
            return Err(Error::usage(format!("mem:{bytes}"), "expected at least 4k"));
        }
        let region = Arc::new(Region::anonymous(bytes)?);
        for page in (0..bytes).step_by(PAGE as usize) {
            region.write(page, &(page ^ 0x5a5a_5a5a_5a5a_5a5a).to_le_bytes());
        }
        Ok(MemoryTarget(region))
    }
}

impl Target for MemoryTarget {
    type Session = MemorySession;

    fn facts(&self) -> Facts {
        Facts {
            size: self.0.len(),
            block_size: 512,
            transfer_max: BLOCK_SIZE_MAX,
            engine: Engine::Synchronous,
            medium: Medium::Ram,
            direct: None,
            holes: 0,
            caches: 0,
            transport: None,
            server_pid: None,
            description: format!("{} of this process's memory", size::size(self.0.len())),
        }
    }

    async fn connect(&self, _depth: u32) -> Result<MemorySession> {
        Ok(MemorySession(self.clone()))
    }
}

/// A job's use of memory.
pub struct MemorySession(MemoryTarget);

impl MemorySession {
    fn check(&self, len: usize, offset: u64) -> Result<()> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.0.0.len() => Ok(()),
            _ => Err(Error::Io(io::Error::Truncated)),
        }
    }
}

impl Session for MemorySession {
    async fn read(&self, mut buf: IoBuf, offset: u64) -> (Result<()>, IoBuf) {
        let r = self.check(buf.len(), offset);
        if r.is_ok() {
            self.0.0.read(offset, &mut buf);
        }
        // Nothing waits here, so without this one slot would monopolise the thread.
        io::yield_now().await;
        (r, buf)
    }

    async fn write(&self, buf: IoBuf, offset: u64, _durable: bool) -> (Result<()>, IoBuf) {
        let r = self.check(buf.len(), offset);
        if r.is_ok() {
            self.0.0.write(offset, &buf);
        }
        io::yield_now().await;
        (r, buf)
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn facts(&self) -> Facts {
        self.0.facts()
    }

    fn epoch(&self) -> u64 {
        0
    }

    async fn close(self) {}
}
