//! Copy (NVM 3.2.2), descriptor format 0: reads source ranges and writes them one after the other.
//!
//! **Called by** the I/O commands. **Invariants**: every limit that Identify Namespace announces (MSSRL, MCL, MSRC) and every
//! range is checked before the first read; memory is one range at a time, of at most [`super::limits::COPIES_MAX`] copies of a
//! connection; no step begins once the connection has ended.

use super::command::Command;
use super::io_commands::{durable, plain, readable, writable, writable_by_reservation};
use super::limits::{COPY_BYTES_MAX, COPY_RANGE_BYTES_MAX, COPY_RANGES_MAX};
use super::namespace_view::NamespaceView;
use super::phase::{Lifeline, QueueKind, Ready};
use super::request::Copy;
use super::status::of_storage;
use crate::wire::command::Nsid;
use crate::wire::copy;
use crate::wire::status::Status;
use backend::{BlockBackend, Extent, Lba, check_extent};
use io::buf::BufPool;
use io::sync::Semaphore;
use std::rc::Rc;
use std::sync::Arc;

/// A checked Copy.
struct CheckedCopy {
    view: Rc<NamespaceView>,
    sources: Vec<Extent>,
    target: Lba,
    bytes: u64,
}

impl Ready<'_> {
    /// Checks a Copy before its ranges are transferred.
    pub(super) fn check_copy(&self, nsid: Nsid, copy: Copy) -> Result<Rc<NamespaceView>, Status> {
        let view = self.namespace(nsid)?;
        writable_by_reservation(&view)?;
        if copy.format != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        if copy.ranges > COPY_RANGES_MAX {
            return Err(Status::NVM_COMMAND_SIZE_LIMIT.dnr());
        }
        if copy.is_protected {
            return Err(Status::NVM_INVALID_PROTECTION_INFO.dnr());
        }
        Ok(view)
    }

    fn check_ranges(&self, nsid: Nsid, copy: Copy, data: &[u8]) -> Result<CheckedCopy, Status> {
        let view = self.check_copy(nsid, copy)?;
        writable(&view)?;
        readable(&view)?;
        let ranges = copy::parse_ranges(data, copy.ranges)
            .map_err(|_| Status::DATA_SGL_LENGTH_INVALID.dnr())?;
        let g = view.ns.backend.geometry();
        let mut total = 0;
        let mut sources = Vec::with_capacity(ranges.len());
        for range in ranges {
            let at = Extent {
                start: Lba(range.slba.get()),
                blocks: u64::from(range.block_count()),
            };
            let bytes = at.bytes(g.block_size).map_err(of_storage)?;
            total += bytes;
            if bytes > u64::from(COPY_RANGE_BYTES_MAX) || total > u64::from(COPY_BYTES_MAX) {
                return Err(Status::NVM_COMMAND_SIZE_LIMIT.dnr());
            }
            check_extent(&g, at).map_err(of_storage)?;
            sources.push(at);
        }
        let target = Extent {
            start: Lba(copy.destination),
            blocks: sources.iter().map(|s| s.blocks).sum(),
        };
        check_extent(&g, target).map_err(of_storage)?;
        Ok(CheckedCopy {
            view,
            sources,
            target: target.start,
            bytes: total,
        })
    }

    /// Copy (NVM 3.2.2).
    pub(super) fn copy(&mut self, command: Command, copy: Copy, data: &[u8]) {
        let copies = match self.kind {
            QueueKind::Io { copies, .. } => copies.clone(),
            QueueKind::Admin(_) => return self.fail(command, Status::INVALID_OPCODE.dnr()),
        };
        let checked = match self.check_ranges(command.nsid(), copy, data) {
            Ok(checked) => checked,
            Err(status) => return self.fail(command, status),
        };
        self.common.tally.bytes_read += checked.bytes;
        self.common.tally.bytes_written += checked.bytes;
        let backend = checked.view.ns.backend.clone();
        let moved = copy_ranges(
            backend.clone(),
            self.common.link.pool().clone(),
            (self.lifeline(), copies),
            checked.sources,
            checked.target,
        );
        if copy.fua || !self.write_cache() {
            let flushed = async move {
                moved.await?;
                backend.flush().await
            };
            self.wait_on(command, flushed, durable);
        } else {
            self.wait_on(command, moved, plain);
        }
    }
}

async fn copy_ranges(
    backend: Arc<dyn BlockBackend>,
    pool: BufPool,
    (lifeline, copies): (Lifeline, Semaphore),
    sources: Vec<Extent>,
    mut target: Lba,
) -> backend::Result<()> {
    let _turn = copies.acquire(1).await;
    for source in sources {
        lifeline.check()?;
        let payload = backend.read(source).await?;
        let copied = match pool.try_alloc(payload.len()) {
            Some(mut buf) => {
                payload.copy_to(&mut buf);
                buf
            }
            None => {
                // A copy that waits for a buffer holds none, so that copies cannot starve each other.
                let mut bytes = vec![0; payload.len()];
                payload.copy_to(&mut bytes);
                drop(payload);
                let mut buf = pool.alloc(bytes.len()).await;
                buf.copy_from_slice(&bytes);
                buf
            }
        };
        lifeline.check()?;
        backend.write(target, copied).await?;
        target = Lba(target.0 + source.blocks);
    }
    Ok(())
}
